//! Which cores the server and the load client run on.
//!
//! A child inherits its parent thread's cores, so a program is started from a thread that has
//! bound itself: nothing has to be installed for it, and the child runs there from its first
//! instruction.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;
use std::process::{Child, Command};

/// The cores of a round's programs. Empty: any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Cores {
    pub(crate) server: Vec<usize>,
    pub(crate) client: Vec<usize>,
}

impl Cores {
    /// A core for each worker and the next for the client; when there are too few for that, nobody
    /// is bound, so that the kernel shares them out.
    pub(crate) fn shared_out(available: &[usize], workers: usize) -> Self {
        if available.len() <= workers {
            return Self {
                server: Vec::new(),
                client: Vec::new(),
            };
        }
        Self {
            server: available[..workers].to_vec(),
            client: vec![available[workers]],
        }
    }
}

/// The cores that this process may use, in ascending order.
///
/// # Errors
/// The kernel doesn't tell.
pub(crate) fn available() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot read which cores may be used")?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect())
}

/// Starts `command` on `cores`.
///
/// # Errors
/// The program is missing, or the cores are not this process's.
pub(crate) fn spawn_on(cores: &[usize], command: &mut Command) -> Result<Child> {
    let spawn = || {
        bind_this_thread(cores)?;
        let name = command.get_program().to_owned();
        command
            .spawn()
            .with_context(|| format!("cannot start {}", name.display()))
    };
    std::thread::scope(|scope| scope.spawn(spawn).join()).expect("starting a program can't panic")
}

fn bind_this_thread(cores: &[usize]) -> Result<()> {
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    sched_setaffinity(None, &set).context("cannot bind to a core")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_and_client_never_share_a_bound_core() {
        let cores = Cores::shared_out(&[0, 1], 1);
        assert_eq!((cores.server, cores.client), (vec![0], vec![1]));
        let cores = Cores::shared_out(&[2, 3, 5, 7], 2);
        assert_eq!((cores.server, cores.client), (vec![2, 3], vec![5]));
    }

    #[test]
    fn with_too_few_cores_nobody_is_bound() {
        let cores = Cores::shared_out(&[0, 1], 2);
        assert!(cores.server.is_empty() && cores.client.is_empty());
    }

    #[test]
    fn a_child_runs_where_it_was_started() {
        let core = *available().unwrap().last().unwrap();
        let mut grep = Command::new("grep");
        grep.args(["Cpus_allowed_list", "/proc/self/status"]);
        grep.stdout(std::process::Stdio::piped());
        let child = spawn_on(&[core], &mut grep).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text, format!("Cpus_allowed_list:\t{core}\n"));
    }
}
