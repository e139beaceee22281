//! Chosen transfers once more, with what shows their inside: every packet, TLS secrets, qlog, Chromium's log of its
//! network.
//!
//! They are made when the run has ended, over networks and with servers of their own and the link's seeds of the
//! first block, and are no part of the run's rows: writing all of that down takes time, which no measured transfer
//! should have. What each took stands in `traces/samples.csv`.

use crate::Error;
use crate::checksums::files;
use crate::environment::Environments;
use crate::experiment::Context;
use crate::folder::{SAMPLES, read_table};
use crate::link_profile::LinkProfiles;
use crate::schedule::{Transfer, transfers_of};
use crate::table::{Table, folder_error};
use crate::workers::{RunContext, Task, measure};
use altway_record::{Arm, Client, Manifest, Plan, Sample, Shard, Traced, transfers as first_rows};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The folder in a run's folder.
pub const TRACES: &str = "traces";

/// Traced transfers at most: each costs networks and servers of its own, and files.
pub const MAX_TRACED: usize = 64;

/// The kinds of files that are kept of a traced transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraceKinds {
    /// Every packet at both ends of the link (pcapng).
    pub pcap: bool,
    /// A qlog of each QUIC connection, of both ends where they are altway.
    pub qlog: bool,
    /// The client's TLS secrets (NSS key log format), of clients that heed `SSLKEYLOGFILE`.
    pub key_log: bool,
    /// Chromium's log of its network.
    pub netlog: bool,
}

impl TraceKinds {
    /// Returns whether anything is kept.
    #[must_use]
    pub fn any(self) -> bool {
        self.pcap || self.qlog || self.key_log || self.netlog
    }
}

/// The folder and the kinds of a traced transfer's files.
#[derive(Debug, Clone, Default)]
pub(crate) struct TraceFiles {
    folder: PathBuf,
    kinds: TraceKinds,
}

impl TraceFiles {
    fn file(&self, kept: bool, name: &str) -> Option<PathBuf> {
        kept.then(|| self.folder.join(name))
    }

    pub(crate) fn pcap(&self) -> Option<PathBuf> {
        self.file(self.kinds.pcap, "link.pcapng")
    }

    pub(crate) fn key_log(&self) -> Option<PathBuf> {
        self.file(self.kinds.key_log, "keys.log")
    }

    pub(crate) fn client_qlog(&self) -> Option<PathBuf> {
        self.file(self.kinds.qlog, "client-qlog")
    }

    pub(crate) fn server_qlog(&self) -> Option<PathBuf> {
        self.file(self.kinds.qlog, "server-qlog")
    }

    pub(crate) fn netlog(&self, client: Client) -> Option<PathBuf> {
        self.file(
            self.kinds.netlog && client == Client::Chromium,
            "netlog.json",
        )
    }
}

/// The transfers of the first block that are traced: of the cells of these numbers, or of all.
///
/// # Errors
/// A number is no cell's, or they are more than [`MAX_TRACED`].
pub fn traced(plan: &Plan, shard: Shard, chosen: &[u32]) -> Result<Vec<Transfer>, Error> {
    let cells = plan.part(shard);
    let has = |number: &&u32| !cells.iter().any(|cell| cell.index == **number);
    if let Some(number) = chosen.iter().find(has) {
        return Err(Error::NoCell { number: *number });
    }
    let is_chosen = |index| chosen.is_empty() || chosen.contains(&index);
    let cells = cells.iter().filter(|cell| is_chosen(cell.index));
    let transfers: Vec<Transfer> = cells
        .flat_map(|cell| transfers_of(plan, cell, 0))
        .filter(|transfer| !transfer.arm.null_arm)
        .collect();
    match transfers.len() {
        0..=MAX_TRACED => Ok(transfers),
        count => Err(Error::ManyTraces { count }),
    }
}

/// Makes these transfers once more; calls `observe` with the folder of each before it is made.
///
/// # Errors
/// A network or a server can't be set up, or a file can't be written.
pub fn trace(
    context: &Context,
    run: &Path,
    manifest: &Manifest,
    (transfers, kinds): (&[Transfer], TraceKinds),
    stop: &AtomicBool,
    observe: &mut dyn FnMut(&Path),
) -> Result<(), Error> {
    let parent = std::path::absolute(run.join(TRACES)).map_err(folder_error("find", run))?;
    fs::create_dir_all(&parent).map_err(folder_error("create", &parent))?;
    let mut table = Table::open(&parent, SAMPLES)?;
    let profiles = LinkProfiles::of(&manifest.plan)?;
    for transfer in transfers {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let folder = parent.join(folder_name(transfer.cell.index, &transfer.arm));
        fs::create_dir_all(&folder).map_err(folder_error("create", &folder))?;
        observe(&folder);
        let files = TraceFiles { folder, kinds };
        let plan = of_one_cell(&manifest.plan, transfer);
        let backend = context.backend;
        let mut environments =
            Environments::set_up(&context.binary, &plan, &profiles, backend, 0, files)?;
        let task = Task {
            transfer: *transfer,
            attempt: 1,
            beside: 0,
        };
        let context = RunContext {
            plan: &manifest.plan,
            profiles: &profiles,
            halt: stop,
        };
        let rows = measure(&mut environments, context, &task)?;
        environments.end();
        if let Some(rows) = rows {
            table.append(rows)?;
        }
    }
    Ok(())
}

