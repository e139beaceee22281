//! Tells HTTP/2 by prior knowledge from HTTP/1.1 in clear text, by the first bytes.

use std::io;
use tokio::net::TcpStream;

/// What an HTTP/2 client sends first (RFC 9113 section 3.4). No HTTP/1.1 request begins so.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The beginning of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Beginning {
    pub(super) is_http2: bool,
    /// The bytes that were read to find that out.
    pub(super) bytes: Vec<u8>,
}

/// Reads as much as it takes, at most the preface's length.
///
/// # Errors
/// The socket's.
pub(super) async fn read(stream: &TcpStream) -> io::Result<Beginning> {
    let mut bytes = vec![0; PREFACE.len()];
    let mut len = 0;
    loop {
        stream.readable().await?;
        let n = match stream.try_read(&mut bytes[len..]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            read => read?,
        };
        len += n;
        let is_http2 = len == PREFACE.len() && bytes == PREFACE;
        if is_http2 || n == 0 || bytes[..len] != PREFACE[..len] {
            bytes.truncate(len);
            return Ok(Beginning { is_http2, bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    /// What is made of `text`, written piece by piece.
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
    async fn anything_else_is_handed_on_as_it_came() {
        for text in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"P", b"PRI * HTTP/1.1", b""] {
            let found = beginning(&[text]).await;
            assert!(!found.is_http2);
            assert!(text.starts_with(&found.bytes), "{text:?}");
        }
    }
}
