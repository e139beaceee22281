//! The plans that ship with altway, so that the binary alone can run them, and plans from files.

use crate::link_profile::LinkProfiles;
use crate::progress::{DurationEstimate, has_tight_timeout};
use crate::side_by_side::{Sharing, worker_count};
use crate::{BadLink, RemainingTransfers, Scheduler, Transfer, experiment};
use altway_record::{File, Plan, PlanError, Shard};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The plan that `altway lab run` takes when none is named.
pub const DEFAULT: &str = "quick";

macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../../plans/", $name, ".toml")))),+]
    };
}

const SHIPPED: [(&str, &str); 25] = shipped![
    "quick",
    "delay-sweep",
    "fine-delay",
    "bandwidth-map",
    "bandwidth-map-whole",
    "bandwidth-map-bbr",
    "lossy-paths",
    "congestion",
    "conditions",
    "environments",
    "egress",
    "certificates",
    "null-axes",
    "page",
    "mixed",
    "repeat",
    "turns-bad",
    "bufferbloat",
    "browsers",
    "browser-limits",
    "selection",
    "selection-quick",
    "selection-lossy",
    "gigabit",
    "population",
];

/// The names of the shipped plans.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.into_iter().map(|(name, _)| name)
}

/// The text of a shipped plan.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    SHIPPED
        .into_iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| text)
}

/// Reasons for which a plan can't be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name is neither a shipped plan's nor a file's.
    #[error("there is no plan `{0}`")]
    None(String),
    /// The file can't be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The place.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file holds no plan.
    #[error("{name} is not a plan")]
    Plan {
        /// The name that was given.
        name: String,
        /// The reason.
        source: PlanError,
    },
    /// A link of the plan can't be.
    #[error("{name} can't be run")]
    Link {
        /// The name that was given.
        name: String,
        /// The reason.
        source: BadLink,
    },
}

/// Reads a shipped plan by its name, or a file. Files that it names are looked for beside it;
/// included names without `.toml` are shipped plans.
///
/// # Errors
/// There is none, or it is no plan.
pub fn read(named: &str) -> Result<Plan, Error> {
    let path = Path::new(named);
    let text = match text(named) {
        Some(text) => text.to_owned(),
        None if path.exists() => std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.into(),
            source,
        })?,
        None => return Err(Error::None(named.into())),
    };
    let mut load = |from: Option<&str>, name: &str| load(from.unwrap_or(named), name);
    let name = || named.to_owned();
    let mut plan = Plan::read(&text, &mut load).map_err(|source| Error::Plan {
        name: name(),
        source,
    })?;
    // A run goes on from any folder.
    for chain in &mut plan.chains {
        if let Ok(path) = std::path::absolute(&chain.path) {
            chain.path = path.display().to_string();
        }
    }
    match LinkProfiles::of(&plan) {
        Ok(_) => Ok(plan),
        Err(source) => Err(Error::Link {
            name: name(),
            source,
        }),
    }
}

/// The transfers of a part of `plan`, at most, and how long they take on this machine, about.
///
/// # Errors
/// A link of the plan can't be.
pub fn cost(plan: &Plan, shard: Shard) -> Result<(u64, Duration), BadLink> {
    cost_of(plan, &Scheduler::new(plan, shard, &[]).left())
}

/// The same of the first batch: of adaptive sampling the round that it always makes.
///
/// # Errors
/// A link of the plan can't be.
pub fn first_cost(plan: &Plan, shard: Shard) -> Result<(u64, Duration), BadLink> {
    let batch = Scheduler::new(plan, shard, &[]).next_batch();
    let one = |transfer: &Transfer| RemainingTransfers {
        cell: transfer.cell,
        arm: transfer.arm,
        count: 1,
    };
    cost_of(plan, &batch.iter().map(one).collect::<Vec<_>>())
}

fn cost_of(plan: &Plan, left: &[RemainingTransfers]) -> Result<(u64, Duration), BadLink> {
    let sharing = Sharing::of(plan, &LinkProfiles::of(plan)?);
    let workers = u32::try_from(worker_count(plan, experiment::processors())).unwrap_or(u32::MAX);
    let time = DurationEstimate::of(plan).predict_shared(left, workers, &sharing);
    Ok((RemainingTransfers::total(left), time))
}

/// Counts the cells of a part of `plan` whose transfers may be cut off by its `timeout` for being slow
/// and nothing else. Only the fast transfers of such a cell are left, and fewer of the slower protocol.
#[must_use]
pub fn cells_with_tight_timeout(plan: &Plan, shard: Shard) -> usize {
    let cells = plan.part(shard);
    let tight = cells.iter().filter(|cell| has_tight_timeout(plan, cell));
    tight.count()
}

