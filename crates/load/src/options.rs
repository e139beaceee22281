//! Options of a run. Every value is valid by type, so nothing is left to refuse later on but
//! what the machine and the network say.

use crate::Error;
use altway_http3::{Qlog, Version};
use altway_record::{Protocol, Visit};
use rustls::KeyLog;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

/// Options of a run: what to fetch, over what, how often and how many at once.
///
/// [`Options::new`] gives a single request on a single connection; the rest is set by field.
#[derive(Debug, Clone)]
pub struct Options {
    url: Url,
    protocol: Protocol,
    streams: NonZeroU32,
    early_data: bool,
    quic_version: Version,
    visit: Option<Visit>,
    /// Connections open at the same time. Default 1. Each costs a socket (and, over HTTP/3, two
    /// file descriptors), so the process's limit must allow for them.
    pub connections: NonZeroU32,
    /// Time at which to stop. Default after 1 request.
    pub stop: Stop,
    /// Certificates that are believed; without effect on `http` URLs. Default the system's.
    pub trust: Trust,
    /// Connect here instead of to the URL's host and port, which still stand in the request and
    /// in the TLS handshake. No name is resolved then. Default none.
    pub connect_to: Option<SocketAddr>,
    /// The longest a request may take, connection set-up included when it opens one. Default 30 s.
    /// Counted from when the request is really sent.
    pub timeout: Duration,
    /// Open loop: requests begin at this many per second over all connections, evenly spaced,
    /// whether or not earlier ones have been answered, and each is timed from the moment it was
    /// due. Default none: closed loop, a stream sends its next request when its last is answered.
    ///
    /// A request that finds every stream busy at that moment waits for one, and the wait counts.
    pub rate: Option<NonZeroU32>,
    /// The time over which the connections begin, evenly spaced, each busy from then on. Default zero:
    /// all at once, more than some servers accept. A connection that finds nothing left to send is not
    /// opened. To the millisecond.
    pub ramp: Duration,
    /// Log for the secrets of every connection, for those who look into packets. Whoever has them
    /// reads all. Default nowhere.
    pub key_log: Option<Arc<dyn KeyLog>>,
    /// Log of what happens on HTTP/3's connections. Costs some microseconds a packet. Default
    /// nowhere.
    pub qlog: Option<Qlog>,
}

/// Number of connections that browsers open to one origin over HTTP/1.1.
const HTTP1_CONNECTIONS: NonZeroU32 = NonZeroU32::new(6).expect("six");

impl Options {
    /// Options of one request for `url` over `protocol`.
    ///
    /// # Errors
    /// The text is not a URL of scheme `http` or `https` with a host, it carries a user name, or
    /// it asks for HTTP/3 without TLS.
    pub fn new(url: &str, protocol: Protocol) -> Result<Self, Error> {
        let parsed = Url::parse(url).map_err(|source| Error::Url {
            url: url.into(),
            source,
        })?;
        check(&parsed, protocol)?;
        Ok(Self {
            url: parsed,
            protocol,
            streams: NonZeroU32::MIN,
            early_data: false,
            quic_version: Version::default(),
            visit: None,
            connections: NonZeroU32::MIN,
            stop: Stop::Requests(NonZeroU64::MIN),
            trust: Trust::System,
            connect_to: None,
            timeout: Duration::from_secs(30),
            rate: None,
            ramp: Duration::ZERO,
            key_log: None,
            qlog: None,
        })
    }

    /// Requests in flight at the same time on a connection. Default 1.
    ///
    /// A server may allow fewer; the others then wait on this side, and the wait counts.
    ///
    /// # Errors
    /// More than one over HTTP/1.1, or with early data.
    pub fn with_streams(mut self, streams: NonZeroU32) -> Result<Self, Error> {
        let several = (streams > NonZeroU32::MIN).then_some(streams.get());
        match several {
            Some(streams) if self.protocol == Protocol::H1 => {
                return Err(Error::Http1Streams { streams });
            }
            Some(streams) if self.early_data => return Err(Error::EarlyDataStreams { streams }),
            _ => {}
        }
        self.streams = streams;
        Ok(self)
    }

    /// Measures what a returning visitor sees: every request has a connection of its own, and where an
    /// earlier one of the run brought a session ticket that allows it, the request leaves with the first
    /// packets (0-RTT, RFC 9001 section 4.6). What the server refuses is sent again after the
    /// handshake. A connection stays until it has brought a ticket, for a second at most, which is
    /// no part of any request's time. Default off: sessions are not resumed.
    ///
    /// # Errors
    /// Over another protocol than HTTP/3; with more than one stream.
    pub fn with_early_data(mut self) -> Result<Self, Error> {
        if self.protocol != Protocol::H3 {
            let asked = self.protocol;
            return Err(Error::EarlyDataNeedsHttp3 { asked });
        }
        let streams = self.streams;
        self.early_data = true;
        self.with_streams(streams)
    }

    /// Speaks this version of QUIC (RFC 9000, RFC 9369), whatever else the server would speak. Default 1.
    ///
    /// # Errors
    /// Over another protocol than HTTP/3.
    pub fn with_quic_version(mut self, version: Version) -> Result<Self, Error> {
        if self.protocol != Protocol::H3 {
            let asked = self.protocol;
            return Err(Error::QuicVersionNeedsHttp3 { asked });
        }
        self.quic_version = version;
        Ok(self)
    }

