//! QUIC below HTTP/3, over real sockets: Retry, a flood of clients that don't go on, stateless resets
//! and ECN.

use crate::common::{LARGE, Running, TIME_LIMIT};
use altway_http3::{
    ClientConfig, CloseReason, ConnectionHandle, Datagram, Ecn, Endpoint, Event, Received, StreamId,
};
use altway_serve::{Options, Retry};
use altway_socket::{Settings, Udp};
use http::Request;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A client that sees each datagram.
struct Client {
    endpoint: Endpoint,
    connection: ConnectionHandle,
    udp: Udp<UdpSocket>,
    heard: Vec<Heard>,
    /// The marks that it sent.
    marks: Vec<Option<Ecn>>,
}

/// A datagram of the server's.
struct Heard {
    first: u8,
    ecn: Option<Ecn>,
    size: usize,
}

impl Client {
    fn new(server: &Running, from: IpAddr) -> Self {
        Self::that_takes(65_527, server, from)
    }

    /// `payload`: the largest datagram that it takes.
    fn that_takes(payload: u16, server: &Running, from: IpAddr) -> Self {
        let mut config = ClientConfig::new(Arc::new(server.site.client_tls(&[])));
        config.quic.transport.max_udp_payload = payload;
        let mut endpoint = <Endpoint>::client(&config, [7; 32]).unwrap();
        let now = Instant::now();
        let connection = endpoint
            .connect(now, server.address, "localhost", ())
            .unwrap();
        let socket = UdpSocket::bind((from, 0)).unwrap();
        Self {
            endpoint,
            connection,
            udp: Udp::new(socket, Settings::default()).unwrap(),
            heard: Vec::new(),
            marks: Vec::new(),
        }
    }

    fn connect(server: &Running) -> Self {
        Self::new(server, Ipv4Addr::LOCALHOST.into()).connected()
    }

    /// Done when the handshake is.
    fn connected(mut self) -> Self {
        self.wait(|event| matches!(event, Event::Connected).then_some(()));
        self
    }

    /// The largest datagram that came.
    fn largest(&self) -> Option<usize> {
        self.heard.iter().map(|heard| heard.size).max()
    }

    /// Asks for it; how many bytes came.
    fn get(&mut self, path: &str) -> usize {
        let stream = self.ask(path);
        self.wait(|event| matches!(event, Event::Response { .. }).then_some(()));
        let mut bytes = 0;
        loop {
            match self
                .endpoint
                .with(self.connection, |it, quic| it.recv_data(quic, stream))
                .unwrap()
            {
                Received::Data(data) => bytes += data.len(),
                Received::Trailers(fields) => panic!("trailers: {fields:?}"),
                Received::End => return bytes,
                Received::Pending => {
                    self.wait(|event| matches!(event, Event::Readable { .. }).then_some(()));
                }
            }
        }
    }

    /// Writes a request, which is not sent yet.
    fn ask(&mut self, path: &str) -> StreamId {
        let request = Request::get(format!("https://localhost{path}")).body(());
        let (endpoint, connection) = (&mut self.endpoint, self.connection);
        let stream = endpoint.with(connection, |it, quic| {
            it.send_request(quic, &request.unwrap(), true)
        });
        stream.unwrap()
    }

    fn wait<T>(&mut self, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            while let Some((_, event)) = self.endpoint.poll_event() {
                if let Event::Closed { reason } = &event {
                    panic!("closed: {reason}");
                }
                if let Some(found) = wanted(event) {
                    self.send();
                    return found;
                }
            }
            assert!(Instant::now() < deadline, "within the time limit");
            self.send();
            self.receive();
            self.endpoint.handle_timeout(Instant::now());
        }
    }

    fn send(&mut self) {
        let Self {
            udp,
            endpoint,
            marks,
            ..
        } = self;
        let next = |batch: &mut Vec<u8>| {
            let transmit = endpoint.poll_transmit(Instant::now(), batch)?;
            marks.push(transmit.ecn);
            Some(transmit)
        };
        udp.send(next).unwrap();
    }

    fn receive(&mut self) {
        let Self {
            udp,
            endpoint,
            heard,
            ..
        } = self;
        let before = heard.len();
        let take = |datagram: Datagram<'_>| {
            heard.push(Heard {
                first: datagram.payload[0],
                ecn: datagram.ecn,
                size: datagram.payload.len(),
            });
            endpoint.handle_datagram(Instant::now(), datagram);
        };
        udp.receive(take).unwrap();
        if heard.len() == before {
            sleep(Duration::from_micros(200));
        }
    }

    /// Returns the reason for which the server closes the connection within `time`, without handling
    /// timers.
    fn end_within(&mut self, time: Duration) -> Option<CloseReason> {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            self.receive();
            while let Some((_, event)) = self.endpoint.poll_event() {
                if let Event::Closed { reason } = event {
                    return Some(reason);
                }
            }
        }
        None
    }

    fn was_asked(&self) -> bool {
        self.heard.iter().any(|heard| heard.first & 0xf0 == 0xf0)
    }
}

