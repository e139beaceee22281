//! The quick form of each attack of `altway-attack`, against the binary.

use crate::common::{Dir, skipped};
use altway_attack::{ALL, Scale, find, raise_descriptors, run};
use std::path::Path;

/// Attacks that the server is still open to. Each mend takes its own off this list.
const OPEN: &[&str] = &[
    "gapped-bytes-and-junk",
    "forged-sources-idle",
    "forged-sources-in-a-download",
];

fn withstands(name: &str) {
    // Others would use up its memory and its time.
    let _dir = Dir::alone();
    if OPEN.contains(&name) {
        return skipped(&format!("the server is open to {name}"));
    }
    raise_descriptors();
    let binary = Path::new(env!("CARGO_BIN_EXE_altway"));
    let report = run(binary, find(name).unwrap(), Scale::Quick).unwrap();
    assert!(report.is_met(), "{report}");
}

/// A test for each sentence, and the list of the attacks that they make.
macro_rules! tests {
    ($($sentence:ident: $attack:literal),* $(,)?) => {
        $(
            #[test]
            fn $sentence() {
                withstands($attack);
            }
        )*

        const TESTED: &[&str] = &[$($attack),*];
    };
}

tests! {
    spellings_that_no_window_takes_over_http2_hold_no_memory: "h2-spellings-unread",
    ranges_that_no_window_takes_over_http2_hold_no_memory: "h2-ranges-unread",
    spellings_that_no_window_takes_over_http3_hold_no_memory: "h3-spellings-unread",
    ranges_that_no_window_takes_over_http3_hold_no_memory: "h3-ranges-unread",
    bytes_with_gaps_pin_no_blocks: "gapped-bytes-and-junk",
    forged_sources_of_an_idle_connection_get_three_times_what_they_sent: "forged-sources-idle",
    forged_sources_of_a_download_get_three_times_what_they_sent: "forged-sources-in-a-download",
    spellings_of_one_file_use_up_no_descriptors: "spellings-use-up-descriptors",
    a_deleted_file_frees_its_space: "deleted-file-keeps-its-space",
    downloads_in_clear_text_that_nobody_reads_hold_little_of_the_kernel: "h1-downloads-unread",
    downloads_over_tls_that_nobody_reads_hold_little_of_the_kernel: "h1-tls-downloads-unread",
}

#[test]
fn every_quick_attack_has_a_test() {
    let quick = ALL.iter().copied().flatten().filter(|attack| attack.quick);
    let missing: Vec<_> = quick
        .map(|attack| attack.name)
        .filter(|name| !TESTED.contains(name))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}
