//! A driver whose client doesn't read: it must wait, and not turn in circles until it may give up. One whose client idles
//! holds little.

use super::*;
use crate::clients::{Clients, Transport};
use crate::files::{FileCache, Files};
use crate::held::HeldBytes;
use crate::incidents::Incidents;
use crate::limits::Limits;
use crate::metrics::ServerCounters;
use crate::request::content::{Content, Current, Target};
use crate::request::listener_policy::ListenerPolicy;
use crate::request::outgoing::RESPONSE_OVERHEAD;
use crate::request::requests::Responder;
use crate::request::service::Service;
use crate::restarts::Restarts;
use crate::selection::HostNames;
use crate::setup::WorkerMemory;
use crate::stop::stop_channel;
use crate::tcp::turns::HANDSHAKE_STEPS;
use crate::{PrefixLengths, Protocols};
use altway_message::Scheme;
use altway_socket::Keepalive;
use socket2::{SockFilter, SockRef};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};

const LISTENER_POLICY: ListenerPolicy = ListenerPolicy {
    is_secure: false,
    port: 80,
    http3: None,
    redirect: None,
};

/// Time after which a connection is never given up.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Far above what progress takes, far below what a circle does in the time.
const MAX_POLLS: usize = 2_000;

fn setup(dir: &std::path::Path) -> Arc<Setup> {
    std::fs::write(dir.join("large"), vec![0; 8 << 20]).unwrap();
    std::fs::write(dir.join("small"), vec![0; 8 << 10]).unwrap();
    let service = Service {
        current: Current::new(
            Content::of(Target::Files(Files::open(dir).unwrap())),
            HostNames::default(),
        ),
        has_hosts: false,
        selection: None,
        early_services: false,
        log: None,
        incidents: Incidents::new(PrefixLengths::default(), Instant::now()),
        counters: ServerCounters::default(),
        challenges: None,
    };
    Arc::new(Setup {
        service: Arc::new(service),
        listeners: vec![ListenerConfig {
            tls: None,
            scheme: Scheme::Http,
            protocols: Protocols::default(),
            listener_policy: LISTENER_POLICY,
        }],
        proxies: Vec::new(),
        quic: None,
        limits: Limits {
            // Long enough for a busy machine to move something in.
            idle_timeout: Duration::from_secs(1),
            ..Limits::default()
        },
        grace: Duration::ZERO,
        heartbeat: None,
        collect_heap: None,
        restarts: Restarts::default(),
    })
}

/// State that the drivers of a worker share.
struct Worker {
    buffers: Rc<RefCell<WorkerBuffers>>,
    clients: Clients,
    held: HeldBytes,
}

fn worker(setup: &Setup, max_held: usize) -> Worker {
    let held = HeldBytes::new(max_held);
    let limits = Limits {
        max_held_bytes_per_client: Some(max_held),
        ..setup.limits
    };
    let clients = Clients::new(&limits, held.clone(), |_, _| {});
    let files = Rc::new(RefCell::new(FileCache::new(48 << 20, 100)));
    let buffers = WorkerBuffers::new(WorkerMemory {
        responder: Rc::new(Responder::new(
            Arc::clone(&setup.service),
            Rc::clone(&files),
            &setup.limits,
        )),
        files,
        clients: clients.clone(),
    });
    Worker {
        buffers: Rc::new(RefCell::new(buffers)),
        clients,
        held,
    }
}

/// Returns the bytes of a client with wide windows that asks for a file `times` times at once.
fn greedy(file: &str, times: u32) -> Vec<u8> {
    asking(file, times, 1 << 30)
}

/// Returns the bytes of a client that does the same with windows of so many bytes for each response.
fn asking(file: &str, times: u32, window: u32) -> Vec<u8> {
    let config = http2::Config {
        max_concurrent_streams: times,
        stream_window: window,
        max_stream_window: window,
        connection_window: 1 << 30,
        ..http2::Config::default()
    };
    let (now, mut output) = (Instant::now(), Output::new());
    let mut client = Connection::client(Arc::new(config), now);
    let request = http::Request::get(format!("http://altway.test/{file}")).body(());
    let request = request.unwrap();
    for _ in 0..times {
        let mut turn = client.turn(now, &mut output);
        turn.send_request(&request, None, true).unwrap();
    }
    output.slices().flatten().copied().collect()
}

#[tokio::test]
async fn bodies_that_nobody_reads_cost_no_turns_and_are_given_up() {
    check("large", 100).await;
}

/// Requests that were read and are not answered yet wait here, rather than bodies.
#[tokio::test]
async fn answers_that_nobody_reads_cost_no_turns_and_are_given_up() {
    check("small", 4_000).await;
}

