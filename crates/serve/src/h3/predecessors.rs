//! The processes that this one took the sockets over from: which connection IDs are theirs, and who of them gets a
//! datagram.
//!
//! Processes that follow each other may have another number of workers, and another ID of their server, of another
//! length. So each is known by what its connection IDs begin with. [`ProcessIds::is_told_from`] holds for any two of them:
//! else a datagram of one's connection could be taken for another's.

use super::relay::{PeerClosed, PredecessorRelay};
use altway_http3::{
    Datagram, Generation, ServerId, WorkerId, names_server, worker_of, worker_perhaps_of,
};
use std::net::SocketAddr;

/// Bytes of a packet that holds more than a connection ID.
const PACKET_BYTES: usize = 16;

/// The beginnings of a process's connection IDs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessIds {
    pub(crate) server: ServerId,
    pub(crate) generation: Generation,
    /// The number of its workers, 4,096 at most.
    pub(crate) workers: usize,
}

impl ProcessIds {
    /// Returns true if a datagram belongs to a connection of the process.
    fn owns(&self, datagram: &[u8]) -> bool {
        self.made(datagram, worker_of(datagram, self.server))
    }

    /// Returns true if a datagram may belong to a connection of the process, and may begin one of another.
    fn may_own(&self, datagram: &[u8]) -> bool {
        self.made(datagram, worker_perhaps_of(datagram, self.server))
    }

    fn made(&self, datagram: &[u8], worker: Option<WorkerId>) -> bool {
        let is_its =
            |it: WorkerId| it.generation() == self.generation && it.number() < self.workers;
        worker.is_some_and(is_its) && names_server(datagram, self.server)
    }

    /// Returns true if no connection ID of one process looks as if it were the other's, whatever its random part.
    pub(crate) fn is_told_from(&self, other: &Self) -> bool {
        let by_length = |it: &&Self| it.server.as_bytes().len();
        let (shorter, longer) = match by_length(&self) <= by_length(&other) {
            true => (self, other),
            false => (other, self),
        };
        // With IDs of servers of equal length it is the generation that tells them apart, or the server. Else the bytes that
        // name a worker of `shorter` lie over the last bytes of the server and over the high byte of the worker of `longer`,
        // which is one for 256 workers.
        let mut high_bytes = (0..longer.workers).step_by(256);
        !high_bytes.any(|number| shorter.owns(&longer.packet(number)))
    }

    /// A packet with a short header for a worker.
    fn packet(&self, number: usize) -> Vec<u8> {
        let worker = WorkerId::new(self.generation, number).expect("a worker's number");
        let mut packet = [&[0x40], self.server.as_bytes(), &worker.to_bytes()].concat();
        packet.resize(PACKET_BYTES, 0);
        packet
    }
}

/// The processes that may still have connections, as far as a worker knows: `MAX_PREDECESSORS` and one at most.
#[derive(Debug, Clone, Default)]
pub(super) struct Predecessors(pub(super) Vec<PredecessorRelay>);

impl Predecessors {
    /// Passes a datagram that came to a socket at `listener` to the process that has its connection. False if there is
    /// none, or it has ended.
    pub(super) fn pass_back(&mut self, listener: SocketAddr, datagram: &Datagram<'_>) -> bool {
        self.pass(listener, datagram, ProcessIds::owns)
    }

    /// Copies to its process a datagram whose connection ID the client may have made itself. Such a datagram may
    /// begin a connection of this process, even if it looks like another's: the wrong one can't decrypt it.
    pub(super) fn copy_back(&mut self, listener: SocketAddr, datagram: &Datagram<'_>) {
        self.pass(listener, datagram, ProcessIds::may_own);
    }

    fn pass(
        &mut self,
        listener: SocketAddr,
        datagram: &Datagram<'_>,
        is_its: impl Fn(&ProcessIds, &[u8]) -> bool,
    ) -> bool {
        let mut all = self.0.iter();
        let Some(at) = all.position(|it| is_its(it.ids(), datagram.payload)) else {
            return false;
        };
        match self.0[at].pass(listener, datagram) {
            Ok(()) => true,
            Err(PeerClosed) => {
                self.0.swap_remove(at);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_http3::ConnectionIds;

    fn process(server: &str, generation: u8, workers: usize) -> ProcessIds {
        ProcessIds {
            server: server.parse().unwrap(),
            generation: Generation::new(generation).unwrap(),
            workers,
        }
    }

    /// Returns true if a packet for some worker of `one`, with some random part, is one of `other` as well.
    fn are_confused(one: &ProcessIds, other: &ProcessIds) -> bool {
        (0..one.workers).any(|number| {
            let worker = WorkerId::new(one.generation, number).unwrap();
            let ids = ConnectionIds {
                server: one.server,
                worker,
            };
            // The bytes by which any of the processes is known.
            let bytes = [0, 1, 2, 0x0a, 0x10, 0x11, 0x20];
            let mut random = bytes
                .iter()
                .flat_map(|first| bytes.map(|second| [*first, second]));
            random.any(|random| {
                let prefix = [ids.server.as_bytes(), &ids.worker.to_bytes()].concat();
                let mut packet = [&[0x40][..], &prefix, &random].concat();
                packet.resize(PACKET_BYTES, 0);
                other.owns(&packet)
            })
        })
    }

    #[test]
    fn processes_are_told_apart_exactly_when_no_id_of_one_looks_like_the_others() {
        let all = [
            process("", 0, 2),
            process("", 1, 2),
            process("", 1, 257),
            process("10", 0, 1),
            process("10", 1, 2),
            process("11", 0, 2),
            process("0a", 0, 2),
            process("1000", 0, 3),
            process("1001", 2, 1),
            process("0a00", 0, 1),
        ];
        let mut confused = 0;
        for one in &all {
            for other in &all {
                let expected = !are_confused(one, other) && !are_confused(other, one);
                assert_eq!(one.is_told_from(other), expected, "{one:?} {other:?}");
                confused += usize::from(!expected);
            }
        }
        assert!(confused > all.len(), "not only with themselves");
    }
}
