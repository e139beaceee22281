//! Paper and ink: one drawing becomes an SVG and a PNG, with an embedded font and the same colours
//! everywhere.

use crate::Error;
use altway_record::Protocol;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontTransform, register_font};
use std::sync::LazyLock;

/// Width of every picture, in pixels.
pub(crate) const WIDTH: u32 = 1600;
/// Height of every picture, in pixels.
pub(crate) const HEIGHT: u32 = 900;

/// The family as an SVG names it; the embedded font is registered under this very text.
const FAMILY: &str = "Inter, system-ui, sans-serif";

pub(crate) const INK: RGBColor = RGBColor(0x1b, 0x1f, 0x24);
pub(crate) const GREY: RGBColor = RGBColor(0x5b, 0x64, 0x70);
pub(crate) const GRID: RGBColor = RGBColor(0xe3, 0xe6, 0xea);

/// The whole picture or a part of it.
pub(crate) type Area<B> = DrawingArea<B, Shift>;
/// What drawing on a backend gives.
pub(crate) type Drawn<B, T = ()> =
    Result<T, DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Something that can be drawn on any backend.
pub(crate) trait Drawing {
    fn draw<B: DrawingBackend>(&self, paper: &Area<B>) -> Drawn<B>;
}

/// How a protocol looks: by colour (Okabe and Ito's, told apart by colour-blind readers), and again
/// by dash and marker.
pub(crate) struct Look {
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

pub(crate) fn look(protocol: Protocol) -> Look {
    match protocol {
        Protocol::H1 => Look {
            color: RGBColor(0x00, 0x86, 0x62),
            dashed: true,
            marker: Marker::Square,
        },
        Protocol::H2 => Look {
            color: RGBColor(0x00, 0x72, 0xb2),
            dashed: false,
            marker: Marker::Circle,
        },
        Protocol::H3 => Look {
            color: RGBColor(0xd5, 0x5e, 0x00),
            dashed: true,
            marker: Marker::Triangle,
        },
    }
}

/// Draws as SVG and as PNG.
pub(crate) fn paint(
    name: &'static str,
    drawing: &impl Drawing,
) -> Result<(String, Vec<u8>), Error> {
    let failed = |message: String| Error::Drawing { name, message };
    if !*FONTS {
        return Err(failed("the embedded font is damaged".into()));
    }
    let mut svg = String::new();
    {
        let paper = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        let drawn = drawing.draw(&paper).and_then(|()| paper.present());
        drawn.map_err(|error| failed(error.to_string()))?;
    }
    let mut pixels = vec![0; (WIDTH * HEIGHT * 3) as usize];
    {
        let paper = BitMapBackend::with_buffer(&mut pixels, (WIDTH, HEIGHT)).into_drawing_area();
        let drawn = drawing.draw(&paper).and_then(|()| paper.present());
        drawn.map_err(|error| failed(error.to_string()))?;
    }
    let svg = svg.replacen(">\n", &format!(">\n<style>{}</style>\n", font_face()), 1);
    let png = encode(&pixels).map_err(|error| failed(error.to_string()))?;
    Ok((svg, png))
}

/// Text of `size` pixels.
pub(crate) fn text(size: u32, color: RGBColor) -> TextStyle<'static> {
    FontDesc::new(FontFamily::Name(FAMILY), f64::from(size), FontStyle::Normal)
        .transform(FontTransform::None)
        .color(&color)
}

/// The same, semi-bold.
pub(crate) fn bold(size: u32, color: RGBColor) -> TextStyle<'static> {
    FontDesc::new(FontFamily::Name(FAMILY), f64::from(size), FontStyle::Bold)
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

fn encode(pixels: &[u8]) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, WIDTH, HEIGHT);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}
