//! The carrier: what the exchanges of a connection need of its protocol.

use crate::request::handler::BoxError;
use crate::request::prepared::Prepared;
use crate::request::requests::{Now, Requests};
use crate::selection::counters::Counters;
use altway_select::Decision;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use std::hash::Hash;

/// The part of a protocol in the exchanges of one connection.
pub(crate) trait Carrier {
    /// Names a stream of the connection.
    type Stream: Copy + Eq + Hash;

    /// Names an exchange among all whose pending work is kept together.
    type Key: Copy + Eq + Hash + Unpin + Send + 'static;

    /// True if a response may leave while the client still sends a request that nobody reads. Else the response waits
    /// for the request's end, or until enough of it has come: some clients do not read before they have sent.
    const ANSWERS_EARLY: bool;

    /// The key of a stream's exchange.
    fn key(&self, stream: Self::Stream) -> Self::Key;

    /// Sends a head that precedes the response's (RFC 9110 section 15.2). Without effect where the response has
    /// begun: then the client has its answer.
    fn send_informational(&mut self, stream: Self::Stream, status: StatusCode, fields: HeaderMap);

    /// Sends a response's head. `end`: it has no content.
    ///
    /// # Errors
    /// The stream is gone, or the head can't be sent.
    fn send_head(
        &mut self,
        stream: Self::Stream,
        head: Response<()>,
        end: bool,
    ) -> Result<(), BoxError>;

    /// Sends a prepared answer's head, and as much of its content as leaves at once; how many bytes.
    ///
    /// # Errors
    /// The stream is gone, or the head can't be sent.
    fn send_prepared<I>(
        &mut self,
        stream: Self::Stream,
        requests: &Requests<I>,
        prepared: &Prepared,
        decision: Option<&Decision>,
        now: Now,
    ) -> Result<usize, BoxError>;

    /// Bytes of a response's content that are worth having ready; `None`: it is another response's turn.
    /// `again`: some were handed over already, and the protocol has taken them all.
    fn room(&self, stream: Self::Stream, again: bool) -> Option<usize>;

    /// Takes as many bytes as it can from the front of `data`. `last`: the content ends with them.
    ///
    /// # Errors
    /// The stream is gone.
    fn send_data(
        &mut self,
        stream: Self::Stream,
        data: &mut Bytes,
        last: bool,
    ) -> Result<(), BoxError>;

    /// Ends the content with fields.
    ///
    /// # Errors
    /// The stream is gone, or the fields are too large.
    fn send_trailers(&mut self, stream: Self::Stream, fields: &HeaderMap) -> Result<(), BoxError>;

    /// The server holds `bytes` of a request's content no longer: the client may send as many more.
    fn release(&mut self, stream: Self::Stream, bytes: usize);

    /// Leaves to the engine what is still to come of a request's content that nobody reads; false where what
    /// comes is given to the application all the same.
    fn leave_content(&mut self, stream: Self::Stream) -> bool;

    /// Abandons a stream because of a failure of the server's (H2 INTERNAL_ERROR, H3_INTERNAL_ERROR).
    fn abandon(&mut self, stream: Self::Stream);

    /// Returns true if a stream is gone because its client took the request back.
    fn is_taken_back(error: &BoxError) -> bool;

    /// An exchange has its response, or never will have it.
    fn over(&mut self, stream: Self::Stream);

    /// Requests of the connection that have no whole response yet.
    fn in_progress(&self) -> usize;

    /// Finds out when the client has everything that was sent.
    fn watch(&mut self);

    /// Reads the counters of the connection's transport.
    fn counters(&mut self) -> Option<Counters>;
}
