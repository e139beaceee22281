//! Tests that pictures show the known truth of synthetic runs, and that they bear any plan.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod support;

use altway_record::{Manifest, Protocol, Sample};
use altway_report::figure::{Figure, Mark, Series};
use altway_report::{Picture, Rendered, Run, render};
use std::sync::LazyLock;
use support::{MAP, manifest, mapped, samples, spoiled, zero_of_map};

fn rendered(manifest: &Manifest, samples: &[Sample]) -> Rendered {
    render(&Run { manifest, samples }).unwrap()
}

fn of_plan(toml: &str) -> Rendered {
    let manifest = manifest(toml);
    rendered(&manifest, &samples(&manifest.plan))
}

fn figure<'a>(rendered: &'a Rendered, name: &str) -> Option<&'a Figure> {
    let figures = rendered.pictures.iter().map(|picture| &picture.figure);
    figures.into_iter().find(|figure| figure.name == name)
}

fn names(rendered: &Rendered) -> Vec<&str> {
    let pictures = rendered.pictures.iter();
    pictures
        .map(|picture| picture.figure.name.as_str())
        .collect()
}

fn series(figure: &Figure) -> impl Iterator<Item = &Series> {
    let marks = figure.panels.iter().flat_map(|panel| &panel.marks);
    marks.filter_map(|mark| match mark {
        Mark::Series(series) => Some(series),
        _ => None,
    })
}

/// Three rates over delay and loss, drawn once for all tests that look at it.
static MAPPED: LazyLock<Rendered> = LazyLock::new(|| {
    let manifest = manifest(MAP);
    rendered(&manifest, &mapped(&manifest.plan))
});

#[test]
fn zero_lines_lie_where_the_truth_is() {
    let figure = figure(&MAPPED, "zero-lines").unwrap();
    for (rate, name) in ["20 Mbit/s", "50 Mbit/s", "100 Mbit/s"].iter().enumerate() {
        let points: Vec<_> = series(figure)
            .filter(|one| one.name == *name)
            .flat_map(|one| &one.points)
            .collect();
        assert!(points.len() > 5, "{name}");
        // 2 % of noise, 12 pairs, 0.8 % a millisecond.
        let off = |x: f64, y: f64| (x - zero_of_map(y, rate)).abs();
        let worst = points
            .iter()
            .map(|one| off(one.x, one.y))
            .fold(0.0, f64::max);
        assert!(worst < 2.0, "{name}: {worst} ms");
    }
}

#[test]
fn the_true_zero_line_lies_within_the_drawn_band() {
    let figure = figure(&MAPPED, "zero-lines").unwrap();
    let areas = figure.panels[0].marks.iter().filter_map(|mark| match mark {
        Mark::Area { name, outline, .. } if name.starts_with("100 ") => Some(outline),
        _ => None,
    });
    let areas: Vec<_> = areas.collect();
    let inside = |x: f64, y: f64| {
        let crosses = |outline: &&Vec<(f64, f64)>| {
            let next = outline.iter().cycle().skip(1);
            let edges = outline.iter().zip(next);
            let crossed = edges.filter(|(a, b)| {
                (a.1 > y) != (b.1 > y) && x < a.0 + (y - a.1) / (b.1 - a.1) * (b.0 - a.0)
            });
            crossed.count() % 2 == 1
        };
        areas.iter().any(crosses)
    };
    let losses: Vec<f64> = (0..49).map(|i| 0.05 + 0.1 * f64::from(i)).collect();
    let within = losses
        .iter()
        .filter(|loss| inside(zero_of_map(**loss, 2), **loss));
    let within = within.count();
    assert!(within >= 40, "{within} of {} places", losses.len());
    assert!(
        !inside(0.5, 0.5) && !inside(24.5, 4.5),
        "the band is no map"
    );
}

#[test]
fn a_region_that_grows_with_the_rate_is_said_to_grow() {
    let figure = figure(&MAPPED, "zero-lines").unwrap();
    assert_eq!(
        figure.title,
        "The region where HTTP/2 is faster grows with the rate"
    );
    assert!(
        figure.caption.contains("each step on the way is sure"),
        "{}",
        figure.caption
    );
    assert_eq!(figure.legend.len(), 3);
    let panel = &figure.panels[0];
    assert_eq!(
        panel.title,
        "Below left of a line HTTP/2 is faster, above right HTTP/3"
    );
    assert_eq!(
        (panel.x.label(), panel.y.label()),
        ("one-way delay (ms)".into(), "loss (%)".into())
    );
}

