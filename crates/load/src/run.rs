//! State that the streams of a run share: what to fetch, the permits, and where records go.

use crate::error::Failure;
use crate::options::{Options, Stop};
use crate::returning::Returning;
use crate::script::Script;
use crate::send_permits::{Schedule, SendPermit, SendPermits};
use crate::summary::{Circumstances, EarlyDataCount, LoadSummary, Tally};
use crate::tcp::Opened;
use crate::{Error, tls};
use altway_http3::{Qlog, Sessions, Version};
use altway_message::AltSvc;
use altway_record::{Protocol, RequestRecord, Visit, VisitRequest};
use http::uri::Uri;
use http::{HeaderMap, HeaderValue, Request, header};
use nix::sys::resource::{UsageWho, getrusage};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use url::Url;

/// The options with everything looked up that must not be looked up inside a measured time.
pub(crate) struct Job {
    pub(crate) protocol: Protocol,
    pub(crate) streams: u32,
    pub(crate) quic_version: Version,
    pub(crate) timeout: Duration,
    /// Heads of the requests, by the permit's item: a GET of an absolute URI without a fragment.
    heads: Vec<Request<()>>,
    pub(crate) host: String,
    /// Addresses of the server, at least one; tried in order.
    pub(crate) addresses: Vec<SocketAddr>,
    /// `None` for an `http` URL.
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    /// The TLS settings of requests over HTTP/2 from whose answers HTTP/3 is learned.
    learning: Option<Arc<rustls::ClientConfig>>,
    /// The port that `Alt-Svc` must name, where it is heeded.
    pub(crate) alt_svc_port: Option<u16>,
    /// Each request has a connection of its own.
    pub(crate) new_connections: bool,
    /// True if of several connections none carries more than one request.
    pub(crate) one_each: bool,
    /// State that connections remember for the next, where early data is asked for.
    pub(crate) sessions: Option<Sessions>,
    pub(crate) qlog: Option<Qlog>,
}

impl Job {
    pub(crate) async fn prepare(options: &Options) -> Result<Self, Error> {
        let visit = options.visit();
        let tls = options
            .is_secure()
            .then(|| tls_for(options, options.protocol()));
        let learns = visit.is_some_and(|visit| visit.learn_http3);
        let returns = visit.is_some_and(|visit| visit.sessions.is_some());
        let learning = (learns || returns).then(|| tls_for(options, Protocol::H2));
        let new_connections = options.early_data() || visit.is_some_and(|v| v.new_connections);
        Ok(Self {
            protocol: options.protocol(),
            streams: options.streams().get(),
            quic_version: options.quic_version(),
            timeout: options.timeout,
            heads: heads(options)?,
            host: options.host(),
            addresses: resolve(options).await?,
            tls: tls.transpose()?,
            learning: learning.transpose()?,
            alt_svc_port: returns.then(|| options.port()),
            new_connections,
            one_each: new_connections || (visit.is_none() && makes_one_request_each(options)),
            qlog: options.qlog.clone(),
            sessions: options.early_data().then(Sessions::new),
        })
    }

    /// Returns the head of a permit's request.
    pub(crate) fn head(&self, permit: SendPermit) -> &Request<()> {
        // Of several sessions each makes the same requests.
        &self.heads[permit.item as usize % self.heads.len()]
    }

    /// Path and query of what a permit requests, as HTTP/1.1 names them.
    pub(crate) fn path(&self, permit: SendPermit) -> Uri {
        let path = self.head(permit).uri().path_and_query().cloned();
        path.map_or_else(|| Uri::from_static("/"), Uri::from)
    }

    /// The protocol that a permit's connection speaks.
    pub(crate) fn protocol_for(&self, permit: SendPermit) -> Protocol {
        match permit.route {
            Some(route) => route,
            None if self.learns_from(permit) => Protocol::H2,
            None => self.protocol,
        }
    }

    /// Returns the TLS settings of a permit's connection; `None` for an `http` URL.
    pub(crate) fn tls_for(&self, permit: SendPermit) -> Option<Arc<rustls::ClientConfig>> {
        match &self.learning {
            Some(learning) if self.protocol_for(permit) == Protocol::H2 => {
                Some(Arc::clone(learning))
            }
            _ => self.tls.clone(),
        }
    }

    /// Returns whether the answer is to say that there is HTTP/3.
    pub(crate) fn learns_from(&self, permit: SendPermit) -> bool {
        self.learning.is_some() && self.alt_svc_port.is_none() && permit.item == 0
    }

