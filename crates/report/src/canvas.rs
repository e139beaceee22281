//! Drawing backends: one drawing becomes an SVG and a PNG, with an embedded font and the same colours
//! everywhere.

use crate::{Error, figure::MarkColor};
use altway_record::Protocol;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontTransform, register_font};
use std::sync::LazyLock;

/// Width of every picture, in pixels.
pub(crate) const WIDTH: u32 = 1600;
/// Least height of a picture, in pixels; those of many panels are higher.
pub(crate) const HEIGHT: u32 = 900;

/// The family as an SVG names it; the embedded font is registered under this very text.
const FAMILY: &str = "Inter, system-ui, sans-serif";

pub(crate) const INK: RGBColor = RGBColor(0x1b, 0x1f, 0x24);
pub(crate) const GREY: RGBColor = RGBColor(0x5b, 0x64, 0x70);
pub(crate) const GRID: RGBColor = RGBColor(0xe3, 0xe6, 0xea);

/// The whole picture or a part of it.
pub(crate) type Area<B> = DrawingArea<B, Shift>;
/// Result of drawing on a backend.
pub(crate) type DrawResult<B, T = ()> =
    Result<T, DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// A picture that can be drawn on any backend.
pub(crate) trait Drawing {
    fn draw<B: DrawingBackend>(&self, paper: &Area<B>) -> DrawResult<B>;
}

/// Style of a mark: its colour (Okabe and Ito's, told apart by colour-blind readers), and again its
/// dash and marker.
pub(crate) struct MarkStyle {
    pub(crate) color: RGBColor,
    pub(crate) dashed: bool,
    pub(crate) marker: Marker,
}

#[derive(Clone, Copy)]
pub(crate) enum Marker {
    Circle,
    Triangle,
    Square,
}

pub(crate) fn mark_style(color: MarkColor) -> MarkStyle {
    let plain = |color| MarkStyle {
        color,
        dashed: false,
        marker: Marker::Circle,
    };
    match color {
        MarkColor::Protocol(protocol) => mark_style_of(protocol),
        MarkColor::Null(protocol) => {
            let mark_style = mark_style_of(protocol);
            let color = mixed(WHITE, mark_style.color, 0.45);
            MarkStyle {
                color,
                ..mark_style
            }
        }
        MarkColor::Step { at, of } => MarkStyle {
            color: step(at, of),
            dashed: at % 2 == 1,
            marker: [Marker::Circle, Marker::Triangle, Marker::Square][at % 3],
        },
        MarkColor::Plain => plain(INK),
        MarkColor::Faint => plain(GREY),
    }
}

/// The colour of a map's cell: white at 0, almost the one protocol's colour at −1, the other's at 1.
pub(crate) fn diverging(share: f64, below: Protocol, above: Protocol) -> RGBColor {
    const MOST: f64 = 0.85;
    let side = if share < 0.0 { below } else { above };
    mixed(
        WHITE,
        mark_style_of(side).color,
        MOST * share.abs().min(1.0),
    )
}

/// Returns whether dark text is easier to read on a colour than white text.
pub(crate) fn is_light(RGBColor(r, g, b): RGBColor) -> bool {
    0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b) > 125.0
}

fn mark_style_of(protocol: Protocol) -> MarkStyle {
    match protocol {
        Protocol::H1 => MarkStyle {
            color: RGBColor(0x00, 0x86, 0x62),
            dashed: true,
            marker: Marker::Square,
        },
        Protocol::H2 => MarkStyle {
            color: RGBColor(0x00, 0x72, 0xb2),
            dashed: false,
            marker: Marker::Circle,
        },
        Protocol::H3 => MarkStyle {
            color: RGBColor(0xd5, 0x5e, 0x00),
            dashed: true,
            marker: Marker::Triangle,
        },
    }
}

/// Colours from dark violet to a green that still stands out on white: viridis without its light end.
fn step(at: usize, of: usize) -> RGBColor {
    const STOPS: [RGBColor; 4] = [
        RGBColor(0x44, 0x01, 0x54),
        RGBColor(0x31, 0x68, 0x8e),
        RGBColor(0x1f, 0x9e, 0x89),
        RGBColor(0x7a, 0xb8, 0x1e),
    ];
    let last = of.saturating_sub(1).max(1);
    let place = 3.0 * at.min(last) as f64 / last as f64;
    let before = (place as usize).min(2);
    mixed(STOPS[before], STOPS[before + 1], place - before as f64)
}

