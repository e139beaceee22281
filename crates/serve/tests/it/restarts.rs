//! Workers that panic: they are started again, the other workers' connections go on, and a server whose
//! workers can do nothing else ends.

use crate::common::h3::H3;
use crate::common::{H2, Running, TIME_LIMIT, get, h2, read, soon};
use altway_http3::{ClientConfig, CloseReason};
use altway_serve::{Error, Options, Site, Steering};
use axum::Router;
use axum::extract::Request;
use axum::routing::{get as on_get, post as on_post};
use http_body::Body as _;
use std::future::poll_fn;
use std::net::TcpStream;
use std::num::NonZeroUsize;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Connections of which each worker gets one: the kernel spreads them by a hash.
const ATTEMPTS: usize = 200;

/// The worker whose panics are asked for.
const FIRST: &str = "worker-0";

/// Times that `/wait` repeats its answer: more than every window, so that the client must acknowledge.
const TIMES: usize = 500_000;

/// More than any test takes.
const GRACE: Duration = Duration::from_secs(120);

/// A panic in the midst of a worker's connections over QUIC, which run in one task: that of a waker, as all else of an
/// embedder's is guarded.
#[derive(Debug, Default)]
struct Defect {
    when: Mutex<When>,
    panics: AtomicUsize,
    /// Times that a request for `/defect` has waited for content, with the waker.
    waits: AtomicUsize,
    wakes: AtomicUsize,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum When {
    #[default]
    Never,
    /// Once, when the first worker comes to it.
    Once,
    /// Whenever a worker comes to it.
    Always,
}

impl Wake for Defect {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        // Of a worker that panics already nothing is left to be tested.
        if !thread::panicking() && self.is_due() {
            self.panics.fetch_add(1, Ordering::SeqCst);
            panic!("as a defect would");
        }
    }
}

impl Defect {
    fn is_due(&self) -> bool {
        let mut when = self.when.lock().unwrap();
        match *when {
            When::Never => false,
            When::Once => {
                let due = thread::current().name() == Some(FIRST);
                if due {
                    *when = When::Never;
                }
                due
            }
            When::Always => true,
        }
    }

    fn set(&self, when: When) {
        *self.when.lock().unwrap() = when;
    }

    fn panics(&self) -> usize {
        self.panics.load(Ordering::SeqCst)
    }

    /// Waits for content that never ends.
    async fn answer(self: Arc<Self>, request: Request) -> &'static str {
        let waker = Waker::from(Arc::clone(&self));
        let mut content = request.into_body();
        poll_fn(|_| {
            let mut context = Context::from_waker(&waker);
            while let Poll::Ready(Some(Ok(_))) = Pin::new(&mut content).poll_frame(&mut context) {}
            self.waits.fetch_add(1, Ordering::SeqCst);
            Poll::Pending
        })
        .await
    }

    /// Has a client's worker come to it, unless that `is_over` before.
    fn meet(&self, client: &mut H3, is_over: impl Fn() -> bool) {
        let of = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        let (waits, wakes) = (of(&self.waits), of(&self.wakes));
        let is_awaited = || of(&self.waits) > waits || is_over();
        client.post_awaited("/defect", "content".into(), is_awaited);
        client.wait_until(|| of(&self.wakes) > wakes || is_over());
    }
}

/// A server that answers with its name and the worker's.
struct Faulty {
    server: Running,
    workers: usize,
    defect: Arc<Defect>,
    /// Lets answers of `/wait` go.
    release: Arc<Semaphore>,
}

impl Faulty {
    fn start(workers: usize, steering: Steering) -> Self {
        Self::begin(workers, "first", |change| {
            Running::tls(|options| {
                options.steering = steering;
                change(options);
            })
        })
    }

    fn with_takeover(workers: usize, path: &Path) -> Self {
        Self::begin(workers, "first", |change| {
            Running::tls(|options| {
                options.takeover = Some(path.into());
                options.shutdown_grace = GRACE;
                change(options);
            })
        })
    }

    /// The server that takes over.
    fn next(&self, path: &Path) -> Self {
        Self::begin(self.workers, "second", |change| {
            let next = self.server.next(|options| {
                options.takeover = Some(path.into());
                options.shutdown_grace = GRACE;
                change(options);
            });
            next.unwrap()
        })
    }

