//! `altway policy show`: a surface as a map over rate and delay.

mod map;
mod picture;

use super::{control, predictable, surface};
use crate::Answer;
use crate::printer::Printer;
use altway_select::{ClientClass, Congestion};
use altway_units::{DataSize, Ratio};
use anyhow::{Context, Result};
use map::{Conditions, Map};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Draw how much faster a surface predicts HTTP/3 or HTTP/2 to be, over rate and delay.
///
/// Each cell says how much more time HTTP/3 takes than HTTP/2, in per cent, and which is faster: 3 for HTTP/3, 2 for
/// HTTP/2, = within ±3 %. A line below the map says if nothing was measured with that congestion control.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway policy show
  altway policy show --size 10MB --class firefox-windows
  altway policy show --page --size 420KB --warm --loss 1%
  altway policy show mine.toml --congestion bbr,cubic --svg map.svg")]
pub(crate) struct Arguments {
    /// `surface` or `learned` (the surface that ships), surface:FILE, or a file that `altway policy fit`
    /// wrote.
    #[arg(value_name = "MODEL|FILE", default_value = "surface")]
    model: String,
    /// Bytes to load.
    #[arg(long, value_name = "SIZE", default_value = "1MB")]
    size: DataSize,
    /// Load them as a page, that is a document of 20 KB that names many objects; else as one object.
    #[arg(long)]
    page: bool,
    /// Use an open connection; else a new one, without early data.
    #[arg(long)]
    warm: bool,
    /// Share of packets that the path loses.
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = loss)]
    loss: Ratio,
    /// Class of the client: its browser and platform.
    #[arg(long, value_name = "CLASS", default_value = "chromium-linux")]
    class: ClientClass,
    /// Congestion control: cubic, reno or bbr; or two: of TCP, of QUIC.
    #[arg(long, value_name = "NAME[,NAME]", default_value = "cubic")]
    congestion: Controls,
    /// File for the map as SVG, in addition.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the cells as JSON instead of the map.
    #[arg(long)]
    json: bool,
}

fn loss(text: &str) -> Result<Ratio, String> {
    let loss = text.parse::<Ratio>().map_err(|error| error.to_string())?;
    predictable(loss)
}

/// Congestion control of TCP and of QUIC.
///
/// Text form: `cubic`, or `bbr,cubic`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Controls {
    text: String,
    kinds: [Congestion; 2],
}

impl FromStr for Controls {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tcp, quic) = text.split_once(',').unwrap_or((text, text));
        Ok(Self {
            text: text.into(),
            kinds: [control(tcp)?, control(quic)?],
        })
    }
}

impl fmt::Display for Controls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let surface = surface::named(&arguments.model)?;
    let conditions = Conditions {
        size: arguments.size,
        page: arguments.page,
        warm: arguments.warm,
        loss: arguments.loss,
        class: arguments.class,
        congestion: arguments.congestion.kinds,
        controls: arguments.congestion.text.clone(),
    };
    let map = Map::new(&arguments.model, &surface, conditions);
    if let Some(file) = &arguments.svg {
        let svg = altway_report::draw(picture::figure(&map))?.svg;
        std::fs::write(file, svg).with_context(|| format!("cannot write {}", file.display()))?;
        printer.say(&format!("map: {}", file.display()));
    }
    if arguments.json {
        printer.json(&map.json())?;
    } else {
        printer.data(&map.text())?;
    }
    Ok(Answer::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_is_of_both_transports() {
        let kinds = |text: &str| text.parse::<Controls>().map(|controls| controls.kinds);
        let (loss, rate) = (Congestion::LossBased, Congestion::RateBased);
        assert_eq!(kinds("reno"), Ok([loss, loss]));
        assert_eq!(kinds("bbr,cubic"), Ok([rate, loss]));
        assert!(kinds("bbr,vegas").unwrap_err().contains("`vegas`"));
    }
}
