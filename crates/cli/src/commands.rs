//! The commands, one file each: arguments as typed, what they mean, the call, the answer.

pub(crate) mod certs;
pub(crate) mod config;
pub(crate) mod dns_record;
pub(crate) mod doctor;
pub(crate) mod emulate;
pub(crate) mod explain;
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod paths;
pub(crate) mod policy;
pub(crate) mod proxy;
pub(crate) mod raw;
pub(crate) mod serve;
pub(crate) mod status;

use altway_units::duration;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

/// The commit that this binary was built from.
pub(crate) const COMMIT: Option<&str> = option_env!("ALTWAY_COMMIT");

/// The version of this binary.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Facts of this binary's build, as far as the build could tell.
pub(crate) fn build() -> altway_record::Build {
    let text = |told: Option<&str>| told.filter(|text| !text.is_empty()).map(str::to_owned);
    altway_record::Build {
        dirty: option_env!("ALTWAY_DIRTY").map(|dirty| dirty == "true"),
        compiler: text(option_env!("ALTWAY_COMPILER")),
        target: text(option_env!("ALTWAY_TARGET")),
        profile: text(option_env!("ALTWAY_PROFILE")),
    }
}

/// The text of `--version`: the version, and the commit if there is one.
pub(crate) const LONG_VERSION: &str = env!("ALTWAY_LONG_VERSION");

/// Reads a count of which none is none: the words of the standard library speak of its types.
fn positive<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse()
        .map_err(|_| "expected a whole number, 1 or more")
}

/// Reads an address, which may be in the brackets that URLs have around one of IPv6.
fn ip_address(text: &str) -> Result<IpAddr, &'static str> {
    let inner = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let is_address = |it: &IpAddr| inner.is_none() || it.is_ipv6();
    let address = inner.unwrap_or(text).parse().ok().filter(is_address);
    address.ok_or("expected an address without port and name, like 127.0.0.1 or ::1")
}

/// Reads the number of a port: the words of the standard library speak of digits.
fn port(text: &str) -> Result<u16, &'static str> {
    text.parse()
        .map_err(|_| "expected the number of a port, 0 to 65535")
}

/// Reads a time above 0.
fn positive_time(text: &str) -> Result<Duration, String> {
    let time = duration::parse(text).map_err(|error| error.to_string())?;
    match time.is_zero() {
        true => Err("expected a time above 0".into()),
        false => Ok(time),
    }
}

/// The first bound of [`DURATION_BUCKETS_MS`](altway_serve::DURATION_BUCKETS_MS) that half of the times do not exceed, in
/// words.
fn half_within(buckets: &[u64]) -> String {
    let (mut seen, all) = (0, buckets.iter().sum::<u64>());
    let place = buckets.iter().position(|count| {
        seen += count;
        seen * 2 >= all
    });
    match place.and_then(|place| altway_serve::DURATION_BUCKETS_MS.get(place)) {
        Some(bound) => format!("within {bound} ms"),
        None => "longer than 10 s".into(),
    }
}
