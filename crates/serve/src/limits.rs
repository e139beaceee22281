//! Bounds of what clients may cost a worker, all together and each.

use crate::PrefixLengths;
use altway_http3::Retry;
use altway_units::{DataSize, LeastRate, RequestLimit, RequestRate};
use std::net::IpAddr;
use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The least rate of bodies where none is given: what no link of our days falls below, and what a client that holds
/// responses by reading hardly does.
const LEAST_BYTES_A_SECOND: u64 = 100;

/// The longest time that is told from never: a century.
pub(crate) const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Bytes that an HTTP/2 connection over TLS holds, with its place in the event loop: 14 KiB while it idles, less than 24
/// KiB while it is asked; and 32 KiB that it may read and say when as much is held as may be.
const TCP_CONNECTION_BYTES: u64 = 56 * KIB;

/// Bytes that an idle HTTP/3 connection holds: 27 KiB; and those that it may hold without counting, 8 KiB
/// of responses, 32 KiB of requests, and 8 KiB of heads that have not arrived whole.
const QUIC_CONNECTION_BYTES: u64 = 75 * KIB;

/// Bytes that a connection holds beyond that during its handshake.
const HANDSHAKE_BYTES: u64 = 26 * KIB;

/// Bytes of a request in progress: its head, its stream, its place in tables.
const REQUEST_BYTES: u64 = KIB;

/// A client's share of a limit is one part of so many, where it is not given.
const SHARES: usize = 8;

/// Requests of a client that are taken though more are in progress than there may be, where its share is not smaller:
/// one of each protocol, and one that the client has yet to acknowledge.
pub(crate) const FEW_REQUESTS: usize = 4;

/// A client has at most so many times what is left of a limit for all.
const LEFT_PER_CLIENT: usize = 8;

/// The rate of a client's requests where none is given: more than the visitors behind one address ask for, and a
/// small part of what a worker answers.
const REQUEST_RATE: RequestRate = match RequestRate::per_second(10_000, 50_000) {
    Some(rate) => rate,
    None => unreachable!(),
};

