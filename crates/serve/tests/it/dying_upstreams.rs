//! Requests of every protocol while the servers behind die and come back at random: which of them are answered, and which
//! are handled twice.
//!
//! The servers count requests by a number that each carries. One server never dies, so that there is always one; the
//! others take no connections for a while, drop those that there are, or end one with a request that they have handled.
#![allow(
    clippy::print_stdout,
    reason = "people read what the thorough run has found"
)]

use super::proxied;
use crate::common::{H1, Running, TIME_LIMIT, h1, h2, h3::H3};
use altway_proxy::Statistics;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Clients of each protocol.
const CLIENTS: usize = 4;

/// Servers that die.
const MORTAL: usize = 6;

/// One request in so many is the last of its connection, and is not answered.
const DROPPED: u64 = 50;

/// A sequence of numbers that a seed determines (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A server of HTTP/1.1 that can die and come back at its address.
struct Origin {
    address: SocketAddr,
    /// The connections of its present life, which their threads own.
    living: Mutex<Vec<Weak<TcpStream>>>,
    is_dead: AtomicBool,
    is_mortal: bool,
    /// Times that each request was handled, at all servers together.
    handled: Arc<Vec<AtomicU32>>,
    random: Mutex<Random>,
}

impl Origin {
    fn new(is_mortal: bool, handled: &Arc<Vec<AtomicU32>>, seed: u64) -> (Arc<Self>, TcpListener) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let origin = Self {
            address: listener.local_addr().unwrap(),
            living: Mutex::default(),
            is_dead: AtomicBool::new(false),
            is_mortal,
            handled: Arc::clone(handled),
            random: Mutex::new(Random(seed)),
        };
        (Arc::new(origin), listener)
    }

    /// Takes connections until it is dead. What it has not accepted by then ends with its listener.
    fn live(self: &Arc<Self>, listener: TcpListener) {
        listener.set_nonblocking(true).unwrap();
        let origin = Arc::clone(self);
        std::thread::spawn(move || {
            while !origin.is_dead.load(Ordering::SeqCst) {
                let Ok((stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_micros(500));
                    continue;
                };
                stream.set_nonblocking(false).unwrap();
                stream.set_nodelay(true).unwrap();
                let mut living = origin.living.lock().unwrap();
                living.retain(|it| it.strong_count() > 0);
                let stream = Arc::new(stream);
                living.push(Arc::downgrade(&stream));
                let origin = Arc::clone(&origin);
                std::thread::spawn(move || origin.serve(&stream));
            }
        });
    }

    fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
        self.drop_connections();
    }

    fn drop_connections(&self) {
        let living = std::mem::take(&mut *self.living.lock().unwrap());
        for stream in living.iter().filter_map(Weak::upgrade) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn come_back(self: &Arc<Self>) {
        self.drop_connections();
        // The former life's listener may still be there for a moment.
        let deadline = Instant::now() + TIME_LIMIT;
        let listener = loop {
            match TcpListener::bind(self.address) {
                Ok(listener) => break listener,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        self.is_dead.store(false, Ordering::SeqCst);
        self.live(listener);
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some(number) = request(&mut reader) {
            self.handled[number].fetch_add(1, Ordering::SeqCst);
            if self.is_mortal && self.random.lock().unwrap().below(DROPPED) == 0 {
                break;
            }
            let text = number.to_string();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            );
            // In one piece: a response that has begun is not asked for again.
            if reader.get_mut().write_all(answer.as_bytes()).is_err() {
                break;
            }
        }
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Reads a whole request: the number in its path.
fn request(reader: &mut BufReader<&TcpStream>) -> Option<usize> {
    let (mut number, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        match line.split_once(": ") {
            Some(("content-length", value)) => length = value.parse().ok()?,
            Some(_) => {}
            None => number = line.split(['/', ' ']).nth(2)?.parse().ok(),
        }
    }
    let mut content = vec![0; length];
    reader.read_exact(&mut content).ok()?;
    number
}

/// A client of one protocol, which asks for one thing after the other.
enum Client {
    Http1(Option<H1<Full<Bytes>>>),
    Http2(http2::SendRequest<Full<Bytes>>),
    Http3(Box<H3>),
}

impl Client {
    async fn new(server: &Running, protocol: &str) -> Self {
        match protocol {
            "h1" => Self::Http1(None),
            "h2" => Self::Http2(h2(server.connect_tls(&[b"h2"]).await).await),
            _ => Self::Http3(Box::new(H3::connect(server))),
        }
    }

    /// The status and the content of the response.
    async fn ask(&mut self, server: &Running, request: Request<Bytes>) -> (u16, String) {
        if let Self::Http3(client) = self {
            let (_, head, body) = client.ask(request);
            return (head.status().as_u16(), String::from_utf8(body).unwrap());
        }
        let (mut head, content) = request.into_parts();
        let response = match self {
            Self::Http1(kept) => {
                head.headers.insert("host", "localhost".parse().unwrap());
                head.uri = head.uri.path().parse().unwrap();
                let mut client = match kept.take() {
                    Some(client) if !client.is_closed() => client,
                    _ => h1(server.connect_tls(&[b"http/1.1"]).await).await,
                };
                if client.ready().await.is_err() {
                    client = h1(server.connect_tls(&[b"http/1.1"]).await).await;
                }
                let request = Request::from_parts(head, Full::new(content));
                let response = client.send_request(request).await.unwrap();
                *kept = Some(client);
                response
            }
            Self::Http2(client) => {
                let request = Request::from_parts(head, Full::new(content));
                client.send_request(request).await.unwrap()
            }
            Self::Http3(_) => unreachable!("it was asked above"),
        };
        let status = response.status().as_u16();
        let content = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(content.to_vec()).unwrap())
    }
}

/// Outcomes of the requests of one kind.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    answered: usize,
    /// Answered 502 or 503 by the proxy.
    refused: usize,
}

/// The methods, with whether a server may be given one twice.
const METHODS: [(Method, bool); 4] = [
    (Method::GET, true),
    (Method::PUT, true),
    (Method::DELETE, true),
    (Method::POST, false),
];

/// Takes numbers until there are no more, and asks with each for one thing.
async fn run(
    server: &Running,
    protocol: &'static str,
    next: &AtomicUsize,
    handled: &[AtomicU32],
) -> BTreeMap<(&'static str, String), Tally> {
    let mut client = Client::new(server, protocol).await;
    let mut tallies = BTreeMap::<_, Tally>::new();
    loop {
        let number = next.fetch_add(1, Ordering::SeqCst);
        if number >= handled.len() {
            return tallies;
        }
        let (method, is_idempotent) = METHODS[number % METHODS.len()].clone();
        let content = match method {
            Method::PUT | Method::POST => Bytes::from(vec![b'x'; 1 + number % 5_000]),
            _ => Bytes::new(),
        };
        let request = Request::builder().method(method.clone());
        let request = request.uri(format!("https://localhost/{number}"));
        let asked = client.ask(server, request.body(content).unwrap());
        let (status, text) = tokio::time::timeout(Duration::from_secs(60), asked)
            .await
            .unwrap_or_else(|_| panic!("{protocol} {method} {number}: no answer"));
        let tally = tallies.entry((protocol, method.to_string())).or_default();
        match status {
            200 => {
                assert_eq!(text, number.to_string(), "{protocol}: another's response");
                tally.answered += 1;
            }
            502 | 503 if !is_idempotent => tally.refused += 1,
            status => panic!("{protocol} {method} {number}: {status} {text}"),
        }
        let times = handled[number].load(Ordering::SeqCst);
        assert!(
            is_idempotent || times <= 1,
            "{protocol} {method} {number} was handled {times} times"
        );
        assert!(status != 200 || times > 0, "nobody has answered {number}");
    }
}

/// Has servers die and come back until `is_over`; returns how often each thing happened.
fn haunt(origins: &[Arc<Origin>], seed: u64, is_over: &AtomicBool) -> (usize, usize) {
    let mut random = Random(seed);
    let (mut deaths, mut drops) = (0, 0);
    while !is_over.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(2 + random.below(20)));
        let origin = &origins[random.below(origins.len() as u64) as usize];
        match (origin.is_dead.load(Ordering::SeqCst), random.below(3)) {
            (true, _) => origin.come_back(),
            (false, 0) => {
                origin.drop_connections();
                drops += 1;
            }
            (false, _) => {
                origin.die();
                deaths += 1;
            }
        }
    }
    (deaths, drops)
}

