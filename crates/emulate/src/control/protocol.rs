//! Requests to a running link, and its answers: one line of JSON each.
//!
//! A request names its version, so that an older and a newer altway know each other apart.

use crate::pump::Now;
use crate::{LinkReport, LogReport};
use altway_link::{Config, Setting};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version spoken here.
pub(super) const VERSION: u32 = 1;

/// The longest request in bytes, with its line end: ten times the longest change.
pub(super) const REQUEST_LIMIT: u64 = 16 << 10;

/// The longest answer in bytes, with its line end: a full schedule of long changes fits.
pub(super) const ANSWER_LIMIT: u64 = 2 << 20;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) version: u32,
    pub(super) ask: Ask,
}

/// Kind of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Ask {
    /// The state of the link.
    Show,
    /// A change, in the words of [`altway_link::Change`]; the answer is the state after it.
    Set { change: String },
    /// No shaping any more; the answer is the state after it.
    Reset,
}

/// The version alone: all that is read of a request of another one.
#[derive(Debug, Deserialize)]
pub(super) struct Versioned {
    pub(super) version: u32,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    /// State of the link after the request, which was done.
    State(Box<LinkState>),
    /// Refusal of the request.
    Refused {
        /// Reason, in words.
        reason: String,
    },
}

/// Settings of a running link, and what it did so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkState {
    /// The direction from the client to the server, as it is now.
    pub up: Settings,
    /// The direction from the server to the client, as it is now.
    pub down: Settings,
    /// The seconds since the link's start or restart.
    pub running_s: f64,
    /// The changes that the link's schedule still has in store, in the order of their times.
    pub to_come: Vec<ChangeToCome>,
    /// Counters of the link since its start or restart, under whatever settings.
    pub report: LinkReport,
    /// Reason why a measurement over the link would not count; none when it would.
    pub invalid: Option<String>,
    /// Counters of the packet log; none when there is no log.
    pub packet_log: Option<LogReport>,
}

impl LinkState {
    pub(crate) fn new(now: &Now, report: LinkReport, packet_log: Option<LogReport>) -> Self {
        let to_come = now.to_come.iter().map(|(time, change)| ChangeToCome {
            in_s: time.as_secs_f64(),
            change: change.to_string(),
        });
        Self {
            up: (&now.up).into(),
            down: (&now.down).into(),
            running_s: now.running.as_secs_f64(),
            to_come: to_come.collect(),
            invalid: report.validity().err().map(|invalid| invalid.to_string()),
            report,
            packet_log,
        }
    }
}

/// A change that is to come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeToCome {
    /// The seconds from now to the change.
    pub in_s: f64,
    /// The change, in the words of [`altway_link::Change`].
    pub change: String,
}

/// The settings of one direction by their names, in the words of [`altway_link::Change`]: `rate`,
/// `20mbit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings(pub BTreeMap<String, String>);

impl From<&Config> for Settings {
    fn from(config: &Config) -> Self {
        let word = |setting: &Setting| (setting.name().to_owned(), setting.value());
        Self(Setting::all_of(config).iter().map(word).collect())
    }
}

impl Request {
    pub(super) fn new(ask: Ask) -> Self {
        Self {
            version: VERSION,
            ask,
        }
    }

    /// Reads one line.
    ///
    /// # Errors
    /// Says in words what is wrong with it.
    pub(super) fn read(line: &[u8]) -> Result<Self, String> {
        let versioned: Versioned =
            serde_json::from_slice(line).map_err(|error| format!("not a request: {error}"))?;
        if versioned.version != VERSION {
            return Err(format!(
                "the request is of version {}, and this link speaks version {VERSION}",
                versioned.version
            ));
        }
        serde_json::from_slice(line).map_err(|error| format!("not a request: {error}"))
    }
}

/// The message as a line of JSON, with its end.
pub(super) fn line(message: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_look_like_this_for_ever() {
        for (text, ask) in [
            (r#"{"version":1,"ask":"show"}"#, Ask::Show),
            (r#"{"version":1,"ask":"reset"}"#, Ask::Reset),
            (
                r#"{"version":1,"ask":{"set":{"change":"loss 5%"}}}"#,
                Ask::Set {
                    change: "loss 5%".into(),
                },
            ),
        ] {
            let request = Request::new(ask);
            assert_eq!(line(&request).unwrap(), format!("{text}\n").as_bytes());
            assert_eq!(Request::read(text.as_bytes()), Ok(request));
        }
    }

    #[test]
    fn says_what_is_wrong_with_a_request() {
        let refused = |text: &str| Request::read(text.as_bytes()).unwrap_err();
        assert!(refused("hello").starts_with("not a request"));
        assert!(refused(r#"{"version":1,"ask":"explode"}"#).contains("unknown variant `explode`"));
        assert!(refused(r#"{"version":1,"ask":"show","more":1}"#).contains("unknown field `more`"));
        assert_eq!(
            refused(r#"{"version":2,"ask":"show","more":1}"#),
            "the request is of version 2, and this link speaks version 1"
        );
    }

    #[test]
    fn settings_are_told_in_the_words_that_change_them() {
        let config = Config {
            rate: altway_link::Rate::Fixed("20mbit".parse().unwrap()),
            ..Config::default()
        };
        let settings = Settings::from(&config).0;
        let words = settings
            .iter()
            .map(|(name, value)| format!("{name} {value}"));
        let told: Vec<_> = words.collect();
        assert_eq!(told.len(), 10);
        assert!(told.contains(&"rate 20mbit".to_owned()), "{told:?}");
        assert!(told.join(",").parse::<altway_link::Change>().is_ok());
    }
}
