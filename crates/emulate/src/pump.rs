//! The loop that moves packets: out of one TUN interface, through the model, into the other.

use crate::lateness::Lateness;
use crate::pool::{Pool, Slot};
use crate::tun::Tun;
use altway_link::{Config, Counters, Direction, seed_for};
use altway_units::{DataSize, Timestamp};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};

/// Packets that one step moves at most, so that no direction and no request waits for long: 32
/// packets take about 0.1 ms.
const BATCH: usize = 32;

/// What the rest of the program asks of the link thread.
#[derive(Debug)]
pub(crate) enum Request {
    /// Begin anew with these parameters.
    Restart {
        parameters: Box<Parameters>,
        done: SyncSender<()>,
    },
    /// Say what happened since the last restart.
    Report { reply: SyncSender<Snapshot> },
    /// End.
    Stop,
}

/// What one run of the link is like.
#[derive(Debug, Clone)]
pub(crate) struct Parameters {
    pub(crate) up: Config,
    pub(crate) down: Config,
    pub(crate) seed: u64,
}

/// The state of the link at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) up: Counters,
    pub(crate) down: Counters,
    pub(crate) lateness: Lateness,
    /// Packets lost in this thread that the model did not lose.
    pub(crate) mishaps: u64,
}

/// One direction of the link: packets from `from` go through `model` to `to`. The numbers are
/// places in [`Pump::ends`].
struct Lane {
    from: usize,
    to: usize,
    model: Direction<Slot>,
}

/// Everything that the link thread owns.
pub(crate) struct Pump {
    /// The client's and the server's interface.
    ends: [Tun; 2],
    lanes: [Lane; 2],
    pool: Pool,
    lateness: Lateness,
    mishaps: u64,
    epoll: OwnedFd,
    requests: Receiver<Request>,
}

impl Pump {
    /// `ends` are the client's and the server's interface, `mtu` is theirs; `wake` becomes readable
    /// after each new request.
    pub(crate) fn new(
        ends: [Tun; 2],
        mtu: u16,
        parameters: Parameters,
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
            lanes: lanes(parameters),
            pool: Pool::new(mtu.into()),
            lateness: Lateness::new(),
            mishaps: 0,
            epoll,
            requests,
        })
    }

    /// Moves packets until told to stop.
    ///
    /// # Errors
    /// An interface can't be read any more: it was deleted.
    pub(crate) fn run(mut self) -> Result<(), Errno> {
        while self.serve_requests() {
            let mut moved = 0;
            for lane in 0..self.lanes.len() {
                moved += self.let_out(lane);
                moved += self.take_in(lane)?;
            }
            if moved == 0 {
                self.wait()?;
            }
        }
        Ok(())
    }

    /// Hands over what is due at the far end of a lane; returns how many packets.
    fn let_out(&mut self, lane: usize) -> usize {
        let Lane { to, model, .. } = &mut self.lanes[lane];
        for moved in 0..BATCH {
            let now = now();
            let delivery = model.dequeue(now);
            free_dropped(model, &mut self.pool);
            let Some(delivery) = delivery else {
                return moved;
            };
            self.lateness.record((now - delivery.due).as_nanos() as u64);
            if let Some(flip) = delivery.flip {
                flip.apply(self.pool.packet_mut(&delivery.packet));
            }
            let written = self.ends[*to].write(self.pool.packet(&delivery.packet));
            self.mishaps += u64::from(written.is_err());
            self.pool.put_back(delivery.packet);
        }
        BATCH
    }

    /// Takes in what has arrived at the near end of a lane; returns how many packets.
    fn take_in(&mut self, lane: usize) -> Result<usize, Errno> {
        for moved in 0..BATCH {
            if self.pool.is_exhausted() {
                return self.discard(self.lanes[lane].from);
            }
            let Lane { from, model, .. } = &mut self.lanes[lane];
            let Some(slot) = self.pool.fill(|buffer| self.ends[*from].read(buffer))? else {
                return Ok(moved);
            };
            let size = DataSize::from_bytes(slot.len() as u64);
            let copy = |slot: &Slot| {
                let copy = self.pool.copy(slot);
                self.mishaps += u64::from(copy.is_none());
                copy
            };
            if let Err(dropped) = model.enqueue_with(now(), size, slot, copy) {
                self.pool.put_back(dropped.packet);
            }
            free_dropped(model, &mut self.pool);
        }
        Ok(BATCH)
    }

    /// Throws packets away when there is no memory for them: left unread, they would wake the
    /// thread for ever.
    fn discard(&mut self, end: usize) -> Result<usize, Errno> {
        let discarded = drain(&self.ends[end], BATCH)?;
        self.mishaps += discarded as u64;
        Ok(discarded)
    }

    /// Sleeps until a packet is due, a packet has come, or there is a request.
    fn wait(&self) -> Result<(), Errno> {
        let due = self
            .lanes
            .iter()
            .filter_map(|lane| lane.model.poll_timeout());
        let timeout = due.min().map(|due| due - now());
        let timeout = timeout.map(|left| Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 4];
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
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
            Ok(Request::Report { reply }) => {
                let _ = reply.try_send(self.snapshot());
                true
            }
        }
    }

    fn restart(&mut self, parameters: Parameters) {
        let fresh = lanes(parameters);
        for lane in std::mem::replace(&mut self.lanes, fresh) {
            for slot in lane.model.into_packets() {
                self.pool.put_back(slot);
            }
        }
        for end in &self.ends {
            // An error comes up again at the next read.
            let _ = drain(end, 2 * Tun::QUEUE as usize);
        }
        self.lateness = Lateness::new();
        self.mishaps = 0;
    }

    fn snapshot(&self) -> Snapshot {
        let [up, down] = &self.lanes;
        let (up, down) = (up.model.counters(), down.model.counters());
        Snapshot {
            up,
            down,
            lateness: self.lateness.clone(),
            mishaps: self.mishaps + up.packets_over_limit + down.packets_over_limit,
        }
    }
}

/// Nanoseconds of the machine's monotonic clock.
fn now() -> Timestamp {
    let time = clock_gettime(ClockId::Monotonic);
    // The monotonic clock counts from the machine's start and is never negative.
    Timestamp::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn lanes(parameters: Parameters) -> [Lane; 2] {
    let Parameters { up, down, seed } = parameters;
    let lane = |from, to, config, up| Lane {
        from,
        to,
        model: Direction::new(config, seed_for(seed, up)),
    };
    [lane(0, 1, up, true), lane(1, 0, down, false)]
}

/// Frees the memory of the packets that the model dropped after it had taken them.
fn free_dropped(model: &mut Direction<Slot>, pool: &mut Pool) {
    while let Some(dropped) = model.poll_dropped() {
        pool.put_back(dropped.packet);
    }
}

fn watch(epoll: &OwnedFd, file: impl AsFd, flags: epoll::EventFlags) -> Result<(), Errno> {
    epoll::add(epoll, file, epoll::EventData::new_u64(0), flags)
}

/// Reads up to `most` packets and throws them away; returns how many there were.
fn drain(end: &Tun, most: usize) -> Result<usize, Errno> {
    // The kernel cuts off what doesn't fit.
    let mut scratch = [0; 64];
    for drained in 0..most {
        if end.read(&mut scratch)?.is_none() {
            return Ok(drained);
        }
    }
    Ok(most)
}
