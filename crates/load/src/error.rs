//! Errors: why a run cannot be, and why one request failed.
//!
//! The two are kept apart: an [`Error`] ends the run, a [`Failure`] ends up as text in the record
//! of its request, and the run goes on.

use altway_record::Protocol;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Reason why a run could not start or not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is no URL.
    #[error("`{url}` is not a URL")]
    Url {
        /// The text that was given.
        url: String,
        /// Error of the URL grammar.
        source: url::ParseError,
    },
    /// The URL is one, but not of a thing that HTTP can fetch.
    #[error("cannot fetch `{url}`: expected http://HOST/ or https://HOST/, without a user name")]
    NotHttp {
        /// The text that was given.
        url: String,
    },
    /// HTTP/3 was asked for without TLS, which QUIC always has (RFC 9001).
    #[error("cannot fetch `{url}` over HTTP/3: it needs https")]
    Http3NeedsHttps {
        /// The text that was given.
        url: String,
    },
    /// An HTTP/1.1 connection was to have more than one stream: pipelining is not done.
    #[error("HTTP/1.1 carries one request at a time on a connection, not {streams}")]
    Http1Streams {
        /// The number of streams that was asked for.
        streams: u32,
    },
    /// Early data was asked for over a protocol on TCP.
    #[error("early data is sent over HTTP/3 (h3), not over {asked}")]
    EarlyDataNeedsHttp3 {
        /// The protocol that was asked for.
        asked: Protocol,
    },
    /// HTTP/3 is to be learned from `Alt-Svc` by a client that was told to speak another protocol.
    #[error("a client that heeds Alt-Svc speaks HTTP/3 (h3), not only {asked}")]
    AltSvcNeedsHttp3 {
        /// The protocol that was asked for.
        asked: Protocol,
    },
    /// A version of QUIC was asked for over a protocol on TCP.
    #[error("versions of QUIC are for HTTP/3 (h3), not for {asked}")]
    QuicVersionNeedsHttp3 {
        /// The protocol that was asked for.
        asked: Protocol,
    },
    /// The parts of a visit can't be fetched together.
    #[error("the visit can't be made")]
    Visit {
        /// Reason why it can't be made.
        source: altway_record::VisitError,
    },
    /// Connections that each carry one request were to have more than one stream.
    #[error("with early data a connection carries one request, not {streams} at a time")]
    EarlyDataStreams {
        /// The number of streams that was asked for.
        streams: u32,
    },
    /// The host's name has no address.
    #[error("cannot resolve `{host}`")]
    Resolve {
        /// The name.
        host: String,
        /// Error of the resolver.
        source: io::Error,
    },
    /// The file of CA certificates cannot be read.
    #[error("cannot read CA certificates from {}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Fault that was found in it.
        source: rustls::pki_types::pem::Error,
    },
    /// The place of the trusted authorities has no certificate that can be used.
    #[error("no CA certificate found in {place}")]
    NoCa {
        /// The file, or the system's store in words.
        place: String,
    },
    /// The TLS library refuses the configuration.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    /// No timer or socket is to be had from this machine.
    #[error("cannot set up {what}")]
    Setup {
        /// The thing that was wanted, with its article.
        what: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The peer or the path: no attempt to connect ever succeeded. Each is a record.
    #[error("cannot connect to {authority}: {reason}")]
    NeverConnected {
        /// Host and port.
        authority: String,
        /// The last attempt's error.
        reason: String,
    },
    /// The peer or the path: connections worked, then none could be opened any more. What was
    /// measured until then has been handed out.
    #[error("lost {authority} after {requests} requests: {reason}")]
    Lost {
        /// Host and port.
        authority: String,
        /// Records handed out.
        requests: u64,
        /// The last attempt's error.
        reason: String,
    },
}

/// Reason why one request has no complete answer. The text holds no figure that changes from
/// request to request, so that equal failures are counted together.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    #[error("TLS handshake failed")]
    Tls(#[source] io::Error),
    #[error("asked for {asked}, but the server chose {}", chosen(found.as_deref()))]
    OtherProtocol {
        asked: Protocol,
        found: Option<String>,
    },
    #[error("timed out after {0:?}")]
    TimedOut(Duration),
    #[error("body ended before its content-length of {expected} bytes")]
    ShortBody { expected: u64 },
    #[error("body is longer than its content-length of {expected} bytes")]
    LongBody { expected: u64 },
    #[error("HTTP failed")]
    Http(#[from] hyper::Error),
    #[error("QUIC handshake failed: {0}")]
    Handshake(altway_http3::CloseReason),
    #[error("cannot begin a QUIC connection")]
    Quic(#[from] crate::udp::ConnectError),
    #[error("connection lost: {0}")]
    Connection(String),
    #[error("stream reset: {0}")]
    Reset(String),
    #[error("HTTP/2 failed")]
    Http2(#[source] altway_http2::Error),
    #[error("HTTP/3 failed")]
    Http3(#[source] altway_http3::Error),
}

impl Failure {
    /// The whole chain of causes in one line.
    pub(crate) fn text(&self) -> String {
        chain(self)
    }
}

fn chosen(alpn: Option<&str>) -> &str {
    alpn.unwrap_or("no protocol")
}

/// Joins an error's levels with colons, leaving out a level that repeats the one above it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(level) = cause {
        let words = level.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        cause = level.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_tells_its_whole_chain_in_one_line() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(
            Failure::Connect(refused).text(),
            "cannot connect: connection refused"
        );
    }

    #[test]
    fn a_fallback_names_both_protocols() {
        let failure = |found: Option<&str>| Failure::OtherProtocol {
            asked: Protocol::H2,
            found: found.map(Into::into),
        };
        assert_eq!(
            failure(Some("http/1.1")).text(),
            "asked for h2, but the server chose http/1.1"
        );
        assert_eq!(
            failure(None).text(),
            "asked for h2, but the server chose no protocol"
        );
    }
}
