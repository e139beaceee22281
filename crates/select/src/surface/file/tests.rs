//! Surface files: what is written is read, and what is none is refused with its place.

use super::*;
use crate::{Source, Sources};
use proptest::prelude::*;

/// The embedded surface as a file.
fn file() -> String {
    Surface::embedded().to_toml()
}

/// Returns the reason for which the embedded surface with `to` in place of `from` is none.
fn refusal(from: &str, to: &str) -> String {
    let text = file();
    assert!(text.contains(from), "{text}");
    let changed = Surface::parse(&text.replacen(from, to, 1));
    changed.unwrap_err().to_string()
}

#[test]
fn the_surface_that_ships_is_as_it_would_be_written() {
    assert_eq!(include_str!("../../../assets/surface.toml"), file());
    assert_eq!(Surface::embedded().sources().runs.len(), 6);
}

#[test]
fn a_surface_of_another_version_is_named_as_such_whatever_else_it_has() {
    let said = refusal("version = 1", "version = 2\nheight = 3");
    assert_eq!(said, "surface of version 2, where 1 is expected");
    assert!(refusal("version = 1", "").contains("missing field `version`"));
}

#[test]
fn a_coefficient_out_of_its_range_is_named() {
    let said = refusal("numerator = 4.926", "numerator = nan");
    assert_eq!(said, "loss.numerator is outside of 1 to 100");
    assert!(refusal("curl-linux", "wget-linux").contains("wget-linux"));
    assert!(refusal("469e6", "7").contains("limit of `chromium-chromeos`"));
}

#[test]
fn what_is_no_surface_is_refused_with_its_line_and_key() {
    let line = |key: &str| {
        1 + file()
            .lines()
            .position(|line| line.starts_with(key))
            .unwrap()
    };
    let said = refusal("softness", "hardness");
    let expected = format!(
        "not a surface: line {}: unknown field `hardness`",
        line("softness")
    );
    assert!(said.starts_with(&expected), "{said}");
    let said = refusal("pace = 0.319", "pace = \"slow\"");
    let expected = format!("line {}: `pace`: invalid type", line("pace"));
    assert!(said.contains(&expected), "{said}");
    assert!(refusal("pace = 0.319", "pace 0.319").contains(&format!("line {}: ", line("pace"))));
    assert!(refusal("growth = 15.7", "").contains("missing field `growth`"));
    assert!(refusal("plan = ", "planet = ").contains("unknown field `planet`"));
}

#[test]
fn a_surface_states_under_which_congestion_controls_it_was_measured() {
    let (cubic, bbr) = (Congestion::LossBased, Congestion::RateBased);
    for pair in [[cubic, cubic], [bbr, bbr]] {
        assert!(Surface::embedded().is_measured(pair), "{pair:?}");
    }
    for pair in [[bbr, cubic], [cubic, bbr]] {
        assert!(!Surface::embedded().is_measured(pair), "{pair:?}");
    }
    let without = file().replace(
        "congestion = [[\"cubic\", \"cubic\"], [\"bbr\", \"bbr\"]]\n",
        "",
    );
    assert!(
        !Surface::parse(&without)
            .unwrap()
            .is_measured([cubic, cubic])
    );
    let five = format!("[{}]", ["[\"bbr\", \"bbr\"]"; 5].join(", "));
    let said = refusal("[[\"cubic\", \"cubic\"], [\"bbr\", \"bbr\"]]", &five);
    assert_eq!(said, "sources.congestion: 5 pairs, of which there are four");
    assert!(refusal("\"bbr\"]]", "\"vegas\"]]").contains("unknown variant `vegas`"));
}

proptest! {
    #[test]
    fn every_surface_reads_what_it_writes(
        numerator in 1.0..100.0f64, base in 0.0..1.0f64, bytes in 0.0..1e5f64,
        limit in 1e6..1e11f64, error in 0.0..1.0f64, held in prop::option::of(0.0..1.0f64),
        note in ".*", commit in prop::option::of("[0-9a-f]{12}"), pairs in prop::array::uniform4(any::<bool>()),
    ) {
        let mut surface = Surface::embedded().clone();
        surface.loss.numerator = numerator;
        surface.lead.base = base;
        surface.quic.handshake_bytes = bytes;
        surface.limits.insert("safari-ios".into(), limit);
        let (cubic, bbr) = (Congestion::LossBased, Congestion::RateBased);
        let all = [[cubic, cubic], [cubic, bbr], [bbr, cubic], [bbr, bbr]];
        let congestion = all.into_iter().zip(pairs).filter_map(|(pair, is_in)| is_in.then_some(pair)).collect();
        let run = Source { name: note.clone(), commit, ..Source::default() };
        surface.sources = Sources {
            note,
            congestion,
            cells: 7,
            median_error: error,
            held_out_error: held,
            runs: vec![run],
        };
        prop_assert_eq!(Surface::parse(&surface.to_toml()), Ok(surface));
    }
}
