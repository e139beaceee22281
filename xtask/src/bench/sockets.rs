//! The kernel's tables of a server's sockets: whether it listens, and the number of datagrams that
//! it lost.
//!
//! The tables are read by way of the server's process, so they are those of its network namespace.

use super::workload::Transport;
use anyhow::{Context, Result, ensure};
use std::fs;

/// TCP's state LISTEN, and that of a UDP socket without a peer, as the tables write them.
const LISTENS: &str = "0A";
const IS_BOUND: &str = "07";

/// Returns whether a socket listens at `port` for `transport` where the process `pid` is.
///
/// # Errors
/// The process has ended.
pub(crate) fn is_listening(pid: u32, port: u16, transport: Transport) -> Result<bool> {
    let (name, state) = match transport {
        Transport::H2c | Transport::Tls => ("tcp", LISTENS),
        Transport::H3 => ("udp", IS_BOUND),
    };
    let table = table(pid, name)?;
    let mut sockets = table.lines().filter_map(Socket::parse);
    Ok(sockets.any(|socket| socket.port == port && socket.state == state))
}

/// Datagrams that found the buffer of a UDP socket at `port` full, since the socket was made.
///
/// # Errors
/// The process has ended, or no such socket is left.
pub(crate) fn datagrams_lost(pid: u32, port: u16) -> Result<u64> {
    let table = table(pid, "udp")?;
    let sockets = table.lines().filter_map(Socket::parse);
    let drops: Vec<_> = sockets
        .filter(|socket| socket.port == port)
        .filter_map(|socket| socket.drops)
        .collect();
    ensure!(!drops.is_empty(), "no UDP socket at port {port}");
    Ok(drops.iter().sum())
}

/// The lines for IPv4 and, where there is IPv6, those for both families.
fn table(pid: u32, name: &str) -> Result<String> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/net/{name}"));
    let table = read(name).context("cannot read the table of sockets")?;
    Ok(table + &read(&format!("{name}6")).unwrap_or_default())
}

/// A line of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Socket<'a> {
    /// The socket's own port.
    port: u16,
    state: &'a str,
    /// `None` in TCP's table, which has other columns there.
    drops: Option<u64>,
}

impl<'a> Socket<'a> {
    /// The columns: number, own address, peer's address, state, … the 13th of UDP's are drops.
    fn parse(line: &'a str) -> Option<Self> {
        let columns: Vec<_> = line.split_whitespace().collect();
        let (_, port) = columns.get(1)?.rsplit_once(':')?;
        Some(Self {
            port: u16::from_str_radix(port, 16).ok()?,
            state: columns.get(3)?,
            drops: columns.get(12).and_then(|drops| drops.parse().ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn a_line_tells_port_state_and_drops() {
        let heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when";
        assert_eq!(Socket::parse(heading), None);
        let line = " 1024: 0100007F:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000     \
                    0        0 6815 2 0000000000000000 23";
        let expected = Socket {
            port: 8080,
            state: "07",
            drops: Some(23),
        };
        assert_eq!(Socket::parse(line), Some(expected));
    }

    #[test]
    fn a_server_is_seen_over_its_transport_alone() {
        let pid = std::process::id();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        assert!(is_listening(pid, port, Transport::Tls).unwrap());
        assert!(!is_listening(pid, port, Transport::H3).unwrap());
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = udp.local_addr().unwrap().port();
        assert!(is_listening(pid, port, Transport::H3).unwrap());
        assert!(!is_listening(pid, port, Transport::H2c).unwrap());
    }

    #[test]
    fn datagrams_that_nobody_takes_are_counted_when_the_buffer_is_full() {
        let pid = std::process::id();
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(b"one", address).unwrap();
        assert_eq!(datagrams_lost(pid, address.port()).unwrap(), 0);
        // More than any default buffer holds.
        for _ in 0..10_000 {
            client.send_to(&[0; 1200], address).unwrap();
        }
        assert!(datagrams_lost(pid, address.port()).unwrap() > 0);
        drop(server);
        // A process that another test starts holds the socket too, from its fork to its exec.
        let in_time = Instant::now() + Duration::from_secs(10);
        while datagrams_lost(pid, address.port()).is_ok() {
            assert!(Instant::now() < in_time, "the socket is still there");
            thread::sleep(Duration::from_millis(1));
        }
    }
}
