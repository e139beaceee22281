//! Servers that are not there, not ours, or gone in the middle.

use crate::common::Serving;
use altway_raw::{Direction, Error, Options, Server, Sizes, TransportKind, Trust, send};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

fn to(port: u16, over: TransportKind) -> Options {
    let sizes = Sizes::bulk(Direction::Down, 1_000_000);
    let mut options = Options::new("127.0.0.1", port, over, sizes);
    options.trust = Trust::Insecure;
    options.silence_timeout = Duration::from_secs(20);
    options
}

/// A TCP server that says `answer` to whatever comes, and then closes.
fn foreign(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1_024]).unwrap();
        stream.write_all(answer).unwrap();
    });
    port
}

#[test]
fn nobody_listens() {
    // Bound and dropped: the port is free, and nobody has it.
    let port = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = port.local_addr().unwrap().port();
    for over in TransportKind::ALL {
        let error = send(&to(port, over)).unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{error:?}");
        let text = format!("cannot connect to 127.0.0.1:{port} over {over}");
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn a_name_without_an_address() {
    let mut options = to(1, TransportKind::Tcp);
    options.host = "no.such.host.invalid".into();
    let error = send(&options).unwrap_err();
    assert!(matches!(error, Error::Resolve { .. }), "{error:?}");
}

#[test]
fn a_web_server_is_no_server_of_ours() {
    let answer = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";
    let error = send(&to(foreign(answer), TransportKind::Tcp)).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
    let error = send(&to(foreign(answer), TransportKind::Tls)).unwrap_err();
    assert!(matches!(error, Error::Handshake { .. }), "{error:?}");
}

#[test]
fn a_server_that_hangs_up_is_none_of_ours() {
    let error = send(&to(foreign(b""), TransportKind::Tcp)).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut options = to(listener.local_addr().unwrap().port(), TransportKind::Tcp);
    options.silence_timeout = Duration::from_millis(50);
    let error = send(&options).unwrap_err();
    assert!(matches!(error, Error::Silent { moved: 0, .. }), "{error:?}");
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    options.port = udp.local_addr().unwrap().port();
    options.over = TransportKind::Quic;
    let error = send(&options).unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
}

#[test]
fn a_certificate_that_nobody_vouches_for() {
    let serving = Serving::start();
    let other = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap();
    let file = other.path().join("ca.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    for over in [TransportKind::Tls, TransportKind::Quic] {
        let mut options = to(serving.address.port(), over);
        options.trust = Trust::CaFile(file.clone());
        let error = send(&options).unwrap_err();
        assert!(matches!(error, Error::Handshake { .. }), "{error:?}");
        assert!(error.to_string().contains("certificate"), "{error}");
    }
}

#[test]
fn a_client_that_is_none_of_ours_is_shown_the_door() {
    let serving = Serving::start();
    let mut stream = std::net::TcpStream::connect(serving.address).unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut answer = Vec::new();
    // Closed with our bytes unread, it may be told as a reset.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty());
}

#[test]
fn a_server_that_goes_in_the_middle_is_lost_and_told_how_far_it_came() {
    for over in TransportKind::ALL {
        let moved_until = |millis| {
            let mut serving = Serving::start();
            let mut options = serving.options(over, Sizes::bulk(Direction::Down, u64::MAX / 4));
            options.silence_timeout = Duration::from_secs(2);
            let sending = std::thread::spawn(move || send(&options).unwrap_err());
            std::thread::sleep(Duration::from_millis(millis));
            serving.stop();
            sending.join().unwrap()
        };
        // On a busy machine it takes longer to come to the middle.
        let mut errors = [300, 2_000, 10_000].into_iter().map(moved_until);
        let has_begun = |error: &Error| {
            let not_yet = matches!(
                error,
                Error::Connect { .. }
                    | Error::Lost { moved: 0, .. }
                    | Error::Silent { moved: 0, .. }
            );
            !not_yet
        };
        let error = errors.find(has_begun).expect("it begins within 10 s");
        let is_lost = matches!(error, Error::Lost { .. } | Error::Silent { .. });
        assert!(is_lost, "{over}: {error:?}");
    }
}

#[test]
fn a_port_that_is_taken_is_told() {
    let serving = Serving::start();
    let mut options = serving.server_options();
    options.port = serving.address.port();
    let error = Server::bind(&options).unwrap_err();
    assert!(matches!(error, Error::PortInUse { .. }), "{error:?}");
    options.certificate = "/nowhere/cert.pem".into();
    let error = Server::bind(&options).unwrap_err();
    assert_eq!(error.to_string(), "cannot use `/nowhere/cert.pem`");
}
