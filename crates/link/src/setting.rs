//! A parameter of a link in words: its name, its value, what it does to a [`Config`].

use crate::{
    ChangeError, Config, Discipline, Error, Jitter, LossModel, Queue, Rate, Reordering,
    UdpTreatment,
};
use altway_units::{Bandwidth, Ratio, duration};
use std::fmt;
use std::time::Duration;

/// Directions that a setting is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectionSet {
    /// Both directions.
    Both,
    /// The direction from the client to the server.
    Up,
    /// The direction from the server to the client.
    Down,
}

/// A parameter and its new value; [`Change`](crate::Change) has how each is written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Setting {
    /// [`Config::rate`]. A trace is printed as `trace`, which can't be read.
    Rate(Rate),
    /// [`Config::delay`].
    Delay(Duration),
    /// [`Config::jitter`].
    Jitter(Jitter),
    /// [`Config::loss`].
    Loss(LossModel),
    /// [`Config::duplication`].
    Duplicate(Ratio),
    /// [`Config::reordering`].
    Reorder(Reordering),
    /// [`Config::corruption`].
    Corrupt(Ratio),
    /// [`Config::queue`]; `None` for what goes with the rate.
    Queue(Option<Queue>),
    /// [`Config::discipline`].
    Discipline(Discipline),
    /// [`Config::udp`].
    Udp(UdpTreatment),
}

/// The settings, for error messages.
pub(crate) const NAMES: &str =
    "rate, delay, jitter, loss, duplicate, reorder, corrupt, queue, discipline or udp";

impl DirectionSet {
    pub(crate) fn covers(self, direction: Self) -> bool {
        self == Self::Both || self == direction
    }
}

/// The word as it stands before a setting: nothing for both, or the word and a blank.
impl fmt::Display for DirectionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Both => "",
            Self::Up => "up ",
            Self::Down => "down ",
        })
    }
}

impl Setting {
    /// All settings of one direction, as they are.
    #[must_use]
    pub fn all_of(config: &Config) -> [Self; 10] {
        [
            Self::Rate(config.rate.clone()),
            Self::Delay(config.delay),
            Self::Jitter(config.jitter),
            Self::Loss(config.loss.clone()),
            Self::Duplicate(config.duplication),
            Self::Reorder(config.reordering),
            Self::Corrupt(config.corruption),
            Self::Queue(Some(config.queue)),
            Self::Discipline(config.discipline),
            Self::Udp(config.udp),
        ]
    }

    /// The setting's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Rate(_) => "rate",
            Self::Delay(_) => "delay",
            Self::Jitter(_) => "jitter",
            Self::Loss(_) => "loss",
            Self::Duplicate(_) => "duplicate",
            Self::Reorder(_) => "reorder",
            Self::Corrupt(_) => "corrupt",
            Self::Queue(_) => "queue",
            Self::Discipline(_) => "discipline",
            Self::Udp(_) => "udp",
        }
    }

    /// The setting's value as text.
    #[must_use]
    pub fn value(&self) -> String {
        match self {
            Self::Rate(Rate::Unlimited) => "none".into(),
            Self::Rate(Rate::Fixed(rate)) => rate.to_string(),
            Self::Rate(Rate::Trace(_)) => "trace".into(),
            Self::Delay(delay) => duration::format(*delay),
            Self::Jitter(jitter) => jitter.to_string(),
            Self::Loss(loss) => loss.to_string(),
            Self::Duplicate(ratio) | Self::Corrupt(ratio) => ratio.to_string(),
            Self::Reorder(reordering) => reordering.to_string(),
            Self::Queue(None) => "default".into(),
            Self::Queue(Some(queue)) => queue.to_string(),
            Self::Discipline(discipline) => discipline.to_string(),
            Self::Udp(treatment) => treatment.to_string(),
        }
    }

    /// Sets the parameter; the default queue is the caller's, who knows all of the change.
    pub(crate) fn apply(&self, config: &mut Config) {
        match self {
            Self::Rate(rate) => config.rate = rate.clone(),
            Self::Delay(delay) => config.delay = *delay,
            Self::Jitter(jitter) => config.jitter = *jitter,
            Self::Loss(loss) => config.loss = loss.clone(),
            Self::Duplicate(ratio) => config.duplication = *ratio,
            Self::Reorder(reordering) => config.reordering = *reordering,
            Self::Corrupt(ratio) => config.corruption = *ratio,
            Self::Queue(Some(queue)) => config.queue = *queue,
            Self::Queue(None) => {}
            Self::Discipline(discipline) => config.discipline = *discipline,
            Self::Udp(treatment) => config.udp = *treatment,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name(), self.value())
    }
}

