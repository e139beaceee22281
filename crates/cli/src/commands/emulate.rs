//! `altway emulate`: a command behind an emulated link.

mod attach;
mod between;
mod clean;
mod conditions;
mod contain;
mod control;
mod path;
mod proxy;

use crate::backend::BackendArgument;
use crate::hint::usage_error;
use crate::printer::Printer;
use crate::{Answer, signals};
use altway_emulate::control::{Control, folder};
use altway_emulate::{
    Emulation, FarEnd, IpVersion, LinkReport, LogReport, Options, Topology,
    children_involuntary_switches, containment,
};
use altway_units::duration;
use anyhow::{Context, Result, bail};
use conditions::{Circumstances, Conditions, name_link};
use path::PathArguments;
use serde::Serialize;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The interval in which the state of the commands is looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(10);

/// Run a command behind an emulated link.
///
/// COMMAND runs in a network namespace of its own. The far end of the link is a second namespace in which the command
/// of `--server` runs; without it, and as root, this host. COMMAND finds the server's address in $ALTWAY_SERVER, in
/// the form for URLs in $ALTWAY_HOST, and its own in $ALTWAY_CLIENT. Nothing is left behind, however the command
/// ends. While it runs, `altway emulate set`, `show` and `reset` change the link.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_long_help = "\
Examples:
  altway emulate --rate 20mbit --delay 40ms --loss 1% -- sh -c 'ping -c3 $ALTWAY_SERVER'
  altway emulate --rate 5mbit --delay 50ms --server 'altway serve site' -- \\
      sh -c 'altway load --protocol h3 https://$ALTWAY_HOST:8443/ --insecure'
  altway emulate --rate 20mbit --up-rate 2mbit --delay 15ms --jitter '3ms pareto' --codel -- ...
  altway emulate --rate 50mbit --delay 15ms --down-udp 'rate 5mbit' -- ...
  altway emulate --rate 20mbit --at 3s 'loss 5%, delay 100ms' --pcap path.pcapng -- curl -O URL
  altway emulate --rate 5mbit --delay 50ms --between eth0 eth1 --pcap path.pcapng

Exit code: that of COMMAND; 2 when it could not be run.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    other: Option<EmulateCommand>,
    #[command(flatten)]
    path: PathArguments,
    /// Seed of all that is random: the same seed loses the same packets.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Topology between COMMAND and the link: direct (nothing between), router (a router that forwards packets),
    /// proxied (a router whose proxies pass TCP and UDP on), egress (nothing, and each end shapes what it sends on
    /// its own interface), or egress-packets (the same without TCP's large pieces).
    #[arg(long, value_name = "TOPOLOGY", default_value_t)]
    topology: Topology,
    /// Port of the server to which the proxies pass TCP and UDP on; may be given several times.
    #[arg(long, value_name = "PORT", default_value = "8443")]
    proxy_port: Vec<u16>,
    /// Give all ends IPv6 addresses, and no IPv4 ones.
    #[arg(long)]
    ipv6: bool,
    /// Largest IP packet in bytes; at least 68, with IPv6 1280.
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    mtu: u16,
    /// TCP congestion control in the namespaces [default: the host's].
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Keep all processors from sleeping, all the time and at full power: the ends wake up faster, above all in a
    /// virtual machine. The link's own processor is awake while packets are on their way in any case.
    #[arg(long)]
    keep_awake: bool,
    /// The backend that moves the packets: auto, tun, packet or netem. `auto` takes the first of these that this
    /// machine has; with `--between`, the first of the latter two.
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    backend: BackendArgument,
    /// Run no command, but be the link between two interfaces of this host, until a signal ends it: for a container
    /// between others, which use `altway emulate attach`. Each interface is given by its name, or by a block of
    /// addresses of which it has one: 198.19.1.0/24. With the backend `packet` the link connects them like a wire;
    /// with `netem` it shapes what this host forwards as their router.
    #[arg(long, num_args = 2, value_names = ["CLIENT_SIDE", "SERVER_SIDE"])]
    #[arg(conflicts_with_all = between::WITHOUT)]
    between: Vec<String>,
    #[command(flatten)]
    conditions: Conditions,
    /// Run this command, through a shell, in a namespace at the far end. All that it starts ends with COMMAND, also
    /// programs that put themselves into the background.
    #[arg(long, value_name = "COMMAND")]
    server: Option<String>,
    /// Time from the start of the server command to the start of COMMAND.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration::parse, requires = "server")]
    server_wait: Duration,
    /// Print the link's counters in JSON, as the last line of stderr, instead of sentences.
    #[arg(long)]
    json: bool,
    /// The command to run, with its arguments.
    #[arg(
        last = true,
        required_unless_present = "between",
        value_name = "COMMAND"
    )]
    command: Vec<String>,
}