    fn begin(
        workers: usize,
        name: &'static str,
        start: impl FnOnce(Box<dyn FnOnce(&mut Options)>) -> Running,
    ) -> Self {
        let defect = Arc::<Defect>::default();
        let release = Arc::new(Semaphore::new(0));
        let (faulty, gate) = (Arc::clone(&defect), Arc::clone(&release));
        let meet = move |request| Arc::clone(&faulty).answer(request);
        let answer = move || async move { format!("{name} {}", worker()) };
        let wait = move || async move {
            let _ = gate.acquire().await;
            format!("{name} {}", worker()).repeat(TIMES)
        };
        let router = Router::new()
            .route("/", on_get(answer))
            .route("/wait", on_get(wait))
            .route("/defect", on_post(meet));
        let server = start(Box::new(move |options| {
            options.site = Site::service(router);
            options.threads = NonZeroUsize::new(workers).unwrap();
        }));
        Self {
            server,
            workers,
            defect,
            release,
        }
    }

    /// Has the first worker panic, once.
    fn panic(&self) {
        let before = self.defect.panics();
        self.defect.set(When::Once);
        let mut attempts = 0..ATTEMPTS;
        while self.defect.panics() == before {
            assert!(attempts.next().is_some(), "it meets no client");
            let mut client = H3::connect(&self.server);
            self.defect.meet(&mut client, || false);
        }
    }

    /// A client of each worker over each transport.
    async fn clients(&self) -> Clients {
        let (mut quic, mut tcp) = (Vec::new(), Vec::new());
        let mut attempts = 0..2 * ATTEMPTS;
        while quic.len() < self.workers {
            assert!(attempts.next().is_some(), "a worker gets no client");
            let mut client = H3::connect(&self.server);
            let answer = ask_quic(&mut client);
            keep(&mut quic, answer, client);
        }
        while tcp.len() < self.workers {
            assert!(attempts.next().is_some(), "a worker gets no client");
            let mut client = h2(self.server.connect_tls(&[b"h2"]).await).await;
            let answer = ask_tcp(&mut client).await.unwrap();
            keep(&mut tcp, answer, client);
        }
        Clients { quic, tcp }
    }
}

fn worker() -> String {
    thread::current().name().unwrap().to_owned()
}

/// Clients with the answer that they got.
struct Clients {
    quic: Vec<(String, H3)>,
    tcp: Vec<(String, H2)>,
}

impl Clients {
    /// Parts the counts into those of the first worker and those of the others.
    fn part(self) -> (Self, Self) {
        let first = format!("first {FIRST}");
        let (quic, other_quic) = self.quic.into_iter().partition(|it| it.0 == first);
        let (tcp, other_tcp) = self.tcp.into_iter().partition(|it| it.0 == first);
        let others = Self {
            quic: other_quic,
            tcp: other_tcp,
        };
        (Self { quic, tcp }, others)
    }

    async fn assert_served(&mut self) {
        for (answer, client) in &mut self.quic {
            assert_eq!(ask_quic(client), *answer);
        }
        for (answer, client) in &mut self.tcp {
            assert_eq!(ask_tcp(client).await.unwrap(), *answer);
        }
    }

    /// Wherever their ports' hash would bring them, their worker has them.
    fn assert_may_move(&mut self) {
        for (answer, client) in &mut self.quic {
            for _ in 0..4 {
                client.move_away();
                assert_eq!(ask_quic(client), *answer);
            }
        }
    }

    async fn assert_lost(mut self) {
        for (_, client) in &mut self.quic {
            client.send("/");
            assert_eq!(client.closed(), CloseReason::Reset);
        }
        for (_, client) in &mut self.tcp {
            assert!(ask_tcp(client).await.is_err());
        }
    }
}

fn keep<T>(clients: &mut Vec<(String, T)>, answer: String, client: T) {
    if clients.iter().all(|(other, _)| *other != answer) {
        clients.push((answer, client));
    }
}

fn ask_quic(client: &mut H3) -> String {
    String::from_utf8(client.get("/").1).unwrap()
}

async fn ask_tcp(client: &mut H2) -> hyper::Result<String> {
    let response = soon(client.send_request(get("/"))).await?;
    Ok(String::from_utf8(soon(read(response)).await).unwrap())
}

