//! The text of a plan: TOML, with what it includes.
//!
//! A key of the plan goes before the same key of what it includes, and of several included files
//! the later goes before the earlier; tables are replaced whole. Files are read by the caller.

use super::links::{self, RawLink};
use super::servers::RawServer;
use super::{DEFAULT_MTU, Placement, PlanError, Sampling, Stopping};
use crate::axis::{self, AxisError, AxisValue};
use crate::scenario::{Mixed, Page, Repeat};
use crate::{BadTimeOut, PLAN_SCHEMA_VERSION, Plan, Policy, Scenario, SideBySide, TimeOut};
use altway_document::{File, Place, Source, nearest};
use altway_units::{DataSize, Ratio};
use serde::Deserialize;
use std::str::FromStr;
use std::time::Duration;

/// Number of files that a plan may include, those that they include counted.
pub const MAX_INCLUDES: usize = 16;

/// Times between the sessions of a client: before the second session the shortest offers still hold;
/// before the third they have run out, and long ones have not.
const APART: [&str; 2] = ["10s", "1h"];

/// The keys of a plan.
pub const KEYS: [&str; 35] = [
    "schema",
    "include",
    "name",
    "description",
    "topology",
    "server",
    "client",
    "congestion",
    "initial_window",
    "certificate",
    "certificate_compression",
    "connection",
    "link",
    "mtu",
    "rate",
    "queue",
    "loss",
    "size",
    "delay",
    "protocols",
    "policy",
    "sessions",
    "null_arm",
    "scenario",
    "page",
    "mixed",
    "repeat",
    "pairs",
    "stop",
    "sampling",
    "side_by_side",
    "processors",
    "warm_ups",
    "seed",
    "timeout",
];

/// The keys of the tables in a plan.
const TABLES: [(&str, &[&str]); 8] = [
    ("page", &["html", "objects", "har"]),
    ("mixed", &["small", "count"]),
    ("repeat", &["visits", "early_data"]),
    ("sessions", &["apart"]),
    ("stop", &["least_pairs", "looks", "half_width"]),
    ("server", &["name", "command", "config", "protocols"]),
    ("link", &links::KEYS),
    ("processors", &Placement::KEYS),
];

/// Gives a file by the name of the file that names it (`None`: the plan itself) and the name there,
/// or says in a sentence why it can't.
pub type Files<'f> = dyn FnMut(Option<&str>, &str) -> Result<File, String> + 'f;

/// The keys as typed.
#[derive(Deserialize)]
struct RawPlan {
    schema: Option<u32>,
    name: Option<String>,
    #[serde(default)]
    description: String,
    topology: Option<OneOrMany<String>>,
    server: Option<OneOrMany<RawServer>>,
    client: Option<OneOrMany<String>>,
    congestion: Option<OneOrMany<String>>,
    initial_window: Option<OneOrMany<Count>>,
    certificate: Option<OneOrMany<String>>,
    certificate_compression: Option<OneOrMany<bool>>,
    connection: Option<OneOrMany<String>>,
    link: Option<OneOrMany<RawLink>>,
    mtu: Option<u16>,
    rate: Option<OneOrMany<String>>,
    queue: Option<OneOrMany<String>>,
    loss: Option<OneOrMany<String>>,
    size: Option<OneOrMany<String>>,
    delay: Option<OneOrMany<String>>,
    protocols: Option<OneOrMany<String>>,
    policy: Option<OneOrMany<String>>,
    sessions: Option<RawSessions>,
    null_arm: Option<bool>,
    scenario: Option<String>,
    page: Option<RawPage>,
    mixed: Option<RawMixed>,
    repeat: Option<RawRepeat>,
    pairs: Option<u32>,
    stop: Option<RawStop>,
    sampling: Option<String>,
    side_by_side: Option<Count>,
    #[serde(default)]
    processors: Placement,
    warm_ups: Option<u32>,
    seed: Option<u64>,
    timeout: Option<String>,
}

