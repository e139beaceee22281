//! TCP, with TLS or in clear text: the way to a connection over which `h1` or `h2` speak.

use crate::error::Failure;
use crate::run::{Due, Job, Run};
use crate::send_permits::SendPermit;
use crate::slot::Opening;
use crate::{h1, h2, tls};
use altway_record::Protocol;
use rustls::pki_types::ServerName;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Time that a connection may take to say goodbye (GOAWAY, close_notify, FIN).
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_millis(250);

/// A connection's bytes, whatever carries them.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// Opens a connection for the request of `opening` and keeps its streams busy until it closes or
/// the permits run out.
///
/// # Errors
/// The connection could not be opened; nothing has been recorded.
pub(crate) async fn serve(run: &Run<'_>, opening: Opening) -> Result<(), Failure> {
    let job = run.job;
    let deadline = opening.begun + job.timeout;
    let opened = match run.take_opened() {
        Some(opened) => opened,
        None => {
            let opened = tokio::time::timeout_at(deadline.into(), open(job, &opening)).await;
            opened.map_err(|_| Failure::TimedOut(job.timeout))??
        }
    };
    let first = Due {
        permit: opening.permit,
        connect: Some(opened.took),
        deadline,
    };
    let wire = opened.wire;
    if job.protocol_for(opening.permit) == Protocol::H1 {
        return h1::serve(run, opening.connection, wire, first).await;
    }
    run.on_connected();
    run.on_http2(true);
    h2::serve(run, opening.connection, wire, first).await;
    run.on_http2(false);
    Ok(())
}

/// A connection that requests can be sent on.
pub(crate) struct Opened {
    wire: Box<dyn Wire>,
    /// Time until TLS (or TCP, without) was through.
    took: Duration,
}

/// Makes sure that there is a connection for the request of `opening`, which was to go over QUIC: begins one after `delay`,
/// unless there is one.
///
/// # Errors
/// The connection can't be opened.
pub(crate) async fn open_after(
    run: &Run<'_>,
    opening: &Opening,
    delay: Duration,
) -> Result<(), Failure> {
    tokio::time::sleep(delay).await;
    if run.has_http2() {
        return Ok(());
    }
    let route = Some(Protocol::H2);
    let permit = SendPermit {
        route,
        ..opening.permit
    };
    let opened = open(run.job, &Opening { permit, ..*opening }).await?;
    run.keep_opened(opened);
    Ok(())
}

/// TCP, TLS, ALPN check.
async fn open(job: &Job, opening: &Opening) -> Result<Opened, Failure> {
    let permit = opening.permit;
    let tcp = dial(job).await.map_err(Failure::Connect)?;
    let wire: Box<dyn Wire> = match job.tls_for(permit) {
        None => Box::new(tcp),
        Some(config) => {
            let asked = job.protocol_for(permit);
            Box::new(secure(job, asked, &TlsConnector::from(config), tcp).await?)
        }
    };
    Ok(Opened {
        wire,
        took: opening.begun.elapsed(),
    })
}

/// The first of the addresses that answers.
async fn dial(job: &Job) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(job.addresses.as_slice()).await?;
    // A request is one small write: waiting for more to send with it would only delay it.
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn secure(
    job: &Job,
    asked: Protocol,
    connector: &TlsConnector,
    tcp: TcpStream,
) -> Result<TlsStream<TcpStream>, Failure> {
    let name = ServerName::try_from(job.host.clone())
        .map_err(|error| Failure::Tls(io::Error::other(error)))?;
    let stream = connector.connect(name, tcp).await.map_err(Failure::Tls)?;
    let found = stream.get_ref().1.alpn_protocol();
    match (asked, found) {
        // A server that knows no ALPN speaks HTTP/1.1.
        (Protocol::H1, None) => Ok(stream),
        (asked, Some(found)) if found == tls::alpn(asked).as_bytes() => Ok(stream),
        (asked, found) => Err(Failure::OtherProtocol {
            asked,
            found: found.map(|name| String::from_utf8_lossy(name).into_owned()),
        }),
    }
}
