//! Fuzzes `altway_fuzz::gate`, or replays the files that it is given.
#![cfg_attr(fuzzing, no_main)]

altway_fuzz::target!(altway_fuzz::gate::run);
