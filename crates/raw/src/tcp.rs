//! TCP, plain or with TLS: one thread, one connection, a loop of send, ppoll and recv.
//!
//! The socket doesn't block, so that both directions can run at once; the loop waits in ppoll(2)
//! alone. It has no event loop's bookkeeping, which would be counted as the transport's cost.

use crate::costs::{Calls, Path};
use crate::error::{ConnectionFailure, Error};
use crate::protocol::{Exchange, Fault, ProtocolEnd};
use crate::session::Session;
use crate::sys::{self, StopHandle, WaitOutcome, WaitSet};
use altway_quic::Congestion;
use altway_socket::tcp_info;
use bytes::Bytes;
use socket2::SockRef;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

/// Bytes that one recv takes at most.
pub(crate) const READ_BYTES: usize = 256 << 10;

/// Bytes over a TCP socket, as they are or enciphered.
pub(crate) trait Stream {
    /// The socket, which doesn't block.
    fn socket(&self) -> &TcpStream;

    /// Returns whether it carries payload yet: its handshake is done.
    fn is_ready(&self) -> bool;

    /// Sends what it holds back, as far as the socket takes it. True: nothing is left.
    ///
    /// # Errors
    /// The connection is lost.
    fn flush(&mut self, calls: &mut Calls) -> io::Result<bool>;

    /// Takes as many of `bytes` as it can without waiting, once it is ready and flushed.
    ///
    /// # Errors
    /// The connection is lost.
    fn send(&mut self, bytes: &[u8], calls: &mut Calls) -> io::Result<usize>;

    /// Receives once, and hands on what it was. False: the peer has ended it.
    ///
    /// # Errors
    /// The connection is lost, or `protocol` doesn't like what it hears.
    fn receive(
        &mut self,
        protocol: &mut dyn ProtocolEnd,
        calls: &mut Calls,
    ) -> Result<bool, ConnectionFailure>;
}

/// Carries a conversation over a stream.
#[derive(Debug)]
pub(crate) struct Pump<S> {
    stream: S,
    calls: Calls,
    silence_timeout: Duration,
    stop: Option<StopHandle>,
}

impl<S: Stream> Pump<S> {
    /// `silence_timeout`: how long nothing may come. `stop`: what else ends it.
    pub(crate) fn new(stream: S, silence_timeout: Duration, stop: Option<StopHandle>) -> Self {
        Self {
            stream,
            calls: Calls::default(),
            silence_timeout,
            stop,
        }
    }

    /// The socket, whose path it is.
    pub(crate) fn socket(&self) -> &TcpStream {
        self.stream.socket()
    }

    /// Sends what there is to send, as far as the socket takes it; then, unless `done` says that this
    /// was all, waits for what comes and takes it once. True: it is done.
    ///
    /// # Errors
    /// The connection is lost, the peer silent or not ours.
    pub(crate) fn turn<T: ProtocolEnd>(
        &mut self,
        protocol: &mut T,
        done: impl Fn(&T) -> bool,
    ) -> Result<bool, ConnectionFailure> {
        let blocked = self.flush(protocol)?;
        if !blocked && done(protocol) {
            return Ok(true);
        }
        let watch = WaitSet {
            socket: self.stream.socket().as_fd(),
            write: blocked,
            stop: self.stop.as_ref(),
            limit: Some(self.silence_timeout),
        };
        match sys::wait(watch, &mut self.calls)? {
            WaitOutcome::Late => Err(ConnectionFailure::Silent),
            WaitOutcome::Stopped => Err(ConnectionFailure::Stopped),
            WaitOutcome::Otherwise => Ok(false),
            WaitOutcome::Readable => match self.stream.receive(protocol, &mut self.calls)? {
                true => Ok(false),
                false => Err(ConnectionFailure::Closed),
            },
        }
    }

    /// True when the socket is full before all is sent.
    fn flush(&mut self, protocol: &mut impl ProtocolEnd) -> io::Result<bool> {
        loop {
            if !self.stream.flush(&mut self.calls)? {
                return Ok(true);
            }
            let bytes = protocol.next();
            if bytes.is_empty() || !self.stream.is_ready() {
                return Ok(false);
            }
            let sent = self.stream.send(&bytes, &mut self.calls)?;
            protocol.sent(sent);
            if sent < bytes.len() {
                return Ok(true);
            }
        }
    }
}

