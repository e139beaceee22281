//! Futures that are waited for, each polled in the task that has them all, when it was woken.
//!
//! Unlike in `FuturesUnordered`, a future costs no waker of its own: places keep theirs for the future that is in them
//! next. So a wake-up that comes too late may have a future polled for nothing. A cancelled future is dropped at once.

use crate::locks::lock;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

/// Places that are kept while nothing is waited for, in about 300 bytes each.
const KEPT: usize = 8;

/// Futures by their keys, one each. Has as many places as there were futures at a time.
pub(super) struct Waits<K, F> {
    places: Vec<Slot<K, F>>,
    /// Places without a future; the one that was used last is taken first, for its memory is at hand.
    free: Vec<usize>,
    by_key: FxHashMap<K, usize>,
    /// Places whose futures have not been polled in here.
    new: Vec<usize>,
    /// Memory for those that are polled in one go.
    batch: Vec<usize>,
    woken: Arc<Woken>,
}

struct Slot<K, F> {
    future: Option<(K, F)>,
    mark: Arc<Mark>,
    /// The waker of the mark.
    waker: Waker,
}

/// The waker of a place.
struct Mark {
    place: usize,
    /// True while the place is among those that are to be polled.
    is_set: AtomicBool,
    woken: Arc<Woken>,
}

/// The places that were woken, and the task that polls them.
#[derive(Default)]
struct Woken(Mutex<ToPoll>);

#[derive(Default)]
struct ToPoll {
    /// The places to poll: as many as there are marks, at most.
    places: Vec<usize>,
    /// `None`: it was woken, or does not wait.
    task: Option<Waker>,
}

impl<K: Copy + Eq + Hash, F: Future + Unpin> Waits<K, F> {
    pub(super) fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            by_key: FxHashMap::default(),
            new: Vec::new(),
            batch: Vec::new(),
            woken: Arc::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Lets go of the task, which waits for nothing, and of room beyond [`KEPT`] places.
    pub(super) fn rest(&mut self) {
        debug_assert!(self.is_empty(), "whoever waits would not be woken");
        let mut to_poll = self.woken.lock();
        to_poll.places.shrink_to(KEPT);
        let task = to_poll.task.take();
        drop(to_poll);
        // Not within the lock: it may be the last that knows of the task.
        drop(task);
        self.by_key.shrink_to(KEPT);
        self.new.shrink_to(KEPT);
        self.batch.shrink_to(KEPT);
    }

    /// The keys of all futures.
    pub(super) fn keys(&self) -> impl Iterator<Item = K> {
        self.by_key.keys().copied()
    }

    /// Adds a future, in place of the one that has the same key. It is polled by the next [`poll`](Self::poll), for
    /// which nobody is woken.
    pub(super) fn push(&mut self, key: K, future: F) {
        let at = self.free.pop().unwrap_or_else(|| self.add_place());
        let place = &mut self.places[at];
        place.future = Some((key, future));
        if !place.mark.is_set.swap(true, Ordering::AcqRel) {
            self.new.push(at);
        }
        if let Some(former) = self.by_key.insert(key, at) {
            self.clear(former);
        }
    }

    /// Drops the future with that key; whether there is one.
    pub(super) fn cancel(&mut self, key: K) -> bool {
        let at = self.by_key.remove(&key);
        at.inspect(|at| self.clear(*at)).is_some()
    }

    /// Drops the futures whose keys are meant.
    pub(super) fn cancel_all(&mut self, are: impl Fn(K) -> bool) {
        let meant = self.by_key.extract_if(|key, _| are(*key));
        let meant: Vec<_> = meant.map(|(_, at)| at).collect();
        meant.into_iter().for_each(|at| self.vacate(at));
        self.shrink();
    }

