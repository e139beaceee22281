//! A shop on axum: a page that is rendered and compressed for each request, and the pictures that it names.
//!
//! ```text
//! cargo run -p altway-serve --example origin-axum -- 127.0.0.1:3000
//! ```
//!
//! The application knows nothing of altway; README.md beside it says what it is for.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use tokio::net::TcpListener;
use tower_http::compression::CompressionLayer;

const CATALOGUE: &str = include_str!("catalogue.json");

/// Size of the picture that the lab asks for first, beside those of the catalogue.
const SMALLEST: usize = 125;

#[derive(Deserialize)]
struct Catalogue {
    title: String,
    document_bytes: usize,
    blurb: String,
    pictures: Vec<Picture>,
}

#[derive(Deserialize)]
struct Picture {
    name: String,
    bytes: usize,
}

struct Shop {
    catalogue: Catalogue,
    /// Pictures by their names in paths.
    pictures: HashMap<String, Vec<u8>>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:3000")).await?;
    let (path, app) = shop()?;
    let here = listener.local_addr()?;
    writeln!(std::io::stdout(), "http://{here}{path}")?;
    Ok(axum::serve(listener, app).await?)
}

/// The path of its page, and the application.
pub(crate) fn shop() -> Result<(String, Router), serde_json::Error> {
    let catalogue: Catalogue = serde_json::from_str(CATALOGUE)?;
    let path = catalogue.page_path();
    let sizes = catalogue.pictures.iter().map(|picture| picture.bytes);
    let pictures = sizes.chain([SMALLEST]);
    let pictures = pictures.map(|bytes| (format!("{bytes}.bin"), picture(bytes)));
    let shop = Shop {
        pictures: pictures.collect(),
        catalogue,
    };
    let app = Router::new()
        .route(&path, get(answer_page))
        .route("/{picture}", get(answer_picture))
        // Pages, not pictures.
        .layer(CompressionLayer::new())
        .with_state(Arc::new(shop));
    Ok((path, app))
}

impl Catalogue {
    /// The page's path says how much it and its pictures weigh, as those of the lab do.
    fn page_path(&self) -> String {
        let pictures: usize = self.pictures.iter().map(|picture| picture.bytes).sum();
        format!("/page-{}.html", self.document_bytes + pictures)
    }

    fn page(&self) -> Result<String, std::fmt::Error> {
        let (title, blurb) = (&self.title, &self.blurb);
        let mut text = format!(
            "<!doctype html><title>{title}</title>\n<link rel=icon href=data:,>\n<h1>{title}</h1>\n"
        );
        for (ordinal, Picture { name, bytes }) in self.pictures.iter().enumerate() {
            write!(
                text,
                "<figure><img src=/{bytes}.bin?{ordinal} alt=\"{name}\">"
            )?;
            writeln!(
                text,
                "<figcaption><b>{name}</b> {blurb}</figcaption></figure>"
            )?;
        }
        Ok(format!("{text:<width$}", width = self.document_bytes))
    }
}

async fn answer_page(State(shop): State<Arc<Shop>>) -> Response {
    match shop.catalogue.page() {
        Ok(page) => ([(header::CACHE_CONTROL, "no-cache")], Html(page)).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn answer_picture(
    State(shop): State<Arc<Shop>>,
    Path(name): Path<String>,
    request: HeaderMap,
) -> Response {
    let Some(body) = shop.pictures.get(&name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let etag = format!("\"{}\"", body.len());
    let is_known = request
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| known.as_bytes() == etag.as_bytes());
    let fields = [
        (
            header::CACHE_CONTROL,
            "public, max-age=31536000, immutable".to_owned(),
        ),
        (header::ETAG, etag),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, fields).into_response();
    }
    let kind = [(header::CONTENT_TYPE, "image/gif")];
    (fields, kind, body.clone()).into_response()
}

/// A GIF of one pixel and of so many bytes: what is left goes into comments.
fn picture(bytes: usize) -> Vec<u8> {
    let mut gif = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff\x21\xfe".to_vec();
    let tail = b"\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3b";
    let mut left = bytes.saturating_sub(gif.len() + tail.len());
    while left > 0 {
        // A comment is 2 to 256 bytes, the first of which says how many follow.
        let size = if left == 257 { 255 } else { left.min(256) };
        gif.push(u8::try_from(size - 1).unwrap_or(u8::MAX));
        gif.resize(gif.len() + size - 1, b'.');
        left -= size;
    }
    gif.extend_from_slice(tail);
    gif
}
