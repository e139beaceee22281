//! A driver whose client doesn't read: it must wait, and not turn in circles until it may give up.

use super::*;
use crate::files::Files;
use crate::options::Limits;
use crate::path_meter::Paths;
use crate::service::Service;
use crate::stop::stop_channel;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};

/// Far above what progress takes, far below what a circle does in the time.
const MAX_POLLS: usize = 2_000;

fn setup(dir: &std::path::Path) -> Arc<Setup> {
    std::fs::write(dir.join("large"), vec![0; 8 << 20]).unwrap();
    std::fs::write(dir.join("small"), vec![0; 8 << 10]).unwrap();
    let service = Service {
        files: Files::open(dir).unwrap(),
        paths: Paths::new(),
        policy: "h2".parse().unwrap(),
        alternative: None,
        log: None,
    };
    Arc::new(Setup {
        service,
        tls: None,
        quic: None,
        limits: Limits {
            idle_timeout: Duration::from_millis(200),
            ..Limits::default()
        },
        grace: Duration::ZERO,
    })
}

/// What a client with wide windows sends that asks for a file `times` times at once.
fn greedy(file: &str, times: u32) -> Vec<u8> {
    let config = http2::Config {
        max_concurrent_streams: times,
        stream_window: 1 << 30,
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

/// Here what waits is not bodies, but requests: read and not answered yet.
#[tokio::test]
async fn answers_that_nobody_reads_cost_no_turns_and_are_given_up() {
    check("small", 4_000).await;
}

/// Asks for more than the buffers of two sockets hold, and reads nothing.
async fn check(file: &str, times: u32) {
    let dir = tempfile::tempdir().unwrap();
    let setup = setup(dir.path());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.write_all(&greedy(file, times)).unwrap();
    let (stream, peer) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let stream = Rc::new(TcpStream::from_std(stream).unwrap());
    let mut config = (*config(&setup)).clone();
    config.timeouts.settings = Duration::from_millis(300);
    let driver = Driver::new(Parts {
        config: Arc::new(config),
        setup,
        desk: Rc::new(RefCell::new(Desk::new())),
        client: peer.ip(),
        probe: Rc::new(Probe::new(peer.ip(), Rc::clone(&stream))),
        stream,
        tls: None,
        head: Vec::new(),
    });
    let (_handle, signal) = stop_channel();
    let mut running = pin!(driver.run(signal));
    let mut polls = 0;
    let counted = poll_fn(|cx| {
        polls += 1;
        assert!(polls < MAX_POLLS, "turns in circles");
        running.as_mut().poll(cx)
    });
    let ended = timeout(Duration::from_secs(30), counted).await;
    assert!(ended.is_ok(), "never given up");
    drop(client);
}
