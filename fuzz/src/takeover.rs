//! The messages of a takeover, sent by a process that says anything and hands over any descriptors.
//!
//! Whatever comes, the new process has the sockets of an offer that it wanted, or an error; no
//! descriptor stays open; and a message that is understood is understood the same when it is sent again.

use std::fs::{File, read_dir};
use std::os::fd::AsFd;

use altway_serve::fuzzing::{MAX_PREDECESSORS, take_over, understood};

use crate::input::Input;

/// The most messages that are read from an input: no takeover takes more.
const MAX_MESSAGES: usize = 8;

/// Messages: a byte that says how many descriptors come along, a length in two bytes, the text.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut messages = Vec::new();
    while !input.is_empty() && messages.len() < MAX_MESSAGES {
        let descriptors = usize::from(input.byte());
        let len = usize::from(input.word());
        messages.push((input.take(len), descriptors));
    }
    for (text, _) in &messages {
        understand(text);
    }
    take(&messages);
}

fn understand(text: &[u8]) {
    if let Some(sent) = understood(text) {
        assert_eq!(understood(&sent), Some(sent), "not the same twice");
    }
}

fn take(messages: &[(&[u8], usize)]) {
    let descriptor = File::open("/dev/null").expect("every system has it");
    let before = read_dir("/proc/self/fd").expect("Linux").count();
    if let Ok(taken) = take_over(messages, descriptor.as_fd()) {
        assert!(taken.predecessors <= MAX_PREDECESSORS + 1, "{taken:?}");
        // One for each worker at least: what was offered, or the same once more.
        assert!(taken.tcp >= 2, "{taken:?}");
        // As many as were offered: nothing can be bound beside them.
        assert!(taken.udp >= 1, "{taken:?}");
    }
    let after = read_dir("/proc/self/fd").expect("Linux").count();
    // Tests beside this one open and close some.
    if cfg!(fuzzing) {
        assert_eq!(before, after, "descriptors stay open");
    }
}
