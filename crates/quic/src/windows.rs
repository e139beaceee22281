//! Windows of a server's connection: bytes it may hold that its peer hasn't acknowledged, and bytes that haven't
//! been read. They grow with the connection's own progress, out of a pool that the endpoint's connections share.
//!
//! Such bytes stay for as long as a peer likes: one that asks for much and acknowledges nothing, or
//! leaves a gap in what it sends, costs its windows. So each begins with small ones, and what they may
//! grow by in all is bounded. A client has few peers, which it chose, and its windows are whole at once.
//!
//! While the pool is more than half full a connection gets what there is to send, so that the engine can
//! choose by priority among all of it; then, what its path can use soon.

use crate::sync::{Arc, AtomicU64, Ordering};

#[cfg(all(test, feature = "loom"))]
mod interleavings;

/// Bytes that every connection may hold for sending without asking, as far as its configured window is
/// that large. Few: what there is of the pool is taken without a round trip.
pub(crate) const FIRST_SEND: u64 = 8 << 10;

/// The same for receiving. No more, as each of the connections may use it at the same time; no less, as it
/// takes a round trip until the peer hears that it may send more: the first congestion window of RFC 9002
/// section 7.2 fits twice.
pub(crate) const FIRST_RECEIVE: u64 = 32 << 10;

/// Bytes that every connection's user may keep of what it has read without asking ([`Windows::keep`]).
pub(crate) const FIRST_KEPT: u64 = 8 << 10;

/// The least that a window for receiving grows to. On a path that loses packets it takes several round
/// trips until the peer hears of it, so that less would hold uploads up.
const NEXT_RECEIVE: u64 = 256 << 10;

/// The part of what is left of the pool that a window for receiving grows by at most, one in so many: it
/// stays the peer's until it has been used.
const RECEIVE_PART: u64 = 8;

/// Congestion windows that are taken for sending at once when the pool is short: one under way, one to
/// follow it, and one for the growth that the next acknowledgements bring.
const AHEAD: u64 = 3;

/// Bytes that an endpoint's connections may still add to their windows.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    left: Arc<AtomicU64>,
    size: u64,
    /// Number of bytes left at which the pool is short.
    short: u64,
    /// Sizes that a connection's windows may grow to.
    send: u64,
    receive: u64,
}

/// The windows of one connection. What they have from the pool goes back when it is dropped.
#[derive(Debug)]
pub(crate) struct Windows {
    send: Window,
    receive: Window,
    /// Given for sending since nothing was held.
    written: u64,
    /// Read since the window for receiving last grew.
    read: u64,
    /// Bytes beyond the window for receiving that the peer may send, since that was larger: no credit can
    /// be taken back (RFC 9000 section 4.1). They are of the pool.
    owed: u64,
    /// Bytes of the pool for what was read and is kept.
    kept: u64,
    /// Bytes of the pool for what waits to be read beyond what the window for receiving is for.
    pinned: u64,
    pool: Pool,
    /// `None`: it may have all of the pool.
    share: Option<HeldShare>,
}

/// The share that the connections of one client may add to their windows together. Clones are the same.
#[derive(Clone, Debug)]
pub struct HeldShare(Arc<AtomicU64>);

impl HeldShare {
    /// A share of so many bytes of [`Limits::max_held_bytes`](crate::Limits::max_held_bytes).
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }
}

#[derive(Debug)]
struct Window {
    first: u64,
    size: u64,
    ceiling: u64,
}

impl Pool {
    /// `bytes` in all; a connection may grow to windows of `send` and `receive`.
    pub(crate) fn new(bytes: u64, send: u64, receive: u64) -> Self {
        Self {
            left: Arc::new(AtomicU64::new(bytes)),
            size: bytes,
            short: bytes / 2,
            send,
            receive,
        }
    }

    /// The first windows of a connection, which grow out of its client's `share` as well.
    pub(crate) fn windows(&self, share: Option<HeldShare>) -> Windows {
        Windows {
            send: Window::new(self.send, FIRST_SEND),
            receive: Window::new(self.receive, FIRST_RECEIVE),
            written: 0,
            read: 0,
            owed: 0,
            kept: 0,
            pinned: 0,
            pool: self.clone(),
            share,
        }
    }

