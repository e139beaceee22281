//! Messages arrive as they were sent, over good paths and bad ones.

use std::time::Duration;

use altway_http3::{Congestion, Error, Protocol, Received, StreamId};
use bytes::Bytes;
use http::{Method, StatusCode};

use crate::apps::{Fetch, get, pattern, post};
use crate::pair::{Pair, Path};

impl Pair {
    pub(crate) fn connected(mut self) -> Self {
        assert!(self.run_until(|pair| pair.connected), "{:?}", self.closed);
        self
    }

    pub(crate) fn start(&mut self, head: &http::Request<()>, body: Bytes) -> StreamId {
        self.fetches
            .start(&mut self.client, self.connection, head, body)
            .unwrap()
    }

    pub(crate) fn fetch(&mut self, head: &http::Request<()>, body: Bytes) -> &Fetch {
        let stream = self.start(head, body);
        assert!(self.run_until(|pair| pair.fetches.all_done()), "never done");
        &self.fetches.fetches[&stream]
    }
}

fn milliseconds(delay: u64, loss: f64, seed: u64) -> Path {
    Path {
        delay: Duration::from_millis(delay),
        loss,
        seed,
        ..Path::default()
    }
}

#[test]
fn a_megabyte_arrives_byte_for_byte() {
    let mut pair = Pair::new().connected();
    let fetch = pair.fetch(&get("/bytes/1000000"), Bytes::new());
    assert_eq!(fetch.head.as_ref().unwrap().status(), StatusCode::OK);
    assert_eq!(
        fetch.head.as_ref().unwrap().headers()["content-length"],
        "1000000"
    );
    assert_eq!(fetch.body, pattern(1_000_000));
}

#[test]
fn a_posted_body_comes_back_byte_for_byte() {
    let mut pair = Pair::new().connected();
    let fetch = pair.fetch(&post("/echo"), pattern(3_000_000));
    assert_eq!(fetch.body, pattern(3_000_000));
}

#[test]
fn a_hundred_requests_share_a_connection() {
    let mut pair = Pair::new().connected();
    for i in 0..100 {
        pair.start(&get(&format!("/bytes/{}", i * 100)), Bytes::new());
    }
    assert!(pair.run_until(|pair| pair.fetches.all_done()));
    for (i, fetch) in pair.fetches.fetches.values().enumerate() {
        assert_eq!(fetch.body, pattern(i * 100));
    }
    assert_eq!(pair.server_connected, 1);
}

#[test]
fn two_thousand_requests_in_turn_leave_nothing_behind() {
    let mut pair = Pair::new().connected();
    for _ in 0..2000 {
        let fetch = pair.fetch(&get("/bytes/10"), Bytes::new());
        assert_eq!(fetch.body.len(), 10);
        pair.fetches.fetches.clear();
    }
    pair.run_for(Duration::from_secs(1));
    assert!(pair.client.is_idle());
    assert!(pair.server.is_idle());
}

#[test]
fn loss_and_delay_cost_time_and_not_bytes() {
    for (seed, congestion) in [Congestion::Cubic, Congestion::NewReno, Congestion::Bbr]
        .into_iter()
        .enumerate()
    {
        let path = milliseconds(100, 0.05, seed as u64);
        let mut pair = Pair::with(path, |client, server| {
            client.quic.transport.congestion = congestion;
            server.quic.transport.congestion = congestion;
        })
        .connected();
        let fetch = pair.fetch(&post("/echo"), pattern(300_000));
        assert_eq!(fetch.body, pattern(300_000), "{congestion:?}");
    }
}

#[test]
fn nearly_a_third_of_the_packets_lost_still_delivers() {
    let mut pair = Pair::over(milliseconds(20, 0.3, 7)).connected();
    assert_eq!(
        pair.fetch(&get("/bytes/100000"), Bytes::new()).body,
        pattern(100_000)
    );
}

#[test]
fn a_first_response_takes_two_round_trips() {
    let mut pair = Pair::over(milliseconds(50, 0.0, 1)).connected();
    assert_eq!(pair.elapsed(), Duration::from_millis(100));
    pair.fetch(&get("/bytes/100"), Bytes::new());
    assert_eq!(pair.elapsed(), Duration::from_millis(200));
}