/// Asks for more than the buffers of two sockets hold, and reads nothing.
async fn check(file: &str, times: u32) {
    let dir = tempfile::tempdir().unwrap();
    let setup = setup(dir.path());
    let worker = worker(&setup, setup.limits.max_held_bytes);
    let (mut driver, _client) = connect(&setup, &worker, &greedy(file, times));
    let (_handle, signal) = stop_channel();
    let turns = turns();
    let mut running = pin!(driver.run(signal, &turns));
    let mut polls = 0;
    let counted = poll_fn(|cx| {
        polls += 1;
        assert!(polls < MAX_POLLS, "turns in circles");
        running.as_mut().poll(cx)
    });
    let ended = timeout(TIME_LIMIT, counted).await;
    assert!(ended.is_ok(), "never given up");
}

#[tokio::test]
async fn connections_that_nobody_reads_hold_no_more_than_their_worker_may() {
    const MAX_HELD: usize = 1 << 20;
    const CONNECTIONS: usize = 40;
    let dir = tempfile::tempdir().unwrap();
    let setup = setup(dir.path());
    let worker = worker(&setup, MAX_HELD);
    let (_handle, signal) = stop_channel();
    let mut clients = Vec::new();
    let mut running = Vec::new();
    for _ in 0..CONNECTIONS {
        let (mut driver, client) = connect(&setup, &worker, &greedy("large", 100));
        clients.push(client);
        let signal = signal.clone();
        let turns = turns();
        running.push(Box::pin(async move { driver.run(signal, &turns).await }));
    }
    let mut most = 0;
    let all = poll_fn(|cx| {
        running.retain_mut(|driver| driver.as_mut().poll(cx).is_pending());
        most = most.max(worker.held.bytes());
        if running.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    });
    timeout(TIME_LIMIT, all).await.unwrap();
    assert!(most >= MAX_HELD, "{most}: they were meant to hold more");
    let allowed = MAX_HELD + SEND_BYTES + CONNECTIONS * 2 * SCARCE_SEND_BYTES;
    assert!(most <= allowed, "{most} of {allowed}");
    assert_eq!(worker.held.bytes(), 0, "nothing is left");
}

#[tokio::test]
async fn responses_that_no_window_takes_hold_nothing_of_a_large_file() {
    const TIMES: usize = 100;
    for (file, each) in [("large", 0), ("small", 8 << 10)] {
        let dir = tempfile::tempdir().unwrap();
        let setup = setup(dir.path());
        let worker = worker(&setup, 64 << 20);
        let (mut driver, client) = connect(&setup, &worker, &asking(file, TIMES as u32, 0));
        let (_handle, signal) = stop_channel();
        let turns = turns();
        let mut running = pin!(driver.run(signal, &turns));
        let mut most = 0;
        let ended = poll_fn(|cx| {
            let polled = running.as_mut().poll(cx);
            most = most.max(worker.held.bytes());
            polled
        });
        let ended = timeout(TIME_LIMIT, ended).await;
        assert!(ended.is_ok(), "never given up");
        let expected = TIMES * (RESPONSE_OVERHEAD + each);
        assert!(
            (expected..expected + (64 << 10)).contains(&most),
            "{file}: {most}"
        );
        assert_eq!(worker.held.bytes(), 0, "nothing is left");
        drop(client);
    }
}

/// SETTINGS with ACK (RFC 9113 section 6.5).
const SETTINGS_ACK: &[u8] = &[0, 0, 0, 4, 1, 0, 0, 0, 0];

#[tokio::test]
async fn a_client_that_has_vanished_with_a_tunnel_takes_its_connection_along() {
    let dir = tempfile::tempdir().unwrap();
    let setup = patient_setup(dir.path());
    let worker = worker(&setup, 64 << 20);
    let said = [&asking("small", 1, 1 << 20)[..], SETTINGS_ACK].concat();
    let (mut driver, mut client) = connect(&setup, &worker, &said);
    run_until(&mut driver, |it| it.responses.is_idle()).await;
    let quick = Keepalive {
        idle: Duration::from_secs(1),
        interval: Duration::from_secs(1),
        probes: 1,
    };
    driver.watch = Some(Box::new(driver.transport.watch(quick)));
    client.write_all(PING).unwrap();
    // Its answer is on the way for ever: of what comes the kernel keeps 0 bytes (BPF_RET | BPF_K).
    let drop_all = SockFilter::new(6, 0, 0, 0);
    SockRef::from(&client).attach_filter(&[drop_all]).unwrap();
    let (_handle, signal) = stop_channel();
    let ended = timeout(TIME_LIMIT / 2, driver.run(signal, &turns())).await;
    ended.expect("sooner than the idle time-out").unwrap();
}

/// Room for 16 KiB of the first response (RFC 9113 section 6.9).
const WINDOW_UPDATE: &[u8] = &[0, 0, 4, 8, 0, 0, 0, 0, 1, 0, 0, 0x40, 0];

/// PING (RFC 9113 section 6.7).
const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

