//! A timer as exact as the kernel's (some 50 µs): tokio's own rounds up to the next millisecond,
//! which is as long as a whole request on a fast path, and would show in the pacing of packets and so
//! in every measurement.

use crate::sys;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// One deadline at a time.
#[derive(Debug)]
pub struct Timer {
    descriptor: AsyncFd<OwnedFd>,
    armed: Option<Instant>,
}

impl Timer {
    /// Registers with the current event loop.
    ///
    /// # Errors
    /// No descriptor is left.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O enabled.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self {
            descriptor: sys::watch(descriptor, Interest::READABLE)?,
            armed: None,
        })
    }

    /// Wakes [`Timer::expired`] at `deadline`, or a little earlier: a deadline that moved away keeps
    /// the old one, which saves most system calls and costs a vain turn.
    ///
    /// # Errors
    /// None in practice; the kernel refuses only times that are none.
    pub fn arm(&mut self, deadline: Option<Instant>, now: Instant) -> io::Result<()> {
        let Some(deadline) = deadline else {
            return Ok(());
        };
        if self.armed.is_some_and(|armed| armed <= deadline) {
            return Ok(());
        }
        let wait = deadline.saturating_duration_since(now);
        let time = Itimerspec {
            it_interval: timespec(Duration::ZERO),
            // Zero would disarm it.
            it_value: timespec(wait.max(Duration::from_nanos(1))),
        };
        timerfd_settime(self.descriptor.get_ref(), TimerfdTimerFlags::empty(), &time)?;
        self.armed = Some(deadline);
        Ok(())
    }

    /// Returns when the time has come. Can be dropped and called again.
    pub async fn expired(&mut self) {
        loop {
            let Ok(mut ready) = self.descriptor.readable().await else {
                // The event loop is shutting down, and everything with it.
                return std::future::pending().await;
            };
            let read = ready.try_io(|descriptor| {
                let read = rustix::io::read(descriptor.get_ref(), &mut [0; 8]);
                read.map_err(Errno::into)
            });
            if read.is_ok() {
                // It goes off once; to read it again, and hear that it has not, would be a call in vain.
                ready.clear_ready();
                self.armed = None;
                return;
            }
        }
    }

    /// Returns when `at` has come, never earlier. Can be dropped and called again.
    ///
    /// # Errors
    /// As [`Timer::arm`].
    pub async fn wait_until(&mut self, at: Instant) -> io::Result<()> {
        loop {
            let now = Instant::now();
            if at <= now {
                return Ok(());
            }
            self.arm(Some(at), now)?;
            self.expired().await;
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test(flavor = "current_thread")]
    async fn expires_at_its_deadline_and_not_before() {
        let mut timer = Timer::new().unwrap();
        let begin = Instant::now();
        let deadline = begin + Duration::from_micros(1500);
        timer.arm(Some(deadline), begin).unwrap();
        timer.expired().await;
        assert!(Instant::now() >= deadline);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_nearer_deadline_replaces_a_farther_one() {
        let mut timer = Timer::new().unwrap();
        let now = Instant::now();
        let hour = Duration::from_secs(3600);
        timer.arm(Some(now + hour), now).unwrap();
        timer.arm(Some(now), now).unwrap();
        timer.expired().await;
        assert!(now.elapsed() < hour);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn fires_after_its_time_and_again() {
        let mut timer = Timer::new().unwrap();
        for wait in [Duration::from_micros(300), Duration::from_millis(3)] {
            let at = Instant::now() + wait;
            timer.wait_until(at).await.unwrap();
            assert!(Instant::now() >= at);
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_alarm_that_nobody_awaited_does_not_end_the_next_wait() {
        let mut timer = Timer::new().unwrap();
        let soon = Instant::now() + Duration::from_millis(100);
        assert!(timer.wait_until(soon).now_or_never().is_none());
        tokio::time::sleep(Duration::from_millis(110)).await;
        let later = Instant::now() + Duration::from_millis(10);
        timer.wait_until(later).await.unwrap();
        assert!(Instant::now() >= later);
    }
}
