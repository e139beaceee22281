//! The corpus of the whole server as a test: a process of its own, as it looks at its memory and descriptors.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;

#[global_allocator]
static COUNTING: altway_fuzz::Counting = altway_fuzz::Counting;

#[test]
fn clients_of_the_corpus_leave_nothing_behind_in_a_server() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/server");
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        let input = std::fs::read(&path).unwrap();
        let survived = std::panic::catch_unwind(|| altway_fuzz::server::run(&input));
        assert!(survived.is_ok(), "{} fails", path.display());
    }
}