fn start(change: impl FnOnce(&mut Options)) -> Running {
    Running::tls(|options| {
        options.threads = NonZeroUsize::MIN;
        change(options);
    })
}

#[test]
fn an_operator_decides_who_must_show_his_address() {
    for (retry, asked) in [(Retry::Always, true), (Retry::Never, false)] {
        let server = Running::tls(|options| {
            options.threads = NonZeroUsize::new(4).unwrap();
            options.limits.retry = retry;
        });
        for _ in 0..4 {
            let mut client = Client::connect(&server);
            assert_eq!(client.was_asked(), asked, "{retry}");
            assert_eq!(client.get("/"), "<p>home".len());
        }
    }
}

#[test]
fn a_flood_of_clients_that_do_not_go_on_harms_no_other() {
    const FLOOD: u8 = 100;
    let server = start(|options| {
        options.limits.retry = Retry::Beyond(10);
        options.limits.handshake_timeout = 3 * TIME_LIMIT;
    });
    let mut before = Client::connect(&server);
    let forged: Vec<_> = (1..=FLOOD)
        .map(|number| {
            let mut client = Client::new(&server, [127, 0, 1, number].into());
            client.send();
            client
        })
        .collect();
    assert_eq!(before.get("/large"), LARGE);
    let asked = forged.into_iter().map(|mut client| {
        client.receive();
        usize::from(client.was_asked())
    });
    assert_eq!(asked.sum::<usize>(), usize::from(FLOOD) - 10);
    let mut after = Client::connect(&server);
    assert!(after.was_asked());
    assert_eq!(after.get("/"), "<p>home".len());
}

#[test]
fn a_hand_shake_over_quic_has_its_time_as_one_over_tcp() {
    // A handshake of the test's own has to be done within it.
    let limit = Duration::from_secs(2);
    let server = start(|options| {
        options.limits.handshake_timeout = limit;
        options.limits.retry = Retry::Beyond(1);
    });
    let mut silent = Client::new(&server, Ipv4Addr::LOCALHOST.into());
    silent.send();
    assert!(Client::connect(&server).was_asked());
    // It is absorbed for three times the first probe time-out.
    let give_up = Instant::now() + TIME_LIMIT;
    while Client::connect(&server).was_asked() {
        assert!(Instant::now() < give_up, "the silent one still counts");
        sleep(Duration::from_millis(200));
    }
}

/// The connection's client has not noticed: it was asleep.
#[test]
fn a_connection_that_the_server_has_forgotten_is_reset() {
    let server = start(|options| options.limits.idle_timeout = Duration::from_secs(1));
    let mut client = Client::connect(&server);
    // Three probe time-outs, if that is longer: on a busy machine some seconds.
    let mut patience = (1..5).map(|doubled| Duration::from_secs(1 << doubled));
    let reason = loop {
        sleep(patience.next().expect("it is not forgotten"));
        client.ask("/");
        client.send();
        if let Some(reason) = client.end_within(Duration::from_secs(1)) {
            break reason;
        }
    };
    assert_eq!(reason, CloseReason::Reset);
}

#[test]
fn datagrams_over_loopback_are_as_large_as_it_carries_and_the_client_takes() {
    let server = start(|_| {});
    for (takes, largest) in [(65_527, 65_488), (1_472, 1_200), (1_200, 1_200)] {
        // Probes that a busy machine loses end a search early: the next connection begins anew.
        let mut found = (0..10).map(|_| {
            let client = Client::that_takes(takes, &server, Ipv4Addr::LOCALHOST.into());
            let mut client = client.connected();
            assert_eq!(client.get("/large"), LARGE);
            let found = client.largest().unwrap();
            assert!(found <= largest, "{found} for one that takes {takes}");
            found
        });
        assert!(
            found.any(|found| found == largest),
            "not {largest} for one that takes {takes}"
        );
    }
}

/// A side that no longer sets marks was not told of them by the other side.
#[test]
fn either_side_reads_and_tells_the_others_marks() {
    let server = start(|_| {});
    let mut client = Client::connect(&server);
    client.get("/large");
    let marked = Some(Ecn::Ect0);
    assert_eq!(client.marks.last(), Some(&marked));
    assert!(client.heard.len() > 10);
    assert!(client.heard.iter().all(|heard| heard.ecn == marked));
}