    /// Fetches what `visit` says, from the URL's origin, instead of the URL: each request when what
    /// it waits for has happened, and timed from then. Sets connections, streams and when to stop.
    ///
    /// # Errors
    /// The visit can't be made, or needs HTTP/3 and TLS that were not asked for.
    pub fn with_visit(mut self, visit: Visit) -> Result<Self, Error> {
        visit.check().map_err(|source| Error::Visit { source })?;
        let asked = self.protocol;
        let learns = visit.learn_http3 || visit.sessions.is_some();
        if learns && asked != Protocol::H3 {
            return Err(Error::AltSvcNeedsHttp3 { asked });
        }
        if visit.early_data && asked != Protocol::H3 {
            return Err(Error::EarlyDataNeedsHttp3 { asked });
        }
        let number = |count: usize| {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN)
        };
        let (count, all) = (number(visit.requests.len()), number(visit.request_count()));
        let one = NonZeroU32::MIN;
        (self.connections, self.streams) = match (visit.new_connections, asked) {
            (true, _) => (one, one),
            (false, Protocol::H1) => (count.min(HTTP1_CONNECTIONS), one),
            (false, _) => (one, count),
        };
        self.stop = Stop::Requests(all.into());
        self.early_data = visit.early_data;
        self.visit = Some(visit);
        Ok(self)
    }

    /// Returns what is fetched instead of the URL, if it is a visit.
    #[must_use]
    pub fn visit(&self) -> Option<&Visit> {
        self.visit.as_ref()
    }

    /// Returns the URL that is fetched.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The protocol asked for.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Requests in flight at the same time on a connection.
    #[must_use]
    pub fn streams(&self) -> NonZeroU32 {
        self.streams
    }

    /// Returns whether requests may leave with the first packets of their connections.
    #[must_use]
    pub fn early_data(&self) -> bool {
        self.early_data
    }

    /// The version of QUIC that HTTP/3 is spoken over.
    #[must_use]
    pub fn quic_version(&self) -> Version {
        self.quic_version
    }

    /// Host without brackets, as the TLS handshake names it.
    pub(crate) fn host(&self) -> String {
        match self.url.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(host) => host.to_string(),
            None => String::new(),
        }
    }

    /// Port of the URL, or its scheme's.
    pub(crate) fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or(443)
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.url.scheme() == "https"
    }
}

/// Condition on which a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Ends after exactly this many requests, failed ones included.
    Requests(NonZeroU64),
    /// No request begins later than this after the start. Those in flight then are awaited (each
    /// up to its time-out) and counted, for leaving them out would leave out the slow ones.
    Time(Duration),
}

/// Certificates that are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The certificate authorities of this system (`SSL_CERT_FILE` and `SSL_CERT_DIR` win).
    System,
    /// The authorities in this PEM file, and no others.
    CaFile(PathBuf),
    /// Any certificate: whoever sits on the path can pose as the server. For tests.
    Insecure,
}

fn check(url: &Url, protocol: Protocol) -> Result<(), Error> {
    let http = matches!(url.scheme(), "http" | "https") && url.has_host();
    if !http || !url.username().is_empty() || url.password().is_some() {
        return Err(Error::NotHttp {
            url: url.as_str().into(),
        });
    }
    if protocol == Protocol::H3 && url.scheme() != "https" {
        return Err(Error::Http3NeedsHttps {
            url: url.as_str().into(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str, protocol: Protocol) -> String {
        Options::new(url, protocol).unwrap_err().to_string()
    }

    #[test]
    fn refuses_what_http_cannot_fetch() {
        assert_eq!(
            refusal("over there", Protocol::H1),
            "`over there` is not a URL"
        );
        assert!(refusal("ftp://host/", Protocol::H1).contains("expected http://HOST/"));
        assert!(refusal("https://me@host/", Protocol::H1).contains("without a user name"));
        assert!(refusal("http://host/", Protocol::H3).ends_with("it needs https"));
    }

    #[test]
    fn refuses_streams_over_http1_only() {
        let four = NonZeroU32::new(4).unwrap();
        let over = |protocol| Options::new("https://host/", protocol).unwrap();
        assert!(over(Protocol::H1).with_streams(NonZeroU32::MIN).is_ok());
        assert!(over(Protocol::H1).with_streams(four).is_err());
        assert_eq!(
            over(Protocol::H2).with_streams(four).unwrap().streams(),
            four
        );
    }

    #[test]
    fn early_data_is_for_one_request_over_http3() {
        let (one, two) = (NonZeroU32::MIN, NonZeroU32::new(2).unwrap());
        let over = |protocol| Options::new("https://host/", protocol).unwrap();
        assert!(over(Protocol::H2).with_early_data().is_err());
        assert!(over(Protocol::H1).with_early_data().is_err());
        let early = || over(Protocol::H3).with_early_data().unwrap();
        assert!(early().early_data() && early().with_streams(one).is_ok());
        assert!(early().with_streams(two).is_err());
        let several = over(Protocol::H3).with_streams(two).unwrap();
        assert!(several.with_early_data().is_err());
    }

    #[test]
    fn a_version_of_quic_is_for_http3() {
        let over = |protocol| Options::new("https://host/", protocol).unwrap();
        for protocol in [Protocol::H1, Protocol::H2] {
            assert!(over(protocol).with_quic_version(Version::V1).is_err());
        }
        assert_eq!(over(Protocol::H3).quic_version(), Version::V1);
        let second = over(Protocol::H3).with_quic_version(Version::V2).unwrap();
        assert_eq!(second.quic_version(), Version::V2);
    }

    #[test]
    fn host_and_port_are_what_a_socket_needs() {
        let options = Options::new("https://[::1]/", Protocol::H2).unwrap();
        assert_eq!((options.host().as_str(), options.port()), ("::1", 443));
        let options = Options::new("http://host:8080/a?b#c", Protocol::H1).unwrap();
        assert_eq!((options.host().as_str(), options.port()), ("host", 8080));
    }
}
