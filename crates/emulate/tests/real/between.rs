//! Links between interfaces that were given: this binary as the router or the wire between two others.

use crate::cases::{Case, Running, comes_out_in, spawn, wait_for};
use crate::programs::{VARIABLE, this_binary};
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, PcapBlockOwned, PcapError, PcapNGReader};
use std::cell::Cell;
use std::process::{Command, Stdio};
use tempfile::TempDir;

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        &[$(Case { name: stringify!($name), needs_root: true, run: $name }),*]
    };
}

/// Cases over packet sockets; netem's is run where there is netem.
pub(crate) const CASES: &[Case] = cases![
    a_wire_between_two_interfaces_delays_and_counts_packets_but_not_arp,
    sides_are_found_by_their_addresses_and_attached_ends_send_packets_of_the_wire,
    an_interface_is_put_back_to_what_it_was,
    an_interface_takes_one_link_only,
    an_interface_that_cannot_be_used_is_named,
    a_link_ends_with_its_interface,
    the_packet_log_has_what_passed_at_both_interfaces_and_nothing_else,
    what_a_killed_link_changed_is_put_back,
    an_interface_is_not_put_back_while_another_link_has_it,
];

/// Returns an error if a tool that the cases need is missing.
pub(crate) fn tools() -> Result<(), String> {
    for (tool, question) in [("ip", "-V"), ("nsenter", "-V"), ("unshare", "-V")] {
        let mut command = Command::new(tool);
        let answer = command.arg(question).stdout(Stdio::null()).status();
        answer.map_err(|error| format!("{tool}: {error}"))?;
    }
    Ok(())
}

/// Three namespaces in a row. Each is held by a process, and gone with it.
struct Row {
    client: Running,
    router: Running,
    server: Running,
    /// Folder in which links write down what they change, so that nobody else puts it back.
    folder: TempDir,
}

impl Row {
    /// The router's interfaces are called `eth0` and `eth1`, those of the ends `end`.
    fn new() -> Self {
        let row = Self {
            client: namespace(),
            router: namespace(),
            server: namespace(),
            folder: tempfile::tempdir().expect("a folder"),
        };
        for (name, end) in [("eth0", &row.client), ("eth1", &row.server)] {
            let line = format!("link add {name} type veth peer name end netns {}", end.id());
            ip(&row.router, &line);
            ip(&row.router, &format!("link set {name} up"));
        }
        row
    }

    /// Puts both ends on one Ethernet.
    fn on_one_wire() -> Self {
        let row = Self::new();
        for (end, address) in [(&row.client, "10.9.0.1"), (&row.server, "10.9.0.2")] {
            ip(end, &format!("addr add {address}/24 dev end"));
            ip(end, "link set end up");
        }
        row
    }

    /// The ends in two networks, with the router in both.
    fn across_a_router() -> Self {
        let row = Self::new();
        for (end, name, network) in [(&row.client, "eth0", 1), (&row.server, "eth1", 0)] {
            ip(
                &row.router,
                &format!("addr add 10.9.{network}.9/24 dev {name}"),
            );
            ip(end, &format!("addr add 10.9.{network}.2/24 dev end"));
            ip(end, "link set end up");
            ip(end, &format!("route add default via 10.9.{network}.9"));
        }
        let forward = ["sysctl", "-qw", "net.ipv4.ip_forward=1"];
        let status = within(&row.router, forward[0]).args(&forward[1..]).status();
        assert!(status.expect("sysctl is there").success());
        row
    }

    /// Starts a link in the router; returns it with the first line that it says.
    fn link(&self, backend: &str, millis: u64) -> (Running, String) {
        self.link_of(backend, millis, "eth0 eth1")
    }

    fn link_of(&self, backend: &str, millis: u64, interfaces: &str) -> (Running, String) {
        self.run(&format!("between {backend} {millis} {interfaces}"))
    }

    /// Returns what `clean` puts back in the router.
    fn clean(&self) -> String {
        self.run("clean").1
    }

    /// Starts a program in the router; returns it with the first line that it says.
    fn run(&self, line: &str) -> (Running, String) {
        let mut command = within(&self.router, this_binary());
        command.env("TMPDIR", self.folder.path());
        let mut program = spawn(command, line);
        let said = program.line();
        (program, said)
    }

