//! Reports to a server of the end of its responses.

use std::time::Duration;

use bytes::Bytes;

use crate::apps::get;
use crate::pair::Pair;

#[test]
fn the_server_learns_when_the_client_has_everything_and_not_when_it_has_given_up() {
    let mut pair = Pair::new().connected();
    for count in 1..=3 {
        pair.fetch(&get("/bytes/100000"), Bytes::new());
        pair.run_for(Duration::from_secs(5));
        assert_eq!(pair.files.delivered, count);
    }
    pair.fetch(&get("/abort"), Bytes::new());
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.files.delivered, 3);
}

#[test]
fn a_server_that_watches_learns_when_the_client_has_all_that_ended_while_a_response_goes_on() {
    let mut pair = Pair::new().connected();
    pair.start(&get("/trickle"), Bytes::new());
    pair.run_for(Duration::from_secs(5));
    pair.start(&get("/bytes/100000"), Bytes::new());
    pair.run_for(Duration::from_secs(5));
    assert_eq!((pair.files.delivered, pair.files.watched), (0, 0));
    pair.files.watches = true;
    for count in 1..=3 {
        pair.start(&get("/bytes/100000"), Bytes::new());
        pair.run_for(Duration::from_secs(5));
        assert_eq!((pair.files.delivered, pair.files.watched), (0, count));
    }
}
