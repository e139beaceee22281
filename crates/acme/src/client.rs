//! The HTTP client through which instant-acme asks: HTTP/1.1 over TLS, one connection that is kept, bounds on time and bytes.

use crate::Error;
use altway_folder::read_file;
use bytes::Bytes;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error as AcmeError, HttpClient};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

/// The most bytes of a response's content. Chains of certificates are some kilobytes.
const MAX_CONTENT: usize = 1 << 20;

/// The longest time of a request, from the connection to the last byte of the response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The port of `https` where none is named.
const HTTPS: u16 = 443;

/// The most addresses of a host that are tried.
const MAX_ADDRESSES: usize = 16;

/// Time for which an address is waited for before the next one is tried beside it (RFC 8305 section 5: "a recommended value").
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Facts of the latest response of a task beside its content, of which instant-acme tells nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResponseFacts {
    pub(crate) status: Option<u16>,
    pub(crate) retry_after: Option<Duration>,
}

tokio::task_local! {
    /// Set by the client, for the task whose request it was.
    pub(crate) static LATEST_RESPONSE: Cell<ResponseFacts>;
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// A client for one authority. Clones share the connection.
#[derive(Clone)]
pub(crate) struct Client(Arc<Inner>);

struct Inner {
    tls: TlsConnector,
    user_agent: HeaderValue,
    /// A connection that is not in use.
    idle: Mutex<Option<(Authority, SendRequest<Full<Bytes>>)>>,
}

impl Client {
    /// `roots`: a PEM file; `None`: the system's.
    pub(crate) fn new(roots: Option<&Path>, user_agent: &str) -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .map_err(Error::Tls)?
            .with_root_certificates(root_store(roots)?)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let user_agent = HeaderValue::from_str(user_agent);
        let unnamed = HeaderValue::from_static("altway");
        Ok(Self(Arc::new(Inner {
            tls: TlsConnector::from(Arc::new(config)),
            user_agent: user_agent.unwrap_or(unnamed),
            idle: Mutex::default(),
        })))
    }

    async fn ask(&self, request: Request<BodyWrapper<Bytes>>) -> Result<Response<Bytes>, Failed> {
        let (parts, body) = request.into_parts();
        let (authority, path) = place(&parts.uri)?;
        let content = body.collect().await?.to_bytes();
        let mut request = Request::new(Full::new(content));
        *request.method_mut() = parts.method;
        *request.uri_mut() = Uri::from(path);
        *request.headers_mut() = parts.headers;
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_str(authority.as_str())?);
        headers.insert(header::USER_AGENT, self.0.user_agent.clone());
        let (mut sender, response) = self.send(&authority, request).await?;
        let (parts, body) = response.into_parts();
        let content = Limited::new(body, MAX_CONTENT).collect().await?.to_bytes();
        if sender.ready().await.is_ok() {
            *self.idle() = Some((authority, sender));
        }
        response_facts(&parts);
        let is_json = parts
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind.contains("json")));
        if parts.status.is_server_error() && !is_json {
            return Err(format!("the authority answered {}", parts.status).into());
        }
        Ok(Response::from_parts(parts, content))
    }

    /// Sends over the connection that is there, or over a new one if that is closed meanwhile.
    async fn send(
        &self,
        authority: &Authority,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(SendRequest<Full<Bytes>>, Response<hyper::body::Incoming>), Failed> {
        let idle = self.idle().take().filter(|(to, _)| to == authority);
        if let Some((_, mut sender)) = idle {
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((sender, response)),
                // It was not sent, so it may go another way.
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(failed.into_error().into()),
                },
            }
        }
        let mut sender = self.connect(authority).await?;
        let response = sender.send_request(request).await?;
        Ok((sender, response))
    }

    async fn connect(&self, to: &Authority) -> Result<SendRequest<Full<Bytes>>, Failed> {
        let host = to.host().trim_matches(['[', ']']);
        let stream = connect_to_host(host, to.port_u16().unwrap_or(HTTPS)).await;
        let stream = stream.map_err(|error| format!("cannot connect to {to}: {error}"))?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(host.to_owned())?;
        let session = self.0.tls.connect(name, stream).await;
        let session = session.map_err(|error| format!("no TLS with {to}: {error}"))?;
        let (sender, connection) = http1::handshake(TokioIo::new(session)).await?;
        tokio::spawn(async move {
            // Whoever waits for a response is told the same.
            let _ = connection.await;
        });
        Ok(sender)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Option<(Authority, SendRequest<Full<Bytes>>)>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects to the first of a host's addresses that takes a connection.
async fn connect_to_host(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses = lookup_host((host, port)).await?.take(MAX_ADDRESSES);
    connect_to_first(addresses).await
}

/// Connects to the addresses one after the other, each as soon as the one before has failed or has not answered for
/// [`ATTEMPT_DELAY`], until one takes the connection (RFC 8305 section 5). Where a network loses packets of IPv6, its addresses
/// would take all the time that there is.
async fn connect_to_first(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.peekable();
    let mut attempts = JoinSet::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        if let Some(address) = waiting.next() {
            attempts.spawn(TcpStream::connect(address));
        }
        tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => failure = error,
                Some(Err(error)) => failure = error.into(),
                None => return Err(failure),
            },
            () = sleep(ATTEMPT_DELAY), if waiting.peek().is_some() => {}
        }
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, AcmeError>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let _ = LATEST_RESPONSE
                .try_with(|response_facts| response_facts.set(ResponseFacts::default()));
            match timeout(TIMEOUT, client.ask(request)).await {
                Ok(Ok(response)) => Ok(BytesResponse::from(response.map(Full::new))),
                Ok(Err(error)) => Err(AcmeError::Other(error)),
                Err(_) => Err(AcmeError::Other(
                    "the authority did not answer in time".into(),
                )),
            }
        })
    }
}

