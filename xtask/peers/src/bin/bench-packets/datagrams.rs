//! Datagrams at a pace, each with its number and the time at which it was sent.

use crate::clock;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::net::UdpSocket;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The most datagrams of a run: what the receiver remembers of each is bounded by it.
const MOST: u64 = 1_000_000;

/// The number of the datagrams that say that all have been sent.
const END: u64 = u64::MAX;

/// Number of times that the end is sent, for such a datagram may be lost too.
const ENDS: u32 = 20;

const END_PAUSE: Duration = Duration::from_millis(10);

/// A number and a time.
pub(crate) const HEADER: usize = 16;

/// UDP payload of an IPv4 packet of 1,500 bytes.
pub(crate) const FULL: u16 = 1_472;

/// Request of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub(crate) struct RunRequest {
    /// Number of datagrams.
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..=MOST))]
    pub(crate) count: u64,
    /// Payload of each, bytes.
    #[arg(long, default_value_t = FULL, value_parser = clap::value_parser!(u16).range(HEADER as i64..=FULL as i64))]
    pub(crate) bytes: u16,
    /// The pause from one to the next, ns.
    #[arg(long)]
    every_ns: u64,
    /// Let each pause be any time between none and twice that, so that no timer can keep step.
    #[arg(long)]
    uneven: bool,
    /// Begin with as many at once as there would have been in this time, ns: what a sender that is held
    /// up sends late is then not missing at the link.
    #[arg(long, default_value_t = 0)]
    ahead_ns: u64,
}

/// Content of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatagramKind {
    /// Number of the datagram from 0, and the time at which it was sent.
    Sent { number: u64, at: u64 },
    /// Word that there will be no more.
    End,
}

/// Sends what the first client asks for.
///
/// # Errors
/// The client asks for nonsense, or is gone.
pub(crate) fn serve(socket: &UdpSocket) -> Result<()> {
    let mut request = [0; 512];
    let (length, client) = socket.recv_from(&mut request)?;
    let wanted: RunRequest = serde_json::from_slice(&request[..length]).context("no request")?;
    ensure!(wanted.count <= MOST && wanted.bytes <= FULL, "too much");
    // What it asks again, because nothing has come yet, stays unread.
    socket.connect(client)?;
    send_all(socket, &wanted)?;
    for _ in 0..ENDS {
        sleep(END_PAUSE);
        // The client is gone when it has heard one of them.
        if socket.send(&write(END, wanted.bytes)).is_err() {
            break;
        }
    }
    Ok(())
}

/// Reads a datagram; `None` of what is none of ours.
pub(crate) fn read(datagram: &[u8]) -> Option<DatagramKind> {
    let (number, rest) = datagram.split_first_chunk()?;
    let (at, _) = rest.split_first_chunk()?;
    let (number, at) = (u64::from_be_bytes(*number), u64::from_be_bytes(*at));
    Some(match number {
        END => DatagramKind::End,
        number => DatagramKind::Sent { number, at },
    })
}

fn send_all(socket: &UdpSocket, wanted: &RunRequest) -> Result<()> {
    let start = Instant::now();
    let ahead = Duration::from_nanos(wanted.ahead_ns);
    let mut due = start.checked_sub(ahead).unwrap_or(start);
    for number in 0..wanted.count {
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            sleep(left);
        }
        let mut datagram = write(number, wanted.bytes);
        datagram[8..HEADER].copy_from_slice(&clock::now().to_be_bytes());
        socket.send(&datagram)?;
        due += pause(wanted);
    }
    Ok(())
}

fn pause(wanted: &RunRequest) -> Duration {
    let nanos = match wanted.uneven {
        true => fastrand::u64(0..=2 * wanted.every_ns),
        false => wanted.every_ns,
    };
    Duration::from_nanos(nanos)
}

fn write(number: u64, bytes: u16) -> Vec<u8> {
    let mut datagram = vec![0; usize::from(bytes).max(HEADER)];
    datagram[..8].copy_from_slice(&number.to_be_bytes());
    datagram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_says_its_number_and_the_end_is_none() {
        let mut datagram = write(7, 100);
        datagram[8..HEADER].copy_from_slice(&9_u64.to_be_bytes());
        assert_eq!(datagram.len(), 100);
        assert_eq!(
            read(&datagram),
            Some(DatagramKind::Sent { number: 7, at: 9 })
        );
        assert_eq!(read(&write(END, 0)), Some(DatagramKind::End));
        assert_eq!(read(&[0; 15]), None);
    }

    #[test]
    fn an_uneven_pause_is_the_asked_one_on_average() {
        let wanted = RunRequest {
            count: 2,
            bytes: FULL,
            every_ns: 1_000,
            uneven: true,
            ahead_ns: 0,
        };
        let sum: Duration = (0..10_000).map(|_| pause(&wanted)).sum();
        let mean = sum.as_nanos() / 10_000;
        assert!((950..1_050).contains(&mean), "{mean} ns");
    }
}