/// Bounds of what clients may cost. All are for one worker; those "of one client" are for the addresses that share a
/// prefix ([`client_prefix`](Self::client_prefix)), over TCP and QUIC together. A client that reaches its share takes
/// nothing from the others.
///
/// What the fields bound adds up to a worker's memory. With the defaults: 10,000 TCP connections of
/// 56 KiB (547 MiB) and 10,000 QUIC connections of 75 KiB (732 MiB), 2,500 handshakes of 26 KiB more
/// (63 MiB), 40,000 requests of 1 KiB (39 MiB), held bytes of TCP (64 MiB) and QUIC (256 MiB), cached
/// bytes of files (48 MiB): 1,749 MiB. [`for_memory`](Self::for_memory) derives all of these fields from
/// the sum. Connections that idle hold less than half of what they count for.
///
/// Heads of requests that have not arrived completely are in the sum: over TCP they count as held bytes, twice over
/// HTTP/1.1, where two parsers keep them; over QUIC they count as held bytes of QUIC beyond 8 KiB a connection. So are
/// datagrams of QUIC, whole as long as a stream keeps a byte of them: they count as held bytes of QUIC beyond what the
/// client may send.
///
/// Not in the sum: what a service holds itself, heads of its requests included; and what the kernel holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Open TCP connections, and as many QUIC connections. From 90 % on, those that have had no request
    /// in progress for longest are closed to make room (GOAWAY over HTTP/2 and HTTP/3, FIN over
    /// HTTP/1.1), one in a hundred at a time; at 100 %, when none idles, new ones are closed or refused
    /// at once. An idle connection costs 14 KiB over TCP with TLS and HTTP/2, up to 24 KiB until half a second after its
    /// last request, and 27 KiB over QUIC. Default 10,000.
    pub max_connections: usize,
    /// Connections of one client, TCP and QUIC together. A TCP connection beyond that is closed before TLS, a QUIC
    /// connection is refused. From half of it on, or of
    /// [`max_handshakes_per_client`](Self::max_handshakes_per_client), a client of QUIC has to prove its address
    /// first (Retry), so that nobody can use up another's share with forged packets. Unless that is all of them,
    /// never more than eight times those that are left, as with `max_requests_per_client`. Default `None`: an eighth
    /// of `max_connections`, 1,250; behind a proxy, whose address all clients share, it should be as large as
    /// `max_connections`.
    pub max_connections_per_client: Option<usize>,
    /// Handshakes in progress, TLS over TCP and QUIC together. A handshake costs 26 KiB more than an
    /// idle connection. Beyond, a new TCP connection takes the place of the oldest handshake over TCP that
    /// has lasted for more than a second; a new QUIC connection, or where there is none that old, is refused.
    /// Default 2,500.
    pub max_handshakes: usize,
    /// Handshakes of one client in progress; handled as `max_connections_per_client`. Default `None`: as
    /// many as it may have connections.
    pub max_handshakes_per_client: Option<usize>,
    /// Requests in progress: those whose responses have not been handed over completely. One beyond that is answered
    /// 503 with Retry-After, unless it is one of the first four of its client (fewer if the client's share is
    /// smaller), which are allowed in addition. Each costs about 1 KiB, and possibly a file descriptor. Default
    /// 40,000.
    pub max_requests: usize,
    /// Requests of one client in progress; handled as `max_requests`. Default `None`: an eighth of it,
    /// 5,000. Unless that is all of them, never more than eight times those that are left: twelve clients that ask for
    /// all that they can leave a ninety-seventh part for others.
    pub max_requests_per_client: Option<usize>,
    /// The rate at which requests of one client may come, over all its connections to a worker together. A request
    /// that comes earlier is answered 429 with Retry-After (RFC 6585 section 4), whatever it asks for, and does not
    /// count. The rate is remembered while the client has connections, and after that for 16,384 clients in 1.6 MB.
    /// Default `None`: 10,000 a second, of which 50,000 may come at once; no limit for loopback addresses, where
    /// proxies and benchmarks are.
    pub requests_per_prefix: Option<RequestLimit>,
    /// Requests at the same time on one connection (RFC 9113 `SETTINGS_MAX_CONCURRENT_STREAMS`, QUIC's bidirectional
    /// streams). Each may hold a file descriptor and 64 KiB; over QUIC each costs an idle connection about 40 bytes.
    /// Default 100, the least that RFC 9113 section 6.5.2 and RFC 9114 section 6.1 recommend.
    pub max_concurrent_requests: u32,
    /// Bytes that connections may hold together: of responses that clients don't read and of heads that have not
    /// arrived completely, over TCP, and of requests that services don't read, over HTTP/2 and HTTP/3. Beyond it, a
    /// connection whose unfinished head has more than 16 KiB is closed, a connection that holds any bytes neither
    /// reads nor answers on, and the others hold at most about 32 KiB each. Default 64 MiB.
    pub max_held_bytes: usize,
    /// The same for the connections of one client together; beyond it they are handled as beyond `max_held_bytes`,
    /// and those of other clients are not affected. Default `None`: an eighth of `max_held_bytes`, 8 MiB.
    pub max_held_bytes_per_client: Option<usize>,
    /// Bytes that HTTP/3 connections may hold together, beyond 8 KiB of responses, which count until the client has
    /// acknowledged them, and 32 KiB of requests for each, which count from when the client may send them. Heads that
    /// have not arrived completely count as well, beyond 8 KiB for each connection; one for which there is no room is
    /// answered 431. From half of the limit on, a connection gets no more than its path carries in three round trips,
    /// and beyond the limit nothing. Default 256 MiB.
    pub max_quic_held_bytes: u64,
    /// The same for the HTTP/3 connections of one client. Default `None`: an eighth of `max_quic_held_bytes`, 32 MiB.
    pub max_quic_held_bytes_per_client: Option<u64>,
    /// Bytes of files that are kept in memory because they are asked for often: small files whole, large
    /// ones in chunks. Default 48 MiB.
    pub max_cached_bytes: u64,
    /// Time from the TCP connection, or the first packet of QUIC, to the end of the TLS handshake.
    /// Default 10 s.
    pub handshake_timeout: Duration,
    /// Rule for when a client of QUIC must first prove that it receives at its address, which costs a round trip: the
    /// number of handshakes of clients that have not proved it and may be in progress on a worker. With
    /// [`Retry::Never`] no client has to, whatever its share. Default: beyond 1,000 (some 50 MB).
    pub retry: Retry,
    /// Time from the first byte awaited to the last of an HTTP/1.1 request head; so also the time that an HTTP/1.1
    /// connection may idle between requests. Over HTTP/2 and HTTP/3 the time from a head's first byte to its last. A
    /// head that takes longer is answered 408. Default 30 s.
    pub header_timeout: Duration,
    /// Time without a byte in either direction after which a connection is closed, whether it is idle or its client
    /// doesn't read. Default 60 s.
    pub idle_timeout: Duration,
    /// The least rate at which clients must send bodies of requests and read those of responses. It limits progress,
    /// not total time, and counts only time in which a body waits for its client, not for whatever makes or reads it.
    /// A request that is slower ends: over HTTP/2 and HTTP/3 its stream is reset, over HTTP/1.1 its connection
    /// closed. Default `None`: 100 bytes a second over the [`idle_timeout`](Self::idle_timeout), 6 kB in 60 s.
    pub slowest: Option<LeastRate>,
    /// Bytes of one request's content, whatever it asks for. Where the client says that it is longer, it is answered 413
    /// (RFC 9110 section 15.5.14) and the service is not asked. Where it says no length, the service reads as many bytes
    /// and then [`RequestBodyError::TooLong`](crate::RequestBodyError::TooLong), and its answer is replaced by 413 unless
    /// that is its own; a response that has begun by then goes on. Counted as the incident `content limit`. Content is
    /// streamed, and costs no memory by itself; WebSockets have none. Default `None`: as long as the service takes it,
    /// for which axum's extractors have `DefaultBodyLimit` (2 MB), with and without this limit.
    pub max_body: Option<u64>,
    /// Lengths of the prefixes of addresses that count as one client where a limit is shared out.
    /// Default: each IPv4 address, each IPv6 /48.
    pub client_prefix: PrefixLengths,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_connections_per_client: None,
            max_handshakes: 2_500,
            max_handshakes_per_client: None,
            max_requests: 40_000,
            max_requests_per_client: None,
            requests_per_prefix: None,
            max_concurrent_requests: 100,
            max_held_bytes: 64 << 20,
            max_held_bytes_per_client: None,
            max_quic_held_bytes: 256 << 20,
            max_quic_held_bytes_per_client: None,
            max_cached_bytes: 48 << 20,
            handshake_timeout: Duration::from_secs(10),
            retry: Retry::default(),
            header_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            slowest: None,
            max_body: None,
            client_prefix: PrefixLengths::default(),
        }
    }
}

