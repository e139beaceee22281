//! The key `link` of a plan: settings in words, or tables with a name, settings, changes and traces.

use super::PlanError;
use super::file::{Files, OneOrMany, Sources};
use crate::axis::{AxisError, MAX_AXIS_VALUES};
use crate::link::changes;
use crate::{LinkName, LinkWords};
use altway_document::File;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The keys of a table.
pub(super) const KEYS: [&str; 6] = [
    "name",
    "set",
    "at",
    "rate_trace",
    "up_rate_trace",
    "down_rate_trace",
];

/// A link as typed: settings that are their own name, or a table.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected settings like `\"jitter 5ms\"`, or a table with `name`, `set` and `at`"
)]
pub(super) enum RawLink {
    Words(String),
    Table {
        name: Option<String>,
        set: Option<String>,
        /// Settings by their times.
        at: Option<BTreeMap<String, String>>,
        rate_trace: Option<String>,
        up_rate_trace: Option<String>,
        down_rate_trace: Option<String>,
    },
}

impl Sources {
    /// The links of a plan, each name once.
    pub(super) fn links(
        &self,
        typed: Option<OneOrMany<RawLink>>,
        load: &mut Files<'_>,
    ) -> Result<Vec<LinkWords>, PlanError> {
        let Some(typed) = typed else {
            return Ok(vec![LinkWords::plain()]);
        };
        let mut links: Vec<LinkWords> = Vec::new();
        for link in typed.list() {
            let link = self.link(link, load)?;
            if links.iter().any(|other| other.name == link.name) {
                return Err(self.axis_error("link", AxisError::Twice(link.name.to_string())));
            }
            links.push(link);
        }
        match links.len() {
            0 => Err(self.axis_error("link", AxisError::Empty)),
            1..=MAX_AXIS_VALUES => Ok(links),
            _ => Err(self.axis_error("link", AxisError::TooMany)),
        }
    }

    fn link(&self, typed: RawLink, load: &mut Files<'_>) -> Result<LinkWords, PlanError> {
        let wrong = |reason| self.value_error("link", reason);
        let link = match typed {
            RawLink::Words(text) => LinkWords::read(&text).map_err(wrong)?,
            RawLink::Table {
                name,
                set,
                at,
                rate_trace,
                up_rate_trace,
                down_rate_trace,
            } => {
                let set = set.unwrap_or_default();
                let name = name.unwrap_or_else(|| set.clone());
                let mut trace = |key, name: Option<String>| self.trace(key, name, load);
                LinkWords {
                    name: name
                        .parse::<LinkName>()
                        .map_err(|error| wrong(error.to_string()))?,
                    set,
                    at: changes(&at.unwrap_or_default()).map_err(wrong)?,
                    rate_trace: trace("rate_trace", rate_trace)?,
                    up_rate_trace: trace("up_rate_trace", up_rate_trace)?,
                    down_rate_trace: trace("down_rate_trace", down_rate_trace)?,
                }
            }
        };
        link.fault().map_or(Ok(link), |reason| Err(wrong(reason)))
    }

    /// The text of the trace that `key` names.
    fn trace(
        &self,
        key: &'static str,
        name: Option<String>,
        load: &mut Files<'_>,
    ) -> Result<Option<String>, PlanError> {
        let Some(name) = name else {
            return Ok(None);
        };
        let file: Result<File, String> = load(self.source_of(key).name(), &name);
        let place = self.place_of(key);
        file.map(|file| Some(file.text))
            .map_err(|reason| PlanError::File { key, place, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{File, Plan};
    use std::time::Duration;

    fn plan(more: &str) -> Result<Plan, PlanError> {
        let text = format!(
            "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms\"\nsize = \"1MB\"\npairs = 1\n{more}"
        );
        Plan::read(&text, &mut |_, name| match name {
            "lte.csv" => Ok(File {
                name: name.into(),
                text: "time_s,rate_mbit\n0,20\n".into(),
            }),
            _ => Err("there is none".into()),
        })
    }

    fn error(more: &str) -> String {
        plan(more).unwrap_err().to_string()
    }

    #[test]
    fn a_plan_that_says_nothing_has_the_plain_link() {
        assert_eq!(plan("").unwrap().links, [LinkWords::plain()]);
    }

    #[test]
    fn links_are_an_axis_of_settings_and_tables() {
        let text = "link = [\"plain\", \"discipline codel\", \
                    {name = \"bad\", set = \"jitter 5ms\", at = {3s = \"loss 5%\", 1s = \"loss 1%\"}}]";
        let plan = plan(text).unwrap();
        let names: Vec<_> = plan
            .cells()
            .iter()
            .map(|cell| cell.link.to_string())
            .collect();
        assert_eq!(names, ["plain", "discipline codel", "bad"]);
        let bad = plan.link_of(&plan.cells()[2]);
        assert_eq!(bad.set, "jitter 5ms");
        assert_eq!(bad.at[0].time, Duration::from_secs(1));
        assert_eq!(bad.at[1].set, "loss 5%");
    }

    #[test]
    fn treatments_of_udp_are_read_as_they_are_printed() {
        let text = "link = [\"udp block\", \"down udp rate 5mbit burst 64KB\", \
                    {name = \"for a while\", at = {3s = \"udp block\", 9s = \"udp pass\"}}]";
        let plan = plan(text).unwrap();
        assert_eq!(plan.links[1].set, "down udp rate 5mbit burst 64KB");
        assert_eq!(plan.links[2].at[1].set, "udp pass");
        assert_eq!(plan.to_toml().parse::<Plan>().unwrap(), plan);
    }

    #[test]
    fn tables_may_stand_below_each_other() {
        let text =
            "[[link]]\nname = \"plain\"\n[[link]]\nname = \"bad\"\n[link.at]\n3s = \"loss 5%\"";
        let plan = plan(text).unwrap();
        assert_eq!((plan.links.len(), plan.links[1].at.len()), (2, 1));
    }

    #[test]
    fn a_trace_is_read_from_its_file() {
        let text = "[link]\nname = \"lte\"\ndown_rate_trace = \"lte.csv\"";
        let plan = plan(text).unwrap();
        assert!(
            plan.links[0]
                .down_rate_trace
                .as_ref()
                .unwrap()
                .contains("0,20")
        );
        let lost = error("[link]\nname = \"lte\"\nrate_trace = \"none.csv\"");
        assert_eq!(lost, "line 8, column 1: `rate_trace`: there is none");
    }

    #[test]
    fn what_can_be_no_link_is_said_with_its_line() {
        assert_eq!(
            error("link = [\"jitter 5ms\", \"jitter 5ms\"]"),
            "line 6, column 1: `link`: `jitter 5ms` stands twice"
        );
        assert!(error("link = []").contains("it has no values"));
        assert!(error("link = 3").contains("expected"));
        assert!(error("link = \"jitter 5ms, loss 1%\"").contains("say {name ="));
        assert!(error("link = {set = \"loss 1%\", at = {soon = \"loss 2%\"}}").contains("soon"));
        assert!(error("[link]\nat = {1s = \"loss 2%\"}").contains("can't name a link"));
        assert!(error("[link]\nnam = \"x\"").contains("did you mean `name`?"));
    }
}
