//! Uploads that go on after an interruption, as far as draft-ietf-httpbis-resumable-upload is settled: an upload that is
//! created incomplete (`Upload-Complete: ?0`) gets a resource of its own, whose offset HEAD tells, to which PATCH
//! appends and which DELETE takes away.
//!
//! Content that has arrived is a file without a name, held open: it is gone with the process, and after an hour
//! without a request. A client of the draft's interop version hears of the resource while it sends, by the interim
//! response 104: its upload can be resumed though it was to be complete with one request (`Upload-Complete: ?1`).

use super::content::Content;
use super::folder::{Place, Unnamed};
use super::refusal::Refusal;
use super::{Uploads, append, check_fields, empty};
use altway_serve::{ClientPrefix, EarlyHints};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, watch};

/// The folder, in paths alone, of uploads that are not complete. No file can have its name.
pub(super) const FOLDER: &str = ".uploads";

/// The most incomplete uploads of a route; each holds a descriptor. A client has never more of them than are left for
/// others: 128 alone.
const MOST: usize = 256;

/// The time for which an upload is kept that nobody asks for.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// Bytes of a token: nobody guesses one.
const TOKEN: usize = 16;

const COMPLETE: HeaderName = HeaderName::from_static("upload-complete");
const OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const LENGTH: HeaderName = HeaderName::from_static("upload-length");
const LIMIT: HeaderName = HeaderName::from_static("upload-limit");
const INTEROP: HeaderName = HeaderName::from_static("upload-draft-interop-version");

/// The draft's interop version. Who names none, or another, "MUST NOT" be sent a 104.
const INTEROP_VERSION: &str = "8";

const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");
const PARTIAL: &str = "application/partial-upload";
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The place at which the types of the draft's problems are registered.
const PROBLEMS: &str = "https://iana.org/assignments/http-problem-types#";

/// The incomplete uploads of a route, by their tokens.
#[derive(Debug, Default)]
pub(super) struct Incomplete(Mutex<HashMap<String, Arc<Upload>>>);

#[derive(Debug)]
struct Upload {
    /// The client that has begun it; `None`: it is not known.
    client: Option<ClientPrefix>,
    place: Place,
    folders: Vec<String>,
    file: Arc<AsyncMutex<Unnamed>>,
    /// Counts requests for it: an earlier one that still appends gives way.
    requests: watch::Sender<u64>,
    /// The beginning or the end of the latest request for it.
    touched: Arc<Mutex<Instant>>,
}

/// The right to a file for one request, until another one for it comes.
struct Turn {
    requests: watch::Receiver<u64>,
    /// The requests when this one came, itself among them.
    count: u64,
    /// The upload's time of its latest request, which the end of this one sets: an append may take longer than an upload is kept.
    touched: Arc<Mutex<Instant>>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        touch(&self.touched);
    }
}

impl Turn {
    /// Waits until another request for the upload has come.
    async fn is_over(&mut self) {
        let count = self.count;
        // The sender is the upload's, which whoever has the turn holds.
        let _ = self.requests.wait_for(|it| *it > count).await;
    }
}

/// The client of a request, and the means to send it 104, where it takes that.
pub(super) struct Creator {
    pub(super) client: Option<ClientPrefix>,
    pub(super) announcement: Option<EarlyHints>,
}

/// The means to send a client 104, where it takes that.
pub(super) fn announcement(fields: &HeaderMap, interim: Option<EarlyHints>) -> Option<EarlyHints> {
    let has_version = fields.get(INTEROP).is_some_and(|it| it == INTEROP_VERSION);
    interim.filter(|_| has_version)
}

/// Returns true if the client says that its content is all there is; `None`: it does not know of resumable uploads.
///
/// # Errors
/// The field is no boolean (RFC 9651 section 3.3.6).
pub(super) fn is_complete(fields: &HeaderMap) -> Result<Option<bool>, Refusal> {
    match fields.get(COMPLETE).map(HeaderValue::as_bytes) {
        None => Ok(None),
        Some(b"?1") => Ok(Some(true)),
        Some(b"?0") => Ok(Some(false)),
        Some(_) => Err(Refusal::malformed("Upload-Complete is neither ?0 nor ?1")),
    }
}

