//! Takes datagrams in, and tells what became of them: how long they took, how fast they came, and
//! which did not.
//!
//! A datagram's delay ends when the kernel has received it from the interface, by its own stamp. What it
//! takes until the program runs is the machine's doing and no link's; that is told beside it.

use crate::clock;
use crate::datagrams::{DatagramKind, FULL, RunRequest, read};
use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use serde::Serialize;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::IoSliceMut;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Time without a datagram after which the client asks again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Number of times that it asks.
const QUESTIONS: u32 = 100;

/// Time without a datagram, once one has come, that counts as the end.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes that may wait for the client: more than a second of 100 Mbit/s.
const RECEIVE_BUFFER: usize = 16 << 20;

/// The headers of IPv4 and UDP.
const IP_OVERHEAD: u64 = 28;

/// Figures of what became of the datagrams.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    sent: u64,
    received: u64,
    /// Datagrams that came twice.
    copies: u64,
    /// Datagrams that found the client's socket full: the client was too slow, not the link.
    overflowed: u32,
    /// Difference of the delay from what it should have been: to the kernel's stamp, ns.
    error_ns: Quantiles,
    /// The same until the program had it.
    program_error_ns: Quantiles,
    /// Rate from the first to the last that came, in bits of IP packets.
    ip_bits_per_s: f64,
    /// Equal if the same ones did not come.
    lost_digest: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Quantiles {
    p50: u64,
    p99: u64,
    max: u64,
}

/// Asks a server for datagrams, and takes them in.
///
/// # Errors
/// The socket can't be made, or fewer than two come.
pub(crate) fn ask(server: SocketAddr, wanted: &RunRequest, delay_ns: u64) -> Result<Report> {
    let mut receiver = Receiver::connect(server)?;
    let mut found = ReceivedFigures::new(wanted, delay_ns);
    let request = serde_json::to_vec(wanted)?;
    let first = receiver.ask(&request)?;
    found.take(first);
    receiver.socket.set_read_timeout(Some(SILENCE_TIMEOUT))?;
    while let ArrivalCounts::Datagram(arrival) = receiver.next()? {
        found.take(arrival);
    }
    found.report(receiver.overflowed)
}

/// A datagram that came; times by the monotonic clock, ns.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    number: u64,
    sent_at: u64,
    received_at: u64,
    seen_at: u64,
}

#[derive(Debug)]
enum ArrivalCounts {
    Datagram(Arrival),
    Nothing,
    End,
}

#[derive(Debug)]
struct Receiver {
    socket: UdpSocket,
    control: Vec<u8>,
    overflowed: u32,
}

impl Receiver {
    fn connect(server: SocketAddr) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        // Best effort: without the right to it the default has to do, and what does not fit is counted.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER);
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        setsockopt(&socket, sockopt::RxqOvfl, &1)?;
        socket.connect(server)?;
        Ok(Self {
            socket,
            control: nix::cmsg_space!(TimeSpec, u32),
            overflowed: 0,
        })
    }

    /// Asks until something comes.
    fn ask(&mut self, request: &[u8]) -> Result<Arrival> {
        self.socket.set_read_timeout(Some(ASK_AGAIN))?;
        for _ in 0..QUESTIONS {
            // Refused as long as nobody listens there.
            let _ = self.socket.send(request);
            match self.next()? {
                ArrivalCounts::Datagram(arrival) => return Ok(arrival),
                ArrivalCounts::End => break,
                ArrivalCounts::Nothing => std::thread::sleep(ASK_AGAIN / 10),
            }
        }
        anyhow::bail!("no datagram came")
    }

    fn next(&mut self) -> Result<ArrivalCounts> {
        let mut buffer = [0; FULL as usize];
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let (length, stamp) = loop {
            let socket = self.socket.as_raw_fd();
            let control = Some(&mut self.control[..]);
            match recvmsg::<()>(socket, &mut slices, control, MsgFlags::empty()) {
                Ok(message) => {
                    let mut stamp = None;
                    for told in message.cmsgs()? {
                        match told {
                            ControlMessageOwned::ScmTimestampns(time) => stamp = Some(time),
                            ControlMessageOwned::RxqOvfl(drops) => self.overflowed = drops,
                            _ => {}
                        }
                    }
                    break (message.bytes, stamp);
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN | Errno::ECONNREFUSED) => return Ok(ArrivalCounts::Nothing),
                Err(errno) => return Err(errno).context("cannot receive"),
            }
        };
        let seen_at = clock::now();
        let wall = Duration::from(stamp.context("the kernel has put no stamp on it")?);
        let received_at = clock::monotonic(u64::try_from(wall.as_nanos())?);
        Ok(match read(&buffer[..length]) {
            Some(DatagramKind::Sent { number, at }) => ArrivalCounts::Datagram(Arrival {
                number,
                sent_at: at,
                received_at,
                seen_at,
            }),
            Some(DatagramKind::End) => ArrivalCounts::End,
            None => ArrivalCounts::Nothing,
        })
    }
}

