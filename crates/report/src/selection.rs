//! Policies of a server beside each other: what each costs against the better of the two protocols, how much
//! goes over HTTP/3, and what moving there costs.
//!
//! A cell's better protocol is the one whose policy (`h2`, `h3`) has the shorter sessions from the second on,
//! which begin on the protocol that they stay on. Every time is held against the sessions of that policy in
//! the same block, as a log-ratio; means are of log-ratios.

use crate::analysis::{Analysis, CellResult};
use crate::table::{columns, wrapped_to};
use crate::words;
use altway_record::{Client, Policy, Protocol, Sample};
use std::collections::BTreeMap;
use winner::Winner;

mod winner;

/// Columns of a terminal.
const WIDTH: usize = 100;

/// The policies of a run, compared.
pub(crate) struct Selection {
    policies: Vec<Policy>,
    sessions: usize,
    /// The cells that have a better protocol, in the plan's order: their names and results.
    cells: Vec<(String, CellSelection)>,
    winner: Option<Winner>,
    /// Clients that were offered HTTP/3 and never went there.
    unmoved: Vec<Client>,
}

/// The policies in one cell.
struct CellSelection {
    better: Protocol,
    policies: BTreeMap<Policy, Side>,
    /// The policy `h2` once more.
    again: Option<Side>,
    /// The cost of a first session's move to HTTP/3, ln.
    switch: Option<f64>,
}

/// The visits under one policy in one cell.
struct Side {
    transfers: usize,
    /// ln(time / time of the better protocol), by session.
    sessions: Vec<f64>,
    /// Share of body bytes that came over HTTP/3.
    http3: f64,
}

/// The sessions of one client with one server.
#[derive(Default)]
struct Visits {
    /// The first start and last end of each session, µs.
    spans: Vec<(u64, u64)>,
    bytes: u64,
    bytes_over_http3: u64,
}

/// The visits of one policy in one cell, by block.
type Blocks = BTreeMap<u32, Visits>;

