//! The program `tc` of iproute2: what it is told, and what it tells.
//!
//! Not netlink, for the attributes of queueing disciplines are structures of the kernel's whose sizes
//! and tables `tc` knows for every version, and its errors name what is wrong.

use super::shape::{BOTTLENECK, PATH, Shape};
use crate::Error;
use crate::link_devices::Interface;
use crate::namespace::Namespace;
use crate::sys;
use serde::Deserialize;
use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = "tc";

/// Counters of the queueing disciplines of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QdiscCounters {
    pub(crate) packets: u64,
    /// Bytes, with the packets' Ethernet headers.
    pub(crate) bytes: u64,
    /// Dropped anywhere.
    pub(crate) dropped: u64,
    /// Packets dropped by the queue of the rate.
    pub(crate) queue_dropped: u64,
    /// Packets inside.
    pub(crate) queued: u64,
}

/// Returns whether there is a program `tc`.
pub(crate) fn is_there() -> bool {
    let mut command = Command::new(PROGRAM);
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet
        .arg("-V")
        .status()
        .is_ok_and(|status| status.success())
}

/// Gives an interface of `namespace` (the caller's where there is none), which has no queueing
/// discipline of its own, this shape.
pub(crate) fn add(
    namespace: Option<&Namespace>,
    interface: &Interface,
    shape: &Shape,
) -> Result<(), Error> {
    batch(namespace, interface, &shape.lines(&interface.name))
}

/// Turns the shape `from` of an interface into `to`, and leaves the packets in it.
pub(crate) fn change(
    namespace: Option<&Namespace>,
    interface: &Interface,
    from: &Shape,
    to: &Shape,
) -> Result<(), Error> {
    batch(namespace, interface, &from.lines_to(to, &interface.name))
}

/// Takes the shape away, with the packets in it, and gives another.
pub(crate) fn replace(
    namespace: Option<&Namespace>,
    interface: &Interface,
    shape: &Shape,
) -> Result<(), Error> {
    let mut lines = vec![removal(interface)];
    lines.extend(shape.lines(&interface.name));
    batch(namespace, interface, &lines)
}

/// Takes the shape away.
pub(crate) fn remove(namespace: Option<&Namespace>, interface: &Interface) -> Result<(), Error> {
    batch(namespace, interface, &[removal(interface)])
}

/// Returns the counters since the shape was given.
pub(crate) fn count(
    namespace: Option<&Namespace>,
    interface: &Interface,
) -> Result<QdiscCounters, Error> {
    look(namespace, interface)?.ok_or(Error::LinkStopped)
}

/// Returns whether it has a shape of ours.
pub(crate) fn is_shaped(
    namespace: Option<&Namespace>,
    interface: &Interface,
) -> Result<bool, Error> {
    Ok(look(namespace, interface)?.is_some())
}

/// Returns the counters of a shape of ours; `None` where there is none.
fn look(
    namespace: Option<&Namespace>,
    interface: &Interface,
) -> Result<Option<QdiscCounters>, Error> {
    Ok(counted(&show(namespace, interface)?))
}

/// Returns the queueing disciplines of an interface with their counters.
pub(crate) fn show(
    namespace: Option<&Namespace>,
    interface: &Interface,
) -> Result<Vec<QdiscReport>, Error> {
    let arguments = ["-s", "-j", "qdisc", "show", "dev", &interface.name];
    let output = run(namespace, &arguments, "")?;
    if !output.status.success() {
        return Err(refused(interface, &output));
    }
    // A `tc` that says nothing that can be read shows nothing of ours.
    Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
}

/// The line of a batch that takes the shape of an interface away.
pub(crate) fn removal(interface: &Interface) -> String {
    format!("qdisc del dev {} root", interface.name)
}

