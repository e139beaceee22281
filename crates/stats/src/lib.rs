//! Quantiles, intervals, tests, effect sizes and crossover for paired measurements
