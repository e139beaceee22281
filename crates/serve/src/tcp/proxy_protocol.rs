//! The header by which a proxy says whose connection it passes on: the PROXY protocol, version 2.
//!
//! The header is binary, stands before all else, and gives its length, so that not a byte more is read than it has.
//! Version 1, which is text, and whatever else comes in its place are refused: a proxy of a trusted network names its
//! client, or is not served.

use crate::client_prefix::canonical;
use proxy_header::{ParseConfig, ProxyHeader};
use std::io;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// The beginning of every header: the signature, version and command, family, and the length of the rest.
const FIXED_BYTES: usize = 16;

/// The signature, which begins no other protocol.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The most bytes of the rest: two addresses of Unix sockets take 216, and what proxies add is short.
const MAX_REST: usize = 1 << 10;

/// Both ends of a client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionAddresses {
    pub(super) peer: SocketAddr,
    /// The address that it was made to; `None`: it is not known.
    pub(super) local: Option<SocketAddr>,
}

/// Reads the header; gives the client's connection that it names, or `None` where the proxy speaks for itself.
///
/// # Errors
/// `InvalidData`: it is none. Otherwise the socket's.
pub(super) async fn read(stream: &TcpStream) -> io::Result<Option<ConnectionAddresses>> {
    let mut header = vec![0; FIXED_BYTES];
    fill(stream, &mut header, |bytes| {
        let signed = bytes.len().min(SIGNATURE.len());
        bytes[..signed] == SIGNATURE[..signed]
    })
    .await?;
    let rest = usize::from(u16::from_be_bytes([header[14], header[15]]));
    if rest > MAX_REST {
        return Err(invalid());
    }
    header.resize(FIXED_BYTES + rest, 0);
    fill(stream, &mut header[FIXED_BYTES..], |_| true).await?;
    client(&header).ok_or_else(invalid)
}

/// The connection that a header names; the outer `None`: it is no header.
fn client(header: &[u8]) -> Option<Option<ConnectionAddresses>> {
    let config = ParseConfig {
        include_tlvs: false,
        allow_v1: false,
        allow_v2: true,
    };
    let (header, length) = ProxyHeader::parse(header, config).ok()?;
    debug_assert!(length >= FIXED_BYTES);
    let named = header.proxied_address();
    Some(named.map(|address| {
        let local = canonical(address.destination);
        ConnectionAddresses {
            peer: canonical(address.source),
            // A proxy that does not know it says so.
            local: (!local.ip().is_unspecified()).then_some(local),
        }
    }))
}

/// Reads until the place is full; `is_good` looks at what is there each time.
async fn fill(
    stream: &TcpStream,
    place: &mut [u8],
    is_good: impl Fn(&[u8]) -> bool,
) -> io::Result<()> {
    let mut len = 0;
    while len < place.len() {
        stream.readable().await?;
        match stream.try_read(&mut place[len..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => len += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if !is_good(&place[..len]) {
            return Err(invalid());
        }
    }
    Ok(())
}

fn invalid() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "no header of the PROXY protocol, version 2",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A header by hand: command, family with protocol, and what follows.
    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    #[test]
    fn a_header_names_both_ends_of_the_client_s_connection() {
        let ends = |peer: &str, local: Option<&str>| ConnectionAddresses {
            peer: peer.parse().unwrap(),
            local: local.map(|it| it.parse().unwrap()),
        };
        let ipv4 = [192, 0, 2, 7, 10, 0, 0, 1, 0xc0, 0x01, 0x01, 0xbb];
        let named = client(&header(0x21, 0x11, &ipv4));
        assert_eq!(
            named,
            Some(Some(ends("192.0.2.7:49153", Some("10.0.0.1:443"))))
        );
        let mut ipv6 = [0; 36];
        ipv6[..2].copy_from_slice(&[0x20, 0x01]);
        ipv6[15] = 9;
        ipv6[32..34].copy_from_slice(&[0, 80]);
        let named = client(&header(0x21, 0x21, &ipv6));
        assert_eq!(named, Some(Some(ends("[2001::9]:80", None))));
        // With a field of the proxy's behind the addresses.
        let more = [&ipv4[..], &[0x04, 0, 1, 0]].concat();
        assert!(matches!(client(&header(0x21, 0x11, &more)), Some(Some(_))));
    }

    #[test]
    fn a_proxy_that_speaks_for_itself_names_nobody() {
        assert_eq!(client(&header(0x20, 0x00, &[])), Some(None));
        assert_eq!(client(&header(0x21, 0x00, &[])), Some(None));
    }

    #[test]
    fn what_is_no_header_is_none() {
        for bytes in [
            header(0x11, 0x11, &[0; 12]),
            header(0x22, 0x11, &[0; 12]),
            header(0x21, 0x11, &[0; 11]),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 49153 443\r\n".to_vec(),
        ] {
            assert_eq!(client(&bytes), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_reading_panic(command: u8, family: u8, rest in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = client(&header(command, family, &rest));
        }
    }
}
