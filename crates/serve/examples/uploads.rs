//! Uploads in an axum program: a form's files are read as they arrive, and answered with their sizes.
//!
//! ```text
//! cargo run -p altway-serve --example uploads
//! curl -k -F file=@photo.jpg https://localhost:8443/
//! ```

use altway_serve::{Options, certs, serve};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Multipart};
use axum::http::StatusCode;
use axum::routing::post;
use std::error::Error;
use std::fmt::Write;

/// Larger uploads get 413.
const MAX_UPLOAD: usize = 1 << 30;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    Ok(serve(app(), Options::tls(certs::localhost()?)).await?)
}

/// The application, which knows nothing of the server.
pub(crate) fn app() -> Router {
    let limit = DefaultBodyLimit::max(MAX_UPLOAD);
    Router::new().route("/", post(measure).layer(limit))
}

/// A client sends no faster than its form is read.
async fn measure(mut form: Multipart) -> Result<String, (StatusCode, String)> {
    let refused =
        |error: axum::extract::multipart::MultipartError| (error.status(), error.body_text());
    let mut sizes = String::new();
    while let Some(mut field) = form.next_field().await.map_err(refused)? {
        let name = field.file_name().unwrap_or("(no file)").to_owned();
        let mut size = 0;
        while let Some(chunk) = field.chunk().await.map_err(refused)? {
            size += chunk.len();
        }
        // Writing to memory doesn't fail.
        let _ = writeln!(sizes, "{name}: {size} bytes");
    }
    Ok(sizes)
}
