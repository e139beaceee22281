"""Writes the reference vectors beside this file, from SciPy 1.17 and NumPy 2.

    python3 -m venv /tmp/vectors && /tmp/vectors/bin/pip install scipy==1.17.1 numpy
    /tmp/vectors/bin/python crates/stats/tests/vectors/make_vectors.py

The tests read the committed JSON; run this only to add cases.
"""

import itertools
import json
import pathlib

import numpy as np
from scipy import optimize, stats

HERE = pathlib.Path(__file__).parent
RNG = np.random.default_rng(20240607)


def samples():
    """Samples of the shapes that paired measurements have: name -> values."""
    made = {}
    for n in (1, 2, 3, 5, 6, 12, 13, 14, 20, 25, 50, 51, 60, 200):
        made[f"normal-{n}"] = RNG.normal(-0.02, 0.05, n)
    made["skewed-25"] = RNG.exponential(0.1, 25) - 0.05
    made["heavy-tails-30"] = RNG.standard_t(2, 30) * 0.05
    for n in (5, 13, 14, 40, 80):
        made[f"ties-{n}"] = np.round(RNG.normal(0.5, 2, n)) + 0.5
        made[f"zeros-and-ties-{n}"] = np.round(RNG.normal(0.5, 1, n))
    made["one-sign-8"] = RNG.uniform(0.01, 0.2, 8)
    return {name: [float(v) for v in values] for name, values in made.items()}


def walsh_median(values):
    values = np.asarray(values)
    i, j = np.triu_indices(len(values))
    return float(np.median((values[i] + values[j]) / 2))


def rank_cases(named):
    cases = []
    for name, values in named.items():
        result = stats.wilcoxon(
            values, zero_method="wilcox", correction=False, alternative="two-sided", method="auto"
        )
        cases.append({
            "name": name,
            "values": values,
            "hodges_lehmann": walsh_median(values),
            "statistic": float(result.statistic),
            "p": float(result.pvalue),
        })
    return cases


def summary_cases(named):
    cases = []
    for name, values in named.items():
        times = np.exp(values)
        several = len(times) > 1
        cases.append({
            "name": name,
            "values": list(map(float, times)),
            "mean": float(np.mean(times)),
            "median": float(np.median(times)),
            "p90": float(np.quantile(times, 0.9)),
            "p95": float(np.quantile(times, 0.95)),
            "std_dev": float(np.std(times, ddof=1)) if several else None,
            "coefficient_of_variation":
                float(stats.variation(times, ddof=1)) if several else None,
            "fastest_fifth_mean": float(np.mean(np.sort(times)[: -(-len(times) // 5)])),
        })
    return cases


def bootstrap_cases(named):
    """Intervals from half a million resamples: what ours tend to as resamples grow."""
    cases = []
    statistics = {"mean": np.mean, "median": np.median}
    for name in ("normal-12", "normal-25", "normal-60", "skewed-25", "heavy-tails-30"):
        for statistic, level, method in itertools.product(
            statistics, (0.95, 0.8), ("BCa", "percentile")
        ):
            result = stats.bootstrap(
                (named[name],), statistics[statistic], n_resamples=500_000, batch=20_000,
                confidence_level=level, method=method, rng=np.random.default_rng(1),
            )
            cases.append({
                "name": name,
                "values": named[name],
                "statistic": statistic,
                "method": method,
                "level": level,
                "low": float(result.confidence_interval.low),
                "high": float(result.confidence_interval.high),
            })
    return cases


def multiplicity_cases():
    cases = []
    for n in (1, 2, 9, 40):
        p = np.round(RNG.uniform(0, 1, n) ** 3, 3)
        cases.append({
            "p": list(map(float, p)),
            "adjusted": list(map(float, stats.false_discovery_control(p, method="bh"))),
        })
    return cases


def crossover_cases():
    """One value per point and weight n by repeating it: isotonic fit, then its zero by interpolation."""
    cases = []
    x = np.arange(0, 225, 25.0)
    while len(cases) < 20:
        levels = np.linspace(0.1, -0.1, len(x)) + RNG.normal(0, 0.06, len(x))
        weights = RNG.integers(1, 6, len(x))
        fit = optimize.isotonic_regression(levels, weights=weights, increasing=False).x
        if fit[0] <= 0 or fit[-1] >= 0:
            continue
        cases.append({
            "x": list(map(float, x)),
            "levels": list(map(float, levels)),
            "weights": list(map(int, weights)),
            "crossing": float(np.interp(0, -fit, x)),
        })
    return cases


def write(name, cases):
    text = ",\n".join(json.dumps(case) for case in cases)
    (HERE / f"{name}.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    NAMED = samples()
    write("rank", rank_cases(NAMED))
    write("summary", summary_cases(NAMED))
    write("bootstrap", bootstrap_cases(NAMED))
    write("multiplicity", multiplicity_cases())
    write("crossover", crossover_cases())
