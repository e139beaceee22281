//! A plan as the text of a file that gives the same plan again.

use super::{Plan, Sampling};
use crate::{Certificate, LinkWords, Scenario, ServerName};
use altway_units::duration;
use std::fmt::Display;

impl Plan {
    /// The plan as TOML, every key said, nothing included but the files of traces: those are named by
    /// their link and key, `NAME.rate_trace`, and [`Plan::links`] has their texts.
    ///
    /// # Panics
    /// Never: a text is a JSON string.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let delays: Vec<_> = self
            .delays
            .iter()
            .map(|one| duration::format(*one))
            .collect();
        let mut lines = vec![
            format!("name = {}", text(&self.name)),
            format!("description = {}", text(&self.description)),
            format!("topology = {}", list(&self.topologies)),
            format!("server = [{}]", self.server_list()),
            format!("client = {}", list(&self.clients)),
            format!("congestion = {}", list(&self.congestions)),
            format!("initial_window = {}", numbers(&self.initial_windows)),
            format!("certificate = {}", self.certificate_list()),
            format!(
                "certificate_compression = {}",
                numbers(&self.certificate_compressions)
            ),
            format!("connection = {}", list(&self.connections)),
            format!("link = [{}]", self.link_list()),
            format!("mtu = {}", self.mtu),
            format!("rate = {}", list(&self.rates)),
            format!("queue = {}", list(&self.queues)),
            format!("loss = {}", list(&self.losses)),
            format!("delay = {}", list(&delays)),
            format!("protocols = {}", list(&self.protocols)),
            format!("null_arm = {}", self.null_arm),
        ];
        if !self.policies.is_empty() {
            lines.push(format!("policy = {}", list(&self.policies)));
        }
        lines.extend([
            format!("pairs = {}", self.pairs),
            format!("side_by_side = {}", text(&self.side_by_side.to_string())),
            format!("warm_ups = {}", self.warm_ups),
            format!("seed = {}", self.seed),
            format!("timeout = {}", text(&self.timeout.to_string())),
            format!("scenario = {}", text(self.scenario.name())),
        ]);
        if !matches!(self.scenario, Scenario::Page(_)) {
            lines.push(format!("size = {}", list(&self.sizes)));
        }
        if self.sampling != Sampling::default() {
            lines.push(format!("sampling = {}", text(self.sampling.name())));
        }
        if let Some(stopping) = &self.stopping {
            let (least, looks) = (stopping.least_pairs, stopping.looks);
            let half_width = text(&stopping.half_width.to_string());
            lines.push(format!(
                "\n[stop]\nleast_pairs = {least}\nlooks = {looks}\nhalf_width = {half_width}"
            ));
        }
        if !self.policies.is_empty() {
            let apart: Vec<_> = self
                .apart
                .iter()
                .map(|one| duration::format(*one))
                .collect();
            lines.push(format!("\n[sessions]\napart = {}", list(&apart)));
        }
        lines.extend(self.placement.to_toml());
        lines.extend(self.scenario_table());
        lines.join("\n") + "\n"
    }

    /// Files by their paths.
    fn certificate_list(&self) -> String {
        let one = |certificate: &Certificate| match certificate {
            Certificate::Made(made) => made.to_string(),
            Certificate::Chain(name) => match self.chain(*name) {
                Some(chain) => chain.path.clone(),
                None => name.to_string(),
            },
        };
        let certificates: Vec<_> = self.certificates.iter().map(one).collect();
        list(&certificates)
    }

    fn link_list(&self) -> String {
        let one = |link: &LinkWords| {
            let mut keys = vec![format!("name = {}", text(link.name.as_str()))];
            if !link.set.is_empty() {
                keys.push(format!("set = {}", text(&link.set)));
            }
            if !link.at.is_empty() {
                let changes = link.at.iter();
                let changes = changes.map(|turn| {
                    format!(
                        "{} = {}",
                        text(&duration::format(turn.time)),
                        text(&turn.set)
                    )
                });
                let changes: Vec<_> = changes.collect();
                keys.push(format!("at = {{ {} }}", changes.join(", ")));
            }
            let traces = link.traces();
            let named = traces.iter().filter(|(_, trace)| trace.is_some());
            keys.extend(
                named.map(|(key, _)| format!("{key} = {}", text(&format!("{}.{key}", link.name)))),
            );
            format!("{{ {} }}", keys.join(", "))
        };
        let links: Vec<_> = self.links.iter().map(one).collect();
        links.join(", ")
    }

    fn server_list(&self) -> String {
        let one = |name: &ServerName| {
            let Some(own) = self.commands.iter().find(|command| command.name == *name) else {
                return text(name.as_str());
            };
            let config = own.config.as_ref();
            let config =
                config.map_or_else(String::new, |file| format!(", config = {}", text(file)));
            format!(
                "{{ name = {}, command = {}{config}, protocols = {} }}",
                text(name.as_str()),
                text(&own.command),
                list(&own.protocols)
            )
        };
        let servers: Vec<_> = self.servers.iter().map(one).collect();
        servers.join(", ")
    }

    fn scenario_table(&self) -> Option<String> {
        match &self.scenario {
            Scenario::Download => None,
            Scenario::Page(page) => {
                let alike = page.objects.chunk_by(|a, b| a == b);
                let counted: Vec<_> = alike
                    .map(|run| format!("{} x {}", run.len(), run[0]))
                    .collect();
                let html = text(&page.html.to_string());
                Some(format!(
                    "\n[page]\nhtml = {html}\nobjects = {}",
                    list(&counted)
                ))
            }
            Scenario::Mixed(mixed) => {
                let small = text(&mixed.small.to_string());
                Some(format!(
                    "\n[mixed]\nsmall = {small}\ncount = {}",
                    mixed.count
                ))
            }
            Scenario::Repeat(repeat) => Some(format!(
                "\n[repeat]\nvisits = {}\nearly_data = {}",
                repeat.visits, repeat.early_data
            )),
        }
    }
}

