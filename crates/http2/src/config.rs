//! Settings and limits of a connection, each with its default and what it costs.

use std::time::Duration;

use altway_fields::Rate;
use altway_message::{Rules, Scheme};

/// Role of this side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

/// Behaviour of a connection, and its limits on what it takes from its peer. Shared by all connections of an
/// application.
#[derive(Clone, Debug)]
pub struct Config {
    /// Requests that the peer may have open at once (server: SETTINGS_MAX_CONCURRENT_STREAMS, the
    /// rest is refused; client: our own bound beside the server's). Each costs some 200 bytes, and
    /// what the application keeps of it. Default 128.
    pub max_concurrent_streams: u32,
    /// Largest list of fields taken, as RFC 9113 section 6.5.2 counts: names + values + 32 a field.
    /// A larger request becomes [`Event::RequestTooLarge`](crate::Event::RequestTooLarge); nothing
    /// of it is stored. Bytes, default 32 KiB.
    pub max_header_list_size: u32,
    /// Size of the dynamic table that the peer may use for its fields (SETTINGS_HEADER_TABLE_SIZE),
    /// bytes: memory a connection costs once its peer uses it. Default 4,096.
    pub header_table_size: u32,
    /// Receive window of a stream at its beginning, bytes: what a peer can make the application
    /// hold of one body. Default 256 KiB: 20 Mbit/s over 100 ms.
    pub stream_window: u32,
    /// Receive window of the connection at its beginning, bytes. Default 1 MiB.
    pub connection_window: u32,
    /// Size up to which a stream's window grows while the peer uses it up within two round trips, bytes. Default 4 MiB:
    /// 320 Mbit/s over 100 ms.
    pub max_stream_window: u32,
    /// The same for the connection. Default 16 MiB. What was received and not released is at most
    /// this, whatever the number of streams.
    pub max_connection_window: u32,
    /// Largest payload of a DATA frame that we send, bytes. Default 16,384, what every peer takes.
    /// Over TLS 16,375 lets frame header and payload fill one record of 16 KiB.
    pub max_data_payload: usize,
    /// Server: take extended CONNECT (RFC 8441), for instance for WebSockets. Default off.
    pub extended_connect: bool,
    /// Server: the scheme of what the connections carry; requests for others are handed over with a
    /// [`refusal`](crate::Head::refusal). Default `None`: either.
    pub scheme: Option<Scheme>,
    /// The time-outs of what a peer may take its time for.
    pub timeouts: Timeouts,
    /// The limits on what a peer may ask for in vain.
    pub floods: Floods,
}

/// Times for which the connection waits for its peer. The clock is only looked at in
/// [`Turn::handle_timeout`](crate::Turn::handle_timeout); each may run out a quarter later than given.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// The time from the beginning to the peer's whole connection preface, its first SETTINGS
    /// included. Default 10 s.
    pub preface: Duration,
    /// The time from our SETTINGS to their acknowledgement; then SETTINGS_TIMEOUT. Default 10 s.
    pub settings: Duration,
    /// The time from a frame's first byte to its last, and from HEADERS to END_HEADERS (slow headers,
    /// reported by [`Event::RequestLate`](crate::Event::RequestLate)). DATA counts as stalled body instead.
    /// Default 10 s.
    pub frame: Duration,
    /// A stream of which less than [`stall_bytes`](Self::stall_bytes) move in so long though the peer could let it (it sends no
    /// body, or opens no window) is reset with CANCEL. The peer of a tunnel (CONNECT) may be silent, but
    /// must take what it is sent; and a client waits for a response as long as its application does.
    /// Default 30 s.
    pub stall: Duration,
    /// Bytes of a stream's bodies that must move in [`stall`](Self::stall). Default 1 KiB: 34 bytes a second, a fifth of
    /// what the slowest modems carried.
    pub stall_bytes: usize,
    /// A connection without streams on which no frame comes is closed. Default 60 s.
    pub idle: Duration,
    /// Server: from a complete response to the end of its request. A client that has not ended the
    /// request by then is asked to stop by RST_STREAM with NO_ERROR (RFC 9113 section 8.1). Many
    /// clients end it by themselves, and some lose a response that RST_STREAM follows at once
    /// (docs/decisions/0059).
    /// Default 1 s.
    pub linger: Duration,
    /// The time between the two GOAWAY of a shutdown at most (the answer to a PING ends it sooner).
    /// Default 1 s.
    pub goaway: Duration,
}

/// Bounds on frames that cost us work and lead nowhere. Beyond one the connection ends with
/// ENHANCE_YOUR_CALM.
#[derive(Clone, Copy, Debug)]
pub struct Floods {
    /// Streams that the peer opened and reset before they were answered (rapid reset,
    /// CVE-2023-44487), or made us reset by breaking the protocol on them (CVE-2025-8671), or
    /// opened beyond the limit. A server's alone. Default 200 at once, 20 more a second; each completed stream pays
    /// one back.
    pub resets: Rate,
    /// SETTINGS, PING, PRIORITY, PRIORITY_UPDATE, WINDOW_UPDATE, RST_STREAM, empty or padded DATA,
    /// fields for streams that are gone, and frames of unknown types. Default 2,000 at once, 500 more
    /// a second; each frame of DATA that we sent pays eight back, for WINDOW_UPDATE is its due
    /// answer.
    pub control: Rate,
    /// CONTINUATION frames after one HEADERS. Default 16.
    pub max_continuations: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_concurrent_streams: 128,
            max_header_list_size: 32 << 10,
            header_table_size: 4096,
            stream_window: 256 << 10,
            connection_window: 1 << 20,
            max_stream_window: 4 << 20,
            max_connection_window: 16 << 20,
            max_data_payload: crate::frame::MAX_PAYLOAD,
            extended_connect: false,
            scheme: None,
            timeouts: Timeouts::default(),
            floods: Floods::default(),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            preface: Duration::from_secs(10),
            settings: Duration::from_secs(10),
            frame: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            stall_bytes: 1 << 10,
            idle: Duration::from_secs(60),
            linger: Duration::from_secs(1),
            goaway: Duration::from_secs(1),
        }
    }
}

impl Default for Floods {
    fn default() -> Self {
        Self {
            resets: Rate {
                burst: 200,
                per_second: 20,
            },
            control: Rate {
                burst: 2_000,
                per_second: 500,
            },
            max_continuations: 16,
        }
    }
}

impl Config {
    /// The rules for requests.
    pub(crate) fn rules(&self) -> Rules {
        Rules {
            scheme: self.scheme,
            extended_connect: self.extended_connect,
        }
    }

    /// Largest field block taken in its encoded form, bytes: the list's limit, and room for
    /// encodings that are longer than what they encode.
    pub(crate) fn max_block(&self) -> usize {
        let list = usize::try_from(self.max_header_list_size).unwrap_or(usize::MAX);
        list.saturating_mul(2).max(crate::frame::MAX_PAYLOAD)
    }
}
