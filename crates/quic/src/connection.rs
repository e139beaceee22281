//! A connection, as the application sees it: a trait, whatever speaks QUIC behind it.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

use crate::{Direction, Error, Event, PathStatistics, PeerIdentity, Read, Role, StreamId, Version};

/// A connection of a [`QuicEndpoint`](crate::QuicEndpoint), which lends it.
///
/// Calls on streams that are over, or of the other direction, do no harm, and so do all calls after the end.
pub trait QuicConnection {
    /// The next event. Those of a connection that an endpoint lends are the endpoint's to hand out
    /// ([`QuicEndpoint::poll_event`](crate::QuicEndpoint::poll_event)), unless it was asked which connection is
    /// [active](crate::QuicEndpoint::active).
    fn poll_event(&mut self) -> Option<Event>;

    /// Opens a stream, if the peer allows one more; else [`Event::StreamsAvailable`] will tell.
    ///
    /// None is opened either while [`Event::EarlyDataRefused`] is still to be told, nor on a connection
    /// that the peer has closed, though [`Event::Closed`] is still to be told.
    fn open(&mut self, direction: Direction) -> Option<StreamId>;

    /// Reads the next piece of a stream in order, as long as it came. The peer gets the credit to
    /// send as much again; not reading holds it back.
    fn read(&mut self, stream: StreamId) -> Read;

    /// The code with which the peer reset a stream that is not to be read now. Told once, here or by
    /// [`read`](Self::read).
    fn received_reset(&mut self, stream: StreamId) -> Option<u64>;

    /// Takes bytes to send from the front of `chunks`, by reference, as many as fit. Whether that was
    /// all; if not, [`Event::Writable`] tells when to go on.
    ///
    /// # Errors
    /// [`Error::UnknownStream`] if the stream can't be sent on (any more).
    fn write(&mut self, stream: StreamId, chunks: &mut [Bytes]) -> Result<bool, Error>;

    /// Sends bytes on a stream by copying as many as fit; how many. [`Event::Writable`] follows once more
    /// fit than did. For few bytes: where the peer opens its windows bit by bit, what is
    /// [written](Self::write) holds all of the chunk that it is a part of.
    ///
    /// # Errors
    /// [`Error::UnknownStream`] if the stream can't be sent on (any more).
    fn write_copy(&mut self, stream: StreamId, bytes: &[u8]) -> Result<usize, Error>;

    /// Ends a stream after what was written. [`Event::Finished`] follows once the peer has it all.
    ///
    /// # Errors
    /// [`Error::UnknownStream`] if the stream can't be sent on (any more).
    fn finish(&mut self, stream: StreamId) -> Result<(), Error>;

    /// Gives up what is to be sent on a stream (RESET_STREAM). Without effect on what is over.
    fn reset(&mut self, stream: StreamId, code: u64);

    /// Wants no more of what the peer sends on a stream (STOP_SENDING). Without effect on what is
    /// over.
    fn stop(&mut self, stream: StreamId, code: u64);

    /// Streams of a higher priority send first; equals take turns, packet by packet. 0 at first. A
    /// change counts from the next packet on.
    fn set_priority(&mut self, stream: StreamId, priority: i32);

    /// Sets the number of streams, of either side, that stay open as long as the connection and carry little at a time.
    /// With no others the connection holds no bytes worth mentioning, and what it had of
    /// [`Limits::max_held_bytes`](crate::Limits::max_held_bytes) is free for others. 0 at first.
    fn set_lasting(&mut self, streams: usize);

    /// Takes note of how many bytes the caller keeps in all of what it has read, for instance of messages
    /// that are not complete. False if they are too many: a server's connection may keep 8 KiB, and more as
    /// far as [`Limits::max_held_bytes`](crate::Limits::max_held_bytes) has room for it.
    fn keep(&mut self, bytes: u64) -> bool;

    /// Closes the connection at once. The peer hears of it with the next transmission, and the
    /// application by [`Event::Closed`].
    fn close(&mut self, code: u64, reason: &[u8]);

    /// Goes over to new keys with the next packet (RFC 9001 section 6), and the peer after it. Without
    /// effect during the handshake, and until the last change is some round trips over. Nobody needs
    /// to call it: it happens by itself before a key has encrypted too much, and when the peer begins.
    fn update_keys(&mut self);

    /// Returns the role of this side.
    #[must_use]
    fn role(&self) -> Role;

    /// The version of QUIC in use.
    #[must_use]
    fn version(&self) -> Version;

    /// Returns true if the handshake is still going on.
    #[must_use]
    fn is_handshaking(&self) -> bool;

    /// Returns true if either side has closed the connection, though [`Event::Closed`] may not be reported yet.
    #[must_use]
    fn is_ending(&self) -> bool;

    /// Returns true if [`Event::Closed`] was reported, or is to be reported before anything else.
    #[must_use]
    fn is_closed(&self) -> bool;

    /// The peer's address, as it is now.
    #[must_use]
    fn remote_address(&self) -> SocketAddr;

    /// Returns true if the peer has shown that it receives at that address (RFC 9000 sections 8.1 and 8.2).
    #[must_use]
    fn is_remote_validated(&self) -> bool;

    /// The address of this side that the peer's datagrams are sent to, where the socket tells it.
    #[must_use]
    fn local_ip(&self) -> Option<IpAddr>;

    /// Returns what the peer has shown of itself in the handshake, as far as it has come: names and certificates that TLS
    /// has verified once [`Event::Connected`] is there, or those of the session that is resumed.
    #[must_use]
    fn peer_identity(&self) -> PeerIdentity;

    /// Returns statistics of the connection's path; `None` before the first round trip. Not free: meant for now and
    /// then.
    #[must_use]
    fn path_statistics(&self) -> Option<PathStatistics>;
}
