//! The machine that a run is measured on, read from /proc.

use altway_record::Host;
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

/// Describes this machine; what can't be read is `unknown`.
#[must_use]
pub fn describe() -> Host {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let release = read("/proc/sys/kernel/osrelease");
    let parallelism = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Host {
        kernel: format!("Linux {}", known(release.trim())),
        cpu: known(&field(&read("/proc/cpuinfo"), "model name")),
        cpu_count: u32::try_from(parallelism).unwrap_or(u32::MAX),
        memory_bytes: memory_bytes(&read("/proc/meminfo")),
        sysctls: sysctls(read),
    }
}

fn sysctls(read: impl Fn(&str) -> String) -> BTreeMap<String, String> {
    let value = |name: &str| read(&format!("/proc/sys/{}", name.replace('.', "/")));
    let entry = |name: &str| {
        (
            name.to_owned(),
            known(value(name).trim()).replace('\t', " "),
        )
    };
    SYSCTLS.into_iter().map(entry).collect()
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
    fn what_cannot_be_read_is_unknown() {
        assert_eq!(sysctls(|_| String::new())["net.core.rmem_max"], "unknown");
    }
}