/// Notes what instant-acme leaves out.
fn response_facts(parts: &http::response::Parts) {
    let retry_after = parts.headers.get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| retry_after_of(value, SystemTime::now()));
    let status = Some(parts.status.as_u16());
    let _ = LATEST_RESPONSE.try_with(|response_facts| {
        response_facts.set(ResponseFacts {
            status,
            retry_after,
        });
    });
    if parts.status == StatusCode::TOO_MANY_REQUESTS {
        tracing::debug!(?retry_after, "the authority limits us");
    }
}

/// The time that a Retry-After asks for: seconds, or a date (RFC 9110 section 10.2.3).
fn retry_after_of(value: &HeaderValue, now: SystemTime) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// The host and the path of a URL, which is one of `https` (RFC 8555 section 6.1).
fn place(url: &Uri) -> Result<(Authority, PathAndQuery), Failed> {
    let is_https = url.scheme_str() == Some("https");
    let authority = url.authority().filter(|_| is_https);
    let authority = authority.ok_or_else(|| format!("`{url}` is no URL of https"))?;
    let path = url.path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    Ok((authority.clone(), path))
}

fn root_store(roots: Option<&Path>) -> Result<RootCertStore, Error> {
    let (certificates, place) = match roots {
        None => {
            let found = rustls_native_certs::load_native_certs();
            (found.certs, "the system's store".to_owned())
        }
        Some(path) => {
            let text = read_file(path).map_err(pem::Error::Io);
            let read = text.and_then(|(text, _)| CertificateDer::pem_slice_iter(&text).collect());
            let read = read.map_err(|source| Error::Roots {
                path: path.into(),
                source,
            })?;
            (read, format!("`{}`", path.display()))
        }
    };
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(certificates);
    match store.is_empty() {
        true => Err(Error::NoRoots { place }),
        false => Ok(store),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_testkit::SilentAddress;
    use std::time::Instant;
    use tokio::net::{TcpListener, TcpSocket};

    #[tokio::test]
    async fn an_address_of_an_authority_that_does_not_answer_costs_little() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        let silent = SilentAddress::new(([127, 0, 0, 1], 0)).unwrap();
        let gone = silent.address();
        let began = Instant::now();
        let stream = connect_to_first([gone, there].into_iter()).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), there);
        assert!(began.elapsed() < TIMEOUT / 2);
        let nobody = TcpSocket::new_v4().unwrap();
        nobody.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let nobody = nobody.local_addr().map(|it| [it, it]).unwrap();
        let refused = connect_to_first(nobody.into_iter()).await;
        assert_eq!(
            refused.unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        let none = connect_to_first(std::iter::empty()).await;
        assert_eq!(none.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 60);
        for (text, expected) in [
            ("0", Some(0)),
            ("120", Some(120)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:40:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
        ] {
            let found = retry_after_of(&HeaderValue::from_static(text), now);
            assert_eq!(found, expected.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn nothing_but_https_is_asked() {
        let found = place(&Uri::from_static("https://ca.example:14000/dir?a")).unwrap();
        assert_eq!(
            (found.0.as_str(), found.1.as_str()),
            ("ca.example:14000", "/dir?a")
        );
        for url in ["http://ca.example/dir", "/dir", "ca.example:443"] {
            assert!(place(&Uri::from_static(url)).is_err(), "{url}");
        }
    }

    #[test]
    fn roots_are_of_a_file_that_has_some() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("roots.pem");
        assert!(matches!(root_store(Some(&path)), Err(Error::Roots { .. })));
        std::fs::write(&path, "nothing").unwrap();
        assert!(matches!(
            root_store(Some(&path)),
            Err(Error::NoRoots { .. })
        ));
        let made = rcgen::generate_simple_self_signed(["ca.example".to_owned()]).unwrap();
        std::fs::write(&path, made.cert.pem()).unwrap();
        assert_eq!(root_store(Some(&path)).unwrap().len(), 1);
    }
}
