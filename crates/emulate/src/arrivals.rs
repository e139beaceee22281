//! Times at which packets arrived at a TUN interface, which a read doesn't tell.
//!
//! A thread that sleeps takes a while to wake for a packet, and by so much would the packet's delay begin
//! too late. So a program of eBPF notes the time when the kernel hands the packet to the interface, in
//! memory that the link thread sees, and beside it the packet's last bytes: not every packet that is noted
//! can be read, for the kernel drops what finds the interface's queue full.

use crate::link_devices::Interface;
use crate::sys::{Instruction, SharedWords, load_filter, registers, set_tun_filter};
use altway_units::Timestamp;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

#[cfg(all(test, feature = "loom"))]
mod interleavings;

/// Number of notes that are kept: of all packets that wait to be read, and more. They take 512 KiB.
const NOTES: u64 = 32_768;
const _: () = assert!(NOTES > Interface::QUEUE as u64 && NOTES.is_power_of_two());

/// Number of notes that are looked at for one packet: some microseconds at most.
const WIDTH: u64 = 1_024;

/// Offset at which the notes begin, in words; before them stands how many there have been, and nothing.
const FIRST: u64 = 2;
/// A note is a time, in nanoseconds of the monotonic clock, and the [`mark`] of its number and the packet's
/// last [`TAIL`] bytes. The mark is written after the time and read before it, as a note may be looked at
/// while another processor writes it.
const NOTE: u64 = 2;
const WORD: u64 = 8;
const TAIL: usize = WORD as usize;

/// The notes about one interface.
#[derive(Debug)]
pub(crate) struct Arrivals {
    notes: SharedWords,
    search: Search,
}

impl Arrivals {
    /// Makes the kernel take notes at a TUN interface.
    ///
    /// # Errors
    /// The kernel is older than Linux 5.12, or does not let this process load programs.
    pub(crate) fn at(tun: impl AsFd) -> io::Result<Self> {
        let (notes, program) = load()?;
        set_tun_filter(tun.as_fd(), program.as_fd())?;
        Ok(Self {
            notes,
            search: Search::default(),
        })
    }

    /// Time at which `packet` came, which was just read; `None` when there is no note of it.
    pub(crate) fn of(&mut self, packet: &[u8]) -> Option<Timestamp> {
        let notes = &self.notes;
        self.search
            .of(|place, order| notes.load(place, order), packet)
    }

    /// Notes that there was no packet to read.
    pub(crate) fn none_left(&mut self) {
        let noted = noted(|place, order| self.notes.load(place, order));
        self.search.none_left(noted);
    }
}

/// Returns how many notes there have been; some of them may not be complete.
fn noted(load: impl Fn(usize, Ordering) -> u64) -> u64 {
    load(0, Ordering::Acquire)
}

/// The time in a note, if it is complete and of a packet with this `tail`.
fn time(load: impl Fn(usize, Ordering) -> u64, number: u64, tail: u64) -> Option<u64> {
    let place = (FIRST + number % NOTES * NOTE) as usize;
    let found = load(place + 1, Ordering::Acquire) == mark(number, tail);
    found.then(|| load(place, Ordering::Relaxed))
}

/// Returns the mark that tells a note from the one that stood in its place before, from one of a packet
/// that looked alike, and from none.
fn mark(number: u64, tail: u64) -> u64 {
    tail ^ (number / NOTES + 1)
}

/// Checks that the kernel would take notes, tried at no interface.
///
/// # Errors
/// As those of [`Arrivals::at`].
pub(crate) fn try_out() -> io::Result<()> {
    load().map(drop)
}

/// The notes, and the program that takes them.
fn load() -> io::Result<(SharedWords, OwnedFd)> {
    let notes = SharedWords::create((FIRST + NOTES * NOTE) as usize)?;
    let program = load_filter(&program(notes.map().as_raw_fd()))?;
    Ok((notes, program))
}

/// The search for the note of each packet among those that were taken.
#[derive(Debug, Default)]
struct Search {
    /// The number of the oldest note that may be of a packet to come.
    next: u64,
    /// Number of notes there were when last no packet was left.
    settled: u64,
}

impl Search {
    /// Time at which `packet` came, by the words of memory that `load` reads.
    fn of(&mut self, load: impl Fn(usize, Ordering) -> u64, packet: &[u8]) -> Option<Timestamp> {
        let tail = tail(packet);
        let at = self.find(noted(&load), |number| time(&load, number, tail))?;
        Some(Timestamp::from_nanos(at))
    }

