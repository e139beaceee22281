//! Real links with real packets.
//!
//! Runs where namespaces and /dev/net/tun can be used (root, or user namespaces), and says that it
//! is skipped elsewhere. Those of netem run under a kernel of their own (`netem`). Each test has its
//! own link; they run one after the other, because they measure time. The programs at the ends of the links are this very binary (`programs`).
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "tests and their programs talk"
)]

mod between;
mod cases;
mod control;
mod netem;
mod pieces;
mod programs;
mod tcp;
mod topologies;

use altway_emulate::{Backend, Privilege, enter};
use altway_testkit::uml;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::fs::OpenOptions;
use std::process::ExitCode;

/// The cases that hold for a packet socket as for a TUN interface.
const OF_PACKET: &[&str] = &[
    "a_round_trip_takes_the_delay_of_both_directions",
    "the_rate_is_kept_within_one_per_cent",
    "tcp_fills_the_link",
    "the_same_seed_loses_the_packets_that_the_model_says",
    "a_full_queue_drops_the_tail",
    "restart_changes_the_parameters_and_forgets_the_past",
    "a_burst_of_packets_is_dropped_nowhere_outside_of_the_model",
    "nothing_but_the_programs_packets_enters_the_link",
    "the_mtu_is_that_of_the_link",
    "teardown_leaves_nothing_and_is_fast",
    "two_links_at_once_do_not_meet",
    "the_host_is_reachable_as_the_far_end",
    "two_links_to_the_host_have_different_addresses",
    "a_killed_process_leaves_nothing_behind",
    "a_round_trip_takes_the_delay_of_both_directions_in_every_topology",
    "both_hops_count_the_same_wire_packets",
    "nothing_but_the_programs_packets_enters_a_link_of_ipv6",
    "the_host_is_reachable_through_every_topology",
    "a_change_holds_at_once_and_loses_no_packet",
    "the_packet_log_has_each_packet_at_both_ends_and_what_was_dropped",
    "datagrams_of_one_piece_are_lost_one_by_one_as_the_model_says",
    "datagrams_of_one_piece_are_policed_one_by_one_and_tcp_is_not",
    "segments_of_one_piece_are_packets_of_the_wire",
    "what_the_link_corrupts_reaches_no_program",
];

fn main() -> ExitCode {
    if uml::is_init() {
        uml::init();
    }
    if let Some(name) = std::env::var_os(programs::VARIABLE) {
        programs::run(&name.to_string_lossy());
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(netem::VARIABLE).is_some() {
        return run(netem::CASES
            .iter()
            .map(|case| trial(case, Backend::Netem, &Ok(Privilege::Root))));
    }
    // Before anything else, while there is one thread.
    let privilege = told(enter().map_err(|error| error.to_string()));
    let with_tun = privilege
        .clone()
        .and_then(|privilege| told(tun_device()).map(|()| privilege));
    let with_tools = privilege
        .clone()
        .and_then(|had| told(between::tools()).map(|()| had));
    let parts = [
        cases::ALL,
        tcp::ALL,
        topologies::ALL,
        control::ALL,
        pieces::ALL,
    ];
    let all = || parts.into_iter().flatten();
    let of_tun = all().map(|case| trial(case, Backend::Tun, &with_tun));
    let shared = all().filter(|case| OF_PACKET.contains(&case.name));
    let of_packet = shared.map(|case| trial(case, Backend::Packet, &privilege));
    let between = between::CASES
        .iter()
        .map(|case| trial(case, Backend::Packet, &with_tools));
    let of_netem = netem::in_a_kernel_that_has_it();
    run(of_tun.chain(of_packet).chain(between).chain([of_netem]))
}

/// Says why tests are skipped.
fn told<T>(found: Result<T, String>) -> Result<T, String> {
    // Not on stdout, where test runners read the list of tests.
    found.inspect_err(|reason| eprintln!("SKIPPED: no emulated link can be made here: {reason}"))
}

/// Runs the trials one after the other, because they measure time.
fn run(trials: impl Iterator<Item = Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn tun_device() -> Result<(), String> {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    device
        .map(drop)
        .map_err(|error| format!("/dev/net/tun: {error}"))
}

fn trial(
    case: &'static cases::Case,
    backend: Backend,
    privilege: &Result<Privilege, String>,
) -> Trial {
    let privilege = privilege.clone();
    let name = format!("{backend}::{}", case.name);
    Trial::ignorable_test(name, move || match privilege {
        Err(reason) => Ok(Completion::ignored_with(reason)),
        Ok(Privilege::UserNamespace) if case.needs_root => {
            Ok(Completion::ignored_with("needs root"))
        }
        Ok(_) => {
            // A panic in a case is caught and reported by the harness.
            *cases::BACKEND.lock().expect("nobody panics with it") = Some(backend);
            (case.run)();
            Ok::<_, Failed>(Completion::Completed)
        }
    })
}
