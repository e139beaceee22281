//! Links that the kernel shapes: netem on both interfaces of a router between the ends.
//!
//! Never on an end's own interface: there, netem tells the local TCP of each packet that it drops, and
//! the TCP behaves as if none had been lost.

mod alarm;
mod router;
mod run;
mod shape;
pub(crate) mod tc;

pub(crate) use router::Router;
pub use shape::Unshapable;
pub(crate) use shape::queue_limit;

use crate::clock::now;
use crate::link::Link;
use crate::link_devices::Interface;
use crate::netlink::ReceivedCounters;
use crate::pump::{Parameters, Snapshot};
use crate::{Backend, Error};
use alarm::Alarm;
use altway_link::{Change, Config, Counters, Schedule};
use altway_units::Timestamp;
use run::Run;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tc::QdiscCounters;

/// The header of Ethernet, which is counted below IP and no part of what a report says.
const ETHERNET_HEADER: u64 = 14;

/// Returns whether the program that tells the kernel what to do is there.
pub(crate) fn has_tc() -> bool {
    tc::is_there()
}

/// Returns whether a link shapes what leaves an interface of the calling thread's namespace, or did so until it
/// was killed.
pub(crate) fn is_shaped(interface: &Interface) -> Result<bool, Error> {
    tc::is_shaped(None, interface)
}

/// Takes away what shapes there.
pub(crate) fn unshape(interface: &Interface) -> Result<(), Error> {
    tc::remove(None, interface)
}

/// A link in the kernel.
///
/// A delay that becomes shorter while it runs lets later packets overtake those that are on their way,
/// for netem lets packets out by their times.
#[derive(Debug)]
pub(crate) struct NetemLink {
    /// Makes the changes of a schedule at their times; ended before what it changes goes away.
    alarm: Alarm,
    shaping: Arc<Shaping>,
}

/// The shaped router and its run. Dropping it takes the shape off.
#[derive(Debug)]
struct Shaping {
    router: Router,
    run: Mutex<Run>,
}

impl NetemLink {
    /// Shapes what leaves the router on either side.
    pub(crate) fn start(router: Router, parameters: Parameters, mtu: u16) -> Result<Self, Error> {
        let run = Run::new(now(), parameters, mtu, router.received()?)?;
        let [up, down] = run.both_directions().shapes();
        tc::add(router.namespace(), router.server_side(), up)?;
        if let Err(error) = tc::add(router.namespace(), router.client_side(), down) {
            // What is on the other one is not ours to take off.
            let _ = tc::remove(router.namespace(), router.server_side());
            return Err(error);
        }
        let shaping = Arc::new(Shaping {
            router,
            run: Mutex::new(run),
        });
        let due = Arc::clone(&shaping);
        let alarm = Alarm::start(move || due.keep_to_the_schedule())?;
        Ok(Self { shaping, alarm })
    }
}

impl Shaping {
    fn run(&self) -> MutexGuard<'_, Run> {
        // What panics with it has changed nothing of it yet.
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the kernel go on as these configurations say.
    fn reconfigure(&self, run: &mut Run, configs: [Config; 2]) -> Result<(), Error> {
        let next = run.both_directions().next(configs)?;
        let (router, [up, down]) = (&self.router, run.both_directions().shapes());
        let [next_up, next_down] = next.shapes();
        let namespace = router.namespace();
        let changed = tc::change(namespace, router.server_side(), up, next_up)
            .and_then(|()| tc::change(namespace, router.client_side(), down, next_down));
        match changed {
            Ok(()) => run.go_on(next),
            // Perhaps the one direction is changed and the other is not.
            Err(_) => run.fail(),
        }
        changed
    }

    fn change(&self, run: &mut Run, change: &Change) -> Result<(), Error> {
        let configs = run.both_directions().changed_by(change);
        self.reconfigure(run, configs)
    }

    /// Makes the changes whose time has come; returns when the next is to come.
    fn keep_to_the_schedule(&self) -> Option<Timestamp> {
        let mut run = self.run();
        while let Some((_, change)) = run.timeline.next_due(now()) {
            // All of them were tried out when the schedule was given; others may have come between.
            if let Err(error) = self.change(&mut run, &change) {
                tracing::error!(%error, %change, "the link could not be changed");
                run.fail();
            }
        }
        run.timeline.poll_timeout()
    }
}

