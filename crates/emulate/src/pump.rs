//! The loop that moves packets: out of one end, through the model, into the other.

use crate::busy_poll::{BusyPoll, Wait};
use crate::clock::{self, now};
use crate::coalescing::Coalescing;
use crate::idle_spinner::IdleSpinner;
use crate::lateness::Lateness;
use crate::packet_log::{Entry, PacketEvent, Recorder, Side};
use crate::pool::{Pool, Slot};
use crate::port::{Lost, Port};
use crate::report::mean_loss;
use crate::switches;
use crate::timeline::Timeline;
use crate::transport;
use altway_link::{Change, Config, Counters, Direction, Schedule, seed_for};
use altway_units::Timestamp;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::thread::sched_yield;
use rustix::time::Timespec;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::time::Duration;

/// Packets that one step moves at most, so that no direction and no request waits for long: as many as are
/// handed over in one piece. One by one they take about 0.2 ms.
const BATCH: usize = 64;

/// Packets that a restart throws away at each end at most: more than the kernel keeps there, and
/// not so many that an end which goes on sending could hold the restart up.
const DRAINED: usize = 40_000;

/// Longer than stepping aside takes where nobody waits.
const STEP: Duration = Duration::from_micros(10);

/// Requests of the rest of the program to the link thread.
#[derive(Debug)]
pub(crate) enum Request {
    /// Begin anew with these parameters.
    Restart {
        parameters: Box<Parameters>,
        done: SyncSender<()>,
    },
    /// Go on in another way, without losing a packet.
    Change {
        change: Change,
        done: SyncSender<()>,
    },
    /// Go on without any shaping, and forget the schedule.
    Reset { done: SyncSender<()> },
    /// Go through these changes from now on, instead of those that are still to come.
    Follow {
        schedule: Schedule,
        done: SyncSender<()>,
    },
    /// Say what happened since the last restart.
    Report { reply: SyncSender<Snapshot> },
    /// End.
    Stop,
}

/// Parameters of one run of the link.
#[derive(Debug, Clone)]
pub(crate) struct Parameters {
    pub(crate) up: Config,
    pub(crate) down: Config,
    pub(crate) seed: u64,
}

impl Parameters {
    fn longer_delay(&self) -> Duration {
        self.up.delay.max(self.down.delay)
    }
}

/// The state of the link at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) up: Counters,
    pub(crate) down: Counters,
    /// `None` where nobody can measure it.
    pub(crate) lateness: Option<Lateness>,
    /// Packets lost in this thread that the model did not lose.
    pub(crate) link_drops: u64,
    /// Packets lost on the way to this thread that no interface counted.
    pub(crate) socket_drops: u64,
    /// Number of times that this thread had to give its processor to another.
    pub(crate) involuntary_switches: u64,
    pub(crate) now: Now,
}

/// Settings of the link at one moment.
#[derive(Debug)]
pub(crate) struct Now {
    pub(crate) up: Config,
    pub(crate) down: Config,
    /// [`mean_loss`] of either direction, up first, where it is what it was at the last restart.
    pub(crate) loss: [Option<f64>; 2],
    /// The least delay that held since the last restart, of the longer of the two directions.
    pub(crate) least_delay: Duration,
    pub(crate) running: Duration,
    /// The changes that are to come, with the time until then.
    pub(crate) to_come: Vec<(Duration, Change)>,
}

/// A direction of the link: packets from `from` go through `model` to `to`. The numbers are places
/// in [`Pump::ends`].
struct LinkDirection {
    from: usize,
    to: usize,
    /// [`mean_loss`] of its configuration; `None` once that has changed.
    loss: Option<f64>,
    model: Direction<Slot>,
    coalescing: Coalescing,
}

impl LinkDirection {
    /// Time at which packets are to be handed over next.
    fn poll_timeout(&self) -> Option<Timestamp> {
        let due = self.model.poll_timeout();
        due.map(|due| due.max(self.coalescing.earliest()))
    }
}

/// The state that the link thread owns.
pub(crate) struct Pump<P> {
    /// The client's and the server's end.
    ends: [P; 2],
    directions: [LinkDirection; 2],
    pool: Pool,
    lateness: Lateness,
    link_drops: u64,
    socket_drops: u64,
    /// Result of [`switches::of_this_thread`] at the start, and the latest.
    switches_before: u64,
    switches_seen: u64,
    /// True if the thread has real-time priority.
    realtime: bool,
    timeline: Timeline,
    busy_poll: BusyPoll,
    idle_spinner: IdleSpinner,
    recorder: Option<Recorder>,
    epoll: OwnedFd,
    requests: Receiver<Request>,
}

