//! Parts of the time of a transfer, and the circumstances that it met on its way: the figures by which a difference
//! between two environments is explained.

use altway_record::{Connection, Sample, Scenario};
use std::collections::BTreeMap;

/// Names of the parts, in the order of [`Parts::all`].
pub(super) const PARTS: [&str; 3] = ["set-up", "first byte", "transfer"];

/// A transfer's compared time, in ms, cut into what follows each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Parts {
    /// Time for setting its connections up.
    set_up: f64,
    /// Time from then to the first byte of the answer.
    first_byte: f64,
    /// The rest: all bytes of all answers.
    transfer: f64,
}

impl Parts {
    /// `None` where the parts don't follow each other (the scenario `mixed`), or where the client did
    /// not say enough.
    pub(super) fn of(scenario: &Scenario, rows: &[&Sample]) -> Option<Self> {
        let measured = match rows.first()?.connection {
            Connection::Cold => rows,
            Connection::Warm => rows.get(1..)?,
        };
        let opening = match scenario {
            Scenario::Download | Scenario::Page(_) => measured.get(..1)?,
            Scenario::Repeat(_) => measured,
            Scenario::Mixed(_) => return None,
        };
        let (mut set_up, mut before_first_byte) = (0, 0);
        for row in opening {
            set_up += row.connect_us.unwrap_or(0);
            before_first_byte += row.first_byte_us?;
        }
        let whole = rows[0].compared_us?;
        Some(Self {
            set_up: ms(set_up),
            first_byte: ms(before_first_byte.checked_sub(set_up)?),
            transfer: ms(whole.checked_sub(before_first_byte)?),
        })
    }

    pub(super) fn all(&self) -> [f64; 3] {
        [self.set_up, self.first_byte, self.transfer]
    }
}

fn ms(micros: u64) -> f64 {
    micros as f64 / 1e3
}

/// The rows of each transfer of a run, by ordinal, each in the order of its requests.
pub(super) fn rows_by_transfer(samples: &[Sample]) -> BTreeMap<u64, Vec<&Sample>> {
    let mut rows: BTreeMap<u64, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        rows.entry(sample.ordinal).or_default().push(sample);
    }
    for of_one in rows.values_mut() {
        of_one.sort_by_key(|row| row.request);
    }
    rows
}

/// A ratio of a transfer's counts: summed over transfers, the first over the second.
type CountRatio = fn(&Sample) -> Option<(f64, f64)>;

/// Name with its unit, and how it is read from a transfer's first row.
pub(super) const CIRCUMSTANCES: [(&str, CountRatio); 9] = [
    ("packets up", |row| each(row.up_packets)),
    ("packets down", |row| each(row.down_packets)),
    ("lost (%)", |row| {
        let lost = row.up_lost_packets + row.down_lost_packets;
        Some((
            100.0 * lost as f64,
            (row.up_packets + row.down_packets) as f64,
        ))
    }),
    ("dropped by a full queue (packets)", |row| {
        each(row.up_queue_dropped_packets + row.down_queue_dropped_packets)
    }),
    ("longest wait in the queue (ms)", |row| {
        let rate = row.rate_bps? as f64;
        Some((row.down_backlog_max_bytes as f64 * 8e3 / rate, 1.0))
    }),
    ("processor taken from the client (times)", |row| {
        each(row.client_involuntary_switches)
    }),
    ("processor taken from the server (times)", |row| {
        each(row.server_involuntary_switches)
    }),
    ("processor time of the client (ms)", |row| {
        Some((ms(row.client_cpu_us?), 1.0))
    }),
    ("processor time of the server (ms)", |row| {
        Some((ms(row.server_cpu_us?), 1.0))
    }),
];

fn each(count: u64) -> Option<(f64, f64)> {
    Some((count as f64, 1.0))
}

