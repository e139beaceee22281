//! Facts about this machine, what it allows and what it hinders, for `altway doctor`.
//!
//! Each fact is found out by trying it where that leaves no trace: in a forked child, on a scratch
//! thread, in a scratch namespace, on a socket that is closed again. The calling process is not
//! altered.

mod machine;
mod network;
mod privilege;

use serde::Serialize;

/// A fact about this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Subject of the finding.
    pub topic: Topic,
    /// Degree to which it is as it should be.
    pub state: State,
    /// The observation, in words.
    pub seen: String,
    /// Cost of its not being better; `None` when it is as good as can be.
    pub cost: Option<String>,
    /// Advice that makes it better; `None` when there is nothing to do.
    pub fix: Option<String>,
}

/// Subject of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Topic {
    /// Root, or user namespaces: who may make network namespaces.
    Namespaces,
    /// The device that makes the interfaces of the emulated link.
    TunDevice,
    /// Real-time priority (SCHED_FIFO) for the link thread.
    RealtimePriority,
    /// Programs of eBPF that note when packets come to the link.
    ArrivalTimes,
    /// The kernel's own network emulation, which `--backend netem` uses.
    Netem,
    /// The limits of the buffers of UDP sockets.
    UdpBuffers,
    /// Many UDP datagrams a system call: generic segmentation and receive offload.
    UdpOffload,
    /// The congestion controls of TCP.
    CongestionControl,
    /// Behaviour of servers on paths that lose packets by chance.
    LossyPaths,
    /// The first congestion windows of TCP, which routes say, and of QUIC.
    InitialWindow,
    /// The record in the DNS that leads browsers to HTTP/3. Looked up only for names that are asked about.
    HttpsRecord,
    /// Number of processors.
    Processors,
    /// Number of files, and so of connections, that a process may open.
    OpenFiles,
    /// The version of the kernel.
    Kernel,
    /// A chain of certificates that a server is to show; no part of [`findings`].
    Certificate,
}

/// Degree to which a finding is as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// A fact that is as good as can be.
    Ok,
    /// Works, at a cost.
    Limited,
    /// Absent.
    Missing,
}

/// Finds all facts, in the order in which a reader wants them. Takes some milliseconds.
#[must_use]
pub fn findings() -> Vec<Finding> {
    vec![
        privilege::namespaces(),
        privilege::tun_device(),
        privilege::realtime_priority(),
        privilege::arrival_times(),
        network::udp_buffers(),
        network::udp_offload(),
        network::congestion_control(),
        network::lossy_paths(),
        network::initial_window(),
        network::netem(),
        machine::processors(),
        machine::open_files(),
        machine::kernel(),
    ]
}

impl Topic {
    /// Returns its title, a few words for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Namespaces => "network namespaces",
            Self::TunDevice => "/dev/net/tun",
            Self::RealtimePriority => "real-time priority",
            Self::ArrivalTimes => "times of arrival",
            Self::Netem => "netem",
            Self::UdpBuffers => "UDP buffers",
            Self::UdpOffload => "UDP GSO and GRO",
            Self::CongestionControl => "TCP congestion control",
            Self::LossyPaths => "lossy paths",
            Self::InitialWindow => "initial window",
            Self::HttpsRecord => "HTTPS record",
            Self::Processors => "processors",
            Self::OpenFiles => "open files",
            Self::Kernel => "kernel",
            Self::Certificate => "certificate",
        }
    }

    /// Returns true if nothing but emulated links needs it.
    #[must_use]
    pub fn is_of_the_lab(self) -> bool {
        matches!(
            self,
            Self::Namespaces
                | Self::TunDevice
                | Self::RealtimePriority
                | Self::ArrivalTimes
                | Self::Netem
                | Self::Kernel
        )
    }
}

impl Finding {
    fn ok(topic: Topic, seen: impl Into<String>) -> Self {
        Self {
            topic,
            state: State::Ok,
            seen: seen.into(),
            cost: None,
            fix: None,
        }
    }

    fn flawed(topic: Topic, state: State, seen: impl Into<String>) -> Self {
        Self {
            state,
            ..Self::ok(topic, seen)
        }
    }

    fn cost(mut self, cost: impl Into<String>) -> Self {
        self.cost = Some(cost.into());
        self
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::fs;

    #[test]
    fn each_topic_has_one_finding_and_each_flaw_says_what_it_costs() {
        let findings = findings();
        let topics: HashSet<_> = findings.iter().map(|finding| finding.topic).collect();
        assert_eq!((topics.len(), findings.len()), (13, 13));
        for finding in findings {
            assert!(!finding.seen.is_empty(), "{finding:?}");
            assert_eq!(
                finding.state != State::Ok,
                finding.cost.is_some(),
                "{finding:?}"
            );
        }
    }

    #[test]
    fn probing_does_not_alter_the_process() {
        let state = || {
            let link = |name| fs::read_link(format!("/proc/thread-self/ns/{name}")).unwrap();
            let policy = fs::read_to_string("/proc/thread-self/sched").unwrap_or_default();
            let policy = policy
                .lines()
                .find(|line| line.starts_with("policy"))
                .map(str::to_owned);
            (link("net"), link("user"), link("mnt"), policy)
        };
        let before = state();
        let _ = findings();
        assert_eq!(state(), before);
    }

    #[test]
    fn names_in_json_are_snake_case() {
        let finding = Finding::ok(Topic::UdpBuffers, "8 MiB");
        let json = serde_json::to_value(finding).unwrap();
        assert_eq!(json["topic"], "udp_buffers");
        assert_eq!(json["state"], "ok");
    }
}
