//! A run from its first transfer to its last: the loop that makes, checks and keeps them.

use crate::ends::{Fetched, Server, Workspace, fetch};
use crate::folder::RunFolder;
use crate::progress::{Pace, Progress, estimate};
use crate::schedule::{Transfer, schedule};
use crate::{Error, host};
use altway_emulate::{Backend, Emulation, FarEnd, Invalid, LinkReport, Privilege};
use altway_link::{Config, Queue, Rate};
use altway_record::{
    Congestion, LinkSettings, Manifest, Plan, RequestRecord, SCHEMA_VERSION, Sample,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a transfer that did not count is made again before it is given up.
const ATTEMPTS: u32 = 3;

/// After so many transfers in a row that did not count, the run ends: something is wrong that
/// repeating won't mend.
const HOPELESS_AFTER: u32 = 2 * ATTEMPTS;

/// A transfer counts when the 99th percentile of the link's lateness is within the link's own limit,
/// or below this share of the transfer's time. A late link was seen to move a transfer by less than
/// twice that percentile where it was above 3 ms (docs/decisions/0012), so by less than 1 % at this
/// share: a third of the band within which protocols count as equal.
const LATENESS_SHARE: f64 = 0.005;

const MTU: u16 = 1500;

/// Who runs the lab, and as what.
#[derive(Debug, Clone)]
pub struct Context {
    /// The altway binary, whose `serve`, `load` and `certs` are used.
    pub binary: PathBuf,
    /// Its version.
    pub version: String,
    /// The commit it was built from.
    pub commit: Option<String>,
    /// The command line, for the manifest.
    pub command: Vec<String>,
    /// What [`altway_emulate::enter`] gave.
    pub privilege: Privilege,
    /// What is to move the packets of the links; `None` takes the first that this machine has.
    pub backend: Option<Backend>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every transfer was made (or given up after its last attempt).
    Complete,
    /// It was asked to stop; what was measured is kept.
    Stopped,
}

/// A run that is ready to measure.
#[derive(Debug)]
pub struct Campaign {
    context: Context,
    plan: Plan,
    network: Emulation,
    workspace: Workspace,
    server: Server,
    folder: RunFolder,
    schedule: Vec<Transfer>,
    pace: Pace,
    failures_in_a_row: u32,
}

impl Campaign {
    /// Sets the network and its ends up, and makes a new run folder below `parent`. When the set-up
    /// fails, no folder is left behind.
    ///
    /// # Errors
    /// The network, the server or the folder can't be made.
    pub fn begin(context: Context, plan: Plan, parent: &Path) -> Result<Self, Error> {
        let (network, workspace, server) = set_up(&context, &plan)?;
        let now = jiff::Timestamp::now();
        let manifest = Manifest {
            schema_version: SCHEMA_VERSION,
            altway_version: context.version.clone(),
            altway_commit: context.commit.clone(),
            command: context.command.clone(),
            started_at: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            plan: plan.clone(),
            host: host::describe(&network),
            link: link_settings(&context, &network)?,
        };
        let stamp = now.strftime("%Y%m%d-%H%M%S").to_string();
        let folder = RunFolder::create(parent, &stamp, manifest)?;
        Ok(Self::new(context, plan, network, workspace, server, folder))
    }

    /// Sets up to go on with the run in `path`.
    ///
    /// # Errors
    /// As for [`Campaign::begin`]; or the folder holds no run, or one of another build.
    pub fn resume(context: Context, path: &Path) -> Result<Self, Error> {
        let folder = RunFolder::open(path)?;
        let manifest = folder.manifest();
        let begun = build(&manifest.altway_version, manifest.altway_commit.as_deref());
        let this = build(&context.version, context.commit.as_deref());
        if begun != this {
            return Err(Error::OtherBuild { begun, this });
        }
        let plan = manifest.plan.clone();
        let (network, workspace, server) = set_up(&context, &plan)?;
        Ok(Self::new(context, plan, network, workspace, server, folder))
    }

    fn new(
        context: Context,
        plan: Plan,
        network: Emulation,
        workspace: Workspace,
        server: Server,
        folder: RunFolder,
    ) -> Self {
        let finished = finished_transfers(folder.samples());
        let mut schedule = schedule(&plan);
        schedule.retain(|transfer| !finished.contains(&id_of(transfer)));
        let pace = Pace::default();
        Self {
            context,
            plan,
            network,
            workspace,
            server,
            folder,
            schedule,
            pace,
            failures_in_a_row: 0,
        }
    }

    /// Makes the transfers that are still to be made, each kept before the next begins; calls
    /// `observe` after each, and once before the first. Setting `stop` ends the run within a
    /// fraction of a second; the transfer under way is then not counted.
    ///
    /// # Errors
    /// The folder can't be written, the link or the server can't be kept up, or transfer after
    /// transfer fails. What was measured is kept and can be resumed.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<End, Error> {
        let transfers = std::mem::take(&mut self.schedule);
        observe(&self.progress(&transfers, None));
        for (index, transfer) in transfers.iter().enumerate() {
            let begun = Instant::now();
            if self.make(transfer, stop)? == End::Stopped {
                return Ok(End::Stopped);
            }
            self.pace.learn(transfer, begun.elapsed());
            observe(&self.progress(&transfers[index + 1..], Some(transfer)));
        }
        Ok(End::Complete)
    }

    /// The folder and what is in it so far.
    #[must_use]
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// How many transfers are still to be made.
    #[must_use]
    pub fn transfers_left(&self) -> usize {
        self.schedule.len()
    }

    /// How long they will take, about.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.pace.predict(&self.schedule)
    }

    /// Makes one transfer until it counts, or until its attempts are used up.
    fn make(&mut self, transfer: &Transfer, stop: &AtomicBool) -> Result<End, Error> {
        for attempt in 1..=ATTEMPTS {
            if stop.load(Ordering::Relaxed) {
                return Ok(End::Stopped);
            }
            let Some(sample) = self.measure(transfer, attempt, stop)? else {
                return Ok(End::Stopped);
            };
            let (valid, fault) = (sample.valid, sample.fault.clone());
            self.folder.append(sample)?;
            if valid {
                self.failures_in_a_row = 0;
                return Ok(End::Complete);
            }
            tracing::debug!(%fault, attempt, "the transfer does not count");
            self.failures_in_a_row += 1;
            if self.failures_in_a_row >= HOPELESS_AFTER {
                return Err(Error::Hopeless {
                    attempts: self.failures_in_a_row,
                    fault,
                });
            }
        }
        Ok(End::Complete)
    }

    fn measure(
        &mut self,
        transfer: &Transfer,
        attempt: u32,
        stop: &AtomicBool,
    ) -> Result<Option<Sample>, Error> {
        self.keep_the_server_up()?;
        let link = link_config(&self.plan, transfer);
        self.network
            .restart(link.clone(), link, transfer.link_seed)?;
        let started = jiff::Timestamp::now().as_millisecond();
        let switches_before = self.server.involuntary_switches();
        let (binary, cell) = (&self.context.binary, &transfer.cell);
        let (size, timeout) = (cell.size, self.plan.timeout);
        let fetched = fetch(
            binary,
            &self.network,
            &self.workspace,
            size,
            transfer.protocol,
            timeout,
            stop,
        );
        let report = self.network.report()?;
        let server_switches = self
            .server
            .involuntary_switches()
            .saturating_sub(switches_before);
        let mut sample = blank_sample(self.folder.samples().len() as u64, transfer, attempt);
        sample.started_unix_ms = started;
        sample.server_involuntary_switches = server_switches;
        fill_in_link(&mut sample, &report);
        let fault = match fetched {
            Fetched::Stopped => return Ok(None),
            Fetched::Failed(reason) => Some(reason),
            Fetched::Measured {
                record,
                involuntary_switches,
            } => {
                sample.client_involuntary_switches = involuntary_switches;
                fill_in_request(&mut sample, &record);
                fault_of(&record, size.as_bytes())
            }
        };
        let fault = fault.or_else(|| link_fault(&report, sample.total_us));
        sample.valid = fault.is_none();
        sample.fault = fault.unwrap_or_default();
        Ok(Some(sample))
    }

    fn keep_the_server_up(&mut self) -> Result<(), Error> {
        if self.server.has_died() {
            tracing::warn!("the server has ended; it is started again");
            let (binary, congestion) = (&self.context.binary, self.plan.congestion);
            self.server = Server::start(binary, &self.network, &self.workspace, congestion)?;
        }
        Ok(())
    }

    fn progress(&self, rest: &[Transfer], last: Option<&Transfer>) -> Progress {
        let total = self.plan.transfers();
        let first = self.plan.protocols[0];
        let other = self
            .plan
            .protocols
            .iter()
            .copied()
            .find(|protocol| *protocol != first);
        let estimate = last.zip(other).and_then(|(last, other)| {
            let held_against = if last.protocol == first {
                other
            } else {
                last.protocol
            };
            estimate(self.folder.samples(), last.cell, held_against, first)
        });
        let done = total - rest.len() as u64;
        Progress {
            done,
            total,
            remaining: self.pace.predict(rest),
            estimate,
        }
    }
}