    /// The least round trip in µs.
    fn ping(&self, count: u64) -> u64 {
        let mut server = spawn(within(&self.server, this_binary()), "echo");
        assert_eq!(server.line(), "ready");
        let mut client = within(&self.client, this_binary());
        client.env("ALTWAY_SERVER", "10.9.0.2");
        spawn(client, &format!("ping {count}")).words()[0]
    }

    fn says_of_eth0(&self, program: &str, arguments: &[&str]) -> String {
        let output = within(&self.router, program).args(arguments).output();
        let output = output.expect("it is installed");
        String::from_utf8(output.stdout).expect("text")
    }
}

fn namespace() -> Running {
    let mut command = Command::new("unshare");
    command.arg("--net").arg(this_binary());
    let holder = spawn(command, "idle");
    let own = std::fs::read_link("/proc/self/ns/net").expect("this is Linux");
    let theirs = format!("/proc/{}/ns/net", holder.id());
    wait_for("the namespace", || {
        std::fs::read_link(&theirs).is_ok_and(|theirs| theirs != own)
    });
    holder
}

fn within(namespace: &Running, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{}/ns/net", namespace.id()));
    command.arg("--").arg(program).env_remove(VARIABLE);
    command
}

fn ip(namespace: &Running, line: &str) {
    let status = within(namespace, "ip").args(line.split(' ')).status();
    assert!(status.expect("ip is there").success(), "ip {line}");
}

fn a_wire_between_two_interfaces_delays_and_counts_packets_but_not_arp() {
    let row = Row::on_one_wire();
    let (link, said) = row.link("packet", 20);
    assert_eq!(said, "ready");
    let tries = Cell::new(0);
    comes_out_in(40_000..60_000, || {
        tries.set(tries.get() + 5);
        row.ping(5)
    });
    // Packets up and down, and hidden drops: what asked for addresses was neither counted nor lost.
    assert_eq!(link.words(), [tries.get(), tries.get(), 0]);
}

fn sides_are_found_by_their_addresses_and_attached_ends_send_packets_of_the_wire() {
    let row = Row::new();
    for (name, network) in [("eth0", 1), ("eth1", 2)] {
        let line = format!("addr add 10.8.{network}.9/24 dev {name}");
        ip(&row.router, &line);
    }
    for (end, address) in [(&row.client, "10.9.0.1/24"), (&row.server, "10.9.0.2/24")] {
        ip(end, "link set end up");
        let attach = |line: &str| spawn(within(end, this_binary()), line).line();
        assert_eq!(attach(&format!("attach end {address}")), "end");
    }
    let (link, said) = row.link_of("packet", 1, "10.8.1.0/24 10.8.2.0/24");
    assert_eq!(said, "ready");
    let mut server = spawn(within(&row.server, this_binary()), "tcp-server 2000000");
    assert_eq!(server.line(), "ready");
    let mut client = within(&row.client, this_binary());
    client.env("ALTWAY_SERVER", "10.9.0.2");
    assert_eq!(spawn(client, "tcp-client").words()[0], 2_000_000);
    // Segments larger than a packet of the wire would have been hidden drops.
    let words = link.words();
    assert!(words[1] > 1_300 && words[2] == 0, "{words:?}");
}

fn an_interface_is_put_back_to_what_it_was() {
    let row = Row::on_one_wire();
    let features = || row.says_of_eth0("ip", &["-d", "link", "show", "eth0"]);
    let before = features();
    let (link, said) = row.link("packet", 1);
    assert_eq!(said, "ready");
    assert_ne!(features(), before, "it listens to all");
    link.words();
    wait_for("the interface to be as it was", || features() == before);
}

fn an_interface_takes_one_link_only() {
    let row = Row::on_one_wire();
    let (_first, said) = row.link("packet", 1);
    assert_eq!(said, "ready");
    let (_second, said) = row.link("packet", 1);
    assert_eq!(said, "interface `eth0` is in use by another link of altway");
}

fn an_interface_that_cannot_be_used_is_named() {
    let row = Row::on_one_wire();
    let refusal = |interfaces| row.link_of("packet", 1, interfaces).1;
    assert_eq!(refusal("eth0 eth7"), "there is no interface `eth7`");
    assert_eq!(
        refusal("eth0 eth0"),
        "interface `eth0` can't be both sides of a link"
    );
    assert_eq!(
        refusal("eth0 10.7.0.0/16"),
        "no interface here has an address in 10.7.0.0/16"
    );
    assert_eq!(
        refusal("lo eth0"),
        "interface `lo` is no Ethernet interface"
    );
    ip(&row.router, "link set eth1 down");
    assert_eq!(refusal("eth0 eth1"), "interface `eth1` is not up");
}

