//! Cells of runs as a fit takes them, and those that it can't take.

use altway_record::{
    Cell, Client, Congestion as Control, Connection, LinkName, Manifest, OPENER_SIZE, Protocol,
    Rate, Sample, Scenario, ServerName, Topology, transfers,
};
use altway_select::fit::MeasuredCell;
use altway_select::{ClientClass, Congestion, Exchange, Family, Platform};
use altway_stats::{log_ratios, summarize};
use std::collections::BTreeMap;

/// Pairs of a cell from which on its median is one.
const LEAST_PAIRS: usize = 3;

/// Objects above which losses hold up several.
const FEW: usize = 3;

/// Cells of all runs.
#[derive(Debug, Default)]
pub(super) struct Cells {
    pub(super) taken: Vec<FittedCell>,
    /// Counts of those that were left out, by the reason.
    pub(super) left_out: BTreeMap<&'static str, usize>,
}

/// A cell that the fit takes.
#[derive(Debug)]
pub(super) struct FittedCell {
    pub(super) run: String,
    pub(super) condition: Cell,
    pub(super) measured: MeasuredCell,
}

/// Times in seconds of both protocols, of each block.
type Times = BTreeMap<u32, [Option<f64>; 2]>;

impl Cells {
    /// Adds the cells of a run.
    pub(super) fn add(&mut self, run: &str, manifest: &Manifest, samples: &[Sample]) {
        let mut cells: BTreeMap<u32, (Cell, Times)> = BTreeMap::new();
        let counts = |sample: &&Sample| sample.valid && !sample.null_arm;
        for sample in transfers(samples).filter(counts) {
            let place = match sample.protocol {
                Protocol::H2 => 0,
                Protocol::H3 => 1,
                Protocol::H1 => continue,
            };
            let Some(time) = sample.compared_us.filter(|time| *time > 0) else {
                continue;
            };
            let (_, times) = cells
                .entry(sample.cell)
                .or_insert_with(|| (sample.condition(), Times::new()));
            times.entry(sample.block).or_default()[place] = Some(time as f64 / 1e6);
        }
        for (condition, times) in cells.into_values() {
            // The time of a policy is that of all its sessions, of which the first moves.
            let measured = match manifest.plan.policies.is_empty() {
                true => measured(&manifest.plan.scenario, &condition, &times),
                false => Err("of policies, whose clients come back"),
            };
            match measured {
                Ok(measured) => self.taken.push(FittedCell {
                    run: run.into(),
                    condition,
                    measured,
                }),
                Err(reason) => *self.left_out.entry(reason).or_default() += 1,
            }
        }
    }

    /// Congestion control of TCP and of QUIC in the cells, each pair once.
    pub(super) fn congestion(&self) -> Vec<[Congestion; 2]> {
        let mut pairs = Vec::new();
        for cell in &self.taken {
            if !pairs.contains(&cell.measured.congestion) {
                pairs.push(cell.measured.congestion);
            }
        }
        pairs
    }

    /// The cells that are fitted.
    pub(super) fn measured(&self) -> Vec<MeasuredCell> {
        self.taken.iter().map(|cell| cell.measured).collect()
    }
}

fn measured(scenario: &Scenario, cell: &Cell, times: &Times) -> Result<MeasuredCell, &'static str> {
    let Rate::Limited(rate) = cell.rate else {
        return Err("without a rate limit");
    };
    match cell.topology {
        Topology::Direct | Topology::Router => {}
        Topology::Proxied => return Err("behind proxies"),
        Topology::Egress | Topology::EgressPackets => {
            return Err("of ends that shape what they send");
        }
    }
    if cell.server != ServerName::ALTWAY || cell.link != LinkName::PLAIN {
        return Err("of other servers or links");
    }
    let exchange = exchange(scenario, cell).ok_or("of scenarios that it does not know")?;
    let pairs = times.values().filter_map(|[h2, h3]| (*h2).zip(*h3));
    let (h2, h3): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let few = "with fewer than three pairs";
    if h2.len() < LEAST_PAIRS {
        return Err(few);
    }
    let ratios = log_ratios(&h2, &h3).ok_or(few)?;
    let (difference, error) = median_and_error(&ratios);
    Ok(MeasuredCell {
        class: ClientClass::new(family(cell.client), Platform::Linux),
        rate: rate.as_bps() as f64,
        // A link without delay is no link without time.
        rtt: (2.0 * cell.delay.as_secs_f64()).max(1e-4),
        loss: cell.loss.as_f64().min(0.999),
        congestion: congestion(cell.congestion),
        exchange,
        h2: summarize(&h2).ok_or(few)?.median,
        difference,
        error,
    })
}

