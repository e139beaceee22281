//! Memory that a connection gives back while it idles.
//!
//! State that speeds up a busy connection, such as the head of the latest request, memos of field blocks and room in buffers,
//! takes more than what an idle one has to remember: its settings, windows and dynamic tables.

use super::{Connection, Turn};
use crate::priority::Scheduler;
use std::time::Instant;

impl Connection {
    /// Time since which no stream is open and nothing has come; `None` while there is a stream, and after the end.
    #[must_use]
    pub fn idle_since(&self) -> Option<Instant> {
        let idles = self.streams.is_empty() && !self.state.closed;
        idles.then_some(self.clock.active)
    }
}

impl Turn<'_> {
    /// Gives back the memory that would spare work if a request came soon. To be called when the connection has
    /// [idled](Connection::idle_since) for a while; without effect while it doesn't, or a field block has not come whole.
    /// Nothing of it is seen from outside but that a request's [`HeadId`](crate::HeadId) is a new one.
    pub fn rest(&mut self) {
        let connection = &mut *self.connection;
        if connection.idle_since().is_none() || connection.assembly.is_some() {
            return;
        }
        connection.head.rest();
        connection.decoder.rest();
        connection.encoder.rest();
        connection.reading.rest();
        connection.streams.rest();
        connection.scheduler = Scheduler::default();
        connection.events.shrink_to_fit();
        connection.early_priorities.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Event, FieldBlock, HeadId, Indexing, Output, StreamId};
    use http::{HeaderMap, Request};
    use std::sync::Arc;
    use std::time::Duration;

    /// The most bytes of a connection beside those on the heap.
    const MOST_BYTES: usize = 1 << 10;

    /// A client and a server, and what is on its way between them.
    struct Pair {
        now: Instant,
        client: Connection,
        server: Connection,
        /// Fields of all responses.
        fields: FieldBlock,
        output: Output,
    }

    impl Pair {
        fn new() -> Self {
            let (now, config) = (Instant::now(), Arc::new(Config::default()));
            let mut fields = HeaderMap::new();
            fields.insert("server", "altway".parse().unwrap());
            Self {
                now,
                client: Connection::client(Arc::clone(&config), now),
                server: Connection::server(config, now),
                fields: FieldBlock::new(&fields, Indexing::Incremental),
                output: Output::new(),
            }
        }

        /// Sends a request of the client; gives the head's number, and the length of the response in bytes.
        fn exchange(&mut self, path: &str) -> (HeadId, usize) {
            let request = Request::get(format!("https://altway.test{path}"));
            let request = request.header("user-agent", "test").body(()).unwrap();
            let mut turn = self.client.turn(self.now, &mut self.output);
            turn.send_request(&request, None, true).unwrap();
            let (stream, id) = self.hear(path);
            let mut turn = self.server.turn(self.now, &mut self.output);
            turn.send_response(stream, 200, &[&self.fields], true)
                .unwrap();
            let said = take(&mut self.output);
            let mut turn = self.client.turn(self.now, &mut self.output);
            let mut input = &said[..];
            let mut answered = false;
            while let Some(event) = turn.receive(&mut input) {
                if let Event::Response { head, .. } = event {
                    assert_eq!(head.to_headers().unwrap()["server"], "altway");
                    answered = true;
                }
            }
            assert!(answered);
            (id, said.len())
        }

        fn hear(&mut self, path: &str) -> (StreamId, HeadId) {
            let said = take(&mut self.output);
            let mut turn = self.server.turn(self.now, &mut self.output);
            let (mut input, mut heard) = (&said[..], None);
            while let Some(event) = turn.receive(&mut input) {
                if let Event::Request { stream, head, .. } = event {
                    assert_eq!(head.path(), Some(path.as_bytes()));
                    assert_eq!(head.to_request().unwrap().headers()["user-agent"], "test");
                    heard = Some((stream, head.id()));
                }
            }
            heard.unwrap()
        }

        fn rest(&mut self) {
            for end in [&mut self.client, &mut self.server] {
                end.turn(self.now, &mut self.output).rest();
            }
        }
    }

    fn take(output: &mut Output) -> Vec<u8> {
        let bytes = output.slices().flatten().copied().collect();
        output.clear();
        bytes
    }

    #[test]
    fn a_connection_that_has_rested_goes_on_with_the_same_tables() {
        let mut pair = Pair::new();
        pair.exchange("/");
        let (before, short) = pair.exchange("/");
        let (repeated, _) = pair.exchange("/");
        assert!(repeated == before, "the head is recognised");
        pair.rest();
        let (after, again) = pair.exchange("/");
        assert!(after != before, "what was known of it is gone");
        assert_eq!(again, short, "its fields are in the table yet");
        pair.exchange("/another");
        pair.rest();
        pair.rest();
        pair.exchange("/another");
    }

    #[test]
    fn a_connection_that_rests_keeps_no_head_and_no_memo() {
        let mut pair = Pair::new();
        pair.exchange("/");
        pair.exchange("/");
        assert_eq!(pair.server.keeps(), [true; 2]);
        pair.rest();
        assert_eq!(pair.server.keeps(), [false; 2]);
    }

    #[test]
    fn while_a_request_is_answered_nothing_rests() {
        let mut pair = Pair::new();
        let since = pair.server.idle_since();
        assert_eq!(since, Some(pair.now));
        let request = Request::get("https://altway.test/").header("user-agent", "test");
        let request = request.body(()).unwrap();
        let mut turn = pair.client.turn(pair.now, &mut pair.output);
        turn.send_request(&request, None, true).unwrap();
        pair.now += Duration::from_secs(1);
        let (stream, _) = pair.hear("/");
        assert_eq!(pair.server.idle_since(), None);
        pair.rest();
        assert_eq!(pair.server.keeps(), [true, false]);
        let mut turn = pair.server.turn(pair.now, &mut pair.output);
        turn.send_response(stream, 200, &HeaderMap::new(), true)
            .unwrap();
        assert_eq!(pair.server.idle_since(), Some(pair.now));
    }

    #[test]
    fn a_connection_is_small() {
        let bytes = size_of::<Connection>();
        assert!(bytes <= MOST_BYTES, "{bytes}");
    }

    impl Connection {
        /// Tells if the latest head is kept, and blocks that were sent.
        fn keeps(&self) -> [bool; 2] {
            [self.head.is_kept(), self.encoder.has_memo()]
        }
    }
}
