//! TLS 1.3 over TCP, and the settings of TLS that QUIC uses as well.
//!
//! A call's worth of bytes is enciphered into records at once and leaves with one writev; what one
//! recv brings is deciphered before the next. So TLS makes as few system calls as plain TCP, and
//! what it costs beyond that is its own.

use crate::costs::Calls;
use crate::error::{ConnectionFailure, Error};
use crate::options::Cipher;
use crate::protocol::ProtocolEnd;
use crate::tcp::{CountingStream, READ_BYTES, Stream, none_if_blocked};
use altway_load::Trust;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

/// The protocol's name in ALPN (RFC 7301), over TLS and QUIC.
pub(crate) const ALPN: &[u8] = b"altway-raw";

/// The first byte of a TLS connection: a record of type handshake (RFC 8446 section 5.1).
pub(crate) const FIRST_BYTE: u8 = 22;

/// A TLS connection of either role over its socket.
pub(crate) struct Tls {
    connection: Connection,
    socket: TcpStream,
    buffer: Box<[u8]>,
}

impl Tls {
    /// Begins a handshake as a client.
    pub(crate) fn client(
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
        socket: TcpStream,
    ) -> Result<Self, rustls::Error> {
        let connection = ClientConnection::new(Arc::clone(config), name)?;
        Ok(Self::new(connection.into(), socket))
    }

    /// Awaits a handshake as a server.
    pub(crate) fn server(
        config: &Arc<ServerConfig>,
        socket: TcpStream,
    ) -> Result<Self, rustls::Error> {
        let connection = ServerConnection::new(Arc::clone(config))?;
        Ok(Self::new(connection.into(), socket))
    }

    fn new(mut connection: Connection, socket: TcpStream) -> Self {
        // `ProtocolEnd` bounds what is handed over at once.
        connection.set_buffer_limit(None);
        Self {
            connection,
            socket,
            buffer: vec![0; READ_BYTES].into(),
        }
    }

    /// Lets records out as far as the socket takes them.
    fn push(&mut self, calls: &mut Calls) -> io::Result<()> {
        while self.connection.wants_write() {
            let mut socket = CountingStream::new(&self.socket, calls);
            if none_if_blocked(self.connection.write_tls(&mut socket))?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Deciphers the first `length` bytes of the buffer and hands them on. False: the peer said that
    /// it won't send any more.
    fn decipher(
        &mut self,
        length: usize,
        protocol: &mut dyn ProtocolEnd,
    ) -> Result<bool, ConnectionFailure> {
        let mut records = &self.buffer[..length];
        let mut open = true;
        while !records.is_empty() && open {
            self.connection.read_tls(&mut records)?;
            let state = self.connection.process_new_packets();
            if state.is_err() {
                // The alert that tells the peer why.
                let _ = self.connection.write_tls(&mut &self.socket);
            }
            open = !state?.peer_has_closed();
            let mut reader = self.connection.reader();
            loop {
                match reader.fill_buf() {
                    Ok([]) => break,
                    Ok(plain) => {
                        protocol.handle_input(plain)?;
                        let length = plain.len();
                        reader.consume(length);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(open)
    }
}

impl Drop for Tls {
    /// Says goodbye, so that the peer knows that nothing was cut off (RFC 8446 section 6.1).
    fn drop(&mut self) {
        self.connection.send_close_notify();
        let _ = self.push(&mut Calls::default());
    }
}

impl Stream for Tls {
    fn socket(&self) -> &TcpStream {
        &self.socket
    }

    fn is_ready(&self) -> bool {
        !self.connection.is_handshaking()
    }

    fn flush(&mut self, calls: &mut Calls) -> io::Result<bool> {
        self.push(calls)?;
        Ok(!self.connection.wants_write())
    }

    fn send(&mut self, bytes: &[u8], calls: &mut Calls) -> io::Result<usize> {
        let sent = self.connection.writer().write(bytes)?;
        self.push(calls)?;
        Ok(sent)
    }

    fn receive(
        &mut self,
        protocol: &mut dyn ProtocolEnd,
        calls: &mut Calls,
    ) -> Result<bool, ConnectionFailure> {
        let mut socket = CountingStream::new(&self.socket, calls);
        match none_if_blocked(socket.read(&mut self.buffer))? {
            None => Ok(true),
            Some(0) => Ok(false),
            Some(length) => self.decipher(length, protocol),
        }
    }
}

/// Makes the cryptographic library gather its entropy, which takes it some 50 ms of processor time
/// once a thread and would else be part of the first connection's handshake.
pub(crate) fn warm_up(provider: &CryptoProvider) {
    // Whoever needs random numbers later is told that there are none.
    let _ = provider.secure_random.fill(&mut [0; 32]);
}

/// The settings of a client.
pub(crate) fn client_config(trust: &Trust, cipher: Cipher) -> Result<ClientConfig, Error> {
    let provider = provider(cipher);
    let verifier = trust
        .verifier(&Arc::new(provider.clone()))
        .map_err(Error::Trust)?;
    client_config_of(provider, verifier)
}

/// The settings of a client with the caller's cryptography and judgement.
pub(crate) fn client_config_of(
    provider: CryptoProvider,
    verifier: Arc<dyn ServerCertVerifier>,
) -> Result<ClientConfig, Error> {
    warm_up(&provider);
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.into()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// The settings of a server, from PEM files.
pub(crate) fn server_config(certificate: &Path, key: &Path) -> Result<ServerConfig, Error> {
    let pem = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Pem { path, source }
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(pem(certificate))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(pem(key))?;
    server_config_of(provider(Cipher::Aes), chain, private)
}

/// The settings of a server, from a chain and its key.
pub(crate) fn server_config_of(
    provider: CryptoProvider,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![ALPN.into()];
    // A run opens one connection.
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// The cryptography with `cipher` before all others: the server takes the client's first.
pub(crate) fn provider(cipher: Cipher) -> CryptoProvider {
    let first = match cipher {
        Cipher::Aes => cipher_suite::TLS13_AES_128_GCM_SHA256,
        Cipher::ChaCha20 => cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    };
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| *suite != first);
    provider
}
