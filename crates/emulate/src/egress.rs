//! Shaping where packets leave an end: the rate and its queue are the kernel's HTB on the end's own interface, as
//! `tc` sets it up on a server that limits itself.
//!
//! Four things differ from a link in the middle of the path: a queue that is full refuses a packet to the local TCP, which
//! then slows down without having lost anything, and drops a datagram that nobody hears of; TCP keeps little in the
//! queue of its own host (TCP small queues), where UDP fills its socket's buffer; TCP's large pieces (GSO) wait and leave whole, the last one
//! at once, ahead of the rate; and the rate counts the Ethernet header of each packet.
//! Loss, delay and the rest stay with the link behind, but for a link of netem, whose delay is at the interface too, in HTB's
//! leaf. Left to others: that link ([`Link`]).

use crate::Error;
use crate::backend::Backend;
use crate::emulation::Options;
use crate::end::End;
use crate::link::Link;
use crate::link_devices::Interface;
use crate::namespace::Namespace;
use crate::netem::{queue_limit, tc};
use crate::netlink::Netlink;
use crate::pump::{Parameters, Snapshot};
use crate::topology::Topology;
use altway_link::{Change, Config, Counters, Discipline, Queue, Rate, Schedule};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The handles of HTB and of the queue in it, by which their counters are found.
const HTB: &str = "1:";
const QUEUE: &str = "2:";

/// A link between two ends that shape what they send.
#[derive(Debug)]
pub(crate) struct EgressLink {
    /// The link behind both interfaces, which has no rate.
    path: Box<dyn Link>,
    /// The client's side and the server's.
    senders: [Sender; 2],
    settings: Settings,
    /// Both directions as they were asked for, up first; `None` when they could not be set.
    configs: Mutex<Option<[Config; 2]>>,
}

/// The places where packets are shaped: all on the link, or the rate where they leave an end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shaping {
    OnTheLink,
    AtTheEnds(Settings),
}

/// The place where an end sends.
#[derive(Debug)]
pub(crate) struct Sender {
    namespace: Namespace,
    interface: Interface,
}

/// Settings that hold for both interfaces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    mtu: u16,
    /// True where netem delays at the interface, in HTB's leaf, and not the link behind.
    delays: bool,
    /// True where TCP hands large pieces over.
    pieces: bool,
}

impl Shaping {
    pub(crate) fn of(topology: Topology, backend: Backend, mtu: u16) -> Self {
        match topology.shapes_at_the_ends() {
            false => Self::OnTheLink,
            true => Self::AtTheEnds(Settings {
                mtu,
                delays: backend == Backend::Netem,
                pieces: topology == Topology::Egress,
            }),
        }
    }

    /// The part of what was asked for that the link between the interfaces has.
    pub(crate) fn left_to_the_link(self, options: &Options) -> Parameters {
        let left = |way: &Config| match self {
            Self::OnTheLink => way.clone(),
            Self::AtTheEnds(settings) => behind(way, settings),
        };
        Parameters {
            up: left(&options.up),
            down: left(&options.down),
            seed: options.seed,
        }
    }

    /// Makes the ends of `path` shape the rest of `ways`, up first.
    pub(crate) fn at_the_ends(
        self,
        path: Box<dyn Link>,
        senders: [Sender; 2],
        ways: [&Config; 2],
    ) -> Result<Box<dyn Link>, Error> {
        Ok(match self {
            Self::OnTheLink => path,
            Self::AtTheEnds(settings) => {
                let ways = ways.map(Config::clone);
                Box::new(EgressLink::start(path, senders, ways, settings)?)
            }
        })
    }
}

impl Sender {
    pub(crate) fn new((end, interface): (&End, &Interface)) -> Self {
        Self {
            namespace: end.namespace.clone(),
            interface: interface.clone(),
        }
    }
}

impl EgressLink {
    /// Shapes what both ends send over `path`, which has what [`behind`] leaves it.
    fn start(
        path: Box<dyn Link>,
        senders: [Sender; 2],
        [up, down]: [Config; 2],
        settings: Settings,
    ) -> Result<Self, Error> {
        let link = Self {
            path,
            senders,
            settings,
            configs: Mutex::new(Some([Config::default(), Config::default()])),
        };
        if !settings.pieces {
            for Sender {
                namespace,
                interface,
            } in &link.senders
            {
                namespace.run(|| Netlink::open()?.send_packets_apart(interface.index))?;
            }
        }
        link.shape(&mut link.configs(), [up, down])?;
        Ok(link)
    }