/// An end without messages, for the time of the handshake.
#[derive(Debug)]
struct NoMessages;

impl ProtocolEnd for NoMessages {
    fn next(&self) -> Bytes {
        Bytes::new()
    }

    fn sent(&mut self, _: usize) {}

    fn ignores(&self) -> u64 {
        0
    }

    fn handle_input(&mut self, _: &[u8]) -> Result<(), Fault> {
        Err(Fault::Foreign)
    }
}

impl<S: Stream> Session for Pump<S> {
    fn open(&mut self) -> Result<(), ConnectionFailure> {
        while !self.stream.is_ready() {
            self.turn(&mut NoMessages, |_| false)?;
        }
        Ok(())
    }

    fn exchange(&mut self, exchange: &mut Exchange) -> Result<(), ConnectionFailure> {
        while !self.turn(exchange, Exchange::is_done)? {}
        Ok(())
    }

    fn calls(&self) -> Calls {
        self.calls
    }

    fn path(&mut self) -> Option<Path> {
        path(self.stream.socket())
    }
}

/// Returns what the kernel tells of a connection's path.
pub(crate) fn path(socket: &TcpStream) -> Option<Path> {
    let info = tcp_info(socket)?;
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let congestion = SockRef::from(socket).tcp_congestion().unwrap_or_default();
    // The kernel fills the rest of the name's room with zeroes.
    let congestion = congestion
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    Some(Path {
        packets_sent: info.data_segments_sent,
        retransmissions: info.retransmissions,
        min_rtt_us: info.min_rtt.map(us),
        rtt_us: info.smoothed_rtt.map(us),
        packet_bytes: info.segment_bytes,
        congestion: String::from_utf8_lossy(congestion).into_owned(),
    })
}

/// Sets the congestion control that was asked for on a socket, or on the sockets that a listener
/// accepts.
pub(crate) fn set_congestion(
    socket: &SockRef<'_>,
    congestion: Option<Congestion>,
) -> Result<(), Error> {
    let Some(name) = congestion.map(Congestion::kernel_name) else {
        return Ok(());
    };
    socket
        .set_tcp_congestion(name.as_bytes())
        .map_err(|source| Error::Congestion { name, source })
}

/// TCP without encryption.
#[derive(Debug)]
pub(crate) struct Plain {
    socket: TcpStream,
    buffer: Box<[u8]>,
}

impl Plain {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self {
            socket,
            buffer: vec![0; READ_BYTES].into(),
        }
    }
}

impl Plain {
    /// The socket, and what it reads into.
    pub(crate) fn parts(&mut self) -> (&TcpStream, &mut [u8]) {
        (&self.socket, &mut self.buffer)
    }
}

impl Stream for Plain {
    fn socket(&self) -> &TcpStream {
        &self.socket
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn flush(&mut self, _: &mut Calls) -> io::Result<bool> {
        Ok(true)
    }

    fn send(&mut self, bytes: &[u8], calls: &mut Calls) -> io::Result<usize> {
        none_if_blocked(CountingStream::new(&self.socket, calls).write(bytes))
            .map(Option::unwrap_or_default)
    }

    fn receive(
        &mut self,
        protocol: &mut dyn ProtocolEnd,
        calls: &mut Calls,
    ) -> Result<bool, ConnectionFailure> {
        match none_if_blocked(CountingStream::new(&self.socket, calls).read(&mut self.buffer))? {
            None => Ok(true),
            Some(0) => Ok(false),
            Some(length) => {
                protocol.handle_input(&self.buffer[..length])?;
                Ok(true)
            }
        }
    }
}

/// Counts what passes the kernel's border.
pub(crate) struct CountingStream<'a> {
    socket: &'a TcpStream,
    calls: &'a mut Calls,
}

impl<'a> CountingStream<'a> {
    pub(crate) fn new(socket: &'a TcpStream, calls: &'a mut Calls) -> Self {
        Self { socket, calls }
    }
}

impl Read for CountingStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.calls.read += 1;
        self.socket.read(buffer)
    }
}

impl Write for CountingStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.calls.write += 1;
        self.socket.write(bytes)
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.calls.write += 1;
        self.socket.write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `None` where the socket would have to be waited for.
pub(crate) fn none_if_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        result => result.map(Some),
    }
}
