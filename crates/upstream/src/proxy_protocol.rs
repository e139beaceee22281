//! The header of the PROXY protocol, version 2, by which a server is told whose request a connection carries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The signature, which begins no other protocol.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Version 2 and the command LOCAL: the connection is the proxy's own.
const LOCAL: u8 = 0x20;

/// Version 2 and the command PROXY: the connection carries what another has sent.
const PROXY: u8 = 0x21;

/// A byte stream over IPv4 and over IPv6. A client of HTTP/3 is said to come over a byte stream as well: that is what
/// the server has of it.
const STREAM: [u8; 2] = [0x11, 0x21];

/// The header for a client and the address that its connection was made to; `None`: the proxy speaks for itself. Where
/// the latter is not known, or of the other family, it is said to be unspecified.
pub(crate) fn header(ends: Option<(SocketAddr, Option<SocketAddr>)>) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    let Some((client, local)) = ends else {
        header.extend([LOCAL, 0, 0, 0]);
        return header;
    };
    let port = local.map_or(0, |local| local.port());
    let local = local.map(|local| local.ip().to_canonical());
    let port = match client.ip().to_canonical() {
        IpAddr::V4(ip) => {
            let known = match local {
                Some(IpAddr::V4(local)) => Some(local),
                _ => None,
            };
            header.extend([PROXY, STREAM[0], 0, 12]);
            header.extend(ip.octets());
            header.extend(known.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
            known.map_or(0, |_| port)
        }
        IpAddr::V6(ip) => {
            let known = match local {
                Some(IpAddr::V6(local)) => Some(local),
                _ => None,
            };
            header.extend([PROXY, STREAM[1], 0, 36]);
            header.extend(ip.octets());
            header.extend(known.unwrap_or(Ipv6Addr::UNSPECIFIED).octets());
            known.map_or(0, |_| port)
        }
    };
    header.extend(client.port().to_be_bytes());
    header.extend(port.to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    fn header(client: &str, local: Option<&str>) -> Vec<u8> {
        let local = local.map(|local| local.parse().unwrap());
        super::header(Some((client.parse().unwrap(), local)))
    }

    #[test]
    fn a_connection_is_named_by_both_of_its_addresses_and_ports() {
        let known = header("192.0.2.7:258", Some("198.51.100.1:443"));
        assert_eq!(
            &known[..12],
            b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a"
        );
        let rest = [
            0x21, 0x11, 0, 12, 192, 0, 2, 7, 198, 51, 100, 1, 1, 2, 1, 187,
        ];
        assert_eq!(known[12..], rest);
        let mapped = header("192.0.2.7:258", Some("[::ffff:198.51.100.1]:443"));
        assert_eq!(mapped, known);
    }

    #[test]
    fn what_is_not_known_of_the_same_family_is_unspecified() {
        let rest = [0x21, 0x11, 0, 12, 192, 0, 2, 7, 0, 0, 0, 0, 1, 2, 0, 0];
        for local in [None, Some("[2001:db8::1]:443")] {
            assert_eq!(header("192.0.2.7:258", local)[12..], rest);
        }
    }

    #[test]
    fn addresses_of_ipv6_are_whole_and_mapped_ones_are_ipv4() {
        let six = header("[2001:db8::1]:443", Some("[2001:db8::2]:258"));
        assert_eq!(six[12..18], [0x21, 0x21, 0, 36, 0x20, 0x01]);
        assert_eq!(six.len(), 16 + 36);
        assert_eq!((six[31], six[47]), (1, 2));
        assert_eq!(six[48..], [1, 187, 1, 2]);
        let mapped = header("[::ffff:192.0.2.7]:1", None);
        assert_eq!(mapped, header("192.0.2.7:1", None));
    }

    #[test]
    fn the_proxy_speaks_for_itself_without_an_address() {
        assert_eq!(super::header(None)[12..], [0x20, 0, 0, 0]);
    }
}