/// Reads a setting with the direction that it is meant for.
pub(crate) fn read(text: &str) -> Result<(DirectionSet, Setting), ChangeError> {
    let (way, text) = way(text.trim());
    let (name, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let value = value.trim();
    let (name, setting) = match name {
        "" => return Err(ChangeError::Empty),
        "rate" => ("rate", rate(value)),
        "delay" => ("delay", delay(value)),
        "jitter" => ("jitter", value.parse().map(Setting::Jitter)),
        "loss" => ("loss", value.parse().map(Setting::Loss)),
        "duplicate" => ("duplicate", ratio(value).map(Setting::Duplicate)),
        "reorder" => ("reorder", value.parse().map(Setting::Reorder)),
        "corrupt" => ("corrupt", ratio(value).map(Setting::Corrupt)),
        "queue" => ("queue", queue(value)),
        "discipline" => ("discipline", value.parse().map(Setting::Discipline)),
        "udp" => ("udp", value.parse().map(Setting::Udp)),
        _ => return Err(ChangeError::Unknown { name: name.into() }),
    };
    let setting = setting.map_err(|reason| ChangeError::Value { name, reason })?;
    Ok((way, setting))
}

/// Takes `up` or `down` off the front of a setting.
fn way(text: &str) -> (DirectionSet, &str) {
    match text.split_once(char::is_whitespace) {
        Some(("up", rest)) => (DirectionSet::Up, rest.trim_start()),
        Some(("down", rest)) => (DirectionSet::Down, rest.trim_start()),
        _ => (DirectionSet::Both, text),
    }
}

fn rate(value: &str) -> Result<Setting, Error> {
    let rate = match value {
        "none" | "unlimited" => Rate::Unlimited,
        rate => rate.parse::<Bandwidth>()?.into(),
    };
    Ok(Setting::Rate(rate))
}

fn delay(value: &str) -> Result<Setting, Error> {
    Ok(Setting::Delay(duration::parse(value)?))
}

fn ratio(value: &str) -> Result<Ratio, Error> {
    Ok(value.parse()?)
}

fn queue(value: &str) -> Result<Setting, Error> {
    let queue = match value {
        "default" => None,
        queue => Some(queue.parse()?),
    };
    Ok(Setting::Queue(queue))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Distribution, GilbertElliott, Policer, Shift};
    use altway_units::DataSize;
    use proptest::prelude::*;

    fn any_ratio() -> impl Strategy<Value = Ratio> {
        (0..=1_000_000_000_u32).prop_map(|parts| Ratio::from_parts_per_billion(parts).unwrap())
    }

    fn any_time() -> impl Strategy<Value = Duration> {
        any::<u64>().prop_map(Duration::from_nanos)
    }

    fn any_jitter() -> impl Strategy<Value = Jitter> {
        let distribution = prop_oneof![
            Just(Distribution::Uniform),
            Just(Distribution::Normal),
            Just(Distribution::Pareto)
        ];
        (any_time(), distribution, any::<bool>()).prop_map(|(spread, distribution, may_reorder)| {
            Jitter {
                spread,
                distribution,
                may_reorder,
            }
        })
    }

    fn any_loss() -> impl Strategy<Value = LossModel> {
        let gilbert = (any_ratio(), any_ratio(), any_ratio(), any_ratio());
        let gilbert = gilbert.prop_map(|(to_bad, to_good, loss_good, loss_bad)| {
            LossModel::GilbertElliott(GilbertElliott {
                to_bad,
                to_good,
                loss_good,
                loss_bad,
            })
        });
        prop_oneof![any_ratio().prop_map(LossModel::Random), gilbert]
    }

    fn any_queue() -> impl Strategy<Value = Option<Queue>> {
        prop_oneof![
            Just(None),
            Just(Some(Queue::Unlimited)),
            any::<u64>().prop_map(|bytes| Some(Queue::Bytes(DataSize::from_bytes(bytes)))),
            any::<u32>().prop_map(|packets| Some(Queue::Packets(packets))),
            any_time().prop_map(|time| Some(Queue::Time(time))),
        ]
    }

    fn any_reordering() -> impl Strategy<Value = Reordering> {
        let shift = prop_oneof![
            Just(Shift::AtOnce),
            any_time().prop_map(Shift::Early),
            any_time().prop_map(Shift::Late)
        ];
        (any_ratio(), shift).prop_map(|(share, shift)| Reordering { share, shift })
    }

    fn any_udp() -> impl Strategy<Value = UdpTreatment> {
        let policer = (1..u64::MAX, any::<u64>()).prop_map(|(rate, burst)| Policer {
            rate: Bandwidth::from_bps(rate).unwrap(),
            burst: DataSize::from_bytes(burst),
        });
        prop_oneof![
            Just(UdpTreatment::Pass),
            Just(UdpTreatment::Block),
            policer.prop_map(UdpTreatment::Police),
        ]
    }

    /// Any setting that can be written.
    pub(crate) fn any_setting() -> impl Strategy<Value = Setting> {
        prop_oneof![
            Just(Setting::Rate(Rate::Unlimited)),
            (1..10_000_u64).prop_map(|mbit| Setting::Rate(Bandwidth::from_mbit(mbit).into())),
            any_time().prop_map(Setting::Delay),
            any_jitter().prop_map(Setting::Jitter),
            any_loss().prop_map(Setting::Loss),
            any_ratio().prop_map(Setting::Duplicate),
            any_reordering().prop_map(Setting::Reorder),
            any_ratio().prop_map(Setting::Corrupt),
            any_queue().prop_map(Setting::Queue),
            Just(Setting::Discipline(Discipline::DropTail)),
            Just(Setting::Discipline(Discipline::CoDel)),
            any_udp().prop_map(Setting::Udp),
        ]
    }

    fn value(text: &str) -> Setting {
        read(text).unwrap().1
    }

    #[test]
    fn what_plans_call_unlimited_is_none() {
        assert_eq!(value("rate unlimited"), value("rate none"));
        assert_eq!(value("queue unlimited"), value("queue none"));
    }

    #[test]
    fn every_setting_is_applied_to_its_own_parameter() {
        let texts = [
            "rate 5mbit",
            "delay 3ms",
            "jitter 2ms pareto may-reorder",
            "loss gilbert p 1% r 25% good 0% bad 100%",
            "duplicate 1%",
            "reorder 2% late 5ms",
            "corrupt 0.5%",
            "queue 50packets",
            "discipline codel",
            "udp rate 5mbit burst 100KB",
        ];
        let nothing = Setting::all_of(&Config::default());
        let mut config = Config::default();
        for text in texts {
            assert!(!nothing.contains(&value(text)), "{text}");
            value(text).apply(&mut config);
        }
        assert_eq!(
            Setting::all_of(&config).map(|setting| setting.to_string()),
            texts
        );
    }

    #[test]
    fn every_setting_says_what_it_expects() {
        for (text, expected) in [
            ("rate", "`rate`: "),
            ("rate some", "`rate`: `some` is not a bandwidth"),
            ("delay 40", "`delay`: `40` is not a duration"),
            ("jitter 5ms gaussian", "`jitter`: "),
            ("loss 1% or so", "`loss`: "),
            ("loss gilbert 90% burst 1", "`loss`: "),
            ("duplicate", "`duplicate`: "),
            ("reorder 1% later", "`reorder`: "),
            ("corrupt 101%", "`corrupt`: `101%` is not a ratio"),
            ("queue 5 cars", "`queue`: "),
            ("discipline red", "`discipline`: "),
            ("udp", "`udp`: `` is not a treatment of UDP"),
            ("udp none", "`udp`: `none` is not a treatment of UDP"),
            ("udp rate", "`udp`: `rate` is not a treatment of UDP"),
            ("udp rate some", "`udp`: `some` is not a bandwidth"),
            (
                "udp rate 5mbit burst 5ms",
                "`udp`: `5ms` is not a data size",
            ),
            ("udp rate 5mbit 64KiB", "`udp`: "),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
