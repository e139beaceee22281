//! An axum router over HTTP/1.1, HTTP/2 and HTTP/3: downloads and multipart uploads of one
//! directory, on port 8443 with a certificate of the local authority.
//!
//! ```text
//! cargo run --release -p altway-serve --example router -- DIRECTORY
//! curl -k -F file=@photo.jpg https://localhost:8443/files
//! curl -k https://localhost:8443/files/photo.jpg
//! ```

use altway_serve::{Files, Options, Security, Server, Site, certs, stop_channel};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Multipart, State};
use axum::http::StatusCode;
use axum::routing::post;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Larger uploads get 413.
const MAX_UPLOAD: usize = 1 << 30;

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let root = std::env::args_os()
        .nth(1)
        .ok_or("usage: router DIRECTORY")?;
    let uploads = post(upload).layer(DefaultBodyLimit::max(MAX_UPLOAD));
    let router = Router::new()
        .route("/files", uploads)
        .nest_service("/files/", Files::open(&root)?)
        .with_state(Arc::new(PathBuf::from(root)));

    let leaf = certs::Store::open_default()?.leaf::<&str>(&[])?;
    let options = Options::new(Site::service(router), Security::tls(leaf.identity()?));
    let server = Server::bind(&options)?;
    tracing::info!(address = %server.local_addr(), "serving");
    let (_stop, signal) = stop_channel();
    Ok(server.run(&signal)?)
}

/// Stores each file of the form under its own name, once it is complete.
async fn upload(
    State(root): State<Arc<PathBuf>>,
    mut form: Multipart,
) -> Result<StatusCode, (StatusCode, String)> {
    let bad = |error: &dyn Error| (StatusCode::BAD_REQUEST, error.to_string());
    let failed = |error: std::io::Error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    while let Some(mut field) = form.next_field().await.map_err(|error| bad(&error))? {
        let Some(name) = field.file_name().and_then(plain_name) else {
            continue;
        };
        let mut file = tempfile::NamedTempFile::new_in(&*root).map_err(failed)?;
        while let Some(chunk) = field.chunk().await.map_err(|error| bad(&error))? {
            file.write_all(&chunk).map_err(failed)?;
        }
        file.persist(root.join(name))
            .map_err(|error| failed(error.error))?;
    }
    Ok(StatusCode::CREATED)
}

/// The name's last part, so that nothing is stored outside of the directory.
fn plain_name(name: &str) -> Option<String> {
    Some(Path::new(name).file_name()?.to_str()?.to_owned())
}
