//! Routes that store files of clients: PUT under the name that the path ends with, POST of forms.
//!
//! Decisions on names, dispositions and progress are pure and stand in modules of their own; the work on the disk is
//! done on threads of the folder. A file gets its name when it is whole and on the disk, in one step.

mod content;
mod disk;
mod disposition;
mod folder;
mod form;
mod name;
mod progress;
mod refusal;
mod resumable;
mod target;

pub use folder::UploadFolderError;

use crate::answers::fields_of;
use altway_config::{PathPattern, Route, Site, Upload, UploadMethod};
use altway_serve::{ClientPrefix, EarlyHints, Peer, RequestBody};
use altway_units::PrefixLengths;
use bytes::Bytes;
use content::Content;
use disk::Disk;
use folder::{CompleteFile, Folder, IfTaken, Place, Unnamed, check_free, is_there};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use refusal::Refusal;
use resumable::{Creator, Incomplete};
use serde_json::json;
use std::convert::Infallible;
use std::fmt::Display;
use std::ops::DerefMut;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;
use target::Target;
use tower_service::Service;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Memory that an upload holds at most beside what its connection holds: what is on its way to the disk, and of a form
/// what is looked through.
pub const UPLOAD_BYTES: u64 = 128 << 10;

/// Looks whether files can be stored in the folder of a route for uploads.
///
/// # Errors
/// They can not.
pub fn check(upload: &Upload) -> Result<(), UploadFolderError> {
    Folder::open(&upload.folder, 0).map(drop)
}

/// The uploads of a route.
#[derive(Debug, Clone)]
pub(crate) struct Uploads(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    plan: Upload,
    pattern: PathPattern,
    /// Fields of all responses.
    fields: HeaderMap,
    folder: Arc<Folder>,
    running: AtomicU32,
    incomplete: Incomplete,
    /// The addresses that count as one client.
    client_prefix: PrefixLengths,
}

/// The right of one of the uploads that may run at the same time.
struct Permit(Uploads);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Uploads {
    /// # Errors
    /// Files can't be stored in the folder.
    pub(crate) fn new(
        site: &Site,
        route: &Route,
        plan: &Upload,
        client_prefix: PrefixLengths,
    ) -> Result<Self, UploadFolderError> {
        let folder = Folder::open(&plan.folder, plan.min_free.as_bytes())?;
        Ok(Self(Arc::new(Shared {
            plan: plan.clone(),
            pattern: route.path.clone(),
            fields: fields_of(site, route),
            folder: Arc::new(folder),
            running: AtomicU32::new(0),
            incomplete: Incomplete::default(),
            client_prefix,
        })))
    }

    fn plan(&self) -> &Upload {
        &self.0.plan
    }

    async fn answer<B>(self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes, Error: Display> + Unpin + Send,
    {
        let answered = self.store(request).await;
        let mut response = answered.unwrap_or_else(Refusal::response);
        let own = response.headers().clone();
        for (name, value) in &self.0.fields {
            // Of one name there may be several.
            if !own.contains_key(name) {
                response.headers_mut().append(name, value.clone());
            }
        }
        response
    }

    async fn store<B>(&self, request: Request<B>) -> Result<Response<Full<Bytes>>, Refusal>
    where
        B: Body<Data = Bytes, Error: Display> + Unpin + Send,
    {
        let has = |method| self.plan().methods.contains(&method);
        let (head, body) = request.into_parts();
        if self.plan().resumable {
            self.0.incomplete.forget_old(Instant::now());
            if let Some(token) = target::token(&self.0.pattern, head.uri.path()) {
                return self.resume(&head.method, token, &head.headers, body).await;
            }
        }
        match head.method {
            Method::PUT if has(UploadMethod::Put) => {
                let target = Target::parse(&self.0.pattern, head.uri.path())?;
                let interim = head.extensions.get::<EarlyHints>().cloned();
                let peer = head.extensions.get::<Peer>();
                let creator = Creator {
                    client: peer.map(|it| ClientPrefix::of(it.address.ip(), self.0.client_prefix)),
                    announcement: resumable::announcement(&head.headers, interim),
                };
                self.put(target, &head.headers, body, creator).await
            }
            Method::POST if has(UploadMethod::Post) => {
                let target = Target::parse(&self.0.pattern, head.uri.path())?;
                self.post(target, &head.headers, body).await
            }
            Method::OPTIONS => {
                let mut response = empty(StatusCode::NO_CONTENT);
                response.headers_mut().insert(header::ALLOW, self.allow());
                if self.plan().resumable {
                    self.set_limit(response.headers_mut());
                }
                Ok(response)
            }
            method => {
                let detail = format!("{method} is none of the methods for uploads");
                let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, detail);
                Err(refusal.with_field(header::ALLOW, self.allow()))
            }
        }
    }

