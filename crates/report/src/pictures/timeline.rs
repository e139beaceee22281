//! Single transfers over time: when the connection stood, when the first byte came, when all was
//! there; of several requests, a waterfall.

use super::axes;
use super::dimensions::Names;
use super::finding;
use super::{evenly, quantile_of};
use crate::analysis::{Analysis, Arm, CellResult, Pairing};
use crate::figure::{Axis, Bar, Figure, Mark, MarkColor, Panel, Table};
use crate::words::{self, TimeUnit};
use altway_record::{Protocol, Sample};

/// Most requests that a panel shows.
const MAX_REQUESTS: usize = 40;
/// Share of the ink that connecting, waiting and receiving get.
const STRENGTHS: [f64; 3] = [0.2, 0.5, 1.0];
const PHASES: [&str; 3] = ["connecting", "waiting for the first byte", "receiving"];

/// One transfer: the one whose time is nearest to the median of its cell and protocol.
struct ShownTransfer<'b> {
    protocol: Protocol,
    requests: Vec<&'b Sample>,
}

/// The transfers of a cell, a protocol each.
struct CellTimeline<'b> {
    result: &'b CellResult<'b>,
    transfers: Vec<ShownTransfer<'b>>,
}

pub(super) fn figure(analysis: &Analysis<'_>) -> Option<Figure> {
    let names = Names::new(analysis);
    let scenes: Vec<CellTimeline<'_>> = chosen(analysis)
        .into_iter()
        .map(|result| scene(analysis, result))
        .filter(|scene| !scene.transfers.is_empty())
        .collect();
    let first = scenes.first()?;
    let transfers = || scenes.iter().flat_map(|scene| &scene.transfers);
    let most = transfers().map(|one| one.requests.len()).max().unwrap_or(1);
    let panels: Vec<Panel> = if most > 1 {
        scenes
            .iter()
            .flat_map(|scene| waterfalls(scene, &names))
            .collect()
    } else {
        scenes.iter().map(|scene| curves(scene, &names)).collect()
    };
    let rest = if most > MAX_REQUESTS {
        format!(" Shown are {MAX_REQUESTS} of up to {most} requests; samples.csv holds them all.")
    } else {
        String::new()
    };
    Some(Figure {
        name: "timeline".into(),
        title: title(analysis, first, most),
        caption: scenes
            .iter()
            .map(|scene| caption(scene, &names))
            .collect::<Vec<_>>()
            .join(" "),
        legend_text: format!(
            "Light: setting the connection up; medium: waiting for the first byte; full: receiving. \
             Of each protocol the transfer nearest to its median.{}{rest}",
            names.common(&first.result.cell)
        ),
        legend: super::keys(analysis.protocols()),
        panels,
        table: table(&scenes, &names),
    })
}

/// The cell where the first other protocol gains most, and the one where it loses most, as far as
/// they are sure; or else any.
fn chosen<'b>(analysis: &'b Analysis<'_>) -> Vec<&'b CellResult<'b>> {
    let extreme = |sign: f64| {
        let of_other = |other: &Protocol| -> Vec<(&CellResult<'_>, &Pairing<'_>)> {
            finding::pairings(analysis, *other).collect()
        };
        let all = analysis.others.first().map(of_other).unwrap_or_default();
        let size = |pairing: &Pairing<'_>| sign * pairing.comparison.estimate;
        all.into_iter()
            .filter(|(_, pairing)| pairing.excludes_zero() && size(pairing) > 0.0)
            .max_by(|a, b| size(a.1).total_cmp(&size(b.1)))
            .map(|(result, _)| result)
    };
    let sure: Vec<_> = [extreme(-1.0), extreme(1.0)]
        .into_iter()
        .flatten()
        .collect();
    if !sure.is_empty() {
        return sure;
    }
    let measured = |result: &&CellResult<'_>| result.arms.values().any(|arm| !arm.valid.is_empty());
    analysis
        .cells
        .iter()
        .filter(measured)
        .map(|result| -> &CellResult<'_> { result })
        .take(1)
        .collect()
}

fn scene<'b>(analysis: &'b Analysis<'_>, result: &'b CellResult<'b>) -> CellTimeline<'b> {
    let shown = |protocol: Protocol| {
        let ordinal = typical(&result.arms[&protocol])?;
        let samples = analysis.run.samples.iter();
        let mut requests: Vec<&Sample> = samples
            .filter(|sample| sample.ordinal == ordinal && sample.total_us.is_some())
            .collect();
        requests.sort_by_key(|sample| sample.request);
        (!requests.is_empty()).then_some(ShownTransfer { protocol, requests })
    };
    CellTimeline {
        result,
        transfers: analysis.protocols().filter_map(shown).collect(),
    }
}

/// The ordinal of the transfer nearest to the median.
fn typical(arm: &Arm<'_>) -> Option<u64> {
    let median = quantile_of(&arm.times, 0.5);
    let distance = |(_, time): &(&&Sample, &f64)| (**time - median).abs();
    arm.valid
        .iter()
        .zip(&arm.times)
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))
        .map(|(sample, _)| sample.ordinal)
}

/// Time at which a request's connection stood, when its first byte came and when it was done, in µs since
/// the transfer began; each not before the one before it.
fn phases(sample: &Sample) -> [f64; 4] {
    let start = sample.start_us;
    let end = start + sample.total_us.unwrap_or(0);
    let first_byte = sample
        .first_byte_us
        .map_or(end, |time| start + time)
        .min(end);
    let connected = start + sample.connect_us.unwrap_or(0);
    [start, connected.min(first_byte), first_byte, end].map(|time| time as f64)
}

impl CellTimeline<'_> {
    fn unit(&self) -> TimeUnit {
        TimeUnit::for_axis(self.transfers.iter().map(ShownTransfer::end))
    }
}