impl Selection {
    /// The results of a run's policies; `None` where it has none.
    pub(crate) fn of(analysis: &Analysis<'_>) -> Option<Self> {
        let plan = &analysis.run.manifest.plan;
        if plan.policies.is_empty() {
            return None;
        }
        let mut visits: BTreeMap<(u32, bool, Policy), Blocks> = BTreeMap::new();
        for sample in analysis.run.samples.iter().filter(|one| one.valid) {
            if let Some(policy) = sample.policy {
                let of = visits.entry((sample.cell, sample.null_arm, policy));
                let blocks = of.or_default();
                blocks.entry(sample.block).or_default().add(sample);
            }
        }
        let mut names = names(analysis).into_iter();
        let named = |result: &CellResult<'_>| {
            let cell = &result.cell;
            let of_policy =
                |policy: &Policy| Some((*policy, visits.get(&(cell.index, false, *policy))?));
            let blocks = plan.policies.iter().filter_map(of_policy).collect();
            let again = visits.get(&(cell.index, true, Policy::H2));
            let found = CellSelection::of(&blocks, again, plan.sessions());
            Some((names.next()?, found?))
        };
        Some(Self {
            policies: plan.policies.clone(),
            sessions: plan.sessions(),
            cells: analysis.cells.iter().filter_map(named).collect(),
            winner: Winner::of(&visits, plan.sessions()),
            unmoved: unmoved(analysis),
        })
    }

    /// Heads and rows of the table of cells.
    pub(crate) fn cell_rows(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let mut head = vec!["cell".to_owned(), "better".into()];
        head.extend(self.policies.iter().map(|policy| match policy.fixed() {
            Some(_) => policy.to_string(),
            None => format!("{policy} (h3)"),
        }));
        head.push("move".into());
        let row = |(name, cell): &(String, CellSelection)| {
            let mut row = vec![name.clone(), cell.better.to_string()];
            row.extend(self.policies.iter().map(|policy| {
                let side = cell.policies.get(policy);
                side.map_or_else(missing, |side| {
                    let difference = words::signed(difference(mean(&side.sessions)));
                    match policy.fixed() {
                        Some(_) => difference,
                        None => format!("{difference} ({:.0})", side.http3 * 100.0),
                    }
                })
            }));
            let switch = cell.switch.map(|switch| words::signed(difference(switch)));
            row.push(switch.unwrap_or_else(missing));
            row
        };
        (head, self.cells.iter().map(row).collect())
    }

    /// Heads and rows of the table of policies over all cells.
    pub(crate) fn policy_rows(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let mut head = vec!["policy".to_owned(), "transfers".into()];
        head.extend((1..=self.sessions).map(|session| format!("session {session}")));
        head.extend(["all".into(), "worst cell".into(), "HTTP/3".into()]);
        let of_policy = |policy: &Policy| {
            let cells = self.cells.iter();
            let sides = cells.filter_map(|(_, cell)| cell.policies.get(policy));
            self.policy_row(policy.to_string(), &sides.collect::<Vec<_>>())
        };
        let mut rows: Vec<_> = self.policies.iter().map(of_policy).collect();
        let again = self
            .cells
            .iter()
            .filter_map(|(_, cell)| cell.again.as_ref());
        let again: Vec<_> = again.collect();
        if !again.is_empty() {
            rows.push(self.policy_row("h2 again".into(), &again));
        }
        (head, rows)
    }

    /// The result of a policy in the cells.
    fn policy_row(&self, name: String, sides: &[&Side]) -> Vec<String> {
        let of_session = |session: usize| -> Vec<f64> {
            sides.iter().map(|side| side.sessions[session]).collect()
        };
        let cells: Vec<f64> = sides.iter().map(|side| mean(&side.sessions)).collect();
        let http3: Vec<f64> = sides.iter().map(|side| side.http3).collect();
        let transfers: usize = sides.iter().map(|side| side.transfers).sum();
        let worst = cells.iter().copied().reduce(f64::max);
        let mut row = vec![name, transfers.to_string()];
        row.extend((0..self.sessions).map(|session| result_text(&of_session(session))));
        row.push(result_text(&cells));
        row.push(worst.map_or_else(missing, percent));
        row.push(match http3.is_empty() {
            true => missing(),
            false => share(mean(&http3)),
        });
        row
    }

    /// The meaning of the tables, in words.
    pub(crate) fn notes(&self) -> Vec<String> {
        let later = match self.sessions {
            1 => "its session",
            _ => "its sessions from the second on",
        };
        let mut notes: Vec<String> = self.winner.iter().map(Winner::result_text).collect();
        notes.extend(self.unmoved.iter().map(|client| {
            format!(
                "{client} never went over HTTP/3, whatever it was offered: what differs between its policies is noise."
            )
        }));
        notes.extend([
            format!(
                "Times are against the better protocol of each cell: the policy h2 or h3, by the time of {later}; \
                 negative is faster. Cells and sessions count alike, in log-ratios."
            ),
            "The table of cells is in per cent. HTTP/3 (h3): share of body bytes that came over it. move: what the first session of the policy h3, \
             which begins over HTTP/2, takes more than its later ones, less what HTTP/2's first takes more."
                .into(),
        ]);
        if self.cells.iter().any(|(_, cell)| cell.again.is_some()) {
            notes.push(
                "h2 again: what differs between it and h2 is noise; differences as small say nothing."
                    .into(),
            );
        }
        notes
    }

    /// The tables for a terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "Policies of the server · {}, {} each\n\n",
            words::count(self.cells.len(), "cell"),
            words::count(self.sessions, "session")
        );
        for (head, rows) in [self.cell_rows(), self.policy_rows()] {
            text.push_str(&columns(&head, &rows, 0));
            text.push('\n');
        }
        for note in self.notes() {
            text.push_str(&wrapped_to(&note, WIDTH));
            text.push('\n');
        }
        text + "\n"
    }
}

impl CellSelection {
    /// `None` before both fixed policies were measured in one block.
    fn of(
        blocks: &BTreeMap<Policy, &Blocks>,
        again: Option<&Blocks>,
        sessions: usize,
    ) -> Option<Self> {
        let (h2, h3) = (blocks.get(&Policy::H2)?, blocks.get(&Policy::H3)?);
        let steady = 1.min(sessions - 1);
        let both: Vec<u32> = h2
            .keys()
            .filter(|block| h3.contains_key(block))
            .copied()
            .collect();
        let of_all = |of: &Blocks| {
            let times = both
                .iter()
                .filter_map(|block| of.get(block)?.log_time(steady..sessions));
            let times: Vec<f64> = times.collect();
            (!times.is_empty()).then(|| mean(&times))
        };
        let (time_h2, time_h3) = (of_all(h2)?, of_all(h3)?);
        let (better, reference) = match time_h3 < time_h2 {
            true => (Protocol::H3, h3),
            false => (Protocol::H2, h2),
        };
        let side = |(policy, of): (&Policy, &&Blocks)| {
            Some((*policy, Side::of(of, reference, steady, sessions)?))
        };
        let first = |of: &Blocks| {
            let all = of.values();
            let more =
                all.filter_map(|one| Some(one.log_time(0..1)? - one.log_time(steady..sessions)?));
            let more: Vec<f64> = more.collect();
            (steady > 0 && !more.is_empty()).then(|| mean(&more))
        };
        Some(Self {
            better,
            policies: blocks.iter().filter_map(side).collect(),
            again: again.and_then(|of| Side::of(of, reference, steady, sessions)),
            switch: first(h3).zip(first(h2)).map(|(h3, h2)| h3 - h2),
        })
    }
}