    fn configs(&self) -> MutexGuard<'_, Option<[Config; 2]>> {
        // What panics with it leaves `None`, or what holds.
        self.configs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the shape of both interfaces away, with the packets in it, and gives another.
    fn shape(&self, held: &mut Option<[Config; 2]>, next: [Config; 2]) -> Result<(), Error> {
        let [up, down] = next.each_ref().map(|config| lines(config, self.settings));
        let wanted = [up?, down?];
        let before = held.take().ok_or(Error::LinkStopped)?;
        for ((sender, lines), before) in self.senders.iter().zip(wanted).zip(before) {
            let interface = &sender.interface;
            let was = is_shaped(&before, self.settings).then(|| tc::removal(interface));
            let named = lines
                .iter()
                .map(|line| line.replace("DEV", &interface.name));
            let batch: Vec<String> = was.into_iter().chain(named).collect();
            tc::batch(Some(&sender.namespace), interface, &batch).map_err(without_htb)?;
        }
        *held = Some(next);
        Ok(())
    }

    /// Adds what an interface did to the counters of the link behind it.
    fn count(&self, sender: &Sender, config: &Config, behind: &mut Counters) -> Result<(), Error> {
        if !is_shaped(config, self.settings) {
            return Ok(());
        }
        let shown = tc::show(Some(&sender.namespace), &sender.interface)?;
        let queue = shown.iter().find(|qdisc| qdisc.handle == QUEUE);
        let queue = queue.ok_or(Error::LinkStopped)?;
        behind.packets_in += queue.drops + queue.qlen;
        behind.packets_queue_dropped += queue.drops;
        behind.packets_queued += queue.qlen;
        Ok(())
    }
}

impl Link for EgressLink {
    fn restart(&self, parameters: Parameters) -> Result<(), Error> {
        let mut held = self.configs();
        let Parameters { up, down, seed } = parameters;
        let [up_behind, down_behind] = [&up, &down].map(|way| behind(way, self.settings));
        // First, so that what still waits at an interface does not enter the link that begins anew.
        self.shape(&mut held, [up, down])?;
        self.path.restart(Parameters {
            up: up_behind,
            down: down_behind,
            seed,
        })
    }

    fn change(&self, _: Change) -> Result<(), Error> {
        Err(beyond("changes while it runs"))
    }

    fn reset(&self) -> Result<(), Error> {
        Err(beyond("changes while it runs"))
    }

    fn set_schedule(&self, schedule: Schedule) -> Result<(), Error> {
        match schedule.changes().is_empty() {
            true => self.path.set_schedule(schedule),
            false => Err(beyond("changes while it runs")),
        }
    }

    fn snapshot(&self) -> Result<Snapshot, Error> {
        let held = self.configs();
        let [up, down] = held.as_ref().ok_or(Error::LinkStopped)?;
        let mut snapshot = self.path.snapshot()?;
        let [client, server] = &self.senders;
        self.count(client, up, &mut snapshot.up)?;
        self.count(server, down, &mut snapshot.down)?;
        (snapshot.now.up, snapshot.now.down) = (up.clone(), down.clone());
        Ok(snapshot)
    }

    fn dropped_between(&self) -> Result<u64, Error> {
        self.path.dropped_between()
    }

    fn is_realtime(&self) -> Option<bool> {
        self.path.is_realtime()
    }

    fn knows_arrivals(&self) -> Option<bool> {
        self.path.knows_arrivals()
    }
}

/// Takes the shapes off an interface of this host; others go with their namespace.
impl Drop for EgressLink {
    fn drop(&mut self) {
        let Some(configs) = self.configs().take() else {
            return;
        };
        for (sender, config) in self.senders.iter().zip(&configs) {
            if is_shaped(config, self.settings) {
                let _ = tc::remove(Some(&sender.namespace), &sender.interface);
            }
        }
    }
}

/// The part of a direction that is left to the link behind the interface.
fn behind(config: &Config, settings: Settings) -> Config {
    Config {
        rate: Rate::Unlimited,
        queue: Queue::default(),
        delay: match settings.delays {
            true => Duration::ZERO,
            false => config.delay,
        },
        ..config.clone()
    }
}