/// Further commands; each says itself what it does.
#[derive(Debug, clap::Subcommand)]
enum EmulateCommand {
    Set(control::Set),
    Show(control::Show),
    Reset(control::Reset),
    Attach(attach::Arguments),
    Proxy(proxy::Arguments),
    Clean(clean::Arguments),
    #[command(hide = true)]
    Contain(contain::Arguments),
}

/// The link's report, and the circumstances.
#[derive(Debug, Serialize)]
struct EmulationOutput<'a> {
    #[serde(flatten)]
    link: &'a LinkReport,
    #[serde(flatten)]
    circumstances: Option<&'a Circumstances>,
    /// The state of the packet log; none when there is none.
    packet_log: Option<&'a LogReport>,
    /// The reason for which a measurement over the link should not count; none when it may.
    invalid: Option<String>,
}

impl<'a> EmulationOutput<'a> {
    fn new(
        link: &'a LinkReport,
        circumstances: Option<&'a Circumstances>,
        packet_log: Option<&'a LogReport>,
    ) -> Self {
        let invalid = link.validity().err().map(|invalid| invalid.to_string());
        Self {
            link,
            circumstances,
            packet_log,
            invalid,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    match &arguments.other {
        Some(EmulateCommand::Set(arguments)) => control::set(arguments, printer),
        Some(EmulateCommand::Show(arguments)) => control::show(arguments, printer),
        Some(EmulateCommand::Reset(arguments)) => control::reset(arguments, printer),
        Some(EmulateCommand::Attach(arguments)) => attach::run(arguments),
        Some(EmulateCommand::Proxy(arguments)) => proxy::run(arguments, printer),
        Some(EmulateCommand::Clean(arguments)) => clean::run(arguments, printer),
        Some(EmulateCommand::Contain(arguments)) => contain::run(arguments),
        None => match arguments.between.as_slice() {
            [client_side, server_side] => {
                between::run(arguments, [client_side, server_side], printer)
            }
            _ => run_command(arguments, printer),
        },
    }
}

fn run_command(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let options = options(arguments)?;
    let schedule = arguments.conditions.schedule()?;
    let folder = folder();
    altway_emulate::enter()?;
    let terminate = signals::terminate_flag()?;
    let emulation = Arc::new(Emulation::start(options)?);
    for unset in emulation.unset() {
        tracing::warn!("{unset}");
    }
    let conditions = &arguments.conditions;
    conditions.print_isolation(emulation.pinning(), printer);
    let control = conditions.listen(emulation.clone(), &folder, printer);
    let mut server = ChildGuard {
        child: start_server(arguments, &emulation, control.as_ref())?,
        end: containment::end,
    };
    if server.child.is_some() {
        std::thread::sleep(arguments.server_wait);
        server.must_run()?;
    }
    emulation.set_schedule(schedule)?;
    let mut client = ChildGuard {
        child: Some(start_client(arguments, &emulation, control.as_ref())?),
        end: kill,
    };
    let mut circumstances = Circumstances::of(emulation.pinning());
    let before = children_involuntary_switches();
    let status = client.wait(&terminate)?;
    circumstances.client_involuntary_switches = children_involuntary_switches() - before;
    let report = emulation.report()?;
    circumstances.server_involuntary_switches = server.child.is_some().then(|| server.end());
    drop(control);
    let log = Arc::into_inner(emulation).and_then(Emulation::stop);
    let output = EmulationOutput::new(&report, Some(&circumstances), log.as_ref());
    print_report(&output, arguments.json, printer)?;
    std::process::exit(exit_code(status))
}

fn start_client(
    arguments: &Arguments,
    emulation: &Emulation,
    control: Option<&Control>,
) -> Result<Child> {
    let (program, rest) = arguments
        .command
        .split_first()
        .expect("clap requires a command");
    let mut client = emulation.client_command(program);
    name_link(&mut client, control);
    // The terminal's own process group, so that COMMAND may read from it and gets Ctrl-C.
    client
        .args(rest)
        .process_group(rustix::process::getpgrp().as_raw_nonzero().get());
    client.spawn().map_err(|source| cannot_run(program, source))
}

/// The error for a `program` that could not be started.
fn cannot_run(program: &str, source: io::Error) -> anyhow::Error {
    let hint = match source.kind() {
        io::ErrorKind::NotFound => {
            "it has to be in a folder of PATH, or a path; each of its arguments is a word of its own, not quoted with it"
        }
        io::ErrorKind::PermissionDenied => {
            "name a program that this user may run: a file, and executable"
        }
        _ => return anyhow::Error::new(source).context(format!("cannot run `{program}`")),
    };
    usage_error(format!("cannot run `{program}`: {source}"), hint)
}

fn options(arguments: &Arguments) -> Result<Options> {
    let (up, down) = arguments.path.configs()?;
    let mut options = Options {
        up,
        down,
        seed: arguments.seed,
        backend: arguments.backend.backend(),
        far_end: if arguments.server.is_some() {
            FarEnd::ServerNamespace
        } else {
            FarEnd::Host
        },
        topology: arguments.topology,
        proxy_ports: arguments.proxy_port.clone(),
        ip: if arguments.ipv6 {
            IpVersion::V6
        } else {
            IpVersion::V4
        },
        mtu: arguments.mtu,
        congestion_control: arguments.congestion.clone(),
        keep_awake: arguments.keep_awake,
        ..Options::default()
    };
    arguments.conditions.apply(&mut options);
    Ok(options)
}

fn start_server(
    arguments: &Arguments,
    emulation: &Emulation,
    control: Option<&Control>,
) -> Result<Option<Child>> {
    let Some(server) = &arguments.server else {
        return Ok(None);
    };
    let binary = std::env::current_exe().context("cannot find altway's own binary")?;
    let mut shell: Command = emulation.contained_command(&binary);
    name_link(&mut shell, control);
    let child = shell.args(["sh", "-c", server]).spawn();
    child
        .map(Some)
        .with_context(|| format!("cannot run `{server}`"))
}

/// A process that is ended with this value.
struct ChildGuard {
    child: Option<Child>,
    end: fn(&mut Child),
}

impl ChildGuard {
    fn wait(&mut self, terminate: &AtomicBool) -> Result<ExitStatus> {
        let child = self.child.as_mut().expect("made with a process");
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if terminate.load(Ordering::Relaxed) {
                bail!("terminated");
            }
            std::thread::sleep(LOOK_PERIOD);
        }
    }

    /// Ends the process, if it has not ended; returns its involuntary context switches.
    fn end(&mut self) -> u64 {
        let before = children_involuntary_switches();
        self.kill();
        children_involuntary_switches().saturating_sub(before)
    }

    fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            (self.end)(child);
        }
    }

    fn must_run(&mut self) -> Result<()> {
        let ended = self
            .child
            .as_mut()
            .map(Child::try_wait)
            .transpose()?
            .flatten();
        match ended {
            Some(status) => bail!("the server command ended at once: {status}"),
            None => Ok(()),
        }
    }
}

fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        self.kill();
    }
}

fn print_report(output: &EmulationOutput<'_>, json: bool, printer: &Printer) -> Result<()> {
    if json {
        printer.say(&serde_json::to_string(output)?);
        return Ok(());
    }
    print_text(output, printer);
    if let Some(invalid) = &output.invalid {
        tracing::warn!("the link did not do what it was asked to: {invalid}");
    }
    Ok(())
}

fn print_text(output: &EmulationOutput<'_>, printer: &Printer) {
    let report = output.link;
    print_hops(report, printer);
    printer.say(&format!(
        "link by {}: {}",
        report.backend, report.backend_reason
    ));
    if let Some(circumstances) = output.circumstances {
        printer.say(&circumstances.switches(report.involuntary_switches));
    }
    if let Some(log) = output.packet_log.map(control::log_words) {
        printer.say(&format!("packet log: {log}"));
    }
}

fn print_hops(report: &LinkReport, printer: &Printer) {
    printer.say(&sentence("link up", &report.up));
    printer.say(&sentence("link down", &report.down));
    if let Some(router) = &report.router {
        printer.say(&sentence("client to router", &router.up));
        printer.say(&sentence("router to client", &router.down));
        let proxy = router.proxy.as_ref().map(proxy::sentence);
        proxy.iter().for_each(|sentence| printer.say(sentence));
    }
}

fn sentence(hop: &str, report: &altway_emulate::DirectionReport) -> String {
    let mut text = format!(
        "{hop}: {} packets, {} lost, {} dropped by the queue",
        report.packets_in,
        report.packets_lost,
        report.packets_queue_dropped + report.packets_codel_dropped
    );
    for (count, what) in [
        (report.packets_udp_dropped, "dropped as UDP"),
        (report.packets_duplicated, "duplicated"),
        (report.packets_reordered, "reordered"),
        (report.packets_corrupted, "corrupted"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text
}

/// The command's own exit code; 128 + N when signal N ended it, as shells have it.
fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(2)
}
