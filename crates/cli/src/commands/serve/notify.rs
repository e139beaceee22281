//! Messages to the service manager of a server, by the protocol of sd_notify(3): that it listens, reads its
//! configuration again, or ends. Without `$NOTIFY_SOCKET` nobody is told anything.
//!
//! The service manager's watchdog is told that the process is well as long as every worker turns: each shows it by a
//! count of its own, and the thread that tells says nothing while one of them stands still.

use altway_admin::Reloaded;
use altway_serve::Monitor;
use sd_notify::NotifyState;
use std::io;
use std::time::Duration;

/// The shortest time from one beat to the next.
const MIN_HEARTBEAT: Duration = Duration::from_millis(10);

/// The service manager that started the process, if one did.
#[derive(Debug, Clone)]
pub(super) struct Manager {
    /// The status line of a server that has nothing special to report, in one line.
    status: String,
}

impl Manager {
    pub(super) fn new(status: &str) -> Self {
        Self {
            status: one_line(status),
        }
    }

    /// Tells that the server listens.
    pub(super) fn ready(&self) {
        notify_manager(&[NotifyState::Ready, NotifyState::Status(&self.status)]);
    }

    /// Tells that `reload` begins, and how it ended. A server whose reload fails is ready as before.
    pub(super) fn during(&self, reload: impl FnOnce() -> Reloaded) -> Reloaded {
        // With the time on one message: the manager goes by it to know that its own signal was seen.
        match NotifyState::monotonic_usec_now() {
            Ok(now) => notify_manager(&[NotifyState::Reloading, now]),
            Err(error) => tracing::warn!(%error, "the monotonic clock can't be read"),
        }
        let reloaded = reload();
        let status = match reloaded.success {
            true => self.status.clone(),
            false => one_line(&format!("reload failed: {}", reloaded.report)),
        };
        notify_manager(&[NotifyState::Ready, NotifyState::Status(&status)]);
        reloaded
    }

    /// Tells that the server lets requests end and takes no new ones.
    pub(super) fn stopping(&self) {
        notify_manager(&[NotifyState::Stopping]);
    }
}

/// The time within which the service manager wants to be told that the process is well; `None`: it does not.
pub(super) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|time| !time.is_zero())
}

/// The interval in which a worker shows that it turns, for that watchdog: often enough to be seen at each look.
pub(super) fn heartbeat(watchdog: Duration) -> Duration {
    (watchdog / 8).max(MIN_HEARTBEAT)
}

/// Tells the watchdog that the process is well, four times in its time, for as long as all workers turn; on a thread of
/// its own.
///
/// # Errors
/// There is no thread to be had.
pub(super) fn watch(watchdog: Duration, monitor: Monitor) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("watchdog".into());
    let watch = move || {
        let mut before = Vec::new();
        loop {
            std::thread::sleep(watchdog / 4);
            let beats = monitor.heartbeats();
            if all_turn(&before, &beats) {
                notify_manager(&[NotifyState::Watchdog]);
            } else {
                tracing::debug!(?beats, "a worker stands still: the watchdog is not told");
            }
            before = beats;
        }
    };
    thread.spawn(watch).map(drop)
}

/// True if each worker that runs has shown that it turned since `before`. One that was started again begins anew; of a
/// server that stops or was replaced, those end first that have nothing left to do.
fn all_turn(before: &[u64], now: &[u64]) -> bool {
    let stands = |(place, beats): (usize, &u64)| before.get(place) == Some(beats);
    !now.is_empty() && !now.iter().enumerate().any(stands)
}

fn notify_manager(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager can't be told what the server does");
    }
}

/// The first line of a text: a further one would be a message of its own.
fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_that_stands_still_is_enough() {
        assert!(all_turn(&[], &[1, 1]), "at the beginning");
        assert!(all_turn(&[1, 1], &[2, 9]));
        assert!(!all_turn(&[1, 1], &[2, 1]));
        assert!(all_turn(&[1, 1], &[2]), "one has ended");
        assert!(!all_turn(&[], &[]), "none has begun");
        assert!(all_turn(&[5, 7], &[6, 1]), "one was started again");
    }

    #[test]
    fn workers_beat_often_enough_for_any_watchdog() {
        assert_eq!(
            heartbeat(Duration::from_secs(30)),
            Duration::from_millis(3_750)
        );
        assert_eq!(heartbeat(Duration::from_millis(1)), MIN_HEARTBEAT);
    }
}
