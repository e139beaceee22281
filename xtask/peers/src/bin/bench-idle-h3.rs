//! HTTP/3 connections that have made one request and then stay open: what an idle client costs a
//! server's memory.
//!
//! Prints `ready N` when all N are open, and ends when its standard input does; as soon as one of them
//! is closed it fails. All of them share a socket, as they are told apart by their IDs. Left to
//! `cargo xtask bench`: reading the server's memory meanwhile.

use altway_http3::{ClientConfig, ConnectionHandle, Endpoint, Event, Received, StreamId};
use altway_socket::{SendOutcome, Settings, Timer, Udp, WatchedUdp};
use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use http::Request;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Hand-shakes at the same time. quic-go refuses connections when 32 wait to be accepted.
const AT_ONCE: usize = 16;

/// Idle time-out of the client, longer than any server grants: the server's time-out is the one
/// that counts.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Bytes of answers that the kernel holds until they are read.
const RECEIVE_BUFFER: usize = 8 << 20;

/// Open HTTP/3 connections to 127.0.0.1 and keep them idle.
#[derive(Parser)]
struct Arguments {
    /// The path of the one request on each.
    path: String,
    #[arg(long)]
    port: u16,
    #[arg(long)]
    connections: usize,
    /// The authority that signed the server's certificate, PEM.
    #[arg(long)]
    authority: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut clients = Clients::new(&arguments)?;
        while clients.idle < clients.wanted {
            clients.turn().await?;
        }
        say_ready(clients.idle)?;
        // The connections go on meanwhile, so that a server's pings are answered.
        let end = || std::io::stdin().read_to_end(&mut Vec::new());
        let mut end = tokio::task::spawn_blocking(end);
        loop {
            tokio::select! {
                ended = &mut end => return Ok(ended?.map(drop)?),
                turn = clients.turn() => turn?,
            }
        }
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

/// All connections, and what drives them.
struct Clients {
    endpoint: Endpoint,
    udp: Udp<WatchedUdp>,
    timer: Timer,
    server: SocketAddr,
    request: Request<()>,
    wanted: usize,
    begun: usize,
    /// Number of connections whose request was answered.
    idle: usize,
}

impl Clients {
    fn new(arguments: &Arguments) -> Result<Self> {
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
        let uri = format!("https://localhost:{}{}", arguments.port, arguments.path);
        Ok(Self {
            endpoint: endpoint(&arguments.authority, arguments.connections)?,
            udp: connect(server)?,
            timer: Timer::new()?,
            server,
            request: Request::get(uri).body(())?,
            wanted: arguments.connections,
            begun: 0,
            idle: 0,
        })
    }

    /// Handles events and opens connections as far as possible, then waits for datagrams or
    /// time-outs. May be dropped while it waits.
    async fn turn(&mut self) -> Result<()> {
        while let Some((connection, event)) = self.endpoint.poll_event() {
            self.on_event(connection, event)?;
        }
        while self.begun < self.wanted && self.begun - self.idle < AT_ONCE {
            let now = Instant::now();
            self.endpoint.connect(now, self.server, "localhost", ())?;
            self.begun += 1;
        }
        let now = Instant::now();
        let progress = self
            .udp
            .send(|batch| self.endpoint.poll_transmit(now, batch))?;
        self.timer.arm(self.endpoint.poll_timeout(), now)?;
        let socket = self.udp.socket();
        tokio::select! {
            ready = socket.readable() => ready?,
            ready = socket.writable(), if progress == SendOutcome::Blocked => ready?,
            () = self.timer.expired() => {}
            () = tokio::task::yield_now(), if progress == SendOutcome::More => {}
        }
        let now = Instant::now();
        self.udp
            .receive(|datagram| self.endpoint.handle_datagram(now, datagram))?;
        self.endpoint.handle_timeout(now);
        Ok(())
    }

    fn on_event(&mut self, connection: ConnectionHandle, event: Event) -> Result<()> {
        match event {
            Event::Connected => {
                self.endpoint.with(connection, |it, quic| {
                    it.send_request(quic, &self.request, true)
                })?;
            }
            Event::Response { head, end, .. } => {
                ensure!(head.status().is_success(), "{}", head.status());
                self.idle += usize::from(end);
            }
            Event::Readable { stream } => self.read(connection, stream)?,
            Event::StreamReset { code, .. } => bail!("the request was reset: {code}"),
            Event::Closed { reason } => bail!("a connection was closed: {reason}"),
            _ => {}
        }
        Ok(())
    }

    fn read(&mut self, connection: ConnectionHandle, stream: StreamId) -> Result<()> {
        loop {
            match self
                .endpoint
                .with(connection, |it, quic| it.recv_data(quic, stream))?
            {
                Received::Data(_) | Received::Trailers(_) => {}
                Received::Pending => return Ok(()),
                Received::End => {
                    self.idle += 1;
                    return Ok(());
                }
            }
        }
    }
}

fn endpoint(authority: &Path, connections: usize) -> Result<Endpoint> {
    let mut config = ClientConfig::new(Arc::new(bench_peers::client(authority)?));
    config.quic.limits.max_connections = connections.max(1);
    config.quic.transport.idle_timeout = IDLE_TIMEOUT;
    // Who asks for so little needs no packets larger than a network's, and no probes for them.
    config.quic.transport.max_udp_payload = config.quic.transport.mtu_upper_bound;
    let mut seed = [0; 32];
    let filled = bench_peers::provider().secure_random.fill(&mut seed);
    filled.ok().context("no random numbers")?;
    Ok(<Endpoint>::client(&config, seed)?)
}

fn connect(server: SocketAddr) -> Result<Udp<WatchedUdp>> {
    let socket = WatchedUdp::connect(server, RECEIVE_BUFFER)?;
    Ok(Udp::new(socket, Settings::default())?)
}