/// Runs these lines as commands of `tc`.
pub(crate) fn batch(
    namespace: Option<&Namespace>,
    interface: &Interface,
    lines: &[String],
) -> Result<(), Error> {
    let output = run(namespace, &["-batch", "-"], &lines.join("\n"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(refused(interface, &output))
}

fn run(namespace: Option<&Namespace>, arguments: &[&str], input: &str) -> Result<Output, Error> {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env("LC_ALL", "C");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(namespace) = namespace {
        sys::join_before_exec(&mut command, namespace.clone(), None, 0);
    }
    let failed = |source: io::Error| Error::NoTc { source };
    let mut child = command.spawn().map_err(failed)?;
    let mut stdin = child.stdin.take().expect("it is piped");
    // It reads all of it, or ends and says why.
    let _ = writeln!(stdin, "{input}");
    drop(stdin);
    child.wait_with_output().map_err(failed)
}

/// Returns the error for the output of a `tc` that failed.
fn refused(interface: &Interface, output: &Output) -> Error {
    let said = String::from_utf8_lossy(&output.stderr);
    let lines = said
        .lines()
        .filter(|line| !line.starts_with("Command failed"));
    let answer = lines.collect::<Vec<_>>().join("; ");
    let contains = |words: &[&str]| words.iter().any(|word| answer.contains(word));
    if contains(&["qdisc kind is unknown", "Specified qdisc not found"]) {
        return Error::NoNetem;
    }
    if contains(&["Cannot find device"]) {
        return Error::LinkStopped;
    }
    if contains(&["File exists", "Exclusivity flag on", "NLM_F_REPLACE needed"]) {
        return Error::InterfaceInUse {
            name: interface.name.clone(),
            by: "a queueing discipline",
        };
    }
    Error::Tc { answer }
}

/// A queueing discipline as `tc -s -j` shows it.
#[derive(Debug, Deserialize)]
pub(crate) struct QdiscReport {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    pub(crate) handle: String,
    #[serde(default)]
    packets: u64,
    #[serde(default)]
    bytes: u64,
    /// Packets dropped since it was added.
    #[serde(default)]
    pub(crate) drops: u64,
    /// Packets inside.
    #[serde(default)]
    pub(crate) qlen: u64,
}

/// `None` when the shape is not there any more.
fn counted(shown: &[QdiscReport]) -> Option<QdiscCounters> {
    let is_netem = |qdisc: &&QdiscReport| qdisc.kind == "netem";
    let all = shown.iter().filter(is_netem);
    let named = |handle| all.clone().find(|qdisc| qdisc.handle == handle);
    let path = named(PATH)?;
    let (queue_dropped, waiting) =
        named(BOTTLENECK).map_or((0, 0), |inner| (inner.drops, inner.qlen));
    Some(QdiscCounters {
        packets: path.packets,
        bytes: path.bytes,
        dropped: path.drops,
        queue_dropped,
        // Kernels differ in whether the outer counts what waits in the inner.
        queued: path.qlen.max(waiting),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &[u8]) -> Option<QdiscCounters> {
        counted(&serde_json::from_slice::<Vec<QdiscReport>>(json).unwrap_or_default())
    }

    #[test]
    fn drops_of_the_inner_are_the_queues() {
        let json = br#"[
            {"kind":"netem","handle":"1:","root":true,"options":{"limit":262144},"bytes":1514,
             "packets":1,"drops":9,"overlimits":0,"requeues":0,"backlog":0,"qlen":3},
            {"kind":"netem","handle":"2:","parent":"1:1","options":{},"bytes":0,"packets":0,
             "drops":4,"overlimits":0,"requeues":0,"backlog":0,"qlen":5}]"#;
        let counted = QdiscCounters {
            packets: 1,
            bytes: 1_514,
            dropped: 9,
            queue_dropped: 4,
            queued: 5,
        };
        assert_eq!(parse(json), Some(counted));
    }

    #[test]
    fn without_our_shape_there_is_nothing_to_count() {
        assert_eq!(
            parse(br#"[{"kind":"noqueue","handle":"0:","root":true}]"#),
            None
        );
        assert_eq!(parse(b"not JSON"), None);
        assert_eq!(
            parse(br#"[{"kind":"htb","handle":"1:","root":true}]"#),
            None
        );
    }

    #[test]
    fn each_refusal_is_told_apart() {
        use std::os::unix::process::ExitStatusExt;
        let says = |stderr: &str| {
            let output = Output {
                status: std::process::ExitStatus::from_raw(2 << 8),
                stdout: Vec::new(),
                stderr: stderr.into(),
            };
            let interface = Interface {
                name: "eth0".into(),
                index: 7,
            };
            refused(&interface, &output)
        };
        let unknown = "Error: Specified qdisc kind is unknown.\nCommand failed -:1\n";
        assert!(matches!(says(unknown), Error::NoNetem));
        let gone = "Cannot find device \"eth0\"\nCommand failed -:1\n";
        assert!(matches!(says(gone), Error::LinkStopped));
        let taken = "Error: NLM_F_REPLACE needed to override.\nCommand failed -:1\n";
        assert!(matches!(says(taken), Error::InterfaceInUse { .. }));
        let other = says("Error: No.\nCommand failed -:1\n").to_string();
        assert!(other.contains("Error: No."), "{other}");
    }
}
