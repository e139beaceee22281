//! CPU time and memory of a server, from the kernel's own accounting.
//!
//! The time comes from `schedstat` of each thread of the server and of the processes it started:
//! nanoseconds, user and system together. It loses threads that ended. `stat` of a process keeps
//! those, and of children that were waited for, in clock ticks of 10 ms: when it shows that time was
//! lost, it is what counts, and the record says so.

use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Ticks that `stat` of a process may be ahead of `schedstat` without a thread having been lost: the
/// kernel rounds user and system time down, each on its own.
const ROUNDING_TICKS: u64 = 2;

/// CPU time that a server had used up to some moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// CPU time by thread number, nanoseconds.
    threads: BTreeMap<u32, u64>,
    /// CPU time of all processes and their children that were waited for, nanoseconds.
    stat_ns: u64,
    /// Time that rounding may add to `stat_ns`, nanoseconds.
    rounding_ns: u64,
}

/// CPU time between two snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CpuTime {
    pub(crate) nanoseconds: u64,
    pub(crate) source: Source,
}

/// The file that a CPU time was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    /// `/proc/PID/task/*/schedstat`: to the nanosecond.
    #[default]
    Schedstat,
    /// `/proc/PID/stat`: to some ticks, but with threads and processes that ended.
    Stat,
}

impl Snapshot {
    /// Reads the CPU time that the process `root` and its descendants have used by now.
    ///
    /// # Errors
    /// `root` has ended.
    pub(crate) fn take(root: u32) -> Result<Self> {
        let tree = tree(root)?;
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        let ticks: u64 = tree.iter().map(|process| process.ticks).sum();
        let threads = tree.iter().flat_map(|process| threads(process.pid));
        Ok(Self {
            threads: threads.collect(),
            stat_ns: ticks * tick_ns,
            rounding_ns: ROUNDING_TICKS * tick_ns * tree.len() as u64,
        })
    }

    /// The CPU time used since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> CpuTime {
        let used = |(thread, now): (&u32, &u64)| {
            now.saturating_sub(earlier.threads.get(thread).copied().unwrap_or(0))
        };
        let schedstat: u64 = self.threads.iter().map(used).sum();
        let stat = self.stat_ns.saturating_sub(earlier.stat_ns);
        if stat > schedstat + self.rounding_ns {
            return CpuTime {
                nanoseconds: stat,
                source: Source::Stat,
            };
        }
        CpuTime {
            nanoseconds: schedstat,
            source: Source::Schedstat,
        }
    }
}

/// The most memory that the process `root` and its descendants had resident so far, in bytes: the
/// sum of each one's peak, so that pages which they share count more than once.
///
/// # Errors
/// `root` has ended.
pub(crate) fn peak_memory(root: u32) -> Result<u64> {
    memory(root, "VmHWM")
}

/// The memory resident now, in bytes; otherwise as [`peak_memory`].
///
/// # Errors
/// `root` has ended.
pub(crate) fn resident_memory(root: u32) -> Result<u64> {
    memory(root, "VmRSS")
}

fn memory(root: u32, field: &str) -> Result<u64> {
    let of = |process: &Process| {
        let status = fs::read_to_string(format!("/proc/{}/status", process.pid));
        kibibytes(&status.unwrap_or_default(), field) * 1024
    };
    Ok(tree(root)?.iter().map(of).sum())
}

fn kibibytes(status: &str, field: &str) -> u64 {
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    let value = lines.find(|(name, _)| *name == field);
    let number = value.and_then(|(_, value)| value.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// A line of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    /// User and system time, its own and that of children which were waited for.
    ticks: u64,
}

impl Process {
    /// The fields after the program's name, which may hold anything: state, parent, … utime (14),
    /// stime, cutime, cstime.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, _) = stat.split_once(' ')?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<_> = rest.split(' ').collect();
        let times = fields.get(11..15)?;
        let ticks: Option<u64> = times.iter().map(|time| time.parse::<u64>().ok()).sum();
        Some(Self {
            pid: pid.parse().ok()?,
            parent: fields.get(1)?.parse().ok()?,
            ticks: ticks?,
        })
    }
}

