//! The worker of a host that has a connection: the number of the worker, and the generation of its
//! process.
//!
//! A server that is replaced while it runs lives on beside its successor until its connections have
//! ended, and both have a worker 0. So the two bytes of a connection ID that name the worker
//! ([`connection_ids`](crate::ConnectionIds)) have four bits for the process, which its successor
//! counts on, and twelve for the worker.
//!
//! Left to others: who passes datagrams from one process to the other.

use std::fmt;

use crate::Error;

/// Number of processes in a row that can be told apart: the next has the number of the first again.
const GENERATIONS: u8 = 16;

/// The bits of a worker's number, below those of the generation.
const WORKER_BITS: u16 = 12;

/// The number of a process among those that had the same sockets one after the other, from 0 to 15.
/// Default: the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Generation(u8);

impl Generation {
    /// # Errors
    /// More than 15.
    pub fn new(number: u8) -> Result<Self, Error> {
        match number {
            0..GENERATIONS => Ok(Self(number)),
            _ => Err(Error::InvalidConfig {
                field: "generation",
                expected: "0 to 15",
            }),
        }
    }

    /// The number.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the generation of the process which takes this one's place. 0 follows 15: by then
    /// this process must have ended.
    #[must_use]
    pub fn next(self) -> Self {
        Self((self.0 + 1) % GENERATIONS)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A worker of a process. Default: the first of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WorkerId {
    generation: Generation,
    number: u16,
}

impl WorkerId {
    /// The largest number of workers of a process.
    pub const MAX_WORKERS: usize = 1 << WORKER_BITS;

    /// The part of a connection ID's two bytes that is the worker's number, for whoever reads them
    /// without caring for the process.
    pub const NUMBER_MASK: u16 = (1 << WORKER_BITS) - 1;

    /// `number` is the worker's, from 0 to 4,095.
    ///
    /// # Errors
    /// A larger number.
    pub fn new(generation: Generation, number: usize) -> Result<Self, Error> {
        let number = u16::try_from(number).ok();
        let number = number.filter(|number| *number <= Self::NUMBER_MASK);
        let number = number.ok_or(Error::InvalidConfig {
            field: "worker",
            expected: "0 to 4,095",
        })?;
        Ok(Self { generation, number })
    }

    /// The process.
    #[must_use]
    pub fn generation(self) -> Generation {
        self.generation
    }

    /// The worker's number in its process.
    #[must_use]
    pub fn number(self) -> usize {
        self.number.into()
    }

    /// The two bytes that stand for it in a connection ID, behind those of the server.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 2] {
        (u16::from(self.generation.0) << WORKER_BITS | self.number).to_be_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 2]) -> Self {
        let generation = Generation(bytes[0] >> 4);
        let number = u16::from_be_bytes(bytes) & Self::NUMBER_MASK;
        Self { generation, number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_bytes_names_one_worker() {
        for bytes in (0..=u16::MAX).map(u16::to_be_bytes) {
            let id = WorkerId::from_bytes(bytes);
            assert_eq!(id.to_bytes(), bytes);
            let generation = Generation::new(id.generation().number()).unwrap();
            assert_eq!(WorkerId::new(generation, id.number()).unwrap(), id);
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let first = Generation::default();
        assert!(WorkerId::new(first, WorkerId::MAX_WORKERS - 1).is_ok());
        for number in [WorkerId::MAX_WORKERS, 1 << 16, usize::MAX] {
            let error = WorkerId::new(first, number).unwrap_err().to_string();
            assert!(error.starts_with("worker is out of range"), "{error}");
        }
        assert!(Generation::new(15).is_ok());
        let error = Generation::new(16).unwrap_err().to_string();
        assert!(error.starts_with("generation is out of range"), "{error}");
    }

    #[test]
    fn generations_follow_each_other_in_a_ring() {
        let mut generation = Generation::default();
        for number in (1..16).chain([0]) {
            generation = generation.next();
            assert_eq!(generation.number(), number);
        }
    }
}
