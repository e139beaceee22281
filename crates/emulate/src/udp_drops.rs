//! Datagrams that the kernel dropped for want of room in a socket's buffer, in the network namespace
//! of the calling thread.

use std::fs;

/// All of IPv4 and IPv6 since the namespace was made; 0 where the kernel doesn't say.
pub(crate) fn count() -> u64 {
    let read =
        |name| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    in_table(&read("snmp")) + in_list(&read("snmp6"))
}

/// A table has a line of names and a line of numbers for each protocol.
fn in_table(text: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, numbers) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let mut columns = names.split(' ').zip(numbers.split(' '));
    let found = columns.find(|(name, _)| *name == "RcvbufErrors");
    found
        .and_then(|(_, number)| number.parse().ok())
        .unwrap_or(0)
}

/// A list has a name and a number on each line.
fn in_list(text: &str) -> u64 {
    let mut values = text
        .lines()
        .filter_map(|line| line.strip_prefix("Udp6RcvbufErrors"));
    values
        .next()
        .and_then(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_column_and_the_line() {
        let table = "Tcp: InSegs\nTcp: 9\nUdp: InDatagrams NoPorts RcvbufErrors SndbufErrors\n\
                     Udp: 3 1 17 2\nUdpLite: RcvbufErrors\nUdpLite: 5\n";
        assert_eq!(in_table(table), 17);
        let list = "Udp6InErrors                    \t1\nUdp6RcvbufErrors                \t4\n";
        assert_eq!(in_list(list), 4);
    }

    #[test]
    fn what_the_kernel_does_not_say_is_none() {
        assert_eq!((in_table(""), in_list("")), (0, 0));
        assert_eq!(in_table("Udp: InDatagrams\nUdp: 1\n"), 0);
    }

    #[test]
    fn this_kernel_is_understood() {
        let table = fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
        assert!(table.contains(" RcvbufErrors "), "{table}");
    }
}