fn set_up(context: &Context, plan: &Plan) -> Result<(Emulation, Workspace, Server), Error> {
    let network = start_network(plan.congestion, context.backend)?;
    let workspace = Workspace::create(&context.binary, &plan.sizes, network.server_address())?;
    let server = Server::start(&context.binary, &network, &workspace, plan.congestion)?;
    Ok((network, workspace, server))
}

/// Where the kernel keeps `congestion` from being a namespace's default, the server still sets it
/// on its own sockets, and the client sends too little for its control to matter.
fn start_network(congestion: Congestion, backend: Option<Backend>) -> Result<Emulation, Error> {
    let options = |congestion_control| altway_emulate::Options {
        backend,
        far_end: FarEnd::ServerNamespace,
        mtu: MTU,
        congestion_control,
        keep_awake: true,
        ..altway_emulate::Options::default()
    };
    match Emulation::start(options(Some(congestion.name().into()))) {
        Err(altway_emulate::Error::CongestionControl { .. }) => {
            Ok(Emulation::start(options(None))?)
        }
        started => Ok(started?),
    }
}

fn link_config(plan: &Plan, transfer: &Transfer) -> Config {
    let rate = Rate::from(transfer.cell.rate.limit());
    Config {
        queue: plan
            .queue
            .map_or_else(|| Queue::default_for(&rate), Queue::Bytes),
        rate,
        delay: transfer.cell.delay,
        loss: transfer.cell.loss.into(),
        ..Config::default()
    }
}

