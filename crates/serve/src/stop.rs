//! How a running server is told to stop.

use std::sync::Arc;
use tokio::sync::watch;

/// A handle that stops the server, and the signal that the server waits for.
#[must_use]
pub fn stop_channel() -> (StopHandle, StopSignal) {
    let (sender, receiver) = watch::channel(false);
    let sender = Arc::new(sender);
    let handle = StopHandle {
        sender: Arc::clone(&sender),
    };
    (handle, StopSignal { sender, receiver })
}

/// Stops a server; can be used from any thread, and dropped without consequence.
#[derive(Debug, Clone)]
pub struct StopHandle {
    sender: Arc<watch::Sender<bool>>,
}

impl StopHandle {
    /// Asks for a graceful stop. A second call changes nothing.
    pub fn stop(&self) {
        self.sender.send_replace(true);
    }
}

/// The server's end of a [`stop_channel`].
#[derive(Debug, Clone)]
pub struct StopSignal {
    /// Kept, so that the wait below never ends for want of a handle, and for `trigger`.
    sender: Arc<watch::Sender<bool>>,
    receiver: watch::Receiver<bool>,
}

impl StopSignal {
    /// Returns once a stop was asked for; at once when it was before.
    pub(crate) async fn requested(&mut self) {
        let stopped = self.receiver.wait_for(|stopped| *stopped).await;
        stopped.expect("this signal holds a sender");
    }

    /// Whether a stop was asked for.
    pub(crate) fn is_requested(&self) -> bool {
        *self.receiver.borrow()
    }

    /// Stops the server from the inside, when a worker can't go on.
    pub(crate) fn trigger(&self) {
        self.sender.send_replace(true);
    }
}
