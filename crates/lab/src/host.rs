//! The machine that a run is measured on, read from /proc.

use crate::Error;
use altway_emulate::Emulation;
use altway_record::{Congestion, Host};
use std::collections::BTreeMap;
use std::fs;

/// Settings that change how fast either transport can be.
const SYSCTLS: [&str; 9] = [
    "net.core.default_qdisc",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_timestamps",
];

/// The congestion controls that the kernel has at the moment, separated by blanks.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Checks that the kernel has the congestion controls of a plan, for else a server would have its default
/// without a word. One that does not tell what it has is believed.
pub(crate) fn check_congestion(wanted: &[Congestion]) -> Result<(), Error> {
    let available = fs::read_to_string(AVAILABLE).unwrap_or_default();
    check_available(wanted, available.trim())
}

fn check_available(wanted: &[Congestion], available: &str) -> Result<(), Error> {
    let has = |name: &str| available.split_whitespace().any(|one| one == name);
    let mut names = wanted.iter().map(|congestion| congestion.tcp());
    match names.find(|name| !available.is_empty() && !has(name)) {
        Some(name) => Err(Error::NoCongestion {
            name,
            available: available.into(),
        }),
        None => Ok(()),
    }
}

/// Describes this machine, with the kernel settings that hold at the server's end of `network`;
/// what can't be read is `unknown`.
pub(crate) fn describe(network: &Emulation) -> Host {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let release = read("/proc/sys/kernel/osrelease");
    let parallelism = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Host {
        kernel: format!("Linux {}", known(release.trim())),
        cpu: known(&field(&read("/proc/cpuinfo"), "model name")),
        cpu_count: u32::try_from(parallelism).unwrap_or(u32::MAX),
        memory_bytes: memory_bytes(&read("/proc/meminfo")),
        sysctls: sysctls(read, &settings_at_the_server(network)),
        os: known_value(&os_name(&read("/etc/os-release"))),
        microcode: known_value(&field(&read("/proc/cpuinfo"), "microcode")),
        governor: known_value(&read(GOVERNOR)),
        clock_source: known_value(&read(CLOCK_SOURCE)),
        hypervisor: hypervisor(&read("/proc/cpuinfo"), read),
    }
}

/// File that names the governor, which chooses the frequency of the first processor.
const GOVERNOR: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";

/// File that names the kernel's clock source.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Files in which the firmware describes the machine; they name the hypervisor in a virtual one.
const DMI: [&str; 2] = [
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/dmi/id/product_name",
];

fn known_value(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// `PRETTY_NAME` of os-release, without its quotes.
fn os_name(release: &str) -> String {
    let mut lines = release.lines();
    let name = lines.find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or_default().trim_matches('"').to_owned()
}

/// The virtual machine's name; `none` where the processor says that there is none.
fn hypervisor(cpuinfo: &str, read: impl Fn(&str) -> String) -> Option<String> {
    let flags = field(cpuinfo, "flags");
    if flags.is_empty() {
        return None;
    }
    if !flags.split(' ').any(|flag| flag == "hypervisor") {
        return Some("none".into());
    }
    let names: Vec<String> = DMI
        .iter()
        .filter_map(|path| known_value(&read(path)))
        .collect();
    Some(match names.as_slice() {
        [] => "one without a name".into(),
        names => names.join(" "),
    })
}

/// A namespace has settings of its own, which only a process in it sees: `grep` prints each file's
/// name and content. Settings that the kernel keeps for the whole machine are missing there.
fn settings_at_the_server(network: &Emulation) -> String {
    let mut command = network.server_command("grep");
    let output = command.args(["-H", ""]).args(SYSCTLS.map(path_of)).output();
    output.map_or_else(
        |_| String::new(),
        |o| String::from_utf8_lossy(&o.stdout).into_owned(),
    )
}

fn sysctls(read: impl Fn(&str) -> String, at_the_server: &str) -> BTreeMap<String, String> {
    let value = |name: &str| {
        let path = path_of(name);
        let there = field(at_the_server, &path);
        let value = if there.is_empty() { read(&path) } else { there };
        known(value.trim()).replace('\t', " ")
    };
    SYSCTLS
        .into_iter()
        .map(|name| (name.to_owned(), value(name)))
        .collect()
}

fn path_of(sysctl: &str) -> String {
    format!("/proc/sys/{}", sysctl.replace('.', "/"))
}

fn known(text: &str) -> String {
    if text.is_empty() {
        "unknown".into()
    } else {
        text.into()
    }
}

/// The value of `name` in a `name : value` listing.
fn field(listing: &str, name: &str) -> String {
    let lines = listing.lines().filter_map(|line| line.split_once(':'));
    let mut values = lines
        .filter(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim());
    values.next().unwrap_or_default().into()
}

fn memory_bytes(meminfo: &str) -> u64 {
    let total = field(meminfo, "MemTotal");
    let kibibytes = total
        .split(' ')
        .next()
        .and_then(|number| number.parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_congestion_control_that_the_kernel_lacks_is_said() {
        let wanted = [Congestion::Cubic, Congestion::TcpBbrQuicCubic];
        let error = check_available(&wanted, "reno cubic").unwrap_err();
        assert_eq!(
            error.to_string(),
            "this kernel has no congestion control `bbr`: it has reno cubic"
        );
        assert!(check_available(&wanted, "reno bbr cubic").is_ok());
        assert!(check_available(&wanted, "").is_ok());
    }

    #[test]
    fn a_distribution_and_a_hypervisor_are_told_by_name() {
        let release = "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n";
        assert_eq!(os_name(release), "Debian GNU/Linux 13 (trixie)");
        assert_eq!(known_value(&os_name("")), None);
        let dmi = |path: &str| match path.ends_with("sys_vendor") {
            true => "QEMU\n".to_owned(),
            false => "Standard PC\n".to_owned(),
        };
        let within = hypervisor("flags\t: fpu hypervisor", dmi);
        assert_eq!(within.as_deref(), Some("QEMU Standard PC"));
        assert_eq!(hypervisor("flags : fpu", dmi).as_deref(), Some("none"));
        assert_eq!(hypervisor("", dmi), None);
        let nameless = hypervisor("flags : hypervisor", |_| String::new());
        assert_eq!(nameless.as_deref(), Some("one without a name"));
    }

    #[test]
    fn reads_the_fields_of_a_listing() {
        let listing = "processor\t: 0\nmodel name\t: A B\nmodel name\t: C\n";
        assert_eq!(field(listing, "model name"), "A B");
        assert_eq!(field(listing, "cache size"), "");
        assert_eq!(
            memory_bytes("MemFree: 1 kB\nMemTotal:       2048 kB\n"),
            2 << 20
        );
    }

    #[test]
    fn settings_of_the_namespace_win_over_those_of_the_machine() {
        let machine = |_: &str| "bbr\n".to_owned();
        let server = "/proc/sys/net/ipv4/tcp_congestion_control:cubic\n";
        let sysctls = sysctls(machine, server);
        assert_eq!(sysctls["net.ipv4.tcp_congestion_control"], "cubic");
        assert_eq!(sysctls["net.core.default_qdisc"], "bbr");
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        assert_eq!(
            sysctls(|_| String::new(), "")["net.core.rmem_max"],
            "unknown"
        );
    }
}
