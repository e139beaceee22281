//! What the service manager is told of a server, by the protocol of sd_notify(3): that it listens, reads its
//! configuration again, or ends. Without `$NOTIFY_SOCKET` nobody is told anything.
//!
//! There is no watchdog: a worker that panics is started again or ends the process, and nothing tells cheaply of one
//! that hangs; a message from another thread would vouch for what it does not know.

use altway_admin::Reloaded;
use sd_notify::NotifyState;

/// The service manager that started the process, if one did.
#[derive(Debug, Clone)]
pub(super) struct Manager {
    /// What it shows of a server that has nothing special to report, in one line.
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
        tell(&[NotifyState::Ready, NotifyState::Status(&self.status)]);
    }

    /// Tells that `reload` begins, and how it ended. A server whose reload fails is ready as before.
    pub(super) fn during(&self, reload: impl FnOnce() -> Reloaded) -> Reloaded {
        // With the time on one message: the manager goes by it to know that its own signal was seen.
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(error) => tracing::warn!(%error, "the monotonic clock can't be read"),
        }
        let reloaded = reload();
        let status = match reloaded.success {
            true => self.status.clone(),
            false => one_line(&format!("reload failed: {}", reloaded.report)),
        };
        tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
        reloaded
    }

    /// Tells that the server lets requests end and takes no new ones.
    pub(super) fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager can't be told what the server does");
    }
}

/// The first line of a text: a further one would be a message of its own.
fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
