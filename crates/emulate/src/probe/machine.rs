//! The machine itself: processors, limits, kernel.

use super::{Finding, State, Topic};
use rustix::process::{Resource, getrlimit};
use std::thread;

/// Number of open files that are enough: one a connection, and some for the program itself.
const OPEN_FILES: u64 = 65_536;

/// epoll_pwait2, which the link thread needs for exact time-outs, came with Linux 5.11.
const KERNEL: (u32, u32) = (5, 11);

pub(super) fn processors() -> Finding {
    let topic = Topic::Processors;
    let count = thread::available_parallelism().map_or(1, usize::from);
    if count >= 2 {
        return Finding::ok(topic, count.to_string());
    }
    Finding::flawed(topic, State::Limited, "1")
        .cost(
            "the link thread and the programs at its ends share one processor: rates above some \
             100 Mbit/s measure the processor",
        )
        .fix("use a machine with 2 processors or more")
}

pub(super) fn open_files() -> Finding {
    let topic = Topic::OpenFiles;
    let limit = getrlimit(Resource::Nofile);
    let text = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |n| n.to_string());
    let seen = format!(
        "{} now, {} at most",
        text(limit.current),
        text(limit.maximum)
    );
    if limit.maximum.is_none_or(|maximum| maximum >= OPEN_FILES) {
        // What altway needs it raises by itself, up to the maximum.
        return Finding::ok(topic, seen);
    }
    Finding::flawed(topic, State::Limited, seen)
        .cost("a server takes no more connections than that")
        .fix(format!(
            "as root: ulimit -Hn {OPEN_FILES}, or LimitNOFILE= in a systemd unit"
        ))
}

pub(super) fn kernel() -> Finding {
    let topic = Topic::Kernel;
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let seen = format!("{} {release}", name.sysname().to_string_lossy());
    if version(&release).is_none_or(|version| version >= KERNEL) {
        return Finding::ok(topic, seen);
    }
    Finding::flawed(topic, State::Missing, seen)
        .cost("the link thread can't wait for less than a millisecond: no emulated link")
        .fix("use Linux 5.11 or later")
}

/// Major and minor version of a kernel release; `None` when it has another form.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_versions_that_distributions_print() {
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("5.10-rc1"), Some((5, 10)));
        assert_eq!(version("unknown"), None);
    }
}
