//! The link thread: how it is started, talked to and ended.

use crate::link::Link;
use crate::link_devices::Start;
use crate::pairs::Pairs;
use crate::port::Port;
use crate::pump::{Parameters, Pump, Request, Snapshot};
use crate::{Error, sys};
use altway_link::{Change, Schedule};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::{io, thread};

/// Requests that may wait: each caller waits for its own answer, so this many threads may ask at
/// once before they wait for each other.
const REQUESTS: usize = 8;

/// A running link thread; dropping it ends the thread and with it the interfaces.
#[derive(Debug)]
pub(crate) struct LinkThread {
    requests: SyncSender<Request>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    realtime: bool,
    knows_arrivals: bool,
    /// The interfaces between the ends, if there are any.
    between: Option<Pairs>,
}

impl LinkThread {
    /// Starts the link between the client's and the server's end; `between` are the interfaces that
    /// have to be there for as long as it runs.
    pub(crate) fn start<P: Port>(
        ends: [P; 2],
        between: Option<Pairs>,
        start: Start,
    ) -> Result<Self, Error> {
        let Start {
            parameters,
            mtu,
            recorder,
            pin,
            ..
        } = start;
        let failed = |attempted| {
            move |errno: Errno| Error::StartLink {
                attempted,
                source: errno.into(),
            }
        };
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(failed("create an eventfd"))?;
        let wake = Arc::new(wake);
        let (requests, receiver) = sync_channel(REQUESTS);
        let knows_arrivals = ends.iter().all(Port::knows_arrivals);
        let pump = Pump::new(ends, mtu, parameters, recorder, receiver, &wake)
            .map_err(failed("watch the interfaces"))?;
        let (thread, realtime) = spawn(pump, Arc::clone(&wake), pin)?;
        Ok(Self {
            requests,
            wake,
            thread: Some(thread),
            realtime,
            knows_arrivals,
            between,
        })
    }

    fn ask<T>(&self, request: impl FnOnce(SyncSender<T>) -> Request) -> Result<T, Error> {
        let (reply, answer) = sync_channel(1);
        self.send(request(reply))?;
        answer.recv().map_err(|_| Error::LinkStopped)
    }

    fn send(&self, request: Request) -> Result<(), Error> {
        self.requests
            .send(request)
            .map_err(|_| Error::LinkStopped)?;
        // It fails when 2^64 writes were never read only, and then the thread is awake.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        Ok(())
    }
}

impl Link for LinkThread {
    fn restart(&self, parameters: Parameters) -> Result<(), Error> {
        let parameters = Box::new(parameters);
        self.ask(|done| Request::Restart { parameters, done })
    }

    fn change(&self, change: Change) -> Result<(), Error> {
        self.ask(|done| Request::Change { change, done })
    }

    fn reset(&self) -> Result<(), Error> {
        self.ask(|done| Request::Reset { done })
    }

    fn set_schedule(&self, schedule: Schedule) -> Result<(), Error> {
        self.ask(|done| Request::Follow { schedule, done })
    }

    fn snapshot(&self) -> Result<Snapshot, Error> {
        self.ask(|reply| Request::Report { reply })
    }

    fn dropped_between(&self) -> Result<u64, Error> {
        self.between.as_ref().map_or(Ok(0), Pairs::dropped)
    }

    fn is_realtime(&self) -> Option<bool> {
        Some(self.realtime)
    }

    fn knows_arrivals(&self) -> Option<bool> {
        Some(self.knows_arrivals)
    }
}

impl Drop for LinkThread {
    fn drop(&mut self) {
        let _ = self.send(Request::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed already; there is nothing more to clean up.
            let _ = thread.join();
        }
    }
}

/// Starts the thread and waits until it is set up; returns whether it got real-time priority.
fn spawn<P: Port>(
    pump: Pump<P>,
    wake: Arc<OwnedFd>,
    pin: Option<usize>,
) -> Result<(JoinHandle<()>, bool), Error> {
    let failed = |attempted| move |source| Error::StartLink { attempted, source };
    let (ready, set_up) = sync_channel(1);
    let body = move || {
        // `pump` watches it, so it must not be closed before the thread ends.
        let _wake = wake;
        let prepared = prepare(pin);
        let realtime = prepared.as_ref().ok().copied();
        let _ = ready.send(prepared);
        let Some(realtime) = realtime else {
            return;
        };
        if let Err(errno) = pump.run(realtime) {
            tracing::error!(%errno, "the link lost one of its interfaces");
        }
    };
    let thread = thread::Builder::new()
        .name("altway-link".into())
        .spawn(body)
        .map_err(failed("start a thread"))?;
    let realtime = set_up
        .recv()
        .map_err(|_| Error::LinkStopped)?
        .map_err(failed("pin it to its processor"))?;
    Ok((thread, realtime))
}

/// Gives the calling thread what a link thread needs; returns whether it got real-time priority.
///
/// Real-time priority can't starve the machine: a thread that has it gets 95 % of one processor at
/// most (sched_rt_runtime_us in sched(7)).
fn prepare(pin: Option<usize>) -> io::Result<bool> {
    if let Some(processor) = pin {
        if processor >= CpuSet::MAX_CPU {
            return Err(Errno::INVAL.into());
        }
        let mut set = CpuSet::new();
        set.set(processor);
        sched_setaffinity(None, &set)?;
    }
    // The kernel otherwise puts off every time-out of a normal thread by up to 50 µs.
    set_current_timer_slack(NonZeroU64::new(1))?;
    match sys::request_realtime() {
        Ok(()) => Ok(true),
        Err(error) => {
            tracing::debug!(%error, "the link thread has normal priority");
            Ok(false)
        }
    }
}
