#!/usr/bin/env python3
"""Recomputes what README.md says of its first results from the rows as they were measured.

    python3 examples/readme_claims.py [RUN [README]]

Shares no code with altway and needs nothing but Python 3.9: medians, the Hodges-Lehmann estimate of the paired
log-ratios with the exact interval of Wilcoxon's signed-rank test, between which delays HTTP/3 becomes the faster one, and
from where on by more than 3 %. The run of the delays in between is asked for the first of these as well.
Exits with 1 where README.md says something else. RUN is the one that README.md names.
"""

import csv
import math
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAD = 3.0
LEVEL = 0.95


def transfers(run):
    """{delay in ms: {block: {protocol: µs}}} of the transfers that count."""
    found = defaultdict(lambda: defaultdict(dict))
    with open(run / "samples.csv", newline="") as file:
        for row in csv.DictReader(file):
            counts = row["valid"] == "true" and row.get("null_arm", "false") == "false"
            if counts and row.get("request", "0") == "0":
                time = float(row.get("compared_us") or row["total_us"])
                found[int(row["delay_us"]) / 1000][row["block"]][row["protocol"]] = time
    return found


def rank_below(n):
    """The largest k for which the k smallest Walsh averages lie outside of the interval."""
    ways = [1]
    for rank in range(1, n + 1):
        wider = ways + [0] * rank
        for total, count in enumerate(ways):
            wider[total + rank] += count
        ways = wider
    below, k = 0, 0
    while (below + ways[k]) / 2**n <= (1 - LEVEL) / 2:
        below += ways[k]
        k += 1
    return k


def difference(logs):
    """Estimate and interval in per cent."""
    averages = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    k = rank_below(len(logs))
    ends = (averages[k - 1], averages[-k]) if k else (-math.inf, math.inf)
    return [math.expm1(value) * 100 for value in (statistics.median(averages), *ends)]


def winner(estimate, low, high):
    if low > 0 and estimate > LEAD:
        return "HTTP/2"
    if high < 0 and estimate < -LEAD:
        return "HTTP/3"
    return "tie" if -LEAD < low and high < LEAD else "open"


def recomputed(run):
    """Rows like those of the table, each with its estimate."""
    rows = []
    for delay, blocks in sorted(transfers(run).items()):
        pairs = [times for times in blocks.values() if {"h2", "h3"} <= times.keys()]
        medians = [
            statistics.median(t[p] for t in blocks.values() if p in t) / 1e6 for p in ("h2", "h3")
        ]
        found = difference([math.log(times["h3"] / times["h2"]) for times in pairs])
        rows.append((delay, medians, found, winner(*found)))
    return rows


def stated(readme):
    """The table's rows as numbers, in the form of `recomputed`."""
    pattern = re.compile(
        r"^\| ([\d.]+) ms \| ([\d.]+) s \| ([\d.]+) s \| ([+-][\d.]+|0\.0) % "
        r"\(([+-][\d.]+|0\.0) to ([+-][\d.]+|0\.0)\) \| (\S+) \|$",
        re.M,
    )
    text = readme.read_text().replace("\u2212", "-")
    rows = []
    for match in pattern.finditer(text):
        delay, h2, h3, *found = map(float, match.groups()[:6])
        rows.append((delay, [h2, h3], found, match[7]))
    return rows, " ".join(text.split())


def bracket(rows, least):
    """The last delay at which the whole interval is above `least`, and the first from which on it is below."""
    below = [delay for delay, _, (_, _, high), _ in rows if high < least]
    others = [delay for delay, _, (_, _, high), _ in rows if high >= least]
    above = [delay for delay, _, (_, low, _), _ in rows if low > least]
    return max(above), min(delay for delay in below if delay > max(others))


def run_named(readme, link):
    """The folder to which README.md links by these words."""
    return ROOT / "results" / re.search(rf"\[{link}\]\(results/([\w.-]+)/\)", readme.read_text())[1]


def main():
    readme = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "README.md"
    run = Path(sys.argv[1]) if len(sys.argv) > 1 else run_named(readme, "The whole run")
    rows, (told, text) = recomputed(run), stated(readme)
    between = recomputed(run_named(readme, "a run of the delays in between"))
    faults = []
    if [row[0] for row in rows] != [row[0] for row in told]:
        faults.append("README.md's table has other delays than the run")
    for ours, theirs in zip(rows, told):
        # A unit of the last place that is printed.
        medians = all(abs(a - b) < 0.0011 for a, b in zip(ours[1], theirs[1]))
        found = all(abs(a - b) < 0.11 for a, b in zip(ours[2], theirs[2]))
        if not (medians and found and ours[3] == theirs[3]):
            faults.append(f"at {ours[0]:g} ms the rows say {ours}, README.md {theirs}")
        print("%5g ms  %.3f s  %.3f s  %+.1f %% (%+.1f to %+.1f)  %s" % (ours[0], *ours[1], *ours[2], ours[3]))
    for before, measured, least in (("faster", rows, 0), ("faster", between, 0), ("3 % from", rows, -LEAD)):
        low, high = bracket(measured, least)
        claim = f"{before} somewhere between {low:g} and {high:g} ms"
        print(claim)
        if claim not in text:
            faults.append(f"README.md does not say `{claim}`")
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return 1 if faults or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
