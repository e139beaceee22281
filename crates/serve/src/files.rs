//! Files of one directory as HTTP responses: content types, validators, conditions, ranges.
//!
//! Nothing outside of the directory is ever read: every file is opened relative to a handle of the
//! directory by `cap-std`, which lets neither `..` nor a symbolic link lead out of it, and the path
//! rules of [`path`] refuse the usual tricks before that. Files are opened and read on the worker's
//! thread (see [`shared::OpenFile::read_at`]).

mod background;
mod cache;
mod coding;
mod compress;
mod condition;
mod find;
mod listing;
mod memory;
mod multipart;
mod open;
mod options;
mod pages;
mod path;
mod range;
mod reading;
mod reply;
mod represent;
mod rules;
mod served;
mod shared;
mod validators;
mod variants;

use crate::Error;
use crate::incidents::HiddenName;
use crate::request::body::Body;
use background::Background;
pub(crate) use cache::{Entry, FileCache};
pub(crate) use coding::AcceptedCodings;
pub use coding::{ContentCoding, UnknownContentCoding};
use compress::Compressed;
use http::header::{self, HeaderMap, HeaderName};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use open::{OpenedFile, Refusal};
pub use options::{FilesOptions, InvalidFilesOptions};
pub(crate) use pages::page;
use pages::{allow, make_relative, redirect};
pub(crate) use path::{BadPath, TargetPath};
pub(crate) use reading::{Piece, Reading};
pub use reply::FilesFuture;
pub(crate) use reply::Reply;
use represent::{describe, whole};
use rules::Paths;
pub use rules::{HeaderRule, PathPattern};
use served::{ServedFolder, WatchedFolder};
pub(crate) use shared::FileRange;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Instant, SystemTime};
use validators::{Traits, Validators};

/// Says what a browser asks for something for, and tells the fallback's requests from others.
const SEC_FETCH_MODE: HeaderValue = HeaderValue::from_static("sec-fetch-mode");

/// The files of a directory as a tower service, to be served beside other routes: for instance as the fallback of an
/// axum `Router`. Where only files are served, [`Site::files`] is faster.
///
/// The service answers GET, HEAD and OPTIONS, with index pages, ranges and conditions (RFC 9110 sections 13 and 14). It reads
/// files on the thread that polls it; it lists folders and compresses files on a thread of its own. Its redirects are
/// relative, so that it may stand below a path that a router cuts off (`nest_service`).
///
/// ```no_run
/// use altway_serve::Files;
/// use axum::{Router, routing::get};
///
/// let app: Router = Router::new()
///     .route("/now", get(async || "now"))
///     .fallback_service(Files::open("site")?);
/// # Ok::<(), altway_serve::Error>(())
/// ```
///
/// [`Site::files`]: crate::Site::files
#[derive(Debug, Clone)]
pub struct Files {
    place: Arc<WatchedFolder>,
    options: Arc<FilesOptions>,
    background: Arc<Background>,
    compressed: Arc<Compressed>,
}

impl Files {
    /// Opens a directory, to be served with [`FilesOptions::default`]. Nothing outside of `root` is ever read. Hidden
    /// names in it (those that begin with a dot, at any depth) are treated as missing, except `/.well-known`
    /// (RFC 8615).
    ///
    /// # Errors
    /// `root` is missing, can't be opened, or is no directory.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(root, FilesOptions::default())
    }

    /// Opens a directory, to be served with `options`.
    ///
    /// # Errors
    /// As [`open`](Self::open); also when the options are invalid ([`FilesOptions::check`]), or the fallback is
    /// not there.
    pub fn open_with(root: impl AsRef<Path>, options: FilesOptions) -> Result<Self, Error> {
        options.check()?;
        let files = Self {
            place: Arc::new(WatchedFolder::open(root.as_ref())?),
            options: Arc::new(options),
            background: Arc::default(),
            compressed: Arc::new(Compressed::new(compress::MAX_BYTES)),
        };
        if let Some(name) = files.options.fallback()
            && !files.has_file(name)
        {
            let path = root.as_ref().join(name);
            return Err(Error::Fallback { path });
        }
        Ok(files)
    }

    /// Returns true if there is a file of the folder at `path`, with a slash before it or without, that can be sent as an
    /// error page or a fallback.
    #[must_use]
    pub fn has_file(&self, path: &str) -> bool {
        let path = Path::new(path.trim_start_matches('/'));
        self.served().root.open_file(path).is_ok()
    }

    /// Serves hidden files and folders like others. Default: they are not served.
    #[must_use]
    pub fn with_hidden(mut self) -> Self {
        Arc::make_mut(&mut self.options).hidden = true;
        self
    }

    /// Answers one request, whatever it asks for. `now` is the server's clock.
    pub(crate) fn respond<B>(&self, request: &Request<B>, now: SystemTime) -> Reply {
        self.place.look_if_due(Instant::now());
        self.served().respond(request, now)
    }

    /// The operator's fields of a response that is made of `file`, or of none.
    fn write_fields(&self, status: StatusCode, file: Option<&Path>, headers: &mut HeaderMap) {
        let options = &self.options;
        if !options.headers.is_empty() {
            let paths = file.map(|file| self.paths(file));
            rules::apply(&options.headers, status, paths.as_ref(), headers);
        }
    }

    /// The media type of a file: the operator's, or that of its ending.
    fn type_of(&self, file: &Path) -> HeaderValue {
        let given = self.given(&header::CONTENT_TYPE, file);
        given.unwrap_or_else(|| represent::content_type(file))
    }

    /// The value that the operator gives a field of a file.
    fn given(&self, name: &HeaderName, file: &Path) -> Option<HeaderValue> {
        let rules = Some(&*self.options.headers).filter(|rules| !rules.is_empty())?;
        rules::value(rules, name, &self.paths(file))
    }

    fn paths(&self, file: &Path) -> Paths {
        Paths::of(file, &self.options.index, self.options.clean_urls)
    }

    /// Returns the fields of a response with a whole form of the file `name`, which has `length` bytes.
    fn fields_of(&self, name: &Path, traits: Traits, length: u64, now: SystemTime) -> HeaderMap {
        let mut headers = HeaderMap::new();
        describe(&mut headers, self.type_of(name), traits, length);
        let validators = Validators::of(traits, now);
        validators.write(&mut headers);
        validators.write_coding(&mut headers);
        self.write_fields(StatusCode::OK, Some(name), &mut headers);
        headers
    }
}

