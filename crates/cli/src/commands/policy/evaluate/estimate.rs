//! Estimates from trials: what each policy takes of time, load and processor.

use super::ReplayedLogs;
use super::timing::Bias;
use altway_select::Offer;
use altway_select::replay::{PageTrial, visits_needed};
use altway_stats::{
    ClusteredMean, OffPolicy, Trial, off_policy, treatment_difference, trials_needed,
};
use serde::Serialize;
use std::collections::BTreeSet;

/// The difference that is to be seen, ln.
const DETECTABLE_DIFFERENCE: f64 = 0.02;

/// Clients that chance turned to what a policy wants, below which intervals are too short: in synthetic logs 67 to 95 of 100 of 95 %
/// held the truth with fewer, and 92 or more from 10 on.
pub(super) const ENOUGH_TURNED: usize = 10;

/// Clients of each arm below which its spread is not known.
const ENOUGH_CLIENTS: usize = 10;

/// The estimates by a log. Differences of time are ln: below 0 is faster; shares are no per cent.
#[derive(Debug, Serialize)]
pub(super) struct Estimates {
    pub(super) pages: u64,
    /// Pages that show what had been decided.
    pub(super) trials: usize,
    /// Pages of clients that had been told nothing before.
    pub(super) untold: u64,
    pub(super) clients: usize,
    pub(super) visits: u64,
    pub(super) days: f64,
    /// Share of the trials for which chance had a part in the decision.
    pub(super) by_chance: f64,
    pub(super) damaged_lines: u64,
    /// The first of them.
    pub(super) damaged: Vec<String>,
    pub(super) dropped_lines: u64,
    pub(super) logged: LoggedPolicy,
    pub(super) policies: Vec<PolicyEstimate>,
    pub(super) hold_out: HoldOut,
    /// Visits after which a difference of 2 % shows in the hold-out, those of the log included.
    pub(super) visits_needed: Option<f64>,
    /// The bias of the server's times against browsers' own, where the site has a beacon.
    pub(super) timing: Vec<Bias>,
}

/// The value of the log's own policy.
#[derive(Debug, Serialize)]
pub(super) struct LoggedPolicy {
    /// Geometric mean of the seconds of a page.
    pub(super) seconds: f64,
    /// Share of pages whose client had been told to use HTTP/3.
    pub(super) offers_h3: f64,
    /// Share of pages over HTTP/3.
    pub(super) over_h3: f64,
    /// Milliseconds of the server's processor for a page, by one machine's costs.
    pub(super) processor_ms: f64,
}

/// The value that another policy would have had, over the pages that show it.
#[derive(Debug, Serialize)]
pub(super) struct PolicyEstimate {
    pub(super) policy: String,
    pub(super) offers_h3: f64,
    /// Share of the trials that show it: it agrees with the log, or chance had a part.
    pub(super) shown: f64,
    /// The prediction for the other pages, against the log.
    pub(super) others_predicted: Option<f64>,
    /// Clients that chance told what the policy wants where the server's own policy wanted the other. `None`: it nowhere did.
    pub(super) turned_clients: Option<usize>,
    /// ln of the time of a page against the log's; `None` with fewer than ten of these clients.
    pub(super) doubly_robust: Option<Interval>,
    pub(super) snips: Option<Interval>,
    pub(super) over_h3: Option<f64>,
    /// Processor time against the log's.
    pub(super) processor: Option<f64>,
}

/// A mean with the ends of its 95 % interval.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Interval {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// The clients that a coin decided for.
#[derive(Debug, Serialize)]
pub(super) struct HoldOut {
    /// Pages and clients that were told to use HTTP/2, and HTTP/3.
    pub(super) pages: [usize; 2],
    pub(super) clients: [usize; 2],
    /// ln of the time of those told to use HTTP/3 against the others.
    pub(super) difference: Option<Interval>,
}

impl From<ClusteredMean> for Interval {
    fn from(it: ClusteredMean) -> Self {
        Self {
            mean: it.value,
            low: it.interval.low,
            high: it.interval.high,
        }
    }
}

pub(super) fn estimates(replayed: &ReplayedLogs, policies: &[String]) -> Estimates {
    let (trials, counts, log) = (&replayed.trials, &replayed.counts, &replayed.log);
    let seconds = counts.last.saturating_sub(counts.first);
    let (hold_out, needed) = hold_out(trials, counts.visits);
    let estimated = policies.iter().enumerate();
    Estimates {
        timing: replayed.timing.biases(),
        pages: counts.pages,
        trials: trials.len(),
        untold: counts.untold,
        clients: clients(trials.iter()),
        visits: counts.visits,
        days: seconds as f64 / 86_400.0,
        by_chance: share(trials, |it| it.propensity < 1.0),
        damaged_lines: log.damaged,
        damaged: log.named.clone(),
        dropped_lines: log.dropped,
        logged: logged(trials),
        policies: estimated
            .map(|(place, name)| policy(trials, name, place))
            .collect(),
        hold_out,
        visits_needed: needed,
    }
}

fn logged(trials: &[PageTrial]) -> LoggedPolicy {
    LoggedPolicy {
        seconds: mean(trials, |it| it.ln_time).exp(),
        offers_h3: share(trials, |it| it.offer == Offer::Http3),
        over_h3: share(trials, |it| it.http3),
        processor_ms: 1e3 * mean(trials, processor),
    }
}

