"""Writes the reference vectors for intervals, two samples, slopes, looks and surfaces.

    python3 -m venv /tmp/vectors && /tmp/vectors/bin/pip install scipy==1.17.1 numpy contourpy
    /tmp/vectors/bin/python crates/stats/tests/vectors/make_run_vectors.py

The tests read the committed JSON; run this only to add cases.
"""

import json
import pathlib

import contourpy
import numpy as np
from scipy import optimize, stats

HERE = pathlib.Path(__file__).parent
RNG = np.random.default_rng(20250711)


def floats(values):
    return [float(v) for v in values]


def inverted(candidates, p_of, level):
    """Hull of the places where a test is not significant: its steps lie at the candidates."""
    candidates = np.unique(candidates)
    inside = [
        i
        for i in range(len(candidates) - 1)
        if p_of((candidates[i] + candidates[i + 1]) / 2) > 1 - level
    ]
    return float(candidates[inside[0]]), float(candidates[inside[-1] + 1])


def signed_rank_cases():
    """Intervals by inverting SciPy's exact test between all Walsh averages."""
    cases = []
    for n in (6, 8, 12, 20, 25, 40):
        values = RNG.normal(-0.02, 0.05, n)
        i, j = np.triu_indices(n)
        averages = (values[i] + values[j]) / 2
        for level in (0.8, 0.95, 0.98) if n >= 8 else (0.8, 0.95):
            low, high = inverted(
                averages, lambda mu: stats.wilcoxon(values - mu, method="exact").pvalue, level
            )
            cases.append({"values": floats(values), "level": level, "low": low, "high": high})
    return cases


def two_sample_cases():
    shapes = {(4, 4): 0.95, (5, 9): 0.8, (8, 30): 0.95, (9, 9): 0.95, (25, 25): 0.95, (20, 12): 0.9}
    cases = []
    for (n, m), level in shapes.items():
        a, b = RNG.normal(0, 0.05, n), RNG.normal(-0.03, 0.05, m)
        differences = (b[:, None] - a[None, :]).ravel()
        low, high = inverted(
            differences,
            lambda by: stats.mannwhitneyu(b - by, a, method="exact").pvalue,
            level,
        )
        cases.append({
            "from": floats(a), "to": floats(b), "level": level, "low": low, "high": high,
            "estimate": float(np.median(differences)),
            "p": float(stats.mannwhitneyu(b, a, method="auto").pvalue),
        })
    for n, m in ((6, 7), (12, 15), (40, 60)):
        a, b = np.round(RNG.normal(0, 2, n)), np.round(RNG.normal(1, 2, m))
        cases.append({
            "from": floats(a), "to": floats(b), "level": 0.95, "low": None, "high": None,
            "estimate": float(np.median((b[:, None] - a[None, :]).ravel())),
            "p": float(stats.mannwhitneyu(b, a, method="auto").pvalue),
        })
    return cases


def slope_cases():
    cases = []
    for n, rounded in ((5, False), (9, False), (30, False), (30, True), (90, True)):
        x = np.round(RNG.uniform(0, 8, n)) * 25 if rounded else np.sort(RNG.uniform(0, 200, n))
        y = 1.7 + 0.009 * x + RNG.standard_t(2, n) * 0.05
        if rounded:
            y = np.round(y, 1)
        for level in (0.95, 0.8):
            line = stats.theilslopes(y, x, level, method="separate")
            cases.append({
                "x": floats(x), "y": floats(y), "level": level, "slope": float(line.slope),
                "at_zero": float(line.intercept), "low": float(line.low_slope),
                "high": float(line.high_slope),
            })
    return cases


def look_cases():
    """Widening for several looks from SciPy's multivariate normal distribution."""
    cases = []
    for looks, level in (((12, 24), 0.95), ((12, 24, 49, 100), 0.95), ((12, 15, 20, 25), 0.9)):
        n = np.array(looks, dtype=float)
        correlation = np.sqrt(np.minimum.outer(n, n) / np.maximum.outer(n, n))

        def inside(c):
            box = np.full(len(n), c)
            law = stats.multivariate_normal(
                cov=correlation, maxpts=4_000_000, abseps=1e-7, releps=1e-7, seed=1
            )
            return law.cdf(box, lower_limit=-box)

        c = optimize.brentq(lambda c: inside(c) - level, 1, 5, xtol=1e-7)
        cases.append({
            "looks": looks, "level": level, "level_of_each": float(2 * stats.norm.cdf(c) - 1),
        })
    return cases


def null_cases():
    return [
        {
            "cells": cells, "flagged": flagged, "level": level,
            "chance": float(stats.binom.sf(flagged - 1, cells, 1 - level)),
        }
        for cells, flagged, level in ((9, 1, 0.95), (36, 4, 0.95), (180, 15, 0.95), (36, 7, 0.8))
    ]


def contour_cases():
    """All corners of the lines of one level, sorted; squares are cut as contourpy cuts them."""
    cases = []
    for width, height in ((4, 3), (6, 6), (11, 9)):
        xs, ys = np.cumsum(RNG.uniform(0.5, 2, width)), np.cumsum(RNG.uniform(0.5, 2, height))
        values = RNG.normal(0, 1, (height, width))
        lines = contourpy.contour_generator(xs, ys, values, name="serial").lines(0.25)
        closed = [bool(np.array_equal(line[0], line[-1])) for line in lines]
        corners = sorted(
            [float(x), float(y)]
            for line, loop in zip(lines, closed)
            for x, y in (line[:-1] if loop else line)
        )
        cases.append({
            "xs": floats(xs), "ys": floats(ys), "values": floats(values.ravel()), "level": 0.25,
            "corners": corners, "open": closed.count(False),
        })
    return cases


def kriging_cases():
    """One Gaussian process: a plane with standard deviations of 1 plus a Matérn 5/2 deviation."""

    def covariance(a, b, lengths, size):
        d = (a[:, None, :] - b[None, :, :]) / np.array(lengths)
        r = np.sqrt(5 * (d**2).sum(axis=2))
        return 1 + a @ b.T + size**2 * (1 + r + r**2 / 3) * np.exp(-r)

    cases = []
    for n, lengths, size in ((1, (0.6, 0.6), 0.2), (6, (0.25, 1.5), 0.07), (15, (0.6, 0.25), 0.6)):
        at, place = RNG.uniform(0, 1, (n, 2)), RNG.uniform(0, 1, (1, 2))
        values, variances = RNG.normal(0, 0.1, n), RNG.uniform(1e-5, 1e-3, n)
        within = covariance(at, at, lengths, size) + np.diag(variances)
        across = covariance(place, at, lengths, size)[0]
        own = covariance(place, place, lengths, size)[0, 0]
        cases.append({
            "lengths": lengths, "size": size, "at": at.tolist(), "values": floats(values),
            "variances": floats(variances), "place": floats(place[0]),
            "log_likelihood": float(stats.multivariate_normal(cov=within).logpdf(values)),
            "mean": float(across @ np.linalg.solve(within, values)),
            "variance": float(own - across @ np.linalg.solve(within, across)),
        })
    return cases


def write(name, cases):
    text = ",\n".join(json.dumps(case) for case in cases)
    (HERE / f"{name}.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    write("signed_rank", signed_rank_cases())
    write("two_sample", two_sample_cases())
    write("slope", slope_cases())
    write("look", look_cases())
    write("null", null_cases())
    write("contour", contour_cases())
    write("kriging", kriging_cases())
