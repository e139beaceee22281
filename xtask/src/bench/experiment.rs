//! The rounds: which server is measured when.
//!
//! For each workload, transport and number of workers all servers are started afresh (so that
//! memory is this workload's), warmed up, and then measured round by round in an order that is
//! shuffled for each round. Servers that are not being measured are idle.

use super::contender::Contender;
use super::cores::Cores;
use super::cpu;
use super::network::Network;
use super::placement::Placements;
use super::process::Stop;
use super::record::{Observation, Record, Turn};
use super::server::{Server, ServerSetup};
use super::workload::{Cell, Load, Transport, Workload};
use super::{client, idle, shares};
use crate::shell;
use anyhow::Result;
use std::time::Duration;

/// A warm-up has this fraction of a round's requests.
const WARM_UP_DIVISOR: u64 = 10;

/// Time from the client's end until the server's CPU time is read, so that closing the connections
/// counts with the round.
const SETTLE: Duration = Duration::from_millis(50);

/// QUIC remembers a closed connection for a while (RFC 9000 section 10.2).
const QUIC_SETTLE: Duration = Duration::from_millis(500);

/// Descriptors of a connection in the client: a socket, and over HTTP/3 a timer.
const DESCRIPTORS: u64 = 2;

/// The workloads, servers and rounds that are measured.
#[derive(Debug, Clone)]
pub(crate) struct Experiment {
    pub(crate) cells: Vec<Cell>,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) rounds: u32,
    /// Each round has this fraction of its workload's requests.
    pub(crate) divisor: u64,
    pub(crate) seed: u64,
    /// Open files that a process may have.
    pub(crate) file_limit: u64,
    /// Cores that may be used.
    pub(crate) cores: Vec<usize>,
    /// True to look, after each round, at how a server's workers share as many connections.
    pub(crate) looks_at_shares: bool,
}

/// Every cell that the choices make: idle connections not in clear text, and idle clients of a proxy over HTTP/2
/// alone, for those of HTTP/3 would all come from one address.
pub(crate) fn cells(
    workers: &[usize],
    workloads: &[Workload],
    transports: &[Transport],
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &workers in workers {
        for &workload in workloads {
            let possible = |transport: &&Transport| match workload {
                Workload::Idle => **transport != Transport::H2c,
                Workload::ProxyIdle => **transport == Transport::Tls,
                _ => true,
            };
            cells.extend(transports.iter().filter(possible).map(|&transport| Cell {
                workers,
                workload,
                transport,
            }));
        }
    }
    cells
}

impl Experiment {
    /// Measures all cells, handing out each record as it comes; ends early when asked to stop.
    ///
    /// # Errors
    /// A server doesn't start, or a record can't be kept.
    pub(crate) fn run(
        &self,
        place: ServerSetup,
        stop: &Stop,
        mut keep: impl FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        for cell in &self.cells {
            let result = if cell.workload.is_idle() {
                self.idle(*cell, place, stop, &mut keep)
            } else {
                self.rounds(*cell, place, stop, &mut random, &mut keep)
            };
            if stop.is_asked_for() {
                return Ok(());
            }
            result?;
        }
        Ok(())
    }

    /// The load of a round in `workload`.
    pub(crate) fn load(&self, workload: Workload) -> Load {
        let load = workload.load();
        match workload {
            Workload::Idle | Workload::Storm => idle::allowed(load, self.file_limit),
            // HAProxy begins only where it may have two descriptors for each.
            Workload::ProxyIdle => idle::allowed(load, self.file_limit / DESCRIPTORS),
            Workload::Ramp => idle::allowed(load, self.file_limit / DESCRIPTORS),
            _ => load.divided(self.divisor),
        }
    }

    fn rounds(
        &self,
        cell: Cell,
        place: ServerSetup,
        stop: &Stop,
        random: &mut fastrand::Rng,
        keep: &mut impl FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        let placements = self.placements(cell)?;
        let load = self.load(cell.workload);
        let origin = origin_of(cell, place, &placements, stop)?;
        let start =
            |contender| Server::start(contender, origin.as_ref(), place, cell, &placements, stop);
        let mut servers: Vec<_> = self.taking_part(cell).map(start).collect::<Result<_>>()?;
        for server in &servers {
            let warm_up = load.divided(WARM_UP_DIVISOR);
            client::run(warm_up, server, place, placements.client(), stop)?;
            server.empty_log()?;
        }
        for round in 1..=self.rounds {
            shell::say(&format!("{cell}: round {round} of {}", self.rounds));
            random.shuffle(&mut servers);
            for (turn, server) in (1..).zip(&servers) {
                let seen = self.observe(cell, server, place, &placements, stop);
                server.empty_log()?;
                let server = server.contender;
                let turn = Turn {
                    cell,
                    round,
                    turn,
                    server,
                };
                keep(Record::new(turn, load, or_faulty(seen, turn, stop)?))?;
            }
        }
        Ok(())
    }

