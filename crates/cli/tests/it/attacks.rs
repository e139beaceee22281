//! The quick form of each attack of `altway-attack`, against the binary.

use crate::common::Dir;
use altway_attack::{ALL, Scale, find, raise_descriptors, run};
use std::path::Path;

fn withstands(name: &str) {
    // Others would use up its memory and its time.
    let _dir = Dir::alone();
    raise_descriptors();
    let binary = Path::new(env!("CARGO_BIN_EXE_altway"));
    let report = run(binary, find(name).unwrap(), Scale::Quick).unwrap();
    assert!(report.is_met(), "{report}");
}

/// A test for each sentence, and the list of the attacks that they run.
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
    all_that_can_be_held_at_once_stays_below_the_memory_that_is_allowed: "memory-limit",
    bytes_with_gaps_pin_no_blocks: "gapped-bytes-and-junk",
    forged_sources_of_an_idle_connection_get_three_times_what_they_sent: "forged-sources-idle",
    forged_sources_of_a_download_get_three_times_what_they_sent: "forged-sources-in-a-download",
    spellings_of_one_file_use_up_no_descriptors: "spellings-use-up-descriptors",
    a_deleted_file_frees_its_space: "deleted-file-keeps-its-space",
    a_silent_crowd_of_one_address_leaves_room_for_others: "idle-crowd-over-tcp",
    a_log_that_nobody_reads_stops_nothing: "log-that-nobody-reads",
    downloads_in_clear_text_that_nobody_reads_hold_little_of_the_kernel: "h1-downloads-unread",
    downloads_over_tls_that_nobody_reads_hold_little_of_the_kernel: "h1-tls-downloads-unread",
    requests_over_http3_that_are_stopped_are_counted: "h3-stop-sending",
    requests_over_http3_that_are_reset_are_counted: "h3-reset-stream",
    empty_request_streams_are_counted: "h3-empty-streams",
    malformed_heads_over_http3_are_counted: "h3-malformed-heads",
    requests_that_begin_with_data_end_the_connection: "h3-data-first",
    requests_over_http2_that_are_reset_are_counted: "h2-rapid-reset",
    heads_and_bodies_without_measure_are_refused: "h1-without-measure",
    slow_bodies_are_refused_at_once: "h1-slow-posts",
    a_pipeline_leaves_turns_for_others: "h1-pipeline",
    a_pipeline_that_nobody_reads_holds_little: "h1-pipeline-unread",
    handshakes_that_stop_hold_little: "tls-stopped",
    odd_handshakes_are_cut_off: "tls-odd-records",
    key_updates_without_end_are_cut_off: "tls-key-updates",
    half_open_initials_leave_room_for_others: "half-open-initials",
    an_initial_that_is_repeated_costs_little: "initial-again-and-again",
    datagrams_of_no_connection_are_answered_shorter_or_not: "datagrams-of-no-connection",
    floods_of_frames_hold_nothing: "quic-frame-floods",
    lies_in_frames_end_the_connection: "quic-lies",
    floods_of_the_control_stream_end_the_connection: "h3-control-floods",
    instructions_of_qpack_without_use_end_the_connection: "h3-qpack",
    large_fields_over_http3_are_refused: "h3-large-fields",
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
