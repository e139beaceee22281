//! Costs of simulated policies, as a table for each population and as JSON.

use super::PopulationName;
use super::candidate::Candidate;
use altway_simulate::Outcome;
use serde::Serialize;

/// A policy's costs in a population, means over the seeds. Shares, not per cent.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    population: String,
    policy: String,
    /// Pages of one seed.
    pages: f64,
    mean_regret: f64,
    regret_of_all_time: f64,
    ln_time_against_h2: f64,
    ln_time_against_h2_worst_clients: f64,
    mean_regret_worst_pages: f64,
    mean_regret_throttled: f64,
    h3_share: f64,
    failed_pages: f64,
    processor_time_against_h3: f64,
    changes_a_week: f64,
}

impl Row {
    pub(super) fn new(
        population_name: PopulationName,
        policy: &Candidate,
        outcomes: &[Outcome],
    ) -> Self {
        let mean = |of: fn(&Outcome) -> f64| {
            outcomes.iter().map(of).sum::<f64>() / outcomes.len().max(1) as f64
        };
        Self {
            population: population_name.to_string(),
            policy: policy.to_string(),
            pages: mean(|it| it.pages as f64),
            mean_regret: mean(|it| it.mean),
            regret_of_all_time: mean(|it| it.total),
            ln_time_against_h2: mean(|it| it.against_h2),
            ln_time_against_h2_worst_clients: mean(|it| it.worst_clients),
            mean_regret_worst_pages: mean(|it| it.worst_pages),
            mean_regret_throttled: mean(|it| it.throttled),
            h3_share: mean(|it| it.h3_share),
            failed_pages: mean(|it| it.failed),
            processor_time_against_h3: mean(|it| it.processor),
            changes_a_week: mean(|it| it.changes),
        }
    }

    fn text(&self) -> String {
        format!(
            "{:<20}{:>8.2}{:>8.2}{:>9.2}{:>14.0}{:>13.0}{:>11.0}{:>8.0}{:>8.2}{:>11.2}\n",
            self.policy,
            100.0 * self.mean_regret,
            100.0 * self.regret_of_all_time,
            100.0 * self.ln_time_against_h2,
            100.0 * self.ln_time_against_h2_worst_clients,
            100.0 * self.mean_regret_worst_pages,
            100.0 * self.mean_regret_throttled,
            100.0 * self.h3_share,
            100.0 * self.failed_pages,
            self.processor_time_against_h3
        )
    }
}

/// A table for each population: at most 110 columns where policies have short names.
pub(super) fn text(rows: &[Row]) -> String {
    let tables = rows.chunk_by(|a, b| a.population == b.population);
    let tables: Vec<String> = tables.map(table).collect();
    tables.join("\n")
        + "\nIn per cent: mean regret of a page, and of all time together; time against HTTP/2 for all (ln); the \
           same of\nthe worst 1 % of clients; regret of the worst 1 % of pages, and on networks that throttle UDP; pages \
           that end\nover HTTP/3; pages that fail, for curl tries QUIC alone where it has an offer and UDP is \
           blocked. Processor\ntime is a share of that with HTTP/3 for all.\n"
}

fn table(rows: &[Row]) -> String {
    let first = rows.first();
    let title = first.map_or_else(String::new, |row| {
        format!("{}, {:.0} pages a seed", row.population, row.pages)
    });
    let head = format!(
        "{title}\n{:<20}{:>8}{:>8}{:>9}{:>14}{:>13}{:>11}{:>8}{:>8}{:>11}\n",
        "policy",
        "regret",
        "of all",
        "against",
        "worst clients",
        "worst pages",
        "throttled",
        "HTTP/3",
        "failed",
        "processor"
    );
    head + &rows.iter().map(Row::text).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_population_has_a_table_and_lines_fit_a_terminal() {
        let outcome = Outcome {
            pages: 10,
            total: 0.01,
            mean: 0.02,
            honest: 0.02,
            late: 0.02,
            worst_pages: 1.5,
            throttled: 0.5,
            worst_clients: 0.3,
            against_h2: -0.05,
            h3_share: 0.5,
            failed: 0.0,
            processor: 0.75,
            changes: 0.1,
        };
        let other = Outcome {
            mean: 0.04,
            ..outcome
        };
        let row =
            |population_name| Row::new(population_name, &Candidate::Clairvoyant, &[outcome, other]);
        let text = text(&[
            row(PopulationName::MetroWeb),
            row(PopulationName::MetroWeb),
            row(PopulationName::GlobalWeb),
        ]);
        assert_eq!(text.matches("\npolicy").count(), 2, "{text}");
        assert_eq!(
            text.matches("clairvoyant             3.00").count(),
            3,
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 110),
            "{text}"
        );
    }
}
