//! Addresses to which an established connection sends, and how much it may send there.
//!
//! A peer's packets may come from another address at any time, and who has a connection's keys can forge
//! where they come from. "Until a peer's address is deemed valid, an endpoint limits the amount of data it
//! sends to that address" (RFC 9000 section 9.3) to three times what came from there (RFC 9000 section 8.1),
//! PATH_CHALLENGE and PATH_RESPONSE included (RFC 9000 sections 8.2.1 and 8.2.2). quinn-proto counts as well, but
//! lets a last datagram go beyond the limit and sends MTU probes, and answers to probes of other paths,
//! without asking. So each datagram of an unvalidated path is counted here, where one that doesn't fit waits
//! or is lost, as any datagram may be. A client that moves in a download has little to send that would pay
//! for a datagram of 1,200 bytes, so quinn-proto's are [made shorter](Paths::truncation).
//!
//! quinn-proto does not report that a path is validated. It is inferred: from when quinn-proto has sent all
//! that its own limit permits, it begins a datagram on a validated path only.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quinn_proto::Transmit;

use crate::budget::{Budget, FACTOR};
use crate::engine::transport::MIN_MTU;

/// Addresses beside the current one whose bytes are counted, for the answers to their probes. The oldest is
/// forgotten, and with it what might be sent there.
const MAX_PROBING: usize = 4;

/// Changes of the peer's address that are followed within [`period`]: RFC 9000 section 9 leaves it to an
/// endpoint how often it follows. Honest clients change it once in many round trips.
const MAX_CHANGES: usize = 4;

/// The smallest datagram that quinn-proto can be had make for an unvalidated path, in bytes. 1 + 8 + 20 of a
/// packet that changes the peer's address pay for 87; a header of 25 bytes (RFC 9000 section 17.3.1), a
/// PATH_CHALLENGE of 9, a tag of 16 and what quinn-proto writes before that, an ACK frame of few ranges
/// mostly, have room in it.
const LEAST: u16 = 80;

/// Returns the time over which [`MAX_CHANGES`] is counted: a probe time-out (RFC 9002 section 6.2.1) of a path
/// whose RTT varies by half, with the default of max_ack_delay.
fn period(rtt: Duration) -> Duration {
    3 * rtt + Duration::from_millis(25)
}

/// A datagram that waits for what its address permits.
pub(crate) type Waiting = (Transmit, Vec<u8>);

/// Addresses to which an established connection sends.
pub(crate) struct Paths {
    current: SocketAddr,
    /// The address validated last.
    validated: SocketAddr,
    /// Limit of the current address, while it is not validated.
    limit: Option<Box<Limit>>,
    /// The current address is one to which quinn-proto has no PATH_CHALLENGE under way.
    settled: bool,
    /// True if quinn-proto's next datagram is a PATH_CHALLENGE to the address before, which is validated.
    challenges_previous: bool,
    probing: VecDeque<(SocketAddr, Budget)>,
    /// Times at which the address changed, the latest at the back.
    changes: VecDeque<Instant>,
    /// Datagrams to the current address: two at most.
    waiting: VecDeque<Waiting>,
}

/// Counts of an unvalidated path.
struct Limit {
    budget: Budget,
    /// Bytes received on this path: at least what quinn-proto counts.
    received: u64,
    /// Bytes that quinn-proto counts as sent on this path.
    sent: u64,
}

impl Limit {
    /// Returns true if quinn-proto sends no more on this path, except MTU probes, until it is validated.
    fn is_exhausted(&self) -> bool {
        self.sent >= FACTOR * self.received
    }
}

