//! Conversion of our configuration to the QUIC engine's: validation and the choices that are not
//! options.

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::{AckFrequencyConfig, IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

use crate::engine::crypto::{ClientCrypto, ServerCrypto};
use crate::engine::loopback;
use crate::engine::meter::MeteredControllerFactory;
use crate::engine::tokens::TokensOf;
use crate::initial_window::InitialWindow;
use crate::sessions::{BoundSessions, BoundTickets, SessionContext};
use crate::windows::{FIRST_RECEIVE, FIRST_SEND, Pool};
use crate::{ClientConfig, Error, Limits, Role, ServerConfig, Transport, Version};

/// Smallest UDP payload that every QUIC path carries (RFC 9000 section 14).
pub(crate) const MIN_MTU: u16 = 1200;

/// Largest UDP payload over IPv4 and IPv6 (RFC 9000 section 18.2: "The default for this parameter
/// is the maximum permitted UDP payload of 65527").
const MAX_UDP_PAYLOAD: u16 = 65_527;

/// Precision of the search for the largest payload, in bytes. The engine halves the range until a step
/// is smaller than this, and then tries the rest. So between 1,200 and 1,452 bytes, what nearly every
/// path carries, it tries 1,452 at once, and where that is lost 1,325. A probe is a full packet with
/// nothing of the application's: eight of them, for a search to the byte, took 18 ms of a connection at
/// 5 Mbit/s. A path carries at most a tenth more than that in each packet, and packets cost 60 bytes
/// each.
const MTU_PRECISION: u16 = 127;

/// Checks a server's configuration and turns it into the engine's, for connections of one version.
pub(crate) fn server(
    config: &ServerConfig,
    version: Version,
) -> Result<quinn_proto::ServerConfig, Error> {
    let transport = engine(&config.transport, &config.limits, Role::Server)?;
    let crypto = ServerCrypto::new(version, Arc::new(server_tls(config, version)?))?;
    let mut quic = quinn_proto::ServerConfig::with_crypto(Arc::new(crypto));
    quic.transport_config(Arc::new(transport));
    Ok(quic)
}

/// Checks a client's configuration and turns it into the engine's.
pub(crate) fn client(config: &ClientConfig) -> Result<quinn_proto::ClientConfig, Error> {
    let transport = engine(&config.transport, &config.limits, Role::Client)?;
    let mut tls = rustls::ClientConfig::clone(&config.tls);
    tls.enable_early_data = config.early_data;
    let crypto = ClientCrypto::new(config.version, tls)?;
    let mut quic = quinn_proto::ClientConfig::new(Arc::new(crypto));
    quic.version(config.version.number());
    quic.transport_config(Arc::new(transport))
        .token_store(Arc::new(TokensOf(config.tokens.clone(), config.version)));
    Ok(quic)
}

/// The engine's transport of a server's connections to clients on the same machine; `None`: they are
/// like others.
pub(crate) fn near(from: &Transport, limits: &Limits) -> Result<Option<TransportConfig>, Error> {
    let Some(most) = from.loopback_mtu else {
        return Ok(None);
    };
    let mut transport = engine(from, limits, Role::Server)?;
    loopback::adapt(&mut transport, from, most);
    Ok(Some(transport))
}

/// The TLS configuration, with or without early data, whose sessions are bound to the version.
fn server_tls(config: &ServerConfig, version: Version) -> Result<rustls::ServerConfig, Error> {
    let mut tls = rustls::ServerConfig::clone(&config.tls);
    let is_fit = !tls.ticketer.enabled() && tls.session_storage.can_cache();
    if config.early_data && !is_fit {
        let expected = "off, or with a session storage and without a ticketer";
        return Err(out_of_range("early_data", expected));
    }
    // RFC 9001 section 4.6.1: the "max_early_data_size field of the early_data extension in the
    // NewSessionTicket" is "set to 0xffffffff"; flow control limits early data instead.
    tls.max_early_data_size = if config.early_data { u32::MAX } else { 0 };
    let terms = terms(config, version);
    tls.session_storage = Arc::new(BoundSessions {
        sessions: tls.session_storage,
        terms: terms.clone(),
    });
    tls.ticketer = Arc::new(BoundTickets {
        tickets: tls.ticketer,
        terms,
    });
    Ok(tls)
}

/// Returns the terms that sessions are bound to.
fn terms(config: &ServerConfig, version: Version) -> SessionContext {
    let version = u64::from(version.number());
    if !config.early_data {
        return SessionContext::new(&[version], &[]);
    }
    let (stream_window, window) = windows(&config.transport, Role::Server);
    let numbers = [
        version,
        stream_window,
        first(Role::Server, window, FIRST_RECEIVE),
        config.limits.max_bidirectional_streams.into(),
        config.limits.max_unidirectional_streams.into(),
    ];
    SessionContext::new(&numbers, &config.session_context)
}

/// Returns the pool from which the windows of a server's connections grow.
pub(crate) fn pool(transport: &Transport, limits: &Limits) -> Pool {
    let (_, receive_window) = windows(transport, Role::Server);
    Pool::new(limits.max_held_bytes, transport.send_window, receive_window)
}

/// Returns the first size of a window of this role, where `window` is the size it may grow to.
fn first(role: Role, window: u64, of_server: u64) -> u64 {
    match role {
        Role::Client => window,
        Role::Server => window.min(of_server),
    }
}

/// Receive windows of a stream and of a connection.
fn windows(transport: &Transport, role: Role) -> (u64, u64) {
    let (stream, connection) = match role {
        Role::Client => (16 << 20, 32 << 20),
        Role::Server => (1 << 20, 4 << 20),
    };
    (
        transport.stream_receive_window.unwrap_or(stream),
        transport.receive_window.unwrap_or(connection),
    )
}

/// Checks the options of both roles and turns them into the engine's.
pub(crate) fn engine(
    from: &Transport,
    limits: &Limits,
    role: Role,
) -> Result<TransportConfig, Error> {
    check(from, limits)?;
    let (stream_window, window) = windows(from, role);
    window_size(window)?;
    let idle_timeout = IdleTimeout::try_from(from.idle_timeout)
        .map_err(|_| out_of_range("idle_timeout", "at most 2^62 − 1 ms"))?;
    let first_window = InitialWindow {
        packets: from.initial_window,
        at_least: 0,
    };
    let mut to = TransportConfig::default();
    to.max_concurrent_bidi_streams(limits.max_bidirectional_streams.into())
        .max_concurrent_uni_streams(limits.max_unidirectional_streams.into())
        .stream_receive_window(window_size(stream_window)?)
        .receive_window(window_size(first(role, window, FIRST_RECEIVE))?)
        .send_window(first(role, from.send_window, FIRST_SEND))
        .max_idle_timeout(Some(idle_timeout))
        .keep_alive_interval(from.keep_alive)
        .initial_mtu(MIN_MTU)
        .mtu_discovery_config(mtu_discovery(from.mtu_upper_bound))
        .ack_frequency_config(from.ack_threshold.map(ack_frequency))
        .congestion_controller_factory(Arc::new(MeteredControllerFactory::of(
            from.congestion,
            first_window,
        )))
        // The spin bit tells every middlebox the round-trip time and is of no use to either peer.
        .allow_spin(false)
        // The face has no RFC 9221 datagrams.
        .datagram_receive_buffer_size(None);
    Ok(to)
}

fn check(transport: &Transport, limits: &Limits) -> Result<(), Error> {
    let checks = [
        (
            transport.idle_timeout >= Duration::from_millis(1),
            "idle_timeout",
            "1 ms or more",
        ),
        (
            transport.mtu_upper_bound >= MIN_MTU,
            "mtu_upper_bound",
            "1200 bytes or more",
        ),
        (
            transport.loopback_mtu.is_none_or(|mtu| mtu >= MIN_MTU),
            "loopback_mtu",
            "1200 bytes or more",
        ),
        (
            (MIN_MTU..=MAX_UDP_PAYLOAD).contains(&transport.max_udp_payload),
            "max_udp_payload",
            "1200 to 65527 bytes",
        ),
        (
            (1..=64).contains(&transport.max_segments),
            "max_segments",
            "1 to 64",
        ),
        (
            (2..=1_000).contains(&transport.initial_window),
            "initial_window",
            "2 to 1000 packets",
        ),
        (
            transport.ack_threshold != Some(0),
            "ack_threshold",
            "1 or more",
        ),
        (transport.send_window > 0, "send_window", "1 byte or more"),
        (limits.max_connections > 0, "max_connections", "1 or more"),
        (
            limits
                .handshake_timeout
                .is_none_or(|limit| limit >= Duration::from_millis(1)),
            "handshake_timeout",
            "1 ms or more",
        ),
    ];
    match checks.into_iter().find(|(holds, ..)| !holds) {
        Some((_, field, expected)) => Err(out_of_range(field, expected)),
        None => Ok(()),
    }
}

fn window_size(bytes: u64) -> Result<VarInt, Error> {
    let size = VarInt::from_u64(bytes).ok().filter(|_| bytes > 0);
    size.ok_or_else(|| out_of_range("receive window", "1 to 2^62 − 1 bytes"))
}

fn mtu_discovery(upper_bound: u16) -> Option<MtuDiscoveryConfig> {
    if upper_bound <= MIN_MTU {
        return None;
    }
    let mut discovery = MtuDiscoveryConfig::default();
    discovery
        .upper_bound(upper_bound)
        .minimum_change(MTU_PRECISION);
    Some(discovery)
}

fn ack_frequency(threshold: u32) -> AckFrequencyConfig {
    let mut frequency = AckFrequencyConfig::default();
    frequency.ack_eliciting_threshold(threshold.into());
    frequency
}

fn out_of_range(field: &'static str, expected: &'static str) -> Error {
    Error::InvalidConfig { field, expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_of(change: impl FnOnce(&mut Transport, &mut Limits)) -> Option<&'static str> {
        let (mut from, mut limits) = (Transport::default(), Limits::default());
        change(&mut from, &mut limits);
        match engine(&from, &limits, Role::Client) {
            Err(Error::InvalidConfig { field, .. }) => Some(field),
            Err(other) => panic!("{other}"),
            Ok(_) => None,
        }
    }

    #[test]
    fn a_value_out_of_range_is_named() {
        assert_eq!(field_of(|_, _| {}), None);
        assert_eq!(
            field_of(|t, _| t.idle_timeout = Duration::ZERO),
            Some("idle_timeout")
        );
        assert_eq!(
            field_of(|t, _| t.idle_timeout = Duration::MAX),
            Some("idle_timeout")
        );
        assert_eq!(
            field_of(|t, _| t.mtu_upper_bound = 1199),
            Some("mtu_upper_bound")
        );
        assert_eq!(field_of(|t, _| t.mtu_upper_bound = 1200), None);
        let loopback = field_of(|t, _| t.loopback_mtu = Some(1199));
        assert_eq!(loopback, Some("loopback_mtu"));
        for payload in [1199, 65_528] {
            let field = field_of(|t, _| t.max_udp_payload = payload);
            assert_eq!(field, Some("max_udp_payload"));
        }
        assert_eq!(field_of(|t, _| t.max_segments = 0), Some("max_segments"));
        assert_eq!(field_of(|t, _| t.max_segments = 65), Some("max_segments"));
        for packets in [1, 1_001] {
            let window = field_of(|t, _| t.initial_window = packets);
            assert_eq!(window, Some("initial_window"));
        }
        let threshold = field_of(|t, _| t.ack_threshold = Some(0));
        assert_eq!(threshold, Some("ack_threshold"));
        assert_eq!(
            field_of(|t, _| t.receive_window = Some(1 << 62)),
            Some("receive window")
        );
        assert_eq!(
            field_of(|t, _| t.receive_window = Some(0)),
            Some("receive window")
        );
        assert_eq!(
            field_of(|_, l| l.max_connections = 0),
            Some("max_connections")
        );
        assert_eq!(
            field_of(|_, l| l.handshake_timeout = Some(Duration::ZERO)),
            Some("handshake_timeout")
        );
    }
}
