//! Kernel parameters of the network namespaces that an emulation makes.
//!
//! `/proc/sys/net` shows the network namespace of the thread that opens it, so everything here acts
//! on the namespace of the calling thread.

use crate::Error;
use crate::ip::IpVersion;
use std::fmt;
use std::{fs, io};

/// The largest TCP buffer, in bytes: 1 Gbit/s over a round trip of 400 ms has 50 MB in flight.
const TCP_BUFFER_MAX: u64 = 64 << 20;

/// A kernel parameter that could not be set: the emulation runs, but not quite as it should.
#[derive(Debug)]
#[non_exhaustive]
pub struct UnsetParameter {
    /// The parameter, like `net.ipv4.tcp_rmem`.
    pub parameter: String,
    /// The value that it should have.
    pub value: String,
    /// Cost to measurements of its not being set.
    pub cost: &'static str,
    /// The kernel's answer.
    pub source: io::Error,
}

impl fmt::Display for UnsetParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            parameter,
            value,
            cost,
            source,
        } = self;
        write!(f, "cannot set {parameter} to `{value}` ({source}): {cost}")
    }
}

/// Sets what every namespace of an emulation needs; returns what could not be set.
pub(crate) fn tune_namespace() -> Vec<UnsetParameter> {
    let wanted = [
        (
            "net.ipv4.tcp_no_metrics_save",
            Some("1".to_owned()),
            "TCP connections inherit the slow-start threshold of earlier ones to the same address",
        ),
        (
            "net.ipv4.tcp_rmem",
            with_larger_maximum("net.ipv4.tcp_rmem"),
            "TCP can't fill links with a large product of rate and delay",
        ),
        (
            "net.ipv4.tcp_wmem",
            with_larger_maximum("net.ipv4.tcp_wmem"),
            "TCP can't fill links with a large product of rate and delay",
        ),
    ];
    let set = |(parameter, value, cost)| set_or_report(parameter, value?, cost);
    wanted.into_iter().filter_map(set).collect()
}

/// Keeps the kernel from sending anything of its own through an interface of the namespace of the
/// calling thread, where each packet would take a draw of the loss generator.
pub(crate) fn prepare_interface(version: IpVersion, interface: &str) -> Vec<UnsetParameter> {
    let wanted: &[_] = match version {
        IpVersion::V4 => &[("disable_ipv6", "1")],
        // No addresses of its own making, no router solicitations.
        IpVersion::V6 => &[
            ("disable_ipv6", "0"),
            ("addr_gen_mode", "1"),
            ("accept_ra", "0"),
        ],
    };
    let cost = "the kernel's own IPv6 packets take part in the random loss";
    let set = |(name, value): &(&str, &str)| {
        let parameter = format!("net/ipv6/conf/{interface}/{name}").replace('/', ".");
        set_or_report(&parameter, (*value).to_owned(), cost)
            // A kernel without IPv6 sends none.
            .filter(|unset| unset.source.kind() != io::ErrorKind::NotFound)
    };
    wanted.iter().filter_map(set).collect()
}

/// Lets the namespace of the calling thread, which has no interface but loopback yet, forward
/// packets of one version of IP.
pub(crate) fn let_forward(version: IpVersion) -> Result<(), Error> {
    let wanted: &[_] = match version {
        IpVersion::V4 => &[("net.ipv4.ip_forward", "1")],
        // The first sets the second too, which has an interface behave as a router's: report that it
        // listens to what is for all routers.
        IpVersion::V6 => &[
            ("net.ipv6.conf.all.forwarding", "1"),
            ("net.ipv6.conf.default.forwarding", "0"),
        ],
    };
    let set = |(parameter, value): &(&str, &str)| write(parameter, value);
    wanted
        .iter()
        .try_for_each(set)
        .map_err(|source| Error::Network {
            attempted: "let the router forward packets",
            source,
        })
}

/// Returns whether the namespace of the calling thread forwards packets of one version of IP.
pub(crate) fn forwards(version: IpVersion) -> bool {
    let parameter = match version {
        IpVersion::V4 => "net.ipv4.ip_forward",
        IpVersion::V6 => "net.ipv6.conf.all.forwarding",
    };
    read(parameter).is_ok_and(|value| value != "0")
}

/// The value of a parameter, without white space around it.
pub(crate) fn read(parameter: &str) -> io::Result<String> {
    fs::read_to_string(path(parameter)).map(|text| text.trim().to_owned())
}

/// Sets a parameter.
pub(crate) fn write(parameter: &str, value: &str) -> io::Result<()> {
    fs::write(path(parameter), value)
}

/// Path of a parameter in the file system.
pub(crate) fn path(parameter: &str) -> String {
    format!("/proc/sys/{}", parameter.replace('.', "/"))
}

fn set_or_report(parameter: &str, value: String, cost: &'static str) -> Option<UnsetParameter> {
    let source = write(parameter, &value).err()?;
    Some(UnsetParameter {
        parameter: parameter.to_owned(),
        value,
        cost,
        source,
    })
}

/// The present `minimum default maximum` with a maximum that is large enough; `None` if it is.
fn with_larger_maximum(parameter: &str) -> Option<String> {
    let present = read(parameter).unwrap_or_default();
    let mut parts: Vec<u64> = present.split_whitespace().flat_map(str::parse).collect();
    let [_, _, maximum] = parts.as_mut_slice() else {
        return Some(format!("4096 131072 {TCP_BUFFER_MAX}"));
    };
    if *maximum >= TCP_BUFFER_MAX {
        return None;
    }
    *maximum = TCP_BUFFER_MAX;
    Some(format!("{} {} {}", parts[0], parts[1], parts[2]))
}