#[test]
fn the_same_seeds_make_the_same_run() {
    let run = || {
        let mut pair = Pair::over(milliseconds(30, 0.05, 3)).connected();
        pair.fetch(&get("/bytes/200000"), Bytes::new());
        pair.elapsed()
    };
    assert_eq!(run(), run());
}

#[test]
fn answers_without_a_body_end_with_their_head() {
    let mut pair = Pair::new().connected();
    let fetch = pair.fetch(&get("/nothing"), Bytes::new());
    assert_eq!(
        fetch.head.as_ref().unwrap().status(),
        StatusCode::NO_CONTENT
    );
    assert!(fetch.body.is_empty());
    let mut head = get("/bytes/5000");
    *head.method_mut() = Method::HEAD;
    let fetch = pair.fetch(&head, Bytes::new());
    assert_eq!(
        fetch.head.as_ref().unwrap().headers()["content-length"],
        "5000"
    );
    assert!(fetch.body.is_empty());
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let mut pair = Pair::new().connected();
    let fetch = pair.fetch(&get("/hints"), Bytes::new());
    assert_eq!(fetch.interim, [StatusCode::EARLY_HINTS]);
    assert_eq!(fetch.body, pattern(10));
}

#[test]
fn trailers_come_after_the_body_in_both_directions() {
    let mut trailers = http::HeaderMap::new();
    trailers.insert("checksum", "abc".parse().unwrap());
    for body in [0, 1, 300_000] {
        let mut pair = Pair::new().connected();
        let stream = pair
            .client
            .with(pair.connection, |it, quic| {
                it.send_request(quic, &post("/echo"), false)
            })
            .unwrap();
        pair.fetches.upload(stream, pattern(body), trailers.clone());
        pair.fetches
            .write(&mut pair.client, pair.connection, stream);
        assert!(pair.run_until(|pair| pair.fetches.all_done()), "{body}");
        let fetch = &pair.fetches.fetches[&stream];
        assert_eq!(fetch.body, pattern(body));
        assert_eq!(fetch.trailers, Some(trailers.clone()), "{body}");
        let late = pair.client.with(pair.connection, |it, quic| {
            it.send_trailers(quic, stream, &trailers)
        });
        assert!(late.is_err());
    }
}

/// An application may read whenever it wants, not only when an event tells it to.
#[test]
fn whoever_reads_without_being_told_has_body_trailers_and_end_in_their_order() {
    let mut trailers = http::HeaderMap::new();
    trailers.insert("checksum", "abc".parse().unwrap());
    let mut pair = Pair::new().connected();
    pair.fetches.lazy = true;
    let (connection, head) = (pair.connection, post("/echo"));
    let stream = pair
        .client
        .with(connection, |it, quic| it.send_request(quic, &head, false))
        .unwrap();
    pair.fetches.upload(stream, pattern(100), trailers.clone());
    pair.fetches.write(&mut pair.client, connection, stream);
    pair.run_for(Duration::from_secs(1));
    let mut read = || {
        pair.client
            .with(connection, |it, quic| it.recv_data(quic, stream))
            .unwrap()
    };
    assert_eq!(read(), Received::Data(pattern(100)));
    assert_eq!(read(), Received::Trailers(trailers));
    assert_eq!(read(), Received::End);
}

#[test]
fn trailers_without_a_field_are_the_end_alone_in_both_directions() {
    let mut connection_specific = http::HeaderMap::new();
    connection_specific.insert("connection", "close".parse().unwrap());
    for none in [http::HeaderMap::new(), connection_specific] {
        let mut pair = Pair::new().connected();
        let (client, head) = (&mut pair.client, post("/echo"));
        let stream = client
            .with(pair.connection, |it, quic| {
                it.send_request(quic, &head, false)
            })
            .unwrap();
        pair.fetches.upload(stream, pattern(7), none.clone());
        pair.fetches.write(client, pair.connection, stream);
        assert!(pair.run_until(|pair| pair.fetches.all_done()));
        let fetch = &pair.fetches.fetches[&stream];
        assert_eq!(fetch.body, pattern(7));
        assert_eq!(fetch.trailers, None, "the server was told of none");

        let stream = pair.start(&get("/trickle"), Bytes::new());
        assert!(pair.run_until(|pair| pair.fetches.fetches[&stream].head.is_some()));
        let connection = pair.server_connection.unwrap();
        pair.server
            .with(connection, |it, quic| it.send_trailers(quic, stream, &none))
            .unwrap();
        assert!(pair.run_until(|pair| pair.fetches.all_done()));
        assert_eq!(pair.fetches.fetches[&stream].trailers, None);
    }
}

