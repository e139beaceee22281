//! The programs that the tests start at the ends of a link: this binary, told by an environment
//! variable which of them it is. Each prints its findings as words on one line.

use crate::cases::TIME_LIMIT;
use altway_emulate::{
    Backend, Between, BetweenOptions, Emulation, FarEnd, Options, Scratch, StaleResource, Topology,
    clean,
};
use altway_link::Config;
use altway_socket::tcp_info;
use rustix::net::sockopt::{self, set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket,
};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Names the program, with its arguments.
pub(crate) const VARIABLE: &str = "ALTWAY_TEST_PROGRAM";

/// The port of every server.
pub(crate) const PORT: u16 = 7_007;

/// Interval at which a server looks whether it is to end.
const QUIET: Duration = Duration::from_millis(20);

/// Delay after which the program `ping-soon` sends, once it has said so.
pub(crate) const SOON: Duration = Duration::from_millis(200);

/// UDP payload that makes an IPv4 packet of 1,500 bytes.
const PAYLOAD: usize = 1_472;

/// Turns `command` into a run of the program `line`.
pub(crate) fn program<'a>(command: &'a mut Command, line: &str) -> &'a mut Command {
    command
        .env(VARIABLE, line)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
}

/// The command that [`program`] makes a program of.
pub(crate) fn this_binary() -> PathBuf {
    std::env::current_exe().expect("this binary has a path")
}

/// Runs a program in this process; called by `main`.
pub(crate) fn run(line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    match words[0] {
        "echo" => echo(),
        "ping" => ping(number(1)),
        "ping-soon" => ping_soon(),
        "flood" => flood(number(1), number(2)),
        "flood-in-pieces" => flood_in_pieces(number(1)),
        "received-pieces" => received_pieces(),
        "sink" => sink(),
        "tcp-server" => tcp_server(number(1)),
        "tcp-source" => tcp_source(number(1)),
        "tcp-trickle" => tcp_trickle(),
        "tcp-window" => tcp_window(),
        "tcp-answer" => tcp_answer(number(1), number(2)),
        "tcp-client" => tcp_client(),
        "tcp-taker" => tcp_taker(number(1)),
        "print" => say(std::fs::read_to_string(words[1])
            .expect("a readable file")
            .trim()),
        "tcp-peer" => tcp_peer(),
        "tcp-steps" => tcp_steps(),
        "hops" => hops(),
        "variable" => say(&std::env::var(words[1]).expect("set for every command")),
        "status" => status(words[1]),
        "hold" => hold(words[1].parse().expect("a backend")),
        "hold-with-child" => hold_with_child(),
        "hold-with-ping" => hold_with_ping(words[1].parse().expect("a backend"), number(2)),
        "between" => between(
            words[1].parse().expect("a backend"),
            number(2),
            [words[3], words[4]],
            words.get(5).map(Into::into),
        ),
        "attach" => attach(words[1], words[2]),
        "clean" => clean_interfaces(),
        "idle" => std::thread::sleep(Duration::from_secs(60)),
        other => panic!("there is no program `{other}`"),
    }
}

/// Prints a line of this process's status.
fn status(name: &str) {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    say(line
        .expect("the kernel tells it")
        .trim_start_matches(':')
        .trim());
}

/// Keeps a link to the host, with a program at its client's end, until it is killed; prints the
/// number of that process.
fn hold(backend: Backend) {
    let options = Options {
        backend: Some(backend),
        far_end: FarEnd::Host,
        ..Options::default()
    };
    let link = Emulation::start(options).expect("this is root");
    let mut command = link.client_command(this_binary());
    let mut child = program(&mut command, "idle")
        .spawn()
        .expect("this binary runs");
    say(&child.id().to_string());
    child.wait().expect("it was not waited for");
}

/// Keeps a link with a proxying router to the host, a folder and a shell at the client's end that has
/// started a program, until it is killed; prints the number of that program and the folder.
fn hold_with_child() {
    let options = Options {
        far_end: FarEnd::Host,
        topology: Topology::Proxied,
        ..Options::default()
    };
    let link = Emulation::start(options).expect("this is root");
    let scratch = Scratch::create().expect("there is room");
    let mut shell = link.client_command("sh");
    let shell = shell
        .args(["-c", "sleep 61 <&- >&- 2>&- & echo $!; wait"])
        .stdout(Stdio::piped());
    let mut shell = shell.spawn().expect("there is a shell");
    let mut child = String::new();
    let output = shell.stdout.take().expect("piped");
    BufReader::new(output)
        .read_line(&mut child)
        .expect("a number");
    say(&format!("{} {}", child.trim(), scratch.path().display()));
    shell.wait().expect("it was not waited for");
}

