//! The time for which a connection may wait for another request.

use crate::pool::IDLE_TIMEOUT;
use std::time::Duration;

/// Time before a server closes a connection in which it is given no other request: one that crosses the close on its way is
/// lost, and can't be sent again where its method is not idempotent. A server counts from when it has written its response.
const CLOSE_MARGIN: Duration = Duration::from_secs(1);

/// The time for which a connection may wait that its server closes after `idle_timeout`; `None`: it says nothing of that.
pub(super) fn time(idle_timeout: Option<Duration>) -> Duration {
    idle_timeout.map_or(IDLE_TIMEOUT, |time| {
        (time - CLOSE_MARGIN.min(time / 2)).min(IDLE_TIMEOUT)
    })
}

/// The `timeout` of a Keep-Alive field, in seconds, as Node, Apache and Tomcat give it (RFC 2068 section 19.7.1.1).
pub(super) fn idle_timeout(value: &[u8]) -> Option<Duration> {
    let parameters = std::str::from_utf8(value).ok()?.split(',');
    let mut pairs = parameters.filter_map(|it| it.split_once('='));
    let (_, seconds) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"))?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_waits_as_long_as_its_server_says_less_a_margin() {
        for (value, millis) in [
            ("timeout=5", 4_000),
            ("timeout=15, max=100", 14_000),
            ("max=100, Timeout = 1", 500),
            ("timeout=0", 0),
            ("timeout=3600", 55_000),
            ("timeout=18446744073709551615", 55_000),
            ("timeout=a", 55_000),
            ("timeout=-1", 55_000),
            ("max=5", 55_000),
            ("", 55_000),
        ] {
            let time = time(idle_timeout(value.as_bytes()));
            assert_eq!(time, Duration::from_millis(millis), "{value}");
        }
    }
}