    /// Returns true if `origin` (RFC 6454 section 6.2) is that of the requests.
    pub(crate) fn is_origin(&self, origin: &[u8]) -> bool {
        let scheme = self.heads.first().and_then(|head| head.uri().scheme_str());
        let of_requests = format!("{}://{}", scheme.unwrap_or_default(), self.authority());
        of_requests.as_bytes() == origin
    }

    /// Host and port as the URL names them.
    pub(crate) fn authority(&self) -> &str {
        let uri = self.heads.first().map(Request::uri);
        uri.and_then(Uri::authority)
            .map_or("", |authority| authority.as_str())
    }
}

/// Returns whether there are several connections, and not more requests than connections.
fn makes_one_request_each(options: &Options) -> bool {
    let connections = u64::from(options.connections.get());
    match options.stop {
        Stop::Requests(requests) => connections > 1 && requests.get() <= connections,
        Stop::Time(_) => false,
    }
}

fn tls_for(options: &Options, protocol: Protocol) -> Result<Arc<rustls::ClientConfig>, Error> {
    let mut tls = tls::client_config(protocol, &options.trust)?;
    let resumes = |visit: &Visit| visit.new_connections || visit.sessions.is_some();
    if options.visit().is_some_and(resumes) {
        tls.resumption = rustls::client::Resumption::default();
    }
    if let Some(key_log) = &options.key_log {
        tls.key_log = Arc::clone(key_log);
    }
    Ok(Arc::new(tls))
}

/// A GET of the URL, or of each path of a visit.
fn heads(options: &Options) -> Result<Vec<Request<()>>, Error> {
    let mut url = options.url().clone();
    url.set_fragment(None);
    let Some(visit) = options.visit() else {
        return Ok(vec![head(&url, None)?]);
    };
    let of_visit = |request: &VisitRequest| {
        let joined = url.join(&request.path);
        let url = joined.map_err(|source| Error::Url {
            url: request.path.clone(),
            source,
        })?;
        head(&url, request.priority.as_deref())
    };
    visit.requests.iter().map(of_visit).collect()
}

fn head(url: &Url, priority: Option<&str>) -> Result<Request<()>, Error> {
    let not_http = || Error::NotHttp {
        url: url.as_str().into(),
    };
    let mut request = Request::new(());
    *request.uri_mut() = Uri::try_from(url.as_str()).map_err(|_| not_http())?;
    let headers = request.headers_mut();
    let user_agent = HeaderValue::from_static(crate::USER_AGENT);
    headers.insert(header::USER_AGENT, user_agent);
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    if let Some(priority) = priority {
        let value = HeaderValue::from_str(priority).map_err(|_| not_http())?;
        headers.insert("priority", value);
    }
    Ok(request)
}

async fn resolve(options: &Options) -> Result<Vec<SocketAddr>, Error> {
    if let Some(address) = options.connect_to {
        return Ok(vec![address]);
    }
    let host = options.host();
    let failed = |source| Error::Resolve {
        host: host.clone(),
        source,
    };
    let found = tokio::net::lookup_host((host.as_str(), options.port())).await;
    let addresses: Vec<_> = found.map_err(failed)?.collect();
    if addresses.is_empty() {
        return Err(failed(std::io::ErrorKind::NotFound.into()));
    }
    Ok(addresses)
}

/// A run under way; shared by its streams, all on one thread.
pub(crate) struct Run<'a> {
    pub(crate) job: &'a Job,
    pub(crate) send_permits: SendPermits,
    /// Buffer that HTTP/2 connections read into, one at a time. The others leave it empty.
    pub(crate) inbound: RefCell<Vec<u8>>,
    begun: Instant,
    connections: Cell<u32>,
    /// The address that a connection was opened to.
    reached: Cell<Option<SocketAddr>>,
    /// A connection over TCP that was there before the one over QUIC that it was opened beside.
    opened: RefCell<Option<Opened>>,
    /// A connection over HTTP/2 is open.
    has_http2: Cell<bool>,
    early_data: Cell<EarlyDataCount>,
    output: RefCell<Output<'a>>,
    switches_before: u64,
}

struct Output<'a> {
    on_record: &'a mut dyn FnMut(&RequestRecord),
    tally: Tally,
    connected: bool,
    /// The last failure to connect.
    unreachable: Option<String>,
}