/// Keeps a link with so many ms of delay each way while the program `ping-soon` runs at its client's end,
/// and lets that print.
fn hold_with_ping(backend: Backend, delay: u64) {
    let direction = Config {
        delay: Duration::from_millis(delay),
        ..Config::default()
    };
    let options = Options {
        backend: Some(backend),
        up: direction.clone(),
        down: direction,
        ..Options::default()
    };
    let link = Emulation::start(options).expect("this is root");
    let mut server = link.server_command(this_binary());
    let mut server = program(&mut server, "echo")
        .spawn()
        .expect("this binary runs");
    let mut ready = String::new();
    let output = server.stdout.take().expect("piped");
    BufReader::new(output)
        .read_line(&mut ready)
        .expect("it says that it is ready");
    let mut client = link.client_command(this_binary());
    let mut client = program(&mut client, "ping-soon")
        .stdout(Stdio::inherit())
        .spawn()
        .expect("this binary runs");
    client.wait().expect("it was not waited for");
    drop(server.stdin.take());
    server.wait().expect("it was not waited for");
}

/// Runs the link between two interfaces, with so many ms of delay, until the test closes the standard
/// input; then prints the packets up and down, the hidden drops, and how many packets it logged where
/// there is a log. Prints the error that ends it.
fn between(
    backend: Backend,
    delay: u64,
    [client_side, server_side]: [&str; 2],
    packet_log: Option<PathBuf>,
) {
    let direction = Config {
        delay: Duration::from_millis(delay),
        ..Config::default()
    };
    let started = Between::start(BetweenOptions {
        client_side: client_side.to_owned(),
        server_side: server_side.to_owned(),
        up: direction.clone(),
        down: direction,
        seed: 1,
        backend: Some(backend),
        pin: None,
        packet_log,
    });
    let link = match started {
        Ok(link) => link,
        Err(error) => return say(&error.to_string()),
    };
    say("ready");
    let end = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    loop {
        let ended = end.is_finished();
        match link.report() {
            Err(error) => return say(&error.to_string()),
            Ok(report) if ended => {
                let (up, down) = (report.up.packets_in, report.down.packets_in);
                let log = link.stop().map_or(String::new(), |log| {
                    assert_eq!((log.packets_missed, log.error), (0, None));
                    log.packets_logged.to_string()
                });
                return say(&format!("{up} {down} {} {log}", report.hidden_drops));
            }
            Ok(_) => std::thread::sleep(QUIET),
        }
    }
}

/// Becomes an end of a link that another is; prints the interface's name.
fn attach(interface: &str, address: &str) {
    let address = address.parse().expect("an address");
    say(&altway_emulate::attach(interface, address).expect("this is root"));
}

/// Takes away what killed links left behind; prints the interfaces that were put back.
fn clean_interfaces() {
    let taken = clean().expect("there is /proc");
    let names = taken.into_iter().filter_map(|remnant| match remnant {
        StaleResource::Interface { name } => Some(name),
        _ => None,
    });
    say(&names.collect::<Vec<_>>().join(" "));
}

/// Sends every datagram back.
fn echo() {
    serve(|socket, from, datagram| {
        socket
            .send_to(datagram, from)
            .expect("the way back is open");
    });
}

/// Sends `count` datagrams one after the other; prints the least round trip in µs.
fn ping(count: u64) {
    let socket = client();
    let least = (0..count).map(|_| round_trip(&socket)).min();
    say(&least.expect("one at least").to_string());
}

/// Prints a line; sends a datagram [`SOON`] after that, and prints its round trip in µs.
fn ping_soon() {
    let socket = client();
    say("soon");
    std::thread::sleep(SOON);
    say(&round_trip(&socket).to_string());
}

fn round_trip(socket: &UdpSocket) -> u128 {
    let start = Instant::now();
    socket.send(b"ping").expect("the link is up");
    socket.recv(&mut [0; 16]).expect("an answer in time");
    start.elapsed().as_micros()
}

/// Sends `count` numbered full packets, with a pause of `gap` µs after every 20.
fn flood(count: u64, gap: u64) {
    let socket = client();
    let mut datagram = [0; PAYLOAD];
    for number in 0..count {
        datagram[..8].copy_from_slice(&number.to_be_bytes());
        socket.send(&datagram).expect("the link is up");
        if number % 20 == 19 {
            std::thread::sleep(Duration::from_micros(gap));
        }
    }
}

