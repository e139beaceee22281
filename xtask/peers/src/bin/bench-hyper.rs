//! A folder from memory over HTTP/2, by hyper: the library baseline of `cargo xtask bench http2`.
//!
//! As good as the libraries allow without an engine of one's own: a tokio current-thread runtime and
//! a SO_REUSEPORT listener a worker, bodies shared and not copied. Left out: everything that a
//! server on the open internet needs beside (limits, logs, conditional requests).

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::Parser;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use socket2::{Domain, Socket, Type};
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Number of streams at a time, above what any workload asks for.
const MAX_CONCURRENT_STREAMS: u32 = 1000;

const BACKLOG: i32 = 4096;

/// Serve the files of a folder from memory over HTTP/2 on 127.0.0.1.
#[derive(Parser)]
struct Arguments {
    /// The folder, read once at the start.
    root: PathBuf,
    #[arg(long)]
    port: u16,
    #[arg(long, default_value_t = NonZeroUsize::MIN)]
    workers: NonZeroUsize,
    /// Certificate chain, PEM; without it clear text by prior knowledge.
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of that certificate, PEM.
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
}

/// The files by request path.
type Site = HashMap<String, Bytes>;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let site = Arc::new(read(&arguments.root)?);
    let tls = match (&arguments.cert, &arguments.key) {
        (Some(cert), Some(key)) => {
            Some(TlsAcceptor::from(Arc::new(bench_peers::server(cert, key)?)))
        }
        _ => None,
    };
    let spawn = |_| -> Result<_> {
        let listener = listen(arguments.port)?;
        let (site, tls) = (Arc::clone(&site), tls.clone());
        Ok(std::thread::spawn(move || {
            work(listener, &site, tls.as_ref())
        }))
    };
    let workers: Vec<_> = (0..arguments.workers.get())
        .map(spawn)
        .collect::<Result<_>>()?;
    for worker in workers {
        worker.join().expect("workers don't panic")?;
    }
    Ok(())
}

fn read(root: &Path) -> Result<Site> {
    let mut site = Site::new();
    let entries =
        std::fs::read_dir(root).with_context(|| format!("cannot read {}", root.display()))?;
    for entry in entries {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            let bytes = std::fs::read(&path)?;
            site.insert(format!("/{}", name.to_string_lossy()), bytes.into());
        }
    }
    Ok(site)
}

fn listen(port: u16) -> Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn work(
    listener: std::net::TcpListener,
    site: &Arc<Site>,
    tls: Option<&TlsAcceptor>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            // What a client does wrong ends its connection and nothing else.
            drop(tokio::spawn(serve(stream, Arc::clone(site), tls.cloned())));
        }
    })
}

async fn serve(stream: TcpStream, site: Arc<Site>, tls: Option<TlsAcceptor>) -> Result<()> {
    stream.set_nodelay(true)?;
    let service = service_fn(move |request| {
        let answer = answer(&site, &request);
        async { Ok::<_, Infallible>(answer) }
    });
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.max_concurrent_streams(MAX_CONCURRENT_STREAMS);
    match tls {
        Some(tls) => {
            let io = TokioIo::new(tls.accept(stream).await?);
            http.serve_connection(io, service).await?;
        }
        None => {
            let io = TokioIo::new(stream);
            http.serve_connection(io, service).await?;
        }
    }
    Ok(())
}

fn answer(site: &Site, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let Some(bytes) = site.get(request.uri().path()) else {
        let mut response = Response::default();
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    let mut response = Response::new(Full::new(bytes.clone()));
    let kind = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
