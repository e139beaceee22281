//! Options of a TCP socket: how much the kernel keeps unsent, and how the connection ends.

use socket2::SockRef;
use std::io;
use std::net::Shutdown;
use std::time::Duration;
use tokio::net::TcpStream;

/// Has the kernel hold no more than about so many bytes that it has not sent (TCP_NOTSENT_LOWAT).
pub(super) fn limit_unsent(stream: &TcpStream, bytes: u32) {
    // Where there is no such option, what is urgent waits for what the kernel holds.
    if let Err(error) = SockRef::from(stream).set_tcp_notsent_lowat(bytes) {
        tracing::debug!(%error, "the kernel holds as much as it likes");
    }
}

/// Has the kernel drop what is not sent when the connection closes, and reset the connection.
pub(super) fn abort_on_close(stream: &TcpStream) {
    if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "what is not sent stays with the kernel");
    }
}

/// Closes this side's half. Returns false if the peer was faster: there is no connection any more.
pub(super) fn shutdown_write(stream: &TcpStream) -> io::Result<bool> {
    match SockRef::from(stream).shutdown(Shutdown::Write) {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        shut => shut.map(|()| true),
    }
}
