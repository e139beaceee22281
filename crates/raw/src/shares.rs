//! Shares of a transport's cost: each part switched off in turn, and what that saves.
//!
//! Servers and clients run in this process over loopback. Every round measures every variant once, in
//! an order that moves on from round to round, so that what disturbs the machine disturbs all alike;
//! what is compared is compared within its round.
//!
//! A share of a transport's processor time, of both ends together:
//! - *encryption*: 1 − the time without a cipher / the time with it.
//! - *copies*: payload's way into the kernel and out of it. What plain TCP saves without them, in
//!   seconds for the same bytes, over the transport's time. Copies within the program are not in it.
//! - *system calls*: calls × the time of a call that does nothing. What the kernel does within the
//!   calls belongs to the other shares.
//! - *protocol*: what is left: the kernel's TCP or UDP and IP, and QUIC's or TLS's own work.
//!
//! A share is told only where the measured variants bear it out ([`separate`]): its interval over the rounds
//! lies between 0 and 100 %, and what the kernel is said to do (copies and calls) fits into the time that it
//! was seen to take. Else it is "not separable here", and so is what is left.

mod separate;
mod variant;

use crate::client::send_with;
use crate::costs::{Cpu, Path};
use crate::error::Error;
use crate::options::{Direction, Options, ServerOptions, Sizes, TransportKind};
use crate::report::Run;
use crate::server::Server;
use crate::{StopHandle, sys};
use altway_stats::summarize;
use separate::Parts;
pub use separate::Separated;
use serde::Serialize;
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::thread::JoinHandle;
use variant::Settings;
pub use variant::Variant;

/// Payload of the transfer before the first round, with which connections' code and memory warm up.
const WARM_UP_BYTES: u64 = 1_000_000;

/// Settings of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharesOptions {
    /// Payload of each transfer, in bytes. Default 10⁸.
    pub size: u64,
    /// The end that sends. Default down.
    pub direction: Direction,
    /// Rounds, each of one transfer over each variant (four over plain TCP, which is done so soon that
    /// one says little). Default 7; with fewer than 6 no share has an interval, and none is told.
    pub rounds: NonZeroUsize,
}

impl Default for SharesOptions {
    fn default() -> Self {
        Self {
            size: 100_000_000,
            direction: Direction::Down,
            rounds: NonZeroUsize::new(7).expect("seven is not zero"),
        }
    }
}

/// Results of the measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shares {
    /// Payload of each transfer.
    pub size_bytes: u64,
    /// Transfers of each variant.
    pub rounds: usize,
    /// Time of a system call that does nothing, in nanoseconds.
    pub empty_call_ns: f64,
    /// Every variant, in the order of [`Variant::ALL`].
    pub variants: Vec<Measured>,
    /// Shares of the time of each transport.
    pub shares: Vec<Share>,
    /// QUIC's rate as it is for 100 of TLS over TCP.
    pub quic_of_tls_percent: Spread,
    /// The same with packets as large as loopback carries, which is what TCP sends there.
    pub quic_large_of_tls_percent: Spread,
}

/// The figures of one variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// The variant.
    pub variant: Variant,
    /// The transport.
    pub over: TransportKind,
    /// 10⁶ bytes of payload a second.
    pub mb_per_s: Spread,
    /// Processor seconds of both ends for 10⁹ bytes of payload.
    pub cpu_s_per_gb: Spread,
    /// The same for 100 of the transport as it is.
    pub cpu_percent: Spread,
    /// Share of it that the kernel spent, as far as its clock ticks can tell.
    pub kernel_percent: Spread,
    /// System calls of both ends for 10⁶ bytes of payload.
    pub calls_per_mb: Spread,
    /// Packets that both ends sent for one transfer.
    pub packets: Spread,
    /// Retransmissions among them.
    pub retransmissions: Spread,
}

/// A part of a transport's cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Share {
    /// The transport.
    pub over: TransportKind,
    /// encryption, copies, system calls or protocol.
    pub part: &'static str,
    /// Share of the processor time of both ends, with its interval; `None` where it can't be told.
    pub percent: Option<Separated>,
    /// Reason why it can't be told; empty where it is.
    pub obstacle: &'static str,
}

/// A figure over all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        let summary = summarize(values).expect("there are rounds, and their figures are finite");
        Self {
            median: summary.median,
            min: summary.min,
            max: summary.max,
        }
    }
}

/// Measures all variants; calls `on_progress` before each transfer with its round, from 1 on.
///
/// # Errors
/// A server can't be started, or a transfer fails: over loopback that is a fault of the machine's.
pub fn shares(
    options: &SharesOptions,
    mut on_progress: impl FnMut(usize, Variant),
) -> Result<Shares, Error> {
    let settings = Settings::new()?;
    let pairs = Variant::ALL.map(|variant| Pair::start(variant, &settings));
    let pairs = pairs.into_iter().collect::<Result<Vec<_>, _>>()?;
    for pair in &pairs {
        pair.run(Sizes::bulk(options.direction, WARM_UP_BYTES))?;
    }
    let mut rounds = Vec::new();
    for round in 0..options.rounds.get() {
        let mut runs: Vec<Option<Run>> = vec![None; pairs.len()];
        for turn in 0..pairs.len() {
            let index = (round + turn) % pairs.len();
            on_progress(round + 1, pairs[index].variant);
            runs[index] = Some(pairs[index].run(Sizes::bulk(options.direction, options.size))?);
        }
        rounds.push(Round(runs.into_iter().flatten().collect()));
    }
    Ok(evaluate(options.size, &rounds, sys::empty_call_ns()))
}

