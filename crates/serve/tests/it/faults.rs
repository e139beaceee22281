//! HTTP/2 clients that vanish, close one half, or reset in the middle of bodies: what they leave
//! behind, which is nothing.

use crate::common::{LARGE, Running, Stream, TIME_LIMIT, get_over, h2, read, soon};
use http_body_util::BodyExt;
use socket2::SockRef;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

/// Files of the site. The worker keeps each open, once.
const FILES: usize = 2;

fn start(tls: bool) -> Running {
    let one_worker = |options: &mut altway_serve::Options| {
        options.threads = NonZeroUsize::MIN;
        // What only a time-out takes away is left behind.
        options.limits.header_timeout = 3 * TIME_LIMIT;
        options.limits.idle_timeout = 3 * TIME_LIMIT;
    };
    if tls {
        Running::tls(one_worker)
    } else {
        Running::clear(one_worker)
    }
}

/// A connection that ends with RST instead of FIN when it is dropped, as if its process or host had
/// died.
async fn connect(server: &Running, tls: bool) -> Box<dyn Stream> {
    let mortal = |stream: &tokio::net::TcpStream| {
        let linger = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        linger.unwrap();
    };
    if tls {
        let stream = server.connect_tls(&[b"h2"]).await;
        mortal(stream.get_ref().0);
        Box::new(stream)
    } else {
        let stream = server.connect().await;
        mortal(&stream);
        Box::new(stream)
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let stream = stream.to_be_bytes();
    [&len[1..], &[kind, flags], &stream, payload].concat()
}

/// Preface, SETTINGS and WINDOW_UPDATE: windows as large as they can be.
fn preface() -> Vec<u8> {
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, b"\0\x04\x7f\xff\xff\xff"),
        frame(8, 0, 0, &(0x7fff_ffff_u32 - 65_535).to_be_bytes()),
    ]
    .concat()
}

/// HEADERS of a request for `path` of localhost, without Huffman coding.
fn request(stream: u32, tls: bool, post: bool, path: &str) -> Vec<u8> {
    let method = if post { 0x83 } else { 0x82 };
    let scheme = if tls { 0x87 } else { 0x86 };
    let mut block = vec![method, scheme, 0x01, 9];
    block.extend_from_slice(b"localhost");
    block.extend_from_slice(&[0x04, u8::try_from(path.len()).unwrap()]);
    block.extend_from_slice(path.as_bytes());
    let end_stream = u8::from(!post);
    frame(1, 0x04 | end_stream, stream, &block)
}

/// Lengths of the DATA frames, and whether the last one ended the stream.
fn data(mut bytes: &[u8]) -> (usize, bool) {
    let (mut sum, mut ended) = (0, false);
    while let Some((header, rest)) = bytes.split_first_chunk::<9>() {
        let len = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        if header[3] == 0 {
            sum += len;
            ended = header[4] & 1 == 1;
        }
        bytes = &rest[len..];
    }
    (sum, ended)
}

/// Descriptors of the server's connections: sockets at its port that somebody holds and that don't
/// listen. Not the process's: the other tests of this file run in it.
fn connections(server: &Running) -> usize {
    let port = format!(":{:04X}", server.address.port());
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let sockets = table.lines().skip(1).filter(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let (local, state, inode) = (columns[1], columns[3], columns[9]);
        local.ends_with(&port) && state != "0A" && inode != "0"
    });
    sockets.count()
}

/// Files of the site that are open.
fn files(server: &Running) -> usize {
    let folder = server.site.folder();
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets
        .filter(|target| *target != folder && target.starts_with(&folder))
        .count()
}

/// Nothing is left, and the server answers.
async fn assert_unharmed(server: &Running, tls: bool) {
    let settled = async {
        while connections(server) > 0 || files(server) > FILES {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let settled = tokio::time::timeout(TIME_LIMIT, settled).await;
    let (connections, files) = (connections(server), files(server));
    assert!(settled.is_ok(), "{connections} sockets, {files} files");
    let mut client = h2(connect(server, tls).await).await;
    let answer = soon(client.send_request(get_over(tls, "/"))).await.unwrap();
    assert_eq!(soon(read(answer)).await, b"<p>home");
}

/// Three downloads and an upload, cut off after `taken` bytes.
async fn vanish(server: Arc<Running>, tls: bool, taken: usize) {
    let mut stream = connect(&server, tls).await;
    let mut said = preface();
    for id in [1, 3, 5] {
        said.extend(request(id, tls, false, "/large"));
    }
    said.extend(request(7, tls, true, "/large"));
    said.extend(frame(0, 0, 7, &[b'x'; 10_000]));
    stream.write_all(&said).await.unwrap();
    let mut buffer = vec![0; taken];
    stream.read_exact(&mut buffer).await.unwrap();
    // The kernel tells its table in pieces, and one that changes meanwhile may lack a line.
    let is_counted = (0..5).any(|_| connections(&server) > 0);
    assert!(is_counted, "or nothing is counted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_clients_that_vanish_leave_nothing_behind() {
    for tls in [false, true] {
        let server = Arc::new(start(tls));
        for round in 0..8 {
            let mut clients = JoinSet::new();
            for i in 0..40 {
                let taken = 1 + (round * 40 + i) * 997 % 300_000;
                clients.spawn(vanish(Arc::clone(&server), tls, taken));
            }
            soon(clients.join_all()).await;
        }
        assert_unharmed(&server, tls).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_has_closed_its_half_still_gets_its_answer() {
    for tls in [false, true] {
        let server = start(tls);
        for (path, size) in [("/", 7), ("/large", LARGE)] {
            let mut stream = connect(&server, tls).await;
            let said = [preface(), request(1, tls, false, path)].concat();
            stream.write_all(&said).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut heard = Vec::new();
            soon(stream.read_to_end(&mut heard)).await.unwrap();
            assert_eq!(data(&heard), (size, true), "{path}");
        }
        assert_unharmed(&server, tls).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_closes_its_half_in_the_middle_of_an_upload_is_let_go() {
    for tls in [false, true] {
        let server = start(tls);
        for cut in [b"".as_slice(), &frame(0, 0, 1, b"abc"), b"\0\0\x09"] {
            let mut stream = connect(&server, tls).await;
            let said = [&preface(), &request(1, tls, true, "/"), cut].concat();
            stream.write_all(&said).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut heard = Vec::new();
            let read = stream.read_to_end(&mut heard);
            let read = tokio::time::timeout(TIME_LIMIT, read).await;
            read.expect("before any time-out").unwrap();
        }
        assert_unharmed(&server, tls).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resets_in_the_middle_of_bodies_leave_the_connection_as_it_was() {
    for tls in [false, true] {
        let server = start(tls);
        let mut client = h2(connect(&server, tls).await).await;
        for _ in 0..60 {
            let response = soon(client.send_request(get_over(tls, "/large")))
                .await
                .unwrap();
            let mut body = response.into_body();
            soon(body.frame()).await.unwrap().unwrap();
            drop(body);
            let small = soon(client.send_request(get_over(tls, "/"))).await.unwrap();
            assert_eq!(soon(read(small)).await, b"<p>home");
        }
        let whole = soon(client.send_request(get_over(tls, "/large")))
            .await
            .unwrap();
        assert_eq!(soon(read(whole)).await.len(), LARGE);
        assert_eq!(connections(&server), 1);
        drop(client);
        assert_unharmed(&server, tls).await;
    }
}
