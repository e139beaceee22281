//! Quantiles, intervals, tests, effect sizes and crossover for paired measurements.
//!
//! Answers the lab's questions with the error that each answer carries:
//! - Which of two protocols is faster on this link? [`compare`]; [`summarize`] describes one of them;
//!   [`check_null`] says whether such answers can be believed.
//! - Has this cell been measured often enough? [`Sequential`].
//! - From which delay (loss, rate) on is the other faster? [`crossover`]; in two dimensions
//!   [`zero_line`], whose [`Field`] is also what a server asks for its client's place.
//! - Which cell to measure next, to find that line with few transfers? [`next_cells`].
//! - What would another policy have been worth than the one that chose? [`off_policy`], from trials of which chance
//!   decided a part; [`treatment_difference`] where it decided all.
//! - Have two runs a different answer, and why? [`shift`], [`crossover_difference`], [`growth`].
//!
//! All but the policies work on *pairs*: two transfers of the same object in the same block, so that what disturbed
//! one disturbed the other. The effect is the log-ratio `ln(second / first)`: symmetric, additive,
//! and for small effects equal to the difference in per cent / 100.
//!
//! Pure: slices of `f64` in, values out; whatever is random takes a seed, and the same seed gives
//! the same bytes. Left to others: what the numbers are times of (`record`), making the transfers
//! (`lab`), and how results look (`report`). `examples/` shows each part at work.
//!
//! ```
//! use altway_stats::{CompareOptions, Winner, compare};
//!
//! // Seconds, one pair per position: HTTP/2, HTTP/3.
//! let h2 = [2.41, 2.38, 2.52, 2.44, 2.40, 2.47];
//! let h3 = [2.19, 2.20, 2.23, 2.21, 2.17, 2.26];
//! let result = compare(&h2, &h3, &CompareOptions::default()).expect("six pairs of positive times");
//! assert_eq!(result.winner, Winner::Second);
//! assert!((result.percent() - -9.0).abs() < 0.5, "HTTP/3 takes about 9 % less time");
//! assert!(result.few, "fewer than 12 pairs: take the interval with a pinch of salt");
//! ```
#![warn(clippy::disallowed_methods)]

mod between_runs;
mod bootstrap;
mod boundary;
mod comparison;
mod crossover;
mod growth;
mod hodges_lehmann;
mod interpolation;
mod isotonic;
mod multiplicity;
mod null_arm;
mod off_policy;
mod rank_sum;
mod resample;
mod scale;
mod sequential;
mod summary;
mod surface;
mod wilcoxon;

pub use between_runs::{CrossoverDifference, crossover_difference};
pub use bootstrap::{Bootstrap, Ends, Interval, bootstrap, bootstrap_blocks};
pub use comparison::{
    CompareOptions, Comparison, FEW_PAIRS, IntervalMethod, MIN_PAIRS_FOR_VERDICT, Winner, compare,
    compare_log_ratios, gain, log_ratios, probability_less,
};
pub use crossover::{
    Crossover, CrossoverOptions, CrossoverPoint, Trend, crossover, crossover_with, crossovers_at,
};
pub use growth::{Growth, GrowthPoint, Line, MAX_SLOPE_POINTS, growth, theil_sen};
pub use hodges_lehmann::hodges_lehmann;
pub use interpolation::{PlainCrossing, plain_crossings};
pub use multiplicity::benjamini_hochberg;
pub use null_arm::{NullArm, NullCell, check_null};
pub use off_policy::{
    ClusteredMean, OffPolicy, Trial, off_policy, treatment_difference, trials_needed,
};
pub use rank_sum::{Shift, shift};
pub use scale::Scale;
pub use sequential::{MAX_LOOKS, Sequential, SequentialOptions, Step, StopReason};
pub use summary::{Summary, quantile, quantile_interval, summarize};
pub use surface::{
    AdaptiveOptions, AdaptiveStop, Band, CellOutlook, Field, FieldCrossing, Grid, GridAxis,
    MAX_GRID_CELLS, MAX_REFINEMENT, Next, Place, Point, Polyline, ZeroLine, ZeroLineOptions,
    contour, next_cells, outlook, smooth_zero_line, zero_line,
};
pub use wilcoxon::{Wilcoxon, signed_rank_interval, wilcoxon_signed_rank};
