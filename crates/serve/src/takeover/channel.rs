//! Messages with descriptors over a Unix socket that keeps them apart (SOCK_SEQPACKET).

use super::message::Message;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The largest message.
const MESSAGE_BYTES: usize = 16 << 10;

/// Descriptors that go with one message; Linux takes 253 (SCM_MAX_FD).
pub(super) const MAX_DESCRIPTORS: usize = 250;

/// Sends a message, at once or not at all.
///
/// # Errors
/// The other side has gone, or reads nothing.
pub(super) fn send(
    socket: &OwnedFd,
    message: &Message,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(&text)], &mut control, flags)?;
    Ok(())
}

/// The next message and what came with it.
///
/// # Errors
/// `UnexpectedEof`: the other side has gone. `InvalidData`: it says what nobody understands.
/// `WouldBlock`: it says nothing, or nothing for [`set_receive_timeout`]'s time.
pub(super) fn receive(socket: &OwnedFd) -> io::Result<(Message, Vec<OwnedFd>)> {
    let mut text = vec![0; MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut text)];
    let received = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
        _ => Vec::new(),
    });
    // Closed by their drop, whatever comes next.
    let descriptors: Vec<OwnedFd> = descriptors.collect();
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok((
        serde_json::from_slice(&text[..received.bytes])?,
        descriptors,
    ))
}

/// Receives a message as [`receive`] does, on an event loop, from a socket that doesn't block.
///
/// # Errors
/// As [`receive`].
pub(super) async fn next(socket: &AsyncFd<OwnedFd>) -> io::Result<(Message, Vec<OwnedFd>)> {
    socket.async_io(Interest::READABLE, receive).await
}

/// Lets [`receive`] wait for so long.
///
/// # Errors
/// None in practice.
pub(super) fn set_receive_timeout(socket: &OwnedFd, time: Duration) -> io::Result<()> {
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(time))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    #[test]
    fn as_many_descriptors_as_a_message_may_have_arrive() {
        let (here, there) = pair();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let sent = [listener.as_fd(); MAX_DESCRIPTORS];
        send(&here, &Message::Sockets, &sent).unwrap();
        let (message, descriptors) = receive(&there).unwrap();
        assert!(matches!(message, Message::Sockets));
        assert_eq!(descriptors.len(), MAX_DESCRIPTORS);
        for descriptor in descriptors {
            let same = TcpListener::from(descriptor).local_addr().unwrap();
            assert_eq!(same, listener.local_addr().unwrap());
        }
    }

    #[test]
    fn one_too_many_is_not_sent() {
        let (here, _there) = pair();
        let sent = [here.as_fd(); MAX_DESCRIPTORS + 10];
        let error = send(&here, &Message::Sockets, &sent).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn whoever_has_gone_or_says_nothing_or_nonsense_is_told_apart() {
        let (here, there) = pair();
        set_receive_timeout(&there, Duration::from_millis(10)).unwrap();
        let kind = || receive(&there).unwrap_err().kind();
        assert_eq!(kind(), io::ErrorKind::WouldBlock);
        for nonsense in [
            &b"{"[..],
            b"{\"say\":\"goodbye\"}",
            &[b' '; MESSAGE_BYTES + 1],
        ] {
            rustix::net::send(&here, nonsense, SendFlags::empty()).unwrap();
            let kind = kind();
            use io::ErrorKind::{InvalidData, UnexpectedEof};
            assert!(matches!(kind, InvalidData | UnexpectedEof), "{kind}");
        }
        drop(here);
        assert_eq!(kind(), io::ErrorKind::UnexpectedEof);
    }
}
