//! Processors and priority of what takes part in a transfer.

use super::{Plan, PlanError};
use crate::SideBySide;
use serde::{Deserialize, Serialize};

/// The most processors that a set may name.
const MOST_PROCESSORS: usize = 1024;

/// Processors that the link and the programs at its ends keep to, and the programs' priority.
///
/// The default: nothing keeps to any, and the programs have the priority of the run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Placement {
    /// True where each that is not named below gets a processor of its own, as far as there are enough.
    pub isolate: bool,
    /// The processor of the link's thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<u16>,
    /// Processors of the client, as numbers and ranges: `0-1,3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Processors of the server, in the same form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Nice value of client and server, from -20, the highest priority, to 19. Below 0 needs root.
    pub nice: i8,
}

impl Placement {
    /// The keys of the table `[processors]`.
    pub(super) const KEYS: [&'static str; 5] = ["isolate", "link", "client", "server", "nice"];

    /// Returns whether nothing is asked for.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The table in a plan's text; `None` where it says nothing.
    pub(super) fn to_toml(&self) -> Option<String> {
        if self.is_default() {
            return None;
        }
        let set = |key: &str, set: &Option<String>| {
            let set = set.as_ref()?;
            Some(format!("{key} = \"{set}\""))
        };
        let lines = [
            Some(format!("\n[processors]\nisolate = {}", self.isolate)),
            self.link.map(|link| format!("link = {link}")),
            set("client", &self.client),
            set("server", &self.server),
            Some(format!("nice = {}", self.nice)),
        ];
        let lines: Vec<String> = lines.into_iter().flatten().collect();
        Some(lines.join("\n"))
    }
}

impl Plan {
    pub(super) fn check_placement(&self) -> Result<(), PlanError> {
        let placement = &self.placement;
        let impossible = |what: String, hint: &str| {
            let hint = hint.into();
            Err(PlanError::Impossible { what, hint })
        };
        for set in [&placement.client, &placement.server].into_iter().flatten() {
            if !names_processors(set) {
                let what = format!("`{set}` in [processors] names no processors");
                return impossible(what, "say numbers and ranges, like \"0-1,3\"");
            }
        }
        if !(-20..=19).contains(&placement.nice) {
            let what = format!("a `nice` of {} is none", placement.nice);
            return impossible(what, "it goes from -20, the highest priority, to 19");
        }
        if binds(placement) && self.side_by_side != SideBySide::Off {
            let what = "transfers side by side would share the processors of one".to_owned();
            return impossible(
                what,
                "leave `side_by_side` out, or only `nice` in [processors]",
            );
        }
        Ok(())
    }
}

/// Returns whether anything keeps to processors.
fn binds(placement: &Placement) -> bool {
    let nice = placement.nice;
    *placement
        != Placement {
            nice,
            ..Placement::default()
        }
}

/// Returns whether a text is numbers and ranges of them.
fn names_processors(text: &str) -> bool {
    text.split(',').all(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<usize>().ok();
        let ends = number(first).zip(number(last));
        ends.is_some_and(|(first, last)| first <= last && last < MOST_PROCESSORS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(more: &str) -> Result<Plan, PlanError> {
        format!(
            "name = \"p\"\nrate = \"5mbit\"\ndelay = \"1ms\"\nsize = \"1MB\"\npairs = 5\n{more}"
        )
        .parse()
    }

    #[test]
    fn processors_and_priority_are_read_and_written() {
        let asked = plan("[processors]\nlink = 1\nclient = \"0-1,3\"\nnice = -20").unwrap();
        let placement = &asked.placement;
        assert_eq!((placement.link, placement.nice), (Some(1), -20));
        assert_eq!(placement.client.as_deref(), Some("0-1,3"));
        assert_eq!(asked.to_toml().parse::<Plan>().unwrap(), asked);
        let silent = plan("").unwrap();
        assert!(silent.placement.is_default());
        assert!(!silent.to_toml().contains("[processors]"));
    }

    #[test]
    fn what_names_no_processors_or_cannot_be_shared_is_refused() {
        let refused = |more: &str| plan(more).unwrap_err().to_string();
        assert!(refused("[processors]\nclient = \"3-1\"").contains("names no processors"));
        assert!(refused("[processors]\nserver = \"all\"").contains("names no processors"));
        assert!(refused("[processors]\nnice = -21").contains("is none"));
        let shared = "side_by_side = 4\n[processors]\nisolate = true";
        assert!(refused(shared).contains("share the processors"));
        assert!(plan("side_by_side = 4\n[processors]\nnice = 5").is_ok());
        assert!(refused("[processors]\ncores = 3").contains("cores"));
    }
}
