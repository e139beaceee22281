//! Reference figures: mean times that somebody else measured, to lay a run beside.

use crate::{Cell, Protocol, Topology};
use serde::Deserialize;
use std::collections::BTreeSet;

/// A mean time under one condition. The columns are those of `summary.csv`, of which these are enough,
/// so that any summary can be a reference.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ReferenceRow {
    /// Place where the link was emulated; `direct` when the file does not say it.
    #[serde(default)]
    pub topology: Topology,
    /// Rate of the link; empty without limit.
    pub rate_bps: Option<u64>,
    /// Delay of each direction.
    pub delay_us: u64,
    /// Loss configured in each direction, in parts per billion; 0 when the file does not say it.
    #[serde(default)]
    pub loss_ppb: u32,
    /// Size of the object.
    pub size_bytes: u64,
    /// The protocol.
    pub protocol: Protocol,
    /// True if it is a summary's row of the null arm, which is no reference.
    #[serde(default)]
    null_arm: bool,
    /// Mean time; a row without one is left out.
    #[serde(default)]
    pub mean_us: Option<f64>,
    #[serde(default)]
    server: Option<String>,
    #[serde(default)]
    client: Option<String>,
    #[serde(default)]
    congestion: Option<String>,
    #[serde(default)]
    initial_window_packets: Option<String>,
    #[serde(default)]
    certificate: Option<String>,
    #[serde(default)]
    certificate_compression: Option<String>,
    #[serde(default)]
    connection: Option<String>,
    #[serde(default)]
    link: Option<String>,
    #[serde(default)]
    queue: Option<String>,
}

/// Conditions that a row of figures may state beside its link: server, client, congestion control, initial window,
/// certificate, its compression, connection, further properties of the link, and queue; each `None` where it does not.
pub type StatedConditions = [Option<String>; STATED_CONDITIONS];

/// Number of conditions that a row of figures may state beside its link.
pub const STATED_CONDITIONS: usize = 9;

impl ReferenceRow {
    /// The further conditions, as the columns of `summary.csv` have them.
    #[must_use]
    pub fn stated(&self) -> StatedConditions {
        [
            self.server.clone(),
            self.client.clone(),
            self.congestion.clone(),
            self.initial_window_packets.clone(),
            self.certificate.clone(),
            self.certificate_compression.clone(),
            self.connection.clone(),
            self.link.clone(),
            self.queue.clone(),
        ]
    }
}

impl Cell {
    /// The same of a cell of a plan, all of them stated.
    #[must_use]
    pub fn stated(&self) -> StatedConditions {
        [
            self.server.to_string(),
            self.client.to_string(),
            self.congestion.to_string(),
            self.initial_window.to_string(),
            self.certificate.to_string(),
            self.certificate_compression.to_string(),
            self.connection.to_string(),
            self.link.to_string(),
            self.queue.to_string(),
        ]
        .map(Some)
    }
}

/// Reasons for which a file of reference figures can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// A column is missing, or a value is none.
    #[error("line {line}: {reason}")]
    Row {
        /// Line in the file, from 1.
        line: u64,
        /// The fault of the row, in a sentence.
        reason: String,
    },
    /// A text that is no CSV.
    #[error("it is no table")]
    Csv(#[from] csv::Error),
    /// No row has a time.
    #[error("it holds no mean time")]
    Empty,
    /// Two rows are of the same conditions and protocol.
    #[error("it has two mean times of {protocol} under the same conditions, at {} ms delay", *delay_us as f64 / 1e3)]
    Twice {
        /// The protocol of both.
        protocol: Protocol,
        /// Delay of each direction.
        delay_us: u64,
    },
}

/// Reads reference figures. Lines that begin with `#` are remarks: where the figures come from.
///
/// # Errors
/// A column is missing (docs/data/reference.md), a value is none, or there are no figures.
///
/// ```
/// let text = "# An earlier study.\nrate_bps,delay_us,size_bytes,protocol,mean_us\n\
///             5000000,50000,1000000,h2,2169000\n";
/// let rows = altway_record::read_reference(text)?;
/// assert_eq!(rows[0].mean_us, Some(2_169_000.0));
/// # Ok::<(), altway_record::ReferenceError>(())
/// ```
pub fn read_reference(text: &str) -> Result<Vec<ReferenceRow>, ReferenceError> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let mut rows: Vec<ReferenceRow> = reader
        .deserialize()
        .collect::<Result<_, _>>()
        .map_err(located)?;
    let positive = |time: f64| time.is_finite() && time > 0.0;
    rows.retain(|row| !row.null_arm && row.mean_us.is_some_and(positive));
    if rows.is_empty() {
        return Err(ReferenceError::Empty);
    }
    let mut places = BTreeSet::new();
    for row in &rows {
        let link = (row.rate_bps, row.delay_us, row.loss_ppb, row.size_bytes);
        if !places.insert((row.topology.to_string(), link, row.protocol, row.stated())) {
            return Err(ReferenceError::Twice {
                protocol: row.protocol,
                delay_us: row.delay_us,
            });
        }
    }
    Ok(rows)
}

fn located(error: csv::Error) -> ReferenceError {
    match error.kind() {
        csv::ErrorKind::Deserialize {
            pos: Some(pos),
            err,
        } => ReferenceError::Row {
            line: pos.line(),
            reason: err.kind().to_string(),
        },
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "topology,rate_bps,delay_us,size_bytes,protocol,null_arm,mean_us,more\n";

    #[test]
    fn a_summary_is_a_reference_without_its_null_arm() {
        let text = format!(
            "{HEAD}proxied,,0,1000,h2,false,5.5,x\n\
             proxied,,0,1000,h2,true,5.6,x\n\
             proxied,,0,1000,h3,false,,x\n"
        );
        let rows = read_reference(&text).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (rows[0].topology, rows[0].rate_bps),
            (Topology::Proxied, None)
        );
    }

    #[test]
    fn what_is_no_table_of_figures_is_refused() {
        let missing = read_reference("# x\ndelay_us,protocol\n0,h2\n").unwrap_err();
        assert_eq!(missing.to_string(), "line 3: missing field `size_bytes`");
        let word = format!("{HEAD}direct,,soon,1000,h2,false,5.5,x\n");
        assert!(matches!(
            read_reference(&word),
            Err(ReferenceError::Row { line: 2, .. })
        ));
        let ragged = read_reference("delay_us,protocol\n0\n");
        assert!(matches!(ragged, Err(ReferenceError::Csv(_))));
        assert!(matches!(read_reference(HEAD), Err(ReferenceError::Empty)));
        let row = "direct,,2500,1000,h2,false,5.5,x\n";
        let twice = read_reference(&format!("{HEAD}{row}{row}")).unwrap_err();
        assert_eq!(
            twice.to_string(),
            "it has two mean times of h2 under the same conditions, at 2.5 ms delay"
        );
        let zero = format!("{HEAD}direct,,0,1000,h2,false,0,x\n");
        assert!(matches!(read_reference(&zero), Err(ReferenceError::Empty)));
    }
}
