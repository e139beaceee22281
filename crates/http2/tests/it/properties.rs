//! Properties that must hold for every input.

use altway_http2::Config;
use bytes::Bytes;
use http::HeaderMap;
use proptest::prelude::*;

use crate::scripted::*;

/// A frame that is mostly sensible.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![8 => 0u8..=10, 1 => Just(16u8), 1 => any::<u8>()];
    let payload = prop_oneof![
        3 => Just(GET.to_vec()),
        1 => Just(POST.to_vec()),
        1 => Just(vec![0, 0, 0, 1]),
        1 => Just(Vec::new()),
        1 => Just(setting(4, 100)),
        2 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    let flags = prop_oneof![2 => Just(5u8), 1 => Just(4u8), 1 => Just(0u8), 1 => any::<u8>()];
    (kind, flags, 0u32..12, payload)
        .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload))
}

/// Answers what can be answered, with a body that does not fit.
fn answer(engine: &mut Engine, seen: &[Seen]) {
    let body = Bytes::from(vec![0; 70_000]);
    for event in seen {
        let (Seen::Request(id, _) | Seen::TooLarge(id)) = event else {
            continue;
        };
        let stream = engine.stream(*id);
        engine.turn(|turn| {
            if turn
                .send_response(stream, 200, &HeaderMap::new(), false)
                .is_ok()
            {
                while turn
                    .send_data(stream, &body, false)
                    .is_ok_and(|sent| sent > 0)
                {}
            }
        });
    }
    engine.turn(|turn| {
        while let Some(stream) = turn.next_sendable() {
            let sent = turn.send_data(stream, &body, false);
            assert!(sent.unwrap() > 0, "named, so it can send");
        }
    });
}

/// Feeds an engine with `script`, cut at `cuts`, and returns everything that it does.
fn run(script: &[u8], cuts: &[usize]) -> (Vec<Seen>, bool, usize) {
    run_and(script, cuts, |_| {})
}

/// The same with something done after each piece.
fn run_and(script: &[u8], cuts: &[usize], act: impl Fn(&mut Engine)) -> (Vec<Seen>, bool, usize) {
    let mut engine = Engine::server(Config::default());
    let mut all = Vec::new();
    let mut rest = script;
    for cut in cuts {
        let (part, later) = rest.split_at((*cut).min(rest.len()));
        all.extend(engine.feed(part));
        act(&mut engine);
        rest = later;
    }
    all.extend(engine.feed(rest));
    (
        all,
        engine.connection.is_closed(),
        engine.connection.open_streams(),
    )
}

/// Pieces of one body come as one.
fn joined(seen: Vec<Seen>) -> Vec<Seen> {
    let mut joined: Vec<Seen> = Vec::new();
    for event in seen {
        match (joined.last_mut(), &event) {
            (Some(Seen::Data(last, sum, end)), Seen::Data(stream, len, ends))
                if last == stream && !*end =>
            {
                *sum += len;
                *end = *ends;
            }
            _ => joined.push(event),
        }
    }
    joined
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        let mut engine = Engine::server(Config::default());
        engine.feed(&bytes);
        let mut engine = Engine::client(Config::default(), 3);
        engine.feed(&bytes);
    }

    #[test]
    fn random_frames_never_panic_and_leave_a_state_that_agrees(
        script in prop::collection::vec(any_frame(), 0..40),
    ) {
        let mut engine = Engine::server(Config::default());
        for part in &script {
            let seen = engine.feed(part);
            answer(&mut engine, &seen);
            // What is said is whole frames.
            engine.said();
            prop_assert!(engine.connection.open_streams() <= 128);
            prop_assert_eq!(
                engine.connection.poll_timeout().is_none(),
                engine.connection.is_closed()
            );
        }
    }

    #[test]
    fn a_client_survives_random_frames(script in prop::collection::vec(any_frame(), 0..40)) {
        let mut engine = Engine::client(Config::default(), 4);
        for part in &script {
            engine.feed(part);
            engine.said();
        }
    }

    #[test]
    fn it_does_not_matter_where_the_input_is_cut(
        script in prop::collection::vec(any_frame(), 0..20),
        cuts in prop::collection::vec(0usize..30, 0..40),
    ) {
        let script = script.concat();
        let (whole, closed, open) = run(&script, &[]);
        let (pieces, closed_too, open_too) = run(&script, &cuts);
        prop_assert_eq!(joined(whole), joined(pieces));
        prop_assert_eq!((closed, open), (closed_too, open_too));
    }

    #[test]
    fn it_does_not_matter_when_a_connection_rests(
        script in prop::collection::vec(any_frame(), 0..20),
        cuts in prop::collection::vec(0usize..30, 0..40),
    ) {
        let script = script.concat();
        let awake = run(&script, &cuts);
        let rested = run_and(&script, &cuts, |engine| {
            engine.turn(|turn| {
                turn.rest();
            });
        });
        prop_assert_eq!(awake, rested);
    }
}
