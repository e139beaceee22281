//! The distribution of a server's connections over its workers, seen from outside.
//!
//! Each worker waits in an epoll instance of its own, and the kernel tells which sockets an instance
//! watches (`/proc/PID/fdinfo`, since Linux 4.13). So a server need not count for the bench.

use super::process::Stop;
use super::server::Server;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The time that a server may take to accept the connections.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(5);

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Time from the end of the connections until the next server's turn.
const SETTLE: Duration = Duration::from_millis(100);

/// Opens `connections` that say nothing, and gives the share of the worker that got most of them, a
/// number up to 1.
///
/// # Errors
/// They can't be opened, not all of them come to a worker, or somebody asked to stop.
pub(crate) fn busiest(server: &Server, connections: u64, stop: &Stop) -> Result<f64> {
    let connect = |_| TcpStream::connect(server.address);
    let clients = (0..connections).map(connect);
    let clients: Vec<_> = clients
        .collect::<io::Result<_>>()
        .context("no connection")?;
    let ports = clients.iter().map(|client| Ok(client.local_addr()?.port()));
    let ports = ports.collect::<io::Result<_>>()?;
    let start = Instant::now();
    let most = loop {
        let loops = event_loops(server.pid(), &sockets(&ports, server.address.port())?)?;
        if loops.iter().map(BTreeSet::len).sum::<usize>() == clients.len() {
            break loops.iter().map(BTreeSet::len).max().unwrap_or(0);
        }
        stop.check()?;
        ensure!(
            start.elapsed() < ACCEPT_TIMEOUT,
            "not all connections are served"
        );
        std::thread::sleep(POLL_INTERVAL);
    };
    let share = most as f64 / clients.len() as f64;
    drop(clients);
    std::thread::sleep(SETTLE);
    Ok(share)
}

/// Inodes of the sockets at `port` whose peers have one of `clients`' ports: of those that the server
/// has accepted by now, the others have none.
fn sockets(clients: &BTreeSet<u16>, port: u16) -> Result<BTreeSet<u64>> {
    let table = fs::read_to_string("/proc/net/tcp").context("cannot read the table of sockets")?;
    let sockets = table.lines().filter_map(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let is_wanted =
            port_of(columns.get(1)?)? == port && clients.contains(&port_of(columns.get(2)?)?);
        is_wanted.then(|| columns.get(9)?.parse().ok())?
    });
    Ok(sockets.filter(|inode| *inode != 0).collect())
}

/// The port in `0100007F:1F90`.
fn port_of(address: &str) -> Option<u16> {
    u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok()
}

/// The `sockets` that each event loop of the process watches; event loops that watch none are left
/// out.
fn event_loops(pid: u32, sockets: &BTreeSet<u64>) -> Result<Vec<BTreeSet<u64>>> {
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).context("the server has ended")?;
    // A connection's descriptor may be gone by now.
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
    let watched = texts.map(|text| {
        let watched = text.lines().filter_map(watched);
        watched.filter(|inode| sockets.contains(inode)).collect()
    });
    Ok(merged(watched))
}

/// The inode in `tfd: 7 events: 2019 data: 0 pos:0 ino:28c78c sdev:9`.
fn watched(line: &str) -> Option<u64> {
    let (_, rest) = line.strip_prefix("tfd:")?.split_once(" ino:")?;
    u64::from_str_radix(rest.split(' ').next()?, 16).ok()
}

/// Two descriptors of one event loop watch the same sockets: they count once.
fn merged(descriptors: impl Iterator<Item = BTreeSet<u64>>) -> Vec<BTreeSet<u64>> {
    let mut loops: Vec<BTreeSet<u64>> = Vec::new();
    for watched in descriptors.filter(|watched| !watched.is_empty()) {
        match loops.iter_mut().find(|known| !known.is_disjoint(&watched)) {
            Some(known) => known.extend(watched),
            None => loops.push(watched),
        }
    }
    loops
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_watched_socket_is_read_from_its_line() {
        let line = "tfd:       16 events: 80002019 data:                1  pos:0 ino:28cbc6 sdev:9";
        assert_eq!(watched(line), Some(0x28_cbc6));
        assert_eq!(watched("pos:\t0"), None);
        assert_eq!(port_of("0100007F:1F90"), Some(8080));
    }

    #[test]
    fn descriptors_of_one_event_loop_count_once() {
        let lists = [vec![1, 2], vec![], vec![5], vec![2, 1, 3]];
        let lists = lists.into_iter().map(BTreeSet::from_iter);
        let loops = merged(lists);
        assert_eq!(loops, [BTreeSet::from([1, 2, 3]), BTreeSet::from([5])]);
    }

    #[test]
    fn a_connection_is_found_once_it_is_accepted() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let clients = BTreeSet::from([client.local_addr().unwrap().port()]);
        assert!(sockets(&clients, port).unwrap().is_empty());
        let (_server, _) = listener.accept().unwrap();
        assert_eq!(sockets(&clients, port).unwrap().len(), 1);
        assert!(sockets(&BTreeSet::new(), port).unwrap().is_empty());
    }
}
