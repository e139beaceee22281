//! The machine, as far as it decides what a figure means; nothing that names it.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;

/// Settings that change what a connection on this machine costs.
const SYSCTLS: [&str; 10] = [
    "kernel.randomize_va_space",
    "net.core.default_qdisc",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
];

/// The machine that a run was measured on.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Host {
    pub(crate) kernel: String,
    pub(crate) cpu: String,
    pub(crate) is_virtual: bool,
    pub(crate) memory_bytes: u64,
    pub(crate) sysctls: BTreeMap<&'static str, String>,
}

/// Reads /proc; what can't be read is `unknown`.
pub(crate) fn describe() -> Host {
    let cpuinfo = read("/proc/cpuinfo");
    let flags = field(&cpuinfo, "flags");
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let kibibytes = memory.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    let sysctl = |name: &'static str| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        (name, known(&read(&path)))
    };
    Host {
        kernel: format!("Linux {}", known(&read("/proc/sys/kernel/osrelease"))),
        cpu: known(&field(&cpuinfo, "model name")),
        is_virtual: flags.split(' ').any(|flag| flag == "hypervisor"),
        memory_bytes: kibibytes.unwrap_or(0) * 1024,
        sysctls: SYSCTLS.into_iter().map(sysctl).collect(),
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of `name` in a `name : value` listing.
fn field(listing: &str, name: &str) -> String {
    let mut lines = listing.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(key, _)| key.trim() == name);
    found.map_or(String::new(), |(_, value)| value.trim().into())
}

fn known(text: &str) -> String {
    match text.trim().replace('\t', " ") {
        text if text.is_empty() => "unknown".into(),
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_field_counts() {
        let listing = "model name\t: A\nflags\t: x hypervisor\nmodel name\t: B\n";
        assert_eq!(field(listing, "model name"), "A");
        assert_eq!(field(listing, "nothing"), "");
        assert_eq!(known("4096\t16384\n"), "4096 16384");
        assert_eq!(known("\n"), "unknown");
    }
}
