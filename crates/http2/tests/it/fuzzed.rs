//! What fuzzing found, once each (see `fuzz/`).

use altway_http2::{CloseReason, Code, Config};

use crate::scripted::*;

/// A client that is shutting down and waits for the answers to some requests.
fn leaving_client(requests: usize) -> Engine {
    let mut engine = Engine::client(Config::default(), requests);
    engine.turn(|turn| turn.shutdown());
    engine.said();
    engine
}

#[test]
fn the_reset_of_the_last_stream_is_told_before_the_end() {
    let mut engine = leaving_client(1);
    let reset = frame(RST_STREAM, 0, 1, &Code::CANCEL.get().to_be_bytes());
    let expected = [
        Seen::Reset(1, Code::CANCEL),
        Seen::Closed(CloseReason::Finished),
    ];
    assert_eq!(engine.feed(&reset), expected);
}

#[test]
fn the_offence_of_the_last_stream_is_told_before_the_end() {
    let mut engine = leaving_client(1);
    let expected = [
        Seen::Reset(1, Code::PROTOCOL_ERROR),
        Seen::Closed(CloseReason::Finished),
    ];
    assert_eq!(engine.feed(&frame(DATA, 0, 1, b"early")), expected);
}