fn exchange(scenario: &Scenario, cell: &Cell) -> Option<Exchange> {
    let size = cell.size.as_bytes() as f64;
    let alone = Exchange::object(size, cell.connection == Connection::Cold);
    match scenario {
        Scenario::Download if cell.client.is_browser() => Some(Exchange {
            document: OPENER_SIZE.as_bytes() as f64,
            objects: size,
            ..alone
        }),
        Scenario::Download => Some(alone),
        Scenario::Page(page) => {
            let document = page.html.as_bytes() as f64;
            Some(Exchange {
                document,
                objects: (size - document).max(0.0),
                many: page.objects.len() > FEW,
                ..alone
            })
        }
        Scenario::Mixed(_) | Scenario::Repeat(_) => None,
    }
}

fn family(client: Client) -> Family {
    match client {
        Client::Altway => Family::Altway,
        Client::Curl => Family::Curl,
        Client::Chromium => Family::Chromium,
        Client::Firefox => Family::Firefox,
    }
}

/// TCP's and QUIC's, in the terms of the selector.
fn congestion(control: Control) -> [Congestion; 2] {
    [control.tcp(), control.quic()].map(Congestion::of_name)
}

/// The median, and the standard error of it for a normal distribution.
fn median_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
    let median = summarize(values).map_or(mean, |summary| summary.median);
    (median, 1.253 * deviation / count.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_has_its_own_kind_of_congestion_control() {
        let (loss, rate) = (Congestion::LossBased, Congestion::RateBased);
        for (control, kinds) in [
            (Control::Cubic, [loss, loss]),
            (Control::Reno, [loss, loss]),
            (Control::Bbr, [rate, rate]),
            (Control::TcpBbrQuicCubic, [rate, loss]),
        ] {
            assert_eq!(congestion(control), kinds, "{control}");
        }
    }

    #[test]
    fn cells_are_taken_with_their_medians_or_left_out_with_a_reason() {
        let manifest = include_str!("../../../../../report/tests/data/manifest.json");
        let manifest = Manifest::from_json(manifest).unwrap();
        let samples = include_str!("../../../../../report/tests/data/samples.csv");
        let mut samples = altway_record::read_samples(samples).unwrap();
        let mut cells = Cells::default();
        cells.add("run", &manifest, &samples);
        let count = cells.taken.len();
        assert!(count > 0 && cells.left_out.is_empty(), "{cells:?}");
        assert_eq!(cells.congestion(), [[Congestion::LossBased; 2]]);
        let first = &cells.taken[0];
        assert!((0.001..100.0).contains(&first.measured.h2), "{first:?}");
        assert!(
            first.measured.difference.abs() < 1.0
                && first.measured.class.to_string() == "altway-linux"
        );
        for sample in &mut samples {
            sample.rate_bps = None;
        }
        let mut none = Cells::default();
        none.add("run", &manifest, &samples);
        assert_eq!(none.left_out.get("without a rate limit"), Some(&count));
        assert!(none.taken.is_empty());
    }

    #[test]
    fn what_policies_took_is_no_time_of_a_protocol() {
        let manifest = include_str!("../../../../../report/tests/data/manifest.json");
        let mut manifest = Manifest::from_json(manifest).unwrap();
        manifest.plan.policies = vec![altway_record::Policy::H2, altway_record::Policy::H3];
        let samples = include_str!("../../../../../report/tests/data/samples.csv");
        let samples = altway_record::read_samples(samples).unwrap();
        let mut cells = Cells::default();
        cells.add("run", &manifest, &samples);
        assert!(
            cells.taken.is_empty() && cells.left_out.len() == 1,
            "{cells:?}"
        );
    }

    #[test]
    fn the_median_of_equal_values_has_no_error() {
        assert_eq!(median_and_error(&[0.5; 4]), (0.5, 0.0));
        let (median, error) = median_and_error(&[0.0, 0.1, 0.2]);
        assert!((median - 0.1).abs() < 1e-12 && (error - 0.0723).abs() < 1e-3);
    }
}
