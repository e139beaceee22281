//! Every order in which workers may take from a pool and a client's share and give back, by loom.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use loom::thread;

use super::*;

/// Size of the pool.
const ALL: u64 = 3_000;
/// Size of the client's share.
const SHARE: u64 = 2_000;
/// The congestion window of every connection.
const CONGESTION_WINDOW: u64 = 3_244;
/// Bytes that a window asks for beyond its first size.
const WANTED: u64 = AHEAD * CONGESTION_WINDOW - FIRST_SEND;

fn grow(windows: &mut Windows) -> u64 {
    windows.on_write(0, CONGESTION_WINDOW);
    windows.granted()
}

fn left(pool: &Pool, share: &HeldShare) -> (u64, u64) {
    (pool.left(), share.0.load(Ordering::Relaxed))
}

#[test]
fn no_more_is_granted_than_there_is_and_nothing_is_lost() {
    loom::model(|| {
        let pool = Pool::new(ALL, 1 << 20, 1 << 20);
        let share = HeldShare::new(SHARE);
        let client = || pool.windows(Some(share.clone()));
        let (mut one, mut two, mut other) = (client(), client(), pool.windows(None));
        let worker = thread::spawn(move || (grow(&mut one), one));
        let granted = [grow(&mut two), grow(&mut other)];
        let (first, one) = worker.join().unwrap();
        let of_client = first + granted[0];
        let of_all = of_client + granted[1];
        assert!(of_client <= SHARE && of_all <= ALL, "{first} {granted:?}");
        assert_eq!(left(&pool, &share), (ALL - of_all, SHARE - of_client));
        drop((one, two, other));
        assert_eq!(left(&pool, &share), (ALL, SHARE));
    });
}

#[test]
fn what_a_connection_gives_back_while_another_takes_is_there_once() {
    loom::model(|| {
        let pool = Pool::new(ALL, 1 << 20, 1 << 20);
        let share = HeldShare::new(SHARE);
        let [mut one, mut two] = [(); 2].map(|()| pool.windows(Some(share.clone())));
        assert_eq!(grow(&mut one), WANTED);
        let worker = thread::spawn(move || drop(one));
        let granted = grow(&mut two);
        worker.join().unwrap();
        assert!((SHARE - WANTED..=WANTED).contains(&granted), "{granted}");
        assert_eq!(left(&pool, &share), (ALL - granted, SHARE - granted));
        two.on_idle();
        assert_eq!(left(&pool, &share), (ALL, SHARE));
    });
}