    /// Takes as much of `wanted` as there is, for all and for the client.
    fn take(&self, share: Option<&HeldShare>, wanted: u64) -> u64 {
        let Some(share) = share else {
            return take(&self.left, wanted);
        };
        let allowed = take(&share.0, wanted);
        let got = take(&self.left, allowed);
        share.0.fetch_add(allowed - got, Ordering::Relaxed);
        got
    }

    /// Takes or gives back what makes `taken` be `wanted`; false, and nothing is taken, if there is not as much.
    fn change(&self, share: Option<&HeldShare>, taken: &mut u64, wanted: u64) -> bool {
        if let Some(missing) = wanted.checked_sub(*taken) {
            let got = self.take(share, missing);
            if got < missing {
                self.give_back(share, got);
                return false;
            }
        } else {
            self.give_back(share, *taken - wanted);
        }
        *taken = wanted;
        true
    }

    /// Bytes in all.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that were taken.
    pub(crate) fn held(&self) -> u64 {
        self.size.saturating_sub(self.left())
    }

    fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    fn is_short(&self) -> bool {
        self.left() <= self.short
    }

    fn give_back(&self, share: Option<&HeldShare>, bytes: u64) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
        if let Some(share) = share {
            share.0.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

fn take(left: &AtomicU64, wanted: u64) -> u64 {
    let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        Some(left.saturating_sub(wanted))
    });
    before.unwrap_or_else(|left| left).min(wanted)
}

impl Windows {
    /// Notes that there are `bytes` to send, which fit or not; returns the new size of that window,
    /// if it grows.
    pub(crate) fn on_write(&mut self, bytes: u64, congestion_window: u64) -> Option<u64> {
        if self.send.size == self.send.ceiling {
            return None;
        }
        let usable = congestion_window.saturating_mul(AHEAD);
        let wanted = match self.pool.is_short() {
            true => usable,
            false => usable.max(self.written + bytes),
        };
        self.send.grow_to(wanted, &self.pool, self.share.as_ref())
    }

    /// `bytes` were taken for sending.
    pub(crate) fn on_written(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// `bytes` were read: the new size of that window, if it grows. It does when the application has
    /// read a window's worth, and so keeps up with the peer; a small one when half of it has been read.
    pub(crate) fn on_read(&mut self, bytes: u64) -> Option<u64> {
        let paid = self.owed.min(bytes);
        self.owed -= paid;
        self.pool.give_back(self.share.as_ref(), paid);
        let open = self.receive.size + self.owed;
        if open >= self.receive.ceiling {
            return None;
        }
        self.read += bytes;
        let due = if open < NEXT_RECEIVE { open / 2 } else { open };
        if self.read < due {
            return None;
        }
        self.read = 0;
        let wanted = open.saturating_mul(2).max(NEXT_RECEIVE) - self.owed;
        let most = self.receive.size + self.pool.left() / RECEIVE_PART;
        let (pool, share) = (&self.pool, self.share.as_ref());
        self.receive.grow_to(wanted.min(most), pool, share)
    }

    /// Notes that so many bytes that were read are kept now; false, and no more are counted, if the pool has
    /// not as many.
    pub(crate) fn keep(&mut self, bytes: u64) -> bool {
        let wanted = bytes.saturating_sub(FIRST_KEPT);
        let (pool, share) = (&self.pool, self.share.as_ref());
        pool.change(share, &mut self.kept, wanted)
    }

    /// Notes that so many bytes of memory are taken by what waits to be read, which the window for receiving
    /// covers as far as it goes; false, and no more are counted, if the pool has not as many.
    pub(crate) fn pin(&mut self, bytes: u64) -> bool {
        let wanted = bytes.saturating_sub(self.receive.size + self.owed);
        if wanted == self.pinned {
            return true;
        }
        let (pool, share) = (&self.pool, self.share.as_ref());
        pool.change(share, &mut self.pinned, wanted)
    }

    /// Returns true if the windows are as if nothing had been held.
    pub(crate) fn are_fresh(&self) -> bool {
        self.written == 0 && self.granted() == 0 && self.pinned == 0
    }

    /// Notes that nothing is held any more; returns the first windows for sending and receiving, if
    /// either had grown. What the peer may still send goes back to the pool as it comes.
    pub(crate) fn on_idle(&mut self) -> Option<(u64, u64)> {
        let granted = self.granted();
        (self.written, self.read) = (0, 0);
        if granted == 0 {
            return None;
        }
        let share = self.share.as_ref();
        self.pool.give_back(share, self.send.granted());
        self.owed += self.receive.granted();
        self.send.size = self.send.first;
        self.receive.size = self.receive.first;
        Some((self.send.size, self.receive.size))
    }

    fn granted(&self) -> u64 {
        [&self.send, &self.receive]
            .map(Window::granted)
            .iter()
            .sum()
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        let bytes = self.granted() + self.owed + self.kept + self.pinned;
        self.pool.give_back(self.share.as_ref(), bytes);
    }
}

impl Window {
    fn new(ceiling: u64, first: u64) -> Self {
        let first = ceiling.min(first);
        Self {
            first,
            size: first,
            ceiling,
        }
    }