/// The value of a field that is a number (RFC 9651 section 3.3.1), not below 0.
fn number(fields: &HeaderMap, name: &HeaderName) -> Result<Option<u64>, Refusal> {
    let Some(value) = fields.get(name) else {
        return Ok(None);
    };
    let digits = value
        .to_str()
        .ok()
        .filter(|it| (1..=15).contains(&it.len()) && it.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|it| it.parse().ok());
    number
        .map(Some)
        .ok_or_else(|| Refusal::malformed(format!("{name} is not a number")))
}

impl Uploads {
    /// Begins an upload that can go on, and stores the content so far; where it `is_complete` that is all there is.
    pub(super) async fn create<B>(
        &self,
        (place, folders): (Place, Vec<String>),
        fields: &HeaderMap,
        content: Content<B>,
        is_complete: bool,
        creator: Creator,
    ) -> Result<Response<Full<Bytes>>, Refusal>
    where
        B: Body<Data = Bytes, Error: Display> + Unpin + Send,
    {
        let mut declared = self.declared(fields)?;
        if let Some(length) = content.length().filter(|_| is_complete) {
            if declared.is_some_and(|declared| declared != length) {
                return Err(inconsistent());
            }
            declared = Some(length);
        }
        let mut file = self
            .begin(place.clone(), declared.unwrap_or_default())
            .await?;
        file.declared = declared;
        let upload = Arc::new(Upload {
            client: creator.client,
            place,
            folders,
            file: Arc::new(AsyncMutex::new(file)),
            requests: watch::Sender::new(0),
            touched: Arc::new(Mutex::new(Instant::now())),
        });
        let token = self.0.incomplete.add(&upload)?;
        let location = self.path_of(&[FOLDER.into()], &token);
        let location = location.and_then(|it| HeaderValue::try_from(it).ok());
        let is_announced = self.announce(creator.announcement, location.as_ref());
        if is_complete && !is_announced {
            // Nobody could go on with it.
            self.0.incomplete.remove(&token);
        }
        let (file, turn) = upload.take().await;
        let stored = self.go_on(file, turn, content).await;
        if let Err(refusal) = &stored
            && refusal.status == StatusCode::PAYLOAD_TOO_LARGE
        {
            self.0.incomplete.remove(&token);
        }
        let file = stored?;
        if is_complete {
            return self.complete(&token, &upload, &file).await;
        }
        let mut response = empty(StatusCode::CREATED);
        if let Some(location) = location {
            response.headers_mut().insert(header::LOCATION, location);
        }
        self.describe(&mut response, &file);
        Ok(response)
    }

    /// Returns true if one more upload can go on that its client is told of.
    pub(super) fn can_announce(&self, creator: &Creator) -> bool {
        creator.announcement.is_some() && self.0.incomplete.has_room(creator.client)
    }

    /// Tells the client where its upload can go on; returns true if the client will hear that.
    fn announce(&self, interim: Option<EarlyHints>, location: Option<&HeaderValue>) -> bool {
        let Some((interim, location)) = interim.zip(location) else {
            return false;
        };
        let fields = HeaderMap::from_iter([
            (header::LOCATION, location.clone()),
            (LIMIT, self.limit()),
            (INTEROP, HeaderValue::from_static(INTEROP_VERSION)),
        ]);
        let status = StatusCode::from_u16(104).expect("three digits");
        interim.send_interim(status, fields).is_ok()
    }

    /// Gives an upload that is whole its name.
    async fn complete(
        &self,
        token: &str,
        upload: &Upload,
        file: &Unnamed,
    ) -> Result<Response<Full<Bytes>>, Refusal> {
        if file
            .declared
            .is_some_and(|declared| declared != file.length)
        {
            return Err(inconsistent());
        }
        self.0.incomplete.remove(token);
        let place = upload.place.clone();
        let mut response = self.finish(place, file, &upload.folders).await?;
        let complete = HeaderValue::from_static("?1");
        response.headers_mut().insert(COMPLETE, complete);
        Ok(response)
    }

