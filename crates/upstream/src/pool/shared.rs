//! Connections that requests share, over HTTP/2 and HTTP/3: the next one is opened while those before it have no room, or much
//! that their responses' readers have not taken.

use crate::backlog::MAX_BACKLOG;
use crate::resolve::Names;
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A connection that requests share, of which clones are handles.
pub(crate) trait SharedConnection: Clone {
    /// The address of its server; `None`: a Unix socket.
    fn address(&self) -> Option<IpAddr>;

    /// Returns whether it takes no more requests.
    fn is_closed(&self) -> bool;

    /// Returns whether another request need not wait for one of those that it has.
    fn has_room(&self) -> bool;

    /// Returns whether it has no request.
    fn is_idle(&self) -> bool;

    /// Bytes that may wait for the readers of its responses.
    fn backlog(&self) -> usize;
}

/// The most connections that are opened because readers of responses over those before are behind. Beyond, and for want of
/// streams, there may be more.
pub(super) const MAX_SPREAD: usize = 8;

/// The connections to one server. There are no more than requests, and one.
#[derive(Debug)]
pub(super) struct SharedConnections<C> {
    /// The first have the most requests.
    open: Mutex<Vec<C>>,
    /// Held by whoever opens another one.
    opening: tokio::sync::Mutex<()>,
}

impl<C> Default for SharedConnections<C> {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
        }
    }
}

impl<C: SharedConnection> SharedConnections<C> {
    /// A connection that has room, and whether it has carried requests before. It is opened by `open` where there is none; whoever
    /// waits for another request to do that may find that one's.
    pub(super) async fn find(
        &self,
        names: &Names,
        open: impl Future<Output = io::Result<C>>,
    ) -> io::Result<(C, bool)> {
        if let Some(known) = self.with_room(names) {
            return Ok((known, true));
        }
        let _opening = self.opening.lock().await;
        if let Some(known) = self.with_room(names) {
            return Ok((known, true));
        }
        let opened = open.await?;
        self.lock().push(opened.clone());
        Ok((opened, false))
    }

    fn with_room(&self, names: &Names) -> Option<C> {
        self.leave(names);
        let mut open = self.lock();
        // A server may say that it takes no more over one by leaving it no streams.
        open.retain(|it| it.has_room() || !it.is_idle());
        let with_room = || open.iter().filter(|it| it.has_room());
        let ready = with_room().find(|it| it.backlog() <= MAX_BACKLOG);
        let any = || with_room().min_by_key(|it| it.backlog());
        let is_spread = open.len() >= MAX_SPREAD;
        ready.or_else(|| any().filter(|_| is_spread)).cloned()
    }

    /// Any connection that takes requests, though they may have to wait.
    pub(super) fn any(&self) -> Option<C> {
        let open = self.lock();
        open.iter().find(|it| !it.is_closed()).cloned()
    }

    /// Lets go of connections that take no more requests, and of those to an address that `names` have left.
    fn leave(&self, names: &Names) {
        self.lock()
            .retain(|it| !it.is_closed() && !names.has_left(|| it.address()));
    }

    /// The same, also of one that is being opened.
    pub(super) async fn leave_opened(&self, names: &Names) {
        let _opening = self.opening.lock().await;
        self.leave(names);
    }

    /// Lets go of connections that have no request, but for the first.
    pub(super) fn sweep(&self) {
        let mut index = 0..;
        self.lock()
            .retain(|it| index.next() == Some(0) || !it.is_idle());
    }

    /// The least figure that the connections have.
    pub(super) fn least(&self, of: impl Fn(&C) -> usize) -> Option<usize> {
        self.lock().iter().map(of).min()
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<C>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A connection with room for any number of requests. Clones are the same.
    #[derive(Debug, Clone, Default)]
    struct Endless(Arc<AtomicUsize>);

    impl SharedConnection for Endless {
        fn address(&self) -> Option<IpAddr> {
            None
        }

        fn is_closed(&self) -> bool {
            false
        }

        fn has_room(&self) -> bool {
            true
        }

        fn is_idle(&self) -> bool {
            false
        }

        fn backlog(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn a_request_is_given_the_connection_whose_readers_are_not_behind() {
        let (connections, names) = (SharedConnections::default(), Names::default());
        let find = async || {
            let opening = async { Ok(Endless::default()) };
            connections.find(&names, opening).await.unwrap()
        };
        let mut opened = Vec::new();
        for _ in 0..MAX_SPREAD {
            let (connection, is_reused) = find().await;
            assert!(!is_reused);
            connection.0.store(MAX_BACKLOG, Ordering::Relaxed);
            let (same, is_reused) = find().await;
            assert!(is_reused && Arc::ptr_eq(&same.0, &connection.0));
            connection.0.store(2 * MAX_BACKLOG, Ordering::Relaxed);
            opened.push(connection);
        }
        for bytes in [MAX_BACKLOG + 1, 0] {
            opened[3].0.store(bytes, Ordering::Relaxed);
            let (least, is_reused) = find().await;
            assert!(is_reused && Arc::ptr_eq(&least.0, &opened[3].0));
        }
        assert_eq!(connections.len(), MAX_SPREAD);
    }
}
