//! The links of a plan as the link crate has them: what a cell's link is like from the start on, and
//! what changes later.
//!
//! Plans hold texts (`record` knows no link); here they become what they mean, once and before
//! anything is set up.

use altway_link::{
    Change, Config, LossModel, Queue, Rate, Schedule, ScheduledChange, Trace, UdpTreatment,
};
use altway_record::{Cell, LinkName, LinkWords, Plan, Protocol, QueueLimit};
use altway_units::{Bandwidth, Ratio};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The rate up to which a link leaves its machine time for others.
pub(crate) const SLOW: Bandwidth = Bandwidth::from_mbit(20).expect("more than 0");

/// Fault in a link of a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the link `{name}`: {what}")]
pub struct BadLink {
    name: LinkName,
    what: String,
    hint: &'static str,
}

impl BadLink {
    /// Returns a hint on how to mend it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        self.hint
    }
}

/// The links of a plan.
#[derive(Debug, Clone)]
pub(crate) struct LinkProfiles(BTreeMap<LinkName, Words>);

/// A link's words, understood.
#[derive(Debug, Clone)]
struct Words {
    traces: [Option<Arc<Trace>>; 2],
    set: Option<Change>,
    schedule: Schedule,
}

/// Condition of a cell's link over time.
#[derive(Debug, Clone)]
pub(crate) struct LinkProfile {
    /// Direction from the client to the server, at the start.
    pub(crate) up: Config,
    /// Direction from the server to the client, at the start.
    pub(crate) down: Config,
    /// Changes after the start.
    pub(crate) schedule: Schedule,
}

impl LinkProfiles {
    /// Understands the links of a plan.
    ///
    /// # Errors
    /// One has words that no link knows, or takes the place of an axis.
    pub(crate) fn of(plan: &Plan) -> Result<Self, BadLink> {
        let mut profiles = BTreeMap::new();
        for link in &plan.links {
            let words = Words::of(link)?;
            if let Some(set) = &words.set {
                refuse_overridden(plan, link, set)?;
            }
            refuse_lost_rate(plan, link, &words)?;
            profiles.insert(link.name, words);
        }
        let profiles = Self(profiles);
        for cell in plan.cells() {
            let profile = profiles.cell(&cell);
            profile.refuse_black_hole(cell.link)?;
            profile.refuse_blocked_http3(plan, cell.link)?;
        }
        Ok(profiles)
    }

    /// Returns the condition of the link of `cell` over time.
    ///
    /// # Panics
    /// The cell is of another plan.
    pub(crate) fn cell(&self, cell: &Cell) -> LinkProfile {
        let words = self.0.get(&cell.link);
        let words = words.expect("the cell is of this plan");
        let [mut up, mut down] = [0, 1].map(|way| words.start(cell, way));
        if let Some(set) = &words.set {
            set.apply(&mut up, &mut down);
        }
        let schedule = words.schedule.clone();
        LinkProfile { up, down, schedule }
    }
}

impl Words {
    fn of(link: &LinkWords) -> Result<Self, BadLink> {
        let set = (!link.set.trim().is_empty()).then_some(&link.set);
        let set = set.map(|set| change(link, set)).transpose()?;
        let scheduled = |scheduled: &altway_record::LinkChange| {
            Ok(ScheduledChange {
                after: scheduled.time,
                change: change(link, &scheduled.set)?,
            })
        };
        let changes: Vec<_> = link
            .at
            .iter()
            .map(scheduled)
            .collect::<Result<_, BadLink>>()?;
        let schedule = Schedule::new(changes).map_err(|error| bad(link, error.to_string()))?;
        let [both, up, down] = link.traces().map(|(key, text)| trace(link, key, text));
        let both = both?;
        let traces = [up?.or_else(|| both.clone()), down?.or(both)];
        Ok(Self {
            traces,
            set,
            schedule,
        })
    }

