//! The plans that ship with altway, so that the binary alone can run them.

/// The plan that `altway lab run` takes when none is named.
pub const DEFAULT: &str = "quick";

const SHIPPED: [(&str, &str); 2] = [
    ("quick", include_str!("../../../plans/quick.toml")),
    (
        "delay-sweep",
        include_str!("../../../plans/delay-sweep.toml"),
    ),
];

/// The names of the shipped plans.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.into_iter().map(|(name, _)| name)
}

/// The text of a shipped plan.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    SHIPPED
        .into_iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_record::{Plan, Rate};
    use std::time::Duration;

    fn plan(name: &str) -> Plan {
        text(name).unwrap().parse().unwrap()
    }

    #[test]
    fn every_shipped_plan_is_valid_and_bears_its_name() {
        for name in names() {
            assert_eq!(plan(name).name, name);
        }
        assert!(text(DEFAULT).is_some());
    }

    #[test]
    fn delay_sweep_is_lab_4() {
        let plan = plan("delay-sweep");
        let delays: Vec<_> = (0..=8).map(|i| Duration::from_millis(25 * i)).collect();
        assert_eq!(plan.delays, delays);
        assert_eq!(plan.rates, ["5mbit".parse::<Rate>().unwrap()]);
        assert_eq!(plan.sizes[0].as_bytes(), 1_000_000);
        assert_eq!(plan.pairs, 25);
    }
}