/// The file `name` that is named in the file `from`.
fn load(from: &str, name: &str) -> Result<File, String> {
    if let Some(text) = text(name) {
        return Ok(File {
            name: name.into(),
            text: text.into(),
        });
    }
    let beside = Path::new(from).parent().unwrap_or(Path::new(""));
    let path = beside.join(name);
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(File {
        name: path.display().to_string(),
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_record::{Client, Congestion, Policy, Rate, Sampling, Scenario, Topology};
    use std::time::Duration;

    fn plan(name: &str) -> Plan {
        read(name).unwrap()
    }

    fn milliseconds(values: &[f64]) -> Vec<Duration> {
        let one = |value: &f64| Duration::from_secs_f64(value / 1e3);
        values.iter().map(one).collect()
    }

    fn mbit(values: &[u64]) -> Vec<Rate> {
        let one = |value: &u64| format!("{value}mbit").parse().unwrap();
        values.iter().map(one).collect()
    }

    #[test]
    fn every_shipped_plan_is_valid_and_bears_its_name() {
        for name in names() {
            let plan = plan(name);
            assert_eq!(plan.name, name);
            assert!(!plan.description.is_empty());
            assert!(plan.null_arm, "{name} has no null arm");
            assert_eq!(
                cells_with_tight_timeout(&plan, Shard::WHOLE),
                0,
                "{name} cuts off slow transfers"
            );
        }
        assert!(text(DEFAULT).is_some());
    }

    #[test]
    fn delay_sweep_goes_to_200_ms_in_25_pairs() {
        let plan = plan("delay-sweep");
        let delays: Vec<_> = (0..=8).map(|i| Duration::from_millis(25 * i)).collect();
        assert_eq!(plan.delays, delays);
        assert_eq!(plan.rates, mbit(&[5]));
        assert_eq!(plan.sizes[0].as_bytes(), 1_000_000);
        assert_eq!(plan.pairs, 25);
    }

    #[test]
    fn fine_delay_goes_by_quarters_to_2_ms_and_on_to_100() {
        let delays = plan("fine-delay").delays;
        let quarters: Vec<f64> = (0..=8).map(|i| f64::from(i) * 0.25).collect();
        assert_eq!(delays[..9], milliseconds(&quarters));
        assert_eq!(delays[9], Duration::from_millis(5));
        assert_eq!(delays.last(), Some(&Duration::from_millis(100)));
    }

    #[test]
    fn the_whole_bandwidth_map_is_the_studys_by_two_clients() {
        let plan = plan("bandwidth-map-whole");
        assert_eq!(plan.rates, mbit(&[50, 100, 200, 400, 600]));
        assert_eq!(
            plan.delays,
            milliseconds(&[0.0, 5.0, 10.0, 15.0, 20.0, 25.0])
        );
        let losses: Vec<_> = (0..=5).map(|i| format!("{i}%").parse().unwrap()).collect();
        assert_eq!(plan.losses, losses);
        assert_eq!(plan.sizes[0].as_bytes(), 10_000_000);
        assert_eq!(plan.clients, [Client::Altway, Client::Chromium]);
        // The study made 400 loads in each cell; in a tenth of these pairs the line is found.
        assert_eq!((plan.pairs, plan.sampling), (60, Sampling::Adaptive));
    }

    #[test]
    fn the_scaled_bandwidth_map_has_three_rates_on_the_same_axes() {
        let plan = plan("bandwidth-map");
        assert!(plan.rates.len() >= 3);
        assert_eq!(plan.delays.last(), Some(&Duration::from_millis(25)));
        assert_eq!(plan.losses.last().unwrap().to_string(), "5%");
    }

    #[test]
    fn lossy_paths_are_measured_by_congestion_control_in_about_a_quarter_of_an_hour() {
        let plan = plan("lossy-paths");
        let both = |one: &Congestion| (one.tcp(), one.quic());
        let controls: Vec<_> = plan.congestions.iter().map(both).collect();
        let expected = [("cubic", "cubic"), ("bbr", "bbr"), ("bbr", "cubic")];
        assert_eq!(controls, expected);
        let sharing = Sharing::of(&plan, &LinkProfiles::of(&plan).unwrap());
        let left = Scheduler::new(&plan, Shard::WHOLE, &[]).left();
        let time = DurationEstimate::of(&plan).predict_shared(&left, 4, &sharing);
        // Most cells are clear at the first look, after half their pairs.
        assert!(time < Duration::from_secs(30 * 60), "{time:?}");
    }

    #[test]
    fn conditions_have_the_rates_and_objects_of_the_earlier_lab() {
        let plan = plan("conditions");
        assert!(plan.rates.contains(&Rate::Unlimited));
        assert!(mbit(&[1, 5]).iter().all(|rate| plan.rates.contains(rate)));
        assert!(plan.delays.contains(&Duration::from_millis(50)));
        assert!(plan.sizes.iter().any(|size| size.as_bytes() == 10_000_000));
    }

    #[test]
    fn environments_run_the_topologies_that_share_one_link() {
        let plan = plan("environments");
        let on_the_link = [Topology::Direct, Topology::Router, Topology::Proxied];
        assert_eq!(plan.topologies, on_the_link);
        assert_eq!(plan.delays[..3], milliseconds(&[0.0, 1.0, 2.0]));
    }

    #[test]
    fn egress_asks_for_the_place_and_the_length_of_the_queue() {
        let plan = plan("egress");
        let places = [Topology::Direct, Topology::Egress, Topology::EgressPackets];
        assert_eq!(plan.topologies, places);
        assert_eq!(plan.queues.len(), 3);
        assert!(plan.null_arm);
    }

    #[test]
    fn certificates_and_controls_that_decide_have_plans_with_a_null_arm() {
        let certificates = plan("certificates");
        assert_eq!(certificates.certificates.len(), 2);
        assert_eq!(certificates.certificate_compressions, [true, false]);
        let (map, bbr) = (plan("bandwidth-map"), plan("bandwidth-map-bbr"));
        assert_eq!((bbr.rates, bbr.delays), (map.rates, map.delays));
        assert_eq!(bbr.congestions.len(), 2);
        assert!(certificates.null_arm && bbr.null_arm);
    }

    #[test]
    fn a_null_arm_over_the_servers_conditions_has_enough_pairs_for_an_interval() {
        let plan = plan("null-axes");
        let axes = (plan.certificates.len(), plan.initial_windows.len());
        assert_eq!((axes, plan.congestions.len()), ((2, 2), 3));
        assert!(plan.null_arm && plan.pairs as usize >= altway_stats::FEW_PAIRS);
        let (_, time) = cost(&plan, Shard::WHOLE).unwrap();
        assert!(time < Duration::from_secs(45 * 60), "{time:?}");
    }

    #[test]
    fn each_scenario_has_a_plan() {
        let names = ["page", "mixed", "repeat"];
        for name in names {
            assert_eq!(plan(name).scenario.name(), name);
        }
        assert_eq!(plan("quick").scenario, Scenario::Download);
    }

    #[test]
    fn selection_has_the_nine_conditions_of_the_study_and_more_rates() {
        let plan = plan("selection");
        assert_eq!(plan.policies, Policy::ALL);
        assert_eq!(plan.rates, mbit(&[50, 200, 600, 1000]));
        assert_eq!(plan.delays, milliseconds(&[0.0, 12.5, 25.0]));
        assert_eq!(plan.losses.len(), 3);
        assert_eq!(plan.sizes[0].as_bytes(), 10_000_125);
        // An entry of a minute holds ten seconds later, and not an hour later.
        let (short, long) = (Duration::from_secs(10), Duration::from_secs(3_600));
        assert_eq!(plan.apart, [short, long]);
    }

    #[test]
    fn a_path_turns_bad_and_a_queue_is_too_long() {
        let turns_bad = plan("turns-bad");
        let changing = turns_bad.links.iter().filter(|link| !link.at.is_empty());
        assert_eq!((changing.count(), turns_bad.links.len()), (2, 3));
        let bufferbloat = plan("bufferbloat");
        assert!(
            bufferbloat
                .links
                .iter()
                .any(|link| link.set.contains("codel"))
        );
    }

    #[test]
    fn side_by_side_takes_a_share_of_the_time() {
        let plan = plan("quick");
        let alone = cost(&plan, Shard::WHOLE).unwrap();
        let four = cost(
            &plan.at_once(altway_record::SideBySide::AtMost(4)),
            Shard::WHOLE,
        )
        .unwrap();
        assert_eq!((four.0, four.1), (alone.0, alone.1 / 4));
    }

    #[test]
    fn a_link_that_can_not_be_is_said_before_anything_is_set_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.toml");
        std::fs::write(&path, "include = \"quick\"\nlink = \"lots 5%\"").unwrap();
        let error = read(path.to_str().unwrap()).unwrap_err();
        let Error::Link { source, .. } = error else {
            panic!("{error}");
        };
        assert!(
            source.to_string().contains("`lots` is no setting"),
            "{source}"
        );
    }

    #[test]
    fn browsers_load_the_page_of_the_plan_page() {
        let (browsers, page) = (plan("browsers"), plan("page"));
        assert_eq!(browsers.scenario, page.scenario);
        assert!(
            browsers
                .clients
                .iter()
                .filter(|one| one.is_browser())
                .count()
                == 2
        );
        assert!(browsers.clients.contains(&Client::Altway));
    }

    #[test]
    fn files_are_found_beside_the_plan_that_names_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        file("common.toml", "include = \"quick\"\npairs = 3");
        let own = file("own.toml", "include = \"common.toml\"\nname = \"own\"");
        let plan = read(&own).unwrap();
        assert_eq!((plan.name.as_str(), plan.pairs), ("own", 3));
        assert_eq!(plan.rates, read("quick").unwrap().rates);
        let lost = file("lost.toml", "include = \"none.toml\"");
        let Err(Error::Plan { source, .. }) = read(&lost) else {
            panic!("it includes what is not there");
        };
        assert!(source.to_string().contains("cannot read"), "{source}");
        assert!(matches!(read("nothing"), Err(Error::None(_))));
    }
}
