//! The corpus as tests, on any machine: what crashed once stays mended.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::path::PathBuf;

use altway_fuzz::{TARGETS, seeds};

/// The corpus is read by everyone who clones the repository.
const MAX_BYTES: u64 = 300_000;

fn corpus(target: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "corpus", target]
        .iter()
        .collect()
}

/// Runs a target on its corpus.
fn replay(target: &str) {
    let (_, run) = TARGETS
        .into_iter()
        .find(|(name, _)| *name == target)
        .unwrap();
    let mut files = 0;
    for entry in fs::read_dir(corpus(target)).unwrap() {
        let path = entry.unwrap().path();
        let input = fs::read(&path).unwrap();
        files += 1;
        let survived = std::panic::catch_unwind(|| run(&input));
        assert!(survived.is_ok(), "{} fails", path.display());
    }
    assert!(files > 0, "an empty corpus proves nothing");
}

#[test]
fn frames_of_the_corpus_break_no_promise() {
    replay("frames");
}

#[test]
fn field_blocks_of_the_corpus_break_no_promise() {
    replay("hpack");
}

#[test]
fn connections_of_the_corpus_break_no_promise() {
    replay("connection");
}

#[test]
fn field_sections_and_instructions_of_the_corpus_break_no_promise() {
    replay("qpack");
}

#[test]
fn streams_of_the_corpus_break_no_promise() {
    replay("streams");
}

#[test]
fn datagrams_of_the_corpus_break_no_promise() {
    replay("datagrams");
}

#[test]
fn messages_of_the_corpus_are_the_same_to_the_gate_and_to_others() {
    replay("gate");
}

#[test]
fn requests_of_the_corpus_are_answered_from_the_folder() {
    replay("requests");
}

#[test]
fn messages_of_the_corpus_take_over_what_is_wanted_or_nothing() {
    replay("takeover");
}

#[test]
fn datagrams_of_the_corpus_come_to_one_process() {
    replay("relay");
}

#[test]
fn the_seeds_in_the_corpus_are_up_to_date() {
    for (target, _) in TARGETS {
        for seed in seeds::seeds(target) {
            let path = corpus(target).join(format!("seed-{}", seed.name));
            let file =
                fs::read(path).expect("`cargo run -p altway-fuzz --example seeds` writes it");
            assert_eq!(file, seed.input, "{target}: {}", seed.name);
        }
    }
}

#[test]
fn the_corpus_stays_small() {
    let files = TARGETS
        .into_iter()
        .flat_map(|(target, _)| fs::read_dir(corpus(target)).unwrap());
    let sum: u64 = files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(sum <= MAX_BYTES, "{sum} bytes");
}
