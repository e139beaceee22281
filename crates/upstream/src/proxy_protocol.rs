//! The header of the PROXY protocol, version 2, by which a server is told whose request a connection carries.

use std::net::{IpAddr, SocketAddr};

/// The signature, which begins no other protocol.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Version 2 and the command LOCAL: the connection is the proxy's own.
const LOCAL: u8 = 0x20;

/// Version 2 and the command PROXY: the connection carries what another has sent.
const PROXY: u8 = 0x21;

/// A byte stream over IPv4 and over IPv6. A client of HTTP/3 is said to come over a byte stream as well: that is what
/// the server has of it.
const STREAM: [u8; 2] = [0x11, 0x21];

/// The header for a client; `None`: the proxy speaks for itself. The address to which the client has come is said to be
/// unspecified: of a request it is not known, and there may be several.
pub(crate) fn header(client: Option<SocketAddr>) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    let Some(client) = client else {
        header.extend([LOCAL, 0, 0, 0]);
        return header;
    };
    let port = client.port().to_be_bytes();
    match client.ip().to_canonical() {
        IpAddr::V4(ip) => {
            header.extend([PROXY, STREAM[0], 0, 12]);
            header.extend(ip.octets());
            header.extend([0; 4]);
        }
        IpAddr::V6(ip) => {
            header.extend([PROXY, STREAM[1], 0, 36]);
            header.extend(ip.octets());
            header.extend([0; 16]);
        }
    }
    header.extend(port);
    header.extend([0; 2]);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_named_by_its_address_and_port() {
        let header = header(Some("192.0.2.7:258".parse().unwrap()));
        assert_eq!(
            &header[..12],
            b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a"
        );
        let rest = [0x21, 0x11, 0, 12, 192, 0, 2, 7, 0, 0, 0, 0, 1, 2, 0, 0];
        assert_eq!(header[12..], rest);
    }

    #[test]
    fn addresses_of_ipv6_are_whole_and_mapped_ones_are_ipv4() {
        let six = header(Some("[2001:db8::1]:443".parse().unwrap()));
        assert_eq!(six[12..18], [0x21, 0x21, 0, 36, 0x20, 0x01]);
        assert_eq!(six.len(), 16 + 36);
        assert_eq!(six[48..], [1, 187, 0, 0]);
        let mapped = header(Some("[::ffff:192.0.2.7]:1".parse().unwrap()));
        assert_eq!(mapped, header(Some("192.0.2.7:1".parse().unwrap())));
    }

    #[test]
    fn the_proxy_speaks_for_itself_without_an_address() {
        assert_eq!(header(None)[12..], [0x20, 0, 0, 0]);
    }
}
