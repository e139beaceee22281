//! A timer of the kernel's precision.
//!
//! The runtime's own timers step in milliseconds, which is as long as a whole request on a fast
//! path and longer than QUIC's pacing intervals; a timerfd fires within some 50 µs.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// One alarm at a time; waiting again replaces it.
pub(crate) struct Timer {
    fd: AsyncFd<OwnedFd>,
}

impl Timer {
    #[expect(
        deprecated,
        reason = "its successor is unsafe for types that may change their descriptor; OwnedFd can't"
    )]
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        Ok(Self { fd })
    }

    /// Returns when `at` has come. May be dropped at any await: nothing is lost but the alarm.
    pub(crate) async fn wait_until(&self, at: Instant) -> io::Result<()> {
        loop {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.arm(left)?;
            let mut ready = self.fd.readable().await?;
            // An alarm that was replaced leaves a stale readiness behind: then the read says
            // WouldBlock, which clears it, and the loop waits on.
            let _ = ready.try_io(|fd| Ok(rustix::io::read(fd, &mut [0_u8; 8])?));
        }
    }

    fn arm(&self, left: Duration) -> io::Result<()> {
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let alarm = Itimerspec {
            it_interval: zero,
            it_value: Timespec::try_from(left).unwrap_or(Timespec {
                tv_sec: i64::MAX,
                tv_nsec: 0,
            }),
        };
        timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::empty(), &alarm)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn fires_after_its_time_and_again() {
        let timer = Timer::new().unwrap();
        for wait in [Duration::from_micros(300), Duration::from_millis(3)] {
            let at = Instant::now() + wait;
            timer.wait_until(at).await.unwrap();
            assert!(Instant::now() >= at);
        }
    }

    #[tokio::test]
    async fn an_alarm_that_nobody_awaited_does_not_end_the_next_wait() {
        let timer = Timer::new().unwrap();
        let soon = Instant::now() + Duration::from_millis(1);
        assert!(timer.wait_until(soon).now_or_never().is_none());
        tokio::time::sleep(Duration::from_millis(5)).await;
        let later = Instant::now() + Duration::from_millis(10);
        timer.wait_until(later).await.unwrap();
        assert!(Instant::now() >= later);
    }
}