impl<P: Port> Pump<P> {
    /// `ends` are the client's and the server's end, `mtu` is theirs; `wake` becomes readable
    /// after each new request.
    pub(crate) fn new(
        ends: [P; 2],
        mtu: u16,
        parameters: Parameters,
        recorder: Option<Recorder>,
        requests: Receiver<Request>,
        wake: &OwnedFd,
    ) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for end in &ends {
            watch(&epoll, end, epoll::EventFlags::IN)?;
        }
        // Edge-triggered: each write wakes once, and nobody has to read it away.
        watch(&epoll, wake, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        Ok(Self {
            ends,
            timeline: Timeline::new(now(), parameters.longer_delay()),
            busy_poll: BusyPoll::new(now()),
            idle_spinner: IdleSpinner::start(),
            directions: directions(parameters),
            pool: Pool::new(P::HEADER + usize::from(mtu)),
            lateness: Lateness::new(),
            link_drops: 0,
            socket_drops: 0,
            switches_before: 0,
            switches_seen: 0,
            realtime: false,
            recorder,
            epoll,
            requests,
        })
    }

    /// Moves packets until told to stop, on a thread with real-time priority or without.
    ///
    /// # Errors
    /// An interface can't be read any more: it was deleted.
    pub(crate) fn run(mut self, realtime: bool) -> Result<(), Errno> {
        self.realtime = realtime;
        self.switches_before = switches::of_this_thread();
        while self.serve_requests() {
            self.keep_to_the_schedule();
            let mut moved = 0;
            // First in, then out: the model's time does not run backwards, and packets have come before
            // they are read.
            for direction in 0..self.directions.len() {
                moved += self.receive_batch(direction)?;
            }
            for direction in 0..self.directions.len() {
                moved += self.deliver_due(direction);
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.flush(now());
            }
            if moved == 0 {
                self.wait()?;
            }
        }
        Ok(())
    }

    /// Makes the changes whose time has come, as of that time.
    fn keep_to_the_schedule(&mut self) {
        while let Some((at, change)) = self.timeline.next_due(now()) {
            self.change(at, &change);
        }
    }

    /// Goes on in another way from `at` on; what is in the link stays in it.
    fn change(&mut self, at: Timestamp, change: &Change) {
        let [up, down] = &mut self.directions;
        let (mut up_config, mut down_config) =
            (up.model.config().clone(), down.model.config().clone());
        change.apply(&mut up_config, &mut down_config);
        self.reconfigure(at, up_config, down_config);
    }

    fn reconfigure(&mut self, at: Timestamp, up: Config, down: Config) {
        self.timeline.delays(up.delay.max(down.delay));
        for (direction, config) in self.directions.iter_mut().zip([up, down]) {
            direction.loss = direction
                .loss
                .filter(|loss| Some(*loss) == mean_loss(&config));
            direction.model.reconfigure(at, config);
            free_dropped::<P>(direction, &mut self.pool, &mut self.recorder);
        }
    }

    /// Hands over what is due at the far end of a direction; returns how many packets.
    fn deliver_due(&mut self, direction: usize) -> usize {
        let began = now();
        if began < self.directions[direction].coalescing.earliest() {
            return 0;
        }
        let moved = (0..BATCH)
            .take_while(|_| self.deliver_one(direction).is_some())
            .count();
        if moved > 0 {
            let direction = &mut self.directions[direction];
            direction.coalescing.handed_over(began);
            self.link_drops += lost(self.ends[direction.to].flush());
        }
        moved
    }

    /// Hands over the next packet that is due, if one is.
    fn deliver_one(&mut self, direction: usize) -> Option<()> {
        let direction = &mut self.directions[direction];
        let now = now();
        let delivery = direction.model.dequeue(now);
        free_dropped::<P>(direction, &mut self.pool, &mut self.recorder);
        let delivery = delivery?;
        self.lateness.record((now - delivery.due).as_nanos() as u64);
        if let Some(flip) = delivery.flip {
            flip.apply(&mut self.pool.packet_mut(&delivery.packet)[P::HEADER..]);
        }
        let packet = self.pool.packet(&delivery.packet);
        self.link_drops += lost(self.ends[direction.to].write(packet));
        if let Some(recorder) = &mut self.recorder {
            recorder.record(entry(
                direction.to,
                PacketEvent::Left,
                now,
                &packet[P::HEADER..],
            ));
        }
        self.pool.put_back(delivery.packet);
        Some(())
    }