fn mixed(from: RGBColor, to: RGBColor, share: f64) -> RGBColor {
    let mix = |a: u8, b: u8| (f64::from(a) + share * (f64::from(b) - f64::from(a))).round() as u8;
    RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

/// Draws as SVG and as PNG, so many pixels high.
pub(crate) fn paint(
    name: &str,
    height: u32,
    drawing: &impl Drawing,
) -> Result<(String, Vec<u8>), Error> {
    let failed = |message: String| Error::Drawing {
        name: name.to_owned(),
        message,
    };
    if !*FONTS {
        return Err(failed("the embedded font is damaged".into()));
    }
    let mut svg = String::new();
    {
        let paper = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let drawn = drawing.draw(&paper).and_then(|()| paper.present());
        drawn.map_err(|error| failed(error.to_string()))?;
    }
    let mut pixels = vec![0; (WIDTH * height * 3) as usize];
    {
        let paper = BitMapBackend::with_buffer(&mut pixels, (WIDTH, height)).into_drawing_area();
        let drawn = drawing.draw(&paper).and_then(|()| paper.present());
        drawn.map_err(|error| failed(error.to_string()))?;
    }
    let svg = svg.replacen(">\n", &format!(">\n<style>{}</style>\n", font_face()), 1);
    let png = encode(&pixels, height).map_err(|error| failed(error.to_string()))?;
    Ok((svg, png))
}

/// Returns the width of a text in a style, in pixels.
pub(crate) fn width_of(text: &str, style: &TextStyle<'_>) -> i32 {
    let layout = style.font.layout_box(text);
    layout.map_or(0, |((left, _), (right, _))| right - left)
}

/// A text in lines of at most `room` pixels, broken between words, but not before a unit.
pub(crate) fn wrapped(text: &str, room: i32, style: &TextStyle<'_>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in unbroken(text) {
        match lines.last_mut() {
            Some(line) if width_of(&format!("{line} {word}"), style) <= room => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// The words of a text, each number with its unit.
fn unbroken(text: &str) -> Vec<String> {
    const UNITS: [&str; 14] = [
        "%", "µs", "ms", "s", "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "B", "KB", "MB", "GB", "KiB",
        "MiB",
    ];
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let unit = word.trim_end_matches([')', ',', ';', ':', '.']);
        match words.last_mut() {
            Some(number) if UNITS.contains(&unit) || unit == "·" => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Text of `size` pixels.
pub(crate) fn text(size: u32, color: RGBColor) -> TextStyle<'static> {
    styled(size, color, FontStyle::Normal)
}

/// The same, semi-bold.
pub(crate) fn bold(size: u32, color: RGBColor) -> TextStyle<'static> {
    styled(size, color, FontStyle::Bold)
}

fn styled(size: u32, color: RGBColor, style: FontStyle) -> TextStyle<'static> {
    // A description finds its font when it is made, so the font must be known by then.
    LazyLock::force(&FONTS);
    FontDesc::new(FontFamily::Name(FAMILY), f64::from(size), style)
        .transform(FontTransform::None)
        .color(&color)
}

/// CSS that gives a viewer the embedded font, so that texts are as wide as they were measured.
pub(crate) fn font_face() -> String {
    let face = |weight: &str, bytes: &[u8]| {
        let data = BASE64_STANDARD.encode(bytes);
        format!(
            "@font-face{{font-family:Inter;font-weight:{weight};\
             src:url(data:font/ttf;base64,{data}) format(\"truetype\")}}"
        )
    };
    face("400", REGULAR) + &face("600 700", SEMI_BOLD)
}

static REGULAR: &[u8] = include_bytes!("../fonts/Inter-Regular-subset.ttf");
static SEMI_BOLD: &[u8] = include_bytes!("../fonts/Inter-SemiBold-subset.ttf");

static FONTS: LazyLock<bool> = LazyLock::new(|| {
    register_font(FAMILY, FontStyle::Normal, REGULAR).is_ok()
        && register_font(FAMILY, FontStyle::Bold, SEMI_BOLD).is_ok()
});

fn encode(pixels: &[u8], height: u32) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, WIDTH, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_with_its_unit_at_the_end_of_a_line() {
        let style = text(28, INK);
        let sentence = "takes 27 % less (5 % loss · 25 ms), and so on";
        for room in 20..800 {
            let lines = wrapped(sentence, room, &style);
            assert_eq!(lines.join(" "), sentence);
            let torn = |line: &String| ["%", "ms", "·"].iter().any(|unit| line.starts_with(unit));
            assert!(!lines.iter().any(torn), "{lines:?}");
        }
    }

    #[test]
    fn the_middle_of_a_map_is_white_and_its_ends_are_of_the_protocols() {
        let at = |share| diverging(share, Protocol::H2, Protocol::H3);
        assert_eq!(at(0.0), RGBColor(255, 255, 255));
        assert!(at(-1.0).2 > at(-1.0).0, "blue for HTTP/2");
        assert!(at(1.0).0 > at(1.0).2, "orange for HTTP/3");
        assert_eq!(at(7.0), at(1.0));
    }
}
