//! The tests of what stands between the client and the server: one topology each, or all.

use crate::cases::{
    BACKEND, Case, Running, TRIES, at_client, at_server, cases, delayed, flood, limited, lossy,
    ping, report, spawn, start, wait_for,
};
use crate::programs::{PORT, this_binary};
use altway_emulate::control::Target;
use altway_emulate::{
    Backend, Emulation, Error, FarEnd, Invalid, IpVersion, LinkReport, Options, RouterReport,
    StaleResource, Topology, clean,
};
use altway_link::{Config, Discipline, Queue};
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) const ALL: &[Case] = cases! {
    anyone: [
        a_round_trip_takes_the_delay_of_both_directions_in_every_topology,
        a_router_is_a_hop_that_packets_can_count,
        the_server_sees_the_client_or_the_proxy,
        the_hand_shake_of_tcp_ends_at_the_proxy,
        bytes_of_tcp_arrive_through_every_topology,
        both_hops_count_the_same_wire_packets,
        the_router_forgets_the_past_at_a_restart,
        datagrams_that_a_proxy_had_no_room_for_are_hidden_drops,
        nothing_but_the_programs_packets_enters_a_link_of_ipv6,
        addresses_of_ipv6_stand_in_brackets_in_urls,
        the_mtu_holds_on_both_hops,
        a_tiny_mtu_for_ipv6_is_an_error,
        the_same_seed_loses_the_same_packets_behind_a_router,
        ends_that_shape_what_they_send_keep_the_rate_and_count_what_their_queue_drops,
        ends_that_shape_what_they_send_are_shaped_anew_and_refuse_what_they_cannot_do,
        setting_up_and_tearing_down_is_fast_and_leaves_nothing,
    ],
    root: [
        the_host_is_reachable_through_every_topology,
        what_outlives_a_killed_process_is_cleaned_away,
    ]
};

/// Ends that shape what they send need an Ethernet interface.
pub(crate) fn topologies() -> impl Iterator<Item = Topology> {
    let is_tun = *BACKEND.lock().expect("nobody panics with it") == Some(Backend::Tun);
    let here = move |topology: &Topology| !topology.shapes_at_the_ends() || !is_tun;
    Topology::ALL.into_iter().filter(here)
}

fn every_topology() -> impl Iterator<Item = (Topology, IpVersion)> {
    topologies().flat_map(|topology| [IpVersion::V4, IpVersion::V6].map(|ip| (topology, ip)))
}

fn options(topology: Topology, ip: IpVersion, way: impl Fn() -> Config) -> Options {
    Options {
        up: way(),
        down: way(),
        topology,
        ip,
        proxy_ports: vec![PORT],
        ..Options::default()
    }
}

fn start_in(topology: Topology, way: impl Fn() -> Config) -> Emulation {
    start(options(topology, IpVersion::V4, way))
}

fn router_report(link: &Emulation) -> RouterReport {
    report(link).router.expect("there is a router")
}

/// The words that a program at the client's end prints, with a server of that name at the other.
fn with_server(link: &Emulation, server: &str, client: &str) -> Vec<u64> {
    let _server = at_server(link, server);
    at_client(link, client).words()
}

fn a_round_trip_takes_the_delay_of_both_directions_in_every_topology() {
    for (topology, ip) in every_topology() {
        let link = start(options(topology, ip, || delayed(15)));
        let measure = || {
            let least = ping(&link, 10);
            let right = (30_000..36_000).contains(&least);
            if !right {
                eprintln!("{topology} {ip}: {least} µs");
            }
            right
        };
        // Other programs may make the ends wait.
        assert!((0..TRIES).any(|_| measure()), "{topology} {ip}");
        assert_eq!(report(&link).hidden_drops, 0, "{topology} {ip}");
        assert!(link.unset().is_empty(), "{:?}", link.unset());
    }
}

fn a_router_is_a_hop_that_packets_can_count() {
    for (topology, ip) in every_topology() {
        let link = start(options(topology, ip, Config::default));
        let hops = with_server(&link, "echo", "hops")[0];
        let expected = if topology == Topology::Router { 2 } else { 1 };
        assert_eq!(hops, expected, "{topology} {ip}");
    }
}

fn the_server_sees_the_client_or_the_proxy() {
    for (topology, ip) in every_topology() {
        let link = start(options(topology, ip, Config::default));
        let mut server = at_server(&link, "tcp-peer");
        at_client(&link, "tcp-client").words();
        let peer: IpAddr = server.line().parse().expect("an address");
        let is_client = peer == link.client_address();
        assert_eq!(
            is_client,
            topology != Topology::Proxied,
            "{topology} {ip}: {peer}"
        );
        // And so it was told.
        let told = spawn(link.server_command(this_binary()), "variable ALTWAY_CLIENT").line();
        assert_eq!(told, peer.to_string(), "{topology} {ip}");
    }
}

