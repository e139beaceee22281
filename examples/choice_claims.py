#!/usr/bin/env python3
"""Recomputes what README.md and docs/evidence.md say of policies over links from the rows as they were measured.

    python3 examples/choice_claims.py

Shares no code with altway and needs nothing but Python 3.9. A session takes from the start of its first request to the end
of its last; figures are geometric means over sessions from the client's second on, against the better of `h2` and `h3` on
that link. On fast clean links they are medians of the ratios to `h2` in the same session, from the third on. Over 36 links `h3` is
held against `h2` alone, pair by pair, with the interval of the signed-rank test (Hodges and Lehmann 1963); other intervals are not
recomputed. Exits with 1 where a table says something else.
"""

import csv
import math
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
POLICIES = ["h2", "h2 again", "h3", "study", "learned"]
TABLES = {
    "Eight links": ["2026-11-26-2core-vm-selection-corners"],
    "Twelve links without loss": [
        "2026-11-27-2core-vm-selection-50-clean",
        "2026-11-27-2core-vm-selection-200-clean",
        "2026-11-27-2core-vm-selection-fast-clean",
    ],
    "Six links with loss at 200 Mbit/s": ["2026-11-26-2core-vm-selection-200"],
    "Chromium without loss at 200 Mbit/s": ["2026-11-27-2core-vm-selection-200-chromium"],
    "Chromium without loss at 600 Mbit/s and 1 Gbit/s": [
        "2026-11-28-2core-vm-selection-fast-chromium"
    ],
    "Chromium at 12.5 ms once more": ["2026-11-29-2core-vm-selection-fast-chromium-12ms"],
    "Chromium on four fast links again": ["2026-11-29-2core-vm-selection-fast-chromium-again"],
    "Four links with loss at 50 Mbit/s": ["2026-11-27-2core-vm-selection-50-lossy"],
    "Two links with loss at 50 Mbit/s, without delay": ["2026-11-29-2core-vm-selection-50-near-lossy"],
    "Twelve links with loss at 600 Mbit/s and 1 Gbit/s": ["2026-11-29-2core-vm-selection-fast-lossy"],
    "Four of them again, told after the page": ["2026-11-29-2core-vm-selection-fast-near-lossy"],
    "Chromium on twelve fast links that lose packets": ["2026-11-29-2core-vm-selection-fast-lossy-chromium"],
    "Firefox at 200 Mbit/s": ["2026-11-29-2core-vm-selection-200-firefox"],
    "curl with HTTP/3 at 200 Mbit/s": [
        "2026-11-29-2core-vm-selection-200-curl",
        "2026-11-29-2core-vm-selection-200-lossy-curl",
    ],
}
MAP = (
    "HTTP/3 against HTTP/2 over 36 links",
    [
        *TABLES["Twelve links without loss"],
        *TABLES["Six links with loss at 200 Mbit/s"],
        *TABLES["Four links with loss at 50 Mbit/s"],
        *TABLES["Two links with loss at 50 Mbit/s, without delay"],
        *TABLES["Twelve links with loss at 600 Mbit/s and 1 Gbit/s"],
    ],
)
BROWSER = ("A browser on fast clean links", "2026-11-25-2core-vm-gigabit")


def sessions(run, first):
    """{(Mbit/s, ms, % of loss): {policy: {(block, session): (time in µs, over HTTP/3)}}}, from session `first` on."""
    ends = defaultdict(list)
    with open(ROOT / "results" / run / "samples.csv", newline="") as file:
        for row in csv.DictReader(file):
            if row["valid"] == "true" and int(row["session"]) >= first:
                link = (int(row["rate_bps"]) / 1e6, int(row["delay_us"]) / 1e3, int(row["loss_ppb"]) / 1e7)
                policy = row["policy"] + (" again" if row["null_arm"] == "true" else "")
                start = int(row["start_us"])
                place = (link, policy, row["block"], row["session"])
                ends[place].append((start, start + int(row["total_us"]), row["protocol_used"] == "h3"))
    found = defaultdict(lambda: defaultdict(dict))
    for (link, policy, *place), rows in ends.items():
        time = max(end for _, end, _ in rows) - min(start for start, _, _ in rows)
        found[link][policy][tuple(place)] = (time, any(h3 for _, _, h3 in rows))
    return found


def against_better(policies):
    """The better fixed policy, and how much longer each takes, in per cent."""
    means = {name: statistics.mean(math.log(time) for time, _ in of.values()) for name, of in policies.items()}
    better = min(("h2", "h3"), key=means.get)
    return better, {name: math.expm1(mean - means[better]) * 100 for name, mean in means.items()}


def medians(policies):
    """How much longer each policy takes than `h2` in the same session: the median, in per cent."""
    ratios = {
        name: [math.log(time / policies["h2"][place][0]) for place, (time, _) in of.items() if place in policies["h2"]]
        for name, of in policies.items()
    }
    return {name: math.expm1(statistics.median(logs)) * 100 for name, logs in ratios.items()}