    fn grow_to(&mut self, wanted: u64, pool: &Pool, share: Option<&HeldShare>) -> Option<u64> {
        let wanted = wanted.min(self.ceiling);
        if wanted <= self.size {
            return None;
        }
        let got = pool.take(share, wanted - self.size);
        self.size += got;
        (got > 0).then_some(self.size)
    }

    fn granted(&self) -> u64 {
        self.size - self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_window_for_sending_takes_all_there_is_while_the_pool_is_full() {
        let pool = Pool::new(100 * MIB, 4 * MIB, MIB);
        let mut windows = pool.windows(None);
        assert_eq!(windows.on_write(FIRST_SEND, 1_000), None);
        windows.on_written(FIRST_SEND);
        assert_eq!(
            windows.on_write(100_000, 14_720),
            Some(FIRST_SEND + 100_000)
        );
        // It doesn't shrink while something may be held.
        assert_eq!(windows.on_write(1, 14_720), None);
        assert_eq!(windows.on_write(10 * MIB, 14_720), Some(4 * MIB));
        assert_eq!(windows.on_write(u64::MAX >> 1, u64::MAX), None);
        assert_eq!(pool.left(), 100 * MIB - (4 * MIB - FIRST_SEND));
    }

    #[test]
    fn the_window_for_sending_follows_the_congestion_window_when_the_pool_is_short() {
        let pool = Pool::new(8 * MIB, 4 * MIB, MIB);
        let mut first = pool.windows(None);
        assert_eq!(first.on_write(4 * MIB, 14_720), Some(4 * MIB));
        let mut second = pool.windows(None);
        second.on_written(FIRST_SEND);
        assert_eq!(second.on_write(200_000, 14_720), Some(FIRST_SEND + 200_000));
        assert_eq!(second.on_write(4 * MIB, 14_720), None);
        assert_eq!(second.on_write(4 * MIB, 100_000), Some(300_000));
    }

    #[test]
    fn the_window_for_receiving_grows_at_half_of_itself_and_then_doubles() {
        let mut windows = Pool::new(100 * MIB, MIB, 600_000).windows(None);
        assert_eq!(windows.on_read(FIRST_RECEIVE / 2 - 1), None);
        assert_eq!(windows.on_read(1), Some(NEXT_RECEIVE));
        assert_eq!(windows.on_read(NEXT_RECEIVE - 1), None);
        assert_eq!(windows.on_read(1), Some(2 * NEXT_RECEIVE));
        assert_eq!(windows.on_read(2 * NEXT_RECEIVE), Some(600_000));
        assert_eq!(windows.on_read(MIB), None);
    }

    #[test]
    fn a_window_for_receiving_takes_an_eighth_of_what_is_left() {
        let pool = Pool::new(80_000, MIB, MIB);
        let mut windows = pool.windows(None);
        let read = FIRST_RECEIVE / 2;
        assert_eq!(windows.on_read(read), Some(FIRST_RECEIVE + 10_000));
        assert_eq!(pool.left(), 70_000);
    }

    #[test]
    fn credit_that_the_peer_has_goes_back_to_the_pool_as_it_is_used() {
        let pool = Pool::new(100 * MIB, MIB, MIB);
        let mut windows = pool.windows(None);
        let grown = windows.on_read(FIRST_RECEIVE / 2);
        assert_eq!(grown, Some(NEXT_RECEIVE));
        assert_eq!(windows.on_idle(), Some((FIRST_SEND, FIRST_RECEIVE)));
        assert!(windows.are_fresh());
        let owed = NEXT_RECEIVE - FIRST_RECEIVE;
        assert_eq!(pool.left(), 100 * MIB - owed);
        assert_eq!(windows.on_read(10_000), None, "there is credit enough");
        assert_eq!(pool.left(), 100 * MIB - owed + 10_000);
        // Half of what is open has been read: it is made whole again.
        let left = owed - 140_000;
        assert_eq!(windows.on_read(130_000), Some(NEXT_RECEIVE - left));
        assert_eq!(pool.left(), 100 * MIB - owed);
        drop(windows);
        assert_eq!(pool.left(), 100 * MIB);
    }

    #[test]
    fn what_is_kept_of_what_was_read_comes_out_of_the_pool() {
        let pool = Pool::new(100_000, MIB, MIB);
        let share = HeldShare::new(60_000);
        let mut windows = pool.windows(Some(share.clone()));
        assert!(windows.keep(FIRST_KEPT));
        assert_eq!(pool.left(), 100_000);
        assert!(windows.keep(FIRST_KEPT + 50_000));
        assert_eq!(pool.left(), 50_000);
        assert!(!windows.keep(FIRST_KEPT + 60_001), "the client's share");
        assert_eq!(pool.left(), 50_000);
        let mut others = pool.windows(None);
        assert!(!others.keep(FIRST_KEPT + 50_001), "the pool");
        assert!(windows.keep(FIRST_KEPT + 10_000));
        assert!(others.keep(FIRST_KEPT + 90_000));
        assert_eq!(pool.left(), 0);
        drop((windows, others));
        assert_eq!(pool.left(), 100_000);
        assert!(pool.windows(Some(share)).keep(FIRST_KEPT + 60_000));
    }

    #[test]
    fn connections_share_what_there_is_and_give_it_back() {
        let pool = Pool::new(300_000, MIB, MIB);
        let (mut first, mut second) = (pool.windows(None), pool.windows(None));
        assert_eq!(first.on_write(0, 80_000), Some(240_000));
        let rest = 300_000 - (240_000 - FIRST_SEND);
        assert_eq!(second.on_write(0, 80_000), Some(FIRST_SEND + rest));
        assert_eq!(second.on_read(FIRST_RECEIVE), None);
        assert_eq!(first.on_idle(), Some((FIRST_SEND, FIRST_RECEIVE)));
        assert!(first.are_fresh() && !second.are_fresh());
        let returned = 240_000 - FIRST_SEND;
        let grown = FIRST_RECEIVE + returned / RECEIVE_PART;
        assert_eq!(second.on_read(FIRST_RECEIVE), Some(grown));
        drop((first, second));
        assert_eq!(pool.left(), 300_000);
    }

    #[test]
    fn a_client_s_connections_get_no_more_than_its_share_and_others_what_they_like() {
        let pool = Pool::new(100 * MIB, 4 * MIB, MIB);
        let share = HeldShare::new(300_000);
        let mut own = [(); 2].map(|()| pool.windows(Some(share.clone())));
        let mut other = pool.windows(None);
        assert_eq!(own[0].on_write(200_000, 14_720), Some(200_000));
        let rest = 300_000 - (200_000 - FIRST_SEND);
        assert_eq!(own[1].on_write(MIB, 14_720), Some(FIRST_SEND + rest));
        assert_eq!(own[1].on_read(FIRST_RECEIVE), None);
        assert_eq!(other.on_write(MIB, 14_720), Some(MIB));
        drop((own, other));
        assert_eq!(
            (pool.left(), share.0.load(Ordering::Relaxed)),
            (100 * MIB, 300_000)
        );
    }

    #[test]
    fn windows_smaller_than_the_first_stay_as_they_are() {
        let mut windows = Pool::new(MIB, 1_000, 2_000).windows(None);
        assert_eq!(windows.on_write(MIB, MIB), None);
        assert_eq!(windows.on_read(MIB), None);
        assert_eq!(windows.on_idle(), None);
    }
}