fn a_link_ends_with_its_interface() {
    let row = Row::on_one_wire();
    let (mut link, said) = row.link("packet", 1);
    assert_eq!(said, "ready");
    ip(&row.router, "link del eth1");
    assert_eq!(
        link.line(),
        "the link no longer runs: one of its interfaces went away"
    );
}

fn the_packet_log_has_what_passed_at_both_interfaces_and_nothing_else() {
    let row = Row::on_one_wire();
    let path = row.folder.path().join("log.pcapng");
    let (link, said) = row.link_of("packet", 1, &format!("eth0 eth1 {}", path.display()));
    assert_eq!(said, "ready");
    row.ping(5);
    // Each packet at both interfaces, either way; what asked for addresses is not among them.
    assert_eq!(link.words(), [5, 5, 0, 20]);
    let log = std::fs::read(&path).expect("the log");
    let interfaces = packets_of(&log);
    let at = |interface| interfaces.iter().filter(|seen| **seen == interface).count();
    assert_eq!((at(0), at(1)), (10, 10));
}

/// The interface at which each packet of a log was seen. All are IP packets, without what Ethernet puts
/// in front of them.
fn packets_of(log: &[u8]) -> Vec<u32> {
    let mut reader = PcapNGReader::new(1 << 20, log).expect("a log");
    let mut interfaces = Vec::new();
    loop {
        match reader.next() {
            Ok((length, block)) => {
                if let PcapBlockOwned::NG(Block::EnhancedPacket(packet)) = &block {
                    assert_eq!(packet.packet_data()[0], 0x45, "the header of IPv4");
                    interfaces.push(packet.if_id);
                }
                reader.consume(length);
            }
            Err(PcapError::Eof) => return interfaces,
            Err(PcapError::Incomplete(_)) => reader.refill().expect("it is in memory"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn what_a_killed_link_changed_is_put_back() {
    let row = Row::on_one_wire();
    // The second time shows that they were on again: what is off is not switched off.
    for time in 1..=2 {
        let (link, said) = row.link("packet", 1);
        assert_eq!((said.as_str(), row.clean().as_str()), ("ready", ""));
        drop(link);
        assert_eq!(row.clean(), "eth0 eth1", "time {time}");
        assert_eq!(row.clean(), "", "time {time}");
    }
    // A link that ended by itself has put everything back.
    let (link, _) = row.link("packet", 1);
    link.words();
    assert_eq!(row.clean(), "");
}

fn an_interface_is_not_put_back_while_another_link_has_it() {
    let row = Row::on_one_wire();
    drop(row.link("packet", 1));
    let (second, said) = row.link("packet", 1);
    assert_eq!((said.as_str(), row.clean().as_str()), ("ready", ""));
    second.words();
    assert_eq!(row.clean(), "eth0 eth1");
}

pub(crate) fn what_a_killed_link_in_the_kernel_left_is_put_back() {
    let row = Row::across_a_router();
    let shown = || row.says_of_eth0("tc", &["qdisc", "show"]);
    let before = shown();
    let (link, said) = row.link("netem", 20);
    assert_eq!((said.as_str(), row.clean().as_str()), ("ready", ""));
    drop(link);
    assert!(shown().contains("netem"), "{}", shown());
    assert_eq!(row.clean(), "eth0 eth1");
    assert_eq!(shown(), before);
}

pub(crate) fn a_router_shapes_what_it_forwards_and_leaves_nothing_behind() {
    let row = Row::across_a_router();
    let shown = || row.says_of_eth0("tc", &["qdisc", "show"]);
    let before = shown();
    let (link, said) = row.link("netem", 20);
    assert_eq!(said, "ready");
    comes_out_in(40_000..70_000, || row.ping(5));
    let words = link.words();
    assert!(words[0] >= 5 && words[1] >= 5, "{words:?}");
    assert_eq!((shown(), words[2]), (before, 0));
    // Somebody else's is not touched.
    let other = [
        "qdisc", "add", "dev", "eth1", "root", "netem", "delay", "1ms",
    ];
    row.says_of_eth0("tc", &other);
    let (_link, said) = row.link("netem", 20);
    assert_eq!(said, "interface `eth1` is in use by a queueing discipline");
    assert!(shown().contains("delay 1ms"));
}
