"""Prints the table of `src/normal.rs`: quantiles of the normal distribution's tail."""

from statistics import NormalDist

OCTAVES, STEPS, SIGMA = 20, 16, 100_000_000

for octave in range(OCTAVES):
    tails = [2.0 ** -(octave + 1) * (1 + step / STEPS) for step in range(STEPS + 1)]
    row = [round(-NormalDist().inv_cdf(tail / 2) * SIGMA) for tail in tails]
    print("    [" + ", ".join(f"{value:_}" for value in row) + "],")