#[derive(Deserialize)]
struct RawPage {
    html: Option<DataSize>,
    objects: Option<OneOrMany<String>>,
    har: Option<String>,
}

#[derive(Deserialize)]
struct RawMixed {
    small: Option<DataSize>,
    count: Option<u32>,
}

#[derive(Deserialize)]
struct RawRepeat {
    visits: Option<u32>,
    early_data: Option<bool>,
}

#[derive(Deserialize)]
struct RawSessions {
    apart: Option<OneOrMany<String>>,
}

#[derive(Deserialize)]
struct RawStop {
    least_pairs: Option<u32>,
    looks: Option<u32>,
    half_width: Option<Ratio>,
}

/// A number, or a word in its place.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number, `\"auto\"` or `\"off\"`")]
enum Count {
    Number(u32),
    Word(String),
}

impl Count {
    fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Word(word) => word,
        }
    }
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a text or a list of texts, like `\"5mbit\"`"
)]
pub(super) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    pub(super) fn list(self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

impl OneOrMany<Count> {
    fn texts(self) -> OneOrMany<String> {
        OneOrMany::Many(self.list().into_iter().map(Count::text).collect())
    }
}

impl Plan {
    /// Reads a plan, what it includes and the files that it names, through `load`.
    ///
    /// # Errors
    /// It is no plan, a file can't be had, or it asks for what can't be.
    pub fn read(text: &str, load: &mut Files<'_>) -> Result<Self, PlanError> {
        let mut sources = Sources(Vec::new());
        let merged = sources.add(None, text, load)?;
        let typed: RawPlan = merged
            .try_into()
            .map_err(|source| toml_error(None, source))?;
        sources.plan(typed, load)?.check()
    }
}

/// A plan that names no files.
impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        Self::read(text, &mut |_, _| Err("no file can be read here".into()))
    }
}

/// The texts of a plan, the plan's own first, to say where a key stands.
pub(super) struct Sources(Vec<Source>);

impl Sources {
    /// Reads one text with what it includes, all in one table.
    fn add(
        &mut self,
        file: Option<&str>,
        text: &str,
        load: &mut Files<'_>,
    ) -> Result<toml::Table, PlanError> {
        let failed = |source| toml_error(file.map(str::to_owned), source);
        let mut table: toml::Table = toml::from_str(text).map_err(failed)?;
        let source = Source::new(file, text);
        refuse_unknown_keys(&source, &table)?;
        // Here an error still knows its line.
        toml::from_str::<RawPlan>(text).map_err(failed)?;
        let place = place_in(&source, "include");
        self.0.push(source);
        let Some(include) = table.remove("include") else {
            return Ok(table);
        };
        let names = include.try_into::<OneOrMany<String>>().map_err(failed)?;
        for name in names.list().into_iter().rev() {
            let refused = |reason| PlanError::File {
                key: "include",
                place: place.clone(),
                reason,
            };
            if self.0.len() > MAX_INCLUDES {
                let reason = format!("more than {MAX_INCLUDES} files are included");
                return Err(refused(reason));
            }
            let found = load(file, &name).map_err(refused)?;
            for (key, value) in self.add(Some(&found.name), &found.text, load)? {
                table.entry(key).or_insert(value);
            }
        }
        Ok(table)
    }

