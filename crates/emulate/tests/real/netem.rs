//! Links that the kernel shapes, under a kernel that can: user-mode Linux, which runs this binary again.
//!
//! Asserts strictly what such a link does, and loosely how exactly: that kernel is a process of this
//! machine's, and what it times is late by milliseconds now and then.

use crate::between::{
    a_router_shapes_what_it_forwards_and_leaves_nothing_behind,
    what_a_killed_link_in_the_kernel_left_is_put_back,
};
use crate::cases::{
    Case, at_client, at_server, comes_out_in, delayed, flood, host_has_a_link, limited, lossy,
    ping, report, start, start_with, wait_for,
};
use crate::control::{
    a_reset_takes_the_shaping_and_the_schedule_away,
    a_share_of_loss_that_changed_is_held_against_no_count, after_the_turn, before_the_turn,
};
use crate::programs::PORT;
use crate::topologies::{
    both_hops_count_the_same_wire_packets, nothing_but_the_programs_packets_enters_a_link_of_ipv6,
};
use altway_emulate::control::Target;
use altway_emulate::{Backend, Emulation, Error, FarEnd, IpVersion, Options, Topology};
use altway_link::{Config, Discipline, Queue, Schedule, ScheduledChange};
use altway_testkit::uml::Kernel;
use altway_units::DataSize;
use libtest_mimic::{Completion, Failed, Trial};
use std::time::Duration;

/// Says that this process is one under that kernel.
pub(crate) const VARIABLE: &str = "ALTWAY_TEST_NETEM";

/// Time limit of that kernel's run, which takes 30 s to two minutes, by how fast the machine
/// changes between processes, and longer where other programs use the processors.
const KERNEL_TIMEOUT: Duration = Duration::from_secs(600);

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        &[$(Case { name: stringify!($name), needs_root: true, run: $name }),*]
    };
}

/// Cases that run there.
pub(crate) const CASES: &[Case] = cases![
    a_round_trip_takes_the_delay_of_both_directions,
    the_rate_is_kept,
    loss_is_what_was_asked_for_and_counted,
    a_full_queue_drops_what_does_not_fit,
    lost_and_dropped_are_told_apart,
    restart_changes_the_parameters_and_forgets_the_past,
    nothing_but_the_programs_packets_enters_the_link,
    lateness_is_not_known,
    what_netem_cannot_do_is_an_error,
    a_packet_log_is_refused,
    every_topology_is_there_in_both_versions_of_ip,
    both_hops_count_the_same_wire_packets,
    nothing_but_the_programs_packets_enters_a_link_of_ipv6,
    a_change_holds_at_once_and_loses_no_packet,
    a_rate_comes_and_goes_while_the_link_runs,
    a_schedule_turns_the_path_bad_at_its_time,
    a_reset_takes_the_shaping_and_the_schedule_away,
    a_share_of_loss_that_changed_is_held_against_no_count,
    a_change_that_netem_cannot_make_changes_nothing,
    the_host_is_reachable_and_nothing_is_left_behind,
    auto_takes_the_first_that_there_is,
    a_router_shapes_what_it_forwards_and_leaves_nothing_behind,
    what_a_killed_link_in_the_kernel_left_is_put_back,
];

/// The test that boots the kernel and runs the cases there.
pub(crate) fn in_a_kernel_that_has_it() -> Trial {
    Trial::ignorable_test("netem::in_a_kernel_that_has_it", || {
        let kernel = match Kernel::find() {
            Ok(kernel) => kernel,
            Err(reason) => {
                eprintln!("SKIPPED: links that the kernel shapes: {reason}");
                return Ok(Completion::ignored_with(reason));
            }
        };
        let this = crate::programs::this_binary();
        let command = [this.to_str().expect("a path in UTF-8")];
        let ran = kernel.run(&command, &[(VARIABLE, "1")], KERNEL_TIMEOUT)?;
        // Also when all is well: it says which cases ran.
        eprintln!("{}", ran.output);
        if ran.status == 0 {
            return Ok::<_, Failed>(Completion::Completed);
        }
        Err(format!("under that kernel:\n{}", ran.output).into())
    })
}

fn a_round_trip_takes_the_delay_of_both_directions() {
    let link = start_with(delayed(25), delayed(15));
    assert_eq!(link.backend(), Backend::Netem);
    ping(&link, 10);
    let up = report(&link).up;
    assert_eq!((up.packets_in, up.packets_out), (10, 10));
    comes_out_in(40_000..60_000, || ping(&link, 10));
    let report = report(&link);
    assert_eq!(report.hidden_drops, 0);
    assert_eq!(report.validity(), Ok(()));
}

