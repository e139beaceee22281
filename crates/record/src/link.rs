//! The links of a plan beside rate, delay, loss and queue: texts in the words of
//! `altway emulate set`, and the times at which they change.
//!
//! The link's own crate knows which texts are settings; here they are kept, named, and bounded.

use crate::short_text::ShortText;
use crate::words::text_in_files;
use altway_units::duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The longest name of a link in bytes.
pub const MAX_LINK_NAME: usize = 48;

/// The longest text of settings in bytes.
pub const MAX_LINK_WORDS: usize = 1_000;

/// The longest trace of a rate in bytes, for the manifest holds it.
pub const MAX_LINK_TRACE: usize = 1 << 20;

/// The name of a link: 1 to [`MAX_LINK_NAME`] bytes without commas, quotes and control characters,
/// so that it stands in tables, files and pictures as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkName(ShortText<MAX_LINK_NAME>);

impl LinkName {
    /// The link of which nothing more is said.
    pub const PLAIN: Self = Self(ShortText::new("plain"));

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Default for LinkName {
    fn default() -> Self {
        Self::PLAIN
    }
}

/// A text that can't name a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` can't name a link: a name has 1 to {MAX_LINK_NAME} bytes, no commas and no quotes; say {{name = \"…\", set = \"…\"}}"
)]
pub struct BadLinkName(String);

impl FromStr for LinkName {
    type Err = BadLinkName;

    fn from_str(text: &str) -> Result<Self, BadLinkName> {
        let bad = |c: char| c.is_control() || matches!(c, ',' | '"' | '\'');
        if text.trim() != text || !(1..=MAX_LINK_NAME).contains(&text.len()) || text.contains(bad) {
            return Err(BadLinkName(text.into()));
        }
        Ok(Self(ShortText::new(text)))
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

text_in_files!(LinkName);

/// The settings of a plan's link beside the plan's axes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkWords {
    /// The name in tables and files.
    pub name: LinkName,
    /// Settings that hold from the start on, over those of the axes; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub set: String,
    /// Later changes of the settings, in the order of their times, which count from the start of
    /// the client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<LinkChange>,
    /// The rate as it changes, both directions: mahimahi's format, or CSV.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_trace: Option<String>,
    /// The rate as it changes towards the server alone, in the same formats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_rate_trace: Option<String>,
    /// The rate as it changes towards the client alone, in the same formats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_rate_trace: Option<String>,
}

/// A change of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkChange {
    /// Time after the start.
    #[serde(with = "altway_units::duration")]
    pub time: Duration,
    /// Settings that hold from that time on.
    pub set: String,
}

impl LinkWords {
    /// The link of which nothing more is said.
    #[must_use]
    pub fn plain() -> Self {
        Self::named(LinkName::PLAIN, String::new())
    }

    /// A link with these settings, and nothing else.
    #[must_use]
    pub fn named(name: LinkName, set: String) -> Self {
        Self {
            name,
            set,
            at: Vec::new(),
            rate_trace: None,
            up_rate_trace: None,
            down_rate_trace: None,
        }
    }

    /// Reads a link that an axis states as a text alone: settings that are their own name, or
    /// `plain`.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let words = text.trim();
        if words == LinkName::PLAIN.as_str() {
            return Ok(Self::plain());
        }
        let name = words.parse().map_err(|error| format!("{error}"))?;
        Ok(Self::named(name, words.into()))
    }

    /// Returns whether nothing of it differs from the axes.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::named(self.name, String::new())
    }

    /// The traces, with their keys in a plan.
    #[must_use]
    pub fn traces(&self) -> [(&'static str, Option<&str>); 3] {
        [
            ("rate_trace", self.rate_trace.as_deref()),
            ("up_rate_trace", self.up_rate_trace.as_deref()),
            ("down_rate_trace", self.down_rate_trace.as_deref()),
        ]
    }

    /// The reason for which the link can't be, as far as that is seen without knowing the words of
    /// the settings; `None`: no reason found.
    pub(crate) fn fault(&self) -> Option<String> {
        let name = self.name;
        if name == LinkName::PLAIN && !self.is_plain() {
            return Some(
                "`plain` is the link of which nothing is said: give it another name".into(),
            );
        }
        let texts = [&self.set]
            .into_iter()
            .chain(self.at.iter().map(|turn| &turn.set));
        if texts.into_iter().any(|text| text.len() > MAX_LINK_WORDS) {
            return Some(format!(
                "the settings of `{name}` are longer than {MAX_LINK_WORDS} bytes"
            ));
        }
        let traces = self.traces();
        let long = traces
            .iter()
            .find(|(_, text)| text.is_some_and(|text| text.len() > MAX_LINK_TRACE));
        long.map(|(key, _)| {
            format!("the `{key}` of `{name}` is longer than {MAX_LINK_TRACE} bytes")
        })
    }
}

/// Turns from the times and settings of a table, in the order of their times.
pub(crate) fn changes(table: &BTreeMap<String, String>) -> Result<Vec<LinkChange>, String> {
    let turn = |(time, set): (&String, &String)| {
        let time = duration::parse(time).map_err(|error| error.to_string())?;
        let set = set.clone();
        Ok(LinkChange { time, set })
    };
    let mut changes: Vec<_> = table.iter().map(turn).collect::<Result<_, String>>()?;
    changes.sort_by_key(|turn| turn.time);
    match changes.windows(2).find(|pair| pair[0].time == pair[1].time) {
        None => Ok(changes),
        Some(pair) => Err(format!("two changes at {}", duration::format(pair[0].time))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for name in ["plain", "discipline codel", "Wi-Fi at home", "größer"] {
            assert_eq!(name.parse::<LinkName>().unwrap().to_string(), name);
        }
        let long = "x".repeat(MAX_LINK_NAME + 1);
        for bad in ["", " a", "a,b", "a\"b", "a\nb", &long] {
            assert!(bad.parse::<LinkName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn one_setting_is_its_own_name_and_several_want_one() {
        let words = LinkWords::read(" jitter 5ms ").unwrap();
        assert_eq!(
            (words.name.as_str(), words.set.as_str()),
            ("jitter 5ms", "jitter 5ms")
        );
        assert!(LinkWords::read("plain").unwrap().is_plain());
        let error = LinkWords::read("jitter 5ms, loss 1%").unwrap_err();
        assert!(error.contains("say {name = "), "{error}");
    }

    #[test]
    fn changes_are_in_the_order_of_their_times_and_none_stands_twice() {
        let table = |texts: &[(&str, &str)]| {
            let owned = texts
                .iter()
                .map(|(time, set)| ((*time).to_owned(), (*set).to_owned()));
            changes(&owned.collect())
        };
        let sorted = table(&[("10s", "loss 0%"), ("3s", "loss 5%")]).unwrap();
        assert_eq!(sorted[0].time, Duration::from_secs(3));
        assert_eq!(
            table(&[("1s", "a"), ("1000ms", "b")]).unwrap_err(),
            "two changes at 1s"
        );
        assert!(table(&[("soon", "a")]).is_err());
    }

    #[test]
    fn what_is_too_long_or_called_plain_is_refused() {
        let mut words = LinkWords::named("x".parse().unwrap(), "y".repeat(MAX_LINK_WORDS));
        assert_eq!(words.fault(), None);
        words.set.push('y');
        assert!(words.fault().unwrap().contains("longer than"));
        let plain = LinkWords::named(LinkName::PLAIN, "loss 1%".into());
        assert!(plain.fault().unwrap().contains("another name"));
    }
}
