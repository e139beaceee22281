//! The secrets of connections, for those who look into packets.

use crate::request::panic_guard::catch_panic;
use std::fmt;
use std::sync::Arc;

/// A receiver of the secrets of every connection, in the terms of the NSS key log format.
pub trait KeyLog: fmt::Debug + Send + Sync {
    /// Takes one secret: its label, the random bytes of the connection's ClientHello, the secret itself.
    /// Called in the middle of handshakes, on the worker's thread: it should not block. Where it panics the handshake goes on.
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]);
}

/// A key log as rustls wants it.
#[derive(Debug)]
pub(crate) struct ForTls(pub(crate) Arc<dyn KeyLog>);

impl rustls::KeyLog for ForTls {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        // A panic would take all of the worker's connections over QUIC along.
        let _ = catch_panic(|| self.0.log(label, client_random, secret));
    }
}
