//! The new process's side of a takeover, with a running one that sends anything.

use super::channel::{MAX_DESCRIPTORS, receive};
use super::message::{Message, Offer};
use super::successor::{StartRequest, request_handover};
use super::{Secrets, channel};
use crate::Error;
use crate::listen::Request;
use crate::options::{Bind, Spread};
use altway_http3::ServerId;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags,
    SocketType, sendmsg, shutdown, socketpair,
};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// Processes before this one that a takeover may leave at most.
pub const MAX_PREDECESSORS: usize = super::MAX_PREDECESSORS;

/// Workers of both processes.
const WORKERS: usize = 2;

/// The sockets of a process after a takeover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Processes before it.
    pub predecessors: usize,
    /// TCP listeners.
    pub tcp: usize,
    /// UDP sockets.
    pub udp: usize,
}

/// Takes over from a process that sends these messages, each with so many copies of `descriptor`
/// (at most 250), and ends.
///
/// # Errors
/// As those of a new process.
///
/// # Panics
/// No descriptors are left.
pub fn take_over(messages: &[(&[u8], usize)], descriptor: BorrowedFd<'_>) -> Result<Taken, Error> {
    let (ours, theirs) = pair();
    for (text, copies) in messages {
        let copies = vec![descriptor; (*copies).min(MAX_DESCRIPTORS)];
        // A full socket takes no more: the rest is as if it had never been sent.
        if send(&theirs, text, &copies).is_err() {
            break;
        }
    }
    // Not closed: what the new process sends must have somewhere to go.
    shutdown(&theirs, Shutdown::Write).expect("it is connected");
    let request = Request {
        bind: Bind::Address(Ipv4Addr::LOCALHOST.into()),
        port: 8443,
        workers: WORKERS,
        spread: Spread::PerWorker,
        with_udp: true,
        congestion: None,
        passed: Vec::new(),
        further: Vec::new(),
    };
    let wanted = StartRequest {
        request: &request,
        server_id: ServerId::default(),
        path: None,
    };
    let beginning = request_handover(Path::new("socket"), ours, &wanted)?;
    Ok(Taken {
        predecessors: beginning.predecessors.len(),
        tcp: beginning.bound.main().tcp.len(),
        udp: beginning.bound.main().udp.len(),
    })
}

/// The message that a process understands by these bytes, as it would send it itself.
#[must_use]
pub fn understood(text: &[u8]) -> Option<Vec<u8>> {
    let (ours, theirs) = pair();
    send(&theirs, text, &[]).ok()?;
    let (message, _) = receive(&ours).ok()?;
    channel::send(&ours, &message, &[]).ok()?;
    serde_json::to_vec(&message).ok()
}

/// An offer that [`take_over`] takes, if six descriptors follow it.
///
/// # Panics
/// Never: an offer can be written as JSON.
#[must_use]
pub fn offer() -> Vec<u8> {
    let secrets = Secrets {
        reset_key: [0; 32],
        token_key: [0; 32],
    };
    let offer = Offer {
        process: 1,
        generation: 0,
        address: (Ipv4Addr::LOCALHOST, 8443).into(),
        further: Vec::new(),
        workers: WORKERS,
        tcp: WORKERS,
        udp: WORKERS,
        server_id: String::new(),
        predecessors: Vec::new(),
        secrets,
    };
    serde_json::to_vec(&Message::Offer(Box::new(offer))).expect("JSON")
}

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("two descriptors")
}

fn send(socket: &OwnedFd, text: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(text)], &mut control, flags)?;
    Ok(())
}
