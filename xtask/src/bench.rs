//! `cargo xtask bench`: altway against its peers, or itself, on this machine, in the same rounds.
//!
//! A machine is never as quiet or as fast as yesterday, so no figure here stands alone: the servers
//! take turns round by round, and only ratios taken in the same round are compared with a bar. The
//! cost that counts is the server's CPU time; requests per second mostly tell how fast the load
//! client is. Left to the reader: whether a missed bar matters; a bench never fails for one.

mod altway_load;
mod arguments;
mod bars;
mod build;
mod client;
mod config;
mod contender;
mod cores;
mod cpu;
mod experiment;
mod folder;
mod h2load;
mod host;
mod http2;
mod http3;
mod idle;
mod install;
mod latency_table;
mod link;
mod network;
mod origin;
mod origins;
mod origins_table;
mod placement;
mod process;
mod proxy;
mod raw;
mod record;
mod run;
mod server;
mod shares;
mod site;
mod sockets;
mod spread;
mod spread_table;
mod summary;
mod table;
mod thread_table;
mod workload;

use anyhow::Result;
use clap::Subcommand;

/// Benches that can be run.
#[derive(Subcommand)]
pub(crate) enum Bench {
    Http2(http2::Arguments),
    Http3(http3::Arguments),
    Link(link::Arguments),
    Origins(origins::Arguments),
    Proxy(proxy::Arguments),
    Raw(raw::Arguments),
    Spread(spread::Arguments),
    Table(thread_table::Arguments),
}

pub(crate) fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Http2(arguments) => http2::run(arguments),
        Bench::Http3(arguments) => http3::run(arguments),
        Bench::Link(arguments) => link::run(arguments),
        Bench::Origins(arguments) => origins::run(arguments),
        Bench::Proxy(arguments) => proxy::run(arguments),
        Bench::Raw(arguments) => raw::run(arguments),
        Bench::Spread(arguments) => spread::run(arguments),
        Bench::Table(arguments) => thread_table::run(arguments),
    }
}
