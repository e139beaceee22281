//! Signals that stop a running server, or have another process take in new connections.

use std::sync::Arc;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, watch};

/// A handle that stops the server, and the signal that the server waits for.
#[must_use]
pub fn stop_channel() -> (StopHandle, StopSignal) {
    let (sender, receiver) = watch::channel(State::default());
    let sender = Arc::new(sender);
    let handle = StopHandle {
        sender: Arc::clone(&sender),
    };
    let signal = StopSignal {
        sender,
        receiver,
        takers: Arc::default(),
    };
    (handle, signal)
}

/// A handle that stops a server. It can be used from any thread; dropping it has no effect.
#[derive(Debug, Clone)]
pub struct StopHandle {
    sender: Arc<watch::Sender<State>>,
}

impl StopHandle {
    /// Asks for a graceful stop. A second call changes nothing.
    pub fn stop(&self) {
        self.sender.send_modify(|state| state.stopping = true);
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    stopping: bool,
    /// True while nothing is to be taken in: the sockets' queues hold it, or another process takes
    /// it.
    held: bool,
    /// True once that process has ended, and this one is past going on in its place.
    sockets_lost: bool,
}

/// The server's end of a [`stop_channel`].
#[derive(Debug, Clone)]
pub struct StopSignal {
    /// Kept, so that the waits below never end for want of a handle, and for `trigger`.
    sender: Arc<watch::Sender<State>>,
    receiver: watch::Receiver<State>,
    /// Read-locked by whoever takes in what comes to the sockets.
    takers: Arc<RwLock<()>>,
}

impl StopSignal {
    /// Returns once a stop was asked for; at once when it was before.
    pub(crate) async fn requested(&mut self) {
        self.until(|state| state.stopping).await;
    }

    /// Returns when datagrams of QUIC connections can reach this process no more.
    pub(crate) async fn sockets_lost(&mut self) {
        self.until(|state| state.sockets_lost).await;
    }

    /// Keeps all threads from taking anything in, and returns when they have ceased. They go on
    /// when the value that it returns is dropped, or this future before its end.
    pub(crate) async fn hold(&self) -> AcceptPause {
        let mut held = AcceptPause {
            signal: self.clone(),
            lock: None,
        };
        self.sender.send_modify(|state| state.held = true);
        held.lock = Some(Arc::clone(&self.takers).write_owned().await);
        held
    }

    /// Returns true if a stop was asked for.
    pub(crate) fn is_requested(&self) -> bool {
        self.receiver.borrow().stopping
    }

    /// Returns true if another process takes in new connections.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.receiver.borrow().held
    }

    /// A thread's leave to take in what comes, which it has from the beginning.
    pub(crate) fn accept_permit(&self) -> AcceptPermit {
        AcceptPermit {
            signal: self.clone(),
            leave: self.leave(),
        }
    }

    /// Stops the server from the inside, when a worker can't go on or none needs to.
    pub(crate) fn trigger(&self) {
        self.sender.send_modify(|state| state.stopping = true);
    }

    /// Tells that the process which takes in what comes has ended.
    pub(crate) fn mark_sockets_lost(&self) {
        self.sender.send_modify(|state| state.sockets_lost = true);
    }

    async fn until(&mut self, is_so: impl FnMut(&State) -> bool) {
        let state = self.receiver.wait_for(is_so).await;
        state.expect("this signal holds a sender");
    }

    fn leave(&self) -> Option<OwnedRwLockReadGuard<()>> {
        Arc::clone(&self.takers).try_read_owned().ok()
    }
}

/// A thread's leave to take in what comes to its sockets.
#[derive(Debug)]
pub(crate) struct AcceptPermit {
    signal: StopSignal,
    leave: Option<OwnedRwLockReadGuard<()>>,
}

impl AcceptPermit {
    /// Returns true if new connections are to be taken in. Stays the same until
    /// [`changed`](Self::changed) returns.
    pub(crate) fn is_open(&self) -> bool {
        self.leave.is_some()
    }

    /// Returns once a stop was asked for, or there is another answer to
    /// [`is_open`](Self::is_open). Can be dropped and called again.
    pub(crate) async fn changed(&mut self) {
        let open = self.is_open();
        let other = |state: &State| state.stopping || state.held == open;
        self.signal.until(other).await;
        if !self.signal.is_requested() {
            self.leave = (!open).then(|| self.signal.leave()).flatten();
        }
    }
}

/// A guard as long as which nothing is taken in.
#[derive(Debug)]
pub(crate) struct AcceptPause {
    signal: StopSignal,
    /// `None` while threads are still to cease.
    lock: Option<OwnedRwLockWriteGuard<()>>,
}

impl Drop for AcceptPause {
    fn drop(&mut self) {
        // First, so that whoever learns of it has leave at once.
        self.lock = None;
        self.signal.sender.send_modify(|state| state.held = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn a_hold_waits_for_all_who_take_in_and_lets_them_go_on_at_its_end() {
        let (_handle, signal) = stop_channel();
        let mut intakes = [signal.accept_permit(), signal.accept_permit()];
        let mut hold = Box::pin(signal.hold());
        assert!(hold.as_mut().now_or_never().is_none());
        for accept_permit in &mut intakes {
            assert!(hold.as_mut().now_or_never().is_none());
            accept_permit.changed().await;
            assert!(!accept_permit.is_open());
        }
        let held = hold.await;
        assert!(signal.is_handed_over());
        for accept_permit in &mut intakes {
            assert!(accept_permit.changed().now_or_never().is_none());
        }
        drop(held);
        for accept_permit in &mut intakes {
            accept_permit.changed().await;
            assert!(accept_permit.is_open());
        }
        assert!(!signal.is_handed_over());
    }

    #[tokio::test]
    async fn a_hold_that_is_given_up_changes_nothing() {
        let (_handle, signal) = stop_channel();
        let (mut quick, slow) = (signal.accept_permit(), signal.accept_permit());
        let mut hold = Box::pin(signal.hold());
        assert!(hold.as_mut().now_or_never().is_none());
        quick.changed().await;
        assert!(!quick.is_open());
        drop(hold);
        quick.changed().await;
        assert!(quick.is_open() && slow.is_open());
    }

    #[tokio::test]
    async fn a_stop_wakes_those_who_wait_and_closes_nothing() {
        let (handle, signal) = stop_channel();
        let mut accept_permit = signal.accept_permit();
        handle.stop();
        accept_permit.changed().await;
        assert!(accept_permit.is_open(), "what is on its way still comes in");
        assert!(signal.is_requested() && !signal.is_handed_over());
    }
}
