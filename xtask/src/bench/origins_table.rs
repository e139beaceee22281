//! The table of `cargo xtask bench origins`: what a page took through each proxy, and beside nginx.

use super::summary::Spread;
use super::table;
use serde::Deserialize;

/// The clients, each of which has a column.
const CLIENTS: [&str; 2] = ["chromium", "firefox"];

/// Proxy and protocol that the others are held against.
const BASELINE: (&str, &str) = ("nginx", "h2");

/// A request of the lab's `samples.csv`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Row {
    /// Ordinal in the transfer; the first stands for the whole.
    request: u32,
    valid: bool,
    /// `PROXY-APPLICATION`.
    server: String,
    client: String,
    link: String,
    protocol: String,
    compared_us: Option<f64>,
}

/// A line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    link: String,
    application: String,
    proxy: String,
    protocol: String,
}

/// One table for each link, by name; in it the proxies before each application.
pub(super) fn text(rows: &[Row]) -> String {
    let mut places: Vec<Place> = Vec::new();
    for place in rows.iter().filter_map(Row::place) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let order = |place: &Place| (place.link.clone(), place.application.clone(), rank(place));
    places.sort_by_key(order);
    let mut text = String::new();
    for of_link in places.chunk_by(|a, b| a.link == b.link) {
        text.push_str(&heading(&of_link[0].link));
        for place in of_link {
            text.push_str(&line(rows, place));
        }
        text.push('\n');
    }
    text + LEGEND
}

const LEGEND: &str = "\
Milliseconds from the start of the navigation to the last byte of the last object, as the browser tells them:
median of n loads [smallest–largest], and in parentheses the median's ratio to that through nginx over HTTP/2.
Each load is a browser with an empty profile and new connections. HTTP/2 was measured in one run, in random
order; HTTP/3 in a second one.
";

/// nginx first, then altway; of each HTTP/2 first.
fn rank(place: &Place) -> (usize, String, String) {
    let known = ["nginx", "altway"];
    let rank = known.iter().position(|name| *name == place.proxy);
    let rank = rank.unwrap_or(known.len());
    (rank, place.proxy.clone(), place.protocol.clone())
}

impl Row {
    fn place(&self) -> Option<Place> {
        let (proxy, application) = self.server.split_once('-')?;
        Some(Place {
            link: self.link.clone(),
            application: application.into(),
            proxy: proxy.into(),
            protocol: self.protocol.clone(),
        })
    }
}

fn heading(link: &str) -> String {
    let [one, other] = CLIENTS.map(|client| format!("{client} ms"));
    format!(
        "{link}\n{}",
        columns(["application", "proxy", "over", "n", &one, &other])
    )
}

fn line(rows: &[Row], place: &Place) -> String {
    let baseline = Place {
        proxy: BASELINE.0.into(),
        protocol: BASELINE.1.into(),
        ..place.clone()
    };
    let mut fewest = usize::MAX;
    let cells = CLIENTS.map(|client| {
        let times = times(rows, place, client);
        fewest = fewest.min(times.len());
        let Some(spread) = Spread::of(&times) else {
            return "–".to_owned();
        };
        let beside = Spread::of(&self::times(rows, &baseline, client));
        let beside = beside.filter(|_| *place != baseline);
        let ratio = beside.map(|beside| format!(" ({:.2})", spread.median / beside.median));
        table::spread(spread) + &ratio.unwrap_or_default()
    });
    let [one, other] = &cells;
    columns([
        &place.application,
        &place.proxy,
        &place.protocol,
        &fewest.to_string(),
        one,
        other,
    ])
}

/// Times of a place and client that count, in ms.
fn times(rows: &[Row], place: &Place, client: &str) -> Vec<f64> {
    let of_it = rows.iter().filter(|row| {
        row.request == 0 && row.valid && row.client == client && row.place().as_ref() == Some(place)
    });
    of_it
        .filter_map(|row| Some(row.compared_us? / 1e3))
        .collect()
}

fn columns(cells: [&str; 6]) -> String {
    let [application, proxy, over, n, one, other] = cells;
    let row = format!("{application:<12}{proxy:<8}{over:<5}{n:>3}  {one:<29}{other}");
    row.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(server: &str, protocol: &str, client: &str, ms: f64) -> Row {
        Row {
            request: 0,
            valid: true,
            server: server.into(),
            client: client.into(),
            link: "DSL".into(),
            protocol: protocol.into(),
            compared_us: Some(ms * 1e3),
        }
    }

    fn line_of(text: &str, begin: &str) -> String {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut lines = text.lines().map(words);
        lines.find(|line| line.starts_with(begin)).unwrap()
    }

    #[test]
    fn times_stand_beside_those_of_nginx_before_the_same_application() {
        let invalid = Row {
            valid: false,
            ..row("altway-node", "h2", "chromium", 9_000.0)
        };
        // The page's objects repeat the time of the whole.
        let object = Row {
            request: 1,
            ..row("altway-node", "h2", "chromium", 9_000.0)
        };
        let rows = [
            row("altway-node", "h2", "chromium", 800.0),
            row("altway-node", "h2", "chromium", 1000.0),
            invalid,
            object,
            row("nginx-node", "h2", "chromium", 1000.0),
            row("altway-node", "h2", "firefox", 600.0),
            row("nginx-axum", "h2", "chromium", 1.0),
            row("altway-node", "h3", "chromium", 500.0),
        ];
        let text = text(&rows);
        assert_eq!(text.lines().next(), Some("DSL"));
        let altway = line_of(&text, "node altway h2");
        assert_eq!(
            altway,
            "node altway h2 1 900 [800–1000] (0.90) 600 [600–600]"
        );
        assert_eq!(
            line_of(&text, "node nginx"),
            "node nginx h2 0 1000 [1000–1000] –"
        );
        assert_eq!(
            line_of(&text, "node altway h3"),
            "node altway h3 0 500 [500–500] (0.50) –"
        );
    }

    #[test]
    fn rows_are_read_by_their_names() {
        let csv = "request,other,valid,server,client,link,protocol,compared_us\n\
                   0,x,true,caddy-axum,firefox,LAN,h3,1500\n0,x,false,caddy-axum,firefox,LAN,h3,\n";
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let rows: Vec<Row> = reader.deserialize().collect::<Result<_, _>>().unwrap();
        assert_eq!(rows[0].compared_us, Some(1500.0));
        assert_eq!(rows[1].compared_us, None);
    }
}
