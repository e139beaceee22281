//! A server takes the place of a running one: no connection is refused, none breaks, and new ones
//! are the new server's.

use crate::common::{LARGE, Running, Site, TIME_LIMIT, get, h1, h2, h3::H3, large, read, soon};
use altway_http3::{ClientConfig, CloseReason, StreamId};
use altway_serve::{Bind, Error, Options, Spread, Steering};
use http::Response;
use hyper::body::Incoming;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::sync::Mutex;

/// Time for which a server that was replaced goes on as before.
const SETTLE: Duration = Duration::from_secs(2);

/// More than any test takes.
const GRACE: Duration = Duration::from_secs(120);

/// The folder in which the servers of a test meet, and the way each is set up.
struct Row {
    dir: tempfile::TempDir,
    steering: Steering,
    threads: usize,
}

impl Row {
    fn new(steering: Steering, threads: usize) -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            steering,
            threads,
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("takeover")
    }

    fn options(&self) -> impl FnOnce(&mut Options) {
        let (path, steering) = (self.path(), self.steering);
        let threads = NonZeroUsize::new(self.threads).unwrap();
        move |options| {
            options.takeover = Some(path);
            options.steering = steering;
            options.threads = threads;
            options.shutdown_grace = GRACE;
            options.limits.idle_timeout = GRACE;
        }
    }

    fn first(&self) -> Running {
        Running::tls_of(named(Site::new(), "first"), self.options())
    }

    fn after(&self, former: &Running, name: &str) -> Running {
        let site = named(former.site.next(), name);
        former.next_of(site, self.options()).unwrap()
    }
}

impl Default for Row {
    fn default() -> Self {
        Self::new(Steering::Kernel, 2)
    }
}

/// Writes the server's name before the server starts: who asks for a file while it is written may
/// see it empty, for a second.
fn named(site: Site, name: &str) -> Site {
    site.write("name", name);
    site
}

/// Downloads over each protocol: that wait for their reader, and of HTTP/3 one that goes on.
struct Downloads {
    over_tcp: Vec<Response<Incoming>>,
    waiting: (H3, StreamId),
    going_on: JoinHandle<Vec<u8>>,
}

impl Downloads {
    async fn begin(server: &Running) -> Self {
        let mut over_h1 = h1(server.connect_tls(&[]).await).await;
        let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
        let over_tcp = vec![
            soon(over_h1.send_request(get("/large"))).await.unwrap(),
            soon(over_h2.send_request(get("/large"))).await.unwrap(),
        ];
        let (client, stream) = download(server);
        // On a slow machine it waits for long, and says nothing meanwhile.
        let mut patient = ClientConfig::new(Arc::new(server.site.client_tls(&[])));
        patient.quic.transport.idle_timeout = GRACE;
        Self {
            over_tcp,
            waiting: begin_download(H3::visit(server, &patient).0),
            going_on: thread::spawn(move || read_slowly(client, stream)),
        }
    }

    async fn end(self) {
        let expected = large();
        for response in self.over_tcp {
            let version = response.version();
            assert!(soon(read(response)).await == expected, "{version:?}");
        }
        let (mut client, stream) = self.waiting;
        assert!(client.body(stream) == expected, "HTTP/3");
        assert!(self.going_on.join().unwrap() == expected, "HTTP/3");
    }
}

fn download(server: &Running) -> (H3, StreamId) {
    begin_download(H3::connect(server))
}

fn begin_download(mut client: H3) -> (H3, StreamId) {
    let stream = client.send("/large");
    client.head(stream);
    (client, stream)
}

/// Some 4 MB/s.
fn read_slowly(mut client: H3, stream: StreamId) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(part) = client.part(stream) {
        thread::sleep(Duration::from_nanos(250) * u32::try_from(part.len()).unwrap());
        body.extend_from_slice(&part);
    }
    body
}

/// Returns the name of the server that answers a new connection over each protocol.
async fn who(server: &Running) -> [String; 3] {
    let mut over_h1 = h1(server.connect_tls(&[]).await).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let first = soon(over_h1.send_request(get("/name"))).await.unwrap();
    let second = soon(over_h2.send_request(get("/name"))).await.unwrap();
    let (_, third) = H3::connect(server).get("/name");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    [
        text(read(first).await),
        text(read(second).await),
        text(third),
    ]
}

async fn assert_answers(server: &Running, name: &str) {
    assert_eq!(who(server).await, [name; 3]);
}

