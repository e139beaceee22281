//! Changes to a link while it runs, and the log of its packets.

use crate::cases::{
    Case, at_client, at_server, comes_out_in, delayed, flood, lossy, ping, report, spawn, start,
    start_with, wait_for, wait_for_the_end,
};
use crate::programs::{SOON, this_binary};
use altway_emulate::control::{Control, LinkState, RunningLink, Target};
use altway_emulate::{Backend, Emulation, Invalid, Options, Pinning};
use altway_link::{Config, Schedule, ScheduledChange};
use rustix::process::{Pid, Signal, kill_process};
use std::ops::Range;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

pub(crate) const ALL: &[Case] = &[
    Case {
        name: "a_change_holds_at_once_and_loses_no_packet",
        needs_root: false,
        run: a_change_holds_at_once_and_loses_no_packet,
    },
    Case {
        name: "a_schedule_turns_the_path_bad_at_its_time_and_loses_no_packet",
        needs_root: false,
        run: a_schedule_turns_the_path_bad_at_its_time_and_loses_no_packet,
    },
    Case {
        name: "a_delay_begins_when_a_packet_comes_and_not_when_it_is_read",
        needs_root: true,
        run: a_delay_begins_when_a_packet_comes_and_not_when_it_is_read,
    },
    Case {
        name: "a_reset_takes_the_shaping_and_the_schedule_away",
        needs_root: false,
        run: a_reset_takes_the_shaping_and_the_schedule_away,
    },
    Case {
        name: "a_share_of_loss_that_changed_is_held_against_no_count",
        needs_root: false,
        run: a_share_of_loss_that_changed_is_held_against_no_count,
    },
    Case {
        name: "a_link_is_changed_over_its_socket",
        needs_root: false,
        run: a_link_is_changed_over_its_socket,
    },
    Case {
        name: "the_packet_log_has_each_packet_at_both_ends_and_what_was_dropped",
        needs_root: false,
        run: the_packet_log_has_each_packet_at_both_ends_and_what_was_dropped,
    },
    Case {
        name: "the_ends_run_on_the_processors_asked_for",
        needs_root: false,
        run: the_ends_run_on_the_processors_asked_for,
    },
];

fn change(link: &Emulation, words: &str) {
    let change = words.parse().expect("the words of a change");
    link.change(&change).expect("the link runs");
}

fn a_change_holds_at_once_and_loses_no_packet() {
    let link = start_with(delayed(5), delayed(5));
    comes_out_in(10_000..25_000, || ping(&link, 5));
    let before = report(&link).up.packets_in;
    // Packets on their way in both directions, in a link whose rate and delay change again and again.
    let server = at_server(&link, "sink");
    let client = at_client(&link, "flood 3000 2000");
    for words in [
        "rate 20mbit, queue none, delay 40ms",
        "delay 1ms",
        "rate none",
    ] {
        sleep(Duration::from_millis(70));
        change(&link, words);
    }
    client.words();
    wait_for_the_end(&link, before + 3_000);
    let numbers = server.words().split_off(1);
    assert_eq!(
        numbers,
        (0..3_000).collect::<Vec<u64>>(),
        "all, and in their order"
    );
    let report = report(&link);
    assert_eq!(report.up.packets_in, report.up.packets_out);
    assert_eq!(
        (report.up.packets_lost, report.up.packets_queue_dropped),
        (0, 0)
    );
    change(&link, "up delay 20ms, down delay 10ms");
    comes_out_in(30_000..45_000, || ping(&link, 5));
}

/// A link whose delay of 5 ms is to become 50 ms at a time, and its state before that, once round trips have been
/// measured. A busy machine may take longer for these than until the time: then the next link has a later one.
pub(crate) fn before_the_turn(times: [u64; 3], round_trip: Range<u64>) -> (Emulation, LinkState) {
    let mut measured = Vec::new();
    let found = times.into_iter().find_map(|after| {
        let link = start_with(delayed(5), delayed(5));
        let scheduled = |after, change: &str| ScheduledChange {
            after: Duration::from_millis(after),
            change: change.parse().expect("a change"),
        };
        let turns = [
            scheduled(after, "delay 50ms"),
            scheduled(3_600_000, "loss 100%"),
        ];
        link.set_schedule(Schedule::new(turns).expect("two turns"))
            .expect("the link runs");
        // Each answer is waited for, so a lost one would end the client.
        let before = ping(&link, 10);
        let state = link.state().expect("the link runs");
        measured.push((before, state.to_come.len()));
        let is_before = state.to_come.len() == 2 && round_trip.contains(&before);
        is_before.then_some((link, state, after))
    });
    let (link, state, after) = found.unwrap_or_else(|| {
        panic!("round trips in µs, and turns to come: {measured:?} for {times:?} ms")
    });
    assert!(state.to_come[0].in_s < after as f64 / 1_000.0, "{state:?}");
    (link, state)
}

/// Waits for the first turn of the schedule from its time on; returns the state after it.
pub(crate) fn after_the_turn(link: &Emulation, before: &LinkState) -> LinkState {
    let state = || link.state().expect("the link runs");
    sleep(Duration::from_secs_f64(before.to_come[0].in_s));
    wait_for("the path to turn", || state().to_come.len() == 1);
    state()
}