/// Limits that contradict each other, or under which no client could be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidLimits {
    /// A limit of 0, by the name of its field; of a time, less than a millisecond.
    #[error("`{0}` must be more than 0")]
    Zero(&'static str),
    /// A client's share that is larger than what is shared.
    #[error("`{limit}_per_client` is {share}, more than `{limit}`, {all}")]
    ShareAboveAll {
        /// The name of the field whose share it is.
        limit: &'static str,
        /// The amount that one client may have.
        share: u64,
        /// The amount that all may have.
        all: u64,
    },
    /// [`Limits::for_memory`] of less than [`Limits::MIN_MEMORY`].
    #[error("a worker needs {min} of memory or more, not {0}", min = Limits::MIN_MEMORY)]
    TooLittleMemory(DataSize),
}

impl Limits {
    /// The limit that counts for [`requests_per_prefix`](Self::requests_per_prefix) where it is `None`, but for loopback
    /// addresses.
    pub const DEFAULT_REQUESTS_PER_PREFIX: RequestLimit = RequestLimit::Rate(REQUEST_RATE);

    /// The least memory that [`for_memory`](Self::for_memory) accepts.
    pub const MIN_MEMORY: DataSize = DataSize::from_bytes(64 * MIB);

    /// Limits that let a worker hold `memory` at most, in the proportions of the defaults: about 40 % is for
    /// connections over QUIC, 15 % for held bytes of QUIC. See [`Limits`] for what is in the sum and what is not.
    /// Shares and time-outs are the defaults.
    ///
    /// # Errors
    /// [`InvalidLimits::TooLittleMemory`].
    pub fn for_memory(memory: DataSize) -> Result<Self, InvalidLimits> {
        if memory < Self::MIN_MEMORY {
            return Err(InvalidLimits::TooLittleMemory(memory));
        }
        let bytes = memory.as_bytes();
        // Of 1,024 parts; two are left.
        let part = |parts: u64| bytes / 1024 * parts;
        let count = |parts, each: u64| usize::try_from(part(parts) / each).unwrap_or(usize::MAX);
        let connections = count(320, TCP_CONNECTION_BYTES).min(count(428, QUIC_CONNECTION_BYTES));
        Ok(Self {
            max_connections: connections,
            max_handshakes: count(37, HANDSHAKE_BYTES),
            max_requests: count(23, REQUEST_BYTES),
            max_held_bytes: count(37, 1),
            max_quic_held_bytes: part(149),
            max_cached_bytes: part(28),
            ..Self::default()
        })
    }