impl Paths {
    /// `remote`: the address of the handshake, which validates it.
    pub(crate) fn new(remote: SocketAddr) -> Self {
        Self {
            current: remote,
            validated: remote,
            limit: None,
            settled: true,
            challenges_previous: false,
            probing: VecDeque::new(),
            changes: VecDeque::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Returns true if everything may be sent that quinn-proto wants to send.
    pub(crate) fn is_validated(&self) -> bool {
        self.limit.is_none()
    }

    /// Returns true if a datagram from this address is taken in: one that might be the next change too many is
    /// not.
    pub(crate) fn takes(&self, remote: SocketAddr, now: Instant, rtt: Duration) -> bool {
        let recent = |at: &&Instant| now.saturating_duration_since(**at) < period(rtt);
        remote == self.current || self.changes.iter().filter(recent).count() < MAX_CHANGES
    }

    /// Counts a datagram that quinn-proto has taken in, after which the connection's peer is at `current`.
    pub(crate) fn on_received(
        &mut self,
        now: Instant,
        current: SocketAddr,
        remote: SocketAddr,
        bytes: usize,
    ) {
        let challenges_previous = self.challenges_previous || self.settled;
        if self.follow(current) {
            self.settled = false;
            self.challenges_previous = challenges_previous;
            if self.changes.len() == MAX_CHANGES {
                self.changes.pop_front();
            }
            self.changes.push_back(now);
        }
        if let Some(limit) = &mut self.limit {
            limit.received += bytes as u64;
        }
        if remote != self.current {
            self.budget_of_probing(remote).on_received(bytes);
        } else if let Some(limit) = &mut self.limit {
            limit.budget.on_received(bytes);
        }
    }

    /// Takes over the peer's address of quinn-proto, which has gone back to the one before unless a
    /// datagram changed it. Whether it is another one than before.
    pub(crate) fn follow(&mut self, current: SocketAddr) -> bool {
        if current == self.current {
            return false;
        }
        self.current = current;
        self.settled = true;
        self.challenges_previous = false;
        self.waiting.clear();
        self.limit = (current != self.validated).then(|| {
            let known = self.probing.iter().position(|(at, _)| *at == current);
            let budget = known.and_then(|at| self.probing.remove(at));
            Box::new(Limit {
                budget: budget.map_or(Budget::EMPTY, |(_, budget)| budget),
                received: 0,
                sent: 0,
            })
        });
        true
    }

    /// A datagram that has waited, if it may be sent now.
    pub(crate) fn next_waiting(&mut self) -> Option<Waiting> {
        let size = self.waiting.front()?.0.size;
        if let Some(limit) = &mut self.limit
            && !limit.budget.spend(size)
        {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Number of bytes by which quinn-proto's next datagram is to be shorter than it knows: on an
    /// unvalidated path it has what the path permits, and [`LEAST`] at least.
    ///
    /// `mtu`: the largest datagram on the path.
    pub(crate) fn truncation(&mut self, mtu: u16) -> u16 {
        if std::mem::take(&mut self.challenges_previous) {
            // RFC 9000 section 8.2.1: "An endpoint MUST expand datagrams that contain a PATH_CHALLENGE frame".
            return 0;
        }
        match &self.limit {
            // What quinn-proto sends now is for a validated path.
            Some(limit) if !limit.is_exhausted() => {
                let permitted = limit.budget.allows(mtu.into(), 1);
                let wanted = mtu.saturating_sub(u16::try_from(permitted).unwrap_or(u16::MAX));
                wanted.min(MIN_MTU - LEAST)
            }
            _ => 0,
        }
    }

    /// Judges a batch of quinn-proto's, a single datagram unless the path
    /// [is validated](Self::is_validated): whether to send it now. If not, it is lost, or waits and is
    /// [given](Self::next_waiting) later.
    ///
    /// `less`: by how much it is [shorter](Self::truncation) than quinn-proto counts. `mtu`: the largest
    /// datagram on the path that is no MTU probe.
    pub(crate) fn permits(
        &mut self,
        transmit: &Transmit,
        bytes: &[u8],
        less: u16,
        mtu: u16,
    ) -> bool {
        let to = transmit.destination;
        if to != self.current {
            // quinn-proto doesn't count it for the path.
            return to == self.validated || self.budget_of_probing(to).spend(transmit.size);
        }
        let Some(limit) = &mut self.limit else {
            return true;
        };
        let was_exhausted = limit.is_exhausted();
        let made = transmit.size + usize::from(less);
        limit.sent += made as u64;
        if made > mtu.into() {
            return false;
        }
        if was_exhausted {
            self.limit = None;
            self.validated = to;
            self.settled = true;
            if self.waiting.is_empty() {
                return true;
            }
        } else if limit.budget.spend(transmit.size) {
            return true;
        } else if !self.waiting.is_empty() {
            return false;
        }
        self.waiting.push_back((own(transmit), bytes.to_vec()));
        false
    }

    fn budget_of_probing(&mut self, remote: SocketAddr) -> &mut Budget {
        let known = self.probing.iter().position(|(at, _)| *at == remote);
        let at = known.unwrap_or_else(|| {
            if self.probing.len() == MAX_PROBING {
                self.probing.pop_front();
            }
            self.probing.push_back((remote, Budget::EMPTY));
            self.probing.len() - 1
        });
        &mut self.probing[at].1
    }
}

fn own(transmit: &Transmit) -> Transmit {
    Transmit {
        destination: transmit.destination,
        ecn: transmit.ecn,
        size: transmit.size,
        segment_size: transmit.segment_size,
        src_ip: transmit.src_ip,
    }
}
