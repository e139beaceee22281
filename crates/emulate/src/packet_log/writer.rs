//! The thread that writes the packet log, and the handle on it.

use super::recorder::{Recorder, Side};
use super::{LogReport, pcapng};
use crate::Error;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// The bytes of one chunk: 170 full packets.
pub(super) const CHUNK: usize = 256 << 10;

/// Number of chunks: 32 MiB together, which 1 Gbit/s fills, seen at both ends, in 0.13 s.
const CHUNKS: usize = 128;

/// Number of packets that were logged, and how many not, at each end.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) sides: [SideCounts; 2],
}

#[derive(Debug, Default)]
pub(super) struct SideCounts {
    pub(super) logged: AtomicU64,
    pub(super) missed: AtomicU64,
}

/// A packet log that is being written. Dropping it waits until all is written that the
/// [`Recorder`] logged, so that one has to go first.
#[derive(Debug)]
pub(crate) struct PacketLog {
    path: PathBuf,
    counts: Arc<Counts>,
    error: Arc<Mutex<Option<io::Error>>>,
    writer: Option<JoinHandle<()>>,
}

impl PacketLog {
    /// Begins a log in the file at `path`, which is made, or emptied if it is there.
    ///
    /// # Errors
    /// The file can't be made, or nothing can be written to it.
    pub(crate) fn create(path: &Path) -> Result<(Self, Recorder), Error> {
        let failed = |source| Error::PacketLog {
            path: path.to_owned(),
            source,
        };
        let mut file = File::create(path).map_err(failed)?;
        file.write_all(&head()).map_err(failed)?;
        let (full, to_write) = sync_channel(CHUNKS);
        let (written, empty) = sync_channel(CHUNKS);
        for _ in 0..CHUNKS {
            let _ = written.try_send(Vec::with_capacity(CHUNK));
        }
        let (counts, error) = (Arc::<Counts>::default(), Arc::<Mutex<_>>::default());
        let recorder = Recorder::new(full, empty, Arc::clone(&counts), to_time_of_day());
        let writer = Writer {
            file: Some(file),
            counts: Arc::clone(&counts),
            error: Arc::clone(&error),
        };
        let writer = thread::Builder::new()
            .name("altway-pcap".into())
            .spawn(move || writer.run(&to_write, &written))
            .map_err(failed)?;
        let log = Self {
            path: path.to_owned(),
            counts,
            error,
            writer: Some(writer),
        };
        Ok((log, recorder))
    }

    /// Returns the counters of the log so far.
    pub(crate) fn report(&self) -> LogReport {
        let sum = |count: fn(&SideCounts) -> &AtomicU64| {
            let counts = self.counts.sides.iter();
            counts.map(|side| count(side).load(Ordering::Relaxed)).sum()
        };
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        LogReport {
            packets_logged: sum(|side| &side.logged),
            packets_missed: sum(|side| &side.missed),
            error: error
                .as_ref()
                .map(|error| format!("cannot write `{}`: {error}", self.path.display())),
        }
    }

    /// Waits until everything is written.
    pub(crate) fn finish(mut self) -> LogReport {
        self.join();
        self.report()
    }

    fn join(&mut self) {
        if let Some(writer) = self.writer.take() {
            // A panic in it was printed already.
            let _ = writer.join();
        }
    }
}

impl Drop for PacketLog {
    fn drop(&mut self) {
        self.join();
    }
}

/// State that the writer thread owns.
struct Writer {
    /// `None` after an error: what follows a hole in the middle of a block can't be read.
    file: Option<File>,
    counts: Arc<Counts>,
    error: Arc<Mutex<Option<io::Error>>>,
}

impl Writer {
    /// Writes until the recorder has gone.
    fn run(mut self, to_write: &Receiver<Vec<u8>>, written: &SyncSender<Vec<u8>>) {
        for mut chunk in to_write {
            self.write(&chunk);
            chunk.clear();
            // There is room for all chunks; who wants none any more has gone.
            let _ = written.try_send(chunk);
        }
        let end = self.end();
        self.write(&end);
    }

    fn write(&mut self, bytes: &[u8]) {
        let written = self
            .file
            .as_mut()
            .map_or(Ok(()), |file| file.write_all(bytes));
        if let Err(error) = written {
            self.file = None;
            *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    fn end(&self) -> Vec<u8> {
        let mut blocks = Vec::new();
        let at = nanos(clock_gettime(ClockId::Realtime));
        for side in Side::ALL {
            let counts = &self.counts.sides[side as usize];
            let logged = counts.logged.load(Ordering::Relaxed);
            let missed = counts.missed.load(Ordering::Relaxed);
            pcapng::statistics(&mut blocks, side as u32, at, logged + missed, missed);
        }
        blocks
    }
}

/// Returns the head of the file: one interface for each end.
fn head() -> Vec<u8> {
    let mut blocks = Vec::new();
    let program = concat!("altway ", env!("CARGO_PKG_VERSION"));
    pcapng::section_header(&mut blocks, program);
    for side in Side::ALL {
        pcapng::interface(&mut blocks, side.name());
    }
    blocks
}

/// Nanoseconds from the monotonic clock to the time of day. The time of day may be set meanwhile; in
/// the log it runs on as it was.
fn to_time_of_day() -> u64 {
    let time_of_day = nanos(clock_gettime(ClockId::Realtime));
    time_of_day.saturating_sub(nanos(clock_gettime(ClockId::Monotonic)))
}

fn nanos(time: Timespec) -> u64 {
    // Neither clock is ever negative on a machine whose year is right.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
