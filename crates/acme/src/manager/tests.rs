//! Tests of names that come and go while something is under way for them, at an authority that does not answer.

use super::*;
use crate::{BoxError, Challenge};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{ErrorKind, Read as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

/// The longest wait for anything; an authority is waited for longer.
const WAIT: Duration = Duration::from_secs(20);

struct NoAnswers;

impl Responder for NoAnswers {
    fn answer_http(&self, _: &str, _: &str) -> Result<(), BoxError> {
        Ok(())
    }

    fn answer_tls(
        &self,
        _: &str,
        _: CertificateDer<'static>,
        _: PrivateKeyDer<'static>,
    ) -> Result<(), BoxError> {
        Ok(())
    }

    fn remove_http(&self, _: &str) {}

    fn remove_tls(&self, _: &str) {}
}

/// Connections to an authority that takes them and says nothing, and its port.
fn silent_authority() -> (Receiver<TcpStream>, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (accepted, connections) = channel();
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            if accepted.send(connection).is_err() {
                return;
            }
        }
    });
    (connections, port)
}

/// Waits until the other end has closed a connection.
fn is_closed(connection: &mut TcpStream) -> bool {
    connection.set_read_timeout(Some(WAIT)).unwrap();
    let mut bytes = [0; 4096];
    loop {
        match connection.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

fn wait_for_status(manager: &Manager, is_it: impl Fn(&Status) -> bool) {
    let begin = std::time::Instant::now();
    while !is_it(&manager.status()) {
        assert!(begin.elapsed() < WAIT, "{:?}", manager.status());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_name_that_was_taken_away_and_comes_again_has_nothing_of_its_earlier_order() {
    let dir = tempfile::tempdir().unwrap();
    let (connections, port) = silent_authority();
    let root = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let roots = dir.path().join("roots.pem");
    std::fs::write(&roots, root.cert.pem()).unwrap();
    let settings = Settings {
        directory: format!("https://127.0.0.1:{port}/dir"),
        email: None,
        profile: None,
        roots: Some(roots),
        external_account: None,
        challenges: vec![Challenge::TlsAlpn01],
        on_demand: None,
        folder: dir.path().join("acme"),
        user_agent: "altway/test".into(),
    };
    let names = ["a.example".to_owned()];
    let opened = Manager::open(settings, false).unwrap();
    let (told, events) = channel();
    let observer = Box::new(move |event: &Event| drop(told.send(event.clone())));
    let manager = opened.start(&names, Arc::new(NoAnswers), observer).unwrap();
    let mut first = connections.recv_timeout(WAIT).unwrap();
    manager.replace_names(&[]);
    wait_for_status(&manager, |status| status.names.is_empty());
    assert!(is_closed(&mut first), "the order goes on without its name");
    manager.replace_names(&names);
    let second = connections.recv_timeout(WAIT).unwrap();
    let is_ordering = |status: &Status| status.names.iter().any(|it| it.is_ordering);
    wait_for_status(&manager, is_ordering);
    assert_eq!(manager.status().failed, 0);
    assert!(events.try_recv().is_err(), "nothing has failed");
    // What becomes of its own counts.
    drop(second);
    wait_for_status(&manager, |status| status.failed == 1);
}