impl ServedFolder {
    fn respond<B>(&self, request: &Request<B>, now: SystemTime) -> Reply {
        match *request.method() {
            Method::GET | Method::HEAD => self.get(request, now),
            Method::OPTIONS => {
                let response = allow(Response::new(Body::empty()), StatusCode::NO_CONTENT);
                Reply::Now(self.apply_options(response, None))
            }
            _ => {
                let status = StatusCode::METHOD_NOT_ALLOWED;
                Reply::Now(self.apply_options(allow(page(status), status), None))
            }
        }
    }

    fn get<B>(&self, request: &Request<B>, now: SystemTime) -> Reply {
        let mut found = self.find(request);
        let mut by_mode = false;
        if let Err(Refusal::NotFound | Refusal::Hidden) = found
            && self.options.fallback.is_some()
        {
            by_mode = true;
            if is_navigation(request.headers())
                && let Some(fallback) = self.fallback()
            {
                found = fallback;
            }
        }
        let (reply, file) = match found {
            Ok(opened) => {
                let name = opened.name.clone();
                let opened = self.negotiate(opened, request);
                (self.represent(request, opened, now), Some(name))
            }
            Err(Refusal::Folder(name)) => (self.list(request, &name), None),
            Err(Refusal::Redirect(elsewhere)) => (Reply::Now(redirect(elsewhere)), None),
            Err(Refusal::NotFound) => (Reply::Now(page(StatusCode::NOT_FOUND)), None),
            Err(Refusal::Hidden) => {
                let mut response = page(StatusCode::NOT_FOUND);
                response.extensions_mut().insert(HiddenName);
                (Reply::Now(response), None)
            }
            Err(Refusal::Status(status)) => (Reply::Now(page(status)), None),
        };
        let (files, is_head) = (self.clone(), request.method() == Method::HEAD);
        reply.map(move |mut response| {
            if by_mode {
                response.headers_mut().append(header::VARY, SEC_FETCH_MODE);
            }
            let response = files.apply_options(response, file.as_deref());
            match is_head {
                true => response.map(|_| Body::empty()),
                false => response,
            }
        })
    }

    fn find<B>(&self, request: &Request<B>) -> Result<OpenedFile, Refusal> {
        let asked = path::parse(request.uri().path())
            .map_err(|BadPath| Refusal::Status(StatusCode::BAD_REQUEST))?;
        self.look_for(&asked, request.uri().query())
    }

    /// Gives an error its page, and every response the operator's fields. `file`: what it is made of.
    fn apply_options(&self, mut response: Response<Body>, file: Option<&Path>) -> Response<Body> {
        let status = response.status();
        let is_error = status.is_client_error() || status.is_server_error();
        if is_error && let Some(page) = self.error_page(status) {
            let (head, body) = page.into_parts();
            response.headers_mut().extend(head.headers);
            response = response.map(|_| body);
        }
        let file = file.filter(|_| !is_error);
        self.write_fields(status, file, response.headers_mut());
        response
    }

    /// The operator's own page of a status, if there is one.
    fn error_page(&self, status: StatusCode) -> Option<Response<Body>> {
        let page = self.options.error_page(status)?;
        let opened = self.root.open_file(Path::new(page)).ok()?;
        let kind = self.type_of(&opened.name);
        Some(whole(opened, kind))
    }
}

impl<B> tower_service::Service<Request<B>> for Files {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = FilesFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let reply = self.respond(&request, SystemTime::now());
        FilesFuture::new(reply.map(make_relative))
    }
}

/// Returns true if a request can be one for a page to look at: any that a browser doesn't mark as another (Fetch
/// Metadata Request Headers, section 2.2).
fn is_navigation(headers: &HeaderMap) -> bool {
    let mode = headers.get("sec-fetch-mode");
    mode.is_none_or(|mode| mode == "navigate")
}

/// Returns true if a field can make the answer anything but the whole file: ranges and conditions.
pub(crate) fn is_conditional(name: &[u8]) -> bool {
    name == b"range" || name.starts_with(b"if-")
}

#[cfg(test)]
mod tests;