    /// Answers a request for an upload that is not complete.
    pub(super) async fn resume<B>(
        &self,
        method: &Method,
        token: &str,
        fields: &HeaderMap,
        body: B,
    ) -> Result<Response<Full<Bytes>>, Refusal>
    where
        B: Body<Data = Bytes, Error: Display> + Unpin + Send,
    {
        const METHODS: HeaderValue = HeaderValue::from_static("DELETE, HEAD, OPTIONS, PATCH");
        if *method == Method::OPTIONS {
            let mut response = empty(StatusCode::NO_CONTENT);
            response.headers_mut().insert(header::ALLOW, METHODS);
            return Ok(response);
        }
        let upload = self.0.incomplete.get(token).ok_or_else(none)?;
        match *method {
            Method::HEAD => {
                let (file, _) = self.taken(token, &upload).await?;
                let mut response = empty(StatusCode::NO_CONTENT);
                self.describe(&mut response, &file);
                Ok(response)
            }
            Method::DELETE => {
                self.0.incomplete.remove(token);
                // An append that goes on gives way.
                upload.take().await;
                Ok(empty(StatusCode::NO_CONTENT))
            }
            Method::PATCH => self.append(token, &upload, fields, body).await,
            _ => {
                let detail = format!("{method} is none of the methods for an incomplete upload");
                let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, detail);
                Err(refusal.with_field(header::ALLOW, METHODS))
            }
        }
    }

    /// Has a file whose upload was neither completed nor taken away meanwhile.
    async fn taken(
        &self,
        token: &str,
        upload: &Upload,
    ) -> Result<(OwnedMutexGuard<Unnamed>, Turn), Refusal> {
        let taken = upload.take().await;
        self.0.incomplete.get(token).ok_or_else(none)?;
        Ok(taken)
    }

    async fn append<B>(
        &self,
        token: &str,
        upload: &Upload,
        fields: &HeaderMap,
        body: B,
    ) -> Result<Response<Full<Bytes>>, Refusal>
    where
        B: Body<Data = Bytes, Error: Display> + Unpin + Send,
    {
        let kind = fields.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        if kind.is_none_or(|it| !it.eq_ignore_ascii_case(PARTIAL.as_bytes())) {
            let detail = format!("content of type {PARTIAL} is appended here");
            let refusal = Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail);
            let accepted = HeaderValue::from_static(PARTIAL);
            return Err(refusal.with_field(ACCEPT_PATCH, accepted));
        }
        check_fields(fields)?;
        let is_complete = is_complete(fields)?;
        let is_complete =
            is_complete.ok_or_else(|| Refusal::malformed("there is no Upload-Complete"))?;
        let offset = number(fields, &OFFSET)?;
        let offset = offset.ok_or_else(|| Refusal::malformed("there is no Upload-Offset"))?;
        let declared = self.declared(fields)?;
        let _permit = self.permit()?;
        let (mut file, turn) = self.taken(token, upload).await?;
        if offset != file.length {
            let detail = format!("the upload goes on at {}, not at {offset}", file.length);
            let refusal = Refusal::new(StatusCode::CONFLICT, detail);
            let expected = HeaderValue::from(file.length);
            return Err(refusal
                .with_field(OFFSET, expected)
                .with_member("type", format!("{PROBLEMS}mismatching-upload-offset"))
                .with_member("expected-offset", file.length)
                .with_member("provided-offset", offset));
        }
        if declared.is_some() && file.declared.is_some() && declared != file.declared {
            return Err(inconsistent());
        }
        file.declared = file.declared.or(declared);
        let limit = self
            .plan()
            .body
            .as_bytes()
            .min(file.declared.unwrap_or(u64::MAX));
        let left = limit.saturating_sub(file.length);
        let content = Content::new(body, left, self.plan().slowest)?;
        let file = self.go_on(file, turn, content).await?;
        if !is_complete {
            let mut response = empty(StatusCode::NO_CONTENT);
            self.describe(&mut response, &file);
            return Ok(response);
        }
        self.complete(token, upload, &file).await
    }

    /// Appends what arrives until it ends, or until another request for the upload is there.
    async fn go_on<B>(
        &self,
        mut file: OwnedMutexGuard<Unnamed>,
        mut turn: Turn,
        mut content: Content<B>,
    ) -> Result<OwnedMutexGuard<Unnamed>, Refusal>
    where
        B: Body<Data = Bytes, Error: Display> + Unpin + Send,
    {
        loop {
            let batch = tokio::select! {
                biased;
                () = turn.is_over() => {
                    let detail = "another request for the upload has taken its place";
                    return Err(Refusal::new(StatusCode::CONFLICT, detail));
                }
                batch = content.batch() => batch?,
            };
            if batch.is_empty() {
                return Ok(file);
            }
            file = append(&self.0.folder.disk, file, batch).await?;
        }
    }

    fn declared(&self, fields: &HeaderMap) -> Result<Option<u64>, Refusal> {
        let declared = number(fields, &LENGTH)?;
        let limit = self.plan().body.as_bytes();
        match declared.is_some_and(|length| length > limit) {
            true => Err(Refusal::too_large(limit)),
            false => Ok(declared),
        }
    }

    fn describe(&self, response: &mut Response<Full<Bytes>>, file: &Unnamed) {
        let fields = response.headers_mut();
        fields.insert(COMPLETE, HeaderValue::from_static("?0"));
        fields.insert(OFFSET, file.length.into());
        if let Some(declared) = file.declared {
            fields.insert(LENGTH, declared.into());
        }
        fields.insert(LIMIT, self.limit());
        fields.insert(header::CACHE_CONTROL, NO_STORE);
    }

    /// The limits that clients may count on.
    pub(super) fn limit(&self) -> HeaderValue {
        let (size, age) = (self.plan().body.as_bytes(), MAX_AGE.as_secs());
        let limit = format!("max-size={size}, max-age={age}");
        HeaderValue::try_from(limit).expect("names and numbers")
    }

    /// Says to whoever asks that uploads can be resumed here.
    pub(super) fn set_limit(&self, fields: &mut HeaderMap) {
        fields.insert(LIMIT, self.limit());
        fields.insert(ACCEPT_PATCH, HeaderValue::from_static(PARTIAL));
    }
}

