//! Every order in which the kernel's processors may take notes while the link thread looks for one, by loom.
//!
//! The memory is a model of that between the two, and [`Kernel::take`] of the program in the kernel,
//! instruction by instruction; what reads is the code itself.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::atomic::Ordering;

use altway_units::Timestamp;
use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{FIRST, NOTE, NOTES, Search, mark, tail};

const WORDS: usize = (FIRST + 2 * NOTE) as usize;

/// The words as far as two notes, of the second lap, and the interface's queue of packets.
struct Kernel {
    words: [AtomicU64; WORDS],
    queue: Mutex<Vec<[u8; 8]>>,
}

impl Kernel {
    /// A ring in which the places of the next notes hold two from the lap before, at time 1, of packets like `packet`.
    fn new(packet: [u8; 8]) -> Self {
        let old = |number| [1, mark(number, tail(&packet))];
        let [first, second] = [0, 1].map(old);
        let words = [NOTES, 0, first[0], first[1], second[0], second[1]];
        Self {
            words: words.map(AtomicU64::new),
            queue: Mutex::new(Vec::new()),
        }
    }

    /// A packet comes to the interface at a time.
    fn take(&self, packet: [u8; 8], at: u64) {
        // Atomic operations of BPF that return something are ordered with everything, plain stores with
        // nothing (Linux, Documentation/bpf/linux-kernel-memory-model).
        let number = self.words[0].fetch_add(1, Ordering::SeqCst);
        let place = (FIRST + number % NOTES * NOTE) as usize;
        self.words[place].store(at, Ordering::Relaxed);
        self.words[place + 1].swap(mark(number, tail(&packet)), Ordering::SeqCst);
        self.queue.lock().unwrap().push(packet);
    }

    /// Reads the next packet in the queue as the link thread does, if there is one.
    fn read(&self, search: &mut Search) -> Option<([u8; 8], Option<Timestamp>)> {
        let packet = self.queue.lock().unwrap().pop()?;
        let load = |place: usize, order| self.words[place].load(order);
        Some((packet, search.of(load, &packet)))
    }
}

/// Two processors get one packet each, at times 10 and 20, while the link thread reads; then it reads what
/// is left.
fn race(packets: [[u8; 8]; 2]) -> Vec<([u8; 8], Option<Timestamp>)> {
    let kernel = Arc::new(Kernel::new(packets[0]));
    let mut takers = Vec::new();
    for (packet, at) in packets.into_iter().zip([10, 20]) {
        let kernel = Arc::clone(&kernel);
        takers.push(thread::spawn(move || kernel.take(packet, at)));
    }
    // All of the lap before has been read.
    let mut search = Search {
        next: NOTES,
        ..Search::default()
    };
    let mut read: Vec<_> = kernel.read(&mut search).into_iter().collect();
    for taker in takers {
        taker.join().unwrap();
    }
    read.extend(std::iter::from_fn(|| kernel.read(&mut search)));
    read
}

#[test]
fn a_packet_has_a_time_of_its_own_lap_whatever_another_processor_writes() {
    loom::model(|| {
        let times = [10, 20].map(|at| Some(Timestamp::from_nanos(at)));
        let alike = [7; 8];
        let read = race([alike; 2]);
        assert_eq!(read.len(), 2);
        assert!(times.contains(&read[0].1), "{read:?}");
        // The first may have been given the later note: then the second has none, and its time is that of
        // its reading.
        assert!(
            read[1].1.is_none() || times.contains(&read[1].1),
            "{read:?}"
        );
        assert_ne!(read[0].1, read[1].1);
    });
}

#[test]
fn packets_that_differ_have_their_own_times_or_none() {
    loom::model(|| {
        for (packet, at) in race([[7; 8], [8; 8]]) {
            let own = if packet == [7; 8] { 10 } else { 20 };
            assert!(at.is_none_or(|at| at == Timestamp::from_nanos(own)));
        }
    });
}