    /// Returns the configuration of a direction as the axes and traces have it.
    fn start(&self, cell: &Cell, way: usize) -> Config {
        let rate = match &self.traces[way] {
            Some(trace) => Rate::Trace(Arc::clone(trace)),
            None => Rate::from(cell.rate.limit()),
        };
        Config {
            queue: match cell.queue {
                QueueLimit::Default => Queue::default_for(&rate),
                QueueLimit::Bytes(size) => Queue::Bytes(size),
                QueueLimit::Packets(count) => Queue::Packets(count),
                QueueLimit::Time(time) => Queue::Time(time),
                QueueLimit::Unlimited => Queue::Unlimited,
            },
            rate,
            delay: cell.delay,
            loss: cell.loss.into(),
            ..Config::default()
        }
    }
}

impl LinkProfile {
    /// Returns whether both directions are slow from the start to the end, so that a machine that carries it
    /// mostly waits. A rate from a trace is taken for fast: it may be so at times.
    pub(crate) fn is_slow(&self) -> bool {
        let slow = |config: &Config| matches!(&config.rate, Rate::Fixed(rate) if *rate <= SLOW);
        let (mut up, mut down) = (self.up.clone(), self.down.clone());
        let mut changes = self.schedule.changes().iter();
        slow(&up)
            && slow(&down)
            && changes.all(|scheduled| {
                scheduled.change.apply(&mut up, &mut down);
                slow(&up) && slow(&down)
            })
    }

    fn refuse_black_hole(&self, name: LinkName) -> Result<(), BadLink> {
        let all = LossModel::Random(Ratio::ONE);
        if self.up.loss != all && self.down.loss != all {
            return Ok(());
        }
        Err(BadLink {
            name,
            what: "with a loss of 100% from the start on nothing ever arrives".into(),
            hint: "take a loss below 100%, or let it come and go with `at`",
        })
    }

    /// Refuses a link that blocks UDP where clients are told to speak HTTP/3 and nothing else; under a
    /// policy they fall back.
    fn refuse_blocked_http3(&self, plan: &Plan, name: LinkName) -> Result<(), BadLink> {
        let is_blocked = [&self.up, &self.down].map(|way| way.udp == UdpTreatment::Block);
        let must = plan.policies.is_empty() && plan.protocols.contains(&Protocol::H3);
        if !must || is_blocked == [false, false] {
            return Ok(());
        }
        Err(BadLink {
            name,
            what: "with UDP blocked from the start on nothing ever arrives over HTTP/3".into(),
            hint: "say `policy = [\"h2\", \"h3\"]`, so that clients fall back to HTTP/2, leave h3 out of `protocols`, or let it come and go with `at`",
        })
    }
}

fn bad(link: &LinkWords, what: String) -> BadLink {
    let name = link.name;
    let hint = "`altway emulate set --help` has the words of a link, with examples";
    BadLink { name, what, hint }
}

fn change(link: &LinkWords, text: &str) -> Result<Change, BadLink> {
    text.parse()
        .map_err(|error: altway_link::ChangeError| bad(link, error.to_string()))
}

fn trace(link: &LinkWords, key: &str, text: Option<&str>) -> Result<Option<Arc<Trace>>, BadLink> {
    let read = text.map(str::parse::<Trace>).transpose();
    let read = read.map_err(|error| BadLink {
        hint: "lines of whole ms (mahimahi), or CSV: a header `time_s,rate_mbit`, then lines like `0,20`",
        ..bad(link, format!("its `{key}` is no trace of a rate: {error}"))
    });
    Ok(read?.map(Arc::new))
}

/// Refuses settings of both directions that leave an axis of the plan without effect: tables and
/// pictures would tell values that nothing had.
fn refuse_overridden(plan: &Plan, link: &LinkWords, set: &Change) -> Result<(), BadLink> {
    let says_loss = plan.losses != [Ratio::ZERO];
    let says_queue = plan.queues != [QueueLimit::Default];
    let overridden = [
        ("rate", true, overrides(set, |config| &config.rate)),
        ("delay", true, overrides(set, |config| &config.delay)),
        ("loss", says_loss, overrides(set, |config| &config.loss)),
        ("queue", says_queue, overrides(set, |config| &config.queue)),
    ];
    let found = overridden.iter().find(|(_, said, sets)| *said && *sets);
    found.map_or(Ok(()), |(axis, _, _)| {
        Err(BadLink {
            hint: "say it by that key; a link may set it for one direction (`up`, `down`), or change it later with `at`",
            ..bad(link, format!("it sets what the plan's `{axis}` says"))
        })
    })
}

