//! `report.html`: the verdict, the table, the pictures, the conditions, the method, and the way to
//! repeat it, for someone who has not read the manual.
//!
//! One file: style, font, pictures and the scripts that make them interactive stand in it; there is
//! nothing to load, and without scripts the pictures stand still. Every text that comes from a run
//! passes [`escape`], or goes as inert JSON to the script ([`charts`]).

mod charts;
mod conditions;
mod headline;
mod reading;
mod traces;

use crate::analysis::{Analysis, Series};
use crate::canvas;
use crate::verdict::Verdict;
use crate::{Picture, table, words};
use altway_record::{Plan, Protocol, Sampling, Traced};

/// The whole page.
pub(crate) fn page(analysis: &Analysis<'_>, drawn: &[Picture], traced: &[Traced]) -> String {
    let manifest = analysis.run.manifest;
    let title = format!("altway lab: {}", manifest.plan.name);
    let body = [
        headline::section(analysis),
        contents(analysis, drawn, traced),
        results(analysis),
        policies(analysis),
        pictures(drawn),
        traces::section(analysis, traced),
        conditions::section(analysis),
        reading::section(analysis),
        method(analysis),
        conditions::reproduction(analysis),
        reading::files(),
    ];
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{}\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{}\n{}</style>\n</head>\n<body>\n<main>\n{}</main>\n{}</body>\n\
         </html>\n",
        charts::policy(),
        escape(&title),
        canvas::font_face(),
        include_str!("html/style.css"),
        body.concat(),
        charts::scripts(analysis, drawn),
    )
}

/// Links to the sections of the page, and to each picture.
fn contents(analysis: &Analysis<'_>, drawn: &[Picture], traced: &[Traced]) -> String {
    let measured = analysis.valid() > 0;
    let sections = [
        ("result", "Result", measured),
        (
            "policies",
            "Policies of the server",
            analysis.selection.is_some(),
        ),
        ("pictures", "Pictures", !drawn.is_empty()),
        ("traces", "Traces", !traced.is_empty()),
        ("conditions", "Conditions", true),
        ("reading", "How to read this page", true),
        ("method", "Method", true),
        ("repeat", "How to repeat it", true),
        ("data", "Data", true),
    ];
    let of_pictures: String = drawn
        .iter()
        .map(|picture| {
            let figure = &picture.figure;
            let (name, title) = (escape(&figure.name), escape(&figure.title));
            format!("<li><a href=\"#{name}\">{title}</a></li>\n")
        })
        .collect();
    let shown = sections.into_iter().filter(|(.., is_there)| *is_there);
    let items: String = shown
        .map(|(id, title, _)| {
            let inner = match id {
                "pictures" => format!("\n<ul>\n{of_pictures}</ul>\n"),
                _ => String::new(),
            };
            format!("<li><a href=\"#{id}\">{title}</a>{inner}</li>\n")
        })
        .collect();
    format!("<nav aria-label=\"Contents\">\n<h2>Contents</h2>\n<ul>\n{items}</ul>\n</nav>\n")
}

/// Text as HTML shows it, in elements and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A sentence whose numbers stay with their units at the end of a line.
fn unbroken(sentence: &str) -> String {
    let text = escape(sentence)
        .replace(" %", "&nbsp;%")
        .replace(" ms", "&nbsp;ms")
        .replace(" Mbit/s", "&nbsp;Mbit/s");
    text.replace("one-way", "<span class=\"whole\">one-way</span>")
}

/// A paragraph of a class; what stands between backticks is code.
pub(crate) fn paragraph(class: &str, text: &str) -> String {
    format!("<p class=\"{class}\">{}</p>\n", with_code(text))
}

fn with_code(text: &str) -> String {
    let parts: Vec<_> = text.split('`').map(escape).collect();
    if parts.len() % 2 == 0 {
        // One of them has no other.
        return escape(text);
    }
    let part = |(at, part): (usize, &String)| match at % 2 {
        0 => part.clone(),
        _ => format!("<code>{part}</code>"),
    };
    parts.iter().enumerate().map(part).collect()
}

/// A table with its first column as row heads.
fn data_table(caption: &str, head: &[String], rows: &[Vec<String>]) -> String {
    let head_cell = |text: &String| format!("<th scope=\"col\">{}</th>", escape(text));
    let head: String = head.iter().map(head_cell).collect();
    let row = |texts: &Vec<String>| {
        let cell = |(i, text): (usize, &String)| match i {
            0 => format!("<th scope=\"row\">{}</th>", escape(text)),
            _ => format!("<td>{}</td>", escape(text)),
        };
        format!(
            "<tr>{}</tr>\n",
            texts.iter().enumerate().map(cell).collect::<String>()
        )
    };
    let rows: String = rows.iter().map(row).collect();
    format!(
        "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr>{head}</tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n",
        escape(caption)
    )
}

fn results(analysis: &Analysis<'_>) -> String {
    if analysis.valid() == 0 {
        return String::new();
    }
    let mut text = "<section id=\"result\">\n<h2>Result</h2>\n".to_owned();
    let folded = analysis.series.len() * analysis.others.len().max(1) > headline::MAX_FINDINGS;
    for series in &analysis.series {
        for other in &analysis.others {
            text.push_str(&comparison(analysis, series, *other, folded));
        }
        if analysis.others.is_empty() {
            let (head, rows) = table::description_rows(analysis, series);
            let link = words::series(&analysis.cells[series.cells[0]].cell);
            text.push_str(&data_table(&link, &head, &rows));
        }
    }
    for note in table::notes(analysis) {
        text.push_str(&paragraph("note", &note));
    }
    text + "</section>\n"
}