    fn plan(&self, typed: RawPlan, load: &mut Files<'_>) -> Result<Plan, PlanError> {
        self.check_schema(typed.schema)?;
        let (scenario, sizes) = self.scenario(
            typed.scenario.as_deref(),
            typed.page,
            typed.mixed,
            typed.repeat,
            typed.size,
            load,
        )?;
        let (servers, commands) = self.servers(typed.server)?;
        let (certificates, chains) = self.certificates(typed.certificate, load)?;
        let links = self.links(typed.link, load)?;
        let (policies, apart) = self.policies(typed.policy, typed.sessions)?;
        let pairs = typed.pairs.ok_or(PlanError::Missing("pairs"))?;
        Ok(Plan {
            name: typed.name.ok_or(PlanError::Missing("name"))?,
            description: typed.description,
            topologies: self.axis("topology", typed.topology, Some(&["direct"]))?,
            servers,
            commands,
            clients: self.axis("client", typed.client, Some(&["altway"]))?,
            congestions: self.axis("congestion", typed.congestion, Some(&["cubic"]))?,
            initial_windows: self.axis(
                "initial_window",
                typed.initial_window.map(OneOrMany::texts),
                Some(&["10"]),
            )?,
            certificates,
            certificate_compressions: self
                .certificate_compressions(typed.certificate_compression)?,
            chains,
            connections: self.axis("connection", typed.connection, Some(&["cold"]))?,
            links,
            mtu: typed.mtu.unwrap_or(DEFAULT_MTU),
            rates: self.axis("rate", typed.rate, None)?,
            queues: self.axis("queue", typed.queue, Some(&["default"]))?,
            losses: self.axis("loss", typed.loss, Some(&["0%"]))?,
            sizes,
            delays: self.axis("delay", typed.delay, None)?,
            protocols: self.axis("protocols", typed.protocols, Some(&["h2", "h3"]))?,
            policies,
            apart,
            null_arm: typed.null_arm.unwrap_or(true),
            scenario,
            pairs,
            stopping: typed.stop.as_ref().map(stopping_of),
            sampling: self.word("sampling", typed.sampling.as_deref(), Sampling::Grid)?,
            side_by_side: self.side_by_side(typed.side_by_side)?,
            placement: typed.processors,
            warm_ups: typed.warm_ups.unwrap_or(1),
            seed: typed.seed.unwrap_or(1),
            timeout: self.timeout(typed.timeout.as_deref())?,
        })
    }

    /// The policies that are compared, and what lies between the sessions of a client.
    fn policies(
        &self,
        policy: Option<OneOrMany<String>>,
        sessions: Option<RawSessions>,
    ) -> Result<(Vec<Policy>, Vec<Duration>), PlanError> {
        let Some(policy) = policy else {
            return match sessions {
                None => Ok((Vec::new(), Vec::new())),
                Some(_) => Err(PlanError::Impossible {
                    what: "[sessions] has no effect without a `policy`".into(),
                    hint: "say `policy = [\"h2\", \"h3\", \"learned\"]`, or leave [sessions] out"
                        .into(),
                }),
            };
        };
        let policies = self.axis("policy", Some(policy), None)?;
        let apart = sessions.and_then(|typed| typed.apart);
        let texts = apart.map_or_else(|| APART.map(String::from).to_vec(), OneOrMany::list);
        let read = |text: &String| altway_units::duration::parse(text);
        let apart: Result<_, _> = texts.iter().map(read).collect();
        let apart = apart.map_err(|error| self.value_error("apart", error.to_string()))?;
        Ok((policies, apart))
    }

    fn check_schema(&self, schema: Option<u32>) -> Result<(), PlanError> {
        let known = schema.is_none_or(|schema| (1..=PLAN_SCHEMA_VERSION).contains(&schema));
        if known {
            return Ok(());
        }
        let reason = format!("this altway reads plans of schema 1 to {PLAN_SCHEMA_VERSION}");
        Err(self.value_error("schema", reason))
    }