def fixed_difference(policies):
    """How much longer `h3` takes than `h2`, in per cent: the median over pairs, and its 95 % interval if they are enough."""
    logs = defaultdict(lambda: defaultdict(list))
    for name in ("h2", "h3"):
        for (block, _), (time, _) in policies[name].items():
            logs[block][name].append(math.log(time))
    pairs = [statistics.mean(of["h3"]) - statistics.mean(of["h2"]) for of in logs.values() if len(of) == 2]
    means = sorted((a + b) / 2 for place, a in enumerate(pairs) for b in pairs[place:])
    # In how many of the 2^n cases the ranks of the positive differences have each sum.
    cases = [1]
    for rank in range(1, len(pairs) + 1):
        cases = [a + b for a, b in zip(cases + [0] * rank, [0] * rank + cases)]
    below = [sum(cases[: outside + 1]) / 2 ** len(pairs) for outside in range(len(cases))]
    outside = sum(share <= 0.025 for share in below)
    ends = [means[outside - 1], means[-outside]] if outside else []
    return [math.expm1(value) * 100 for value in (statistics.median(means), *ends)]


def tables(text):
    """{heading: rows of cells} of a document."""
    found, heading = defaultdict(list), ""
    for line in text.replace("\u2212", "-").splitlines():
        if line.startswith("## "):
            heading = line[3:].strip()
        elif line.startswith("| ") and "---" not in line:
            found[heading].append([cell.strip(" *") for cell in line.strip("| ").split("|")])
    return found


def link_of(cell):
    """The link that a row is about."""
    rate = re.search(r"([\d.]+) (G|M)bit/s", cell)
    mbits = float(rate[1]) * (1000 if rate[2] == "G" else 1)
    loss = re.search(r"([\d.]+) % loss", cell)
    return mbits, float(re.search(r"([\d.]+) ms", cell)[1]), float(loss[1]) if loss else 0.0


def number(cell):
    """The figure that a cell begins with, and the largest error that its rounding makes."""
    digits = re.match(r"[+-]?\d+(\.\d+)?", cell)
    return float(digits[0]), 0.051 if digits[1] else 0.51


def differs(cell, value):
    told, error = number(cell)
    return abs(told - value) > error


def main():
    evidence = tables((ROOT / "docs/evidence.md").read_text())
    readme = tables((ROOT / "README.md").read_text())["What the choice is worth"][1:]
    faults, known, moved, lossy = [], {}, 0, 0
    for heading, runs in TABLES.items():
        cells = {link: policies for run in runs for link, policies in sessions(run, 1).items()}
        rows = evidence[heading][1:]
        for row in rows:
            # A link without a rate has that of the heading.
            link = link_of(row[0] if "bit/s" in row[0] else f"{row[0]}, {heading}")
            better, found = against_better(cells[link])
            over_h3 = sum(h3 for _, h3 in cells[link]["learned"].values())
            known[heading, link] = found
            if " with loss at " in heading:
                moved += over_h3
                lossy += len(cells[link]["learned"])
            # A run may have left one out.
            shown = [p for p in POLICIES if p in found]
            print("%g Mbit/s, %g ms, %g %% loss:" % link, better, *("%s %+.1f %%," % (p, found[p]) for p in shown))
            wrong = [p for p, cell in zip(shown, row[2:]) if differs(cell, found[p])]
            told_h3 = row[2 + len(shown) :]
            if wrong or row[1] != better or (told_h3 and int(told_h3[0]) != over_h3):
                faults.append(f"{heading}: {row} is told, {better} {found} with {over_h3} over HTTP/3 measured")
        if not rows:
            faults.append(f"docs/evidence.md has no table `{heading}`")
    heading, runs = MAP
    # The links without loss come from runs of their own.
    measured = {link: policies for run in runs[3:] + runs[:3] for link, policies in sessions(run, 1).items()}
    columns, *rows = evidence[heading]
    for row in rows:
        for rate, cell in zip(columns[1:], row[1:]):
            link = link_of(f"{rate}, {row[0]}")
            found = fixed_difference(measured[link])
            print("%g Mbit/s, %g ms, %g %% loss: HTTP/3" % link, *("%+.1f %%" % it for it in found))
            told = re.findall(r"[+-]?\d+\.\d+", cell)
            if len(told) != len(found) or any(differs(*it) for it in zip(told, found)):
                faults.append(f"{heading}: {row[0]} at {rate} is told as {cell}, {found} measured")
    if [len(columns), len(rows)] != [5, 9]:
        faults.append(f"docs/evidence.md has no table `{heading}` of four rates and nine links each")
    heading, run = BROWSER
    for link, policies in sorted(sessions(run, 2).items(), reverse=True):
        found = known[heading, link] = medians(policies)
        row = next(row for row in evidence[heading][1:] if link_of(row[0] + ", 1 ms") == link)
        print("Chromium, %g Mbit/s, %g ms:" % link[:2], *("%s %+.1f %%," % it for it in sorted(found.items())))
        if any(differs(cell, found[p]) for p, cell in zip(("h2 again", "h3", "learned"), row[1:])):
            faults.append(f"{heading}: {row} is told, {found} measured")
    if any(of["learned"] >= 1 for (table, _), of in known.items() if table == "Twelve links without loss"):
        faults.append("README.md says that altway's choice is within 1 % of the better protocol of twelve links")
    if f"in {moved} of {lossy} sessions" not in (ROOT / "README.md").read_text():
        faults.append(f"README.md counts other sessions over HTTP/3 than {moved} of {lossy}")
    for row in readme:
        found = known[BROWSER[0] if "Chromium" in row[0] else "Eight links", link_of(row[0])]
        if any(differs(cell, found[p]) for p, cell in zip(("h2", "h3", "learned"), row[1:])):
            faults.append(f"README.md says {row}, {found} measured")
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return 1 if faults or not readme else 0


if __name__ == "__main__":
    sys.exit(main())
