//! Prints what policies cost four populations: `cargo run --release -p altway-simulate --example compare`.
#![allow(clippy::print_stdout, reason = "an example")]

use altway_select::{ModelKind, Surface};
use altway_simulate::{
    AlwaysH2, AlwaysH3, Clairvoyant, MONTH, Mix, Policy, Population, Region, SelectorPolicy, run,
};

fn main() {
    let worlds = [
        ("metro bulk", Region::Metro, Mix::BULK),
        ("metro web", Region::Metro, Mix::WEB),
        ("national web", Region::National, Mix::WEB),
        ("global web", Region::Global, Mix::WEB),
    ];
    for (name, region, mix) in worlds {
        for seed in [61, 62] {
            let population = Population::new(region, mix, seed);
            println!("{name}, seed {seed}");
            for (name, mut policy) in policies() {
                println!("  {name:12} {}", run(&population, &mut *policy));
            }
        }
    }
}

fn policies() -> Vec<(&'static str, Box<dyn Policy>)> {
    let selected = |model: ModelKind| -> Box<dyn Policy> {
        Box::new(SelectorPolicy::new(&model, Surface::embedded().clone()))
    };
    vec![
        ("h2", Box::new(AlwaysH2)),
        ("h3", Box::new(AlwaysH3 { max_age: MONTH })),
        (
            "threshold",
            selected(ModelKind::Threshold(Default::default())),
        ),
        ("study", selected(ModelKind::Study(Default::default()))),
        ("surface", selected(ModelKind::Surface(None))),
        ("learned", selected(ModelKind::Learned(None))),
        ("clairvoyant", Box::new(Clairvoyant)),
    ]
}