/// The tables of the server's policies.
fn policies(analysis: &Analysis<'_>) -> String {
    let Some(selection) = &analysis.selection else {
        return String::new();
    };
    let mut text = "<section id=\"policies\">\n<h2>Policies of the server</h2>\n".to_owned();
    let tables = [
        ("All cells alike", selection.policy_rows()),
        ("Each cell", selection.cell_rows()),
    ];
    for (caption, (head, rows)) in tables {
        text.push_str(&data_table(caption, &head, &rows));
    }
    for note in selection.notes() {
        text.push_str(&paragraph("note", &note));
    }
    text + "</section>\n"
}

/// The table of one protocol on one link; folded, it lies under its finding.
fn comparison(analysis: &Analysis<'_>, series: &Series, other: Protocol, folded: bool) -> String {
    let link = words::series(&analysis.cells[series.cells[0]].cell);
    let (head, rows) = table::comparison_rows(analysis, series, other);
    let caption = format!(
        "{} against {}: {link}",
        other.name(),
        analysis.baseline.name()
    );
    let table = data_table(&caption, &head, &rows);
    if !folded {
        return table;
    }
    let verdict = Verdict::new(analysis, series, other);
    format!(
        "<details class=\"result\"><summary>{}: {}</summary>\n{}{table}</details>\n",
        escape(&link),
        escape(&verdict.title()),
        paragraph("about", &verdict.sentence()),
    )
}

fn pictures(drawn: &[Picture]) -> String {
    if drawn.is_empty() {
        return String::new();
    }
    let figures: String = drawn.iter().map(figure).collect();
    format!("<section id=\"pictures\">\n<h2>Pictures</h2>\n{figures}</section>\n")
}

/// The picture stands still until the script has drawn its chart; it has its sentences on itself.
fn figure(picture: &Picture) -> String {
    let figure = &picture.figure;
    let name = escape(&figure.name);
    let reading = [Some(figure.legend_text.clone()), charts::thinned(figure)];
    let reading: Vec<String> = reading.into_iter().flatten().collect();
    format!(
        "<figure data-figure=\"{name}\" id=\"{name}\">\n<h3>{}</h3>\n<p class=\"says\">{}</p>\n<div class=\"picture\">{}</div>\n\
         <figcaption>{}</figcaption>\n\
         <details><summary>The numbers behind this picture</summary>\n{}</details>\n\
         <p class=\"files\"><a href=\"{name}.svg\">{name}.svg</a> <a href=\"{name}.png\">{name}.png</a></p>\n</figure>\n",
        unbroken(&figure.title),
        unbroken(&figure.caption),
        inline(picture),
        escape(&reading.join(" ")),
        data_table(&figure.title, &figure.table.head, &figure.table.rows),
    )
}

/// An SVG as an element of the page: no namespace, fixed size or font of its own, and without what
/// goes without saying, a tenth of the page of a large run.
fn inline(picture: &Picture) -> String {
    let start = picture.svg.find("<rect").unwrap_or(0);
    format!(
        "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\">\n{}",
        escape(&picture.figure.title),
        picture.width,
        picture.height,
        picture.svg[start..].replace(" stroke=\"none\" stroke-width=\"1\"", "")
    )
}

/// Says how many transfers a cell was to have.
fn planned(plan: &Plan) -> String {
    let transfers = words::count(plan.pairs as usize, "transfer");
    match plan.sampling {
        Sampling::Grid => format!("Each cell was planned with {transfers} a protocol."),
        Sampling::Adaptive => format!(
            "Cells were measured where the winner was least sure, each with {transfers} a protocol at most; the others \
             follow from their neighbours, by a surface through all of a map."
        ),
    }
}

fn method(analysis: &Analysis<'_>) -> String {
    let plan = &analysis.run.manifest.plan;
    let sentences = format!(
        "A block measures every cell once with every protocol, in random order, and both transfers \
         of a pair meet a link with the same seed, so that what disturbs one disturbs the other. \
         The difference is the Hodges–Lehmann estimate of the logarithm of the ratio of each \
         pair's times; its 95 % interval {}. A protocol wins a cell when the interval leaves out zero and the estimate lies \
         beyond 3 %; a tie means that the whole interval lies within 3 %, and unclear that more \
         pairs are needed. The crossover is where a falling curve through the differences \
         (isotonic regression) passes zero; its interval comes from resampling the pairs within \
         each delay, and ends at measured delays, for between two of them the curve may fall \
         anywhere. No transfer is left out for being slow: one is repeated only for a fault of \
         the measurement, and counted. {}",
        analysis.judge.in_words(),
        planned(plan),
    );
    format!(
        "<section id=\"method\">\n<h2>Method</h2>\n{}</section>\n",
        paragraph("method", &sentences)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_text_is_only_text() {
        assert_eq!(
            escape("<b class=\"x\">Tom & 'Jerry'</b>"),
            "&lt;b class=&quot;x&quot;&gt;Tom &amp; &#39;Jerry&#39;&lt;/b&gt;"
        );
    }

    #[test]
    fn what_stands_between_backticks_is_code() {
        assert_eq!(
            paragraph("note", "`a < b` and `c`."),
            "<p class=\"note\"><code>a &lt; b</code> and <code>c</code>.</p>\n"
        );
        assert_eq!(with_code("5` of `a`"), "5` of `a`");
    }
}