    async fn put<B>(
        &self,
        mut target: Target,
        fields: &HeaderMap,
        body: B,
        creator: Creator,
    ) -> Result<Response<Full<Bytes>>, Refusal>
    where
        B: Body<Data = Bytes, Error: Display> + Unpin + Send,
    {
        check_fields(fields)?;
        let Some(name) = target.names.pop() else {
            return Err(Refusal::malformed("the path has no name of a file"));
        };
        if target.is_folder {
            return Err(Refusal::malformed("the path is that of a folder"));
        }
        let mut content = Content::new(body, self.plan().body.as_bytes(), self.plan().slowest)?;
        let _permit = self.permit()?;
        let folder = self.below(target.names.clone()).await?;
        let if_taken = match is_for_new_alone(fields) {
            true => IfTaken::PreconditionFails,
            false => self.if_taken(),
        };
        let place = Place {
            folder,
            name,
            if_taken,
        };
        self.check_preconditions(fields, &place).await?;
        let is_complete = resumable::is_complete(fields)?;
        if is_complete == Some(false) && !self.plan().resumable {
            let detail = "an upload can't be resumed here: Upload-Complete is ?0";
            return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, detail));
        }
        if let Some(is_complete) = is_complete
            && self.plan().resumable
            && (!is_complete || self.can_announce(&creator))
        {
            let place = (place, target.names);
            let created = self.create(place, fields, content, is_complete, creator);
            return created.await;
        }
        let length = content.length().unwrap_or_default();
        let mut file = Box::new(self.begin(place.clone(), length).await?);
        loop {
            let batch = content.batch().await?;
            if batch.is_empty() {
                return self.finish(place, &file, &target.names).await;
            }
            file = append(&self.0.folder.disk, file, batch).await?;
        }
    }

    /// Gives a file that is whole its name.
    async fn finish(
        &self,
        place: Place,
        file: &Unnamed,
        folders: &[String],
    ) -> Result<Response<Full<Bytes>>, Refusal> {
        let name = place.name.clone();
        let replaced = self.commit(vec![CompleteFile::new(place, file)]).await?;
        if replaced == [true] {
            return Ok(empty(StatusCode::NO_CONTENT));
        }
        let mut response = empty(StatusCode::CREATED);
        self.set_location(&mut response, folders, &name);
        Ok(response)
    }

    async fn post<B>(
        &self,
        target: Target,
        fields: &HeaderMap,
        body: B,
    ) -> Result<Response<Full<Bytes>>, Refusal>
    where
        B: Body<Data = Bytes, Error: Display> + Unpin + Send,
    {
        let boundary = form::boundary(fields)?;
        check_fields(fields)?;
        let content = Content::new(body, self.plan().body.as_bytes(), self.plan().slowest)?;
        let _permit = self.permit()?;
        let folder = self.below(target.names.clone()).await?;
        let parts = form::receive(self, &folder, boundary, content).await?;
        if parts.is_empty() {
            return Err(Refusal::malformed("the form has no file"));
        }
        let files = parts
            .iter()
            .map(|it| CompleteFile::new(it.place.clone(), &it.file));
        let replaced = self.commit(files.collect()).await?;
        let stored = parts.iter().zip(&replaced).map(|(part, replaced)| {
            let mut stored = json!({
                "field": part.field,
                "name": part.place.name,
                "size": part.file.length,
                "replaced": replaced,
            });
            if let Some(path) = self.path_of(&target.names, &part.place.name) {
                stored["path"] = path.into();
            }
            stored
        });
        let stored = json!({ "stored": stored.collect::<Vec<_>>() });
        let mut response = Response::new(Full::from(format!("{stored}\n")));
        response.headers_mut().insert(header::CONTENT_TYPE, JSON);
        if replaced.contains(&false) {
            *response.status_mut() = StatusCode::CREATED;
        }
        if let [only] = &parts[..] {
            self.set_location(&mut response, &target.names, &only.place.name);
        }
        Ok(response)
    }

    /// Looks whether a name can be given, and makes a file that is to have it.
    async fn begin(&self, place: Place, length: u64) -> Result<Unnamed, Refusal> {
        let folder = Arc::clone(&self.0.folder);
        let begin = move || {
            check_free(&place)?;
            folder.unnamed(&place.folder, length)
        };
        self.0.folder.disk.run(begin).await
    }

    async fn below(&self, names: Vec<String>) -> Result<Arc<cap_std::fs::Dir>, Refusal> {
        let folder = Arc::clone(&self.0.folder);
        self.0.folder.disk.run(move || folder.below(&names)).await
    }

    async fn commit(&self, files: Vec<CompleteFile>) -> Result<Vec<bool>, Refusal> {
        let folder = Arc::clone(&self.0.folder);
        let commit = move || folder.commit(&files);
        self.0.folder.disk.run(commit).await
    }

    /// The fate of files whose names are taken, where their request says nothing of it.
    fn if_taken(&self) -> IfTaken {
        match self.plan().replace {
            true => IfTaken::Replaces,
            false => IfTaken::Refused,
        }
    }

    /// RFC 9110 section 13.2.2. Files have no entity tags here, so that no If-Match of one is met.
    async fn check_preconditions(&self, fields: &HeaderMap, place: &Place) -> Result<(), Refusal> {
        let (wanted, is_unwanted) = (is_any(fields, header::IF_MATCH), is_for_new_alone(fields));
        if wanted.is_none() && !is_unwanted {
            return Ok(());
        }
        let place = place.clone();
        let there = self.0.folder.disk.run(move || Ok(is_there(&place))).await?;
        if wanted.is_some_and(|any| !any || !there) || (is_unwanted && there) {
            return Err(Refusal::precondition_failed());
        }
        Ok(())
    }

    fn permit(&self) -> Result<Permit, Refusal> {
        let running = self.0.running.fetch_add(1, Ordering::Relaxed);
        let permit = Permit(self.clone());
        match running < self.plan().concurrent {
            true => Ok(permit),
            false => Err(Refusal::busy()),
        }
    }

    fn allow(&self) -> HeaderValue {
        let mut names: Vec<_> = self
            .plan()
            .methods
            .iter()
            .map(ToString::to_string)
            .collect();
        names.push("OPTIONS".into());
        names.sort_unstable();
        HeaderValue::try_from(names.join(", ")).expect("tokens, commas and spaces")
    }

    /// The path of a stored file; `None` where the route has one path alone.
    fn path_of(&self, folders: &[String], name: &str) -> Option<String> {
        target::path_of(&self.0.pattern, folders, name)
    }

    fn set_location(&self, response: &mut Response<Full<Bytes>>, folders: &[String], name: &str) {
        let path = self.path_of(folders, name);
        if let Some(Ok(path)) = path.map(HeaderValue::try_from) {
            response.headers_mut().insert(header::LOCATION, path);
        }
    }
}

