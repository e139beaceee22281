//! Numbers and quantities as people read them, the same in the terminal, the pictures and the page.

use altway_record::{
    Cell, Certificate, Congestion, Connection, InitialWindow, LinkName, MadeCertificate,
    QueueLimit, Rate, Topology,
};
use altway_stats::FEW_PAIRS;
use altway_units::{DataSize, Ratio, duration};
use std::time::Duration;

/// `50 ms`, `1.25 ms`; of less than 0.1 ms `50 µs`.
pub(crate) fn delay(delay: Duration) -> String {
    let text = duration::format(delay);
    match text
        .strip_suffix("us")
        .and_then(|us| us.parse::<f64>().ok())
    {
        Some(us) if us >= 100.0 => format!("{} ms", us / 1e3),
        _ => spaced(&text).replace("us", "µs"),
    }
}

/// A place on the delay axis: `47 ms`, `0.6 ms`.
pub(crate) fn milliseconds(value: f64) -> String {
    format!("{} ms", significant(value))
}

/// A place on the delay axis without its unit: no decimals from 10 on, else one or two.
pub(crate) fn significant(value: f64) -> String {
    let decimals = if value >= 10.0 {
        0
    } else {
        1 + usize::from(value < 1.0)
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// `5 Mbit/s`, `no rate limit`.
pub(crate) fn rate(rate: Rate) -> String {
    match rate {
        Rate::Unlimited => "no rate limit".into(),
        Rate::Limited(limit) => {
            let text = spaced(&limit.to_string());
            let bits = text.replace("kbit", "kbit/s").replace("mbit", "Mbit/s");
            let bits = bits.replace("gbit", "Gbit/s");
            if bits.ends_with("/s") {
                bits
            } else {
                format!("{bits}/s")
            }
        }
    }
}

/// `0.5 %`.
pub(crate) fn ratio(ratio: Ratio) -> String {
    spaced(&ratio.to_string())
}

/// `1 % loss`.
pub(crate) fn loss(loss: Ratio) -> String {
    format!("{} loss", ratio(loss))
}

/// `1 MB`.
pub(crate) fn size(size: DataSize) -> String {
    spaced(&size.to_string())
}

/// `ECDSA certificate`, `RSA chain`, or `chain example.pem`.
pub(crate) fn certificate(certificate: Certificate) -> String {
    match certificate {
        Certificate::Made(MadeCertificate::Ecdsa) => "ECDSA certificate".into(),
        Certificate::Made(MadeCertificate::RsaChain) => "RSA chain".into(),
        Certificate::Chain(name) => format!("chain {name}"),
    }
}

/// `certificates as they are`, or compressed.
pub(crate) fn certificate_compression(compressed: bool) -> String {
    match compressed {
        true => "certificates compressed where clients read it",
        false => "certificates not compressed",
    }
    .into()
}

/// `cubic`, of both transports, or `bbr (TCP) with cubic (QUIC)`.
pub(crate) fn congestion(congestion: Congestion) -> String {
    match (congestion.tcp(), congestion.quic()) {
        (tcp, quic) if tcp == quic => tcp.into(),
        (tcp, quic) => format!("{tcp} (TCP) with {quic} (QUIC)"),
    }
}

/// `initial window 32 packets`.
pub(crate) fn initial_window(window: InitialWindow) -> String {
    format!("initial window {window} packets")
}

/// The values that are the same in a series of cells: `5 Mbit/s · 0 % loss · 1 MB`, and every value
/// that is not the default of plans.
pub(crate) fn series(cell: &Cell) -> String {
    let telling = telling(cell);
    let parts = parts(cell).into_iter().zip(telling);
    let told = parts.filter(|(_, tell)| *tell).map(|(part, _)| part);
    told.collect::<Vec<_>>().join(" · ")
}

/// Number of texts that [`parts`] gives.
pub(crate) const PARTS: usize = 13;

/// Every axis of a cell but its delay, as people read it.
pub(crate) fn parts(cell: &Cell) -> [String; PARTS] {
    let queue = match cell.queue {
        QueueLimit::Default => "default queue".to_owned(),
        other => format!("{} queue", spaced(&other.to_string())),
    };
    let connection = match cell.connection {
        Connection::Cold => "cold connection",
        Connection::Warm => "warm connection",
    };
    [
        rate(cell.rate),
        loss(cell.loss),
        size(cell.size),
        queue,
        format!("{} link", cell.link),
        connection.to_owned(),
        cell.topology.to_string(),
        congestion(cell.congestion),
        initial_window(cell.initial_window),
        certificate(cell.certificate),
        certificate_compression(cell.certificate_compression),
        format!("client {}", cell.client),
        format!("server {}", cell.server),
    ]
}

/// Marks of those [`parts`] that are shown: some always, the others where they are not as by
/// default.
pub(crate) fn telling(cell: &Cell) -> [bool; PARTS] {
    [
        true,
        true,
        true,
        cell.queue != QueueLimit::default(),
        cell.link != LinkName::default(),
        cell.connection == Connection::Warm,
        cell.topology != Topology::default(),
        cell.congestion != Congestion::default(),
        cell.initial_window != InitialWindow::default(),
        cell.certificate != Certificate::default(),
        !cell.certificate_compression,
        true,
        true,
    ]
}

/// Formats a difference in per cent as all tables and pages have it: `+7.2 %`, `−12.0 %`, `0.0 %`.
#[must_use]
pub fn percent(value: f64) -> String {
    format!("{} %", signed(value))
}

/// Formats a number with its sign, one decimal and the minus sign of typography: `+7.2`, `−12.0`, `0.0`.
#[must_use]
pub fn signed(value: f64) -> String {
    signed_to(value, 1)
}

/// Formats a number as [`signed`] does, with so many decimals.
#[must_use]
pub fn signed_to(value: f64, decimals: usize) -> String {
    let digits = format!("{:.decimals$}", value.abs());
    let is_zero = digits.bytes().all(|c| matches!(c, b'0' | b'.'));
    match (is_zero, value < 0.0) {
        (true, _) => digits,
        (_, true) => format!("−{digits}"),
        (_, false) => format!("+{digits}"),
    }
}

/// Puts the minus sign of typography in place of each hyphen of a number that is written in digits.
#[must_use]
pub fn with_minus(number: &str) -> String {
    number.replace('-', "−")
}

/// A probability: `37 %`, `0.4 %`, `less than 0.1 %`.
pub(crate) fn chance(chance: f64) -> String {
    match 100.0 * chance {
        percent if percent < 0.1 => "less than 0.1 %".into(),
        percent if percent < 1.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// `24 pairs`, `3 pairs (few)`.
pub(crate) fn pairs(n: usize) -> String {
    let few = if n < FEW_PAIRS { " (few)" } else { "" };
    format!("{}{few}", count(n, "pair"))
}

/// The same where the column's head says what it is: `24`, `3 (few)`.
pub(crate) fn pairs_in_table(n: usize) -> String {
    let few = if n < FEW_PAIRS { " (few)" } else { "" };
    format!("{n}{few}")
}

/// The ends of an interval in per cent: `−9.1 to −3.0 %`, or a dash.
pub(crate) fn interval(ends: Option<(f64, f64)>) -> String {
    ends.map_or_else(
        || "–".to_owned(),
        |(low, high)| format!("{} to {} %", signed(low), signed(high)),
    )
}

/// `1 transfer`, `2 transfers`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The unit that a table or axis of times is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    Microseconds,
    Milliseconds,
    Seconds,
}

impl TimeUnit {
    /// The largest unit in which the smallest of the times (µs) is at least 1.
    pub(crate) fn for_times(times: impl Iterator<Item = f64>) -> Self {
        let smallest = times.fold(f64::INFINITY, f64::min);
        if smallest >= 1e6 && smallest.is_finite() {
            Self::Seconds
        } else if smallest >= 1e3 {
            Self::Milliseconds
        } else {
            Self::Microseconds
        }
    }

    /// The largest unit in which the largest of the times (µs) is at least 1: for an axis.
    pub(crate) fn for_axis(times: impl Iterator<Item = f64>) -> Self {
        Self::for_times(std::iter::once(times.fold(0.0, f64::max)))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Microseconds => "µs",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
        }
    }

    /// The time in this unit, from microseconds.
    pub(crate) fn convert(self, micros: f64) -> f64 {
        match self {
            Self::Microseconds => micros,
            Self::Milliseconds => micros / 1e3,
            Self::Seconds => micros / 1e6,
        }
    }

    /// The time with this unit's usual decimals, without its name.
    pub(crate) fn number(self, micros: f64) -> String {
        let decimals = match self {
            Self::Microseconds => 0,
            Self::Milliseconds => 1,
            Self::Seconds => 3,
        };
        format!("{:.decimals$}", self.convert(micros))
    }

    /// The same with its name: `1.761 s`.
    pub(crate) fn text(self, micros: f64) -> String {
        format!("{} {}", self.number(micros), self.name())
    }
}

/// A time in the unit that suits it.
pub(crate) fn time(micros: f64) -> String {
    TimeUnit::for_times(std::iter::once(micros)).text(micros)
}

/// `50ms` → `50 ms`.
fn spaced(quantity: &str) -> String {
    let end = quantity
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(end);
    format!("{number} {unit}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_stand_apart_from_their_units() {
        assert_eq!(delay(Duration::ZERO), "0 ms");
        assert_eq!(delay(Duration::from_micros(250)), "0.25 ms");
        assert_eq!(delay(Duration::from_micros(1_250)), "1.25 ms");
        assert_eq!(delay(Duration::from_micros(50)), "50 µs");
        assert_eq!(rate("5mbit".parse().unwrap()), "5 Mbit/s");
        assert_eq!(rate("7bit".parse().unwrap()), "7 bit/s");
        assert_eq!(rate(Rate::Unlimited), "no rate limit");
        assert_eq!(loss("0.5%".parse().unwrap()), "0.5 % loss");
        assert_eq!(size("1MB".parse().unwrap()), "1 MB");
    }

    #[test]
    fn signs_are_typographic_and_zero_has_none() {
        assert_eq!(percent(7.24), "+7.2 %");
        assert_eq!(percent(-12.0), "−12.0 %");
        assert_eq!(percent(-0.04), "0.0 %");
    }

    #[test]
    fn places_on_the_axis_get_the_digits_they_deserve() {
        assert_eq!(significant(47.3), "47");
        assert_eq!(significant(5.04), "5");
        assert_eq!(significant(0.62), "0.62");
        assert_eq!(significant(0.0), "0");
        assert_eq!(significant(100.0), "100");
    }

    #[test]
    fn a_table_takes_the_unit_of_its_smallest_time() {
        assert_eq!(
            TimeUnit::for_times([1.7e6, 2e6].into_iter()),
            TimeUnit::Seconds
        );
        assert_eq!(
            TimeUnit::for_times([0.9e6, 2e6].into_iter()),
            TimeUnit::Milliseconds
        );
        assert_eq!(
            TimeUnit::for_times([900.0, 2e6].into_iter()),
            TimeUnit::Microseconds
        );
        assert_eq!(TimeUnit::Seconds.text(1_761_234.0), "1.761 s");
    }

    #[test]
    fn lists_read_as_sentences() {
        let items =
            |texts: &[&str]| list(&texts.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(items(&["a"]), "a");
        assert_eq!(items(&["a", "b", "c"]), "a, b and c");
    }
}
