//! Reads the kernel's figures of this process and of its UDP sockets.

use std::fs;

/// The kernel's figures of a process; `None` where it gives none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Process {
    /// Memory in use, in bytes.
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) open_files: Option<u64>,
    /// The most open files that the process may have; `None` also where there is no limit.
    pub(crate) max_open_files: Option<u64>,
    /// Processor time so far, in milliseconds.
    pub(crate) cpu_ms: Option<u64>,
}

impl Process {
    pub(crate) fn read() -> Self {
        let pages = fs::read_to_string("/proc/self/statm").ok();
        let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
        let page = rustix::param::page_size() as u64;
        Self {
            resident_bytes: pages.map(|pages| pages * page),
            // The folder itself is open while it is read.
            open_files: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|files| (files.count() as u64).saturating_sub(1)),
            max_open_files: fs::read_to_string("/proc/self/limits")
                .ok()
                .and_then(|text| max_open_files(&text)),
            cpu_ms: fs::read_to_string("/proc/self/stat")
                .ok()
                .and_then(|text| cpu_ms(&text, rustix::param::clock_ticks_per_second())),
        }
    }
}

/// The soft limit by the text of `/proc/PID/limits` (proc(5)).
fn max_open_files(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|it| it.strip_prefix("Max open files"));
    line?.split_ascii_whitespace().next()?.parse().ok()
}

/// User and system time in milliseconds by the text of `/proc/PID/stat` (proc(5)).
fn cpu_ms(stat: &str, ticks_per_second: u64) -> Option<u64> {
    // The name of the program, in parentheses, may hold spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let sum = ticks()? + ticks()?;
    Some(sum * 1000 / ticks_per_second.max(1))
}

/// Datagrams that the kernel has dropped at UDP sockets of these ports, because their buffers were full; `None` where
/// the kernel does not tell.
pub(crate) fn udp_dropped(ports: &[u16]) -> Option<u64> {
    let files = ["/proc/self/net/udp", "/proc/self/net/udp6"];
    let texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    texts.map(|text| dropped(&text, ports)).reduce(|a, b| a + b)
}

/// The drops by a table of the kernel's.
fn dropped(table: &str, ports: &[u16]) -> u64 {
    let rows = table.lines().skip(1).filter_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let (_, of) = columns.nth(1)?.rsplit_once(':')?;
        let drops = columns.last()?;
        let port = u16::from_str_radix(of, 16).ok()?;
        ports.contains(&port).then(|| drops.parse::<u64>().ok())?
    });
    rows.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_of_this_process() {
        let process = Process::read();
        assert!(process.resident_bytes.unwrap() > 1 << 20);
        assert!(process.open_files.unwrap() >= 3);
        let most = process.max_open_files.unwrap_or(u64::MAX);
        assert!(most >= process.open_files.unwrap());
        assert!(process.cpu_ms.is_some());
    }

    #[test]
    fn a_program_may_have_any_name() {
        let fields: Vec<_> = (3..=20).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) b (c)) S {}", fields[1..].join(" "));
        // Fields 14 and 15 of proc(5).
        assert_eq!(cpu_ms(&stat, 100), Some((14 + 15) * 10));
        assert_eq!(cpu_ms("nonsense", 100), None);
    }

    #[test]
    fn a_limit_is_a_number_or_none() {
        let limits = |soft: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max processes             100                  100                  processes \n\
                 Max open files            {soft}              1048576              files     \n"
            )
        };
        assert_eq!(max_open_files(&limits("1024")), Some(1_024));
        assert_eq!(max_open_files(&limits("unlimited")), None);
        assert_eq!(max_open_files(""), None);
    }

    #[test]
    fn drops_are_summed_over_the_sockets_of_the_ports() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            1: 00000000:20FB 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 1 2 0 5\n\
            2: 00000000:20FB 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 2 2 0 7\n\
            3: 00000000:20FC 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 3 2 0 9\n";
        assert_eq!(dropped(table, &[0x20fb]), 12);
        assert_eq!(dropped(table, &[0x20fc, 80, 0x20fb]), 21);
        assert_eq!(dropped(table, &[80]), 0);
    }
}