/// Returns whether a condition's value is `*`; `None`: there is no such condition.
fn is_any(fields: &HeaderMap, name: header::HeaderName) -> Option<bool> {
    fields.get(name).map(|value| value == "*")
}

/// Returns true if the request is to make a new file, and to replace none: `If-None-Match: *` (RFC 9110 section 13.1.2).
fn is_for_new_alone(fields: &HeaderMap) -> bool {
    is_any(fields, header::IF_NONE_MATCH) == Some(true)
}

/// Refuses what would store something else than what the client means.
fn check_fields(fields: &HeaderMap) -> Result<(), Refusal> {
    if fields.contains_key(header::CONTENT_RANGE) {
        // RFC 9110 section 14.5.
        return Err(Refusal::malformed(
            "a part of a file can't be stored: Content-Range is given",
        ));
    }
    let mut codings = fields.get_all(header::CONTENT_ENCODING).iter();
    if codings.any(|it| !it.as_bytes().eq_ignore_ascii_case(b"identity")) {
        let detail = "compressed content is not stored: Content-Encoding is given";
        let refusal = Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail);
        let none = HeaderValue::from_static("identity");
        return Err(refusal.with_field(header::ACCEPT_ENCODING, none));
    }
    Ok(())
}

/// Appends to a file on a thread of the disk, which has the handle in the meantime: whoever is to have it next, has it
/// with what was written.
async fn append<F>(disk: &Disk, mut file: F, batch: Vec<Bytes>) -> Result<F, Refusal>
where
    F: DerefMut<Target = Unnamed> + Send + 'static,
{
    let append = move || file.append(&batch).map(|()| file);
    disk.run(append).await
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

impl Service<Request<RequestBody>> for Uploads {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let uploads = self.clone();
        Box::pin(async move { Ok(uploads.answer(request).await) })
    }
}

#[cfg(test)]
mod tests;