    /// The most bytes that a worker holds under these limits, as far as [`Limits`] says that they add up.
    #[must_use]
    pub fn memory(&self) -> DataSize {
        let connections = self.max_connections as u64;
        let terms = [
            connections.saturating_mul(TCP_CONNECTION_BYTES),
            connections.saturating_mul(QUIC_CONNECTION_BYTES),
            (self.max_handshakes as u64).saturating_mul(HANDSHAKE_BYTES),
            (self.max_requests as u64).saturating_mul(REQUEST_BYTES),
            self.max_held_bytes as u64,
            self.max_quic_held_bytes,
            self.max_cached_bytes,
        ];
        DataSize::from_bytes(terms.into_iter().fold(0, u64::saturating_add))
    }

    /// Checks that clients can be served under these limits.
    ///
    /// # Errors
    /// The first limit that is 0, or whose share for one client is larger than itself.
    pub fn check(&self) -> Result<(), InvalidLimits> {
        let check = |limit, all: usize, share: Option<usize>| {
            check_share(limit, all as u64, share.map(|it| it as u64))
        };
        let share = self.max_connections_per_client;
        check("max_connections", self.max_connections, share)?;
        let share = self.max_handshakes_per_client;
        check("max_handshakes", self.max_handshakes, share)?;
        let share = self.max_requests_per_client;
        check("max_requests", self.max_requests, share)?;
        let share = self.max_held_bytes_per_client;
        check("max_held_bytes", self.max_held_bytes, share)?;
        let share = self.max_quic_held_bytes_per_client;
        check_share("max_quic_held_bytes", self.max_quic_held_bytes, share)?;
        let alone = [
            (
                "max_concurrent_requests",
                u128::from(self.max_concurrent_requests),
            ),
            ("handshake_timeout", self.handshake_timeout.as_millis()),
            ("header_timeout", self.header_timeout.as_millis()),
            ("idle_timeout", self.idle_timeout.as_millis()),
        ];
        let zero = alone.into_iter().find(|(_, value)| *value == 0);
        zero.map_or(Ok(()), |(name, _)| Err(InvalidLimits::Zero(name)))
    }

    /// The same limits with times that can be added to any moment: `Duration::MAX` stands for never.
    pub(crate) fn with_finite_times(mut self) -> Self {
        for time in [
            &mut self.handshake_timeout,
            &mut self.header_timeout,
            &mut self.idle_timeout,
        ] {
            *time = (*time).min(LONGEST);
        }
        self
    }

    /// The share of one client in `max_connections`.
    pub(crate) fn connections_per_client(&self) -> usize {
        let share = self.max_connections_per_client;
        share.unwrap_or_else(|| share_of(self.max_connections))
    }

    /// The share of one client in `max_connections` while so many are open over a transport.
    pub(crate) fn connections_per_client_beside(&self, open: usize) -> usize {
        dynamic_share(self.connections_per_client(), self.max_connections, open)
    }

    /// The share of one client in `max_handshakes`.
    pub(crate) fn handshakes_per_client(&self) -> usize {
        let share = self.max_handshakes_per_client;
        share.unwrap_or_else(|| self.connections_per_client().min(self.max_handshakes))
    }

    /// The share of one client in `max_requests`.
    pub(crate) fn requests_per_client(&self) -> usize {
        let share = self.max_requests_per_client;
        share.unwrap_or_else(|| share_of(self.max_requests))
    }

    /// The share of one client in `max_requests` while all clients have `all` of them.
    pub(crate) fn requests_per_client_beside(&self, all: usize) -> usize {
        dynamic_share(self.requests_per_client(), self.max_requests, all)
    }

    /// The time in which a body that waits for its client must move by so many bytes.
    pub(crate) fn least_progress(&self) -> (Duration, u64) {
        let given = self.slowest.map(|rate| (rate.after(), rate.bytes()));
        given.unwrap_or_else(|| {
            let seconds = self.idle_timeout.as_secs().max(1);
            (self.idle_timeout, LEAST_BYTES_A_SECOND * seconds)
        })
    }