impl Link for NetemLink {
    /// The seed is without effect: netem has a generator of its own.
    fn restart(&self, parameters: Parameters) -> Result<(), Error> {
        let router = &self.shaping.router;
        let mut run = self.shaping.run();
        let mtu = run.both_directions().mtu();
        let mut fresh = Run::new(now(), parameters, mtu, Default::default())?;
        let [up, down] = fresh.both_directions().shapes();
        tc::replace(router.namespace(), router.server_side(), up)?;
        tc::replace(router.namespace(), router.client_side(), down)?;
        fresh.received = router.received()?;
        *run = fresh;
        Ok(())
    }

    fn change(&self, change: Change) -> Result<(), Error> {
        self.shaping.change(&mut self.shaping.run(), &change)
    }

    fn reset(&self) -> Result<(), Error> {
        let mut run = self.shaping.run();
        run.timeline.set_schedule(now(), &Schedule::default());
        self.shaping.reconfigure(&mut run, Default::default())
    }

    fn set_schedule(&self, schedule: Schedule) -> Result<(), Error> {
        let mut run = self.shaping.run();
        run.try_out(&schedule)?;
        run.timeline.set_schedule(now(), &schedule);
        drop(run);
        self.alarm.set();
        Ok(())
    }

    fn snapshot(&self) -> Result<Snapshot, Error> {
        let router = &self.shaping.router;
        let run = self.shaping.run();
        let received = router.received()?;
        let count = |interface| tc::count(router.namespace(), interface);
        let up = count(router.server_side())?;
        let down = count(router.client_side())?;
        Ok(Snapshot {
            up: counters(since(received[0], run.received[0]), up),
            down: counters(since(received[1], run.received[1]), down),
            lateness: None,
            link_drops: 0,
            socket_drops: 0,
            involuntary_switches: 0,
            now: run.now(now())?,
        })
    }

    fn dropped_between(&self) -> Result<u64, Error> {
        self.shaping.router.dropped()
    }

    fn is_realtime(&self) -> Option<bool> {
        None
    }

    fn knows_arrivals(&self) -> Option<bool> {
        None
    }
}

impl Drop for Shaping {
    fn drop(&mut self) {
        self.router.unshape();
    }
}

/// Refuses what a link in the kernel can't have.
pub(crate) fn beyond_netem(what: &'static str) -> Error {
    Error::BeyondBackend {
        backend: Backend::Netem,
        what,
    }
}

fn since(now: ReceivedCounters, before: ReceivedCounters) -> ReceivedCounters {
    ReceivedCounters {
        packets: now.packets.saturating_sub(before.packets),
        bytes: now.bytes.saturating_sub(before.bytes),
    }
}

/// Returns what the link model would have counted.
fn counters(received: ReceivedCounters, counted: QdiscCounters) -> Counters {
    let below_ip = |packets: u64| packets * ETHERNET_HEADER;
    Counters {
        packets_in: received.packets,
        bytes_in: received.bytes.saturating_sub(below_ip(received.packets)),
        packets_lost: counted.dropped.saturating_sub(counted.queue_dropped),
        packets_queue_dropped: counted.queue_dropped,
        packets_out: counted.packets,
        bytes_out: counted.bytes.saturating_sub(below_ip(counted.packets)),
        packets_queued: counted.queued,
        ..Counters::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_ip() {
        let received = ReceivedCounters {
            packets: 3,
            bytes: 3 * 1_514,
        };
        let counted = QdiscCounters {
            packets: 1,
            bytes: 1_514,
            dropped: 2,
            queue_dropped: 1,
            queued: 0,
        };
        let counters = counters(received, counted);
        assert_eq!((counters.bytes_in, counters.bytes_out), (4_500, 1_500));
        assert_eq!(
            (counters.packets_lost, counters.packets_queue_dropped),
            (1, 1)
        );
    }
}