fn servers(handled: &Arc<Vec<AtomicU32>>, seed: u64) -> Vec<Arc<Origin>> {
    let each = (0..=MORTAL).map(|place| {
        let (origin, listener) = Origin::new(place > 0, handled, seed + place as u64);
        origin.live(listener);
        origin
    });
    each.collect()
}

/// Sends so many requests; prints what became of them.
fn storm(requests: usize, seed: u64) {
    let handled: Arc<Vec<_>> = Arc::new((0..requests).map(|_| AtomicU32::new(0)).collect());
    let origins = servers(&handled, seed);
    let addresses = origins
        .iter()
        .map(|it| format!("\"http://{}\"", it.address));
    let addresses: Vec<_> = addresses.collect();
    let (list, attempts) = (addresses.join(", "), origins.len());
    let keys = format!("proxy = [{list}]\nretry = {{ attempts = {attempts} }}");
    let (site, statistics) = proxied::counted(&keys);
    let server = Running::tls(|options| options.site = site);
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let began = Instant::now();
    let (tallies, (deaths, drops)) = std::thread::scope(|scope| {
        let haunted = scope.spawn(|| haunt(&origins[1..], seed, &is_over));
        let protocols = ["h1", "h2", "h3"].into_iter();
        let clients = protocols.flat_map(|protocol| std::iter::repeat_n(protocol, CLIENTS));
        let (server, next, handled) = (&server, &next, &handled);
        let client = |protocol| {
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                runtime
                    .unwrap()
                    .block_on(run(server, protocol, next, handled))
            })
        };
        let clients: Vec<_> = clients.map(client).collect();
        let ended: Vec<_> = clients
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        is_over.store(true, Ordering::SeqCst);
        let haunted = haunted.join().unwrap();
        let mut tallies = BTreeMap::<_, Tally>::new();
        for (key, tally) in ended.into_iter().flat_map(Result::unwrap) {
            let sum = tallies.entry(key).or_default();
            sum.answered += tally.answered;
            sum.refused += tally.refused;
        }
        (tallies, haunted)
    });
    let lasted = began.elapsed();
    let twice = handled
        .iter()
        .filter(|it| it.load(Ordering::SeqCst) > 1)
        .count();
    let retries = told(&statistics);
    println!(
        "seed {seed}: {requests} requests in {lasted:.1?}, {deaths} deaths, {drops} times all connections dropped"
    );
    for ((protocol, method), Tally { answered, refused }) in &tallies {
        println!("{protocol} {method:<6} answered {answered:>6}, 502 or 503 {refused:>4}");
    }
    println!("{twice} idempotent requests were handled more than once");
    let all = tallies.values().map(|it| it.answered + it.refused);
    assert_eq!(all.sum::<usize>(), requests);
    assert!(retries > 0 && deaths > 0, "nothing has failed");
    for origin in &origins {
        origin.die();
    }
}

/// Prints what the proxy has counted; gives the requests that were sent again.
fn told(statistics: &Statistics) -> u64 {
    let (mut given, mut retries, mut ejections) = (0, 0, 0);
    for (_, server) in statistics.upstreams() {
        given += server.requests;
        retries += server.retries;
        ejections += server.ejections;
    }
    println!("{given} attempts, {retries} of them again, {ejections} ejections");
    retries
}

#[test]
fn every_idempotent_request_is_answered_and_no_other_is_handled_twice() {
    storm(3_000, 1);
}

/// The thorough form: `cargo test --release -p altway-serve --test it -- --ignored --nocapture dying_upstreams`.
#[test]
#[ignore = "takes a minute; the quick form runs always"]
fn a_hundred_thousand_requests_are_answered_or_refused_and_none_is_doubled() {
    storm(100_000, 1);
}
