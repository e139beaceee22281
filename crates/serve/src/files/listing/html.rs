//! A listing for people: a page that needs no script, for wide and narrow screens, light and dark.

use super::{Entry, Listing, MAX_ENTRIES};
use std::fmt::Write;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c2024;--dim:#5f6b76;--line:#dfe3e7;--back:#fff;--row:#f3f6f9;--link:#0b57a4}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ec;--dim:#9aa7b2;--line:#30363c;--back:#14171a;--row:#1d2226;--link:#8ac2ff}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1.5rem 1rem 3rem;background:var(--back);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
h1{margin:0 0 1rem;font-size:1.25rem;font-weight:600;overflow-wrap:anywhere}
a{color:var(--link);text-decoration:none}
a:hover,a:focus{text-decoration:underline}
table{width:100%;border-collapse:collapse}
th{padding:.4rem .6rem;border-bottom:1px solid var(--line);color:var(--dim);font-size:.85rem;font-weight:500;text-align:left}
td{padding:.4rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
tr:hover td{background:var(--row)}
td:first-child{width:100%;overflow-wrap:anywhere}
.size{text-align:right;white-space:nowrap}
.time{white-space:nowrap;color:var(--dim)}
td.size,td.time{font-variant-numeric:tabular-nums}
p{color:var(--dim)}
@media(max-width:36rem){th.time{display:none}tr{display:flex;flex-wrap:wrap;border-bottom:1px solid var(--line)}
th,td{border:0}th:first-child,td:first-child{flex:1 1 60%;width:auto}td.time{flex:0 0 100%;padding-top:0;font-size:.85rem}
td.time:empty{display:none}}
";

pub(super) fn write(listing: &Listing) -> String {
    let title = escape(&listing.path);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n"
    );
    // Writing to a text can't fail.
    let _ = write_heading(&mut page, listing);
    let _ = write_table(&mut page, listing);
    page
}

/// The path, each folder of it a link.
fn write_heading(page: &mut String, listing: &Listing) -> std::fmt::Result {
    let depth = listing.names.len();
    let up = |steps: usize| match steps {
        0 => "./".to_owned(),
        steps => "../".repeat(steps),
    };
    write!(
        page,
        "<h1><a href=\"{}\" aria-label=\"top\">/</a>",
        up(depth)
    )?;
    for (at, name) in listing.names.iter().enumerate() {
        let name = escape(name);
        write!(page, "<a href=\"{}\">{name}</a>/", up(depth - 1 - at))?;
    }
    page.write_str("</h1>\n")
}

fn write_table(page: &mut String, listing: &Listing) -> std::fmt::Result {
    page.write_str(
        "<table>\n<thead><tr><th>Name<th class=\"size\">Size<th class=\"time\">Changed (UTC)\n<tbody>\n",
    )?;
    if !listing.names.is_empty() {
        page.write_str(
            "<tr><td><a href=\"../\">../</a><td class=\"size\"><td class=\"time\"></td>\n",
        )?;
    }
    for entry in &listing.entries {
        write_row(page, entry)?;
    }
    page.write_str("</table>\n")?;
    if listing.entries.is_empty() {
        page.write_str("<p>This folder is empty.</p>\n")?;
    }
    if listing.is_cut {
        writeln!(
            page,
            "<p>The folder holds more than the {MAX_ENTRIES} entries shown.</p>"
        )?;
    }
    Ok(())
}

fn write_row(page: &mut String, entry: &Entry) -> std::fmt::Result {
    let (href, name) = (entry.reference(), escape(&entry.text()));
    let slash = if entry.is_folder { "/" } else { "" };
    write!(
        page,
        "<tr><td><a href=\"{href}\">{name}{slash}</a><td class=\"size\""
    )?;
    match entry.is_folder {
        true => page.write_str(">")?,
        false => write!(page, " title=\"{} bytes\">{}", entry.size, size(entry.size))?,
    }
    let time = entry.time();
    let shown = time[..time.len().min(16)].replace('T', " ");
    writeln!(
        page,
        "<td class=\"time\"><time datetime=\"{time}\">{shown}</time>"
    )
}

/// A size in three digits.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut tenths, mut unit) = (u128::from(bytes) * 10 / 1024, 0);
    while tenths >= 10_240 {
        (tenths, unit) = (tenths / 1024, unit + 1);
    }
    match tenths {
        0..1000 => format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]),
        _ => format!("{} {}", tenths / 10, UNITS[unit]),
    }
}

/// Text as it may stand in an element or in a quoted attribute.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Line ends and the like would be lost, and overrides of direction would hide the ending of a name.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => escaped.push('\u{fffd}'),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (102_399, "99.9 KiB"),
            (102_400, "100 KiB"),
            (1 << 20, "1.0 MiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
    }

    #[test]
    fn nothing_of_a_name_becomes_markup() {
        assert_eq!(
            escape("<a href='x'>\"&"),
            "&lt;a href=&#39;x&#39;&gt;&quot;&amp;"
        );
        assert_eq!(escape("a\nb\u{202e}gpj.exe"), "a\u{fffd}b\u{fffd}gpj.exe");
    }
}