#[test]
fn a_map_has_a_panel_for_each_rate_and_marks_what_is_open() {
    let figure = figure(&MAPPED, "map").unwrap();
    let titles: Vec<&str> = figure
        .panels
        .iter()
        .map(|panel| panel.title.as_str())
        .collect();
    assert_eq!(titles, ["20 Mbit/s", "50 Mbit/s", "100 Mbit/s"]);
    for (rate, panel) in figure.panels.iter().enumerate() {
        let Mark::Tiles(tiles) = &panel.marks[0] else {
            panic!("{:?}", panel.marks[0]);
        };
        assert_eq!(tiles.tiles.len(), 16);
        for tile in &tiles.tiles {
            let delay = [0.0, 5.0, 15.0, 25.0][tile.at.0 as usize];
            let loss = [0.0, 1.0, 3.0, 5.0][tile.at.1 as usize];
            // Positive where the second protocol is faster, whose difference then is negative.
            let truth = 0.008 * (delay - zero_of_map(loss, rate));
            let value = tile.value.unwrap();
            assert!(
                !tile.sure || truth.abs() < 0.01 || (value < 0.0) == (truth > 0.0),
                "{tile:?}"
            );
            // One that is little is undecided up to the margin and the noise beyond it.
            assert!(tile.sure || truth.abs() < 0.05, "{tile:?}, truth {truth}");
        }
    }
}

#[test]
fn without_loss_the_map_stands_on_delay_and_rate() {
    let rendered = of_plan(
        "name = \"m\"\nrate = [\"1mbit\", \"5mbit\", \"25mbit\"]\ndelay = [\"0ms\", \"20ms\", \"60ms\"]\n\
         size = \"1MB\"\npairs = 4",
    );
    let figure = figure(&rendered, "zero-lines").unwrap();
    assert_eq!(figure.panels[0].y.label(), "rate (Mbit/s)");
    assert!(figure.legend.is_empty());
    // The model's lines: 5 Mbit/s × 52 ms, 25 Mbit/s × 10 ms.
    let of_line = |rate: f64| {
        let points = series(figure).flat_map(|one| &one.points);
        let near = points.min_by(|a, b| (a.y - rate).abs().total_cmp(&(b.y - rate).abs()));
        near.unwrap().x
    };
    assert!((of_line(5.0) - 52.0).abs() < 12.0, "{}", of_line(5.0));
    assert!((of_line(25.0) - 10.4).abs() < 5.0, "{}", of_line(25.0));
}

#[test]
fn the_same_records_give_the_same_bytes() {
    let manifest = manifest(&MAP.replace("pairs = 12", "pairs = 3"));
    let forth = mapped(&manifest.plan);
    let back: Vec<Sample> = forth.iter().rev().cloned().collect();
    assert_eq!(
        rendered(&manifest, &forth).pictures,
        rendered(&manifest, &back).pictures
    );
}

#[test]
fn two_hundred_cells_give_a_bounded_number_of_readable_panels() {
    let rendered = of_plan(
        "name = \"big\"\nrate = [\"1mbit\", \"5mbit\", \"20mbit\", \"100mbit\", \"unlimited\"]\n\
         delay = \"0ms..90ms by 10ms\"\nloss = [\"0%\", \"0.5%\", \"1%\", \"2%\"]\nsize = \"1MB\"\n\
         pairs = 2",
    );
    for Picture {
        figure,
        height,
        width,
        ..
    } in &rendered.pictures
    {
        assert!(figure.panels.len() <= 240, "{}", figure.name);
        assert!(
            *width == 1600 && *height <= 2000,
            "{}: {height}",
            figure.name
        );
    }
    let mut pictures = rendered.pictures.iter();
    let cells = pictures.find(|picture| picture.figure.name == "distribution");
    assert_eq!(cells.unwrap().figure.panels.len(), 200);
    assert!(cells.unwrap().svg.contains("12 of 200 panels"));
    let all = figure(&rendered, "overview").unwrap();
    assert_eq!(all.panels[0].y.ticks.len(), 20);
}

#[test]
fn no_picture_says_by_how_much_where_the_pairs_are_too_few() {
    let few =
        "name = \"few\"\nrate = \"5mbit\"\ndelay = [\"0ms\", \"100ms\"]\nsize = \"1MB\"\npairs = 1";
    let few = of_plan(few);
    assert_eq!(
        figure(&few, "gain").unwrap().title,
        "Difference in time from HTTP/2: no delay is decided"
    );
    for picture in &few.pictures {
        let figure = &picture.figure;
        let said = format!("{}. {}", figure.title, figure.caption);
        assert!(
            !said.contains(" % less time") && !said.contains(" % more time"),
            "{said}"
        );
    }
}

