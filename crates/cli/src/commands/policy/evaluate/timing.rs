//! The bias of the server's timing of pages against the browsers' own, by the reports in a log.

use crate::printer::counted;
use altway_select::SelectionEntry;
use serde::Serialize;
use std::collections::BTreeMap;

/// Reports of each class and protocol that have the server's time of the same page.
#[derive(Debug, Default)]
pub(super) struct Timing(BTreeMap<(String, &'static str), Sums>);

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    count: u64,
    sum: f64,
    squares: f64,
}

/// The bias of the server's timing, for a class and a protocol.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Bias {
    class: String,
    protocol: &'static str,
    reports: u64,
    /// Mean of ln of the server's time over the browser's: below 0, the server sees less than people wait.
    mean_ln: f64,
    /// Standard error of the mean; 0 for one report.
    error_ln: f64,
}

impl Timing {
    /// Takes what a line has of it.
    pub(super) fn read(&mut self, entry: &SelectionEntry) {
        use altway_select::LoggedProtocol::{H1, H2, H3};
        let protocol = match entry.protocol {
            H1 => "h1",
            H2 => "h2",
            H3 => "h3",
        };
        let Some(bias) = entry.beacon.and_then(|beacon| beacon.bias()) else {
            return;
        };
        let key = (entry.class.to_string(), protocol);
        let sums = self.0.entry(key).or_default();
        sums.count += 1;
        sums.sum += bias;
        sums.squares += bias * bias;
    }

    /// Returns the biases by class, then by protocol.
    pub(super) fn biases(&self) -> Vec<Bias> {
        let of = |((class, protocol), sums): (&(String, &'static str), &Sums)| {
            let count = sums.count as f64;
            let mean = sums.sum / count;
            let variance = (sums.squares - count * mean * mean) / (count - 1.0).max(1.0);
            Bias {
                class: class.clone(),
                protocol,
                reports: sums.count,
                mean_ln: mean,
                error_ln: (variance.max(0.0) / count).sqrt(),
            }
        };
        self.0.iter().map(of).collect()
    }
}

/// A table of them; empty without a report.
pub(super) fn text(biases: &[Bias]) -> String {
    if biases.is_empty() {
        return String::new();
    }
    let mut text =
        "\nThe server's time of a page against the browser's, by the beacon:\n".to_owned();
    for it in biases {
        let bias = altway_report::percent(100.0 * it.mean_ln.exp_m1());
        let error = 100.0 * it.error_ln;
        let (class, protocol) = (&it.class, it.protocol);
        let pages = counted(it.reports as usize, "page");
        text += &format!("{class:<22}{protocol}  {bias} \u{b1} {error:.1} ({pages})\n");
    }
    text + "All times above are the server's; a bias that differs between protocols is in their comparison.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_select::LoggedBeacon;

    fn entry(protocol: &str, server_seconds: Option<f64>) -> SelectionEntry {
        let line = format!(
            r#"{{"v":1,"time":1795392000,"client":"0123456789ab","class":"firefox-linux","protocol":"{protocol}",
            "offer":"h3","reason":"predicted","propensity":1.0,"path":{{"limit_bps":4e8}}}}"#
        );
        let mut entry: SelectionEntry = serde_json::from_str(&line).unwrap();
        entry.beacon = Some(LoggedBeacon {
            responses: 3,
            same: 3,
            bytes: 9_000,
            seconds: 1.0,
            load_seconds: 1.2,
            server_seconds,
        });
        entry
    }

    #[test]
    fn the_bias_of_a_protocol_is_the_mean_of_its_reports() {
        let mut timing = Timing::default();
        for (protocol, seconds) in [
            ("h3", Some(0.9)),
            ("h3", Some(1.1)),
            ("h2", Some(0.8)),
            ("h2", None),
        ] {
            timing.read(&entry(protocol, seconds));
        }
        let biases = timing.biases();
        let seen: Vec<_> = biases.iter().map(|it| (it.protocol, it.reports)).collect();
        assert_eq!(seen, [("h2", 1), ("h3", 2)]);
        assert!(
            (biases[1].mean_ln - 0.99_f64.ln() / 2.0).abs() < 1e-9,
            "{biases:?}"
        );
        assert!((biases[1].error_ln - 0.1003).abs() < 1e-3, "{biases:?}");
        let text = text(&biases);
        assert!(
            text.contains("firefox-linux         h2  −20.0 % \u{b1} 0.0 (1 page)"),
            "{text}"
        );
        assert_eq!(super::text(&[]), "");
    }
}
