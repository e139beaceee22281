//! Downloads and uploads of one directory without a framework, by the router of the library: `GET /files/{file_name}`
//! and `POST /files`, over HTTP/1.1, HTTP/2 and HTTP/3.
//!
//! ```text
//! cargo run -p altway-serve --example file_store -- DIRECTORY
//! curl -k -F file=@photo.jpg https://localhost:8443/files
//! curl -k https://localhost:8443/files/photo.jpg
//! ```

use altway_serve::{BoxError, Files, Options, PathParameters, RequestBody, Router, certs, serve};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use multer::{Field, Multipart};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::NamedTempFile;
use tower_service::Service;

/// The content of a longer form is refused.
const MAX_UPLOAD: usize = 1 << 30;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let root = std::env::args_os().nth(1);
    let root = root.ok_or("usage: file_store DIRECTORY")?;
    Ok(serve(app(root.as_ref())?, Options::tls(certs::localhost()?)).await?)
}

/// Returns the router. A path that is registered twice is refused here, before the server starts.
pub(crate) fn app(root: &Path) -> Result<Router, Box<dyn Error>> {
    let files = Files::open(root)?;
    let root = Arc::new(root.to_owned());
    Ok(Router::new()
        .get("/files/{file_name}", move |request| {
            show(files.clone(), request)
        })?
        .post("/files", move |request| store(Arc::clone(&root), request))?)
}

/// A file, with all that belongs to it: ranges, conditions, its type. A name that would be a path is refused by `files`.
async fn show(
    mut files: Files,
    mut request: Request<RequestBody>,
) -> Result<Response<altway_serve::Body>, BoxError> {
    let name = PathParameters::of(&request).get("file_name");
    let name = utf8_percent_encode(name.unwrap_or_default(), NON_ALPHANUMERIC);
    *request.uri_mut() = format!("/{name}").parse()?;
    Ok(files.call(request).await?)
}

/// Stores each file of the form under its own name once it is complete, unless there is one of that name.
async fn store(
    root: Arc<PathBuf>,
    request: Request<RequestBody>,
) -> Result<Response<String>, BoxError> {
    let kind = request.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok());
    let Ok(boundary) = multer::parse_boundary(kind.unwrap_or_default()) else {
        return answer(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send a form\n");
    };
    let content = Limited::new(request.into_body(), MAX_UPLOAD);
    let mut form = Multipart::new(content.into_data_stream(), boundary);
    let mut stored = String::new();
    loop {
        let mut field = match form.next_field().await {
            Ok(Some(field)) => field,
            Ok(None) => return answer(StatusCode::CREATED, stored),
            Err(error) => return answer(StatusCode::BAD_REQUEST, format!("{error}\n")),
        };
        let Some(name) = field.file_name().and_then(plain_name) else {
            continue;
        };
        let file = match receive(&root, &mut field).await? {
            Ok(file) => file,
            Err(error) => return answer(StatusCode::BAD_REQUEST, format!("{error}\n")),
        };
        let path = root.join(&name);
        // The runtime's other threads go on.
        match tokio::task::block_in_place(|| file.persist_noclobber(path)) {
            Ok(_) => stored.push_str(&format!("{name}\n")),
            Err(_) => return answer(StatusCode::CONFLICT, format!("{name} is there already\n")),
        }
    }
}

/// Content that can't be read is the client's fault, the disk is not.
async fn receive(
    root: &Path,
    field: &mut Field<'_>,
) -> Result<Result<NamedTempFile, multer::Error>, BoxError> {
    let mut file = tokio::task::block_in_place(|| NamedTempFile::new_in(root))?;
    loop {
        match field.chunk().await {
            Ok(Some(chunk)) => tokio::task::block_in_place(|| file.write_all(&chunk))?,
            Ok(None) => return Ok(Ok(file)),
            Err(error) => return Ok(Err(error)),
        }
    }
}

fn answer(status: StatusCode, text: impl Into<String>) -> Result<Response<String>, BoxError> {
    Ok(Response::builder().status(status).body(text.into())?)
}

/// The name's last part, so that nothing is stored outside of the directory; none that begins with a dot, as files that
/// are not complete do.
fn plain_name(name: &str) -> Option<String> {
    let name = Path::new(name).file_name()?.to_str()?;
    (!name.starts_with('.')).then(|| name.to_owned())
}
