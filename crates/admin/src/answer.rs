//! Answers requests to the admin socket.

use crate::exposition::{CONTENT_TYPE, exposition};
use crate::listener;
use crate::status::{AcmeStatus, Identity, ReloadStatus, seconds};
use crate::{Address, Explained, StartError, Status, Upstreams};
use altway_select::{ClientClass, UnixTime};
use altway_serve::Monitor;
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::uri::Authority;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// The page; it asks for `/status` and `/explain`, and loads nothing else.
const PAGE: &str = include_str!("page.html");

/// The Content-Security-Policy of the page: its own script and style, and requests to where it came from.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Reads the configuration again. Called by one thread at a time; may wait for disks.
pub type Reload = Arc<dyn Fn() -> Reloaded + Send + Sync>;

/// Tells the state of the certificates that are ordered by ACME.
pub type AcmeReport = Arc<dyn Fn() -> AcmeStatus + Send + Sync>;

/// The outcome of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// True if the new configuration is in use; otherwise the former one is.
    pub success: bool,
    /// Lines that say what changed, or why nothing did.
    pub report: String,
}

/// The admin interface of a server: its status, its metrics, explanations and reloads.
#[derive(Clone)]
pub struct Admin {
    monitor: Monitor,
    identity: Identity,
    upstreams: Option<Upstreams>,
    reload: Option<Reload>,
    acme: Option<AcmeReport>,
    /// Held by the reload that goes on.
    reloading: Arc<Mutex<()>>,
    /// The latest reload that has ended.
    reloaded: Arc<Mutex<Option<ReloadStatus>>>,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Admin {
    /// Tells of the server behind `monitor`, which listens at `address` with this policy. `reload`: `None` where
    /// there is no configuration to read again.
    #[must_use]
    pub fn new(
        monitor: Monitor,
        address: SocketAddr,
        policy: String,
        reload: Option<Reload>,
    ) -> Self {
        let identity = Identity {
            address,
            further: Vec::new(),
            threads: None,
            policy,
            sandbox: "off",
            since: SystemTime::now(),
        };
        Self {
            monitor,
            identity,
            upstreams: None,
            reload,
            acme: None,
            reloading: Arc::default(),
            reloaded: Arc::default(),
        }
    }

    /// Says at which further addresses the server listens: what the kernel drops there counts as well.
    #[must_use]
    pub fn with_further(mut self, addresses: &[SocketAddr]) -> Self {
        self.identity.further.extend(addresses);
        self
    }

    /// Says how many worker threads the server has.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.identity.threads = Some(threads);
        self
    }

    /// Tells of the servers behind proxies as well.
    #[must_use]
    pub fn with_upstreams(self, upstreams: Upstreams) -> Self {
        Self {
            upstreams: Some(upstreams),
            ..self
        }
    }

    /// Tells of certificates by ACME as well.
    #[must_use]
    pub fn with_acme(self, report: AcmeReport) -> Self {
        let acme = Some(report);
        Self { acme, ..self }
    }

    /// Says whether the kernel holds the process to the files of its configuration: `on`, `off` or `unavailable`. Default:
    /// `off`.
    #[must_use]
    pub fn with_sandbox(mut self, state: &'static str) -> Self {
        self.identity.sandbox = state;
        self
    }

    /// Listens at `at`, and answers on a thread of its own until the process ends or what is returned is dropped.
    /// `replace`: takes the place of another process at a Unix socket, as a server does that takes over.
    ///
    /// # Errors
    /// The socket can't be bound, or another process answers there.
    pub fn start(self, at: &Address, replace: bool) -> Result<impl Send + use<>, StartError> {
        listener::start(self, at, replace)
    }

    /// Reads the configuration again, as `POST /reload` does, and remembers what came of it for the status.
    /// `None` where there is none.
    pub fn reload(&self) -> Option<Reloaded> {
        let _turn = lock(&self.reloading);
        let reloaded = self.reload.as_ref()?();
        *lock(&self.reloaded) = Some(ReloadStatus {
            at: seconds(SystemTime::now()),
            success: reloaded.success,
            report: reloaded.report.clone(),
        });
        Some(reloaded)
    }

    /// Returns what the server is and has done.
    #[must_use]
    pub fn status(&self) -> Status {
        let reloaded = lock(&self.reloaded).clone();
        let upstreams = self.upstreams.as_ref().map(|read| read());
        let upstreams = upstreams.unwrap_or_default();
        let status = Status::of(&self.monitor, &self.identity, upstreams, reloaded);
        let acme = self.acme.as_ref().map(|report| report());
        Status { acme, ..status }
    }

    /// Answers one request; `None`: it is for a reload, which [`answer_reload`](Self::answer_reload) answers. `is_private`:
    /// it came over a Unix socket, which is its owner's alone.
    pub(crate) fn answer<B>(
        &self,
        request: &Request<B>,
        is_private: bool,
    ) -> Option<Response<Full<Bytes>>> {
        if !is_private && !is_for_this_machine(request.headers()) {
            let text =
                "this host name is not one of this machine: ask by its address or localhost\n";
            return Some(plain(StatusCode::MISDIRECTED_REQUEST, text));
        }
        let path = request.uri().path();
        Some(match (request.method(), path) {
            (&Method::GET | &Method::HEAD, "/") => page(),
            (&Method::GET | &Method::HEAD, "/metrics") => {
                let text = exposition(&self.status());
                respond(StatusCode::OK, CONTENT_TYPE, text)
            }
            (&Method::GET | &Method::HEAD, "/status") => json(&self.status()),
            (&Method::GET | &Method::HEAD, "/explain") => {
                self.explain(request.uri().query().unwrap_or_default())
            }
            (&Method::POST, "/reload") if is_private => return None,
            (&Method::POST, "/reload") => {
                let text = "a reload is taken over a Unix socket only, or as SIGHUP\n";
                plain(StatusCode::FORBIDDEN, text)
            }
            (_, "/" | "/metrics" | "/status" | "/explain") => not_allowed("GET, HEAD"),
            (_, "/reload") => not_allowed("POST"),
            _ => plain(
                StatusCode::NOT_FOUND,
                "there are /, /metrics, /status, /explain?address=IP and POST /reload\n",
            ),
        })
    }

