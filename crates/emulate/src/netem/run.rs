//! The run of a link in the kernel, from a restart to the next: what it is like, and what it becomes.

use super::shape::{Shape, Unshapable};
use crate::Error;
use crate::netlink::ReceivedCounters;
use crate::pump::{Now, Parameters};
use crate::report::mean_loss;
use crate::timeline::Timeline;
use altway_link::{Change, Config, Schedule};
use altway_units::Timestamp;
use std::time::Duration;

/// State of the time since the last start or restart.
#[derive(Debug)]
pub(super) struct Run {
    /// The changes that are to come.
    pub(super) timeline: Timeline,
    /// Counters of what each interface had received when it began, the client's first.
    pub(super) received: [ReceivedCounters; 2],
    both_directions: DirectionSettings,
    /// The share of random loss for all packets, where there was one.
    loss: [Option<f64>; 2],
    /// A change could not be made, or by half.
    has_failed: bool,
}

/// The settings of both directions at one moment, up first.
#[derive(Debug, Clone)]
pub(super) struct DirectionSettings {
    mtu: u16,
    configs: [Config; 2],
    shapes: [Shape; 2],
}

impl Run {
    /// A run that begins at `at`, with packets of up to `mtu` bytes of IP.
    ///
    /// # Errors
    /// [`Error::Unshapable`].
    pub(super) fn new(
        at: Timestamp,
        parameters: Parameters,
        mtu: u16,
        received: [ReceivedCounters; 2],
    ) -> Result<Self, Error> {
        let Parameters { up, down, .. } = parameters;
        let both_directions = DirectionSettings::new([up, down], mtu)?;
        Ok(Self {
            timeline: Timeline::new(at, both_directions.longer_delay()),
            received,
            loss: both_directions.configs.each_ref().map(mean_loss),
            both_directions,
            has_failed: false,
        })
    }

    /// Returns both directions as they are now.
    pub(super) fn both_directions(&self) -> &DirectionSettings {
        &self.both_directions
    }

    /// The kernel shapes in this way from now on.
    pub(super) fn go_on(&mut self, next: DirectionSettings) {
        self.timeline.delays(next.longer_delay());
        for (loss, config) in self.loss.iter_mut().zip(&next.configs) {
            *loss = loss.filter(|loss| Some(*loss) == mean_loss(config));
        }
        self.both_directions = next;
    }

    /// Goes through a schedule without making its changes.
    ///
    /// # Errors
    /// [`Error::Unshapable`] of the first change that netem has nothing for.
    pub(super) fn try_out(&self, schedule: &Schedule) -> Result<(), Error> {
        let mut both_directions = self.both_directions.clone();
        for scheduled in schedule.changes() {
            both_directions =
                both_directions.next(both_directions.changed_by(&scheduled.change))?;
        }
        Ok(())
    }

    /// Notes that from now on nobody knows what the link is like.
    pub(super) fn fail(&mut self) {
        self.has_failed = true;
    }

    /// # Errors
    /// [`Error::LinkStopped`] when a change could not be made.
    pub(super) fn now(&self, now: Timestamp) -> Result<Now, Error> {
        if self.has_failed {
            return Err(Error::LinkStopped);
        }
        let [up, down] = self.both_directions.configs.clone();
        Ok(Now {
            up,
            down,
            loss: self.loss,
            least_delay: self.timeline.least_delay(),
            running: self.timeline.running(now),
            to_come: self.timeline.to_come(now),
        })
    }
}

impl DirectionSettings {
    fn new(configs: [Config; 2], mtu: u16) -> Result<Self, Error> {
        let [up, down] = &configs;
        let shapes = [
            named("up", Shape::of(up, mtu))?,
            named("down", Shape::of(down, mtu))?,
        ];
        Ok(Self {
            mtu,
            configs,
            shapes,
        })
    }

    /// Returns the directions that go on as these configurations say.
    ///
    /// # Errors
    /// [`Error::Unshapable`].
    pub(super) fn next(&self, configs: [Config; 2]) -> Result<Self, Error> {
        let fresh = Self::new(configs, self.mtu)?;
        let ([up, down], [next_up, next_down]) = (&self.shapes, fresh.shapes);
        let shapes = [
            named("up", up.turned_into(next_up))?,
            named("down", down.turned_into(next_down))?,
        ];
        Ok(Self { shapes, ..fresh })
    }

    /// Returns their configurations after a change.
    pub(super) fn changed_by(&self, change: &Change) -> [Config; 2] {
        let [mut up, mut down] = self.configs.clone();
        change.apply(&mut up, &mut down);
        [up, down]
    }

    pub(super) fn shapes(&self) -> [&Shape; 2] {
        self.shapes.each_ref()
    }

    pub(super) fn mtu(&self) -> u16 {
        self.mtu
    }

    fn longer_delay(&self) -> Duration {
        let [up, down] = &self.configs;
        up.delay.max(down.delay)
    }
}

/// Says which direction can't be shaped.
fn named(direction: &'static str, shape: Result<Shape, Unshapable>) -> Result<Shape, Error> {
    shape.map_err(|source| Error::Unshapable { direction, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_link::ScheduledChange;

    fn run(change: &str) -> Run {
        let (mut up, mut down) = (Config::default(), Config::default());
        let change: Change = change.parse().unwrap();
        change.apply(&mut up, &mut down);
        let seed = 1;
        let parameters = Parameters { up, down, seed };
        Run::new(Timestamp::ZERO, parameters, 1_500, Default::default()).unwrap()
    }

    fn schedule(changes: &[&str]) -> Schedule {
        let scheduled = |(after, change): (u64, &&str)| ScheduledChange {
            after: Duration::from_secs(after),
            change: change.parse().unwrap(),
        };
        Schedule::new((1..).zip(changes).map(scheduled)).unwrap()
    }

    #[test]
    fn a_schedule_is_tried_out_from_turn_to_turn() {
        let run = run("rate 10mbit");
        assert!(run.try_out(&schedule(&["loss 1%", "rate none"])).is_ok());
        // A rate that is gone by the second turn still leaves its netem there.
        let refused = run.try_out(&schedule(&["rate none", "down duplicate 1%"]));
        let said = refused.unwrap_err();
        assert!(
            matches!(
                said,
                Error::Unshapable {
                    direction: "down",
                    ..
                }
            ),
            "{said:?}"
        );
    }

    #[test]
    fn a_share_of_loss_that_changed_is_held_against_no_count() {
        let mut run = run("loss 1%, delay 20ms");
        let change = |run: &mut Run, words: &str| {
            let next = run.both_directions().changed_by(&words.parse().unwrap());
            let next = run.both_directions().next(next).unwrap();
            run.go_on(next);
        };
        change(&mut run, "up loss 2%, delay 5ms");
        change(&mut run, "up loss 1%, delay 50ms");
        let now = run.now(Timestamp::ZERO).unwrap();
        assert_eq!(now.loss, [None, Some(0.01)]);
        assert_eq!(now.least_delay, Duration::from_millis(5));
        assert_eq!(now.up.delay, Duration::from_millis(50));
    }

    #[test]
    fn after_a_change_that_could_not_be_made_nothing_is_known() {
        let mut run = run("loss 1%");
        run.fail();
        assert!(matches!(run.now(Timestamp::ZERO), Err(Error::LinkStopped)));
    }
}
