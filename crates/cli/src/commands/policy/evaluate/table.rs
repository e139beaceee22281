//! Estimates as a table.

use super::estimate::{ENOUGH_TURNED, Estimates, HoldOut, Interval, PolicyEstimate};
use altway_report::signed;

pub(super) fn text(it: &Estimates) -> String {
    let mut text = format!(
        "{} pages in {:.1} days. {} of them, by clients at {} addresses, show what had been decided; {}\nare by clients \
         that had been told nothing before. Chance had a part in {:.0} % of the decisions.\n\n",
        it.pages,
        it.days,
        it.trials,
        it.clients,
        it.untold,
        100.0 * it.by_chance
    );
    text += &format!(
        "{:<22}{:>9}{:>26}{:>26}{:>8}{:>11}{:>8}\n",
        "policy", "offers h3", "doubly robust", "SNIPS", "over h3", "processor", "shown"
    );
    let logged = &it.logged;
    text += &format!(
        "{:<22}{:>7.0} %{:>26}{:>26}{:>6.0} %{:>11}\n",
        "as logged",
        100.0 * logged.offers_h3,
        format!("{:.0} ms", 1e3 * logged.seconds),
        "",
        100.0 * logged.over_h3,
        format!("{:.2} ms", logged.processor_ms)
    );
    text.extend(it.policies.iter().map(row));
    text += "\nTime of a page against the log's, in per cent, with 95 % intervals: below 0 is faster. Processor time \
             against the log's,\nby one machine's costs. Shown: pages of which chance decided or the policy agrees; the \
             estimates are of these.\n";
    for other in &it.policies {
        if let (Some(turned), None) = (other.turned_clients, other.doubly_robust) {
            text += &format!(
                "{}: chance told {turned} clients what it wants where the server wants the other; it takes {ENOUGH_TURNED} to tell.\n",
                other.policy
            );
        }
        if let Some(predicted) = other.others_predicted {
            text += &format!(
                "The other {:.0} % under {} have a prediction alone: {} %.\n",
                100.0 * (1.0 - other.shown),
                other.policy,
                signed(percent(predicted))
            );
        }
    }
    text += &hold_out(&it.hold_out);
    text += &needed(it);
    text + &super::timing::text(&it.timing)
}

fn row(it: &PolicyEstimate) -> String {
    let interval = |it: Option<Interval>| it.map_or_else(|| "–".into(), shown);
    let share =
        |share: Option<f64>| share.map_or_else(|| "–".into(), |it| format!("{:.0} %", 100.0 * it));
    format!(
        "{:<22}{:>7.0} %{:>26}{:>26}{:>8}{:>11}{:>6.0} %\n",
        it.policy,
        100.0 * it.offers_h3,
        interval(it.doubly_robust),
        interval(it.snips),
        share(it.over_h3),
        it.processor
            .map_or_else(|| "–".into(), |it| format!("{it:.2}")),
        100.0 * it.shown
    )
}

fn shown(it: Interval) -> String {
    format!(
        "{} ({} … {})",
        signed(percent(it.mean)),
        signed(percent(it.low)),
        signed(percent(it.high))
    )
}

fn percent(ln: f64) -> f64 {
    100.0 * ln.exp_m1()
}

fn hold_out(it: &HoldOut) -> String {
    let ([pages2, pages3], [clients2, clients3]) = (it.pages, it.clients);
    if pages2 + pages3 == 0 {
        return "\nNobody was held out: `--policy learned` holds a few clients out after its first 1,000 visits.\n".into();
    }
    let difference = it.difference.map_or_else(
        || "too few to tell".into(),
        |it| format!("HTTP/3 against HTTP/2 {} %", shown(it)),
    );
    format!(
        "\nHold-out: {pages3} pages from {clients3} addresses that a coin told HTTP/3, {pages2} from {clients2} that it told \
         HTTP/2:\n{difference}.\n"
    )
}

fn needed(it: &Estimates) -> String {
    let Some(needed) = it.visits_needed else {
        return String::new();
    };
    let visits = it.visits as f64;
    if needed <= visits {
        return format!(
            "Its {visits:.0} visits are enough to see a difference of 2 % (power 80 %).\n"
        );
    }
    let more = (needed - visits).ceil();
    let weeks = it.days / 7.0 * more / visits;
    let time = match weeks {
        weeks if !weeks.is_finite() || it.days < 0.5 => String::new(),
        weeks if weeks < 1.5 => format!(", {:.0} days at this pace", (7.0 * weeks).ceil()),
        weeks => format!(", {:.0} weeks at this pace", weeks.ceil()),
    };
    format!(
        "To see a difference of 2 % (power 80 %) it needs {more:.0} visits more than its {visits:.0}{time}.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::policy::evaluate::estimate::LoggedPolicy;

    fn estimates() -> Estimates {
        let interval = Interval {
            mean: -0.05,
            low: -0.10,
            high: 0.0,
        };
        let policy = |name: &str, shown| PolicyEstimate {
            policy: name.into(),
            offers_h3: 1.0,
            shown,
            turned_clients: Some(12),
            others_predicted: (shown < 1.0).then_some(0.2),
            doubly_robust: Some(interval),
            snips: None,
            over_h3: Some(0.9),
            processor: Some(1.5),
        };
        Estimates {
            timing: Vec::new(),
            pages: 1_000,
            trials: 800,
            untold: 200,
            clients: 90,
            visits: 400,
            days: 14.0,
            by_chance: 0.5,
            damaged_lines: 0,
            damaged: Vec::new(),
            dropped_lines: 0,
            logged: LoggedPolicy {
                seconds: 0.25,
                offers_h3: 0.5,
                over_h3: 0.4,
                processor_ms: 0.5,
            },
            policies: vec![policy("h3", 1.0), policy("surface", 0.75)],
            hold_out: HoldOut {
                pages: [10, 12],
                clients: [4, 5],
                difference: Some(interval),
            },
            visits_needed: Some(1_000.0),
        }
    }

    #[test]
    fn a_table_says_what_each_policy_takes_and_what_is_missing() {
        let table = text(&estimates());
        for part in [
            "as logged                  50 %                    250 ms",
            "h3                        100 %         −4.9 (−9.5 … 0.0)                         –    90 %       1.50   100 %",
            "The other 25 % under surface have a prediction alone: +22.1 %.",
            "Hold-out: 12 pages from 5 addresses that a coin told HTTP/3, 10 from 4 that it told HTTP/2:\nHTTP/3 against HTTP/2 −4.9 (−9.5 … 0.0) %.",
            "it needs 600 visits more than its 400, 3 weeks at this pace.",
        ] {
            assert!(table.contains(part), "{part} in\n{table}");
        }
        assert!(
            table.lines().all(|line| line.chars().count() <= 130),
            "{table}"
        );
    }

    #[test]
    fn what_is_not_there_is_said() {
        let mut it = estimates();
        it.hold_out = HoldOut {
            pages: [0, 0],
            clients: [0, 0],
            difference: None,
        };
        it.visits_needed = None;
        it.policies[0].doubly_robust = None;
        it.policies[0].turned_clients = Some(3);
        let said = "\nh3: chance told 3 clients what it wants where the server wants the other; it takes 10 to tell.\n";
        assert!(text(&it).contains(said), "{}", text(&it));
        assert!(text(&it).ends_with("after its first 1,000 visits.\n"));
        it.hold_out.pages = [1, 0];
        it.visits_needed = Some(100.0);
        let table = text(&it);
        assert!(
            table.contains("too few to tell") && table.ends_with("(power 80 %).\n"),
            "{table}"
        );
    }
}