#[test]
fn trailers_out_of_order_are_refused_and_harm_nothing() {
    let mut pair = Pair::new().connected();
    let stream = pair.start(&get("/hang"), Bytes::new());
    let fields = http::HeaderMap::new();
    let after = pair.client.with(pair.connection, |it, quic| {
        it.send_trailers(quic, stream, &fields)
    });
    assert!(matches!(after, Err(Error::OutOfOrder { .. })));
    pair.run_for(Duration::from_millis(100));
    let before = pair.server.with(pair.connection, |it, quic| {
        it.send_trailers(quic, stream, &fields)
    });
    assert!(matches!(before, Err(Error::OutOfOrder { .. })));
    assert!(pair.closed.is_none());
}

#[test]
fn extended_connect_waits_for_the_servers_word() {
    let connect = || {
        let mut head = http::Request::new(());
        *head.method_mut() = Method::CONNECT;
        *head.uri_mut() = "https://localhost/echo".parse().unwrap();
        head.extensions_mut().insert(Protocol::new("websocket"));
        head
    };
    for extended in [false, true] {
        let mut pair = Pair::with(Path::default(), |_, server| {
            server.extended_connect = extended;
        })
        .connected();
        pair.run_for(Duration::from_millis(100));
        let (it, ..) = pair.client.connection(pair.connection).unwrap();
        assert_eq!(it.peer_takes_extended_connect(), extended);
        let sent = pair.client.with(pair.connection, |it, quic| {
            it.send_request(quic, &connect(), false)
        });
        if !extended {
            assert!(matches!(sent, Err(Error::InvalidMessage { .. })));
            continue;
        }
        pair.run_for(Duration::from_millis(100));
        assert_eq!(pair.files.protocols, [Protocol::new("websocket")]);
    }
}

#[test]
fn a_head_above_the_servers_limit_is_not_sent() {
    let mut pair = Pair::new().connected();
    pair.run_for(Duration::from_millis(100));
    let mut head = get("/");
    head.headers_mut()
        .insert("x-large", "x".repeat(70_000).parse().unwrap());
    let error = pair
        .client
        .with(pair.connection, |it, quic| {
            it.send_request(quic, &head, true)
        })
        .unwrap_err();
    assert!(
        matches!(error, Error::HeadTooLarge { limit: 65_536, .. }),
        "{error}"
    );
    assert_eq!(pair.fetch(&get("/bytes/5"), Bytes::new()).body, pattern(5));
}

#[test]
fn a_head_above_an_unknown_limit_is_answered_with_431() {
    let mut pair = Pair::new().connected();
    let mut head = get("/");
    head.headers_mut()
        .insert("x-large", "x".repeat(200_000).parse().unwrap());
    // The server's settings are still on their way.
    let fetch = pair.fetch(&head, Bytes::new());
    let status = fetch.head.as_ref().unwrap().status();
    assert_eq!(status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    assert!(fetch.done);
    assert_eq!(pair.files.requests, 0);
    assert_eq!(pair.fetch(&get("/bytes/5"), Bytes::new()).body, pattern(5));
}

#[test]
fn a_response_head_above_the_clients_limit_is_not_sent() {
    let mut pair = Pair::with(Path::default(), |client, _| {
        client.limits.max_field_section_size = 50;
    })
    .connected();
    let stream = pair.start(&get("/hang"), Bytes::new());
    pair.run_for(Duration::from_millis(100));
    let mut head = http::Response::new(());
    head.headers_mut()
        .insert("server", "altway".parse().unwrap());
    let error = pair
        .server
        .with(pair.connection, |it, quic| {
            it.send_response(quic, stream, &head, true)
        })
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::HeadTooLarge {
                size: 86,
                limit: 50
            }
        ),
        "{error}"
    );
}

#[test]
fn a_reader_that_does_not_read_holds_the_sender_back() {
    let mut pair = Pair::new();
    pair.files.lazy = true;
    let mut pair = pair.connected();
    pair.start(&post("/echo"), pattern(8_000_000));
    pair.run_for(Duration::from_secs(10));
    let sent = pair
        .client
        .path_statistics(pair.connection)
        .unwrap()
        .bytes_sent;
    assert!(
        (32_000..45_000).contains(&sent),
        "{sent} bytes against a first window of 32 KiB"
    );
}