fn none() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is no such incomplete upload")
}

fn inconsistent() -> Refusal {
    let refusal = Refusal::malformed("Upload-Length is not what it was, or not what has arrived");
    refusal.with_member("type", format!("{PROBLEMS}inconsistent-upload-length"))
}

impl Upload {
    /// Has an earlier request for it give way, and waits for its file; the turn tells when this one has to.
    async fn take(&self) -> (OwnedMutexGuard<Unnamed>, Turn) {
        let turn = self.turn();
        let file = Arc::clone(&self.file).lock_owned().await;
        touch(&self.touched);
        (file, turn)
    }

    /// Counts one more request. Another thread may do so at the same moment: of two requests one is the later.
    fn turn(&self) -> Turn {
        let mut count = 0;
        self.requests.send_modify(|requests| {
            *requests += 1;
            count = *requests;
        });
        let requests = self.requests.subscribe();
        let touched = Arc::clone(&self.touched);
        Turn {
            requests,
            count,
            touched,
        }
    }

    fn is_old(&self, now: Instant) -> bool {
        let touched = *self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is appended to is none.
        now.saturating_duration_since(touched) > MAX_AGE && self.file.try_lock().is_ok()
    }
}

fn touch(touched: &Mutex<Instant>) {
    *touched.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
}

impl Incomplete {
    /// # Errors
    /// There are as many as may be, or as many of its client.
    fn add(&self, upload: &Arc<Upload>) -> Result<String, Refusal> {
        self.forget_old(Instant::now());
        let mut bytes = [0; TOKEN];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Refusal::busy())?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut uploads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !has_room(&uploads, upload.client) {
            return Err(Refusal::busy());
        }
        uploads.insert(token.clone(), Arc::clone(upload));
        Ok(token)
    }

    fn has_room(&self, client: Option<ClientPrefix>) -> bool {
        let uploads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        has_room(&uploads, client)
    }

    fn get(&self, token: &str) -> Option<Arc<Upload>> {
        let uploads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        uploads.get(token).cloned()
    }

    fn remove(&self, token: &str) {
        let mut uploads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        uploads.remove(token);
    }

    /// Lets go of what nobody has asked for.
    pub(super) fn forget_old(&self, now: Instant) {
        let mut uploads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        uploads.retain(|_, upload| !upload.is_old(now));
    }
}

/// Returns true if a client may begin one more: it has fewer than are left.
fn has_room(uploads: &HashMap<String, Arc<Upload>>, client: Option<ClientPrefix>) -> bool {
    let of_client = uploads.values().filter(|it| it.client == client).count();
    of_client < MOST.saturating_sub(uploads.len())
}

#[cfg(test)]
mod tests;