    /// Polls the futures that are new or were woken, and gives `ready` those that are over. The task is woken when another
    /// one is to be polled.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, mut ready: impl FnMut(K, F::Output)) {
        if self.is_empty() {
            return;
        }
        let mut batch = std::mem::take(&mut self.batch);
        batch.append(&mut self.new);
        self.woken.take(&mut batch, cx.waker());
        for at in batch.drain(..) {
            if let Some((key, output)) = self.poll_place(at) {
                self.by_key.remove(&key);
                self.clear(at);
                ready(key, output);
            }
        }
        self.batch = batch;
    }

    fn poll_place(&mut self, at: usize) -> Option<(K, F::Output)> {
        // One that is no more may have been woken.
        let place = self.places.get_mut(at)?;
        place.mark.is_set.swap(false, Ordering::AcqRel);
        let (key, future) = place.future.as_mut()?;
        let mut context = Context::from_waker(&place.waker);
        match Pin::new(future).poll(&mut context) {
            Poll::Ready(output) => Some((*key, output)),
            Poll::Pending => None,
        }
    }

    fn add_place(&mut self) -> usize {
        let mark = Arc::new(Mark {
            place: self.places.len(),
            is_set: AtomicBool::new(false),
            woken: Arc::clone(&self.woken),
        });
        self.places.push(Slot {
            future: None,
            waker: Waker::from(Arc::clone(&mark)),
            mark,
        });
        self.places.len() - 1
    }

    /// Drops the future of a place that has one, and gives places back that nobody needs.
    fn clear(&mut self, at: usize) {
        self.vacate(at);
        self.shrink();
    }

    /// Drops the future of a place that has one.
    fn vacate(&mut self, at: usize) {
        self.places[at].future = None;
        self.free.push(at);
    }

    /// Gives places back beyond a few, where none has a future.
    fn shrink(&mut self) {
        if self.is_empty() && self.places.len() > KEPT {
            self.places.truncate(KEPT);
            self.places.shrink_to(KEPT);
            self.free = (0..KEPT).collect();
            self.new.retain(|at| *at < KEPT);
        }
    }
}

impl<K, F> Drop for Waits<K, F> {
    fn drop(&mut self) {
        // Whoever keeps a waker is not to keep the task.
        self.woken.lock().task = None;
    }
}

impl Woken {
    fn lock(&self) -> MutexGuard<'_, ToPoll> {
        lock(&self.0)
    }

    /// Moves what was woken to `places`; `task` is woken when there is more.
    fn take(&self, places: &mut Vec<usize>, task: &Waker) {
        let mut to_poll = self.lock();
        places.append(&mut to_poll.places);
        match &mut to_poll.task {
            Some(known) => known.clone_from(task),
            none => *none = Some(task.clone()),
        }
    }
}