impl<'a> Run<'a> {
    pub(crate) fn begin(
        job: &'a Job,
        options: &Options,
        on_record: &'a mut dyn FnMut(&RequestRecord),
    ) -> Result<Self, Error> {
        let output = Output {
            on_record,
            tally: Tally::new(job.protocol),
            connected: false,
            unreachable: None,
        };
        // Last, so that no set-up is part of the run's time.
        let begun = Instant::now();
        let schedule = match options.visit() {
            Some(visit) => match &visit.sessions {
                Some(sessions) => {
                    let client = Returning::new(begun, visit, sessions);
                    Schedule::of_sessions(begun, options.stop, client)
                }
                None => Schedule::of_visit(begun, options.stop, Script::new(visit)),
            },
            None => Schedule::new(begun, options.stop, options.rate),
        };
        let send_permits = SendPermits::new(schedule).map_err(|source| Error::Setup {
            what: "a timer",
            source,
        })?;
        Ok(Self {
            job,
            send_permits,
            inbound: RefCell::default(),
            begun,
            connections: Cell::new(0),
            reached: Cell::new(None),
            opened: RefCell::default(),
            has_http2: Cell::new(false),
            early_data: Cell::default(),
            output: RefCell::new(output),
            switches_before: involuntary_context_switches(),
        })
    }

    /// Begins an attempt to connect.
    pub(crate) fn next_connection(&self) -> u32 {
        let ordinal = self.connections.get();
        self.connections.set(ordinal.saturating_add(1));
        ordinal
    }

    /// Hands out the record of a request that ended at `end`.
    pub(crate) fn record(
        &self,
        sent: &InFlightRequest,
        answer: &Answer,
        end: Instant,
        result: Result<(), Failure>,
    ) {
        let since = |from: Instant, to: Instant| micros(to.saturating_duration_since(from));
        let record = RequestRecord {
            connection: sent.connection,
            stream: sent.stream,
            item: sent.item,
            protocol: self.job.protocol,
            protocol_used: sent.protocol_used,
            start_us: since(self.begun, sent.start),
            connect_us: sent.connect.map(micros),
            first_byte_us: answer.first_byte.map(|at| since(sent.start, at)),
            total_us: since(sent.start, end),
            bytes: answer.bytes,
            status: answer.status,
            alt_svc: answer.alt_svc,
            alt_svc_ma_s: answer.alt_svc_ma_s,
            error: result.err().map(|failure| failure.text()),
        };
        let output = &mut *self.output.borrow_mut();
        output.tally.add(&record);
        (output.on_record)(&record);
        self.send_permits.on_end(sent.item, end);
    }

    /// A frame, and no response, names the alternative services of the requests' origin (RFC 7838 section 4).
    pub(crate) fn on_alt_svc_frame(&self, value: &[u8], now: Instant) {
        if let Some(port) = self.job.alt_svc_port {
            let field = AltSvc::parse(value, port);
            self.send_permits.on_alt_svc(field, now);
        }
    }

    pub(crate) fn on_connected(&self) {
        self.output.borrow_mut().connected = true;
    }

    /// A connection was opened there.
    pub(crate) fn on_reached(&self, address: SocketAddr) {
        self.reached.set(Some(address));
    }

    /// Address to send what leaves before anybody has answered.
    pub(crate) fn reached(&self) -> Option<SocketAddr> {
        self.reached.get()
    }

    /// Keeps a connection over TCP for the next request that goes over one.
    pub(crate) fn keep_opened(&self, opened: Opened) {
        *self.opened.borrow_mut() = Some(opened);
    }

    /// Notes that a connection over HTTP/2 is open, or none any more.
    pub(crate) fn on_http2(&self, open: bool) {
        self.has_http2.set(open);
    }

    pub(crate) fn has_http2(&self) -> bool {
        self.has_http2.get()
    }

    pub(crate) fn take_opened(&self) -> Option<Opened> {
        self.opened.borrow_mut().take()
    }

    /// The server has taken or refused what came with the first packets.
    pub(crate) fn on_early_data(&self, accepted: bool) {
        let mut count = self.early_data.get();
        match accepted {
            true => count.accepted += 1,
            false => count.refused += 1,
        }
        self.early_data.set(count);
    }

    /// The server has taken what came with the first packets, and asked for it to be sent again.
    pub(crate) fn on_too_early(&self) {
        let mut count = self.early_data.get();
        count.too_early += 1;
        self.early_data.set(count);
    }

    /// Hands out the record of the request that was to open a connection but could not.
    pub(crate) fn on_unreachable(&self, connection: u32, permit: SendPermit, failure: Failure) {
        self.output.borrow_mut().unreachable = Some(failure.text());
        let sent = InFlightRequest {
            connection,
            stream: 0,
            item: permit.item,
            start: permit.start,
            connect: None,
            protocol_used: None,
        };
        self.record(&sent, &Answer::default(), Instant::now(), Err(failure));
    }

