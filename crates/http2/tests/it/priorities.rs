//! RFC 9218: who sends first, and who shares.

use altway_http2::{Config, StreamId};
use bytes::Bytes;
use http::HeaderMap;

use crate::scripted::*;

/// A request with a Priority field.
fn get(stream: u32, priority: &str) -> Vec<u8> {
    let block = [GET, &literal("priority", priority)].concat();
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
}

fn update(stream: u32, priority: &str) -> Vec<u8> {
    let payload = [&stream.to_be_bytes()[..], priority.as_bytes()].concat();
    frame(PRIORITY_UPDATE, 0, 0, &payload)
}

/// Answers every request with more than the window allows, then opens it: the order of the DATA.
fn order_of(script: &[Vec<u8>], streams: &[u32]) -> Vec<u32> {
    let mut engine = Engine::server(Config::default());
    engine.feed(&frame(SETTINGS, 0, 0, &setting(4, 0)));
    engine.feed_all(script);
    let body = Bytes::from(vec![0; 16_384]);
    let ids: Vec<StreamId> = streams.iter().map(|id| engine.stream(*id)).collect();
    for stream in &ids {
        engine.turn(|turn| {
            turn.send_response(*stream, 200, &HeaderMap::new(), false)
                .unwrap();
            assert_eq!(turn.send_data(*stream, &body, false), Ok(0));
        });
    }
    engine.feed(&frame(SETTINGS, 0, 0, &setting(4, 2 * 16_384)));
    engine.feed(&frame(WINDOW_UPDATE, 0, 0, &(1u32 << 20).to_be_bytes()));
    engine.said();
    engine.turn(|turn| {
        while let Some(stream) = turn.next_sendable() {
            turn.send_data(stream, &body, false).unwrap();
        }
    });
    let said = engine.said();
    let data = said.iter().filter(|frame| frame.kind == DATA);
    data.map(|frame| frame.stream).collect()
}

#[test]
fn the_urgent_goes_first_whatever_came_first() {
    let script = [get(1, "u=5"), get(3, "u=1"), get(5, "u=3")];
    assert_eq!(order_of(&script, &[1, 3, 5]), [3, 3, 5, 5, 1, 1]);
}

#[test]
fn equals_go_one_after_the_other_or_share() {
    let script = [get(1, "u=3"), get(3, "u=3")];
    let mut order = order_of(&script, &[1, 3]);
    // The windows open in no particular order.
    order.sort_unstable();
    assert_eq!(order, [1, 1, 3, 3]);
    let script = [get(1, "i"), get(3, "i")];
    let order = order_of(&script, &[1, 3]);
    assert_eq!(order[..2].iter().sum::<u32>(), 4, "one each: {order:?}");
}

#[test]
fn priority_updates_win_before_and_after_the_request() {
    let script = [update(3, "u=0"), get(1, "u=2"), get(3, "u=7")];
    assert_eq!(order_of(&script, &[1, 3]), [3, 3, 1, 1]);
    let script = [get(1, "u=2"), get(3, "u=7"), update(3, "u=0")];
    assert_eq!(order_of(&script, &[1, 3]), [3, 3, 1, 1]);
}
