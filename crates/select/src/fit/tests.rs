//! A surface is found again from times that it predicts.

use super::*;

/// A surface that is unlike the embedded one in everything.
fn truth() -> Surface {
    let text = Surface::embedded().to_toml();
    let text = [
        ("numerator = 4.926", "numerator = 3.5"),
        ("softness = 2.873", "softness = 2.2"),
        ("base = 0.002", "base = 0.05"),
        ("growth = 15.7", "growth = 9.0"),
        ("pace = 0.319", "pace = 0.6"),
        ("objects = 0.8", "objects = 0.4"),
        ("handshake-bytes = 2600.0", "handshake-bytes = 4000.0"),
        ("handshake-seconds = 0.0005", "handshake-seconds = 0.002"),
        ("request-seconds = 0.0002", "request-seconds = 0.001"),
        ("chromium-linux = 469e6", "chromium-linux = 500e6"),
        ("firefox-linux = 420e6", "firefox-linux = 300e6"),
    ]
    .iter()
    .fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    Surface::parse(&text).unwrap()
}

/// -1 to 1, as good as at random.
fn jitter(index: usize) -> f64 {
    let mixed = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    2.0 * (mixed >> 11) as f64 / (1_u64 << 53) as f64 - 1.0
}

/// Cells of a plan over all axes, with times as `surface` predicts them and off by at most `noise`.
fn cells(surface: &Surface, noise: f64) -> Vec<MeasuredCell> {
    let mut cells = Vec::new();
    for class in ["chromium-linux", "firefox-linux"] {
        for rate in [1e6, 20e6, 200e6, 1e9] {
            for rtt in [0.001, 0.02, 0.1] {
                for loss in [0.0, 0.01, 0.03] {
                    for size in [2e3, 1e6, 10e6] {
                        for cold in [true, false] {
                            for exchange in
                                [Exchange::object(size, cold), Exchange::page(size, cold)]
                            {
                                cells.push(cell(
                                    surface,
                                    class,
                                    (rate, rtt, loss),
                                    exchange,
                                    noise * jitter(cells.len()),
                                ));
                            }
                        }
                    }
                }
            }
        }
    }
    cells
}

fn cell(
    surface: &Surface,
    class: &str,
    (rate, rtt, loss): (f64, f64, f64),
    exchange: Exchange,
    off: f64,
) -> MeasuredCell {
    let class = class.parse().unwrap();
    let congestion = [Congestion::LossBased; 2];
    let times = surface.times(
        &surface.path_properties(class, rate, rtt, loss, congestion),
        &exchange,
    );
    MeasuredCell {
        class,
        rate,
        rtt,
        loss,
        congestion,
        exchange,
        h2: times.h2 * (2.0 * off).exp(),
        difference: times.difference() + off,
        error: 0.005,
    }
}

#[test]
fn a_surface_is_found_again_from_the_times_that_it_predicts() {
    let truth = truth();
    // Differences are off by up to 2 %, times by up to 4 %.
    let fit = fit(&cells(&truth, 0.02), Surface::embedded(), &[], 5).unwrap();
    let (found, known) = (fit.surface.coefficients().0, truth.coefficients().0);
    for (coefficient, (found, known)) in fit.coefficients.iter().zip(found.into_iter().zip(known)) {
        let error = coefficient.error.unwrap();
        let off = (found - known).abs();
        assert!(off < 0.1 * known + 0.004, "{coefficient:?}, truly {known}");
        assert!(off < 6.0 * error, "{coefficient:?}, truly {known}");
    }
    for (class, known) in [("chromium-linux", 500e6), ("firefox-linux", 300e6)] {
        let found = fit.surface.limit(class.parse().unwrap()).unwrap();
        assert!((found / known - 1.0).abs() < 0.05, "{class}: {found}");
    }
    let rms = |residuals: &[Residual]| {
        let squares = residuals.iter().map(|it| it.difference.powi(2));
        (squares.sum::<f64>() / residuals.len() as f64).sqrt()
    };
    assert!(rms(&fit.residuals) < 0.013, "{}", rms(&fit.residuals));
    assert!(rms(&fit.held_out) < 0.015, "{}", rms(&fit.held_out));
    assert_eq!(
        fit.surface.limit("curl-linux".parse().unwrap()),
        Some(1500e6),
        "not measured"
    );
}

#[test]
fn what_the_runs_leave_open_is_named_and_can_be_kept() {
    let truth = truth();
    let mut cells = cells(&truth, 0.01);
    cells.retain(|cell| !cell.exchange.many && cell.exchange.setup2 > 0.0 && cell.rate < 1e8);
    let open = fit(&cells, Surface::embedded(), &[], 5).unwrap_err();
    let names = [
        "lead.base",
        "lead.objects",
        "quic.request-seconds",
        "limits.chromium-linux",
        "limits.firefox-linux",
    ];
    assert_eq!(
        open,
        FitError::Undetermined(names.map(str::to_owned).to_vec())
    );
    let keep = names.map(str::to_owned);
    let fit = fit(&cells, Surface::embedded(), &keep, 5).unwrap();
    let kept = fit.coefficients.iter().filter(|it| it.error.is_none());
    assert_eq!(kept.map(|it| it.name.as_str()).collect::<Vec<_>>(), names);
    assert_eq!(
        fit.surface.limit("firefox-linux".parse().unwrap()),
        Some(420e6)
    );
    assert!(
        (fit.coefficients[0].value - 3.5).abs() < 0.35,
        "{:?}",
        fit.coefficients[0]
    );
}

#[test]
fn a_fit_to_nothing_or_of_nothing_is_refused() {
    let cells = cells(&truth(), 0.0);
    let fit = |cells: &[MeasuredCell], keep: &str| {
        fit(cells, Surface::embedded(), &[keep.into()], 5).unwrap_err()
    };
    assert_eq!(
        fit(&cells, "lead.weight"),
        FitError::Unknown("lead.weight".into())
    );
    let few = FitError::TooFew {
        cells: 7,
        coefficients: 9,
        least: 18,
    };
    assert_eq!(fit(&cells[..7], "lead.base"), few);
    let mut bad = cells.clone();
    bad[3].h2 = f64::NAN;
    assert_eq!(fit(&bad, "lead.base"), FitError::Value(3));
}
