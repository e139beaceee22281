//! The door to libFuzzer, which calls a symbol of the program.

/// Makes a program of a target: under `--cfg fuzzing` one that libFuzzer drives, else one that runs
/// the target on the files that it is given.
#[macro_export]
macro_rules! target {
    ($run:path) => {
        #[cfg(fuzzing)]
        #[allow(
            unsafe_code,
            missing_docs,
            reason = "libFuzzer finds its entry by an unmangled name"
        )]
        mod entry {
            libfuzzer_sys::fuzz_target!(|input: &[u8]| $run(input));
        }

        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            $crate::replay($run)
        }
    };
}
