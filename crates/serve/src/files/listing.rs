//! Listings of folders, as a page or as JSON.

mod html;
mod json;

use super::condition::{self, Verdict};
use super::open::Root;
use super::pages::page;
use super::path::{Hidden, encode_name};
use super::reply::Reply;
use super::served::ServedFolder;
use crate::request::body::Body;
use aws_lc_rs::digest::{SHA256, digest};
use http::header::{self, ACCEPT, HeaderMap};
use http::{HeaderValue, Request, Response, StatusCode};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

/// Files and folders that a listing shows at most. Of a folder with more the file system decides which.
const MAX_ENTRIES: usize = 10_000;

/// Policy of the page, which loads nothing from elsewhere and runs nothing.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
);

/// The entries of a folder.
#[derive(Debug)]
struct Listing {
    /// Beneath the root, with slashes around it; may have bytes in it that were no text.
    path: String,
    /// Names of the folder and those that it is in, from the root on.
    names: Vec<String>,
    /// Folders first, each kind by name.
    entries: Vec<Entry>,
    /// True if there are more entries than are shown.
    is_cut: bool,
}

#[derive(Debug)]
struct Entry {
    name: OsString,
    is_folder: bool,
    /// Bytes; 0 of a folder.
    size: u64,
    modified: SystemTime,
}

/// The form of a listing that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    Json,
}

impl ServedFolder {
    /// Answers with what is in the folder `name`.
    pub(super) fn list<B>(&self, request: &Request<B>, name: &Path) -> Reply {
        let form = Form::of(request.headers());
        let (root, name) = (Arc::clone(&self.root), name.to_owned());
        let hidden = self.options.hidden.into();
        let work = move || {
            let listing = Listing::read(&root, &name, hidden)?;
            Some(listing.write(form))
        };
        let Ok(listed) = self.background.run(work) else {
            let mut response = page(StatusCode::SERVICE_UNAVAILABLE);
            let soon = HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, soon);
            return Reply::Now(response);
        };
        let headers = request.headers().clone();
        Reply::Later(Box::pin(async move {
            match listed.await {
                Ok(Some(content)) => respond(&headers, form, content),
                Ok(None) => page(StatusCode::NOT_FOUND),
                Err(_) => page(StatusCode::INTERNAL_SERVER_ERROR),
            }
        }))
    }
}

fn respond(asked: &HeaderMap, form: Form, content: String) -> Response<Body> {
    let digest = digest(&SHA256, content.as_bytes());
    let tag = digest.as_ref()[..12]
        .iter()
        .map(|byte| format!("{byte:02x}"));
    let etag = format!("\"{}\"", tag.collect::<String>());
    let mut response = match condition::evaluate_tag(asked, &etag) {
        Verdict::Failed => page(StatusCode::PRECONDITION_FAILED),
        Verdict::NotModified => Body::empty_response(StatusCode::NOT_MODIFIED),
        Verdict::Proceed => form.response(content),
    };
    let headers = response.headers_mut();
    let etag = HeaderValue::try_from(etag).expect("hexadecimal digits in quotes");
    headers.insert(header::ETAG, etag);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.append(header::VARY, HeaderValue::from_static("accept"));
    response
}

impl Form {
    /// JSON where the client likes it better than a page (RFC 9110 section 12.5.1).
    fn of(headers: &HeaderMap) -> Self {
        let lines = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|line| line.to_str().ok());
        let (mut json, mut html) = ((0, 1.0), (0, 1.0));
        let mut is_given = false;
        for range in lines.flat_map(|line| line.split(',')) {
            is_given = true;
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = parts.find_map(|it| it.strip_prefix("q=")?.parse::<f32>().ok());
            let weight = weight.unwrap_or(1.0);
            for (known, named, group) in [
                (&mut json, "application/json", "application/*"),
                (&mut html, "text/html", "text/*"),
            ] {
                let precision = match &*kind {
                    kind if kind == named => 3,
                    kind if kind == group => 2,
                    "*/*" => 1,
                    _ => continue,
                };
                if precision > known.0 {
                    *known = (precision, weight);
                }
            }
        }
        let weight = |(precision, weight): (u8, f32)| if precision > 0 { weight } else { 0.0 };
        match is_given && weight(json) > weight(html) {
            true => Self::Json,
            false => Self::Html,
        }
    }

    fn response(self, content: String) -> Response<Body> {
        let kind = match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
        };
        let length = content.len();
        let mut response = Response::new(Body::bytes(content));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(header::CONTENT_LENGTH, length.into());
        if self == Self::Html {
            headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
        }
        response
    }
}

impl Listing {
    /// `None` where the folder can't be read.
    fn read(root: &Root, folder: &Path, hidden: Hidden) -> Option<Self> {
        let mut entries = Vec::new();
        let mut is_cut = false;
        for found in root.entries(folder)? {
            let Ok(found) = found else {
                continue;
            };
            let name = found.file_name();
            let is_hidden = hidden == Hidden::Absent && name.as_bytes().starts_with(b".");
            // No path means a name with a backslash.
            if is_hidden || name.as_bytes().contains(&b'\\') {
                continue;
            }
            if let Some(entry) = Entry::of(root, folder, &found) {
                if entries.len() == MAX_ENTRIES {
                    is_cut = true;
                    break;
                }
                entries.push(entry);
            }
        }
        entries.sort_by_cached_key(|entry| {
            let text = entry.text();
            (!entry.is_folder, text.to_lowercase(), text)
        });
        let names = folder
            .iter()
            .map(|name| name.to_string_lossy().into_owned());
        let names: Vec<_> = names.collect();
        let path = names.iter().map(|name| format!("{name}/"));
        Some(Self {
            path: format!("/{}", path.collect::<String>()),
            names,
            entries,
            is_cut,
        })
    }

    fn write(&self, form: Form) -> String {
        match form {
            Form::Html => html::write(self),
            Form::Json => json::write(self),
        }
    }
}

impl Entry {
    /// `None` for what is neither a file nor a folder, or leads out of the root.
    fn of(root: &Root, folder: &Path, found: &cap_std::fs::DirEntry) -> Option<Self> {
        let name = found.file_name();
        let metadata = match found.file_type().ok()?.is_symlink() {
            // Resolved beneath the root, as for a request.
            true => root.metadata(&folder.join(&name))?,
            false => found.metadata().ok()?,
        };
        let is_folder = metadata.is_dir();
        if !is_folder && !metadata.is_file() {
            return None;
        }
        let modified = metadata.modified();
        Some(Self {
            name,
            is_folder,
            size: if is_folder { 0 } else { metadata.len() },
            modified: modified.map_or(UNIX_EPOCH, cap_std::time::SystemTime::into_std),
        })
    }

    /// Returns the entry's name, as far as it is text.
    fn text(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// A reference to it, relative to its folder.
    fn reference(&self) -> String {
        let slash = if self.is_folder { "/" } else { "" };
        format!("{}{slash}", encode_name(&self.name))
    }

    /// The time of its last change, to the second (RFC 3339).
    fn time(&self) -> String {
        let time = OffsetDateTime::from(self.modified);
        let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
        let (hour, minute, second) = time.to_hms();
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}