fn link_settings(context: &Context, network: &Emulation) -> Result<LinkSettings, Error> {
    Ok(LinkSettings {
        backend: network.backend().name().into(),
        mtu_bytes: MTU,
        realtime_priority: network.report()?.realtime_priority,
        processors_kept_awake: network.keeps_awake(),
        privilege: match context.privilege {
            Privilege::Root => "root".into(),
            Privilege::UserNamespace => "user namespace".into(),
        },
        limitations: limitations(network),
    })
}

fn limitations(network: &Emulation) -> Vec<String> {
    let of_backend = network.backend().limitation().map(ToOwned::to_owned);
    let unset = network.unset().iter().map(ToString::to_string);
    of_backend.into_iter().chain(unset).collect()
}

/// A block, cell and protocol.
type TransferId = (u32, u32, altway_record::Protocol);

/// What needs no further attempt.
fn finished_transfers(samples: &[Sample]) -> BTreeSet<TransferId> {
    let done = samples
        .iter()
        .filter(|sample| sample.valid || sample.attempt >= ATTEMPTS);
    done.map(|sample| (sample.block, sample.cell, sample.protocol))
        .collect()
}

fn id_of(transfer: &Transfer) -> TransferId {
    (transfer.block, transfer.cell.index, transfer.protocol)
}

fn build(version: &str, commit: Option<&str>) -> String {
    commit.map_or_else(
        || version.to_owned(),
        |commit| format!("{version} ({commit})"),
    )
}

/// Why a request that was answered does not count, if it does not.
fn fault_of(record: &RequestRecord, size: u64) -> Option<String> {
    if let Some(error) = &record.error {
        return Some(error.clone());
    }
    if record.protocol_used != Some(record.protocol) {
        return Some(format!(
            "the request did not use {}",
            record.protocol.name()
        ));
    }
    if record.status != Some(200) {
        return Some(format!(
            "the server answered {}",
            record.status.unwrap_or(0)
        ));
    }
    if record.bytes != size {
        return Some(format!("{} of {size} bytes came", record.bytes));
    }
    None
}

/// Why the link did not do what it should have, if it did not.
fn link_fault(report: &LinkReport, total_us: Option<u64>) -> Option<String> {
    let invalid = report.validity().err()?;
    let late_enough_to_matter = match invalid {
        #[expect(
            clippy::cast_precision_loss,
            reason = "microseconds of a transfer fit 2^53"
        )]
        Invalid::Late { p99_us, .. } => {
            total_us.is_none_or(|total| p99_us > total as f64 * LATENESS_SHARE)
        }
        _ => true,
    };
    late_enough_to_matter.then(|| invalid.to_string())
}

fn fill_in_request(sample: &mut Sample, record: &RequestRecord) {
    sample.connect_us = record.connect_us;
    sample.first_byte_us = record.first_byte_us;
    sample.total_us = record.error.is_none().then_some(record.total_us);
    sample.body_bytes = record.bytes;
}

fn fill_in_link(sample: &mut Sample, report: &LinkReport) {
    sample.up_packets = report.up.packets_in;
    sample.up_lost_packets = report.up.packets_lost;
    sample.up_queue_dropped_packets = report.up.packets_queue_dropped;
    sample.down_packets = report.down.packets_in;
    sample.down_lost_packets = report.down.packets_lost;
    sample.down_queue_dropped_packets = report.down.packets_queue_dropped;
    sample.down_backlog_max_bytes = report.down.bytes_backlog_max;
    sample.lateness_us_p99 = report.lateness_us_p99;
    sample.hidden_drops_packets = report.hidden_drops;
}