fn the_rate_is_kept() {
    let link = start_with(limited(5), Config::default());
    comes_out_in(4_750..5_250, || {
        let (nanos, arrived) = flood(&link, 250, 0);
        assert_eq!(arrived.len(), 250);
        249 * 1_500 * 8 * 1_000_000 / nanos
    });
}

fn loss_is_what_was_asked_for_and_counted() {
    let link = start_with(lossy(10), Config::default());
    let (_, arrived) = flood(&link, 2_000, 5_000);
    let report = report(&link);
    // 10 % of 2,000: 200, with a standard deviation of 13.4.
    let lost = report.up.packets_lost;
    assert!((130..=270).contains(&lost), "{lost}");
    assert_eq!(report.up.packets_in, 2_000);
    assert_eq!(report.up.bytes_in, 2_000 * 1_500);
    assert_eq!(report.up.packets_out, 2_000 - lost);
    assert_eq!(arrived.len() as u64, 2_000 - lost);
    assert_eq!(report.up.loss_configured, Some(0.1));
    assert_eq!(report.validity(), Ok(()));
}

fn a_full_queue_drops_what_does_not_fit() {
    let queue = Queue::Bytes(DataSize::from_bytes(15_000));
    let slow = Config {
        queue,
        ..limited(1)
    };
    let link = start_with(slow.clone(), Config::default());
    // Some may have left the queue while the others came; more if the sender was made to wait.
    comes_out_in(10..15, || {
        link.restart(slow.clone(), Config::default(), 1)
            .expect("the link runs");
        let (_, arrived) = flood(&link, 20, 0);
        let report = report(&link);
        assert_eq!(report.up.packets_queue_dropped + report.up.packets_out, 20);
        assert_eq!(report.up.packets_lost, 0);
        assert_eq!(report.validity(), Ok(()));
        arrived.len() as u64
    });
}

fn lost_and_dropped_are_told_apart() {
    let both = Config {
        queue: Queue::Packets(10),
        delay: Duration::from_millis(5),
        ..limited(1)
    };
    let loss = lossy(50).loss;
    let link = start_with(Config { loss, ..both }, Config::default());
    let (_, arrived) = flood(&link, 200, 0);
    let up = report(&link).up;
    assert!((60..=140).contains(&up.packets_lost), "{up:?}");
    assert!(up.packets_queue_dropped > 20, "{up:?}");
    assert_eq!(up.packets_out, arrived.len() as u64);
    let all = up.packets_lost + up.packets_queue_dropped + up.packets_out + up.packets_queued;
    assert_eq!(all, up.packets_in, "{up:?}");
}

fn restart_changes_the_parameters_and_forgets_the_past() {
    let link = start_with(Config::default(), Config::default());
    ping(&link, 5);
    assert_eq!(report(&link).up.packets_in, 5);
    comes_out_in(0..20_000, || ping(&link, 5));
    link.restart(delayed(20), delayed(10), 2)
        .expect("the link runs");
    let forgotten = report(&link);
    assert_eq!((forgotten.up.packets_in, forgotten.down.packets_in), (0, 0));
    assert!(ping(&link, 5) >= 30_000);
}

fn nothing_but_the_programs_packets_enters_the_link() {
    let link = start_with(Config::default(), Config::default());
    // The kernel's first router solicitation would come within a second (RFC 4861 §6.3.7).
    std::thread::sleep(Duration::from_millis(1_500));
    let report = report(&link);
    assert_eq!((report.up.packets_in, report.down.packets_in), (0, 0));
}

fn lateness_is_not_known() {
    let link = start_with(delayed(1), delayed(1));
    ping(&link, 3);
    let report = report(&link);
    assert_eq!(report.lateness_us_p99, None);
    assert_eq!(report.realtime_priority, None);
}

fn what_netem_cannot_do_is_an_error() {
    let codel = Config {
        discipline: Discipline::CoDel,
        ..limited(1)
    };
    let error = Emulation::start(Options {
        down: codel,
        backend: Some(Backend::Netem),
        ..Options::default()
    });
    let error = error.expect_err("netem has no CoDel");
    assert!(
        matches!(
            error,
            Error::Unshapable {
                direction: "down",
                ..
            }
        ),
        "{error:?}"
    );
}

fn a_packet_log_is_refused() {
    let started = Emulation::start(Options {
        packet_log: Some("/tmp/log.pcapng".into()),
        backend: Some(Backend::Netem),
        ..Options::default()
    });
    assert!(matches!(started, Err(Error::BeyondBackend { .. })));
}