fn policy(trials: &[PageTrial], name: &str, place: usize) -> PolicyEstimate {
    let agrees = |it: &PageTrial| (it.offer == Offer::Http3) == it.wants_http3(place);
    let (shown, others): (Vec<PageTrial>, Vec<PageTrial>) = trials
        .iter()
        .partition(|it| it.propensity < 1.0 || agrees(it));
    let turned = turned(&shown, agrees);
    let is_known = turned.is_none_or(|it| it >= ENOUGH_TURNED);
    let estimate = |trial: fn(&PageTrial) -> Trial| -> Option<OffPolicy> {
        if !is_known {
            return None;
        }
        let each: Vec<Trial> = shown.iter().map(trial).collect();
        let wanted = |index: usize| shown[index].wants_http3(place);
        off_policy(&each, wanted, 0.95)
    };
    let time = estimate(time);
    let gain = |it: &PageTrial| {
        let lead = it.predicted[1] - it.predicted[0];
        if it.wants_http3(place) { lead } else { -lead }
    };
    let used = mean(&shown, processor);
    PolicyEstimate {
        policy: name.to_owned(),
        offers_h3: share(trials, |it| it.wants_http3(place)),
        shown: shown.len() as f64 / trials.len() as f64,
        turned_clients: turned,
        others_predicted: (!others.is_empty()).then(|| mean(&others, gain)),
        doubly_robust: time.map(|it| it.doubly_robust_difference.into()),
        snips: time.and_then(|it| Some(it.snips_difference?.into())),
        over_h3: estimate(over_h3).map(|it| it.doubly_robust.value.clamp(0.0, 1.0)),
        processor: estimate(spent).map(|it| it.doubly_robust.value / used),
    }
}

/// Clients of which each week counts for itself, that chance told what a policy wants, which `agrees` says, against the server's
/// own; `None` where both want the same for all.
fn turned(shown: &[PageTrial], agrees: impl Fn(&PageTrial) -> bool) -> Option<usize> {
    // The less probable of both protocols is the one that only chance gives.
    let differs = |it: &PageTrial| agrees(it) == (it.propensity < 0.5);
    let differing = shown.iter().filter(|it| differs(it));
    let (mut any, mut turned) = (false, BTreeSet::new());
    for it in differing {
        any = true;
        if agrees(it) {
            turned.insert(it.cluster());
        }
    }
    any.then_some(turned.len())
}

fn time(trial: &PageTrial) -> Trial {
    of(trial, trial.ln_time, trial.predicted)
}

fn over_h3(trial: &PageTrial) -> Trial {
    of(trial, if trial.http3 { 1.0 } else { 0.0 }, [0.0, 1.0])
}

fn spent(trial: &PageTrial) -> Trial {
    of(trial, processor(trial), trial.processor)
}

fn processor(trial: &PageTrial) -> f64 {
    trial.processor[usize::from(trial.http3)]
}

fn of(trial: &PageTrial, outcome: f64, predicted: [f64; 2]) -> Trial {
    Trial {
        cluster: trial.cluster(),
        second: trial.offer == Offer::Http3,
        propensity: trial.propensity,
        outcome,
        predicted,
    }
}

/// The hold-out, and the visits that show a difference of 2 %: by its own spread, else by the one that its share is
/// made for.
fn hold_out(trials: &[PageTrial], visits: u64) -> (HoldOut, Option<f64>) {
    let held = || trials.iter().filter(|it| it.held);
    let each: Vec<Trial> = held().map(time).collect();
    let difference = treatment_difference(&each, 0.95);
    let offers = [Offer::Http2, Offer::Http3];
    let told = |offer| held().filter(move |it| it.offer == offer);
    let clients = offers.map(|offer| clients(told(offer)));
    let spread = difference.filter(|_| clients.iter().all(|it| *it >= ENOUGH_CLIENTS));
    let by_spread =
        spread.map(|it| visits as f64 * trials_needed(it.standard_error, DETECTABLE_DIFFERENCE));
    let by_share = mean_share(trials.iter().map(|it| it.propensity)).map(visits_needed);
    let hold_out = HoldOut {
        pages: offers.map(|offer| told(offer).count()),
        clients,
        difference: difference.map(Into::into),
    };
    (hold_out, by_spread.or(by_share))
}

/// The share of clients that the hold-out takes in the mean, by the probabilities of decisions: half of a share gets the protocol
/// that was not chosen. `None`: no decision could have been another.
fn mean_share(propensities: impl Iterator<Item = f64>) -> Option<f64> {
    let shares = propensities.filter(|it| (0.5..1.0).contains(it));
    let (count, sum) = shares.fold((0_u32, 0.0), |(count, sum), it| {
        (count + 1, sum + 2.0 * (1.0 - it))
    });
    (count > 0).then(|| sum / f64::from(count))
}

fn mean(trials: &[PageTrial], of: impl Fn(&PageTrial) -> f64) -> f64 {
    trials.iter().map(of).sum::<f64>() / trials.len().max(1) as f64
}

fn share(trials: &[PageTrial], is: impl Fn(&PageTrial) -> bool) -> f64 {
    mean(trials, |it| if is(it) { 1.0 } else { 0.0 })
}

fn clients<'a>(trials: impl Iterator<Item = &'a PageTrial>) -> usize {
    trials.map(|it| it.client).collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_the_hold_out_is_the_mean_over_pages_that_could_be_held() {
        // The held themselves, and pages of which none are held, don't count.
        let share = mean_share([0.975, 0.995, 0.025, 1.0].into_iter()).unwrap();
        assert!((share - 0.03).abs() < 1e-9, "{share}");
        assert_eq!(mean_share([1.0, 0.025].into_iter()), None);
    }
}
