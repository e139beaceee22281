//! The records of requests while `altway load` measures: to stdout as CSV, or into memory for
//! JSON, or nowhere.

use altway_record::RequestRecord;
use anyhow::Result;
use std::io::{self, Stdout};

/// Requests that `--json` keeps until the end; the summary counts all. `--csv` keeps none.
const MAX_KEPT: usize = 1_000_000;

/// Takes one record after the other.
pub(super) struct Records {
    keep: bool,
    kept: Vec<RequestRecord>,
    rows: Option<csv::Writer<Stdout>>,
    error: Option<csv::Error>,
    /// Connections of the runs before this one.
    earlier: u32,
    /// Connections so far.
    connections: u32,
}

impl Records {
    pub(super) fn new(json: bool, csv: bool) -> Self {
        Self {
            keep: json,
            kept: Vec::new(),
            rows: csv.then(|| csv::Writer::from_writer(io::stdout())),
            error: None,
            earlier: 0,
            connections: 0,
        }
    }

    /// Begins another run: its connections are numbered on from those before.
    pub(super) fn begin_run(&mut self) {
        self.earlier = self.connections;
    }

    pub(super) fn take(&mut self, record: &RequestRecord) {
        let mut record = record.clone();
        record.connection = record.connection.saturating_add(self.earlier);
        self.connections = self.connections.max(record.connection.saturating_add(1));
        if let Some(rows) = &mut self.rows {
            self.error = self.error.take().or_else(|| rows.serialize(record).err());
        } else if self.keep && self.kept.len() < MAX_KEPT {
            self.kept.push(record);
        }
    }

    /// The records that were kept, when everything else has been written.
    pub(super) fn finish(self) -> Result<Vec<RequestRecord>> {
        if let Some(mut rows) = self.rows {
            rows.flush()?;
        }
        match self.error {
            Some(error) => Err(io::Error::from(error).into()),
            None => Ok(self.kept),
        }
    }
}
