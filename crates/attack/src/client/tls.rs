//! TCP and TLS from an address of one's choice.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};
use socket2::{Domain, Socket, Type};

use crate::server::Target;

/// Time to wait for a connection or a handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A TCP connection from `from`; `receive_buffer` bounds what the kernel takes unread, if given.
///
/// # Errors
/// Nobody accepts within 3 s.
pub fn tcp(target: &Target, from: IpAddr, receive_buffer: Option<usize>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    if let Some(size) = receive_buffer {
        socket.set_recv_buffer_size(size)?;
    }
    socket.bind(&SocketAddr::new(from, 0).into())?;
    socket.connect_timeout(&target.address.into(), CONNECT_TIMEOUT)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(CONNECT_TIMEOUT))?;
    stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    Ok(stream)
}

/// A TLS connection.
pub struct Tls {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

impl Tls {
    /// Connects and completes the handshake.
    ///
    /// # Errors
    /// The server refuses, or needs more than 3 s.
    pub fn connect(target: &Target, from: IpAddr, alpn: &[u8]) -> io::Result<Self> {
        Self::over(tcp(target, from, None)?, target, alpn)
    }

    /// Completes the handshake over an open connection.
    ///
    /// # Errors
    /// As [`Tls::connect`].
    pub fn over(stream: TcpStream, target: &Target, alpn: &[u8]) -> io::Result<Self> {
        let name = "localhost".try_into().expect("it is a name");
        let session = ClientConnection::new(Arc::new(target.tls(alpn)), name);
        let session = session.map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(session, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Self { stream })
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// The connection is gone, or the server has taken nothing for 3 s.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Bytes that arrive within `wait`; none: the time is over.
    ///
    /// # Errors
    /// The connection is over.
    pub fn read(&mut self, wait: Duration) -> io::Result<Vec<u8>> {
        let wait = wait.max(Duration::from_millis(1));
        self.stream.sock.set_read_timeout(Some(wait))?;
        let mut bytes = vec![0; 16 << 10];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                bytes.truncate(read);
                Ok(bytes)
            }
            Err(error) if is_timeout(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// All that arrives until the end, or until `wait` is over.
    pub fn read_to_end(&mut self, wait: Duration) -> Ending {
        let deadline = Instant::now() + wait;
        let mut bytes = Vec::new();
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            match self.read(left) {
                Ok(more) => bytes.extend(more),
                Err(_) => {
                    return Ending {
                        bytes,
                        closed: true,
                    };
                }
            }
        }
        Ending {
            bytes,
            closed: false,
        }
    }

    /// The TLS session, to have it do what a client may at any time.
    pub fn session(&mut self) -> &mut ClientConnection {
        &mut self.stream.conn
    }

    /// The connection below.
    #[must_use]
    pub fn tcp(&self) -> &TcpStream {
        &self.stream.sock
    }
}

/// All that a server sent, and whether it closed.
#[derive(Debug, Clone)]
pub struct Ending {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// True if the connection is over.
    pub closed: bool,
}

impl Ending {
    /// Status of an HTTP/1 response at the beginning.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        status(&self.bytes)
    }
}

/// Status of the HTTP/1 response that `bytes` begin with.
#[must_use]
pub fn status(bytes: &[u8]) -> Option<u16> {
    let code = bytes.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    std::str::from_utf8(code).ok()?.parse().ok()
}

/// Returns true if an error says that the time is over.
#[must_use]
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}
