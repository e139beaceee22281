//! Places at a server that are kept for clients which have few, so that no client takes all of them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// One of so many places is in reserve, two at least.
const PART: usize = 9;
const FEWEST: usize = 2;

/// Fewer places than these are for whoever comes first.
const FEW: usize = 4;

/// A client has one of so many of the places in reserve, one at least.
const SHARES: usize = 8;

/// A number that tells the clients apart among which places are shared out.
pub type ClientNumber = u64;

/// The places in reserve, which are taken once all others are.
#[derive(Debug)]
pub(super) struct Reserve {
    pub(super) places: Semaphore,
    /// The most of them for one client.
    share: usize,
    /// Places of each client, with those that it waits for. At most as many as there are places and requests that wait.
    taken: Mutex<HashMap<ClientNumber, usize>>,
}

impl Reserve {
    /// The places in reserve of so many.
    pub(super) fn of(most: usize) -> Self {
        let places = Self::size(most);
        Self {
            places: Semaphore::new(places),
            share: places.div_ceil(SHARES),
            taken: Mutex::default(),
        }
    }

    /// The number of places in reserve of so many.
    pub(super) fn size(most: usize) -> usize {
        match most {
            0..FEW => 0,
            _ => FEWEST.max(most / PART),
        }
    }

    /// Counts a place for a client; whether it may have one.
    pub(super) fn claim(&self, client: ClientNumber) -> bool {
        let mut taken = self.lock();
        let own = taken.get(&client).copied().unwrap_or(0);
        let is_free = own < self.share;
        if is_free {
            taken.insert(client, own + 1);
        }
        is_free
    }

    /// Counts a place for a client no longer.
    pub(super) fn release(&self, client: ClientNumber) {
        let mut taken = self.lock();
        if let Some(own) = taken.get_mut(&client) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&client);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClientNumber, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_all_other_places_never_has_all() {
        for most in FEW..2_000 {
            let reserve = Reserve::of(most);
            let all = most - Reserve::size(most);
            let own = (0..most).filter(|_| reserve.claim(7)).count();
            assert!(own > 0 && all + own < most, "{most}: {all} and {own}");
            assert!(reserve.claim(8), "{most}");
            (0..own).for_each(|_| reserve.release(7));
            reserve.release(8);
            assert!(reserve.lock().is_empty());
        }
    }
}
