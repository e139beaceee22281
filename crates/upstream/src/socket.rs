//! Byte streams to servers: TCP or a Unix socket, with or without TLS, with a count of what moved.
//!
//! The socket is shared with the pool, which looks at it before a connection is used again: a server that has closed
//! it may not have been heard by the task that carries the connection.

use socket2::SockRef;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Whether nothing has arrived, not even the end: on a connection without requests, whatever arrives ends it.
    pub(crate) fn is_quiet(&self) -> bool {
        let socket = match self {
            Self::Tcp(stream) => SockRef::from(stream),
            Self::Unix(stream) => SockRef::from(stream),
        };
        let mut byte = [MaybeUninit::uninit()];
        matches!(socket.peek(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// A socket that others may look at.
#[derive(Debug)]
pub(crate) struct Shared(pub(crate) Arc<Socket>);

impl AsyncRead for Shared {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let read = match &*self.0 {
                Socket::Tcp(stream) => {
                    ready!(stream.poll_read_ready(cx))?;
                    stream.try_read_buf(buffer)
                }
                Socket::Unix(stream) => {
                    ready!(stream.poll_read_ready(cx))?;
                    stream.try_read_buf(buffer)
                }
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|_| ())),
            }
        }
    }
}

impl Shared {
    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        tcp: impl Fn(&TcpStream) -> io::Result<usize>,
        unix: impl Fn(&UnixStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let written = match &*self.0 {
                Socket::Tcp(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    tcp(stream)
                }
                Socket::Unix(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    unix(stream)
                }
            };
            match written {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncWrite for Shared {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |it| it.try_write(bytes), |it| it.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(
            cx,
            |it| it.try_write_vectored(slices),
            |it| it.try_write_vectored(slices),
        )
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = match &*self.0 {
            Socket::Tcp(stream) => SockRef::from(stream),
            Socket::Unix(stream) => SockRef::from(stream),
        };
        Poll::Ready(socket.shutdown(std::net::Shutdown::Write))
    }
}

/// Bytes of HTTP that a connection has carried.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    read: AtomicU64,
    written: AtomicU64,
}

impl Meter {
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

/// A connection's byte stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) carrier: Carrier,
    pub(crate) meter: Arc<Meter>,
}

#[derive(Debug)]
pub(crate) enum Carrier {
    Plain(Shared),
    Tls(Box<TlsStream<Shared>>),
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = match &mut self.carrier {
            Carrier::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Carrier::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        };
        let n = (buffer.filled().len() - before) as u64;
        self.meter.read.fetch_add(n, Ordering::Relaxed);
        read
    }
}

impl Stream {
    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(n)) = &written {
            self.meter.written.fetch_add(*n as u64, Ordering::Relaxed);
        }
        written
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.carrier {
            Carrier::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Carrier::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.carrier {
            Carrier::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Carrier::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        };
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.carrier {
            Carrier::Plain(stream) => stream.is_write_vectored(),
            Carrier::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.carrier {
            Carrier::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Carrier::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.carrier {
            Carrier::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Carrier::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