/// Figures known so far.
#[derive(Debug)]
struct ReceivedFigures {
    ip_bytes: u64,
    delay_ns: u64,
    /// True for each number that has come.
    has_come: Vec<bool>,
    copies: u64,
    errors: Vec<u64>,
    program_errors: Vec<u64>,
    first_at: u64,
    last_at: u64,
}

impl ReceivedFigures {
    fn new(wanted: &RunRequest, delay_ns: u64) -> Self {
        Self {
            ip_bytes: u64::from(wanted.bytes) + IP_OVERHEAD,
            delay_ns,
            has_come: vec![false; wanted.count as usize],
            copies: 0,
            errors: Vec::with_capacity(wanted.count as usize),
            program_errors: Vec::with_capacity(wanted.count as usize),
            first_at: 0,
            last_at: 0,
        }
    }

    fn take(&mut self, arrival: Arrival) {
        let Some(has_come) = self.has_come.get_mut(arrival.number as usize) else {
            return;
        };
        if std::mem::replace(has_come, true) {
            self.copies += 1;
            return;
        }
        if self.errors.is_empty() {
            self.first_at = arrival.received_at;
        }
        self.last_at = arrival.received_at;
        let error = |at: u64| at.saturating_sub(arrival.sent_at).abs_diff(self.delay_ns);
        self.errors.push(error(arrival.received_at));
        self.program_errors.push(error(arrival.seen_at));
    }

    fn report(self, overflowed: u32) -> Result<Report> {
        let received = self.errors.len() as u64;
        ensure!(received >= 2, "{received} datagrams came");
        let span = self.last_at.saturating_sub(self.first_at).max(1);
        // The first one came when its last bit did: what came in that time are all others.
        let bits = (received - 1) * self.ip_bytes * 8;
        Ok(Report {
            sent: self.has_come.len() as u64,
            received,
            copies: self.copies,
            overflowed,
            error_ns: quantiles(self.errors),
            program_error_ns: quantiles(self.program_errors),
            ip_bits_per_s: bits as f64 * 1e9 / span as f64,
            lost_digest: digest(&self.has_come),
        })
    }
}

fn quantiles(mut values: Vec<u64>) -> Quantiles {
    values.sort_unstable();
    // The smallest value that at least so many are not above.
    let at = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
    Quantiles {
        p50: at(50),
        p99: at(99),
        max: at(100),
    }
}

/// The same keys in every process.
fn digest(has_come: &[bool]) -> String {
    let mut hasher = DefaultHasher::new();
    has_come.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(count: usize) -> ReceivedFigures {
        ReceivedFigures {
            ip_bytes: 1_500,
            delay_ns: 1_000,
            has_come: vec![false; count],
            copies: 0,
            errors: Vec::new(),
            program_errors: Vec::new(),
            first_at: 0,
            last_at: 0,
        }
    }

    fn arrival(number: u64, received_at: u64) -> Arrival {
        Arrival {
            number,
            sent_at: 5_000,
            received_at,
            seen_at: received_at + 300,
        }
    }

    #[test]
    fn too_early_is_as_wrong_as_too_late() {
        let mut found = found(2);
        found.take(arrival(0, 5_900));
        found.take(arrival(1, 6_050));
        let report = found.report(0).unwrap();
        assert_eq!((report.error_ns.p50, report.error_ns.max), (50, 100));
        assert_eq!(report.program_error_ns.max, 350);
    }

    #[test]
    fn the_rate_is_of_all_but_the_first() {
        let mut found = found(3);
        for number in 0..3 {
            found.take(arrival(number, 6_000 + number * 12_000));
        }
        assert_eq!(found.report(0).unwrap().ip_bits_per_s, 1e9);
    }

    #[test]
    fn copies_and_numbers_that_never_were_do_not_count() {
        let mut found = found(2);
        for number in [0, 0, 2, 1] {
            found.take(arrival(number, 6_000));
        }
        let report = found.report(3).unwrap();
        assert_eq!(
            (report.received, report.copies, report.overflowed),
            (2, 1, 3)
        );
    }

    #[test]
    fn who_lost_the_same_has_the_same_digest() {
        assert_eq!(digest(&[true, false]), digest(&[true, false]));
        assert_ne!(digest(&[true, false]), digest(&[false, true]));
    }

    #[test]
    fn quantiles_are_values_that_were_there() {
        let all = quantiles((1..=200).rev().collect());
        assert_eq!((all.p50, all.p99, all.max), (100, 198, 200));
        assert_eq!(quantiles(vec![7]).p50, 7);
    }

    #[test]
    fn datagrams_over_loopback_all_come_stamped() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = server.local_addr().unwrap();
        let sending = std::thread::spawn(move || crate::datagrams::serve(&server));
        let wanted: RunRequest = serde_json::from_str(
            r#"{"count":50,"bytes":100,"every_ns":20000,"uneven":true,"ahead_ns":100000}"#,
        )
        .unwrap();
        let report = ask(address, &wanted, 0).unwrap();
        assert_eq!(
            (report.sent, report.received, report.overflowed),
            (50, 50, 0)
        );
        assert!(report.error_ns.p50 <= report.program_error_ns.p50);
        sending.join().unwrap().unwrap();
    }
}
