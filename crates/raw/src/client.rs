//! `altway raw send`: one connection, transfers one after the other, and what they cost both ends.

use crate::costs::{Costs, Meter};
use crate::error::{ConnectionFailure, Error};
use crate::options::{Options, TransportKind};
use crate::payload::Payload;
use crate::protocol::{Exchange, Fault};
use crate::quic;
use crate::report::Run;
use crate::session::Session;
use crate::tcp::{Plain, Pump, set_congestion};
use crate::tls::{self, Tls};
use crate::wire::{Command, Transfer};
use crate::zero_copy::ZeroCopyTcp;
use altway_load::Times;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::SockRef;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connects, transfers what `options` say, asks the server for its side, and returns both.
///
/// Runs on the calling thread, whose processor time it measures; over QUIC the kernel's timers of
/// this thread become exact. The clock runs from the first command to the last receipt: the
/// handshake before and the server's report after are not in it.
///
/// # Errors
/// Nobody, or no `altway raw serve`, answers; the connection is lost or falls silent; a byte is wrong.
pub fn send(options: &Options) -> Result<Run, Error> {
    let tls = match options.over {
        TransportKind::Tcp => None,
        TransportKind::Tls | TransportKind::Quic => {
            Some(tls::client_config(&options.trust, options.tuning.cipher)?)
        }
    };
    send_with(options, tls.as_ref())
}

/// The same with TLS settings of the caller's; without them over plain TCP only.
pub(crate) fn send_with(options: &Options, tls: Option<&ClientConfig>) -> Result<Run, Error> {
    let addresses = resolve(options)?;
    let mut result = Err(Error::Resolve {
        host: options.host.clone(),
        source: io::ErrorKind::NotFound.into(),
    });
    // The first address where someone answers: a name may have an IPv6 address that nobody listens
    // on beside the IPv4 one.
    for address in addresses {
        result = send_to(options, tls.cloned(), address);
        if !matches!(result, Err(Error::Connect { .. })) {
            break;
        }
    }
    result
}

fn send_to(
    options: &Options,
    tls: Option<ClientConfig>,
    address: SocketAddr,
) -> Result<Run, Error> {
    let begun = Instant::now();
    match (options.over, tls) {
        (TransportKind::Quic, Some(tls)) => {
            let client = quic::client::Client::connect(options, tls, address)?;
            measure(options, &Payload::new(), begun, client)
        }
        (TransportKind::Tls, Some(tls)) => {
            let socket = dial(options, address)?;
            let name = server_name(options)?;
            let stream = Tls::client(&Arc::new(tls), name, socket)?;
            measure(
                options,
                &Payload::new(),
                begun,
                Pump::new(stream, options.silence_timeout, None),
            )
        }
        (TransportKind::Tcp | TransportKind::Tls | TransportKind::Quic, _) => {
            let socket = dial(options, address)?;
            plain(options, begun, socket)
        }
    }
}

fn plain(options: &Options, begun: Instant, socket: TcpStream) -> Result<Run, Error> {
    let payload = Payload::new();
    let silence_timeout = options.silence_timeout;
    if options.tuning.copies {
        let stream = Plain::new(socket);
        return measure(
            options,
            &payload,
            begun,
            Pump::new(stream, silence_timeout, None),
        );
    }
    let stream = ZeroCopyTcp::new(socket, &payload).map_err(|source| Error::Setup {
        what: "a file in memory",
        source,
    })?;
    measure(
        options,
        &payload,
        begun,
        Pump::new(stream, silence_timeout, None),
    )
}

fn resolve(options: &Options) -> Result<Vec<SocketAddr>, Error> {
    let resolved = (options.host.as_str(), options.port).to_socket_addrs();
    let resolved = resolved.map_err(|source| Error::Resolve {
        host: options.host.clone(),
        source,
    })?;
    Ok(resolved.collect())
}

fn dial(options: &Options, address: SocketAddr) -> Result<TcpStream, Error> {
    let dial = || {
        let socket = TcpStream::connect_timeout(&address, options.silence_timeout)?;
        socket.set_nonblocking(true)?;
        // A request is one small write: waiting for more to send with it would only delay it.
        socket.set_nodelay(true)?;
        Ok(socket)
    };
    let socket = dial().map_err(|source| connect_error(options, source))?;
    set_congestion(&SockRef::from(&socket), options.tuning.congestion)?;
    Ok(socket)
}