#[test]
fn every_figure_has_a_title_says_what_follows_and_can_be_told_apart() {
    let topologies = "name = \"t\"\nrate = \"5mbit\"\ndelay = [\"0ms\", \"50ms\"]\nsize = \"1MB\"\n\
                      pairs = 3\ntopology = [\"direct\", \"proxied\"]\nprotocols = [\"h1\", \"h2\", \"h3\"]";
    for rendered in [&*MAPPED, &of_plan(topologies)] {
        for figure in rendered.pictures.iter().map(|picture| &picture.figure) {
            assert!(
                !figure.title.ends_with('.') && !figure.title.is_empty(),
                "{}",
                figure.title
            );
            assert!(
                figure.caption.ends_with('.'),
                "{}: {}",
                figure.name,
                figure.caption
            );
            assert!(
                figure.legend_text.ends_with('.'),
                "{}: {}",
                figure.name,
                figure.legend_text
            );
            let columns = figure.table.head.len();
            assert!(
                figure.table.rows.iter().all(|row| row.len() == columns),
                "{}",
                figure.name
            );
            assert!(!figure.table.rows.is_empty(), "{}", figure.name);
        }
        let mut names = names(rendered);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

#[test]
fn a_protocol_that_fails_everywhere_is_not_compared() {
    let manifest = manifest(&MAP.replace("pairs = 12", "pairs = 2"));
    let fails = |sample: Sample| match sample.protocol {
        Protocol::H3 => spoiled(&sample, "connection refused"),
        _ => sample,
    };
    let samples: Vec<Sample> = mapped(&manifest.plan).into_iter().map(fails).collect();
    let rendered = rendered(&manifest, &samples);
    assert_eq!(
        names(&rendered),
        ["response-time", "stability", "distribution", "timeline"]
    );
    let line = figure(&rendered, "timeline").unwrap();
    assert_eq!(line.panels[0].y.ticks.len(), 1);
}

#[test]
fn measurements_that_never_meet_in_a_block_are_drawn_and_not_compared() {
    let manifest = manifest(
        "name = \"p\"\nrate = \"5mbit\"\ndelay = [\"0ms\", \"50ms\"]\nsize = \"1MB\"\npairs = 4",
    );
    let apart =
        |sample: &Sample| sample.block.is_multiple_of(2) == (sample.protocol == Protocol::H2);
    let samples: Vec<Sample> = samples(&manifest.plan).into_iter().filter(apart).collect();
    let rendered = rendered(&manifest, &samples);
    assert_eq!(
        names(&rendered),
        ["response-time", "stability", "distribution", "timeline"]
    );
}

#[test]
fn the_requests_of_a_page_are_a_waterfall() {
    let manifest = manifest(
        "name = \"page\"\nscenario = \"page\"\nrate = \"10mbit\"\ndelay = \"20ms\"\npairs = 3\n\
         [page]\nhtml = \"30KB\"\nobjects = \"60 x 20KB\"",
    );
    let requests = |sample: &Sample| -> Vec<Sample> {
        let request = |request| Sample {
            request,
            requests: 61,
            start_us: if request == 0 { 0 } else { 100_000 },
            connect_us: (request == 0).then_some(40_000),
            first_byte_us: Some(60_000),
            total_us: Some(100_000 + 1_000 * u64::from(request)),
            ..sample.clone()
        };
        (0..61).map(request).collect()
    };
    let samples: Vec<Sample> = samples(&manifest.plan).iter().flat_map(requests).collect();
    let rendered = rendered(&manifest, &samples);
    let figure = figure(&rendered, "timeline").unwrap();
    assert!(
        figure.legend_text.contains("40 of up to 61 requests"),
        "{}",
        figure.legend_text
    );
    assert_eq!(figure.table.rows.len(), 2 * 61);
    for panel in &figure.panels {
        assert_eq!(panel.y.ticks.len(), 40);
        let Mark::Bars(bars) = &panel.marks[0] else {
            panic!("{:?}", panel.marks[0]);
        };
        let first: Vec<_> = bars
            .iter()
            .filter(|bar| bar.y == 39.0)
            .map(|bar| &bar.x)
            .collect();
        assert_eq!(first, [&(0.0..40.0), &(40.0..60.0), &(60.0..100.0)]);
    }
}