impl ShownTransfer<'_> {
    /// Time at which all was there, in µs since the transfer began.
    fn end(&self) -> f64 {
        self.requests
            .iter()
            .map(|sample| phases(sample)[3])
            .fold(0.0, f64::max)
    }

    fn bars(&self, sample: &Sample, y: f64, unit: TimeUnit) -> impl Iterator<Item = Bar> {
        let ends = phases(sample);
        let color = MarkColor::Protocol(self.protocol);
        let bar = move |phase: usize| Bar {
            name: PHASES[phase].into(),
            color,
            strength: STRENGTHS[phase],
            y,
            breadth: 0.7,
            x: unit.convert(ends[phase])..unit.convert(ends[phase + 1]),
        };
        (0..3).map(bar).filter(|bar| bar.x.end > bar.x.start)
    }
}

fn time_axis(scene: &CellTimeline<'_>, unit: TimeUnit) -> Axis {
    let end = scene
        .transfers
        .iter()
        .map(ShownTransfer::end)
        .fold(0.0, f64::max);
    axes::round("time", unit.name(), 0.0..1.04 * unit.convert(end).max(1e-6))
}

/// A curve for each protocol: transfers of one request.
fn curves(scene: &CellTimeline<'_>, names: &Names) -> Panel {
    let unit = scene.unit();
    let last = scene.transfers.len() - 1;
    let bars = scene.transfers.iter().enumerate().flat_map(|(i, one)| {
        let y = (last - i) as f64;
        one.requests
            .iter()
            .flat_map(move |sample| one.bars(sample, y, unit))
    });
    let upwards = scene.transfers.iter().rev();
    Panel {
        title: names.of(&scene.result.cell, &[]),
        x: time_axis(scene, unit),
        y: axes::ordered("", upwards.map(|one| one.protocol.name().to_owned())),
        marks: vec![Mark::Bars(bars.collect())],
    }
}

/// A panel for each protocol, a bar for each request, the first at the top.
fn waterfalls<'s>(
    scene: &'s CellTimeline<'_>,
    names: &'s Names,
) -> impl Iterator<Item = Panel> + 's {
    let unit = scene.unit();
    scene.transfers.iter().map(move |one| {
        let shown = evenly(one.requests.clone(), MAX_REQUESTS);
        let last = shown.len() - 1;
        let bars = shown
            .iter()
            .enumerate()
            .flat_map(|(i, sample)| one.bars(sample, (last - i) as f64, unit));
        let place = names.of(&scene.result.cell, &[]);
        let title = match place.as_str() {
            "" => one.protocol.name().to_owned(),
            place => format!("{} · {place}", one.protocol.name()),
        };
        let upwards = shown.iter().rev();
        Panel {
            title,
            x: time_axis(scene, unit),
            y: axes::ordered(
                "request",
                upwards.map(|sample| (sample.request + 1).to_string()),
            ),
            marks: vec![Mark::Bars(bars.collect())],
        }
    })
}

fn title(analysis: &Analysis<'_>, scene: &CellTimeline<'_>, requests: usize) -> String {
    let what = if requests > 1 {
        format!(
            "One {} in detail",
            analysis.run.manifest.plan.scenario.name()
        )
    } else {
        "One transfer in detail".to_owned()
    };
    let protocols = scene
        .transfers
        .iter()
        .map(|one| one.protocol.name().to_owned());
    format!("{what}: {}", words::list(&protocols.collect::<Vec<_>>()))
}

/// Says how far ahead the last protocol is of the first, on the way and at the end.
fn caption(scene: &CellTimeline<'_>, names: &Names) -> String {
    let of_first = |one: &ShownTransfer<'_>| phases(one.requests[0]);
    let text = match scene.transfers.as_slice() {
        [first, .., second] => {
            let by = |phase: usize| gap(of_first(first)[phase] - of_first(second)[phase]);
            format!(
                "{} is connected {} {}, has the first byte {} it and everything {} it.",
                second.protocol.name(),
                by(1),
                first.protocol.name(),
                by(2),
                gap(first.end() - second.end())
            )
        }
        [one, ..] => format!(
            "{} has the first byte after {} and everything after {}.",
            one.protocol.name(),
            words::time(of_first(one)[2]),
            words::time(one.end())
        ),
        [] => String::new(),
    };
    match names.of(&scene.result.cell, &[]) {
        place if place.is_empty() => text,
        place => format!("At {place}, {text}"),
    }
}

/// `20.1 ms before`, from the microseconds that something is ahead.
fn gap(micros: f64) -> String {
    if micros.abs() < 1.0 {
        return "together with".into();
    }
    let word = if micros < 0.0 { "after" } else { "before" };
    format!("{} {word}", words::time(micros.abs()))
}

fn table(scenes: &[CellTimeline<'_>], names: &Names) -> Table {
    let head = [
        "cell",
        "protocol",
        "request",
        "due",
        "connected",
        "first byte",
        "done",
    ];
    let mut rows = Vec::new();
    for scene in scenes {
        let unit = scene.unit();
        for one in &scene.transfers {
            for sample in &one.requests {
                let [due, connected, first_byte, done] = phases(sample);
                let connected = match sample.connect_us {
                    Some(_) => unit.text(connected),
                    None => "–".to_owned(),
                };
                rows.push(vec![
                    names.row(&scene.result.cell),
                    one.protocol.name().to_owned(),
                    (sample.request + 1).to_string(),
                    unit.text(due),
                    connected,
                    unit.text(first_byte),
                    unit.text(done),
                ]);
            }
        }
    }
    Table {
        head: head.map(str::to_owned).to_vec(),
        rows,
    }
}
