//! Prints what fixed policies cost four populations.
#![allow(clippy::print_stdout, reason = "an example")]
use altway_simulate::*;
fn main() {
    for (name, region, mix) in [
        ("metro bulk", Region::Metro, Mix::BULK),
        ("metro web", Region::Metro, Mix::WEB),
        ("national web", Region::National, Mix::WEB),
        ("global web", Region::Global, Mix::WEB),
    ] {
        for seed in [61, 62] {
            let mut population = Population::new(region, mix, seed);
            population.clients = 2000;
            println!("{name} {seed} h2    {}", run(&population, &mut AlwaysH2));
            println!(
                "{name} {seed} h3    {}",
                run(&population, &mut AlwaysH3 { max_age: MONTH })
            );
            println!("{name} {seed} clair {}", run(&population, &mut Clairvoyant));
        }
    }
}
