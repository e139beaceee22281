//! Options of `altway emulate` beside the plain link: further settings, changes to come, what is
//! written down, and where everything runs.

use crate::printer::Printer;
use altway_emulate::{Options, Pinning, Processors, control};
use altway_link::{Change, Config, Schedule, ScheduledChange};
use altway_units::duration;
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub(super) struct Conditions {
    /// Further settings, for both directions or one, in the words of `altway emulate set`: 'jitter
    /// 5ms, down loss gilbert 2% burst 4'.
    #[arg(long, value_name = "SETTINGS")]
    set: Option<Change>,
    /// Change the link at this time after COMMAND was started, in the words of `altway emulate set`; may be given
    /// several times: --at 3s 'loss 5%, delay 100ms'.
    #[arg(long, num_args = 2, value_names = ["TIME", "SETTINGS"], action = clap::ArgAction::Append)]
    at: Vec<String>,
    /// A name by which `altway emulate set`, `show` and `reset` find this link.
    #[arg(long, value_name = "NAME", value_parser = control::name)]
    name: Option<String>,
    /// Write every packet, as both ends of the link see it, to this pcapng file. Wireshark opens it.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Processor that the link keeps to, by its number: 1.
    #[arg(long, value_name = "CPU")]
    pin_link: Option<usize>,
    /// Processors that COMMAND keeps to: 0,2-3.
    #[arg(long, value_name = "CPUS")]
    pin_client: Option<Processors>,
    /// Processors that the server command keeps to.
    #[arg(long, value_name = "CPUS", requires = "server")]
    pin_server: Option<Processors>,
    /// Give the link, COMMAND and the server command a processor of their own each, as far as there are enough.
    ///
    /// The choice binds what is started here. Other programs are not moved away, because a partition of the machine's
    /// processors would outlive a killed altway; the involuntary context switches that are printed at the end show
    /// how often they interfered.
    #[arg(long)]
    isolate: bool,
}

/// Facts of a run over the link beside the link's own report.
#[derive(Debug, Default, Serialize)]
pub(super) struct Circumstances {
    /// Count of occasions on which COMMAND, with all that it waited for, had to give its processor to another.
    pub(super) client_involuntary_switches: u64,
    /// The same of the server command; none when there is no such command.
    pub(super) server_involuntary_switches: Option<u64>,
    /// Processors of the link and of the two ends; none where the kernel chose.
    pub(super) link_processor: Option<usize>,
    pub(super) client_processors: Option<String>,
    pub(super) server_processors: Option<String>,
}

impl Conditions {
    /// Puts what was said into the options of the emulation.
    pub(super) fn apply(&self, options: &mut Options) {
        self.settle(&mut options.up, &mut options.down);
        options.packet_log.clone_from(&self.pcap);
        options.pin = self.pin_link;
        options.pin_client.clone_from(&self.pin_client);
        options.pin_server.clone_from(&self.pin_server);
        options.isolate = self.isolate;
    }

    /// Puts the further settings into both directions.
    pub(super) fn settle(&self, up: &mut Config, down: &mut Config) {
        if let Some(change) = &self.set {
            change.apply(up, down);
        }
    }

    /// The file of the packet log.
    pub(super) fn packet_log(&self) -> Option<PathBuf> {
        self.pcap.clone()
    }

    /// The processor for the link.
    pub(super) fn processor(&self) -> Option<usize> {
        self.pin_link
    }

    /// The changes to come.
    pub(super) fn schedule(&self) -> Result<Schedule> {
        let scheduled = |pair: &[String]| -> Result<ScheduledChange> {
            let said = || format!("--at {} '{}'", pair[0], pair[1]);
            Ok(ScheduledChange {
                after: duration::parse(&pair[0]).with_context(said)?,
                change: pair[1].parse().with_context(said)?,
            })
        };
        let changes: Vec<_> = self
            .at
            .chunks_exact(2)
            .map(scheduled)
            .collect::<Result<_>>()?;
        Ok(Schedule::new(changes)?)
    }

    /// Lets the link be changed while it runs; without that it runs all the same.
    pub(super) fn listen(
        &self,
        link: Arc<dyn control::Target>,
        folder: &Path,
        printer: &Printer,
    ) -> Option<control::Control> {
        match control::Control::listen(link, folder, self.name.as_deref()) {
            Ok(control) => Some(control),
            Err(error) => {
                let error = anyhow::Error::from(error);
                printer.warn(&format!(
                    "the link can't be shown or changed while it runs: {error:#}"
                ));
                None
            }
        }
    }

    /// Says what came of `--isolate`.
    pub(super) fn print_isolation(&self, pinning: &Pinning, printer: &Printer) {
        if !self.isolate {
            return;
        }
        let (Some(link), Some(client)) = (pinning.link, &pinning.client) else {
            return printer.warn("nothing is isolated: this process may use one processor only");
        };
        let server = match &pinning.server {
            Some(server) if server == client => format!("the ends on {client}"),
            Some(server) => format!("COMMAND on {client}, the server on {server}"),
            None => format!("COMMAND on {client}"),
        };
        printer.say(&format!(
            "isolated: the link on processor {link}, {server}; other programs were not moved away"
        ));
    }
}

impl Circumstances {
    pub(super) fn of(pinning: &Pinning) -> Self {
        let words = |processors: &Option<Processors>| processors.as_ref().map(ToString::to_string);
        Self {
            link_processor: pinning.link,
            client_processors: words(&pinning.client),
            server_processors: words(&pinning.server),
            ..Self::default()
        }
    }

    /// The interruptions of each, in words.
    pub(super) fn switches(&self, link: u64) -> String {
        let client = self.client_involuntary_switches;
        let server = self.server_involuntary_switches;
        let server = server.map_or(String::new(), |server| format!(", the server {server}"));
        format!("involuntary context switches: the link {link}, COMMAND {client}{server}")
    }
}

/// Tells a command at an end of the link which link it is behind.
pub(super) fn name_link(command: &mut Command, control: Option<&control::Control>) {
    match control {
        Some(control) => command.env(control::VARIABLE, control.path()),
        // Lest it takes the link that this one runs behind for its own.
        None => command.env_remove(control::VARIABLE),
    };
}