/// The traced transfers of the run in `run` with their files, in the order in which they were made; none where the run has
/// none.
///
/// # Errors
/// Their rows or a folder can't be read.
pub fn traced_transfers(run: &Path) -> Result<Vec<Traced>, Error> {
    let parent = run.join(TRACES);
    let rows = read_table(parent.join(SAMPLES))?;
    let mut traced: Vec<Traced> = Vec::new();
    // A page visited several times is one transfer with several first requests.
    for sample in first_rows(&rows).filter(|sample| sample.session == 0) {
        let name = folder_name(sample.cell, &arm_of(sample));
        let files = files_of(&parent.join(&name))?;
        let within = |file: String| format!("{TRACES}/{name}/{file}");
        traced.push(Traced {
            sample: sample.clone(),
            files: files.into_iter().map(within).collect(),
        });
    }
    Ok(traced)
}

/// The names of the files of a folder, however deep; none of one that is not there.
fn files_of(folder: &Path) -> Result<Vec<String>, Error> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    Ok(files(folder)?.into_keys().collect())
}

fn arm_of(sample: &Sample) -> Arm {
    Arm {
        protocol: sample.protocol,
        policy: sample.policy,
        null_arm: sample.null_arm,
    }
}

fn folder_name(cell: u32, arm: &Arm) -> String {
    let arm = match arm.policy {
        Some(policy) => policy.name().to_owned(),
        None => arm.protocol.to_string(),
    };
    format!("cell-{cell}-{arm}")
}

/// The plan with one value of what is set up for each; without warm-ups, whose packets nobody asked for.
fn of_one_cell(plan: &Plan, transfer: &Transfer) -> Plan {
    let cell = &transfer.cell;
    Plan {
        topologies: vec![cell.topology],
        servers: vec![cell.server],
        clients: vec![cell.client],
        congestions: vec![cell.congestion],
        initial_windows: vec![cell.initial_window],
        certificates: vec![cell.certificate],
        certificate_compressions: vec![cell.certificate_compression],
        connections: vec![cell.connection],
        rates: vec![cell.rate],
        queues: vec![cell.queue],
        losses: vec![cell.loss],
        sizes: vec![cell.size],
        delays: vec![cell.delay],
        warm_ups: 0,
        ..plan.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_record::Protocol;

    fn plan(delays: &str) -> Plan {
        let text = format!(
            "name = \"p\"\nrate = \"5mbit\"\ndelay = \"{delays}\"\nsize = \"1MB\"\npairs = 4\nnull_arm = true"
        );
        text.parse().unwrap()
    }

    #[test]
    fn chosen_cells_are_traced_once_with_each_protocol_and_the_first_blocks_seed() {
        let plan = plan("0ms..9ms by 1ms");
        let transfers = traced(&plan, Shard::WHOLE, &[3, 7]).unwrap();
        let mut found: Vec<_> = transfers
            .iter()
            .map(|one| (one.cell.index, one.arm.protocol))
            .collect();
        found.sort_by_key(|(index, protocol)| (*index, protocol.to_string()));
        let both = [Protocol::H2, Protocol::H3];
        assert_eq!(
            found,
            [3, 7].map(|cell| both.map(|one| (cell, one))).concat()
        );
        let measured = crate::schedule(&plan, Shard::WHOLE);
        for one in &transfers {
            assert!(measured.contains(one), "{one:?}");
        }
        assert_eq!(traced(&plan, Shard::WHOLE, &[]).unwrap().len(), 20);
    }

    #[test]
    fn cells_that_are_not_there_and_too_many_are_refused() {
        let refused = |delays: &str, chosen: &[u32]| {
            traced(&plan(delays), Shard::WHOLE, chosen)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(refused("0ms", &[1]), "there is no cell 1 in this plan");
        let many = refused("0ms..32ms by 1ms", &[]);
        assert_eq!(many, "66 transfers are too many to trace: at most 64");
    }

    #[test]
    fn files_are_named_by_what_is_kept() {
        let kinds = TraceKinds {
            pcap: true,
            netlog: true,
            ..TraceKinds::default()
        };
        let files = TraceFiles {
            folder: "t".into(),
            kinds,
        };
        assert_eq!(files.pcap(), Some("t/link.pcapng".into()));
        assert_eq!((files.key_log(), files.client_qlog()), (None, None));
        assert_eq!(files.netlog(Client::Altway), None);
        assert_eq!(files.netlog(Client::Chromium), Some("t/netlog.json".into()));
        assert!(kinds.any() && !TraceKinds::default().any());
    }
}
