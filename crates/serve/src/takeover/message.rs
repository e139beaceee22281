//! Messages between the two processes of a takeover.
//!
//! [`Message::Hello`] and [`Message::Refused`] are understood by every version; all else by processes
//! whose [`PROTOCOL`] is the same.

use super::Secrets;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The version of all that passes between two processes: these messages, the order of the
/// descriptors, passed datagrams, and what connection IDs say. Counts up with each change.
pub(super) const PROTOCOL: u32 = 5;

/// Messages, in the order in which they are sent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub(super) enum Message {
    /// New process: whoever wants to take over.
    Hello {
        /// The [`PROTOCOL`] of the new process.
        protocol: u32,
        /// The version of the new process, for people.
        version: String,
    },
    /// Running process: why it stays as it is.
    Refused {
        /// The reason, for people.
        reason: String,
    },
    /// Running process: what there is. [`Message::Sockets`] follow.
    Offer(Box<Offer>),
    /// Running process: some of the descriptors.
    Sockets,
    /// New process: as soon as the sockets are its own it serves.
    Ready,
    /// Running process: they are.
    Yours,
}

/// The state that a server hands over. The descriptors that come with it: the socket at the path, the way of datagrams
/// back to its process, those to the processes before it, and for each address, the first one first, the TCP listeners
/// and the UDP sockets, each in their order: first the workers', then those of processes before it that had more workers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Offer {
    /// The number of its process.
    pub(super) process: u32,
    /// The number of the process in the row of those that took over.
    pub(super) generation: u8,
    /// The address that the server listens at.
    pub(super) address: SocketAddr,
    /// The further addresses where it listens.
    pub(super) further: Vec<FurtherOffer>,
    /// The number of worker threads.
    pub(super) workers: usize,
    /// TCP listeners at `address`, one at least.
    pub(super) tcp: usize,
    /// UDP sockets at `address`; none without HTTP/3.
    pub(super) udp: usize,
    /// The bytes that the server's connection IDs begin with, in hexadecimal.
    pub(super) server_id: String,
    /// The processes before it that have not ended.
    pub(super) predecessors: Vec<PredecessorOffer>,
    /// The keys on which the server's clients rely.
    pub(super) secrets: Secrets,
}

/// A further address.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FurtherOffer {
    pub(super) address: SocketAddr,
    /// TCP listeners there, one at least.
    pub(super) tcp: usize,
    /// UDP sockets there; none without HTTP/3.
    pub(super) udp: usize,
}

/// A process before the one that offers, by what its connection IDs begin with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PredecessorOffer {
    /// The process's number in the row of those that took over from each other.
    pub(super) generation: u8,
    /// The number of its worker threads.
    pub(super) workers: usize,
    /// The bytes that its connection IDs begin with, in hexadecimal.
    pub(super) server_id: String,
}