    /// The first time that there is in a note, of the `noted` that there have been; `time` has it of a note
    /// by its number, if that is of the packet.
    fn find(&mut self, noted: u64, time: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        self.next = self.next.max(noted.saturating_sub(NOTES));
        let end = noted.min(self.next + WIDTH);
        for number in self.next..end {
            if let Some(at) = time(number) {
                self.next = number + 1;
                return Some(at);
            }
        }
        // So many were dropped that the packet's note was written over, or will be found by those
        // after it.
        if end - self.next == WIDTH {
            self.next = end;
        }
        None
    }

    /// No packet was left to read when there were `noted` notes. A note is taken a moment before its packet
    /// can be read; those that were there the last time are of packets that were read, or dropped.
    fn none_left(&mut self, noted: u64) {
        self.next = self.next.max(self.settled);
        self.settled = noted;
    }
}

/// Returns the bytes that tell a packet from others: the end of its payload, or of TCP's time
/// stamps.
fn tail(packet: &[u8]) -> u64 {
    let last = packet.last_chunk::<TAIL>();
    last.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// Helpers of the kernel (linux/bpf.h).
const KTIME_GET_NS: i32 = 5;
const SKB_LOAD_BYTES: i32 = 26;

/// Registers: a result, arguments, four that calls leave alone, and the end of the stack.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const CONTEXT: u8 = 6;
const NOW: u8 = 7;
const PLACE: u8 = 8;
const LAP: u8 = 9;
const STACK: u8 = 10;

/// Operations (RFC 9669 section 4 and 5), of 64 bits but for the load of a word.
const MOVE: u8 = 0xbf;
const MOVE_NUMBER: u8 = 0xb7;
const ADD: u8 = 0x0f;
const ADD_NUMBER: u8 = 0x07;
const AND_NUMBER: u8 = 0x57;
const SHIFT_LEFT: u8 = 0x67;
const SHIFT_RIGHT: u8 = 0x77;
const XOR: u8 = 0xaf;
const LOAD: u8 = 0x79;
const LOAD_32: u8 = 0x61;
const STORE: u8 = 0x7b;
const ATOMIC: u8 = 0xdb;
const FETCH_AND_ADD: i32 = 0x01;
const EXCHANGE: i32 = 0xe1;
const ADDRESS: u8 = 0x18;
/// The address is of the value of a map.
const OF_A_MAP: u8 = 2;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Offset at which the context of a packet has its length.
const LENGTH: i16 = 0;

/// Takes a note of each packet in the map of this descriptor, and lets the packet go on whole.
fn program(map: i32) -> [Instruction; 26] {
    let bytes = |words: u64| (words * WORD) as i16;
    let tail_place = -bytes(1);
    [
        with(MOVE, CONTEXT, R1),
        number(CALL, R0, KTIME_GET_NS),
        with(MOVE, NOW, R0),
        // Which note it is; another processor may be here too.
        of(ADDRESS, PLACE, OF_A_MAP, 0, map),
        number(0, R0, 0),
        number(MOVE_NUMBER, R1, 1),
        of(ATOMIC, PLACE, R1, 0, FETCH_AND_ADD),
        with(MOVE, LAP, R1),
        number(SHIFT_RIGHT, LAP, NOTES.trailing_zeros() as i32),
        number(ADD_NUMBER, LAP, 1),
        number(AND_NUMBER, R1, (NOTES - 1) as i32),
        number(SHIFT_LEFT, R1, (NOTE * WORD).trailing_zeros() as i32),
        with(ADD, PLACE, R1),
        of(STORE, PLACE, NOW, bytes(FIRST), 0),
        // A packet that is too short leaves zeros.
        of(LOAD_32, R2, CONTEXT, LENGTH, 0),
        number(ADD_NUMBER, R2, -(TAIL as i32)),
        with(MOVE, R1, CONTEXT),
        with(MOVE, R3, STACK),
        number(ADD_NUMBER, R3, tail_place.into()),
        number(MOVE_NUMBER, R4, TAIL as i32),
        number(CALL, R0, SKB_LOAD_BYTES),
        of(LOAD, R1, STACK, tail_place, 0),
        with(XOR, R1, LAP),
        // Not a plain store, which some processors would let pass the time's.
        of(ATOMIC, PLACE, R1, bytes(FIRST + 1), EXCHANGE),
        of(LOAD_32, R0, CONTEXT, LENGTH, 0),
        number(EXIT, R0, 0),
    ]
}

/// An operation on two registers.
const fn with(operation: u8, destination: u8, source: u8) -> Instruction {
    of(operation, destination, source, 0, 0)
}

/// An operation on a register and a number.
const fn number(operation: u8, destination: u8, operand: i32) -> Instruction {
    of(operation, destination, 0, 0, operand)
}

const fn of(operation: u8, destination: u8, source: u8, offset: i16, operand: i32) -> Instruction {
    Instruction {
        operation,
        registers: registers(destination, source),
        offset,
        operand,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times of the notes of packets with these `tails`, taken at ten times their place, as far as they are
    /// of one with `tail`.
    fn times(tails: &[u64], tail: u64) -> impl Fn(u64) -> Option<u64> + '_ {
        move |number| (tails[usize::try_from(number).unwrap()] == tail).then_some(number * 10)
    }

    #[test]
    fn each_packet_has_the_note_that_was_taken_of_it() {
        let mut search = Search::default();
        let tails = [7, 8, 9];
        let mut find = |tail| search.find(3, times(&tails, tail));
        assert_eq!([find(7), find(8), find(9)], [Some(0), Some(10), Some(20)]);
        assert_eq!(find(9), None, "it was read already");
    }

    #[test]
    fn packets_that_are_alike_have_their_notes_in_turn() {
        let mut search = Search::default();
        let mut find = || search.find(3, times(&[5; 3], 5));
        assert_eq!(
            [find(), find(), find(), find()],
            [Some(0), Some(10), Some(20), None]
        );
    }

    #[test]
    fn notes_of_packets_that_were_dropped_are_passed_over() {
        let mut search = Search::default();
        let tails = [7, 8, 9];
        assert_eq!(search.find(3, times(&tails, 9)), Some(20));
        assert_eq!(search.find(3, times(&tails, 8)), None);
    }

    #[test]
    fn a_packet_without_a_note_leaves_the_others_theirs() {
        let mut search = Search::default();
        assert_eq!(search.find(2, times(&[7, 8], 6)), None);
        assert_eq!(search.find(2, times(&[7, 8], 7)), Some(0));
    }

    #[test]
    fn dropped_packets_that_looked_alike_are_forgotten_when_none_is_left() {
        let mut search = Search::default();
        let tails = [5; 6];
        assert_eq!(search.find(4, times(&tails, 5)), Some(0));
        search.none_left(4);
        assert_eq!(
            search.find(5, times(&tails, 5)),
            Some(10),
            "it may be on its way"
        );
        search.none_left(5);
        assert_eq!(search.find(6, times(&tails, 5)), Some(40));
    }

    /// Memory in which every note is of a packet with this `tail`, that of number `before` and those before
    /// it.
    fn memory(tail: u64, before: u64) -> impl Fn(usize, Ordering) -> u64 {
        move |place, _| {
            let number = (before / NOTES * NOTES) + (place as u64 - FIRST) / NOTE;
            let number = if number < before {
                number
            } else {
                number - NOTES
            };
            [number, mark(number, tail)][place % 2]
        }
    }

    #[test]
    fn a_note_that_is_not_written_yet_is_not_the_one_that_stood_there() {
        let load = memory(7, NOTES + 2);
        assert_eq!(time(&load, NOTES + 1, 7), Some(NOTES + 1));
        assert_eq!(time(&load, NOTES + 2, 7), None);
        assert_eq!(time(&load, 2, 7), Some(2));
        assert_eq!(time(|_, _| 0, 0, 0), None, "nothing is there");
    }

    #[test]
    fn a_note_that_was_written_over_is_of_nobody() {
        let mut search = Search::default();
        let mut find = |of| search.find(NOTES + 2, |it| (it % NOTES == of).then_some(it));
        assert_eq!(find(2), Some(2), "the oldest");
        assert_eq!(find(1), None);
    }

    #[test]
    fn a_search_takes_a_bounded_time_and_comes_to_the_end_of_the_notes() {
        let mut search = Search::default();
        let looked = std::cell::Cell::new(0);
        let others = |_| {
            looked.set(looked.get() + 1);
            None
        };
        for _ in 0..NOTES / WIDTH {
            looked.set(0);
            assert_eq!(search.find(NOTES, others), None);
            assert_eq!(looked.get(), WIDTH);
        }
        looked.set(0);
        assert_eq!(search.find(NOTES, others), None);
        assert_eq!(looked.get(), 0);
    }

    #[test]
    fn a_packet_too_short_for_a_tail_has_zeros() {
        assert_eq!(tail(&[1; TAIL - 1]), 0);
        assert_ne!(tail(&[1; TAIL]), 0);
    }
}