fn a_schedule_turns_the_path_bad_at_its_time_and_loses_no_packet() {
    let (link, before) = before_the_turn([1_200, 6_000, 30_000], 10_000..25_000);
    let state = after_the_turn(&link, &before);
    assert_eq!(state.up.0["delay"], "50ms");
    comes_out_in(100_000..115_000, || ping(&link, 5));
    let up = report(&link).up;
    assert_eq!(up.packets_in, up.packets_out);
    // The path was good for a while, so it is held to what a good path is held to.
    assert!((state.report.lateness_limit_us - 1_000.0).abs() < 0.1);
}

pub(crate) fn a_share_of_loss_that_changed_is_held_against_no_count() {
    let link = start_with(delayed(1), lossy(10));
    change(&link, "up loss 50%, down delay 2ms");
    flood(&link, 100, 1_000);
    let lossy = report(&link);
    assert!(lossy.up.packets_lost > 0, "{lossy:?}");
    assert_eq!(
        (lossy.up.loss_configured, lossy.down.loss_configured),
        (None, Some(0.1))
    );
    // Back at what it was at first, there is still no one share for all packets.
    change(&link, "up loss 0%");
    let lossy = report(&link);
    assert_eq!(lossy.up.loss_configured, None);
    // Late it may be, if the machine is busy.
    let validity = lossy.validity();
    assert!(
        matches!(validity, Ok(()) | Err(Invalid::Late { .. })),
        "{validity:?}"
    );
    link.restart(Config::default(), Config::default(), 1)
        .expect("the link runs");
    assert_eq!(report(&link).up.loss_configured, Some(0.0));
}

/// The process of the link is stopped from before a packet comes until long after.
fn a_delay_begins_when_a_packet_comes_and_not_when_it_is_read() {
    const DELAY: Duration = Duration::from_millis(500);
    const UNREAD: Duration = Duration::from_millis(400);
    let link = start(Options::default());
    assert_eq!(report(&link).arrivals_by_kernel, Some(true));
    let backend = link.backend();
    drop(link);
    let mut measured = Vec::new();
    let is_right = (0..3).any(|_| {
        let round_trip = while_it_is_stopped(backend, DELAY, UNREAD);
        measured.push(round_trip);
        assert!(round_trip >= 2 * DELAY, "{measured:?}");
        round_trip < 2 * DELAY + UNREAD / 2
    });
    assert!(is_right, "{measured:?}");
}

/// The round trip over a link with this delay each way, of which the process stood still for so long.
fn while_it_is_stopped(backend: Backend, delay: Duration, unread: Duration) -> Duration {
    let line = format!("hold-with-ping {backend} {}", delay.as_millis());
    let mut holder = spawn(std::process::Command::new(this_binary()), &line);
    assert_eq!(holder.line(), "soon");
    let process = Pid::from_raw(holder.id().cast_signed()).expect("it is no zero");
    kill_process(process, Signal::STOP).expect("it runs");
    sleep(SOON + unread);
    kill_process(process, Signal::CONT).expect("it is stopped");
    Duration::from_micros(holder.words()[0])
}

pub(crate) fn a_reset_takes_the_shaping_and_the_schedule_away() {
    let link = start_with(delayed(20), lossy(100));
    let scheduled = ScheduledChange {
        after: Duration::from_secs(60),
        change: "loss 100%".parse().expect("a change"),
    };
    link.set_schedule(Schedule::new([scheduled]).expect("one turn"))
        .expect("the link runs");
    link.reset().expect("the link runs");
    comes_out_in(0..15_000, || ping(&link, 5));
    let state = link.state().expect("the link runs");
    assert_eq!(state.up, (&Config::default()).into());
    assert!(state.to_come.is_empty());
}

fn a_link_is_changed_over_its_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("altway");
    let link = Arc::new(start_with(Config::default(), Config::default()));
    let target = Arc::clone(&link) as Arc<dyn Target>;
    let control = Control::listen(target, &folder, Some("here")).expect("a socket");
    let running = RunningLink::at(control.path()).expect("it is a link's socket");
    assert_eq!(running.name.as_deref(), Some("here"));
    let state = running
        .set(&"delay 30ms".parse().expect("a change"))
        .expect("it answers");
    assert_eq!(state.down.0["delay"], "30ms");
    assert!(ping(&link, 3) >= 60_000);
    assert_eq!(running.show().expect("it answers").report.up.packets_in, 3);
}

fn the_packet_log_has_each_packet_at_both_ends_and_what_was_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log.pcapng");
    let link = start(Options {
        up: lossy(50),
        packet_log: Some(path.clone()),
        seed: 1,
        ..Options::default()
    });
    let server = at_server(&link, "sink");
    at_client(&link, "flood 200 1000").words();
    wait_for_the_end(&link, 200);
    let arrived = server.words().len() as u64 - 1;
    let report = link.stop().expect("there is a log");
    assert_eq!((report.packets_missed, report.error), (0, None));
    assert_eq!(report.packets_logged, 200 + arrived);
    let log = std::fs::read(&path).expect("the log");
    let comment = b"dropped by the emulated link: loss";
    let dropped = log
        .windows(comment.len())
        .filter(|window| window == comment)
        .count();
    assert_eq!(dropped as u64, 200 - arrived);
    assert!(log.len() as u64 > (200 + arrived) * 1_500);
}

fn the_ends_run_on_the_processors_asked_for() {
    let one = "0".parse().ok();
    let link = start(Options {
        pin_client: one.clone(),
        ..Options::default()
    });
    let expected = Pinning {
        client: one,
        ..Pinning::default()
    };
    assert_eq!(link.pinning(), &expected);
    let mut client = at_client(&link, "status Cpus_allowed_list");
    assert_eq!(client.line(), "0");
}
