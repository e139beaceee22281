//! Places of programs: their cores and their network namespace.
//!
//! A child inherits both from its parent's thread, so a program is started from a thread that has
//! moved there itself: nothing has to be installed for it, and the child is there from its first
//! instruction.

use super::cores::Cores;
use super::network::{Namespace, Network};
use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::net::Ipv4Addr;
use std::process::{Child, Command};

/// The places of a cell's programs.
#[derive(Debug)]
pub(crate) struct Placements {
    cores: Cores,
    network: Network,
}

impl Placements {
    pub(crate) fn new(cores: Cores, network: Network) -> Self {
        Self { cores, network }
    }

    pub(crate) fn server(&self) -> Placement<'_> {
        Placement {
            cores: &self.cores.server,
            namespace: self.network.server(),
        }
    }

    pub(crate) fn client(&self) -> Placement<'_> {
        Placement {
            cores: &self.cores.client,
            namespace: self.network.client(),
        }
    }

    /// The address at which the server listens.
    pub(crate) fn server_address(&self) -> Ipv4Addr {
        self.network.server_address()
    }
}

/// A program's place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement<'a> {
    /// Empty: any.
    pub(crate) cores: &'a [usize],
    /// `None`: the bench's own.
    pub(crate) namespace: Option<&'a Namespace>,
}

impl Placement<'_> {
    /// The place of the bench itself.
    #[cfg(test)]
    pub(crate) const HERE: Self = Self {
        cores: &[],
        namespace: None,
    };

    /// Starts `command` there.
    ///
    /// # Errors
    /// The program is missing, the cores are not this process's, or it may not enter the namespace.
    pub(crate) fn spawn(self, command: &mut Command) -> Result<Child> {
        let spawn = || {
            bind_this_thread(self.cores)?;
            if let Some(namespace) = self.namespace {
                namespace.join()?;
            }
            let name = command.get_program().to_owned();
            command
                .spawn()
                .with_context(|| format!("cannot start {}", name.display()))
        };
        std::thread::scope(|scope| scope.spawn(spawn).join())
            .expect("starting a program can't panic")
    }
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
    use super::super::cores::available;
    use super::*;

    #[test]
    fn a_child_runs_where_it_was_started() {
        let core = *available().unwrap().last().unwrap();
        let mut grep = Command::new("grep");
        grep.args(["Cpus_allowed_list", "/proc/self/status"]);
        grep.stdout(std::process::Stdio::piped());
        let placement = Placement {
            cores: &[core],
            ..Placement::HERE
        };
        let child = placement.spawn(&mut grep).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text, format!("Cpus_allowed_list:\t{core}\n"));
    }
}