/// The first worker's clients are lost, and new ones find all workers.
async fn assert_restarts(workers: usize, steering: Steering) {
    let faulty = Faulty::start(workers, steering);
    for _ in 0..2 {
        let (of_first, mut of_others) = faulty.clients().await.part();
        assert_eq!(of_first.quic.len() + of_others.quic.len(), workers);
        assert_eq!((of_first.quic.len(), of_first.tcp.len()), (1, 1));
        faulty.panic();
        of_first.assert_lost().await;
        of_others.assert_served().await;
        faulty.clients().await.assert_may_move();
        of_others.assert_served().await;
    }
    faulty.server.ask_to_stop();
    faulty.server.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_worker_that_panics_serves_again() {
    assert_restarts(1, Steering::Kernel).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_panics_serves_again_and_the_others_connections_go_on() {
    assert_restarts(2, Steering::Kernel).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_panics_serves_again_where_workers_pass_datagrams_on() {
    assert_restarts(2, Steering::Workers).await;
}

/// Nobody waits in the queue of a socket that is kept for a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_closes_the_listeners_of_restarted_workers_and_answers_their_requests() {
    let faulty = Faulty::start(2, Steering::Kernel);
    faulty.panic();
    let (of_first, _) = faulty.clients().await.part();
    let [(_, mut client)] = <[_; 1]>::try_from(of_first.tcp).ok().unwrap();
    // The server would wait for its acknowledgements.
    drop(of_first.quic);
    let answer = client.send_request(get("/wait"));
    // It has come before the stop once a later one is answered.
    ask_tcp(&mut client).await.unwrap();
    faulty.server.ask_to_stop();
    let give_up = Instant::now() + TIME_LIMIT;
    while TcpStream::connect(faulty.server.address).is_ok() {
        assert!(Instant::now() < give_up, "a listener is open");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    faulty.release.close();
    let response = soon(answer).await.unwrap();
    let expected = format!("first {FIRST}").repeat(TIMES).into_bytes();
    assert!(soon(read(response)).await == expected);
    faulty.server.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_worker_hands_over_to_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("takeover");
    for workers in [1, 2] {
        let faulty = Faulty::with_takeover(workers, &path);
        faulty.panic();
        let (of_first, _) = faulty.clients().await.part();
        let [(_, mut quic)] = <[_; 1]>::try_from(of_first.quic).ok().unwrap();
        let [(_, mut tcp)] = <[_; 1]>::try_from(of_first.tcp).ok().unwrap();
        let over_quic = quic.send("/wait");
        assert_eq!(ask_quic(&mut quic), format!("first {FIRST}"));
        let over_tcp = tcp.send_request(get("/wait"));
        ask_tcp(&mut tcp).await.unwrap();
        let next = faulty.next(&path);
        for (answer, _) in next.clients().await.tcp {
            assert!(answer.starts_with("second"), "{answer}");
        }
        // The successor restarts as well, and still finds the way back.
        next.panic();
        faulty.release.close();
        let expected = format!("first {FIRST}").repeat(TIMES).into_bytes();
        quic.head(over_quic);
        assert!(quic.body(over_quic) == expected);
        let response = soon(over_tcp).await.unwrap();
        assert!(soon(read(response)).await == expected);
        drop((quic, tcp));
        faulty.server.join().unwrap();
        next.clients().await.assert_served().await;
    }
}

/// Counts the panics up to the end of a server that can do nothing else.
fn panics_to_the_end(workers: usize) -> usize {
    let faulty = Faulty::start(workers, Steering::Kernel);
    faulty.defect.set(When::Always);
    let (address, tls) = (faulty.server.address, faulty.server.site.client_tls(&[]));
    let client = ClientConfig::new(Arc::new(tls));
    let server = faulty.server;
    let end = thread::spawn(|| server.join());
    let give_up = Instant::now() + TIME_LIMIT;
    while !end.is_finished() {
        assert!(Instant::now() < give_up, "it serves on");
        let is_over = || end.is_finished() || Instant::now() >= give_up;
        if let Some(mut client) = H3::connect_unless(address, client.clone(), is_over) {
            faulty.defect.meet(&mut client, is_over);
        }
    }
    let end = end.join().unwrap();
    assert!(matches!(end, Err(Error::WorkerPanicked)), "{end:?}");
    faulty.defect.panics()
}

#[test]
fn the_sixth_panic_in_a_minute_ends_the_server() {
    assert_eq!(panics_to_the_end(1), 6);
    // The other worker may meet one more before it learns of the stop.
    assert!((6..=7).contains(&panics_to_the_end(2)));
}