/// `root` and its descendants.
fn tree(root: u32) -> Result<Vec<Process>> {
    let entries = fs::read_dir("/proc").context("no /proc")?;
    let stats = entries.flatten().filter_map(|entry| {
        let is_process = entry.file_name().to_str()?.parse::<u32>().is_ok();
        let stat = is_process.then(|| fs::read_to_string(entry.path().join("stat")))?;
        Process::parse(&stat.ok()?)
    });
    let tree = descendants(root, &stats.collect::<Vec<_>>());
    anyhow::ensure!(!tree.is_empty(), "process {root} has ended");
    Ok(tree)
}

fn descendants(root: u32, all: &[Process]) -> Vec<Process> {
    let mut known = BTreeSet::from([root]);
    loop {
        let before = known.len();
        let children = all.iter().filter(|process| known.contains(&process.parent));
        let children: Vec<_> = children.map(|process| process.pid).collect();
        known.extend(children);
        if known.len() == before {
            break;
        }
    }
    let is_known = |process: &&Process| known.contains(&process.pid);
    all.iter().filter(is_known).copied().collect()
}

/// A process's threads and what each has used, in nanoseconds; none when it has just ended.
fn threads(pid: u32) -> Vec<(u32, u64)> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"));
    let entries = entries.into_iter().flatten().flatten();
    let used = entries.filter_map(|entry| {
        let thread = entry.file_name().to_str()?.parse().ok()?;
        let schedstat = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        let nanoseconds = schedstat.split(' ').next()?.parse().ok()?;
        Some((thread, nanoseconds))
    });
    used.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(threads: &[(u32, u64)], stat_ns: u64) -> Snapshot {
        Snapshot {
            threads: threads.iter().copied().collect(),
            stat_ns,
            rounding_ns: 20,
        }
    }

    #[test]
    fn a_new_thread_counts_from_nothing() {
        let before = snapshot(&[(1, 100)], 0);
        let after = snapshot(&[(1, 150), (2, 7)], 0);
        let time = after.since(&before);
        assert_eq!((time.nanoseconds, time.source), (57, Source::Schedstat));
    }

    #[test]
    fn time_of_a_thread_that_ended_is_not_lost() {
        let before = snapshot(&[(1, 0), (2, 0)], 0);
        let after = snapshot(&[(1, 1000)], 1021);
        let time = after.since(&before);
        assert_eq!((time.nanoseconds, time.source), (1021, Source::Stat));
    }

    #[test]
    fn rounding_is_no_loss() {
        let before = snapshot(&[(1, 0)], 0);
        let after = snapshot(&[(1, 5)], 25);
        assert_eq!(after.since(&before).source, Source::Schedstat);
    }

    #[test]
    fn a_stat_line_with_any_name_is_read() {
        let line = "12 (a) b (c) S 3 12 12 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5";
        let expected = Process {
            pid: 12,
            parent: 3,
            ticks: 100,
        };
        assert_eq!(Process::parse(line), Some(expected));
        assert_eq!(Process::parse("12 (a) S 3"), None);
    }

    #[test]
    fn a_tree_has_the_grandchildren_and_nobody_else() {
        let process = |pid, parent| Process {
            pid,
            parent,
            ticks: 0,
        };
        let all = [process(9, 8), process(8, 5), process(5, 1), process(7, 1)];
        let pids: Vec<_> = descendants(5, &all).iter().map(|p| p.pid).collect();
        assert_eq!(pids, [9, 8, 5]);
    }

    #[test]
    fn this_process_has_used_time_and_memory() {
        let pid = std::process::id();
        assert!(!Snapshot::take(pid).unwrap().threads.is_empty());
        assert!(peak_memory(pid).unwrap() >= resident_memory(pid).unwrap() / 2);
        assert_eq!(kibibytes("VmHWM:\t  12 kB\n", "VmHWM"), 12);
    }
}
