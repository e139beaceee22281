//! The tests: one link each.

use crate::programs::{program, this_binary};
use altway_emulate::{Backend, Emulation, Error, FarEnd, LinkReport, Options};
use altway_link::{Config, Direction, Queue, seed_for};
use altway_units::{Bandwidth, DataSize, Ratio, Timestamp};
use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A test with its name.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) needs_root: bool,
    pub(crate) run: fn(),
}

macro_rules! cases {
    (anyone: [$($anyone:ident),* $(,)?], root: [$($root:ident),* $(,)?]) => {
        &[
            $(Case { name: stringify!($anyone), needs_root: false, run: $anyone },)*
            $(Case { name: stringify!($root), needs_root: true, run: $root },)*
        ]
    };
}
pub(crate) use cases;

pub(crate) const ALL: &[Case] = cases! {
    anyone: [
        a_round_trip_takes_the_delay_of_both_directions,
        the_rate_is_kept_within_one_per_cent,
        tcp_fills_the_link,
        the_same_seed_loses_the_packets_that_the_model_says,
        a_full_queue_drops_the_tail,
        restart_changes_the_parameters_and_forgets_the_past,
        a_burst_of_packets_is_dropped_nowhere_outside_of_the_model,
        nothing_but_the_programs_packets_enters_the_link,
        the_mtu_is_that_of_the_link,
        the_congestion_control_is_the_one_asked_for,
        an_unknown_congestion_control_is_an_error,
        a_tiny_mtu_is_an_error,
        teardown_leaves_nothing_and_is_fast,
        teardown_does_not_wait_for_programs_that_still_run,
        programs_die_with_the_thread_that_started_them,
        programs_have_the_priority_that_was_asked_for,
        two_links_at_once_do_not_meet,
    ],
    root: [
        every_congestion_control_of_the_kernel_can_be_used_and_the_host_stays_as_it_was,
        the_host_is_reachable_as_the_far_end,
        two_links_to_the_host_have_different_addresses,
        a_killed_process_leaves_nothing_behind,
    ]
};

/// Backend of the links of the case that runs, where the case doesn't say. Cases run one after the
/// other.
pub(crate) static BACKEND: Mutex<Option<Backend>> = Mutex::new(None);

