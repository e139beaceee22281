//! `altway emulate --between`: no command, but the link between two interfaces of this host.

use super::{Arguments, EmulationOutput, LOOK_PERIOD, print_report};
use crate::printer::Printer;
use crate::{Answer, signals};
use altway_emulate::control::folder;
use altway_emulate::{Between, BetweenOptions};
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The interval in which the link is asked whether it is still there.
const ALIVE_PERIOD: Duration = Duration::from_millis(500);

/// The options that have no sense here: there are no ends of ours.
pub(super) const WITHOUT: [&str; 11] = [
    "server",
    "command",
    "topology",
    "proxy_port",
    "ipv6",
    "mtu",
    "congestion",
    "keep_awake",
    "pin_client",
    "pin_server",
    "isolate",
];

/// Runs as the link until a signal comes or one of the interfaces goes.
pub(super) fn run(arguments: &Arguments, sides: [&String; 2], printer: &Printer) -> Result<Answer> {
    let conditions = &arguments.conditions;
    let options = options(arguments, sides)?;
    let schedule = conditions.schedule()?;
    let stop = signals::stop_flag()?;
    let link = Arc::new(Between::start(options)?);
    let control = conditions.listen(link.clone(), &folder(), printer);
    link.set_schedule(schedule)?;
    let [client_side, server_side] = link.sides();
    printer.say(&format!(
        "link between {client_side} and {server_side} by {}; Ctrl-C ends it",
        link.backend()
    ));
    wait(&link, &stop)?;
    let report = link.report()?;
    drop(control);
    let log = Arc::into_inner(link).and_then(Between::stop);
    let output = EmulationOutput::new(&report, None, log.as_ref());
    print_report(&output, arguments.json, printer)?;
    Ok(Answer::Done)
}

fn options(arguments: &Arguments, sides: [&String; 2]) -> Result<BetweenOptions> {
    let conditions = &arguments.conditions;
    let (mut up, mut down) = arguments.path.configs()?;
    conditions.settle(&mut up, &mut down);
    Ok(BetweenOptions {
        client_side: sides[0].clone(),
        server_side: sides[1].clone(),
        up,
        down,
        seed: arguments.seed,
        backend: arguments.backend.backend(),
        pin: conditions.processor(),
        packet_log: conditions.packet_log(),
    })
}

fn wait(link: &Between, stop: &AtomicBool) -> Result<()> {
    let mut looked = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_PERIOD);
        if looked.elapsed() >= ALIVE_PERIOD {
            link.report()?;
            looked = Instant::now();
        }
    }
    Ok(())
}