    /// The scenario, and the sizes of its cells.
    fn scenario(
        &self,
        name: Option<&str>,
        page: Option<RawPage>,
        mixed: Option<RawMixed>,
        repeat: Option<RawRepeat>,
        size: Option<OneOrMany<String>>,
        load: &mut Files<'_>,
    ) -> Result<(Scenario, Vec<DataSize>), PlanError> {
        let name = name.unwrap_or("download");
        let tables = [
            ("page", page.is_some()),
            ("mixed", mixed.is_some()),
            ("repeat", repeat.is_some()),
        ];
        if let Some((table, _)) = tables
            .iter()
            .find(|(table, there)| *there && *table != name)
        {
            return Err(PlanError::Impossible {
                what: format!("[{table}] has no effect in the scenario `{name}`"),
                hint: format!("say `scenario = \"{table}\"`, or leave [{table}] out"),
            });
        }
        let scenario = match name {
            "download" => Scenario::Download,
            "page" => Scenario::Page(self.page(page, load)?),
            "mixed" => Scenario::Mixed(mixed_of(mixed)),
            "repeat" => Scenario::Repeat(repeat_of(repeat)),
            other => return Err(self.value_error("scenario", unknown_scenario(other))),
        };
        let Scenario::Page(page) = &scenario else {
            return Ok((scenario, self.axis("size", size, None)?));
        };
        if size.is_some() {
            return Err(PlanError::Impossible {
                what: "`size` has no effect in the scenario `page`".into(),
                hint: "the sizes of a page stand in [page], as `html` and `objects`, or in a `har`"
                    .into(),
            });
        }
        let total = page.total();
        Ok((scenario, vec![total]))
    }

    fn page(&self, typed: Option<RawPage>, load: &mut Files<'_>) -> Result<Page, PlanError> {
        let default = Page::default();
        let Some(typed) = typed else {
            return Ok(default);
        };
        if let Some(har) = typed.har {
            let source = self.source_of("har");
            let refused = |reason| PlanError::File {
                key: "har",
                place: self.place_of("har"),
                reason,
            };
            if typed.html.is_some() || typed.objects.is_some() {
                return Err(PlanError::Impossible {
                    what: "[page] has both a `har` and sizes of its own".into(),
                    hint: "leave one of them out".into(),
                });
            }
            let file = load(source.name(), &har).map_err(refused)?;
            return Page::from_har(&file.text)
                .map_err(|error| refused(format!("cannot use {}: {error}", file.name)));
        }
        let objects = match typed.objects {
            None => default.objects,
            Some(texts) => {
                let texts = texts.list();
                let sizes = texts.iter().map(|text| repeated_size(text));
                let sizes: Result<Vec<_>, _> = sizes.collect();
                sizes
                    .map_err(|reason| self.value_error("objects", reason))?
                    .concat()
            }
        };
        Ok(Page {
            html: typed.html.unwrap_or(default.html),
            objects,
        })
    }

    fn timeout(&self, typed: Option<&str>) -> Result<TimeOut, PlanError> {
        let read = typed.map_or(Ok(TimeOut::Auto), str::parse);
        read.map_err(|error: BadTimeOut| self.value_error("timeout", error.to_string()))
    }

    fn side_by_side(&self, typed: Option<Count>) -> Result<SideBySide, PlanError> {
        let text = match typed {
            None => return Ok(SideBySide::Off),
            Some(count) => count.text(),
        };
        let read: Result<SideBySide, _> = text.parse();
        read.map_err(|error| self.value_error("side_by_side", error.to_string()))
    }

    fn axis<T: AxisValue>(
        &self,
        key: &'static str,
        typed: Option<OneOrMany<String>>,
        default: Option<&[&str]>,
    ) -> Result<Vec<T>, PlanError> {
        let texts = match (typed, default) {
            (Some(typed), _) => typed.list(),
            (None, Some(default)) => default.iter().map(ToString::to_string).collect(),
            (None, None) => return Err(PlanError::Missing(key)),
        };
        axis::read(&texts).map_err(|fault| self.axis_error(key, fault))
    }

    fn word<T: AxisValue>(
        &self,
        key: &'static str,
        typed: Option<&str>,
        default: T,
    ) -> Result<T, PlanError> {
        let Some(text) = typed else {
            return Ok(default);
        };
        T::read(text).map_err(|reason| self.value_error(key, reason))
    }

    pub(super) fn axis_error(&self, key: &'static str, fault: AxisError) -> PlanError {
        let place = self.place_of(key);
        PlanError::Axis { key, place, fault }
    }