fn blank_sample(ordinal: u64, transfer: &Transfer, attempt: u32) -> Sample {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let cell = transfer.cell;
    Sample {
        ordinal,
        block: transfer.block,
        cell: cell.index,
        attempt,
        protocol: transfer.protocol,
        rate_bps: cell.rate.limit().map(altway_units::Bandwidth::as_bps),
        delay_us: micros(cell.delay),
        loss_ppb: cell.loss.as_parts_per_billion(),
        size_bytes: cell.size.as_bytes(),
        link_seed: transfer.link_seed,
        started_unix_ms: 0,
        connect_us: None,
        first_byte_us: None,
        total_us: None,
        body_bytes: 0,
        up_packets: 0,
        up_lost_packets: 0,
        up_queue_dropped_packets: 0,
        down_packets: 0,
        down_lost_packets: 0,
        down_queue_dropped_packets: 0,
        down_backlog_max_bytes: 0,
        lateness_us_p99: None,
        hidden_drops_packets: 0,
        client_involuntary_switches: 0,
        server_involuntary_switches: 0,
        valid: false,
        fault: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_record::Protocol;

    fn transfer() -> Transfer {
        let text = "name = \"p\"\nrate = \"5mbit\"\ndelay = \"1ms\"\nsize = \"1MB\"\npairs = 1";
        schedule(&text.parse().unwrap())[0]
    }

    fn record() -> RequestRecord {
        RequestRecord {
            connection: 0,
            stream: 0,
            protocol: Protocol::H3,
            protocol_used: Some(Protocol::H3),
            start_us: 0,
            connect_us: Some(1),
            first_byte_us: Some(2),
            total_us: 3,
            bytes: 1_000,
            status: Some(200),
            error: None,
        }
    }

    fn fault(change: impl FnOnce(&mut RequestRecord)) -> Option<String> {
        let mut record = record();
        change(&mut record);
        fault_of(&record, 1_000)
    }

    #[test]
    fn only_a_whole_answer_over_the_right_protocol_counts() {
        assert_eq!(fault(|_| ()), None);
        let fallback = fault(|record| record.protocol_used = Some(Protocol::H2));
        assert_eq!(fallback.unwrap(), "the request did not use HTTP/3");
        assert_eq!(
            fault(|record| record.bytes = 999).unwrap(),
            "999 of 1000 bytes came"
        );
        assert_eq!(
            fault(|record| record.status = Some(404)).unwrap(),
            "the server answered 404"
        );
        assert_eq!(
            fault(|record| record.error = Some("reset".into())).unwrap(),
            "reset"
        );
    }

    #[test]
    fn a_late_link_matters_by_the_time_of_the_transfer() {
        let direction = altway_emulate::DirectionReport::default();
        let late = |p99: f64, drops| LinkReport {
            up: direction,
            down: direction,
            backend: Backend::Tun,
            backend_reason: String::new(),
            realtime_priority: Some(true),
            lateness_us_p50: Some(0.0),
            lateness_us_p99: Some(p99),
            lateness_us_max: Some(p99),
            lateness_limit_us: 1_000.0,
            hidden_drops: drops,
            hidden_drops_interfaces: drops,
            hidden_drops_sockets: 0,
            hidden_drops_thread: 0,
            involuntary_switches: 0,
            router: None,
        };
        // 0.5 % of 1 s are 5 ms.
        assert_eq!(link_fault(&late(5_000.0, 0), Some(1_000_000)), None);
        assert!(link_fault(&late(5_001.0, 0), Some(1_000_000)).is_some());
        assert_eq!(link_fault(&late(1_000.0, 0), Some(1)), None);
        assert!(link_fault(&late(1_001.0, 0), None).is_some());
        assert!(link_fault(&late(0.0, 1), Some(1_000_000)).is_some());
    }

    #[test]
    fn a_failed_request_has_no_time() {
        let mut sample = blank_sample(0, &transfer(), 1);
        let failed = RequestRecord {
            error: Some("reset".into()),
            ..record()
        };
        fill_in_request(&mut sample, &failed);
        assert_eq!(sample.total_us, None);
        fill_in_request(&mut sample, &record());
        assert_eq!(sample.total_us, Some(3));
    }

    #[test]
    fn a_transfer_is_finished_when_it_counts_or_has_used_up_its_attempts() {
        let failed = |attempt| blank_sample(0, &transfer(), attempt);
        assert!(finished_transfers(&[failed(1), failed(2)]).is_empty());
        let id = id_of(&transfer());
        assert!(finished_transfers(&[failed(ATTEMPTS)]).contains(&id));
        let mut counted = failed(1);
        counted.valid = true;
        assert!(finished_transfers(&[counted]).contains(&id));
    }

    #[test]
    fn a_build_is_its_version_and_commit() {
        assert_eq!(build("0.1.0", None), "0.1.0");
        assert_eq!(build("0.1.0", Some("abc")), "0.1.0 (abc)");
    }
}
