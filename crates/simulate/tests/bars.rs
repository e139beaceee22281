//! Bars of what the learned policy may cost, over weeks and thousands of clients.

use altway_select::{ModelKind, Surface};
use altway_simulate::{
    AlwaysH3, Hostility, MONTH, Mix, Outcome, Population, Region, SelectorPolicy, run,
};

/// Means of outcomes over the seeds.
struct Means {
    mean: f64,
    total: f64,
    honest: f64,
    worst_clients: f64,
    worst_pages: f64,
    throttled: f64,
    failed: f64,
    processor: f64,
    changes: f64,
}

impl Means {
    fn of(outcomes: &[Outcome]) -> Self {
        let mean =
            |of: fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64;
        Self {
            mean: mean(|it| it.mean),
            total: mean(|it| it.total),
            honest: mean(|it| it.honest),
            worst_clients: mean(|it| it.worst_clients),
            worst_pages: mean(|it| it.worst_pages),
            throttled: mean(|it| it.throttled),
            failed: mean(|it| it.failed),
            processor: mean(|it| it.processor),
            changes: mean(|it| it.changes),
        }
    }
}

/// The learned policy and HTTP/3 for all, in the same four worlds.
fn learned_and_h3(
    region: Region,
    mix: Mix,
    surface: &Surface,
    change: impl Fn(&mut Population),
) -> (Means, Means) {
    let (mut learned, mut h3) = (Vec::new(), Vec::new());
    for seed in 61..=64 {
        let mut population = Population::new(region, mix, seed);
        population.clients = 2_000;
        change(&mut population);
        let model = ModelKind::Learned(None);
        learned.push(run(
            &population,
            &mut SelectorPolicy::new(&model, surface.clone()),
        ));
        h3.push(run(&population, &mut AlwaysH3 { max_age: MONTH }));
    }
    (Means::of(&learned), Means::of(&h3))
}

#[track_caller]
fn assert_at_most(what: &str, value: f64, bar: f64) {
    assert!(value <= bar, "{what}: {value:.4}, more than {bar:.4}");
}

#[test]
fn downloads_near_by_cost_less_than_either_protocol_for_all_and_half_the_processor_time() {
    let (learned, h3) = learned_and_h3(Region::Metro, Mix::BULK, Surface::embedded(), |_| {});
    assert_at_most("mean regret", learned.mean, 0.030);
    assert_at_most("regret of all time", learned.total, 0.030);
    assert_at_most("worst clients", learned.worst_clients, 0.25);
    assert_at_most("processor", learned.processor, 0.50);
    assert_at_most("worst pages", learned.worst_pages, 0.55 * h3.worst_pages);
    assert_at_most("throttled UDP", learned.throttled, 0.10 * h3.throttled);
    assert_at_most("changes a week", learned.changes, 2.0);
}

#[test]
fn sites_near_by_cost_less_than_with_http3_for_all_and_less_processor_time() {
    let (learned, h3) = learned_and_h3(Region::Metro, Mix::WEB, Surface::embedded(), |_| {});
    assert_at_most("mean regret", learned.mean, h3.mean.min(0.046));
    assert_at_most("worst clients", learned.worst_clients, 0.35);
    assert_at_most("processor", learned.processor, 0.80);
    assert_at_most("worst pages", learned.worst_pages, 0.65 * h3.worst_pages);
    assert_at_most("throttled UDP", learned.throttled, 0.35 * h3.throttled);
    assert_at_most("changes a week", learned.changes, 2.0);
}

#[test]
fn sites_of_a_country_cost_little_more_than_with_http3_for_all_and_spare_the_worst() {
    let (learned, h3) = learned_and_h3(Region::National, Mix::WEB, Surface::embedded(), |_| {});
    assert_at_most("mean regret", learned.mean, 0.036);
    assert_at_most(
        "worst clients",
        learned.worst_clients,
        0.35_f64.min(h3.worst_clients),
    );
    // A hold-out of 5 % whatever it cost had .01 less, of clients that were sent to HTTP/2 by chance.
    assert_at_most("processor", learned.processor, 0.965);
}

/// HTTP/2 is 11 % slower there, so that each client that is held out or moved late shows. Half of the difference is curl's, three
/// clients in a hundred: offered HTTP/3 as all others are, it loads nothing where UDP is blocked.
#[test]
fn sites_of_the_world_cost_a_fifth_of_a_percent_more_than_with_http3_for_all_and_none_fails() {
    let (learned, h3) = learned_and_h3(Region::Global, Mix::WEB, Surface::embedded(), |_| {});
    assert_at_most("mean regret", learned.mean, h3.mean + 0.0022);
    assert_at_most("pages that fail", learned.failed, 0.0);
    assert!(h3.failed > 0.0, "{}", h3.failed);
}

#[test]
fn clients_that_lie_cost_the_honest_little() {
    let hostilities = [
        Hostility {
            share: 0.05,
            fake_times: true,
            ..Hostility::default()
        },
        Hostility {
            share: 0.05,
            fake_rates: true,
            ..Hostility::default()
        },
        Hostility {
            share: 0.05,
            fake_times: true,
            fake_rates: true,
            fake_agents: true,
        },
    ];
    for hostility in hostilities {
        let (learned, h3) = learned_and_h3(Region::Metro, Mix::WEB, Surface::embedded(), |it| {
            it.hostility = hostility;
        });
        assert_at_most(
            "honest clients' mean regret",
            learned.honest,
            h3.honest + 0.01,
        );
    }
}

#[test]
fn browsers_that_change_are_followed() {
    let world = |change: bool| {
        learned_and_h3(Region::Metro, Mix::BULK, Surface::embedded(), |it| {
            it.browsers_change = change.then_some(14);
        })
    };
    let (steady, changed) = (world(false), world(true));
    assert_at_most("mean regret", changed.0.mean, 1.15 * steady.0.mean);
    assert_at_most("mean regret", changed.0.mean, 0.5 * changed.1.mean);
}

#[test]
fn addresses_that_change_weekly_cost_little() {
    let (learned, h3) = learned_and_h3(Region::Metro, Mix::BULK, Surface::embedded(), |it| {
        it.address_life = Some(7);
    });
    assert_at_most("mean regret", learned.mean, 0.5 * h3.mean);
}

/// Limits, lead on lossy paths and class limits that are 30 % and 20 % off.
#[test]
fn a_surface_that_is_wrong_costs_downloads_half_of_http3_for_all_at_most() {
    let text = Surface::embedded().to_toml();
    for (limit, growth) in [(0.7, 0.8), (1.4, 1.2)] {
        let wrong: String = text
            .lines()
            .map(|line| match line.split_once(" = ") {
                Some(("growth", value)) => scaled("growth", value, growth),
                Some((class, value))
                    if class.contains('-')
                        && !class.starts_with("handshake")
                        && !class.starts_with("request") =>
                {
                    scaled(class, value, limit)
                }
                _ => format!("{line}\n"),
            })
            .collect();
        let wrong = Surface::parse(&wrong).unwrap();
        assert_ne!(&wrong, Surface::embedded());
        let (learned, h3) = learned_and_h3(Region::Metro, Mix::BULK, &wrong, |_| {});
        assert_at_most("mean regret", learned.mean, 0.5 * h3.mean);
    }
}

fn scaled(name: &str, value: &str, by: f64) -> String {
    let value: f64 = value.parse().expect("coefficients are numbers");
    format!("{name} = {:?}\n", value * by)
}
