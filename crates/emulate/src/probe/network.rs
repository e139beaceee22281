//! Offers of the kernel's network stack.

use super::{Finding, State, Topic};
use crate::Error;
use crate::congestion;
use crate::namespace::Namespace;
use crate::netlink::Netlink;
use crate::privilege::has_privilege;
use crate::sysctl;
use nix::sys::socket::{setsockopt, sockopt};
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};

/// Buffer that a socket of a QUIC server wants, in bytes: 40 ms at 800 Mbit/s.
const UDP_BUFFER: u64 = 4 << 20;

/// The payload of a datagram of 1,500 bytes over IPv4.
const SEGMENT: i32 = 1_472;

/// Measured with Chromium and altway's server, medians of 8.
const COST_OF_CUBIC: &str = "a page of 1 MB at 50 Mbit/s, 20 ms of round trip and 2 % loss took 1.7 s over \
    HTTP/2 with cubic, and 0.36 s with bbr (decision 0058)";

pub(super) fn udp_buffers() -> Finding {
    let topic = Topic::UdpBuffers;
    let limit = |parameter: &str| {
        sysctl::read(parameter)
            .ok()
            .and_then(|text| text.parse().ok())
    };
    let limits = (limit("net.core.rmem_max"), limit("net.core.wmem_max"));
    let (Some(receive), Some(send)): (Option<u64>, Option<u64>) = limits else {
        return Finding::flawed(topic, State::Limited, "net.core.rmem_max can't be read")
            .cost("unknown: where /proc/sys is hidden the limits may be low");
    };
    let seen = format!(
        "receive at most {} KiB, send at most {} KiB",
        receive >> 10,
        send >> 10
    );
    if receive >= UDP_BUFFER && send >= UDP_BUFFER {
        return Finding::ok(topic, seen);
    }
    Finding::flawed(topic, State::Limited, seen)
        .cost("bursts of HTTP/3 overflow the buffer at high rates: 4 MiB are wanted")
        .fix(format!(
            "sysctl -w net.core.rmem_max={UDP_BUFFER} net.core.wmem_max={UDP_BUFFER}"
        ))
}

pub(super) fn udp_offload() -> Finding {
    let topic = Topic::UdpOffload;
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) else {
        return Finding::flawed(
            topic,
            State::Missing,
            "no UDP socket on the loopback interface",
        )
        .cost("HTTP/3 needs UDP")
        .fix("set the loopback interface up");
    };
    let segmentation = setsockopt(&socket, sockopt::UdpGsoSegment, &SEGMENT).is_ok();
    let receive = setsockopt(&socket, sockopt::UdpGroSegment, &true).is_ok();
    let (state, seen) = match (segmentation, receive) {
        (true, true) => return Finding::ok(topic, "both"),
        (true, false) => (State::Limited, "segmentation offload only"),
        (false, true) => (State::Limited, "receive offload only"),
        (false, false) => (State::Limited, "neither"),
    };
    Finding::flawed(topic, state, seen)
        .cost("HTTP/3 makes a system call for each packet and takes several times the CPU")
        .fix("use Linux 5.0 or later")
}

pub(super) fn congestion_control() -> Finding {
    let topic = Topic::CongestionControl;
    let (default, available) = (congestion::default(), congestion::available());
    let seen = format!("{default} by default; available: {available}");
    let has_cubic = |list: &str| list.split_whitespace().any(|name| name == "cubic");
    if default == "cubic" {
        return Finding::ok(topic, seen);
    }
    if !has_cubic(&available) {
        return Finding::flawed(topic, State::Limited, seen)
            .cost("no comparison with cubic, which most of the Internet uses")
            .fix("modprobe tcp_cubic");
    }
    if has_cubic(&congestion::allowed()) || has_privilege() {
        return Finding::flawed(topic, State::Limited, seen).cost(
            "experiments set cubic in their own namespaces; servers outside of them don't use \
             what most of the Internet uses",
        );
    }
    Finding::flawed(
        topic,
        State::Limited,
        format!("{seen}; cubic is not allowed without root"),
    )
    .cost("cubic can't be the default of a user's namespaces: programs have to ask for it")
    .fix(format!(
        "as root: sysctl -w net.ipv4.tcp_allowed_congestion_control='{} cubic'",
        congestion::allowed()
    ))
}

