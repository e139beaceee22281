//! Tells HTTP/2 by prior knowledge from HTTP/1.1 in clear text, by the first bytes.

use std::io;
use tokio::net::TcpStream;

/// The first bytes of an HTTP/2 client (RFC 9113 section 3.4). No HTTP/1.1 request begins so.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The most bytes that are read to find out: enough for a preface, and for most request lines.
const MAX_BYTES: usize = 512;

/// The beginning of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Beginning {
    /// True if the client speaks HTTP/2, or nothing that an HTTP/1.1 server could answer: the HTTP/2
    /// engine then reports that the preface is wrong.
    pub(super) is_http2: bool,
    /// The bytes that were read to find that out.
    pub(super) bytes: Vec<u8>,
}

/// Reads as much as it takes.
///
/// # Errors
/// The socket's.
pub(super) async fn read(stream: &TcpStream) -> io::Result<Beginning> {
    let mut bytes = vec![0; MAX_BYTES];
    let mut len = 0;
    loop {
        stream.readable().await?;
        let n = match stream.try_read(&mut bytes[len..]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            read => read?,
        };
        len += n;
        let verdict = is_http2(&bytes[..len]);
        if verdict.is_some() || n == 0 {
            bytes.truncate(len);
            return Ok(Beginning {
                is_http2: verdict.unwrap_or(false),
                bytes,
            });
        }
    }
}

/// `None` while it can't be told.
fn is_http2(bytes: &[u8]) -> Option<bool> {
    if PREFACE.starts_with(bytes) {
        return (bytes == PREFACE).then_some(true);
    }
    Some(bytes.starts_with(PREFACE) || is_no_request_line(bytes))
}

/// Returns true if there is a first line, and it does not end as those of HTTP/1 do.
fn is_no_request_line(bytes: &[u8]) -> bool {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return false;
    };
    let line = bytes[..end].trim_ascii_end();
    // RFC 9112 section 2.2: an empty line before the request line is to be ignored.
    !line.is_empty() && !line.ends_with(b" HTTP/1.1") && !line.ends_with(b" HTTP/1.0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    /// Returns the result of reading `pieces`, written one by one.
    async fn beginning(pieces: &[&[u8]]) -> Beginning {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let writing = async {
            let mut client = TcpStream::connect(address).await.unwrap();
            for piece in pieces {
                client.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let reading = async {
            let (stream, _) = listener.accept().await.unwrap();
            read(&stream).await.unwrap()
        };
        tokio::join!(writing, reading).1
    }

    #[tokio::test]
    async fn the_preface_means_http2_however_it_is_cut() {
        for at in [1, 3, 23, 24] {
            let (first, rest) = PREFACE.split_at(at);
            let found = beginning(&[first, rest]).await;
            assert!(found.is_http2, "{at}");
            assert_eq!(found.bytes, PREFACE);
        }
    }

    #[tokio::test]
    async fn requests_of_http1_are_handed_on_as_they_came() {
        for text in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"P",
            b"PRI * HTTP/1.1\r\n",
            b"\r\nGET",
            b"",
        ] {
            let found = beginning(&[text]).await;
            assert!(!found.is_http2, "{text:?}");
            assert_eq!(found.bytes, text);
        }
    }

    #[tokio::test]
    async fn what_is_neither_is_left_to_the_engine_that_can_say_so() {
        for text in [
            &b"INVALID CONNECTION PREFACE\r\n\r\n"[..],
            b"\x16\x03\x01\n",
        ] {
            assert!(beginning(&[text]).await.is_http2, "{text:?}");
        }
    }
}
