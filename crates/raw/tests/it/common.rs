//! A running server with a certificate of its own, and options to send to it.

use altway_raw::{Error, Options, Server, ServerOptions, Sizes, StopHandle, TransportKind, Trust};
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// A server on a free port of the loopback; stopped with this value.
pub(crate) struct Serving {
    dir: TempDir,
    pub(crate) address: SocketAddr,
    stop: StopHandle,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Serving {
    pub(crate) fn start() -> Self {
        Self::start_with(|_| {})
    }

    pub(crate) fn start_with(change: impl FnOnce(&mut ServerOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        std::fs::write(dir.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let mut options = server_options(&dir);
        change(&mut options);
        let server = Server::bind(&options).unwrap();
        Self {
            dir,
            address: server.local_addr(),
            stop: server.stop_handle(),
            thread: Some(std::thread::spawn(move || server.run())),
        }
    }

    /// Returns the options of this server, for another.
    pub(crate) fn server_options(&self) -> ServerOptions {
        server_options(&self.dir)
    }

    pub(crate) fn options(&self, over: TransportKind, sizes: Sizes) -> Options {
        let mut options = Options::new("127.0.0.1", self.address.port(), over, sizes);
        options.trust = Trust::CaFile(self.dir.path().join("cert.pem"));
        options.silence_timeout = Duration::from_secs(20);
        options.verify = true;
        options
    }

    /// Stops the server, which cuts off what is connected.
    pub(crate) fn stop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop();
    }
}

fn server_options(dir: &TempDir) -> ServerOptions {
    let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    let mut options = ServerOptions::new(Some(Ipv4Addr::LOCALHOST.into()), 0, certificate, key);
    options.silence_timeout = Duration::from_secs(20);
    options
}
