//! HTTP/2 connections over TLS that have made one request and then stay open: what an idle client
//! costs a server's memory.
//!
//! Prints `ready N` when all N are open, and closes them when its standard input ends. Left to
//! `cargo xtask bench`: reading the server's memory meanwhile.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use clap::Parser;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// Hand-shakes at the same time: far below what any server's accept queue holds.
const AT_ONCE: usize = 64;

/// Open HTTP/2 connections over TLS to 127.0.0.1 and keep them idle.
#[derive(Parser)]
struct Arguments {
    /// The path of the one request on each.
    path: String,
    #[arg(long)]
    port: u16,
    #[arg(long)]
    connections: usize,
    /// Connect from so many addresses of 127.0.0.0/8, in turn. Default: from the one that the system takes.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=MOST_ADDRESSES))]
    addresses: Option<u32>,
    /// The authority that signed the server's certificate, PEM.
    #[arg(long)]
    authority: PathBuf,
}

/// Addresses from [`FIRST_ADDRESS`] on that are loopback's.
const MOST_ADDRESSES: i64 = 1 << 20;

const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 1);

type Client = SendRequest<Empty<Bytes>>;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let open = open_all(&arguments).await?;
        say_ready(open.len())?;
        // The runtime goes on meanwhile, so that a server's pings are answered.
        let wait = || std::io::stdin().read_to_end(&mut Vec::new());
        tokio::task::spawn_blocking(wait).await??;
        Ok(())
    })
}

#[expect(
    clippy::print_stdout,
    reason = "standard output is the face to the bench"
)]
fn say_ready(open: usize) -> Result<()> {
    println!("ready {open}");
    Ok(std::io::stdout().flush()?)
}

async fn open_all(arguments: &Arguments) -> Result<Vec<Client>> {
    let tls = TlsConnector::from(Arc::new(bench_peers::client(&arguments.authority)?));
    let mut opening = JoinSet::new();
    let mut open = Vec::with_capacity(arguments.connections);
    let mut addresses = (0..arguments.addresses.unwrap_or(0)).cycle();
    for _ in 0..arguments.connections {
        if opening.len() == AT_ONCE {
            open.push(next(&mut opening).await?);
        }
        let from = addresses.next().map(address);
        let path = arguments.path.clone();
        opening.spawn(connect(arguments.port, path, from, tls.clone()));
    }
    while !opening.is_empty() {
        open.push(next(&mut opening).await?);
    }
    Ok(open)
}

async fn next(opening: &mut JoinSet<Result<Client>>) -> Result<Client> {
    opening.join_next().await.context("nothing is opening")??
}

fn address(ordinal: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(FIRST_ADDRESS) + ordinal)
}

async fn connect(
    port: u16,
    path: String,
    from: Option<Ipv4Addr>,
    tls: TlsConnector,
) -> Result<Client> {
    let socket = TcpSocket::new_v4()?;
    if let Some(from) = from {
        socket.bind((from, 0).into())?;
    }
    let stream = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("localhost")?;
    let io = TokioIo::new(tls.connect(name, stream).await?);
    let (mut client, connection) = http2::handshake(TokioExecutor::new(), io).await?;
    drop(tokio::spawn(connection));
    let uri = format!("https://localhost:{port}{path}");
    let request = Request::get(uri).body(Empty::new())?;
    let response = client.send_request(request).await?;
    ensure!(response.status().is_success(), "{}", response.status());
    response.into_body().collect().await?;
    Ok(client)
}