fn the_hand_shake_of_tcp_ends_at_the_proxy() {
    for topology in topologies() {
        let link = start_in(topology, || delayed(25));
        let measure = || {
            let words = with_server(&link, "tcp-server 1", "tcp-steps");
            let (connected, first_byte) = (words[0], words[1]);
            // The proxy's own hand-shake comes before the byte, as the client's did elsewhere.
            let connected_right = match topology {
                Topology::Proxied => connected < 25_000,
                _ => (50_000..75_000).contains(&connected),
            };
            let right = connected_right && (100_000..125_000).contains(&first_byte);
            if !right {
                eprintln!("{topology}: connected after {connected} µs, a byte after {first_byte}");
            }
            right
        };
        // Other programs may make the ends wait.
        assert!((0..TRIES).any(|_| measure()), "{topology}");
    }
}

fn bytes_of_tcp_arrive_through_every_topology() {
    for (topology, ip) in every_topology() {
        let link = start(options(topology, ip, || limited(100)));
        let words = with_server(&link, "tcp-server 1000000", "tcp-client");
        assert_eq!(words[0], 1_000_000, "{topology} {ip}");
        let proxy = report(&link).router.and_then(|router| router.proxy);
        assert_eq!(proxy.is_some(), topology == Topology::Proxied);
        if let Some(proxy) = proxy {
            assert_eq!(
                (proxy.tcp_connections, proxy.tcp_bytes_down),
                (1, 1_000_000)
            );
        }
    }
}

pub(crate) fn both_hops_count_the_same_wire_packets() {
    let link = start_in(Topology::Router, Config::default);
    // Large writes, which offloads would carry as one over the cable.
    let words = with_server(&link, "tcp-server 2000000", "tcp-client");
    assert_eq!(words[0], 2_000_000);
    // The last acknowledgements may still be on their way.
    wait_for("the hops to agree", || {
        let (report, router) = (report(&link), router_report(&link));
        [(router.up, report.up), (router.down, report.down)]
            .into_iter()
            .all(|(cable, link)| {
                let counts = |way: altway_emulate::DirectionReport| (way.packets_in, way.bytes_in);
                counts(cable) == counts(link) && cable.packets_in == cable.packets_out
            })
    });
    let (report, router) = (report(&link), router_report(&link));
    assert!(router.down.packets_in >= 2_000_000 / 1_448, "{router:?}");
    assert_eq!((report.hidden_drops, router.proxy), (0, None));
}

fn the_router_forgets_the_past_at_a_restart() {
    let link = start_in(Topology::Proxied, Config::default);
    ping(&link, 3);
    // A proxy counts a datagram after it has sent it on.
    wait_for("the proxy to count the last answer", || {
        let proxy = router_report(&link).proxy.expect("there are proxies");
        (proxy.udp_datagrams_up, proxy.udp_datagrams_down) == (3, 3)
    });
    link.restart(Config::default(), Config::default(), 1)
        .expect("the link runs");
    let forgotten = router_report(&link);
    assert_eq!(
        forgotten.proxy,
        Some(altway_emulate::proxy::ProxyReport::default())
    );
    assert_eq!(
        (forgotten.up.packets_in, forgotten.down.packets_out),
        (0, 0)
    );
}

fn datagrams_that_a_proxy_had_no_room_for_are_hidden_drops() {
    const SENT: u64 = 60_000;
    // No link is in its way, so the flood comes faster than one thread can pass it on.
    let link = start_in(Topology::Proxied, Config::default);
    let _server = at_server(&link, "sink");
    at_client(&link, &format!("flood {SENT} 0")).words();
    // Nothing is lost without being counted, however long the last of them take.
    let accounted = |report: &LinkReport| report.up.packets_out + report.hidden_drops;
    wait_for("every datagram to pass or to be counted", || {
        accounted(&report(&link)) >= SENT
    });
    let report = report(&link);
    assert_eq!(router_report(&link).up.packets_in, SENT);
    assert_eq!(accounted(&report), SENT, "{report:?}");
    match report.validity() {
        Err(Invalid::HiddenDrops { packets }) => assert_eq!(packets, report.hidden_drops),
        // Late it may be, if the machine is busy.
        Ok(()) | Err(Invalid::Late { .. }) => assert_eq!(report.hidden_drops, 0),
        Err(other) => panic!("{other}"),
    }
}

