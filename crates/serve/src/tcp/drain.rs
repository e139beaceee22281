//! The end of an HTTP/1.1 connection whose client may still be sending: "If a server performs an
//! immediate close of a TCP connection, there is a significant risk that the client will not be able to
//! read the last HTTP response" (RFC 9112 section 9.6), for the kernel answers what nobody has read by RST.
//! docs/decisions/0059 has the rule, and what it is over HTTP/2 and HTTP/3.

use super::kernel::shutdown_write;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time that the client may take to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes that the client may go on sending.
const MAX_DISCARDED: usize = 16 << 20;

/// Closes this side's half, and throws away what comes until the client closes or a limit is reached.
pub(super) async fn drain(socket: &TcpStream) -> io::Result<()> {
    let closed = timeout(CLOSE_TIMEOUT, close(socket, MAX_DISCARDED));
    closed.await.unwrap_or(Ok(()))
}

/// Closes this side's half, and throws away what comes until the client closes, or has sent `most` bytes.
pub(super) async fn close(socket: &TcpStream, most: usize) -> io::Result<()> {
    if !shutdown_write(socket)? {
        return Ok(());
    }
    let mut discarded = 0;
    while discarded < most {
        socket.readable().await?;
        // Not kept while a crowd of clients is waited for.
        let mut buffer = [0; 16 << 10];
        match socket.try_read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => discarded += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