/// Returns whether both directions have the same after `set`, whatever they had before.
fn overrides<T: PartialEq>(set: &Change, part: impl Fn(&Config) -> &T) -> bool {
    let after = |number: u32| {
        let (mut up, mut down) = (probe(number), probe(number));
        set.apply(&mut up, &mut down);
        (up, down)
    };
    let (one, two) = (after(1), after(2));
    part(&one.0) == part(&two.0) && part(&one.1) == part(&two.1)
}

/// Parameters of which each differs for another number.
fn probe(number: u32) -> Config {
    Config {
        rate: Rate::from(Bandwidth::from_bps(u64::from(number))),
        delay: Duration::from_nanos(u64::from(number)),
        loss: Ratio::from_parts_per_billion(number)
            .unwrap_or(Ratio::ZERO)
            .into(),
        queue: Queue::Packets(number),
        ..Config::default()
    }
}

/// Traces of both directions leave the axis `rate` without effect, unless it says nothing.
fn refuse_lost_rate(plan: &Plan, link: &LinkWords, words: &Words) -> Result<(), BadLink> {
    let says_nothing = plan.rates == [altway_record::Rate::Unlimited];
    if says_nothing || words.traces.iter().any(Option::is_none) {
        return Ok(());
    }
    Err(BadLink {
        hint: "say `rate = \"unlimited\"` where the trace is to decide, or give one of `up_rate_trace` and `down_rate_trace`",
        ..bad(
            link,
            "its trace takes the place of the plan's `rate`".into(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(more: &str) -> Plan {
        let text = format!("name = \"p\"\ndelay = \"10ms\"\nsize = \"1KB\"\npairs = 1\n{more}");
        text.parse().unwrap()
    }

    fn profile(more: &str) -> LinkProfile {
        let plan = plan(more);
        let profiles = LinkProfiles::of(&plan).unwrap();
        profiles.cell(plan.cells().last().unwrap())
    }

    fn refused(more: &str) -> String {
        let error = LinkProfiles::of(&plan(more)).unwrap_err();
        assert!(!error.hint().is_empty());
        error.to_string()
    }

    #[test]
    fn the_queue_is_what_the_cell_says() {
        let queue = |queue: &str| {
            profile(&format!("rate = \"5mbit\"\nqueue = \"{queue}\""))
                .down
                .queue
        };
        assert_eq!(queue("unlimited"), Queue::Unlimited);
        assert_eq!(
            queue("7KB"),
            Queue::Bytes(altway_units::DataSize::from_bytes(7_000))
        );
        assert_eq!(queue("50packets"), Queue::Packets(50));
        assert_eq!(queue("30ms"), Queue::Time(Duration::from_millis(30)));
        let rate: Bandwidth = "5mbit".parse().unwrap();
        assert_eq!(queue("default"), Queue::default_for(&rate.into()));
    }

    #[test]
    fn words_hold_over_the_axes_from_the_start_and_changes_come_later() {
        let profile = profile(
            "rate = \"5mbit\"\nlink = [\"plain\", {name = \"bad\", set = \"up rate 1mbit, jitter 2ms\", \
             at = {3s = \"loss 5%, delay 100ms\"}}]",
        );
        assert_eq!(profile.up.rate, Rate::from(Bandwidth::from_mbit(1)));
        assert_eq!(profile.up.queue, Queue::default_for(&profile.up.rate));
        assert_eq!(profile.down.rate, Rate::from(Bandwidth::from_mbit(5)));
        assert_eq!(profile.down.jitter, "2ms".parse().unwrap());
        assert_eq!(profile.down.delay, Duration::from_millis(10));
        let changes = profile.schedule.changes();
        assert_eq!((changes.len(), changes[0].after.as_secs()), (1, 3));
    }

    #[test]
    fn a_trace_takes_the_place_of_the_rate() {
        let link = LinkWords {
            down_rate_trace: Some("time_s,rate_mbit\n0,20\n3,2\n".into()),
            ..LinkWords::named("lte".parse().unwrap(), String::new())
        };
        let plan = Plan {
            links: vec![link.clone()],
            ..plan("rate = \"5mbit\"")
        };
        let profile = LinkProfiles::of(&plan).unwrap().cell(&plan.cells()[0]);
        assert!(matches!(profile.down.rate, Rate::Trace(_)) && !profile.is_slow());
        assert_eq!(profile.up.rate, Rate::from(Bandwidth::from_mbit(5)));
        let both = LinkWords {
            rate_trace: Some("nothing".into()),
            ..link
        };
        let error = LinkProfiles::of(&Plan {
            links: vec![both.clone()],
            ..plan.clone()
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains("its `rate_trace` is no trace"), "{error}");
        let both = LinkWords {
            rate_trace: both.down_rate_trace.clone(),
            ..both
        };
        let error = LinkProfiles::of(&Plan {
            links: vec![both],
            ..plan
        });
        assert!(error.unwrap_err().to_string().contains("takes the place"));
    }

    #[test]
    fn a_link_is_slow_when_it_is_so_both_ways_all_the_time() {
        let slow = |more: &str| profile(more).is_slow();
        assert!(slow("rate = \"20mbit\""));
        assert!(!slow("rate = \"21mbit\"") && !slow("rate = \"unlimited\""));
        assert!(!slow("rate = \"1mbit\"\nlink = \"up rate 30mbit\""));
        assert!(slow(
            "rate = \"1mbit\"\nlink = {name = \"x\", at = {1s = \"rate 2mbit\"}}"
        ));
        assert!(!slow(
            "rate = \"1mbit\"\nlink = {name = \"x\", at = {1s = \"rate none\"}}"
        ));
    }

    #[test]
    fn what_can_be_no_link_is_said_with_its_name() {
        let rate = "rate = \"5mbit\"\n";
        let error = refused(&format!("{rate}link = \"lots 5%\""));
        assert!(
            error.starts_with("the link `lots 5%`: `lots` is no setting"),
            "{error}"
        );
        let error = refused(&format!(
            "{rate}link = {{name = \"x\", at = {{1s = \"loss 5\"}}}}"
        ));
        assert!(error.starts_with("the link `x`: `loss`"), "{error}");
        for both_ways in ["delay 5ms", "rate 1mbit"] {
            let error = refused(&format!("{rate}link = \"{both_ways}\""));
            assert!(error.contains("it sets what the plan's"), "{error}");
        }
        let twice = refused(&format!(
            "{rate}loss = [\"0%\", \"1%\"]\nlink = \"loss gilbert 1% burst 4\""
        ));
        assert!(twice.contains("the plan's `loss`"), "{twice}");
        profile(&format!("{rate}link = \"loss gilbert 1% burst 4\""));
        profile(&format!("{rate}link = \"up delay 5ms\""));
        let hole = refused(&format!("{rate}link = \"down loss 100%\""));
        assert!(hole.contains("nothing ever arrives"), "{hole}");
    }

    #[test]
    fn udp_is_treated_as_the_words_say_from_the_start_and_later() {
        let later = "at = {3s = \"udp block\", 9s = \"udp pass\"}";
        let profile = profile(&format!(
            "rate = \"5mbit\"\nlink = {{name = \"x\", set = \"down udp rate 2mbit burst 64KB\", {later}}}"
        ));
        assert_eq!(profile.up.udp, UdpTreatment::Pass);
        assert_eq!(profile.down.udp, "rate 2mbit burst 64KB".parse().unwrap());
        let (mut up, mut down) = (profile.up, profile.down);
        let changes = profile.schedule.changes();
        changes[0].change.apply(&mut up, &mut down);
        assert_eq!([up.udp, down.udp], [UdpTreatment::Block; 2]);
        changes[1].change.apply(&mut up, &mut down);
        assert_eq!([up.udp, down.udp], [UdpTreatment::Pass; 2]);
    }

    #[test]
    fn udp_may_be_blocked_only_where_clients_fall_back() {
        for words in ["udp block", "up udp block", "down udp block"] {
            let link = format!("rate = \"5mbit\"\nlink = \"{words}\"");
            let hole = refused(&link);
            assert!(hole.contains("nothing ever arrives over HTTP/3"), "{hole}");
            profile(&format!("{link}\nprotocols = [\"h1\", \"h2\"]"));
            profile(&format!("{link}\npolicy = [\"h2\", \"h3\"]"));
        }
    }
}
