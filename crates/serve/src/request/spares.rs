//! Memory that exchanges of a worker hand on to one another: a connection that idles holds none, and a request on it
//! allocates none.

use std::cell::RefCell;

/// Things that are not in use, and whose memory the next exchange takes, whichever connection it is on. [`MOST`] at most:
/// what is given beyond is dropped.
#[derive(Debug)]
pub(crate) struct Spares<T>(RefCell<Vec<T>>);

/// Enough for connections that begin and end exchanges by turns: those that are busy at the same time hold theirs.
const MOST: usize = 64;

impl<T> Default for Spares<T> {
    fn default() -> Self {
        Self(RefCell::new(Vec::new()))
    }
}

impl<T> Spares<T> {
    /// Returns the one that was given last, if there is any: its memory is in the processor's cache.
    pub(crate) fn take(&self) -> Option<T> {
        self.0.borrow_mut().pop()
    }

    pub(crate) fn give(&self, spare: T) {
        let mut spares = self.0.borrow_mut();
        if spares.len() < MOST {
            spares.push(spare);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_comes_first_and_no_more_are_kept_than_a_few() {
        let spares = Spares::default();
        (0..2 * MOST).for_each(|it| spares.give(it));
        assert_eq!(spares.len(), MOST);
        assert_eq!(spares.take(), Some(MOST - 1));
        while spares.take().is_some() {}
        assert_eq!(spares.len(), 0);
    }
}