/// Returns the mean of a circumstance over the transfers; `None` where no transfer tells it.
pub(super) fn mean<'a>(
    met: CountRatio,
    transfers: impl Iterator<Item = &'a Sample>,
) -> Option<f64> {
    let (sum, over) = transfers
        .filter_map(met)
        .fold((0.0, 0.0), |(sum, over), (a, b)| (sum + a, over + b));
    (over > 0.0).then(|| sum / over)
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_record::{CSV_HEADER, Repeat, read_samples};

    /// Rows of one transfer: connect, first byte, total; all compared at 100 ms.
    fn rows(connection: &str, times: &[(&str, u64, u64)]) -> Vec<Sample> {
        let row = |(i, (connect, first, total)): (usize, &(&str, u64, u64))| {
            format!(
                "0,0,0,1,{i},{},h2,false,h2,direct,altway,altway,cubic,10,ecdsa,true,{connection},plain,default,8000000,0,0,\
                 1,0,0,0,{connect},{first},{total},100000,1,10,1,0,10,0,0,4000,0,0,0,0,0,,0,0,0,,,,0,,true,\n",
                times.len()
            )
        };
        let text: String = times.iter().enumerate().map(row).collect();
        read_samples(&format!("{CSV_HEADER}{text}")).unwrap()
    }

    fn parts(scenario: &Scenario, rows: &[Sample]) -> Option<[f64; 3]> {
        Some(Parts::of(scenario, &rows.iter().collect::<Vec<_>>())?.all())
    }

    #[test]
    fn a_cold_download_is_set_up_first_byte_and_transfer() {
        let rows = rows("cold", &[("20000", 50_000, 100_000)]);
        assert_eq!(parts(&Scenario::Download, &rows), Some([20.0, 30.0, 50.0]));
    }

    #[test]
    fn a_warm_download_has_no_set_up() {
        let rows = rows("warm", &[("20000", 30_000, 40_000), ("", 10_000, 100_000)]);
        assert_eq!(parts(&Scenario::Download, &rows), Some([0.0, 10.0, 90.0]));
    }

    #[test]
    fn the_visits_of_a_repeat_are_added_up() {
        let rows = rows(
            "cold",
            &[("20000", 30_000, 40_000), ("5000", 9_000, 60_000)],
        );
        let scenario = Scenario::Repeat(Repeat::default());
        assert_eq!(parts(&scenario, &rows), Some([25.0, 14.0, 61.0]));
    }

    #[test]
    fn what_was_not_told_has_no_parts() {
        let mut rows = rows("cold", &[("20000", 50_000, 100_000)]);
        rows[0].first_byte_us = None;
        assert_eq!(parts(&Scenario::Download, &rows), None);
        assert_eq!(parts(&Scenario::Download, &[]), None);
    }

    #[test]
    fn processor_time_is_the_mean_of_those_that_know_it() {
        let mut rows = rows("cold", &[("1", 2, 3), ("1", 2, 3), ("1", 2, 3)]);
        let of_client = CIRCUMSTANCES
            .iter()
            .find(|(name, _)| *name == "processor time of the client (ms)");
        let met = of_client.unwrap().1;
        assert_eq!(mean(met, rows.iter()), None);
        rows[0].client_cpu_us = Some(2_000);
        rows[2].client_cpu_us = Some(5_000);
        rows[0].server_cpu_us = Some(7_000);
        assert_eq!(mean(met, rows.iter()), Some(3.5));
    }

    #[test]
    fn loss_is_of_all_packets_and_the_queue_is_a_time() {
        let rows = rows("cold", &[("1", 2, 3)]);
        let of = |name: &str| {
            let found = CIRCUMSTANCES.iter().find(|(one, _)| one.starts_with(name));
            mean(found.unwrap().1, rows.iter())
        };
        assert_eq!(of("lost"), Some(5.0));
        assert_eq!(of("longest"), Some(4.0));
        assert_eq!(mean(CIRCUMSTANCES[0].1, [].iter()), None);
    }
}