impl Wake for Mark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_set.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut to_poll = self.woken.lock();
        to_poll.places.push(self.place);
        let task = to_poll.task.take();
        drop(to_poll);
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use tokio::sync::oneshot::{self, Receiver, Sender};

    type Futures = Waits<u8, Receiver<u32>>;

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll(waits: &mut Futures, task: &Arc<Task>) -> Vec<(u8, Option<u32>)> {
        let waker = Waker::from(Arc::clone(task));
        let mut over = Vec::new();
        waits.poll(&mut Context::from_waker(&waker), |key, output| {
            over.push((key, output.ok()));
        });
        over
    }

    fn add(waits: &mut Futures, key: u8) -> Sender<u32> {
        let (sender, receiver) = oneshot::channel();
        waits.push(key, receiver);
        sender
    }

    #[test]
    fn the_task_is_woken_once_for_all_that_may_go_on() {
        let (mut waits, task) = (Futures::new(), Arc::<Task>::default());
        let senders: Vec<_> = (0..3).map(|key| add(&mut waits, key)).collect();
        assert_eq!(poll(&mut waits, &task), []);
        for (sender, value) in senders.into_iter().zip(10..) {
            sender.send(value).unwrap();
        }
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
        let over = poll(&mut waits, &task);
        assert_eq!(over, [(0, Some(10)), (1, Some(11)), (2, Some(12))]);
        assert!(waits.is_empty());
    }

    #[test]
    fn a_future_in_a_place_that_another_one_had_is_polled_when_it_is_woken() {
        let (mut waits, task) = (Futures::new(), Arc::<Task>::default());
        for round in 0..3 {
            let sender = add(&mut waits, 7);
            assert_eq!(poll(&mut waits, &task), []);
            sender.send(round).unwrap();
            assert_eq!(poll(&mut waits, &task), [(7, Some(round))]);
        }
        assert_eq!(waits.places.len(), 1);
    }

    #[test]
    fn what_was_ready_before_it_came_is_found_by_the_next_poll() {
        let (mut waits, task) = (Futures::new(), Arc::<Task>::default());
        add(&mut waits, 1).send(5).unwrap();
        assert_eq!(poll(&mut waits, &task), [(1, Some(5))]);
    }

    #[test]
    fn what_is_cancelled_is_dropped_at_once_and_its_place_is_free() {
        let (mut waits, task) = (Futures::new(), Arc::<Task>::default());
        let first = add(&mut waits, 1);
        let second = add(&mut waits, 2);
        poll(&mut waits, &task);
        waits.cancel(1);
        assert!(first.is_closed() && !second.is_closed());
        let third = add(&mut waits, 3);
        assert_eq!(waits.places.len(), 2);
        third.send(3).unwrap();
        assert_eq!(poll(&mut waits, &task), [(3, Some(3))]);
        waits.cancel_all(|key| key == 2);
        assert!(second.is_closed() && waits.is_empty());
    }

    #[test]
    fn places_beyond_a_few_are_given_back_and_late_wakers_harm_nothing() {
        let (mut waits, task) = (Futures::new(), Arc::<Task>::default());
        let senders: Vec<_> = (0..100).map(|key| add(&mut waits, key)).collect();
        poll(&mut waits, &task);
        let late = waits.places[99].waker.clone();
        let reused = waits.places[0].waker.clone();
        drop(senders);
        assert_eq!(poll(&mut waits, &task).len(), 100);
        assert_eq!(waits.places.len(), KEPT);
        late.wake();
        reused.wake();
        let senders: Vec<_> = (0..100).map(|key| add(&mut waits, key)).collect();
        assert_eq!(poll(&mut waits, &task), []);
        drop(senders);
        assert_eq!(poll(&mut waits, &task).len(), 100);
    }

    #[test]
    fn once_it_rests_another_task_has_it_and_late_wakers_harm_nothing() {
        let tasks = [Arc::<Task>::default(), Arc::default()];
        let mut waits = Futures::new();
        let sender = add(&mut waits, 1);
        poll(&mut waits, &tasks[0]);
        let late = waits.places[0].waker.clone();
        waits.cancel(1);
        drop(sender);
        waits.rest();
        assert_eq!(Arc::strong_count(&tasks[0]), 1, "the first is free");
        late.wake_by_ref();
        let sender = add(&mut waits, 1);
        assert_eq!(poll(&mut waits, &tasks[1]), []);
        late.wake();
        assert_eq!(poll(&mut waits, &tasks[1]), []);
        sender.send(7).unwrap();
        assert_eq!(poll(&mut waits, &tasks[1]), [(1, Some(7))]);
        assert_eq!(tasks[0].0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn many_that_are_cancelled_in_one_go_leave_each_place_free_once() {
        let (mut waits, task) = (Futures::new(), Arc::<Task>::default());
        let cancelled: Vec<_> = (0..100).map(|key| add(&mut waits, key)).collect();
        poll(&mut waits, &task);
        waits.cancel_all(|_| true);
        assert!(waits.is_empty() && cancelled.iter().all(Sender::is_closed));
        assert_eq!(waits.places.len(), KEPT);
        let senders: Vec<_> = (0..100).map(|key| add(&mut waits, key)).collect();
        assert_eq!(waits.places.len(), 100);
        drop(senders);
        assert_eq!(poll(&mut waits, &task).len(), 100);
    }

    #[test]
    fn a_waker_that_is_kept_does_not_keep_the_task() {
        let (mut waits, task) = (Futures::new(), Arc::<Task>::default());
        let _sender = add(&mut waits, 1);
        poll(&mut waits, &task);
        let kept = waits.places[0].waker.clone();
        assert!(Arc::strong_count(&task) > 1);
        drop(waits);
        assert_eq!(Arc::strong_count(&task), 1);
        kept.wake();
    }
}
