//! QUIC: an endpoint on its UDP socket, one bidirectional stream a connection.
//!
//! The loop is send, ppoll, receive. It sleeps until the engine's next timer, never for the idle
//! time-out: QUIC's pacing and loss detection run on timers, and a loop that oversleeps them waits
//! for a packet that nobody will send. Payload is handed to the engine by reference and read from
//! it without a copy.

pub(crate) mod client;
pub(crate) mod server;

use crate::costs::{Calls, Path};
use crate::error::{ConnectionFailure, Error};
use crate::options::Tuning;
use crate::protocol::ProtocolEnd;
use crate::sys::{self, StopHandle, WaitOutcome, WaitSet};
use altway_quic::{
    Congestion, ConnectionHandle, Endpoint, QuicConnection, QuicEndpoint, Read, StreamId, Transport,
};
use altway_socket::{SendOutcome, Settings, Udp};
use rustls::crypto::CryptoProvider;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Bytes of datagrams that the kernel is asked to hold for a socket, each way.
const SOCKET_BUFFER: usize = 16 << 20;

/// Bytes under way on a stream and on its connection at most, both ways: enough for 1 Gbit/s over
/// 100 ms (12.5 MB).
const WINDOW: u64 = 16 << 20;

/// The largest UDP payload over IPv4.
const MAX_PAYLOAD: u16 = 65_507;

/// The engine joined to its socket.
struct Loop {
    endpoint: Endpoint,
    udp: Udp<UdpSocket>,
    congestion: Congestion,
    calls: Calls,
}

impl Loop {
    fn new(endpoint: Endpoint, udp: Udp<UdpSocket>, tuning: &Tuning) -> Self {
        sys::wait_exactly();
        Self {
            endpoint,
            udp,
            congestion: tuning.congestion.unwrap_or_default(),
            calls: Calls::default(),
        }
    }

    /// System calls until now.
    fn calls(&self) -> Calls {
        let udp = self.udp.calls();
        Calls {
            receive: udp.receive,
            send: udp.send,
            ..self.calls
        }
    }

    /// Sends what there is to send, then waits for datagrams or the engine's next timer, and takes
    /// in what came. Drain the events afterwards. False: `stop` says so.
    ///
    /// # Errors
    /// The one peer of a connected socket is gone.
    fn turn(&mut self, stop: Option<&StopHandle>) -> io::Result<bool> {
        let now = Instant::now();
        let progress = self
            .udp
            .send(|batch| self.endpoint.poll_transmit(now, batch))?;
        if progress != SendOutcome::More && !self.wait(progress, stop)? {
            return Ok(false);
        }
        let now = Instant::now();
        self.udp
            .receive(|datagram| self.endpoint.handle_datagram(now, datagram))?;
        if self.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
        }
        Ok(true)
    }

    fn wait(&mut self, progress: SendOutcome, stop: Option<&StopHandle>) -> io::Result<bool> {
        let due = self.endpoint.poll_timeout();
        let watch = WaitSet {
            socket: self.udp.socket().as_fd(),
            write: progress == SendOutcome::Blocked,
            stop,
            limit: due.map(|due| due.saturating_duration_since(Instant::now())),
        };
        Ok(sys::wait(watch, &mut self.calls)? != WaitOutcome::Stopped)
    }

    fn path(&mut self, connection: ConnectionHandle) -> Option<Path> {
        let path = self.endpoint.path_statistics(connection)?;
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Some(Path {
            packets_sent: path.packets_sent,
            retransmissions: path.packets_lost,
            min_rtt_us: Some(us(path.min_rtt)),
            rtt_us: Some(us(path.smoothed_rtt)),
            packet_bytes: path.mtu.into(),
            congestion: self.congestion.kernel_name().into(),
        })
    }
}

/// Writes what there is to say, as far as the stream takes it.
fn drive(
    connection: &mut impl QuicConnection,
    stream: StreamId,
    protocol: &mut impl ProtocolEnd,
) -> Result<(), altway_quic::Error> {
    loop {
        let bytes = protocol.next();
        if bytes.is_empty() {
            return Ok(());
        }
        let length = bytes.len();
        let mut rest = [bytes];
        let all = connection.write(stream, &mut rest)?;
        protocol.sent(length - rest[0].len());
        if !all {
            return Ok(());
        }
    }
}

/// Reads what has come.
fn listen(
    connection: &mut impl QuicConnection,
    stream: StreamId,
    protocol: &mut impl ProtocolEnd,
) -> Result<(), ConnectionFailure> {
    loop {
        match connection.read(stream) {
            Read::Data(bytes) => protocol.handle_input(&bytes)?,
            Read::Pending => return Ok(()),
            Read::End | Read::Reset(_) => return Err(ConnectionFailure::Closed),
        }
    }
}

/// `mtu`: the largest UDP payload to try, which the peer is told of as well.
fn transport(
    tuning: &Tuning,
    mtu: u16,
    udp: &Udp<UdpSocket>,
    silence_timeout: Duration,
) -> Transport {
    let as_ever = Transport::default();
    Transport {
        congestion: tuning.congestion.unwrap_or_default(),
        idle_timeout: silence_timeout,
        mtu_upper_bound: mtu,
        max_udp_payload: mtu,
        stream_receive_window: Some(WINDOW),
        receive_window: Some(WINDOW),
        send_window: WINDOW,
        max_segments: as_ever.max_segments.min(udp.max_segments()).max(1),
        ..as_ever
    }
}

fn udp(socket: UdpSocket, tuning: &Tuning) -> io::Result<Udp<UdpSocket>> {
    // Best effort: smaller buffers cost losses at high rates, not correctness.
    let _ = altway_socket::raise_udp_buffers(&socket, SOCKET_BUFFER);
    let mut settings = Settings {
        gso: tuning.gso && tuning.batches,
        gro: tuning.gro && tuning.batches,
        ..Settings::default()
    };
    if !tuning.batches {
        (settings.messages, settings.sent_messages) = (1, 1);
    }
    Udp::new(socket, settings)
}

/// Connection IDs come from it, so it must not be guessed.
fn seed(provider: &CryptoProvider) -> Result<[u8; 32], Error> {
    let mut seed = [0; 32];
    let filled = provider.secure_random.fill(&mut seed);
    filled.map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
    Ok(seed)
}
