//! Datagrams that a fresh connection with one request takes of its server: few. Those that can be sent at the end
//! of a turn leave together, so that the moments at which something leaves are the calls that it takes.

use std::time::Duration;

use bytes::Bytes;

use crate::apps::get;
use crate::pair::{Pair, Path};

/// Returns each moment at which something left, and the bytes of each datagram.
fn turns(pair: &Pair) -> Vec<(Duration, Vec<usize>)> {
    let chunks = pair.sent.chunk_by(|(one, _), (other, _)| one == other);
    let turn =
        |sent: &[(Duration, usize)]| (sent[0].0, sent.iter().map(|(_, size)| *size).collect());
    chunks.map(turn).collect()
}

#[test]
fn a_fresh_connection_with_one_request_takes_three_turns_of_its_server() {
    let path = Path {
        delay: Duration::from_millis(20),
        ..Path::default()
    };
    let mut pair = Pair::over(path).connected();
    pair.fetch(&get("/bytes/600"), Bytes::new());
    pair.run_for(Duration::from_secs(1));
    let turns = turns(&pair);
    let [(_, flight), (_, answer), (_, acknowledgement)] = &turns[..] else {
        panic!("{turns:?}");
    };
    // The server's part of the handshake with its settings; then the end of the handshake, ticket, token and
    // response, and a probe for the path's MTU; an acknowledgement of what the client says of both.
    assert_eq!(flight.len(), 1, "{turns:?}");
    let [answer, probe] = answer[..] else {
        panic!("{turns:?}");
    };
    assert!(
        (700..=1_200).contains(&answer) && probe > 1_200,
        "{turns:?}"
    );
    assert!(acknowledgement.iter().sum::<usize>() < 60, "{turns:?}");
}