impl Side {
    fn of(of: &Blocks, reference: &Blocks, steady: usize, sessions: usize) -> Option<Self> {
        let mut pairs = Vec::new();
        for (block, visits) in of {
            let reference = reference
                .get(block)
                .and_then(|one| one.log_time(steady..sessions));
            let session = |session| Some(visits.log_time(session..session + 1)? - reference?);
            let ratios: Option<Vec<f64>> = (0..sessions).map(session).collect();
            pairs.extend(ratios.map(|ratios| (ratios, visits)));
        }
        if pairs.is_empty() {
            return None;
        }
        let of_session = |session: usize| {
            let ratios: Vec<f64> = pairs.iter().map(|(ratios, _)| ratios[session]).collect();
            mean(&ratios)
        };
        let sum = |bytes: fn(&Visits) -> u64| pairs.iter().map(|(_, one)| bytes(one)).sum::<u64>();
        let all = sum(|one| one.bytes).max(1);
        Some(Self {
            transfers: pairs.len(),
            sessions: (0..sessions).map(of_session).collect(),
            http3: sum(|one| one.bytes_over_http3) as f64 / all as f64,
        })
    }
}

impl Visits {
    fn add(&mut self, sample: &Sample) {
        let Some(total) = sample.total_us else {
            return;
        };
        let (start, end) = (sample.start_us, sample.start_us.saturating_add(total));
        let session = sample.session as usize;
        // A plan has no more sessions than requests.
        if session > self.spans.len() {
            return;
        }
        match self.spans.get_mut(session) {
            Some(span) => *span = (span.0.min(start), span.1.max(end)),
            None => self.spans.push((start, end)),
        }
        self.bytes += sample.body_bytes;
        if sample.protocol_used == Some(Protocol::H3) {
            self.bytes_over_http3 += sample.body_bytes;
        }
    }

    /// Mean ln of the sessions' times in µs; `None` when one is missing.
    fn log_time(&self, sessions: std::ops::Range<usize>) -> Option<f64> {
        let spans = self.spans.get(sessions)?;
        let times = spans
            .iter()
            .map(|(start, end)| (end.saturating_sub(*start).max(1) as f64).ln());
        let times: Vec<f64> = times.collect();
        (!times.is_empty()).then(|| mean(&times))
    }
}

/// The clients with transfers under the policy `h3` none of whose requests went over HTTP/3.
fn unmoved(analysis: &Analysis<'_>) -> Vec<Client> {
    let plan = &analysis.run.manifest.plan;
    let offered = |client: Client| {
        let samples = analysis.run.samples.iter();
        samples
            .filter(move |one| one.valid && one.client == client && one.policy == Some(Policy::H3))
    };
    let stays = |client: &Client| {
        offered(*client).next().is_some()
            && offered(*client).all(|one| one.protocol_used != Some(Protocol::H3))
    };
    plan.clients.iter().copied().filter(stays).collect()
}

/// Names the cells: by their delays, and by what else is not the same in all of them.
fn names(analysis: &Analysis<'_>) -> Vec<String> {
    let parts: Vec<_> = analysis
        .cells
        .iter()
        .map(|result| words::parts(&result.cell))
        .collect();
    let differs = |part: usize| parts.iter().any(|one| one[part] != parts[0][part]);
    let telling: Vec<usize> = (0..words::PARTS).filter(|part| differs(*part)).collect();
    let name = |(result, parts): (&CellResult<'_>, &[String; words::PARTS])| {
        let others = telling.iter().map(|part| parts[*part].clone());
        let all: Vec<_> = std::iter::once(words::delay(result.cell.delay))
            .chain(others)
            .collect();
        all.join(", ")
    };
    analysis.cells.iter().zip(&parts).map(name).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn result_text(log_ratios: &[f64]) -> String {
    if log_ratios.is_empty() {
        return missing();
    }
    percent(mean(log_ratios))
}

/// A log-ratio as the difference that it is.
fn percent(log_ratio: f64) -> String {
    words::percent(difference(log_ratio))
}

/// The same as a number of per cent.
fn difference(log_ratio: f64) -> f64 {
    (log_ratio.exp() - 1.0) * 100.0
}

fn share(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

fn missing() -> String {
    "–".into()
}