fn is_shaped(config: &Config, settings: Settings) -> bool {
    config.rate != Rate::Unlimited || (settings.delays && !config.delay.is_zero())
}

/// The lines of a `tc` batch that shape the interface DEV, which has no shape.
fn lines(config: &Config, settings: Settings) -> Result<Vec<String>, Error> {
    if config.discipline != Discipline::DropTail {
        return Err(beyond("CoDel"));
    }
    let rate = match &config.rate {
        Rate::Unlimited => None,
        Rate::Fixed(rate) => Some(*rate),
        Rate::Trace(_) => return Err(beyond("a rate that follows a trace")),
    };
    if !is_shaped(config, settings) {
        return Ok(Vec::new());
    }
    let limit = rate.map_or(UNLIMITED, |rate| {
        queue_limit(rate, config.queue, settings.mtu)
    });
    let queue = match settings.delays {
        true => format!("netem limit {limit} delay {}us", config.delay.as_micros()),
        false => format!("pfifo limit {limit}"),
    };
    let Some(rate) = rate else {
        return Ok(vec![format!(
            "qdisc add dev DEV root handle {QUEUE} {queue}"
        )]);
    };
    let (bps, quantum) = (rate.as_bps(), u32::from(settings.mtu) + ETHERNET_HEADER);
    Ok(vec![
        format!("qdisc add dev DEV root handle {HTB} htb default 1"),
        // The burst is the one that `tc` chooses.
        format!(
            "class add dev DEV parent {HTB} classid {HTB}1 htb rate {bps}bit quantum {quantum}"
        ),
        format!("qdisc add dev DEV parent {HTB}1 handle {QUEUE} {queue}"),
    ])
}

/// Packets that netem holds where there is no rate to wait for.
const UNLIMITED: u64 = 262_144;

/// Bytes of the header of Ethernet, which HTB counts.
const ETHERNET_HEADER: u32 = 14;

fn beyond(what: &'static str) -> Error {
    Error::BeyondEgress { what }
}

/// HTB is what is asked for first.
fn without_htb(error: Error) -> Error {
    match error {
        Error::NoNetem => Error::NoHtb,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_units::{Bandwidth, DataSize};

    const BEHIND: Settings = Settings {
        mtu: 1_500,
        delays: false,
        pieces: true,
    };
    const AT_ONCE: Settings = Settings {
        delays: true,
        ..BEHIND
    };

    fn slow() -> Config {
        Config {
            rate: Rate::Fixed(Bandwidth::from_mbit(5).unwrap()),
            queue: Queue::Bytes(DataSize::from_bytes(150_000)),
            delay: Duration::from_millis(25),
            ..Config::default()
        }
    }

    #[test]
    fn the_rate_and_its_queue_are_at_the_interface_and_the_delay_behind() {
        assert_eq!(
            lines(&slow(), BEHIND).unwrap(),
            [
                "qdisc add dev DEV root handle 1: htb default 1",
                "class add dev DEV parent 1: classid 1:1 htb rate 5000000bit quantum 1514",
                "qdisc add dev DEV parent 1:1 handle 2: pfifo limit 100",
            ]
        );
        let rest = behind(&slow(), BEHIND);
        assert_eq!((rest.rate, rest.queue), (Rate::Unlimited, Queue::Unlimited));
        assert_eq!(rest.delay, slow().delay);
    }

    #[test]
    fn netem_delays_at_the_interface_and_nothing_behind() {
        let shaped = lines(&slow(), AT_ONCE).unwrap();
        assert!(shaped[2].ends_with("parent 1:1 handle 2: netem limit 100 delay 25000us"));
        assert_eq!(behind(&slow(), AT_ONCE), Config::default());
        let free = Config {
            rate: Rate::Unlimited,
            ..slow()
        };
        assert_eq!(lines(&free, AT_ONCE).unwrap().len(), 1);
        assert!(lines(&free, BEHIND).unwrap().is_empty());
    }

    #[test]
    fn what_htb_cannot_do_is_refused_by_name() {
        let codel = Config {
            discipline: Discipline::CoDel,
            ..slow()
        };
        let refused = lines(&codel, BEHIND).unwrap_err().to_string();
        assert!(refused.contains("CoDel"), "{refused}");
    }
}