    /// Reads the configuration again, and says what came of it. It may take long.
    pub(crate) fn answer_reload(&self) -> Response<Full<Bytes>> {
        match self.reload() {
            Some(Reloaded {
                success: true,
                report,
            }) => plain(StatusCode::OK, report),
            Some(Reloaded { report, .. }) => plain(StatusCode::CONFLICT, report),
            None => plain(
                StatusCode::NOT_FOUND,
                "this server was started without a configuration file: there is nothing to read again\n",
            ),
        }
    }

    fn explain(&self, query: &str) -> Response<Full<Bytes>> {
        let asked = match ExplainQuery::parse(query) {
            Ok(asked) => asked,
            Err(fault) => return plain(StatusCode::BAD_REQUEST, fault + "\n"),
        };
        let now = UnixTime::from_secs(seconds(SystemTime::now()));
        let host = asked.host.as_deref();
        let found = self.monitor.explain(asked.address, asked.class, host, now);
        json(&found.iter().map(Explained::of).collect::<Vec<_>>())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Client and host that `/explain` is asked about.
struct ExplainQuery {
    address: IpAddr,
    class: Option<ClientClass>,
    host: Option<String>,
}

impl ExplainQuery {
    fn parse(query: &str) -> Result<Self, String> {
        let (mut address, mut class, mut host) = (None, None, None);
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "address" => {
                    let parsed = value.parse::<IpAddr>();
                    address = Some(parsed.map_err(|_| format!("`{value}` is no IP address"))?);
                }
                "class" if !value.is_empty() => {
                    let parsed = value.parse::<ClientClass>();
                    class = Some(parsed.map_err(|error| error.to_string())?);
                }
                "host" if !value.is_empty() => host = Some(value.into_owned()),
                "class" | "host" => {}
                _ => return Err(format!("`{name}` is none of address, class, host")),
            }
        }
        let address = address.ok_or("say whom to explain: /explain?address=IP")?;
        Ok(Self {
            address,
            class,
            host,
        })
    }
}

/// Checks whether a request over the loopback interface names this machine as its host, so that no page of a foreign
/// site can have a browser ask in its name (DNS rebinding).
fn is_for_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST) else {
        return true;
    };
    let Ok(authority) = Authority::try_from(host.as_bytes()) else {
        return false;
    };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    is_loopback || name.eq_ignore_ascii_case("localhost")
}

fn page() -> Response<Full<Bytes>> {
    let mut response = respond(StatusCode::OK, "text/html; charset=utf-8", PAGE);
    let policy = HeaderValue::from_static(PAGE_POLICY);
    response
        .headers_mut()
        .insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

fn not_allowed(methods: &'static str) -> Response<Full<Bytes>> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "not with this method\n");
    let methods = HeaderValue::from_static(methods);
    response.headers_mut().insert(header::ALLOW, methods);
    response
}

pub(crate) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    respond(status, "text/plain; charset=utf-8", text)
}

fn json(value: &impl serde::Serialize) -> Response<Full<Bytes>> {
    match serde_json::to_vec(value) {
        Ok(text) => respond(StatusCode::OK, "application/json", text),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn respond(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let fields: [(HeaderName, &'static str); 3] = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in fields {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        headers
    }

    #[test]
    fn only_names_of_this_machine_are_answered_over_loopback() {
        for host in [
            "localhost",
            "LOCALHOST:2019",
            "127.0.0.1:2019",
            "127.0.0.1",
            "[::1]:2019",
            "[::1]",
        ] {
            assert!(is_for_this_machine(&headers(host)), "{host}");
        }
        for host in [
            "example.org",
            "example.org:2019",
            "192.0.2.1",
            "localhost.example.org",
        ] {
            assert!(!is_for_this_machine(&headers(host)), "{host}");
        }
        assert!(is_for_this_machine(&HeaderMap::new()), "HTTP/1.0");
    }

    #[test]
    fn whom_to_explain_is_parsed_and_faults_are_named() {
        let asked =
            ExplainQuery::parse("address=2001%3Adb8%3A%3A1&class=firefox-linux&host=").unwrap();
        assert_eq!(asked.address.to_string(), "2001:db8::1");
        assert_eq!(asked.class.unwrap().to_string(), "firefox-linux");
        assert_eq!(asked.host, None);
        let fault = |query| ExplainQuery::parse(query).err().unwrap();
        assert_eq!(fault(""), "say whom to explain: /explain?address=IP");
        assert_eq!(fault("address=here"), "`here` is no IP address");
        assert_eq!(fault("x=1"), "`x` is none of address, class, host");
        assert!(fault("address=::1&class=none").contains("none"));
    }
}