/// A program that was started at one end.
pub(crate) struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Closes its input, waits for its end and returns the words that it printed.
    pub(crate) fn words(mut self) -> Vec<u64> {
        self.child.stdin = None;
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("text");
        assert!(self.child.wait().expect("it was not waited for").success());
        let number = |word: &str| word.parse().expect("a number");
        text.split_whitespace().map(number).collect()
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        line.trim().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn at_client(link: &Emulation, line: &str) -> Running {
    spawn(link.client_command(this_binary()), line)
}

/// Starts a server and waits until it is ready.
pub(crate) fn at_server(link: &Emulation, line: &str) -> Running {
    let mut server = spawn(link.server_command(this_binary()), line);
    assert_eq!(server.line(), "ready");
    server
}

pub(crate) fn spawn(mut command: std::process::Command, line: &str) -> Running {
    let mut child = program(&mut command, line)
        .spawn()
        .expect("this binary runs");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    Running { child, output }
}

pub(crate) fn start(options: Options) -> Emulation {
    let backend = options
        .backend
        .or(*BACKEND.lock().expect("nobody panics with it"));
    Emulation::start(Options { backend, ..options }).unwrap_or_else(|error| {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        panic!("{error}: {source:?}")
    })
}

pub(crate) fn start_with(up: Config, down: Config) -> Emulation {
    start(Options {
        up,
        down,
        ..Options::default()
    })
}

pub(crate) fn delayed(millis: u64) -> Config {
    Config {
        delay: Duration::from_millis(millis),
        ..Config::default()
    }
}

pub(crate) fn limited(mbit: u64) -> Config {
    Config {
        rate: Bandwidth::from_mbit(mbit).into(),
        ..Config::default()
    }
}

/// 20 Mbit/s after a delay, with the queue that goes with the rate.
pub(crate) fn bottleneck(delay_ms: u64) -> Config {
    Config {
        delay: Duration::from_millis(delay_ms),
        queue: Queue::default_for(&limited(20).rate),
        ..limited(20)
    }
}

pub(crate) fn lossy(percent: u32) -> Config {
    let loss = Ratio::from_percent(percent).expect("at most 100");
    Config {
        loss: loss.into(),
        ..Config::default()
    }
}

pub(crate) fn report(link: &Emulation) -> LinkReport {
    link.report().expect("the link runs")
}

/// Time after which a test takes what it waits for as not coming: long, because a machine at full load takes long, and
/// only a test that fails waits for it.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Asserts that what is measured is `right` in one of ten tries. Programs at the ends, and the link itself, wait for a
/// processor now and then, and packets are late then; what is wrong with a link is so each time.
pub(crate) fn comes_out_in(right: Range<u64>, measure: impl Fn() -> u64) {
    let mut measured = Vec::new();
    let is_right = (0..TRIES).any(|_| {
        let value = measure();
        measured.push(value);
        right.contains(&value)
    });
    assert!(is_right, "not in {right:?}: {measured:?}");
}

/// Tries of a measurement that other programs may disturb.
pub(crate) const TRIES: usize = 10;

pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + TIME_LIMIT;
    while !condition() {
        assert!(Instant::now() < give_up, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until so many packets have come up the link, and none of them is in it any more.
pub(crate) fn wait_for_the_end(link: &Emulation, count: u64) {
    wait_for("all packets to pass", || {
        let up = report(link).up;
        up.packets_in >= count && up.packets_queued == 0
    });
}

/// Returns true if this namespace has an interface of ours.
pub(crate) fn host_has_a_link() -> bool {
    let interfaces = std::fs::read_to_string("/proc/net/dev").expect("this is Linux");
    interfaces.contains("altway")
}

/// The least round trip in µs: the one that no other program made wait.
pub(crate) fn ping(link: &Emulation, count: u64) -> u64 {
    let _server = at_server(link, "echo");
    at_client(link, &format!("ping {count}")).words()[0]
}

/// Sends numbered packets; returns the ns between the first and the last, and the numbers arrived.
pub(crate) fn flood(link: &Emulation, count: u64, gap_us: u64) -> (u64, Vec<u64>) {
    let before = report(link).up.packets_in;
    let server = at_server(link, "sink");
    at_client(link, &format!("flood {count} {gap_us}")).words();
    wait_for_the_end(link, before + count);
    let mut words = server.words();
    let nanos = words.remove(0);
    (nanos, words)
}

fn a_round_trip_takes_the_delay_of_both_directions() {
    let link = start_with(delayed(25), delayed(25));
    comes_out_in(50_000..60_000, || ping(&link, 20));
    let report = report(&link);
    assert_eq!(report.hidden_drops, 0);
    // Without real-time priority, how late depends on what else runs on the machine.
    assert!(
        report.lateness_us_p50 < Some(1_000.0) || report.realtime_priority == Some(false),
        "{report:?}"
    );
    assert!(
        report.lateness_us_p50 <= report.lateness_us_p99,
        "{report:?}"
    );
    assert!(
        report.lateness_us_p99 <= report.lateness_us_max,
        "{report:?}"
    );
}

fn the_rate_is_kept_within_one_per_cent() {
    let link = start_with(limited(20), Config::default());
    let measure = || {
        let (nanos, arrived) = flood(&link, 2_500, 0);
        assert_eq!(arrived.len(), 2_500);
        2_499.0 * 1_500.0 * 8.0 * 1_000.0 / nanos as f64
    };
    // Where other programs make the receiver wait, its clock readings are wrong now and then; a
    // wrong rate would be wrong each time.
    assert!((0..TRIES).any(|_| (19.8..=20.2).contains(&measure())));
}

fn tcp_fills_the_link() {
    let link = start_with(bottleneck(10), bottleneck(10));
    let measure = || {
        let _server = at_server(&link, "tcp-server 2000000");
        let words = at_client(&link, "tcp-client").words();
        assert_eq!(words[0], 2_000_000);
        // 2 MB in segments of 1,448 bytes are 2,072,000 IP bytes: 829 ms; 40 ms for the hand-shake and
        // the first byte, and some for slow start.
        let right = (860_000..1_500_000).contains(&words[1]);
        if !right {
            eprintln!("{} µs", words[1]);
        }
        right
    };
    // Other programs may make the ends wait.
    assert!((0..TRIES).any(|_| measure()));
    assert_eq!(report(&link).hidden_drops, 0);
}

fn the_same_seed_loses_the_packets_that_the_model_says() {
    let link = start_with(lossy(5), Config::default());
    let model = |seed| {
        let mut model = Direction::new(lossy(5), seed_for(seed, true));
        let size = DataSize::from_bytes(1_500);
        (0..2_000)
            .filter(|ordinal| model.enqueue(Timestamp::ZERO, size, *ordinal).is_ok())
            .collect::<Vec<u64>>()
    };
    for seed in [7, 7, 8] {
        link.restart(lossy(5), Config::default(), seed)
            .expect("the link runs");
        let (_, arrived) = flood(&link, 2_000, 5_000);
        assert_eq!(arrived, model(seed), "seed {seed}");
    }
    assert_ne!(model(7), model(8));
}

fn a_full_queue_drops_the_tail() {
    let queue = Queue::Bytes(DataSize::from_bytes(15_000));
    let shaped = || Config {
        queue,
        ..limited(1)
    };
    let link = start_with(shaped(), Config::default());
    // Some may have left the queue while the others came; more if the sender was made to wait.
    comes_out_in(10..14, || {
        link.restart(shaped(), Config::default(), 1)
            .expect("the link runs");
        let (_, arrived) = flood(&link, 20, 0);
        let report = report(&link);
        assert_eq!(report.up.packets_queue_dropped + report.up.packets_out, 20);
        assert!(report.up.bytes_backlog_max <= 15_000, "{report:?}");
        assert_eq!(report.hidden_drops, 0);
        arrived.len() as u64
    });
    assert_eq!(report(&link).up.bytes_backlog_max, 15_000);
}

fn restart_changes_the_parameters_and_forgets_the_past() {
    let link = start_with(Config::default(), Config::default());
    let without = 0..15_000;
    ping(&link, 5);
    assert_eq!(report(&link).up.packets_in, 5);
    comes_out_in(without.clone(), || ping(&link, 5));
    link.restart(delayed(20), delayed(10), 2)
        .expect("the link runs");
    let forgotten = report(&link);
    assert_eq!(
        (forgotten.up.packets_in, forgotten.lateness_us_max),
        (0, Some(0.0))
    );
    assert!(ping(&link, 5) >= 30_000);
    link.restart(Config::default(), Config::default(), 3)
        .expect("the link runs");
    comes_out_in(without, || ping(&link, 5));
}

fn a_burst_of_packets_is_dropped_nowhere_outside_of_the_model() {
    let link = start_with(delayed(50), Config::default());
    // The receiver's socket buffer holds fewer, but that is no matter of the link's.
    let (_, arrived) = flood(&link, 15_000, 0);
    let report = report(&link);
    assert_eq!(
        (report.up.packets_in, report.up.packets_out),
        (15_000, 15_000)
    );
    assert_eq!(report.hidden_drops, 0);
    assert!(!arrived.is_empty());
}

fn nothing_but_the_programs_packets_enters_the_link() {
    let link = start_with(Config::default(), Config::default());
    // The kernel's first router solicitation would come within a second (RFC 4861 §6.3.7).
    std::thread::sleep(Duration::from_millis(1_500));
    let report = report(&link);
    assert_eq!((report.up.packets_in, report.down.packets_in), (0, 0));
    assert!(link.unset().is_empty(), "{:?}", link.unset());
}

fn the_mtu_is_that_of_the_link() {
    let link = start(Options {
        mtu: 1_000,
        ..Options::default()
    });
    let (_, arrived) = flood(&link, 10, 0);
    assert_eq!(arrived.len(), 10);
    assert_eq!(
        report(&link).up.packets_in,
        20,
        "each datagram in two fragments"
    );
}

fn the_congestion_control_is_the_one_asked_for() {
    let congestion_control = Some("reno".to_owned());
    let link = start(Options {
        congestion_control,
        ..Options::default()
    });
    let file = "print /proc/sys/net/ipv4/tcp_congestion_control";
    assert_eq!(at_client(&link, file).line(), "reno");
    let server = spawn(link.server_command(this_binary()), file).line();
    assert_eq!(server, "reno");
}

fn every_congestion_control_of_the_kernel_can_be_used_and_the_host_stays_as_it_was() {
    let read = |name| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
    let allowed = || read("tcp_allowed_congestion_control").expect("this is Linux");
    let available = read("tcp_available_congestion_control").expect("this is Linux");
    let before = allowed();
    for name in available.split_whitespace() {
        let congestion_control = Some(name.to_owned());
        let link = start(Options {
            congestion_control,
            ..Options::default()
        });
        let file = "print /proc/sys/net/ipv4/tcp_congestion_control";
        assert_eq!(at_client(&link, file).line(), name);
        assert_eq!(allowed(), before);
    }
}

fn an_unknown_congestion_control_is_an_error() {
    let congestion_control = Some("carrier-pigeon".to_owned());
    let error = Emulation::start(Options {
        congestion_control,
        ..Options::default()
    });
    let error = error.expect_err("there is no such congestion control");
    assert!(
        matches!(error, Error::CongestionControl { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("this kernel has: "), "{error}");
}

fn a_tiny_mtu_is_an_error() {
    let error = Emulation::start(Options {
        mtu: 67,
        ..Options::default()
    });
    assert!(matches!(error, Err(Error::Mtu { least: 68, .. })));
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("short")
}

fn teardown_leaves_nothing_and_is_fast() {
    let interfaces = || std::fs::read_to_string("/proc/net/dev").expect("this is Linux");
    let files = || {
        std::fs::read_dir("/proc/self/fd")
            .expect("this is Linux")
            .count()
    };
    // The first link of a process opens what it keeps for all.
    drop(start(Options::default()));
    let before = (interfaces().lines().count(), files());
    // 55 ms on an idle machine.
    comes_out_in(0..400, || {
        let start_of_round = Instant::now();
        drop(start(Options::default()));
        millis(start_of_round.elapsed())
    });
    assert_eq!((interfaces().lines().count(), files()), before);
}

fn teardown_does_not_wait_for_programs_that_still_run() {
    let measure = || {
        let link = start_with(Config::default(), Config::default());
        let mut idle = at_client(&link, "idle");
        let before = Instant::now();
        drop(link);
        let took = before.elapsed();
        let status = idle.child.try_wait().expect("it was not waited for");
        assert!(status.is_none());
        millis(took)
    };
    comes_out_in(0..500, measure);
}

fn programs_die_with_the_thread_that_started_them() {
    let link = start_with(Config::default(), Config::default());
    let thread = std::thread::scope(|scope| scope.spawn(|| at_client(&link, "idle")).join());
    let mut idle = thread.expect("it starts");
    let status = idle.child.wait().expect("it was not waited for");
    assert_eq!(status.signal(), Some(9));
}

fn programs_have_the_priority_that_was_asked_for() {
    let link = start(Options {
        nice: 11,
        ..Options::default()
    });
    // Without arguments it prints its own.
    for mut command in [link.client_command("nice"), link.server_command("nice")] {
        let output = command.output().expect("coreutils are there");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "11");
    }
}

fn two_links_at_once_do_not_meet() {
    let slow = start_with(delayed(15), delayed(15));
    let fast = start_with(Config::default(), Config::default());
    assert!(ping(&slow, 5) >= 30_000);
    comes_out_in(0..15_000, || ping(&fast, 5));
}

fn the_host_is_reachable_as_the_far_end() {
    let link = start(Options {
        up: delayed(10),
        down: delayed(10),
        far_end: FarEnd::Host,
        ..Options::default()
    });
    let IpAddr::V4(address) = link.server_address() else {
        panic!("not IPv4: {}", link.server_address());
    };
    assert!([18, 19].contains(&address.octets()[1]), "{address}");
    comes_out_in(20_000..30_000, || ping(&link, 10));
    assert!(host_has_a_link());
    drop(link);
    assert!(!host_has_a_link());
}

fn a_killed_process_leaves_nothing_behind() {
    let backend = BACKEND
        .lock()
        .expect("nobody panics with it")
        .unwrap_or(Backend::Tun);
    let hold = format!("hold {backend}");
    let mut holder = spawn(std::process::Command::new(this_binary()), &hold);
    let program = format!("/proc/{}", holder.line());
    assert!(host_has_a_link() && std::path::Path::new(&program).exists());
    drop(holder);
    wait_for("the kernel to clean up", || {
        !host_has_a_link() && !std::path::Path::new(&program).exists()
    });
}

fn two_links_to_the_host_have_different_addresses() {
    let options = Options {
        far_end: FarEnd::Host,
        ..Options::default()
    };
    let (one, other) = (start(options.clone()), start(options));
    assert_ne!(one.server_address(), other.server_address());
    ping(&one, 3);
    ping(&other, 3);
    assert_eq!(report(&one).up.packets_in, 3);
    assert_eq!(report(&other).up.packets_in, 3);
}