    /// Takes in what has arrived at the near end of a direction; returns how many packets.
    fn receive_batch(&mut self, direction: usize) -> Result<usize, Errno> {
        for moved in 0..BATCH {
            if self.pool.is_exhausted() {
                return self.discard(self.directions[direction].from);
            }
            let direction = &mut self.directions[direction];
            let mut arrival = None;
            let slot = self.pool.fill(|buffer| {
                arrival = self.ends[direction.from].read(buffer)?;
                Ok::<_, Errno>(arrival.map(|arrival| arrival.length))
            })?;
            let (Some(slot), Some(arrival)) = (slot, arrival) else {
                return Ok(moved);
            };
            let packet = self.pool.packet(&slot);
            let Some(size) = arrival.size else {
                let to = &mut self.ends[direction.to];
                self.link_drops += lost(to.write(packet)) + lost(to.flush());
                self.pool.put_back(slot);
                continue;
            };
            if let Some(recorder) = &mut self.recorder {
                let packet = &packet[P::HEADER..];
                recorder.record(entry(direction.from, PacketEvent::Came, arrival.at, packet));
            }
            let transport = transport::of(&packet[P::HEADER..]);
            let copy = |slot: &Slot| {
                let copy = self.pool.copy(slot);
                self.link_drops += u64::from(copy.is_none());
                copy
            };
            let offered = direction
                .model
                .enqueue_with(arrival.at, size, transport, slot, copy);
            if let Err(dropped) = offered {
                if let Some(recorder) = &mut self.recorder {
                    let packet = &self.pool.packet(&dropped.packet)[P::HEADER..];
                    let packet_event = PacketEvent::Dropped(dropped.reason);
                    recorder.correct(entry(direction.from, packet_event, arrival.at, packet));
                }
                self.pool.put_back(dropped.packet);
            }
            free_dropped::<P>(direction, &mut self.pool, &mut self.recorder);
        }
        Ok(BATCH)
    }

    /// Throws packets away when there is no memory for them: left unread, they would wake the
    /// thread for ever.
    fn discard(&mut self, end: usize) -> Result<usize, Errno> {
        let discarded = self.ends[end].drain(BATCH)?;
        self.link_drops += discarded as u64;
        Ok(discarded)
    }