/// A server with a variant's settings, and what its clients need.
struct Pair<'a> {
    variant: Variant,
    settings: &'a Settings,
    port: u16,
    stop: StopHandle,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl<'a> Pair<'a> {
    fn start(variant: Variant, settings: &'a Settings) -> Result<Self, Error> {
        let mut options = ServerOptions::new(
            Some(Ipv4Addr::LOCALHOST.into()),
            0,
            Default::default(),
            Default::default(),
        );
        options.tuning = variant.tuning();
        options.tcp_threads = NonZeroUsize::MIN;
        let server = Server::bind_with(&options, settings.server(variant)?)?;
        Ok(Self {
            variant,
            settings,
            port: server.local_addr().port(),
            stop: server.stop_handle(),
            thread: Some(std::thread::spawn(move || server.run())),
        })
    }

    fn run(&self, sizes: Sizes) -> Result<Run, Error> {
        let over = self.variant.over();
        let host = Ipv4Addr::LOCALHOST.to_string();
        let mut options = Options::new(host, self.port, over, sizes);
        options.tuning = self.variant.tuning();
        options.requests = self.variant.transfers();
        send_with(&options, Some(&self.settings.client(self.variant)?))
    }
}

impl Drop for Pair<'_> {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            // What the server could not do, its clients have told.
            let _ = thread.join();
        }
    }
}

/// A round: a transfer over each variant, in the order of [`Variant::ALL`].
#[derive(Debug, Clone)]
struct Round(Vec<Run>);

impl Round {
    fn run(&self, variant: Variant) -> &Run {
        &self.0[variant as usize]
    }

    fn cpu(&self, variant: Variant) -> f64 {
        self.run(variant).cpu_s_per_gb().unwrap_or_default()
    }

    fn calls_per_mb(&self, variant: Variant) -> f64 {
        let run = self.run(variant);
        let sides = [run.client.calls_per_mb, run.server.calls_per_mb];
        sides.into_iter().flatten().sum()
    }

    fn kernel_percent(&self, variant: Variant) -> f64 {
        let run = self.run(variant);
        let cpu = [run.client.costs.cpu, run.server.costs.cpu];
        let sum = |time: fn(&Cpu) -> u64| cpu.iter().map(time).sum::<u64>() as f64;
        100.0 * sum(|cpu| cpu.system_us) / sum(Cpu::total_us)
    }

    /// The share of `over`'s time that each part would have, in percent, whether that can be or not.
    fn parts(&self, over: TransportKind, empty_call_ns: f64) -> Parts {
        let (base, bare) = match over {
            TransportKind::Tcp => (Variant::Tcp, Variant::Tcp),
            TransportKind::Tls => (Variant::Tls, Variant::TlsUnencrypted),
            TransportKind::Quic => (Variant::Quic, Variant::QuicUnencrypted),
        };
        let whole = self.cpu(base);
        let percent = |seconds: f64| 100.0 * seconds / whole;
        let encryption = percent(whole - self.cpu(bare));
        let copies = percent(self.cpu(Variant::Tcp) - self.cpu(Variant::TcpUncopied));
        // Calls for 10⁶ bytes × ns = seconds for 10⁹ bytes, times 10⁻⁶.
        let calls = percent(self.calls_per_mb(base) * empty_call_ns * 1e-6);
        Parts {
            encryption,
            copies,
            calls,
            kernel: self.kernel_percent(base),
        }
    }
}

fn evaluate(size: u64, rounds: &[Round], empty_call_ns: f64) -> Shares {
    let spread =
        |figure: &dyn Fn(&Round) -> f64| Spread::of(&rounds.iter().map(figure).collect::<Vec<_>>());
    let rate = |round: &Round, variant| round.run(variant).mb_per_s.unwrap_or_default();
    let of_tls =
        |variant| spread(&|round: &Round| 100.0 * rate(round, variant) / rate(round, Variant::Tls));
    let mut shares = Vec::new();
    for over in TransportKind::ALL {
        let parts = rounds.iter().map(|round| round.parts(over, empty_call_ns));
        shares.extend(separate::separate(over, &parts.collect::<Vec<_>>()));
    }
    Shares {
        size_bytes: size,
        rounds: rounds.len(),
        empty_call_ns,
        variants: Variant::ALL
            .map(|variant| measured(variant, &spread))
            .into(),
        shares,
        quic_of_tls_percent: of_tls(Variant::Quic),
        quic_large_of_tls_percent: of_tls(Variant::QuicMtu65507),
    }
}

fn measured(variant: Variant, spread: &impl Fn(&dyn Fn(&Round) -> f64) -> Spread) -> Measured {
    let paths = |round: &Round, count: fn(&Path) -> u64| -> f64 {
        let run = round.run(variant);
        let paths = [&run.client.costs.path, &run.server.costs.path];
        let sum: u64 = paths.into_iter().flatten().map(count).sum();
        sum as f64 / run.requests as f64
    };
    Measured {
        variant,
        over: variant.over(),
        mb_per_s: spread(&|round| round.run(variant).mb_per_s.unwrap_or_default()),
        cpu_s_per_gb: spread(&|round| round.cpu(variant)),
        cpu_percent: spread(&|round| 100.0 * round.cpu(variant) / round.cpu(variant.base())),
        kernel_percent: spread(&|round| round.kernel_percent(variant)),
        calls_per_mb: spread(&|round| round.calls_per_mb(variant)),
        packets: spread(&|round| paths(round, |path| path.packets_sent)),
        retransmissions: spread(&|round| paths(round, |path| path.retransmissions)),
    }
}

#[cfg(test)]
mod tests;
