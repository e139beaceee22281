//! Fuzzes `altway_fuzz::connection`, or replays the files that it is given.
#![cfg_attr(fuzzing, no_main)]

altway_fuzz::target!(altway_fuzz::connection::run);
