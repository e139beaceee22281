//! The processor time that the processes at the ends of the link take.
//!
//! Read from the kernel's clock of each process (`clock_getcpuclockid(3)`): nanoseconds of user and
//! system time of all its threads, of those that have ended too. `/proc` has either ticks of 10 ms or
//! the threads that are still there.

use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// The most processes that a server may be; of more nothing is told.
const MAX_PROCESSES: usize = 256;

/// Returns the processor time of a process so far, threads that have ended included; also of one that has ended
/// itself, as long as nobody has waited for it. `None` when it is gone.
pub(crate) fn of_process(process: u32) -> Option<Duration> {
    let process = Pid::from_raw(i32::try_from(process).ok()?);
    let clock = clock_getcpuclockid(process).ok()?;
    Some(clock.now().ok()?.into())
}

/// Processor time so far of a process and of each one that descends from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessTreeTime(BTreeMap<u32, Duration>);

impl ProcessTreeTime {
    /// `None` where it can't be told: the process is gone, or the kernel names no children.
    pub(crate) fn of(ancestor: u32) -> Option<Self> {
        let processes = family(ancestor)?;
        let times = processes
            .into_iter()
            .map(|process| Some((process, of_process(process)?)));
        times.collect::<Option<_>>().map(Self)
    }

    /// Returns the time taken since `before`; `None` if processes came or went, for what those took is lost.
    pub(crate) fn since(&self, before: &Self) -> Option<Duration> {
        if !self.0.keys().eq(before.0.keys()) {
            return None;
        }
        let times = self.0.values().zip(before.0.values());
        times.map(|(now, then)| now.checked_sub(*then)).sum()
    }
}

/// A process and each one that descends from it; `None` where the kernel does not tell, or when they
/// are too many.
pub(crate) fn family(ancestor: u32) -> Option<Vec<u32>> {
    let mut processes = Vec::new();
    let mut unread = vec![ancestor];
    while let Some(process) = unread.pop() {
        if processes.len() == MAX_PROCESSES {
            return None;
        }
        processes.push(process);
        unread.extend(children(process)?);
    }
    Some(processes)
}

/// The children of all threads of a process; `None` where the kernel does not tell.
fn children(process: u32) -> Option<Vec<u32>> {
    let mut children = Vec::new();
    for task in fs::read_dir(format!("/proc/{process}/task")).ok()? {
        let task = task.ok()?.path();
        match fs::read_to_string(task.join("children")) {
            Ok(text) => children.extend(text.split(' ').filter_map(|one| one.parse::<u32>().ok())),
            // A thread that has ended meanwhile.
            Err(_) if !task.exists() => {}
            Err(_) => return None,
        }
    }
    Some(children)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    fn time<const N: usize>(of: [(u32, u64); N]) -> ProcessTreeTime {
        ProcessTreeTime(of.map(|(id, ms)| (id, Duration::from_millis(ms))).into())
    }

    /// A shell that does what it is told, a line at a time.
    fn shell() -> Child {
        let mut command = Command::new("sh");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Gives the shell a command and waits until it is done.
    fn tell(shell: &mut Child, what: &str) {
        let stdin = shell.stdin.as_mut().unwrap();
        writeln!(stdin, "{what}; echo done").unwrap();
        let mut line = String::new();
        let stdout = shell.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }

    const COUNT: &str = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";

    #[test]
    fn times_of_the_same_processes_are_added_up() {
        let before = time([(1, 10), (2, 5)]);
        let after = time([(1, 13), (2, 6)]);
        assert_eq!(after.since(&before), Some(Duration::from_millis(4)));
        assert_eq!(after.since(&after), Some(Duration::ZERO));
    }

    #[test]
    fn a_process_that_came_or_went_leaves_nothing_to_tell() {
        let one = time([(1, 10)]);
        let two = time([(1, 10), (2, 5)]);
        assert_eq!((one.since(&two), two.since(&one)), (None, None));
        let again = time([(1, 9)]);
        assert_eq!(again.since(&one), None);
    }

    #[test]
    fn work_is_counted_where_it_is_done() {
        let mut shell = shell();
        tell(&mut shell, ":");
        let before = ProcessTreeTime::of(shell.id()).unwrap();
        tell(&mut shell, COUNT);
        let after = ProcessTreeTime::of(shell.id()).unwrap();
        assert!(after.since(&before).unwrap() > Duration::from_millis(1));
        shell.kill().unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn a_child_belongs_to_the_family() {
        let mut shell = shell();
        tell(&mut shell, ":");
        let alone = ProcessTreeTime::of(shell.id()).unwrap();
        tell(&mut shell, "sleep 60 & child=$!");
        let both = ProcessTreeTime::of(shell.id()).unwrap();
        assert_eq!((alone.0.len(), both.0.len()), (1, 2));
        assert_eq!(both.since(&alone), None);
        tell(&mut shell, "kill $child");
        shell.kill().unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn an_ended_process_is_told_of_until_it_is_waited_for() {
        let mut shell = shell();
        tell(&mut shell, COUNT);
        shell.kill().unwrap();
        let id = shell.id();
        assert!(of_process(id).unwrap() > Duration::from_millis(1));
        shell.wait().unwrap();
        assert_eq!((of_process(id), ProcessTreeTime::of(id)), (None, None));
    }
}