/// Sends `count` numbered full packets, 40 with each call, with a pause after it.
fn flood_in_pieces(count: u64) {
    let socket = client();
    let size = i32::try_from(PAYLOAD).expect("fits");
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::UdpGsoSegment, &size)
        .expect("Linux 4.18 or later");
    let numbers: Vec<u64> = (0..count).collect();
    for piece in numbers.chunks(40) {
        let mut datagrams = vec![0; piece.len() * PAYLOAD];
        for (datagram, number) in datagrams.chunks_mut(PAYLOAD).zip(piece) {
            datagram[..8].copy_from_slice(&number.to_be_bytes());
        }
        socket.send(&datagrams).expect("the link is up");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Prints how often the kernel was handed something at the interface here.
fn received_pieces() {
    let counters = std::fs::read_to_string("/proc/self/net/dev").expect("this is Linux");
    let line = counters.lines().find(|line| line.contains("altway"));
    let counted = line.and_then(|line| line.split_whitespace().nth(2));
    say(counted.expect("bytes and packets follow the name"));
}

/// Prints the time in ns between the first and the last datagram, and all their numbers.
fn sink() {
    let mut numbers = Vec::new();
    let mut times: Option<(Instant, Instant)> = None;
    serve(|_, _, datagram| {
        let now = Instant::now();
        times = Some((times.map_or(now, |(first, _)| first), now));
        let number = datagram[..8].try_into().expect("8 bytes");
        numbers.push(u64::from_be_bytes(number).to_string());
    });
    let nanos = times.map_or(0, |(first, last)| (last - first).as_nanos());
    say(&format!("{nanos} {}", numbers.join(" ")));
}

/// Sends `bytes` to the first that connects.
fn tcp_server(bytes: u64) {
    let listener = listen();
    say("ready");
    let (mut stream, _) = listener.accept().expect("a client");
    let body = vec![0; usize::try_from(bytes).expect("fits")];
    stream.write_all(&body).expect("the client reads it all");
}

/// Prints the address of the first that connects.
fn tcp_peer() {
    let listener = listen();
    say("ready");
    let (_, peer) = listener.accept().expect("a client");
    say(&peer.ip().to_canonical().to_string());
}

/// Connects, and reads one byte; prints how long each took in µs, from the beginning on.
fn tcp_steps() {
    let start = Instant::now();
    let mut stream = TcpStream::connect(server()).expect("the server listens");
    let connected = start.elapsed().as_micros();
    stream.read_exact(&mut [0]).expect("a byte");
    say(&format!("{connected} {}", start.elapsed().as_micros()));
}

/// Prints over how many hops a datagram must be allowed to go so that it is answered.
fn hops() {
    let socket = client();
    let patience = Some(Duration::from_millis(300));
    socket.set_read_timeout(patience).expect("not zero");
    let is_answered = |hops: &u32| {
        match server() {
            SocketAddr::V4(_) => sockopt::set_ip_ttl(&socket, *hops).expect("at most 255"),
            SocketAddr::V6(_) => {
                let hops = u8::try_from(*hops).expect("at most 255");
                sockopt::set_ipv6_unicast_hops(&socket, Some(hops)).expect("at most 255");
            }
        }
        // Other programs may make the ends wait; and a call may tell of a datagram before it that did
        // not arrive.
        let is_answered = || socket.send(b"hop").is_ok() && socket.recv(&mut [0; 16]).is_ok();
        (0..3).any(|_| is_answered())
    };
    let hops = (1..5).find(is_answered);
    say(&hops.expect("the server answers").to_string());
}

/// Sends `bytes` to the first that connects, and waits until it has them. Prints what the kernel tells
/// of the path: least round trip in µs; the median, in payload bytes per second, of the delivery rates
/// in the second half that the application did not limit (0: there was none); segments sent, sent
/// again, and of these in vain; bytes acknowledged.
fn tcp_source(bytes: u64) {
    const CHUNK: usize = 64 << 10;
    let listener = listen();
    say("ready");
    let (mut stream, _) = listener.accept().expect("a client");
    let info = |stream: &TcpStream| tcp_info(stream).expect("this is TCP");
    let chunks = bytes / CHUNK as u64;
    let mut rates = Vec::new();
    for chunk in 0..chunks {
        stream
            .write_all(&[0; CHUNK])
            .expect("the client reads it all");
        let rate = info(&stream).delivery_rate;
        let rate = rate.filter(|rate| chunk >= chunks / 2 && !rate.app_limited);
        rates.extend(rate.map(|rate| rate.bytes_per_second));
    }
    stream.shutdown(Shutdown::Write).expect("it is open");
    stream
        .read_to_end(&mut Vec::new())
        .expect("the client's end");
    rates.sort_unstable();
    let (median, info) = (rates.get(rates.len() / 2), info(&stream));
    let words = [
        info.min_rtt
            .map_or(0, |rtt| u64::try_from(rtt.as_micros()).expect("short")),
        median.copied().unwrap_or(0),
        info.data_segments_sent,
        info.retransmissions,
        info.duplicates.unwrap_or(0),
        info.bytes_acked,
    ];
    say(&words.map(|word| word.to_string()).join(" "));
}

/// Prints the congestion window, in segments, of a connection that has sent nothing yet.
fn tcp_window() {
    let listener = listen();
    say("ready");
    let (stream, _) = listener.accept().expect("a client");
    let info = tcp_info(&stream).expect("this is TCP");
    say(&info.congestion_window.to_string());
}

/// Sends a little now and then; prints whether the kernel says that the application limits the rate
/// (1), and the least and the smoothed round trip in µs.
fn tcp_trickle() {
    let listener = listen();
    say("ready");
    let (mut stream, _) = listener.accept().expect("a client");
    for _ in 0..20 {
        stream
            .write_all(&[0; 1_000])
            .expect("the client reads it all");
        std::thread::sleep(Duration::from_millis(100));
    }
    let info = tcp_info(&stream).expect("this is TCP");
    let us = |time: Option<Duration>| time.expect("measured").as_micros();
    let limited = info.delivery_rate.expect("measured").app_limited;
    let (least, smoothed) = (us(info.min_rtt), us(info.smoothed_rtt));
    say(&format!("{} {least} {smoothed}", u8::from(limited)));
}

/// Sends `bytes` to the first that connects, looks after `wait` ms, and from then on now and then,
/// whether all is acknowledged. Prints when it was, by the kernel, in µs since 1970, and how many looks
/// that took.
fn tcp_answer(bytes: u64, wait: u64) {
    let listener = listen();
    say("ready");
    let (mut stream, _) = listener.accept().expect("a client");
    let body = vec![0; usize::try_from(bytes).expect("fits")];
    stream.write_all(&body).expect("the client reads it all");
    let mut looks = 0;
    let mut wait = Duration::from_millis(wait);
    loop {
        std::thread::sleep(wait);
        let info = tcp_info(&stream).expect("this is TCP");
        let now = micros(SystemTime::now());
        looks += 1;
        assert_eq!(info.bytes_written(), Some(bytes));
        if info.bytes_acked >= bytes {
            let since = info.since_acknowledgement.as_micros();
            say(&format!("{} {looks}", now - since));
            break;
        }
        wait = QUIET;
    }
    // The client is the first to close.
    stream
        .read_to_end(&mut Vec::new())
        .expect("the client's end");
}

/// Reads so many bytes; prints when the last of them came, in µs since 1970, and holds the connection
/// open for a while.
fn tcp_taker(bytes: u64) {
    let mut stream = TcpStream::connect(server()).expect("the server listens");
    let mut body = vec![0; usize::try_from(bytes).expect("fits")];
    stream.read_exact(&mut body).expect("the whole body");
    say(&micros(SystemTime::now()).to_string());
    std::thread::sleep(Duration::from_secs(2));
}

fn micros(time: SystemTime) -> u128 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.expect("it is later than 1970").as_micros()
}