/// Returns what a server that follows the system makes of paths that lose packets by chance. The
/// figures are decision 0058's.
pub(super) fn lossy_paths() -> Finding {
    let topic = Topic::LossyPaths;
    let (default, available) = (congestion::default(), congestion::available());
    let seen = format!("`altway serve` uses {default}, as the system's TCP does");
    if default == "bbr" {
        return Finding::ok(topic, seen);
    }
    let fix = match available.split_whitespace().any(|name| name == "bbr") {
        true => "altway serve --congestion bbr, or sysctl -w net.ipv4.tcp_congestion_control=bbr",
        false => {
            "modprobe tcp_bbr (the kernel has no bbr at the moment), then altway serve --congestion bbr"
        }
    };
    Finding::flawed(topic, State::Limited, seen)
        .cost(COST_OF_CUBIC)
        .fix(fix)
}

/// Packets of TCP's first congestion window where no route says another (RFC 6928), and of QUIC's (RFC 9002 section
/// 7.2).
const INITIAL_WINDOW: u32 = 10;

/// The routes by which TCP's window differs from QUIC's, which `altway serve` sets for all clients alike.
pub(super) fn initial_window() -> Finding {
    let topic = Topic::InitialWindow;
    let routes = Netlink::open().and_then(|netlink| netlink.initial_windows());
    let windows = match routes {
        Ok(windows) => windows,
        Err(error) => {
            return Finding::flawed(topic, State::Limited, describe(&error))
                .cost("unknown: a route may begin TCP with another window than QUIC has");
        }
    };
    let mut differing: Vec<u32> = windows;
    differing.retain(|window| *window != INITIAL_WINDOW);
    differing.sort_unstable();
    differing.dedup();
    let Some(largest) = differing.last() else {
        let seen = format!("{INITIAL_WINDOW} packets over TCP by all routes, as over QUIC");
        return Finding::ok(topic, seen);
    };
    let said: Vec<String> = differing.iter().map(u32::to_string).collect();
    let seen = format!(
        "routes with initcwnd {}; QUIC begins with {INITIAL_WINDOW}",
        said.join(", ")
    );
    Finding::flawed(topic, State::Limited, seen)
        .cost(
            "clients on these routes get their first round trips faster over the transport with the larger \
             window, which is no property of the protocol; the policy takes both for equal",
        )
        .fix(format!(
            "altway serve --initial-window {largest}, or `ip route change` without initcwnd"
        ))
}

/// netem is tried in a scratch namespace, with a request that lacks its options: a kernel that has
/// it calls the request invalid, one that hasn't does not know the name.
pub(super) fn netem() -> Finding {
    let topic = Topic::Netem;
    let cost = "`--backend netem` can't be used; altway's own link runs in user space";
    if !has_privilege() {
        return if fs::exists("/sys/module/sch_netem").unwrap_or(false) {
            Finding::ok(topic, "loaded")
        } else {
            Finding::flawed(topic, State::Limited, "not loaded; only root can try").cost(cost)
        };
    }
    let tried = Namespace::create()
        .and_then(|scratch| scratch.run(|| Netlink::open()?.knows_qdisc("netem")));
    match tried {
        Ok(true) => Finding::ok(topic, "this kernel has it"),
        Ok(false) => {
            Finding::flawed(topic, State::Missing, "this kernel does not have it").cost(cost)
        }
        Err(error) => Finding::flawed(topic, State::Limited, describe(&error)).cost(cost),
    }
}

fn describe(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("could not be tried: {error}: {source}"),
        None => format!("could not be tried: {error}"),
    }
}
