//! Extensible priorities (RFC 9218): from what a client wishes to the order in which QUIC sends.
//!
//! Responses of a smaller urgency go first. Within one, those that are not incremental go one after
//! the other in the order of their requests, and then the incremental ones share. A client's own
//! requests share alike.

use altway_fields::Priority;
use altway_quic::QuicConnection;
use bytes::Bytes;

use super::Connection;
use crate::failure::Violation;
use crate::{Code, StreamId};

/// QUIC's priority of each urgency's incremental responses is a multiple of this; the others' are
/// between.
const STEP: i32 = 1 << 27;

/// QUIC's priority for a response. It needs no memory of other streams: older requests come first
/// because their index is smaller, modulo a number that no connection's concurrency comes near to.
pub(super) fn rank(id: StreamId, priority: Priority) -> i32 {
    let level = (7 - i32::from(priority.urgency.min(7))) * STEP;
    if priority.incremental {
        return level;
    }
    let places = STEP - 1;
    let place = i32::try_from(id.index() % places.unsigned_abs() as u64).expect("below 2^27");
    level + places - place
}

/// Returns the priority that a request's fields ask for.
pub(super) fn of_request(head: &http::Request<()>) -> Priority {
    let field = head.headers().get("priority");
    field.map_or_else(Priority::default, |value| Priority::parse(value.as_bytes()))
}

impl Connection {
    /// PRIORITY_UPDATE came (section 7.2).
    pub(super) fn on_priority_update(
        &mut self,
        quic: &mut impl QuicConnection,
        id: u64,
        field: &Bytes,
    ) -> Result<(), Violation> {
        // "A client that receives a PRIORITY_UPDATE frame MUST respond with a connection error of
        // type H3_FRAME_UNEXPECTED"; "a server that receives [one] for a stream ID that is not a
        // request stream MUST" respond with H3_ID_ERROR, and SHOULD for one "beyond the stream
        // limits".
        let beyond =
            self.next_request + 4 * u64::from(self.shared_config.limits.max_concurrent_requests);
        if !id.is_multiple_of(4) || id >= beyond {
            let reason = "PRIORITY_UPDATE of a stream that can't be";
            return Err(Violation::new(Code::H3_ID_ERROR, reason));
        }
        let priority = Priority::parse(field);
        if id >= self.next_request {
            // One for each request that may be opened, by the check above.
            self.pending_priorities.insert(id, priority);
            return Ok(());
        }
        let mut ids = self.exchanges.keys();
        if let Some(id) = ids.find(|known| known.get() == id).copied() {
            if let Some(exchange) = self.exchanges.get_mut(&id)
                && !exchange.announced
            {
                exchange.requested_priority = Some(priority);
            }
            self.prioritise(quic, id, priority);
        }
        Ok(())
    }

    /// The request's own wish, unless a PRIORITY_UPDATE came before it: that is newer.
    pub(super) fn prioritise_request(
        &mut self,
        quic: &mut impl QuicConnection,
        id: StreamId,
        own: Priority,
    ) {
        let exchange = self.exchanges.get_mut(&id);
        let requested_priority = exchange.and_then(|exchange| exchange.requested_priority.take());
        self.prioritise(quic, id, requested_priority.unwrap_or(own));
    }

    /// The message of this stream is over: what made way for it gets its own rank back.
    pub(super) fn end_precedence(&mut self, quic: &mut impl QuicConnection, id: StreamId) {
        for (other, exchange) in &mut self.exchanges {
            if exchange.yields_to == Some(id) {
                exchange.yields_to = None;
                quic.set_priority(*other, exchange.rank);
            }
        }
    }

    fn prioritise(&mut self, quic: &mut impl QuicConnection, id: StreamId, priority: Priority) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let (old, new) = (exchange.rank, rank(id, priority));
        exchange.rank = new;
        exchange.yields_to = None;
        quic.set_priority(id, new);
        if exchange.begun() && new > old {
            exchange.raised = true;
            self.make_way(quic, id, old, new);
        }
    }

    /// QUIC sees a new priority when a stream's turn comes by the old one. That is soon for a stream
    /// that is lowered; but one that is raised would wait until all between are done. So these go
    /// behind it instead, until it is over.
    fn make_way(&mut self, quic: &mut impl QuicConnection, id: StreamId, old: i32, new: i32) {
        for (other, exchange) in &mut self.exchanges {
            if *other != id && (old..new).contains(&exchange.rank) {
                exchange.yields_to = Some(id);
                quic.set_priority(*other, old - 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use altway_quic::{Direction, Role};

    use super::*;

    fn ranked(index: u64, urgency: u8, incremental: bool) -> i32 {
        let id = StreamId::new(Role::Client, Direction::Bidirectional, index);
        let priority = Priority {
            urgency,
            incremental,
        };
        rank(id, priority)
    }

    #[test]
    fn urgency_comes_before_age_and_age_before_sharing() {
        let order = [
            ranked(1 << 40, 0, false),
            ranked(3, 0, true),
            ranked(0, 3, false),
            ranked(1, 3, false),
            ranked(0, 3, true),
            ranked(0, 7, false),
            ranked(9, 7, true),
        ];
        assert!(order.windows(2).all(|pair| pair[0] > pair[1]), "{order:?}");
        assert_eq!(ranked(5, 3, true), ranked(6, 3, true));
        assert!(order[0] < i32::MAX, "control streams go first");
    }
}