    /// The figures of the run, or why it did not come to its end: `gave_up` says that permits were
    /// left over with nobody to send them.
    pub(crate) fn finish(self, gave_up: bool) -> Result<LoadSummary, Error> {
        let circumstances = Circumstances {
            unsent: self.send_permits.unsent(),
            quic_version: self.job.quic_version,
            early_data: self.job.sessions.is_some().then(|| self.early_data.get()),
            involuntary_context_switches: involuntary_context_switches()
                .saturating_sub(self.switches_before),
        };
        let output = self.output.into_inner();
        let authority = self.job.authority().to_owned();
        match output.unreachable {
            Some(reason) if !output.connected => {
                let reason = reason.strip_prefix("cannot connect: ").unwrap_or(&reason);
                Err(Error::NeverConnected {
                    authority,
                    reason: reason.to_owned(),
                })
            }
            Some(reason) if gave_up => Err(Error::Lost {
                authority,
                requests: output.tally.requests(),
                reason,
            }),
            _ => Ok(output.tally.finish(&circumstances)),
        }
    }
}

/// A request about to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    pub(crate) permit: SendPermit,
    /// Time that connection set-up took, in the request that opened the connection.
    pub(crate) connect: Option<Duration>,
    /// Time at which it is given up.
    pub(crate) deadline: Instant,
}

impl Due {
    /// A due request that opens no connection.
    pub(crate) fn now(permit: SendPermit, job: &Job) -> Self {
        Self {
            permit,
            connect: None,
            deadline: Instant::now() + job.timeout,
        }
    }
}

/// A request on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlightRequest {
    pub(crate) connection: u32,
    pub(crate) stream: u32,
    pub(crate) item: u32,
    pub(crate) start: Instant,
    pub(crate) connect: Option<Duration>,
    pub(crate) protocol_used: Option<Protocol>,
}

/// Part of an answer that has come so far.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    first_byte: Option<Instant>,
    status: Option<u16>,
    bytes: u64,
    content_length: Option<u64>,
    alt_svc: bool,
    alt_svc_ma_s: Option<u64>,
}

impl Answer {
    pub(crate) fn on_head(&mut self, now: Instant, status: u16, content_length: Option<u64>) {
        self.first_byte = Some(now);
        self.status = Some(status);
        self.content_length = content_length;
    }

    /// The answer said that there is HTTP/3.
    pub(crate) fn on_alt_svc(&mut self) {
        self.alt_svc = true;
    }

    /// The answer said this of HTTP/3.
    pub(crate) fn on_field(&mut self, field: AltSvc) {
        self.alt_svc = matches!(field, AltSvc::Offer { .. });
        self.alt_svc_ma_s = match field {
            AltSvc::Absent => None,
            AltSvc::Offer { max_age, .. } => Some(max_age.as_secs()),
            AltSvc::Clear => Some(0),
        };
    }

    pub(crate) fn on_data(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// The body's end has come: is it all there?
    pub(crate) fn complete(&self) -> Result<(), Failure> {
        match self.content_length {
            // A 304 tells the length of what it does not carry (RFC 9110, section 8.6).
            _ if self.status == Some(304) => Ok(()),
            Some(expected) if self.bytes < expected => Err(Failure::ShortBody { expected }),
            Some(expected) if self.bytes > expected => Err(Failure::LongBody { expected }),
            _ => Ok(()),
        }
    }
}

/// Returns the number that the field gives, if it gives one.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(header::CONTENT_LENGTH)?;
    value.to_str().ok()?.parse().ok()
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the switches of all threads of this process since it began; 0 where the kernel doesn't
/// say.
fn involuntary_context_switches() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF);
    usage.map_or(0, |usage| {
        usage.involuntary_context_switches().unsigned_abs()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, length: &'static str, bytes: usize) -> Answer {
        let length = HeaderValue::from_static(length);
        let headers = HeaderMap::from_iter([(header::CONTENT_LENGTH, length)]);
        let mut answer = Answer::default();
        answer.on_head(Instant::now(), status, content_length(&headers));
        answer.on_data(bytes);
        answer
    }

    #[test]
    fn a_body_must_have_its_announced_length() {
        assert!(answer(200, "10", 10).complete().is_ok());
        assert!(matches!(
            answer(200, "10", 9).complete(),
            Err(Failure::ShortBody { expected: 10 })
        ));
        assert!(matches!(
            answer(200, "10", 11).complete(),
            Err(Failure::LongBody { expected: 10 })
        ));
        assert!(answer(304, "10", 0).complete().is_ok());
    }
}