    fn observe(
        &self,
        cell: Cell,
        server: &Server,
        place: ServerSetup,
        placements: &Placements,
        stop: &Stop,
    ) -> Result<Observation> {
        let load = self.load(cell.workload);
        let (cpu_before, lost_before) = (server.cpu()?, server.datagrams_lost()?);
        let outcome = client::run(load, server, place, placements.client(), stop)?;
        std::thread::sleep(settle(server.transport));
        let cpu = server.cpu()?.since(&cpu_before);
        let lost = server.datagrams_lost()?.zip(lost_before);
        let memory_bytes = cpu::peak_memory(server.pid())?;
        let share = self
            .looks_at_shares
            .then(|| shares::busiest(server, load.connections, stop));
        Ok(Observation {
            duration_s: outcome.seconds,
            body_bytes: outcome.body_bytes,
            cpu,
            memory_bytes,
            memory_before_bytes: None,
            latency_mean_us: Some(outcome.latency_mean_us),
            latency_max_us: Some(outcome.latency_max_us),
            latency_p50_us: outcome.latency_p50_us,
            latency_p99_us: outcome.latency_p99_us,
            busiest_share: share.transpose()?,
            datagrams_lost: lost.map(|(after, before)| after - before),
            fault: outcome.fault,
            tls: outcome.tls,
        })
    }

    /// One server after the other: what they hold is compared with a bound, not with each other.
    fn idle(
        &self,
        cell: Cell,
        place: ServerSetup,
        stop: &Stop,
        keep: &mut impl FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        let placements = self.placements(cell)?;
        let load = self.load(cell.workload);
        let origin = origin_of(cell, place, &placements, stop)?;
        shell::say(&format!("{cell}: {} connections", load.connections));
        for (turn, contender) in (1..).zip(self.taking_part(cell)) {
            let server = Server::start(contender, origin.as_ref(), place, cell, &placements, stop)?;
            let seen = idle::measure(load, &server, place, placements.client(), stop);
            let turn = Turn {
                cell,
                round: 1,
                turn,
                server: contender,
            };
            keep(Record::new(turn, load, or_faulty(seen, turn, stop)?))?;
        }
        Ok(())
    }

    fn taking_part(&self, cell: Cell) -> impl Iterator<Item = Contender> {
        let all = self.contenders.iter().copied();
        all.filter(move |contender| contender.takes_part_in(cell))
    }

    fn placements(&self, cell: Cell) -> Result<Placements> {
        let cores = Cores::shared_out(&self.cores, cell.workers);
        Ok(Placements::new(cores, Network::of(cell.workload)?))
    }
}

/// The server behind the proxies of `cell`, if it is one of proxies.
fn origin_of(
    cell: Cell,
    place: ServerSetup,
    placements: &Placements,
    stop: &Stop,
) -> Result<Option<Server>> {
    let is_proxied = cell.workload.is_proxied();
    let origin = is_proxied.then(|| Server::start_origin(place, cell, placements, stop));
    origin.transpose()
}

fn settle(transport: Transport) -> Duration {
    match transport {
        Transport::H2c | Transport::Tls => SETTLE,
        Transport::H3 => QUIC_SETTLE,
    }
}

/// A server that fails has an invalid record and no figure; the others go on. A stop ends all.
fn or_faulty(seen: Result<Observation>, turn: Turn, stop: &Stop) -> Result<Observation> {
    stop.check()?;
    let seen = seen.unwrap_or_else(|error| Observation {
        fault: Some(format!("{error:#}").replace('\n', " ")),
        ..Observation::default()
    });
    if let Some(fault) = &seen.fault {
        shell::say(&format!("INVALID {}: {fault}", turn.server));
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connections_are_not_measured_in_clear_text() {
        let transports = [Transport::H2c, Transport::Tls];
        let of_proxies = cells(
            &[1],
            &[Workload::ProxyIdle],
            &[Transport::Tls, Transport::H3],
        );
        assert_eq!(of_proxies.len(), 1);
        let cells = cells(&[1, 2], &[Workload::W1, Workload::Idle], &transports);
        assert_eq!(cells.len(), 2 * 3);
        let is_idle = |cell: &&Cell| cell.workload == Workload::Idle;
        assert!(
            cells
                .iter()
                .filter(is_idle)
                .all(|c| c.transport == Transport::Tls)
        );
    }
}