    /// Waits until a packet is due, a packet has come, or there is a request; returns at once when it is
    /// better not to sleep.
    fn wait(&mut self) -> Result<(), Errno> {
        let due = self
            .directions
            .iter()
            .filter_map(LinkDirection::poll_timeout)
            .min();
        let asleep = now();
        if due.is_some() {
            self.idle_spinner.spin_from(asleep);
        }
        let due = due.into_iter().chain(self.timeline.poll_timeout()).min();
        let left = match self.busy_poll.wait(asleep, due) {
            Wait::Poll => {
                self.yield_processor(asleep);
                return Ok(());
            }
            Wait::Sleep(left) => Some(left),
            Wait::Block => None,
        };
        let flush = self.recorder.as_ref().and_then(Recorder::flush_due);
        let left = left.into_iter().chain(flush.map(|due| due - asleep)).min();
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 4];
        let happened = epoll::wait(&self.epoll, &mut events, timeout.as_ref());
        let awake = now();
        self.busy_poll.slept(awake);
        match happened {
            Ok(0) => self.busy_poll.woke(awake),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    /// Lets other links of this processor go first, which real-time threads of one priority else wait for
    /// each other; there is nothing to do at `now`.
    fn yield_processor(&mut self, now: Timestamp) {
        if !self.realtime {
            // The kernel lets others go before it anyway, and longer than it needs.
            return;
        }
        sched_yield();
        let after = clock::now();
        if after - now > STEP {
            let switches = switches::of_this_thread();
            if switches > self.switches_seen {
                self.busy_poll.pause(after);
            }
            self.switches_seen = switches;
        }
    }

    /// Answers what was asked; returns whether to go on.
    fn serve_requests(&mut self) -> bool {
        match self.requests.try_recv() {
            Err(TryRecvError::Empty) => true,
            Err(TryRecvError::Disconnected) | Ok(Request::Stop) => false,
            Ok(Request::Restart { parameters, done }) => {
                self.restart(*parameters);
                // Who asked may have given up waiting.
                let _ = done.try_send(());
                true
            }
            Ok(Request::Change { change, done }) => {
                self.change(now(), &change);
                let _ = done.try_send(());
                true
            }
            Ok(Request::Reset { done }) => {
                self.timeline.set_schedule(now(), &Schedule::default());
                self.reconfigure(now(), Config::default(), Config::default());
                let _ = done.try_send(());
                true
            }
            Ok(Request::Follow { schedule, done }) => {
                self.timeline.set_schedule(now(), &schedule);
                let _ = done.try_send(());
                true
            }
            Ok(Request::Report { reply }) => {
                let _ = reply.try_send(self.snapshot());
                true
            }
        }
    }

    fn restart(&mut self, parameters: Parameters) {
        self.timeline = Timeline::new(now(), parameters.longer_delay());
        self.switches_before = switches::of_this_thread();
        let fresh = directions(parameters);
        for direction in std::mem::replace(&mut self.directions, fresh) {
            for slot in direction.model.into_packets() {
                self.pool.put_back(slot);
            }
        }
        for end in &mut self.ends {
            // An error comes up again at the next read.
            let _ = end.drain(DRAINED);
            end.take_hidden_drops();
        }
        self.lateness = Lateness::new();
        self.link_drops = 0;
        self.socket_drops = 0;
    }

    fn snapshot(&mut self) -> Snapshot {
        for end in &mut self.ends {
            self.socket_drops += end.take_hidden_drops();
        }
        let [up, down] = &self.directions;
        let now = Now {
            up: up.model.config().clone(),
            down: down.model.config().clone(),
            loss: [up.loss, down.loss],
            least_delay: self.timeline.least_delay(),
            running: self.timeline.running(now()),
            to_come: self.timeline.to_come(now()),
        };
        let (up, down) = (up.model.counters(), down.model.counters());
        Snapshot {
            up,
            down,
            lateness: Some(self.lateness.clone()),
            involuntary_switches: switches::of_this_thread().saturating_sub(self.switches_before),
            now,
            link_drops: self.link_drops + up.packets_over_limit + down.packets_over_limit,
            socket_drops: self.socket_drops,
        }
    }
}

fn directions(parameters: Parameters) -> [LinkDirection; 2] {
    let Parameters { up, down, seed } = parameters;
    let direction = |from, to, config, up| LinkDirection {
        from,
        to,
        loss: mean_loss(&config),
        model: Direction::new(config, seed_for(seed, up)),
        coalescing: Coalescing::new(),
    };
    [direction(0, 1, up, true), direction(1, 0, down, false)]
}

/// Number of packets that the kernel did not take.
fn lost(handed_over: Result<(), Lost>) -> u64 {
    handed_over.err().map_or(0, |Lost(packets)| packets)
}

/// Frees the memory of the packets that the model dropped after it had taken them.
fn free_dropped<P: Port>(
    direction: &mut LinkDirection,
    pool: &mut Pool,
    recorder: &mut Option<Recorder>,
) {
    while let Some(dropped) = direction.model.poll_dropped() {
        if let Some(recorder) = recorder {
            let packet = &pool.packet(&dropped.packet)[P::HEADER..];
            recorder.record(entry(
                direction.from,
                PacketEvent::Dropped(dropped.reason),
                now(),
                packet,
            ));
        }
        pool.put_back(dropped.packet);
    }
}

/// A line of the packet log about a packet at an end, which is a place in [`Pump::ends`].
fn entry(end: usize, packet_event: PacketEvent, at: Timestamp, packet: &[u8]) -> Entry<'_> {
    let side = if end == 0 { Side::Client } else { Side::Server };
    Entry {
        side,
        packet_event,
        at,
        packet,
    }
}

fn watch(epoll: &OwnedFd, file: impl AsFd, flags: epoll::EventFlags) -> Result<(), Errno> {
    epoll::add(epoll, file, epoll::EventData::new_u64(0), flags)
}
