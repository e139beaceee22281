//! Gain over two axes, as delay and loss: where the winner changes, and where to look next.
//!
//! One surface is one rate (and one object size): for several rates make several grids.

mod adaptive;
mod contour;
mod ensemble;
mod field;
mod grid;
mod kriging;
mod region;
mod zero_line;

pub use adaptive::{AdaptiveOptions, AdaptiveStop, CellOutlook, Next, next_cells, outlook};
pub use contour::{Point, Polyline, contour};
pub use field::{Field, FieldCrossing, Place};
pub use grid::{Grid, GridAxis, MAX_GRID_CELLS};
pub use zero_line::{Band, MAX_REFINEMENT, ZeroLine, ZeroLineOptions, smooth_zero_line, zero_line};