    /// The limit of the rate of a client's requests.
    pub(crate) fn request_limit(&self, address: IpAddr) -> RequestLimit {
        self.requests_per_prefix
            .unwrap_or_else(|| match address.to_canonical().is_loopback() {
                true => RequestLimit::Off,
                false => Self::DEFAULT_REQUESTS_PER_PREFIX,
            })
    }

    /// The share of one client in `max_held_bytes`.
    pub(crate) fn held_bytes_per_client(&self) -> usize {
        let share = self.max_held_bytes_per_client;
        share.unwrap_or_else(|| share_of(self.max_held_bytes))
    }

    /// The share of one client in `max_quic_held_bytes`.
    pub(crate) fn quic_held_bytes_per_client(&self) -> u64 {
        let share = self.max_quic_held_bytes_per_client;
        share.unwrap_or(self.max_quic_held_bytes / SHARES as u64)
    }
}

/// Checks that a limit and one client's share of it are more than 0, and the share no more than the limit.
fn check_share(limit: &'static str, all: u64, share: Option<u64>) -> Result<(), InvalidLimits> {
    if all == 0 || share == Some(0) {
        return Err(InvalidLimits::Zero(limit));
    }
    match share.filter(|share| *share > all) {
        Some(share) => Err(InvalidLimits::ShareAboveAll { limit, share, all }),
        None => Ok(()),
    }
}

fn share_of(limit: usize) -> usize {
    (limit / SHARES).max(1)
}

/// The part of its `share` that a client may have of a limit of which `all` is in use: no more than
/// [`LEFT_PER_CLIENT`] times the rest, so that clients with much stop before the rest is gone, and one with little
/// always finds some. These are the dynamic thresholds by which switches share a buffer (Choudhury and Hahne 1998). A
/// client that may have everything, as a proxy in front may, leaves nothing.
fn dynamic_share(share: usize, limit: usize, all: usize) -> usize {
    let left = limit.saturating_sub(all);
    if share >= limit {
        return share;
    }
    share.min(left.saturating_mul(LEFT_PER_CLIENT).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_defaults_are_about_what_follows_from_their_sum() {
        let sum = Limits::default().memory();
        assert_eq!(sum.as_bytes() / MIB, 1_749);
        let derived = Limits::for_memory(sum).unwrap();
        for (derived, default) in [
            (derived.max_connections as u64, 10_000),
            (derived.max_handshakes as u64, 2_500),
            (derived.max_requests as u64, 40_000),
            (derived.max_held_bytes as u64, 64 << 20),
            (derived.max_quic_held_bytes, 256 << 20),
            (derived.max_cached_bytes, 48 << 20),
        ] {
            let off = derived.abs_diff(default) * 100 / default;
            assert!(off <= 3, "{derived} for {default}");
        }
    }

    #[test]
    fn too_little_memory_is_refused() {
        let least = Limits::MIN_MEMORY.as_bytes();
        assert!(Limits::for_memory(DataSize::from_bytes(least)).is_ok());
        let error = Limits::for_memory(DataSize::from_bytes(least - 1024)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a worker needs 64MiB of memory or more, not 65535KiB"
        );
    }

    #[test]
    fn limits_under_which_nobody_could_be_served_are_refused() {
        let refused = |change: &dyn Fn(&mut Limits)| {
            let mut limits = Limits::default();
            change(&mut limits);
            limits.check().map_err(|error| error.to_string())
        };
        assert_eq!(refused(&|_| {}), Ok(()));
        let zero = refused(&|limits| limits.max_connections = 0);
        assert_eq!(zero, Err("`max_connections` must be more than 0".into()));
        let above = refused(&|limits| limits.max_requests_per_client = Some(40_001));
        let expected = "`max_requests_per_client` is 40001, more than `max_requests`, 40000";
        assert_eq!(above, Err(expected.into()));
        assert!(refused(&|limits| limits.max_quic_held_bytes_per_client = Some(0)).is_err());
        assert!(refused(&|limits| limits.idle_timeout = Duration::from_micros(10)).is_err());
    }

    proptest! {
        #[test]
        fn the_sum_stays_below_the_memory_that_it_was_derived_from(bytes in 64 * MIB..1 << 42) {
            let memory = DataSize::from_bytes(bytes);
            let limits = Limits::for_memory(memory).unwrap();
            prop_assert!(limits.memory() < memory);
            prop_assert_eq!(limits.check(), Ok(()));
        }
    }
}