/// A setup that waits for its clients.
fn patient_setup(dir: &std::path::Path) -> Arc<Setup> {
    let mut setup = setup(dir);
    let limits = &mut Arc::get_mut(&mut setup).unwrap().limits;
    limits.idle_timeout = Duration::from_secs(60);
    setup
}

/// Runs a connection until something is true of it.
async fn run_until(driver: &mut Driver, is_so: impl Fn(&Driver) -> bool) {
    let (_handle, signal) = stop_channel();
    for _ in 0..3_000 {
        let turns = turns();
        let running = driver.run(signal.clone(), &turns);
        let ended = timeout(Duration::from_millis(10), running).await;
        assert!(ended.is_err(), "the connection has ended");
        if is_so(driver) {
            return;
        }
    }
    panic!("never so");
}

#[tokio::test]
async fn a_connection_hands_on_what_it_is_done_with_and_rests_when_it_idles() {
    let dir = tempfile::tempdir().unwrap();
    let setup = patient_setup(dir.path());
    let worker = worker(&setup, 64 << 20);
    let said = [&asking("small", 1, 0)[..], SETTINGS_ACK].concat();
    let (mut driver, mut client) = connect(&setup, &worker, &said);
    let tables = Rc::clone(&worker.buffers.borrow().tables);
    run_until(&mut driver, |it| !it.responses.is_idle()).await;
    assert_eq!((tables.len(), driver.rest_due()), (0, None));
    client.write_all(WINDOW_UPDATE).unwrap();
    run_until(&mut driver, |it| it.responses.is_idle()).await;
    assert_eq!(tables.len(), 1);
    assert!(driver.rest_due().is_some() || driver.rested.is_some());
    run_until(&mut driver, |it| it.rested.is_some()).await;
    assert_eq!(
        (driver.rested, driver.rest_due()),
        (driver.engine.idle_since(), None)
    );
    let before = driver.rested;
    client.write_all(PING).unwrap();
    run_until(&mut driver, |it| it.rested != before).await;
    assert_eq!(driver.rested, driver.engine.idle_since());
}

#[tokio::test]
async fn memory_for_what_is_waited_for_is_handed_on_when_nothing_is() {
    let dir = tempfile::tempdir().unwrap();
    let setup = patient_setup(dir.path());
    let worker = worker(&setup, 64 << 20);
    let (now, mut output) = (Instant::now(), Output::new());
    let mut client = Connection::client(Arc::new(http2::Config::default()), now);
    let request = http::Request::post("http://altway.test/small").body(());
    let mut turn = client.turn(now, &mut output);
    let stream = turn.send_request(&request.unwrap(), None, false).unwrap();
    let head: Vec<u8> = output.slices().flatten().copied().collect();
    output.clear();
    let mut turn = client.turn(now, &mut output);
    turn.send_data(stream, &b"content"[..].into(), true)
        .unwrap();
    let content: Vec<u8> = output.slices().flatten().copied().collect();
    let said = [&head[..], SETTINGS_ACK].concat();
    let (mut driver, mut client) = connect(&setup, &worker, &said);
    let work = Rc::clone(&worker.buffers.borrow().work);
    run_until(&mut driver, |it| !it.responses.is_idle()).await;
    assert_eq!(work.len(), 0);
    client.write_all(&content).unwrap();
    run_until(&mut driver, |it| it.responses.is_idle()).await;
    assert_eq!(work.len(), 1);
}

#[test]
fn a_connection_is_small() {
    let bytes = size_of::<Driver>();
    assert!(bytes <= MOST_BYTES, "{bytes}");
}

/// The most bytes of a connection over HTTP/2, beside TLS and its task.
const MOST_BYTES: usize = 2_560;

/// Turns of one connection.
fn turns() -> Turns {
    Turns::new(HANDSHAKE_STEPS)
}

/// A connection whose client has said `said` and never reads.
fn connect(setup: &Arc<Setup>, worker: &Worker, said: &[u8]) -> (Driver, std::net::TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.write_all(said).unwrap();
    let (stream, peer) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let stream = Rc::new(TcpStream::from_std(stream).unwrap());
    let mut config = (*config(setup, &setup.listeners[0])).clone();
    config.timeouts.settings = Duration::from_millis(1_500);
    let clients = &worker.clients;
    let admitted = clients.admit(peer.ip(), Transport::Tcp, Instant::now());
    let mut driver = Driver::new(Parts {
        config: Arc::new(config),
        buffers: Rc::clone(&worker.buffers),
        connection: ConnectionFacts {
            peer,
            local: None,
            admitted: admitted.expect("there is room"),
            began: Instant::now(),
            listener_policy: LISTENER_POLICY,
            presented: None,
        },
        probe: Rc::new(TcpPathSampler::new(peer.ip(), Rc::clone(&stream), false)),
        stream,
        tls: None,
        head: Vec::new(),
    });
    // As much unsent as there ever is.
    driver.unsent_budget = UnsentBudget::of_a_fast_path();
    (driver, client)
}