fn connect_error(options: &Options, source: io::Error) -> Error {
    Error::Connect {
        authority: options.authority(),
        over: options.over,
        source,
    }
}

fn server_name(options: &Options) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(options.host.clone()).map_err(|error| Error::Handshake {
        authority: options.authority(),
        over: options.over,
        reason: error.to_string(),
    })
}

fn measure(
    options: &Options,
    payload: &Payload,
    begun: Instant,
    mut session: impl Session,
) -> Result<Run, Error> {
    session
        .open()
        .map_err(|failure| refusal(options, failure))?;
    let connect = begun.elapsed();
    let mut hello = Exchange::new(Command::Hello, payload);
    session
        .exchange(&mut hello)
        .map_err(|failure| foreign_peer(options, failure))?;

    let meter = Meter::begin(session.calls());
    let start = Instant::now();
    let (moved, times) = transfer(options, payload, &mut session)?;
    let wall = start.elapsed();
    let path = session.path();
    let client = meter.costs(session.calls(), moved, path);

    let mut report = Exchange::new(Command::Report, payload);
    session
        .exchange(&mut report)
        .map_err(|failure| broken(options, failure, moved))?;
    let server = Costs::from_text(&report.into_report()).ok_or_else(|| foreign(options))?;
    Ok(Run::new(options, connect, wall, &times, client, server))
}

/// All transfers. Payload bytes sent and received, and how long each took.
fn transfer(
    options: &Options,
    payload: &Payload,
    session: &mut impl Session,
) -> Result<((u64, u64), Times), Error> {
    let command = Command::Transfer(Transfer {
        up: options.sizes.up,
        down: options.sizes.down,
        together: options.sizes.together,
        verify: options.verify,
    });
    let mut moved = (0, 0);
    let mut times = Times::new();
    for _ in 0..options.requests.get() {
        let begun = Instant::now();
        let mut exchange = Exchange::new(command, payload);
        let exchanged = session.exchange(&mut exchange);
        let (up, down) = exchange.moved();
        moved = (moved.0 + up, moved.1 + down);
        exchanged.map_err(|failure| broken(options, failure, moved))?;
        times.add(microseconds(begun.elapsed()));
    }
    Ok((moved, times))
}

/// Returns the error for a failed handshake.
fn refusal(options: &Options, failure: ConnectionFailure) -> Error {
    match failure {
        ConnectionFailure::Io(source) => connect_error(options, source),
        ConnectionFailure::Silent => connect_error(options, io::ErrorKind::TimedOut.into()),
        failure => Error::Handshake {
            authority: options.authority(),
            over: options.over,
            reason: failure.to_string(),
        },
    }
}

/// Returns the error for a failed greeting: whoever answers something else, or closes, is no server
/// of ours.
fn foreign_peer(options: &Options, failure: ConnectionFailure) -> Error {
    match failure {
        ConnectionFailure::Peer(_)
        | ConnectionFailure::Closed
        | ConnectionFailure::Tls(_)
        | ConnectionFailure::Quic(_) => foreign(options),
        ConnectionFailure::Io(error) if error.kind() == io::ErrorKind::ConnectionReset => {
            foreign(options)
        }
        failure => broken(options, failure, (0, 0)),
    }
}

fn foreign(options: &Options) -> Error {
    Error::Foreign {
        authority: options.authority(),
        over: options.over,
    }
}

/// Returns the error for a failed transfer.
fn broken(options: &Options, failure: ConnectionFailure, moved: (u64, u64)) -> Error {
    let (authority, over) = (options.authority(), options.over);
    let moved = moved.0 + moved.1;
    let each = options.sizes.up.saturating_add(options.sizes.down);
    let wanted = each.saturating_mul(options.requests.get());
    match failure {
        ConnectionFailure::Peer(Fault::WrongByte { at }) => Error::WrongByte { over, at },
        ConnectionFailure::Peer(Fault::WrongCount { sent, taken }) => {
            Error::WrongCount { over, sent, taken }
        }
        ConnectionFailure::Peer(Fault::Foreign) => foreign(options),
        ConnectionFailure::Silent => Error::Silent {
            authority,
            over,
            silence_timeout: options.silence_timeout,
            moved,
            wanted,
        },
        failure => Error::Lost {
            authority,
            over,
            moved,
            wanted,
            reason: failure.to_string(),
        },
    }
}

/// Returns whole microseconds, for reports.
pub(crate) fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