pub(crate) fn nothing_but_the_programs_packets_enters_a_link_of_ipv6() {
    for topology in topologies() {
        let link = start(options(topology, IpVersion::V6, Config::default));
        // The kernel's first router solicitation would come within a second (RFC 4861 §6.3.7), its
        // reports of multicast groups too (RFC 3810 §9.11).
        std::thread::sleep(Duration::from_millis(1_500));
        let report = report(&link);
        let router = report.router.unwrap_or_default();
        let packets = [report.up, report.down, router.up, router.down].map(|way| way.packets_in);
        assert_eq!(packets, [0; 4], "{topology}");
        assert!(link.unset().is_empty(), "{:?}", link.unset());
    }
}

fn addresses_of_ipv6_stand_in_brackets_in_urls() {
    for (topology, ip) in every_topology() {
        let link = start(options(topology, ip, Config::default));
        let variable = |name: &str| at_client(&link, &format!("variable {name}")).line();
        let address = link.server_address().to_string();
        assert_eq!(variable("ALTWAY_SERVER"), address);
        let expected = match ip {
            IpVersion::V4 => address,
            IpVersion::V6 => format!("[{address}]"),
        };
        assert_eq!(variable("ALTWAY_HOST"), expected);
        assert_eq!(variable("ALTWAY_CLIENT"), link.client_address().to_string());
        assert_eq!(IpVersion::of(link.server_address()), ip);
    }
}

fn the_mtu_holds_on_both_hops() {
    let link = start(Options {
        mtu: 1_300,
        ..options(Topology::Router, IpVersion::V6, Config::default)
    });
    let (_, arrived) = flood(&link, 10, 0);
    assert_eq!(arrived.len(), 10);
    let (router, report) = (router_report(&link), report(&link));
    // Each datagram in two fragments, which the client makes: routers of IPv6 don't (RFC 8200 §4.5).
    assert_eq!((router.up.packets_in, report.up.packets_in), (20, 20));
}

fn a_tiny_mtu_for_ipv6_is_an_error() {
    let mtu = |mtu, ip| {
        Emulation::start(Options {
            mtu,
            ip,
            ..Options::default()
        })
    };
    let error = mtu(1_279, IpVersion::V6).expect_err("it is too small");
    assert!(matches!(
        error,
        Error::Mtu {
            mtu: 1_279,
            least: 1_280,
            ..
        }
    ));
    assert!(
        error.to_string().ends_with("IPv6 needs at least 1280"),
        "{error}"
    );
    assert!(mtu(1_280, IpVersion::V6).is_ok());
}

fn the_same_seed_loses_the_same_packets_behind_a_router() {
    let arrived = |topology| {
        let link = start(Options {
            seed: 7,
            ..options(topology, IpVersion::V4, || lossy(5))
        });
        flood(&link, 500, 5_000).1
    };
    let direct = arrived(Topology::Direct);
    assert!(direct.len() < 500);
    assert_eq!(direct, arrived(Topology::Router));
    assert_eq!(direct, arrived(Topology::Proxied));
}

/// 5 Mbit/s with a queue of 20 packets at the ends' interfaces, and 15 ms on the link.
fn shaped_at_the_ends() -> Options {
    let way = || Config {
        delay: Duration::from_millis(15),
        queue: Queue::Packets(20),
        ..limited(5)
    };
    Options {
        backend: None,
        ..options(Topology::Egress, IpVersion::V4, way)
    }
}