    pub(super) fn value_error(&self, key: &str, reason: String) -> PlanError {
        let place = self.place_of(key);
        let key = key.into();
        PlanError::Value { key, place, reason }
    }

    pub(super) fn place_of(&self, key: &str) -> Place {
        place_in(self.source_of(key), key)
    }

    /// The text whose `key` counts: the first that has it.
    pub(super) fn source_of(&self, key: &str) -> &Source {
        let has_it = self
            .0
            .iter()
            .find(|source| source.place_of_key(key).is_some());
        has_it.unwrap_or(&self.0[0])
    }
}

fn refuse_unknown_keys(source: &Source, table: &toml::Table) -> Result<(), PlanError> {
    refuse_others(source, table, &KEYS)?;
    for (name, keys) in TABLES {
        let tables: Vec<&toml::Table> = match table.get(name) {
            Some(toml::Value::Table(one)) => vec![one],
            Some(toml::Value::Array(many)) => {
                many.iter().filter_map(toml::Value::as_table).collect()
            }
            _ => Vec::new(),
        };
        for table in tables {
            refuse_others(source, table, keys)?;
        }
    }
    Ok(())
}

fn refuse_others(
    source: &Source,
    table: &toml::Table,
    keys: &[&'static str],
) -> Result<(), PlanError> {
    let Some(key) = table.keys().find(|key| !keys.contains(&key.as_str())) else {
        return Ok(());
    };
    let nearest = nearest(key, keys.iter().copied());
    Err(PlanError::UnknownKey {
        key: key.clone(),
        place: place_in(source, key),
        nearest: nearest.and_then(|found| keys.iter().copied().find(|one| *one == found)),
    })
}

/// Place where a key stands, or the beginning of a text that does not have it.
fn place_in(source: &Source, key: &str) -> Place {
    source.place_of_key(key).unwrap_or_else(|| source.place(0))
}

fn toml_error(file: Option<String>, fault: toml::de::Error) -> PlanError {
    PlanError::Toml {
        file,
        fault: Box::new(fault),
    }
}

fn mixed_of(typed: Option<RawMixed>) -> Mixed {
    let default = Mixed::default();
    typed.map_or(default, |typed| Mixed {
        small: typed.small.unwrap_or(default.small),
        count: typed.count.unwrap_or(default.count),
    })
}

fn repeat_of(typed: Option<RawRepeat>) -> Repeat {
    let default = Repeat::default();
    typed.map_or(default, |typed| Repeat {
        visits: typed.visits.unwrap_or(default.visits),
        early_data: typed.early_data.unwrap_or(default.early_data),
    })
}

fn stopping_of(typed: &RawStop) -> Stopping {
    let default = Stopping::default();
    Stopping {
        least_pairs: typed.least_pairs.unwrap_or(default.least_pairs),
        looks: typed.looks.unwrap_or(default.looks),
        half_width: typed.half_width.unwrap_or(default.half_width),
    }
}

fn unknown_scenario(found: &str) -> String {
    let known = ["download", "page", "mixed", "repeat"];
    let suggestion =
        nearest(found, known).map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    format!("`{found}` is not a scenario: expected download, page, mixed or repeat{suggestion}")
}

/// `20 x 15KB`, or `15KB`.
fn repeated_size(text: &str) -> Result<Vec<DataSize>, String> {
    let (count, size) = match text.split_once(" x ") {
        None => (1, text),
        Some((count, size)) => {
            let count = count.trim().parse::<usize>();
            let malformed =
                |_| format!("`{text}` is not a number of objects: expected one like `20 x 15KB`");
            (count.map_err(malformed)?, size.trim())
        }
    };
    let size: DataSize = size.parse().map_err(|error| format!("{error}"))?;
    if count > crate::scenario::MAX_OBJECTS {
        return Err(format!(
            "`{text}` is too many: at most {} can be fetched",
            crate::scenario::MAX_OBJECTS
        ));
    }
    Ok(vec![size; count])
}
