//! Both ends of the packets that `cargo xtask bench link` sends over a link: numbered and stamped
//! datagrams at a pace, or a stream of TCP. The server sends; the client asks, and prints what came
//! as JSON.
//!
//! Both ends read the same monotonic clock, so that the time between a datagram's stamps is its delay,
//! whatever any link says of itself. Left to the bench: the link, the processors, and the verdict.

mod clock;
mod datagrams;
mod receiver;
mod stream;

use anyhow::{Context, Result};
use clap::Parser;
use serde::Serialize;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::mpsc;
use std::thread;

/// Send datagrams or a stream over a link, and measure what comes.
#[derive(Parser)]
enum Arguments {
    /// Send what the first client asks for, then end.
    Serve {
        /// Port of UDP and of TCP.
        #[arg(long, default_value_t = 9_000)]
        port: u16,
    },
    /// Ask for datagrams, and print what became of them.
    Datagrams {
        server: SocketAddr,
        #[command(flatten)]
        wanted: datagrams::RunRequest,
        /// The delay that they should have, µs.
        #[arg(long, default_value_t = 0)]
        delay_us: u64,
    },
    /// Ask for a stream of TCP with Cubic, and print how fast it came.
    Stream {
        server: SocketAddr,
        /// Time for which it is not counted yet, ms.
        #[arg(long, default_value_t = 1_000)]
        warm_up_ms: u64,
        /// Time for which it is counted then, ms.
        #[arg(long, default_value_t = 3_000)]
        for_ms: u64,
    },
}

fn main() -> Result<()> {
    match Arguments::parse() {
        Arguments::Serve { port } => serve(port),
        Arguments::Datagrams {
            server,
            wanted,
            delay_us,
        } => print(&receiver::ask(server, &wanted, delay_us * 1_000)?),
        Arguments::Stream {
            server,
            warm_up_ms,
            for_ms,
        } => print(&stream::ask(server, warm_up_ms, for_ms)?),
    }
}

/// Waits for either question at once, and answers the first.
fn serve(port: u16) -> Result<()> {
    let datagrams = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
    let stream = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
    let (done, answered) = mpsc::channel();
    let also_done = done.clone();
    thread::spawn(move || done.send(datagrams::serve(&datagrams)));
    thread::spawn(move || also_done.send(stream::serve(&stream)));
    answered.recv().context("both threads have ended")?
}

#[expect(
    clippy::print_stdout,
    reason = "standard output is the face to the bench"
)]
fn print(report: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(report)?);
    Ok(std::io::stdout().flush()?)
}
