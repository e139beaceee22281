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
use super::{Uploads, append, empty};
use altway_serve::EarlyHints;
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

/// The most incomplete uploads of a route; each holds a descriptor.
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
    place: Place,
    folders: Vec<String>,
    file: Arc<AsyncMutex<Unnamed>>,
    /// Counts requests for it: an earlier one that still appends gives way.
    requests: watch::Sender<u64>,
    touched: Mutex<Instant>,
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
        announcement: Option<EarlyHints>,
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
            place,
            folders,
            file: Arc::new(AsyncMutex::new(file)),
            requests: watch::Sender::new(0),
            touched: Mutex::new(Instant::now()),
        });
        let token = self.0.incomplete.add(&upload)?;
        let location = self.path_of(&[FOLDER.into()], &token);
        let location = location.and_then(|it| HeaderValue::try_from(it).ok());
        let is_announced = self.announce(announcement, location.as_ref());
        if is_complete && !is_announced {
            // Nobody could go on with it.
            self.0.incomplete.remove(&token);
        }
        let (file, replaced_by) = upload.take().await;
        let stored = self.go_on(file, replaced_by, content).await;
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
    pub(super) fn can_announce(&self, announcement: Option<&EarlyHints>) -> bool {
        announcement.is_some() && !self.0.incomplete.is_full()
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
        let none = || Refusal::new(StatusCode::NOT_FOUND, "there is no such incomplete upload");
        let upload = self.0.incomplete.get(token).ok_or_else(none)?;
        match *method {
            Method::HEAD => {
                let (file, _) = upload.take().await;
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
        let is_complete = is_complete(fields)?;
        let is_complete =
            is_complete.ok_or_else(|| Refusal::malformed("there is no Upload-Complete"))?;
        let offset = number(fields, &OFFSET)?;
        let offset = offset.ok_or_else(|| Refusal::malformed("there is no Upload-Offset"))?;
        let declared = self.declared(fields)?;
        let _permit = self.permit()?;
        let (mut file, replaced_by) = upload.take().await;
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
        let file = self.go_on(file, replaced_by, content).await?;
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
        mut replaced_by: watch::Receiver<u64>,
        mut content: Content<B>,
    ) -> Result<OwnedMutexGuard<Unnamed>, Refusal>
    where
        B: Body<Data = Bytes, Error: Display> + Unpin + Send,
    {
        loop {
            let batch = tokio::select! {
                biased;
                _ = replaced_by.changed() => {
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

fn inconsistent() -> Refusal {
    let refusal = Refusal::malformed("Upload-Length is not what it was, or not what has arrived");
    refusal.with_member("type", format!("{PROBLEMS}inconsistent-upload-length"))
}

impl Upload {
    /// Has an earlier request for it give way, and waits for its file; the receiver tells when this one has to.
    async fn take(&self) -> (OwnedMutexGuard<Unnamed>, watch::Receiver<u64>) {
        self.requests.send_modify(|count| *count += 1);
        let replaced_by = self.requests.subscribe();
        let file = Arc::clone(&self.file).lock_owned().await;
        *self.touched.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        (file, replaced_by)
    }

    fn is_old(&self, now: Instant) -> bool {
        let touched = *self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is appended to is none.
        now.saturating_duration_since(touched) > MAX_AGE && self.file.try_lock().is_ok()
    }
}

impl Incomplete {
    /// # Errors
    /// There are as many as may be.
    fn add(&self, upload: &Arc<Upload>) -> Result<String, Refusal> {
        self.forget_old(Instant::now());
        let mut bytes = [0; TOKEN];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Refusal::busy())?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut uploads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if uploads.len() >= MOST {
            return Err(Refusal::busy());
        }
        uploads.insert(token.clone(), Arc::clone(upload));
        Ok(token)
    }

    fn is_full(&self) -> bool {
        let uploads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        uploads.len() >= MOST
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

#[cfg(test)]
mod tests {
    use super::super::tests::{Fixture, fixture};
    use super::*;
    use http::Request;

    fn create(it: &Fixture, path: &str, content: &str, length: Option<u64>) -> String {
        let mut request = Request::put(path).header("upload-complete", "?0");
        if let Some(length) = length {
            request = request.header("upload-length", length);
        }
        let created = it.ask(request, Full::from(content.to_owned()));
        created.check(201, "");
        assert_eq!(created.field("upload-offset"), content.len().to_string());
        assert_eq!(created.field("upload-limit"), "max-size=100, max-age=3600");
        let location = created.field("location").to_owned();
        assert!(location.starts_with("/in/.uploads/"), "{location}");
        location
    }

    fn patch(path: &str, offset: u64, complete: &str) -> http::request::Builder {
        let request = Request::patch(path).header("content-type", PARTIAL);
        let request = request.header("upload-offset", offset);
        request.header("upload-complete", complete)
    }

    fn resumable() -> Fixture {
        fixture("/in/*", ", resumable = true, body = \"100B\"")
    }

    #[test]
    fn an_upload_goes_on_where_it_was_interrupted() {
        let it = resumable();
        let path = create(&it, "/in/a", "one", Some(9));
        let told = it.ask(Request::head(&path), Full::default());
        told.check(204, "");
        let fields = [
            "upload-offset",
            "upload-complete",
            "upload-length",
            "cache-control",
        ];
        assert_eq!(
            fields.map(|name| told.field(name)),
            ["3", "?0", "9", "no-store"]
        );
        let more = it.ask(patch(&path, 3, "?0"), Full::from("two"));
        more.check(204, "");
        assert_eq!(more.field("upload-offset"), "6");
        it.check_stored(&[]);
        let wrong = it.ask(patch(&path, 3, "?1"), Full::from("six"));
        wrong.check(409, "\"expected-offset\":6");
        wrong.check(409, "mismatching-upload-offset");
        let done = it.ask(patch(&path, 6, "?1"), Full::from("six"));
        done.check(201, "");
        assert_eq!(
            ["location", "upload-complete"].map(|name| done.field(name)),
            ["/in/a", "?1"]
        );
        it.check_stored(&[("a", "onetwosix")]);
        it.ask(Request::head(&path), Full::default()).check(404, "");
        it.ask(
            Request::put("/in/b").header("upload-complete", "?1"),
            Full::from("x"),
        )
        .check(201, "");
    }

    #[test]
    fn lengths_and_fields_are_kept_to() {
        let it = resumable();
        let path = create(&it, "/in/a", "", Some(4));
        it.ask(
            patch(&path, 0, "?1").header("upload-length", 5),
            Full::from("x"),
        )
        .check(400, "inconsistent-upload-length");
        it.ask(patch(&path, 0, "?1"), Full::from("12345"))
            .check(413, "");
        it.ask(patch(&path, 0, "?1"), Full::from("123"))
            .check(400, "inconsistent-upload-length");
        it.ask(patch(&path, 3, "yes"), Full::from("4"))
            .check(400, "Upload-Complete");
        it.ask(patch(&path, 3, "?1"), Full::from("4"))
            .check(201, "");
        let plain = Request::patch(&path)
            .header("upload-offset", 3)
            .header("upload-complete", "?1");
        it.ask(plain, Full::from("4")).check(404, "");
        let path = create(&it, "/in/b", "", None);
        let plain = Request::patch(&path)
            .header("upload-offset", 3)
            .header("upload-complete", "?1");
        it.ask(plain, Full::from("4")).check(415, PARTIAL);
        let plain = Request::patch(&path)
            .header("content-type", PARTIAL)
            .header("upload-complete", "?1");
        it.ask(plain, Full::from("4")).check(400, "Upload-Offset");
        it.ask(Request::get(&path), Full::default()).check(405, "");
        it.ask(Request::delete(&path), Full::default())
            .check(204, "");
        it.ask(Request::head(&path), Full::default()).check(404, "");
        let long = Request::put("/in/c")
            .header("upload-complete", "?0")
            .header("upload-length", 101);
        it.ask(long, Full::default()).check(413, "");
        it.check_stored(&[("a", "1234")]);
    }

    #[test]
    fn a_name_that_is_taken_in_the_meantime_is_refused_at_the_end() {
        let it = resumable();
        let path = create(&it, "/in/a", "mine", None);
        it.put("/in/a", "other").check(201, "");
        it.ask(patch(&path, 4, "?1"), Full::default())
            .check(409, "`a` is there already");
        it.check_stored(&[("a", "other")]);
    }

    #[test]
    fn without_the_switch_nothing_of_it_is_there() {
        let it = fixture("/in/*", "");
        it.ask(
            Request::put("/in/a").header("upload-complete", "?0"),
            Full::from("x"),
        )
        .check(501, "can't be resumed");
        it.ask(Request::head("/in/.uploads/x"), Full::default())
            .check(405, "");
        it.check_stored(&[]);
    }

    #[test]
    fn an_append_gives_way_to_the_next_request() {
        let it = resumable();
        let path = create(&it, "/in/a", "", None);
        it.runtime.block_on(async {
            let piece = http_body::Frame::data(Bytes::from_static(b"12"));
            let pieces = futures_util::stream::iter([Ok::<_, std::convert::Infallible>(piece)]);
            let endless = futures_util::StreamExt::chain(pieces, futures_util::stream::pending());
            let body = http_body_util::StreamBody::new(endless);
            let append = patch(&path, 0, "?1").body(body).unwrap();
            let first = tokio::spawn(it.uploads.clone().answer(append));
            let offset = async || {
                let head = Request::head(&path).body(Full::<Bytes>::default()).unwrap();
                let told = it.uploads.clone().answer(head).await;
                told.headers()[OFFSET].to_str().unwrap().to_owned()
            };
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(offset().await, "2");
            assert_eq!(first.await.unwrap().status(), 409);
        });
        it.ask(patch(&path, 2, "?1"), Full::from("3"))
            .check(201, "");
        it.check_stored(&[("a", "123")]);
    }

    #[test]
    fn they_are_bounded_in_number_and_in_time() {
        let it = resumable();
        let paths: Vec<_> = (0..MOST)
            .map(|at| create(&it, &format!("/in/{at}"), "", None))
            .collect();
        let request = || Request::put("/in/more").header("upload-complete", "?0");
        it.ask(request(), Full::default()).check(503, "");
        it.uploads
            .0
            .incomplete
            .forget_old(Instant::now() + MAX_AGE / 2);
        it.ask(Request::head(&paths[0]), Full::default())
            .check(204, "");
        it.uploads
            .0
            .incomplete
            .forget_old(Instant::now() + MAX_AGE * 2);
        it.ask(Request::head(&paths[0]), Full::default())
            .check(404, "");
        it.ask(request(), Full::default()).check(201, "");
    }
}
