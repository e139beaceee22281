//! Fuzzes `altway_fuzz::server`, or replays the files that it is given.
#![cfg_attr(fuzzing, no_main)]

/// Allocator by which the target knows the process's memory.
#[global_allocator]
static COUNTING: altway_fuzz::Counting = altway_fuzz::Counting;

altway_fuzz::target!(altway_fuzz::server::run);