fn start_at_the_ends() -> Option<Emulation> {
    match Emulation::start(shaped_at_the_ends()) {
        Ok(link) => Some(link),
        Err(error @ (Error::NoTc { .. } | Error::NoHtb | Error::NoBackend { .. })) => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn ends_that_shape_what_they_send_keep_the_rate_and_count_what_their_queue_drops() {
    let Some(link) = start_at_the_ends() else {
        return;
    };
    assert_ne!(link.backend(), Backend::Tun);
    // 1,514 bytes of Ethernet each: 2.42 ms, less a burst of 1,600 bytes that HTB lets pass at once.
    let measure = || {
        link.restart(shaped_at_the_ends().up, shaped_at_the_ends().down, 1)
            .expect("the link runs");
        // A socket holds some 90 such datagrams, so that the queue of the interface is what is full.
        let (nanos, arrived) = flood(&link, 200, 0);
        let up = report(&link).up;
        let count = arrived.len() as u64;
        assert_eq!(up.packets_queue_dropped + count, 200, "{up:?}");
        assert_eq!((up.packets_in, up.packets_out), (200, count), "{up:?}");
        assert!(count >= 20, "{count} arrived");
        let each = nanos / (count - 1);
        eprintln!("{count} packets, one every {each} ns");
        // A sender that was made to wait found room again and again.
        count < 150 && (2_200_000..2_700_000).contains(&each)
    };
    // Other programs may make the ends wait.
    assert!((0..2 * TRIES).any(|_| measure()));
    assert_eq!(report(&link).hidden_drops, 0);
    assert!(ping(&link, 5) >= 30_000);
}

fn ends_that_shape_what_they_send_are_shaped_anew_and_refuse_what_they_cannot_do() {
    let Some(link) = start_at_the_ends() else {
        return;
    };
    link.restart(delayed(5), delayed(5), 2).expect("it runs");
    // Of so many the queue would have dropped most.
    let (_, arrived) = flood(&link, 200, 0);
    assert_eq!(arrived.len(), 200, "there is no rate any more");
    let codel = Config {
        discipline: Discipline::CoDel,
        ..limited(5)
    };
    let refused = [
        link.restart(codel, Config::default(), 3),
        link.change(&"rate 1mbit".parse().expect("a change")),
        link.reset(),
    ];
    for refused in refused {
        assert!(
            matches!(refused, Err(Error::BeyondEgress { .. })),
            "{refused:?}"
        );
    }
    // It is as it was.
    assert_eq!(flood(&link, 20, 0).1.len(), 20);
    let by_tun = Emulation::start(Options {
        backend: Some(Backend::Tun),
        ..shaped_at_the_ends()
    });
    assert!(matches!(by_tun, Err(Error::BeyondBackend { .. })));
}

fn setting_up_and_tearing_down_is_fast_and_leaves_nothing() {
    let count = |folder: &str| std::fs::read_dir(folder).expect("this is Linux").count();
    let traces = || ["/sys/class/net", "/proc/self/fd", "/proc/self/task"].map(count);
    drop(start(Options::default()));
    // The kernel lists a thread a moment longer than it takes to join it.
    let looks = (0..20).map(|_| {
        std::thread::sleep(Duration::from_millis(5));
        traces()
    });
    let before = looks.min().expect("it looked");
    // Of what others had in the beginning, some may be gone.
    let left = || [0, 1, 2].map(|kind| traces()[kind].saturating_sub(before[kind]));
    for (topology, ip) in every_topology() {
        // The bar is 150 ms. Where others use the processors too, that says nothing.
        let right = Duration::from_millis(600);
        let mut rounds: Vec<(Duration, Duration)> = Vec::new();
        while rounds.len() < 5 || (rounds[0].0 >= right && rounds.len() < 4 * TRIES) {
            let begin = Instant::now();
            let link = start(options(topology, ip, Config::default));
            let up = begin.elapsed();
            drop(link);
            rounds.push((begin.elapsed(), up));
            rounds.sort_unstable();
        }
        let (least, up) = rounds[0];
        let median = rounds[rounds.len() / 2].0;
        eprintln!("{topology} {ip}: up in {up:?}, up and down in {least:?}, median {median:?}");
        assert!(least < right, "{topology} {ip}: {rounds:?}");
        let emptiness = format!("{topology} {ip} to leave nothing behind: {:?}", left());
        wait_for(&emptiness, || left() == [0; 3]);
    }
}

fn the_host_is_reachable_through_every_topology() {
    for (topology, ip) in every_topology() {
        let link = start(Options {
            far_end: FarEnd::Host,
            ..options(topology, ip, || delayed(10))
        });
        let is_right = || (20_000..30_000).contains(&ping(&link, 10));
        assert!((0..TRIES).any(|_| is_right()), "{topology} {ip}");
    }
    let routes = ["/proc/net/route", "/proc/net/ipv6_route"]
        .map(|file| std::fs::read_to_string(file).unwrap_or_default());
    assert!(!routes.concat().contains("altway"), "{routes:?}");
}

fn what_outlives_a_killed_process_is_cleaned_away() {
    let mut holder: Running = spawn(Command::new(this_binary()), "hold-with-child");
    let words: Vec<String> = holder.line().split(' ').map(str::to_owned).collect();
    let (pid, folder) = (words[0].parse().expect("a number"), Path::new(&words[1]));
    let process = format!("/proc/{pid}");
    let remnants = [
        StaleResource::Process {
            pid,
            command: "sleep 61".into(),
        },
        StaleResource::Folder {
            path: folder.into(),
        },
    ];
    // Others may have left something behind on this machine.
    let taken = || {
        let taken = clean().expect("there is /proc");
        remnants.each_ref().map(|remnant| taken.contains(remnant))
    };
    assert_eq!(taken(), [false, false], "its owner lives");
    assert!(Path::new(&process).exists() && folder.exists());

    drop(holder);
    // What a command at an end started is nobody's child any more, and keeps its namespace.
    assert!(Path::new(&process).exists() && folder.exists());
    assert_eq!(taken(), [true, true]);
    assert!(!folder.exists());
    wait_for("init to bury it", || !Path::new(&process).exists());
    assert_eq!(taken(), [false, false]);
}