/// A JSON string is a basic string of TOML.
fn text(value: &str) -> String {
    serde_json::to_string(value).expect("a text is valid JSON")
}

fn list<T: Display>(values: &[T]) -> String {
    let texts: Vec<_> = values
        .iter()
        .map(|value| text(&value.to_string()))
        .collect();
    format!("[{}]", texts.join(", "))
}

fn numbers<T: Display>(values: &[T]) -> String {
    let texts: Vec<_> = values.iter().map(ToString::to_string).collect();
    format!("[{}]", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_round_trip(more: &str) {
        let plan: Plan = format!(
            "name = \"p\"\ndescription = 'a \"quoted\" \\ word'\nrate = [\"unlimited\", \"7mbit\"]\n\
             delay = \"0ms..2ms by 250us\"\nloss = \"0.5%\"\npairs = 30\nseed = 9\n{more}"
        )
        .parse()
        .unwrap();
        assert_eq!(plan.to_toml().parse::<Plan>().unwrap(), plan);
    }

    #[test]
    fn the_text_gives_the_same_plan_again() {
        assert_round_trip(
            "size = \"64KiB\"\nqueue = [\"100KB\", \"default\"]\ncongestion = \"reno\"\ninitial_window = [10, 32]\ncertificate = [\"ecdsa\", \"rsa-chain\"]\ncertificate_compression = [true, false]",
        );
        assert_round_trip(
            "size = \"1MB\"\ntopology = [\"router\", \"proxied\"]\nclient = [\"altway\", \"curl\"]\n\
             connection = \"warm\"\nnull_arm = false\nwarm_ups = 3\n\
             server = [\"nginx\", {name = \"x\", command = \"x '{folder}'\", config = \"a\\nb\", protocols = [\"h2\", \"h3\"]}]\n\
             [stop]\nlooks = 3\nhalf_width = \"1%\"",
        );
        assert_round_trip(
            "scenario = \"page\"\n[page]\nhtml = \"9KB\"\nobjects = [\"2 x 1KB\", \"3KB\"]",
        );
        assert_round_trip("scenario = \"mixed\"\nsize = \"1MB\"\n[mixed]\ncount = 4");
        assert_round_trip("scenario = \"repeat\"\nsize = \"1KB\"\n[repeat]\nearly_data = false");
        assert_round_trip("size = \"1KB\"\npolicy = [\"h2\", \"h3\", \"learned\"]");
        assert_round_trip(
            "size = \"1KB\"\npolicy = [\"h3\", \"h2\"]\n[sessions]\napart = [\"2.5s\"]",
        );
        assert_round_trip("size = \"1KB\"\nsampling = \"adaptive\"\nside_by_side = 4\nmtu = 1400");
        assert_round_trip(
            "size = \"1KB\"\nqueue = [\"50packets\", \"30ms\"]\nlink = [\"plain\", \"jitter 5ms\", \
             {name = \"x\", set = \"loss 1%, jitter 1ms\", at = {\"2.5s\" = \"loss 5%\", 10s = \"loss 0%\"}}]",
        );
    }
}