#[test]
fn a_lazy_client_catches_up_when_it_reads() {
    let mut pair = Pair::new();
    pair.fetches.lazy = true;
    let mut pair = pair.connected();
    let stream = pair.start(&get("/bytes/40000000"), Bytes::new());
    pair.run_for(Duration::from_secs(10));
    let received = pair
        .client
        .path_statistics(pair.connection)
        .unwrap()
        .bytes_received;
    assert!(
        received < 20_000_000,
        "{received} bytes against a window of 16 MiB"
    );
    pair.fetches.lazy = false;
    pair.fetches.read(&mut pair.client, pair.connection, stream);
    assert!(pair.run_until(|pair| pair.fetches.all_done()));
    assert_eq!(pair.fetches.fetches[&stream].body, pattern(40_000_000));
}

#[test]
fn upload_and_download_go_on_at_once() {
    let mut pair = Pair::over(milliseconds(10, 0.01, 5)).connected();
    let down = pair.start(&get("/bytes/2000000"), Bytes::new());
    let up = pair.start(&post("/echo"), pattern(2_000_000));
    assert!(pair.run_until(|pair| pair.fetches.all_done()));
    assert_eq!(pair.fetches.fetches[&down].body, pattern(2_000_000));
    assert_eq!(pair.fetches.fetches[&up].body, pattern(2_000_000));
}

#[test]
fn single_segments_do_without_offload() {
    let mut pair = Pair::with(Path::default(), |_, server| {
        server.quic.transport.max_segments = 1;
    })
    .connected();
    assert_eq!(
        pair.fetch(&get("/bytes/100000"), Bytes::new()).body,
        pattern(100_000)
    );
}

#[test]
fn streams_run_out_and_come_back() {
    let mut pair = Pair::with(Path::default(), |_, server| {
        server.limits.max_concurrent_requests = 2;
    })
    .connected();
    pair.start(&get("/bytes/10"), Bytes::new());
    pair.start(&get("/bytes/10"), Bytes::new());
    let third = pair.client.with(pair.connection, |it, quic| {
        it.send_request(quic, &get("/"), true)
    });
    assert!(matches!(third, Err(Error::StreamsExhausted)));
    assert!(pair.run_until(|pair| pair.fetches.streams_available));
    pair.start(&get("/bytes/10"), Bytes::new());
    assert!(pair.run_until(|pair| pair.fetches.all_done()));
}

#[test]
fn a_client_keeps_to_its_own_limit_too() {
    let mut pair = Pair::with(Path::default(), |client, _| {
        client.limits.max_concurrent_requests = 1;
    })
    .connected();
    pair.start(&get("/bytes/10"), Bytes::new());
    let second = pair.client.with(pair.connection, |it, quic| {
        it.send_request(quic, &get("/"), true)
    });
    assert!(matches!(second, Err(Error::StreamsExhausted)));
    assert!(pair.run_until(|pair| pair.fetches.streams_available));
    pair.start(&get("/bytes/10"), Bytes::new());
}

#[test]
fn path_statistics_tell_delay_loss_and_acknowledged_bytes() {
    let mut pair = Pair::over(milliseconds(40, 0.02, 9)).connected();
    assert_eq!(
        pair.fetch(&get("/bytes/1000000"), Bytes::new()).body.len(),
        1_000_000
    );
    pair.run_for(Duration::from_secs(1));
    let statistics = pair.server.path_statistics(pair.connection).unwrap();
    assert_eq!(statistics.min_rtt, Duration::from_millis(80));
    assert_eq!(statistics.mtu, 1452);
    assert!(statistics.bytes_acked >= 1_000_000, "{statistics:?}");
    assert!(
        statistics.bytes_acked <= statistics.bytes_sent,
        "{statistics:?}"
    );
    let loss = statistics.packets_lost as f64 / statistics.packets_sent as f64;
    assert!((0.005..0.05).contains(&loss), "{statistics:?}");
    assert!(statistics.congestion_events > 0);
    let handshake = statistics.handshake.unwrap();
    assert_eq!(handshake, Duration::from_millis(80));
}