fn every_topology_is_there_in_both_versions_of_ip() {
    for topology in Topology::ALL {
        for ip in [IpVersion::V4, IpVersion::V6] {
            let link = start(Options {
                up: delayed(20),
                down: delayed(10),
                topology,
                ip,
                proxy_ports: vec![PORT],
                ..Options::default()
            });
            ping(&link, 10);
            let report = report(&link);
            let packets = [report.up, report.down].map(|way| (way.packets_in, way.packets_out));
            assert_eq!(packets, [(10, 10); 2], "{topology} {ip}");
            assert_eq!(report.hidden_drops, 0, "{topology} {ip}");
            assert!(link.unset().is_empty(), "{:?}", link.unset());
            comes_out_in(30_000..50_000, || ping(&link, 10));
        }
    }
}

fn a_change_holds_at_once_and_loses_no_packet() {
    let link = start_with(delayed(5), delayed(5));
    let server = at_server(&link, "sink");
    let client = at_client(&link, "flood 1000 2000");
    for words in [
        "rate 20mbit, queue none, delay 80ms",
        "delay 1ms, rate 10mbit, queue none",
        "rate none",
    ] {
        std::thread::sleep(Duration::from_millis(300));
        let change = words.parse().expect("a change");
        link.change(&change).expect("netem can do that");
    }
    client.words();
    wait_for("all packets to pass", || {
        report(&link).up.packets_out >= 1_000
    });
    std::thread::sleep(Duration::from_millis(300));
    let mut numbers = server.words().split_off(1);
    // What came after the delay was shortened overtook what was on its way.
    numbers.sort_unstable();
    assert_eq!(numbers, (0..1_000).collect::<Vec<u64>>());
    let up = report(&link).up;
    assert_eq!((up.packets_in, up.packets_out), (1_000, 1_000));
    let change = "up delay 20ms, down delay 10ms".parse().expect("a change");
    link.change(&change).expect("netem can do that");
    comes_out_in(30_000..50_000, || ping(&link, 5));
}

fn a_rate_comes_and_goes_while_the_link_runs() {
    let link = start_with(Config::default(), Config::default());
    let set = |change: &str| {
        let change = change.parse().expect("a change");
        link.change(&change).expect("netem can do that");
    };
    let took_ms = || {
        let (nanos, arrived) = flood(&link, 11, 0);
        assert_eq!(arrived.len(), 11);
        nanos / 1_000_000
    };
    // 1,500 bytes take 12 ms.
    comes_out_in(0..50, took_ms);
    set("rate 1mbit, queue none");
    comes_out_in(115..150, took_ms);
    set("rate 2mbit");
    comes_out_in(55..80, took_ms);
    set("rate none");
    comes_out_in(0..50, took_ms);
}

fn a_schedule_turns_the_path_bad_at_its_time() {
    let (link, before) = before_the_turn([4_000, 15_000, 60_000], 10_000..40_000);
    let state = after_the_turn(&link, &before);
    assert_eq!(state.up.0["delay"], "50ms");
    comes_out_in(100_000..130_000, || ping(&link, 5));
}

fn a_change_that_netem_cannot_make_changes_nothing() {
    let link = start_with(delayed(1), delayed(1));
    let change = "down discipline codel".parse().expect("a change");
    let scheduled = ScheduledChange {
        after: Duration::from_secs(1),
        change,
    };
    let schedule = Schedule::new([scheduled.clone()]).expect("one turn");
    for refused in [link.change(&scheduled.change), link.set_schedule(schedule)] {
        assert!(matches!(
            refused,
            Err(Error::Unshapable {
                direction: "down",
                ..
            })
        ));
    }
    let state = link.state().expect("the link runs");
    assert_eq!((state.up, state.to_come.len()), ((&delayed(1)).into(), 0));
}

fn the_host_is_reachable_and_nothing_is_left_behind() {
    let link = start(Options {
        up: delayed(10),
        down: delayed(10),
        far_end: FarEnd::Host,
        ..Options::default()
    });
    assert!(ping(&link, 5) >= 20_000);
    assert!(host_has_a_link());
    drop(link);
    assert!(!host_has_a_link());
}

fn auto_takes_the_first_that_there_is() {
    let link = Emulation::start(Options::default()).expect("one of them works");
    assert_eq!(link.backend(), Backend::Tun);
    assert_eq!(report(&link).backend_reason, "it is the first choice");
}