/// Reads to the end; prints how many bytes came, and how long it took in µs from the connect on.
fn tcp_client() {
    let start = Instant::now();
    let mut stream = TcpStream::connect(server()).expect("the server listens");
    let mut body = Vec::new();
    stream.read_to_end(&mut body).expect("the whole body");
    say(&format!("{} {}", body.len(), start.elapsed().as_micros()));
}

/// Handles datagrams until the test closes the standard input and no more come.
fn serve(mut handle: impl FnMut(&UdpSocket, SocketAddr, &[u8])) {
    let socket = UdpSocket::bind((everywhere(), PORT)).expect("the port is free");
    socket.set_read_timeout(Some(QUIET)).expect("not zero");
    // So that a receiver that has to wait for its processor loses nothing; the kernel grants what
    // it allows.
    let _ = set_socket_recv_buffer_size(&socket, 4 << 20);
    let _ = set_socket_recv_buffer_size_force(&socket, 4 << 20);
    let end = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    say("ready");
    let mut buffer = [0; 2_048];
    loop {
        // Asked before the read: what was sent before the end is then there to be read.
        let ended = end.is_finished();
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => handle(&socket, from, &buffer[..length]),
            Err(error) if !is_timeout(&error) => panic!("{error}"),
            Err(_) if ended => return,
            Err(_) => {}
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn client() -> UdpSocket {
    let any: IpAddr = match server() {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).expect("a free port");
    socket.connect(server()).expect("a route");
    let patience = Some(TIME_LIMIT);
    socket.set_read_timeout(patience).expect("not zero");
    socket
}

fn server() -> SocketAddr {
    let address = std::env::var("ALTWAY_SERVER").expect("set for every command");
    let address: IpAddr = address.parse().expect("an address");
    (address, PORT).into()
}

fn listen() -> TcpListener {
    TcpListener::bind((everywhere(), PORT)).expect("the port is free")
}

/// All addresses: of both versions of IP (bindv6only is 0 by default), if the kernel has both.
fn everywhere() -> IpAddr {
    if std::path::Path::new("/proc/net/if_inet6").exists() {
        return Ipv6Addr::UNSPECIFIED.into();
    }
    Ipv4Addr::UNSPECIFIED.into()
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("the test listens");
}