/// Tests of takeovers are much work for one machine, on which other tests look at the clock.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Two takeovers in the middle of downloads.
async fn replace_twice(row: &Row) {
    let _turn = ONE_AT_A_TIME.lock().await;
    let first = row.first();
    assert_answers(&first, "first").await;
    let of_first = Downloads::begin(&first).await;
    let second = row.after(&first, "second");
    assert_answers(&second, "second").await;
    let of_second = Downloads::begin(&second).await;
    let third = row.after(&second, "third");
    assert_answers(&third, "third").await;
    // Their servers have been asked to end by then.
    tokio::time::sleep(SETTLE).await;
    of_first.end().await;
    of_second.end().await;
    first.join().unwrap();
    second.join().unwrap();
    assert_answers(&third, "third").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn downloads_go_on_while_their_server_is_replaced_twice() {
    replace_twice(&Row::new(Steering::Kernel, 4)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_do_where_workers_pass_datagrams_on() {
    replace_twice(&Row::new(Steering::Workers, 4)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_do_with_a_single_worker() {
    replace_twice(&Row::new(Steering::Kernel, 1)).await;
}

/// Somebody who connects again and again, and the names of those who answered.
struct Clients {
    answers: Arc<std::sync::Mutex<Vec<String>>>,
    thread: JoinHandle<()>,
}

impl Clients {
    /// Waits until a server of this name has answered often.
    fn wait_for(&self, name: &str) {
        let give_up = Instant::now() + TIME_LIMIT;
        loop {
            let answers = self.answers.lock().unwrap().clone();
            if answers.iter().filter(|answer| *answer == name).count() >= 7 {
                return;
            }
            assert!(!self.thread.is_finished(), "one was not answered");
            assert!(Instant::now() < give_up, "{name} is not among {answers:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Connects again and again, until it is told to end.
fn connect_again_and_again(
    server: &Running,
    end: &Arc<AtomicBool>,
    mut ask: impl FnMut(SocketAddr, rustls::ClientConfig) -> Vec<u8> + Send + 'static,
) -> Clients {
    let (address, tls) = (server.address, server.site.client_tls(&[]));
    let end = Arc::clone(end);
    let answers = Arc::<std::sync::Mutex<Vec<String>>>::default();
    let heard = Arc::clone(&answers);
    let thread = thread::spawn(move || {
        while !end.load(Ordering::Relaxed) {
            let answer = String::from_utf8(ask(address, tls.clone())).unwrap();
            heard.lock().unwrap().push(answer);
        }
    });
    Clients { answers, thread }
}

fn ask_over_h1(address: SocketAddr, tls: rustls::ClientConfig) -> Vec<u8> {
    ask_over_tcp(address, tls, async |stream| {
        let mut client = h1(stream).await;
        read(client.send_request(get("/name")).await.unwrap()).await
    })
}

fn ask_over_h2(address: SocketAddr, mut tls: rustls::ClientConfig) -> Vec<u8> {
    tls.alpn_protocols = vec![b"h2".to_vec()];
    ask_over_tcp(address, tls, async |stream| {
        let mut client = h2(stream).await;
        read(client.send_request(get("/name")).await.unwrap()).await
    })
}

type Tls = tokio_rustls::client::TlsStream<tokio::net::TcpStream>;

fn ask_over_tcp(
    address: SocketAddr,
    tls: rustls::ClientConfig,
    ask: impl AsyncFnOnce(Tls) -> Vec<u8>,
) -> Vec<u8> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(soon(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(tls));
        let name = "localhost".try_into().unwrap();
        ask(connector.connect(name, stream).await.unwrap()).await
    }))
}

fn ask_over_h3(address: SocketAddr, tls: rustls::ClientConfig) -> Vec<u8> {
    H3::connect_to(address, tls).get("/name").1
}

#[test]
fn who_connects_at_any_moment_is_answered_and_by_one_server_after_the_other() {
    let row = Row::default();
    let first = row.first();
    let end = Arc::default();
    let clients = [
        connect_again_and_again(&first, &end, ask_over_h1),
        connect_again_and_again(&first, &end, ask_over_h2),
        connect_again_and_again(&first, &end, ask_over_h3),
    ];
    let pause = SETTLE + Duration::from_millis(500);
    let all_hear = |name: &str| clients.iter().for_each(|it| it.wait_for(name));
    all_hear("first");
    let second = row.after(&first, "second");
    thread::sleep(pause);
    all_hear("second");
    let _third = row.after(&second, "third");
    thread::sleep(pause);
    all_hear("third");
    end.store(true, Ordering::Relaxed);
    for client in clients {
        client.thread.join().unwrap();
        let mut answers = client.answers.lock().unwrap().clone();
        answers.dedup();
        assert_eq!(answers, ["first", "second", "third"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_kept_alive_is_told_to_end_by_a_response() {
    let row = Row::default();
    let first = row.first();
    let mut client = h1(first.connect_tls(&[]).await).await;
    let response = soon(client.send_request(get("/name"))).await.unwrap();
    assert_eq!(read(response).await, b"first");
    let _second = row.after(&first, "second");
    // The first ends its connections once the second has shown that it stays.
    let answers = async {
        loop {
            let answer = client.send_request(get("/name")).await.unwrap();
            let last = answer.headers().get("connection").cloned();
            assert_eq!(read(answer).await, b"first");
            if let Some(last) = last {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    assert_eq!(soon(answers).await, "close");
    soon(tokio::task::spawn_blocking(|| first.join()))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_serves_on_when_its_successor_ends_at_once() {
    let row = Row::default();
    let first = row.first();
    let downloads = Downloads::begin(&first).await;
    for _ in 0..2 {
        // As when the new process runs into a defect.
        drop(row.after(&first, "second"));
        assert_answers(&first, "first").await;
    }
    tokio::time::sleep(SETTLE + Duration::from_millis(500)).await;
    assert_answers(&first, "first").await;
    downloads.end().await;
    let second = row.after(&first, "second");
    assert_answers(&second, "second").await;
}

type Change = fn(&mut Options);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_other_sockets_takes_nothing_over() {
    let row = Row::default();
    let first = row.first();
    let other: [(Change, &str); 2] = [
        (|it| it.port += 1, "address"),
        (|it| it.bind = Bind::All, "address"),
    ];
    for (change, what) in other {
        let options = row.options();
        let second = first.next(|it| {
            options(it);
            change(it);
        });
        let Err(error @ Error::TakeoverDiffers { .. }) = second.map(drop) else {
            panic!("took over in spite of another {what}");
        };
        assert!(error.to_string().contains(what), "{error}");
    }
    assert_answers(&first, "first").await;
}

/// Settings of a server that takes the place of another one.
#[derive(Clone, Copy)]
struct Sockets {
    threads: usize,
    spread: Spread,
    server_id: &'static str,
}

impl Sockets {
    const fn of(threads: usize) -> Self {
        Self {
            threads,
            spread: Spread::PerWorker,
            server_id: "",
        }
    }

    fn set(self, options: &mut Options) {
        options.threads = NonZeroUsize::new(self.threads).unwrap();
        options.spread = self.spread;
        options.server_id = self.server_id.parse().unwrap();
    }
}

/// Servers one after the other, while clients connect at any moment over every protocol, and downloads go on
/// at each of them.
fn each_after_the_other(steering: Steering, all: &[Sockets]) {
    let _turn = ONE_AT_A_TIME.blocking_lock();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.unwrap();
    let row = Row::new(steering, 1);
    let names = (1..=all.len()).map(|number| format!("server {number}"));
    let names: Vec<_> = names.collect();
    let mut servers: Vec<Running> = Vec::new();
    let (end, mut clients, mut downloads) = (Arc::default(), Vec::new(), Vec::new());
    for (sockets, name) in all.iter().zip(&names) {
        let options = row.options();
        let set = |it: &mut Options| {
            options(it);
            sockets.set(it);
        };
        let next = match servers.last() {
            None => Running::tls_of(named(Site::new(), name), set),
            Some(former) => former
                .next_of(named(former.site.next(), name), set)
                .unwrap(),
        };
        if servers.is_empty() {
            clients = vec![
                connect_again_and_again(&next, &end, ask_over_h1),
                connect_again_and_again(&next, &end, ask_over_h2),
                connect_again_and_again(&next, &end, ask_over_h3),
            ];
        }
        downloads.push(runtime.block_on(Downloads::begin(&next)));
        clients.iter().for_each(|it| it.wait_for(name));
        servers.push(next);
    }
    thread::sleep(SETTLE + Duration::from_millis(500));
    end.store(true, Ordering::Relaxed);
    for client in clients {
        client.thread.join().unwrap();
        let mut answers = client.answers.lock().unwrap().clone();
        answers.dedup();
        assert_eq!(answers, names);
    }
    for download in downloads {
        runtime.block_on(download.end());
    }
    let last = servers.pop().unwrap();
    for former in servers {
        former.join().unwrap();
    }
    runtime.block_on(assert_answers(&last, names.last().unwrap()));
}

#[test]
fn the_number_of_threads_changes_and_no_connection_is_lost() {
    each_after_the_other(Steering::Kernel, &[1, 2, 1].map(Sockets::of));
}

#[test]
fn it_does_where_workers_pass_datagrams_on() {
    each_after_the_other(Steering::Workers, &[2, 4, 3].map(Sockets::of));
}

#[test]
fn the_spread_and_the_server_id_change_and_no_connection_is_lost() {
    let handed = Sockets {
        spread: Spread::RoundRobin,
        ..Sockets::of(2)
    };
    let named = Sockets {
        server_id: "0a",
        ..Sockets::of(3)
    };
    let renamed = Sockets {
        server_id: "1001",
        ..handed
    };
    each_after_the_other(Steering::Kernel, &[handed, named, renamed]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_take_over_at_the_same_time_do_so_one_after_the_other() {
    let row = Row::default();
    let first = row.first();
    let (second, third) = thread::scope(|scope| {
        let [second, third] = ["second", "third"].map(|name| {
            let (row, first) = (&row, &first);
            scope.spawn(move || row.after(first, name))
        });
        (second.join().unwrap(), third.join().unwrap())
    });
    let answers = who(&second).await;
    assert!(
        answers.iter().all(|name| *name == answers[0]),
        "{answers:?}"
    );
    assert_ne!(answers[0], "first");
    let (last, replaced) = match &answers[0][..] {
        "second" => (second, third),
        _ => (third, second),
    };
    for replaced in [first, replaced] {
        soon(tokio::task::spawn_blocking(|| replaced.join()))
            .await
            .unwrap()
            .unwrap();
    }
    drop(last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_that_still_end_are_bounded() {
    let row = Row::default();
    let mut servers = vec![row.first()];
    let mut downloads = Vec::new();
    for name in ["second", "third", "fourth"] {
        let former = servers.last().unwrap();
        downloads.push(download(former));
        let next = row.after(former, name);
        servers.push(next);
    }
    let last = servers.pop().unwrap();
    let refused = last.next(row.options());
    let Err(Error::TakeoverRefused { reason, .. }) = refused.map(drop) else {
        panic!("a fifth server takes over");
    };
    assert_eq!(reason, "3 servers before it are still ending");
    assert_answers(&last, "fourth").await;
    for (mut client, stream) in downloads {
        assert!(client.body(stream) == large());
    }
    for server in servers {
        soon(tokio::task::spawn_blocking(|| server.join()))
            .await
            .unwrap()
            .unwrap();
    }
    let fifth = row.after(&last, "fifth");
    assert_answers(&fifth, "fifth").await;
}

#[test]
fn a_client_of_a_server_that_was_replaced_may_move() {
    for steering in [Steering::Kernel, Steering::Workers] {
        let row = Row::new(steering, 4);
        let first = row.first();
        let (mut client, stream) = download(&first);
        let _second = row.after(&first, "second");
        let (mut body, mut moves) = (Vec::new(), 0);
        while let Some(part) = client.part(stream) {
            body.extend_from_slice(&part);
            if body.len() > (moves + 1) * LARGE / 6 {
                client.move_away();
                moves += 1;
            }
        }
        assert_eq!(moves, 5);
        assert!(body == large());
    }
}

/// Without the reset, the connection's client would wait for the idle time-out.
#[test]
fn a_connection_that_ended_with_its_server_is_reset_by_the_next() {
    let row = Row::default();
    let first = row.first();
    let mut client = H3::connect(&first);
    client.get("/name");
    let _second = row.after(&first, "second");
    first.join().unwrap();
    // What the first server said at its end goes to the former port.
    client.move_away();
    assert_eq!(client.closed(), CloseReason::Reset);
}

#[test]
fn a_server_whose_successor_ends_gives_up_the_connections_that_it_cannot_hear() {
    let row = Row::default();
    let first = row.first();
    let _unread = download(&first);
    let mut idle = H3::connect(&first);
    idle.get("/name");
    let second = row.after(&first, "second");
    // The first ends its connections once the second has shown that it stays.
    idle.closed();
    drop(second);
    let begin = Instant::now();
    first.join().unwrap();
    let waited = begin.elapsed();
    assert!(waited < GRACE / 2, "not its whole grace: {waited:?}");
}

#[test]
fn a_file_that_a_server_left_behind_hinders_nobody() {
    let row = Row::default();
    drop(row.first());
    assert!(row.path().exists());
    let first = row.first();
    let _second = row.after(&first, "second");
}

#[test]
fn a_server_is_not_taken_over_without_its_will() {
    let alone = Running::tls(|_| {});
    let row = Row::default();
    let error = alone.next(row.options()).map(drop);
    assert!(matches!(error, Err(Error::PortInUse { .. })));
}
