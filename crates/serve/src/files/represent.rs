//! Responses that are made of a file: whole, a part, several parts, or that it has not changed.

use super::compress::FormLookup;
use super::condition::{self, Verdict};
use super::multipart::Multipart;
use super::open::OpenedFile;
use super::pages::{page, set};
use super::range::{self, Range, Span};
use super::reply::Reply;
use super::served::ServedFolder;
use super::shared::FileRange;
use super::validators::{Traits, Validators};
use crate::request::body::Body;
use bytes::Bytes;
use http::header::{self, HeaderMap};
use http::{HeaderValue, Request, Response, StatusCode};
use std::path::Path;
use std::time::SystemTime;

impl ServedFolder {
    /// Answers with a file in the form that was chosen for the client.
    pub(super) fn represent<B>(
        &self,
        request: &Request<B>,
        opened: OpenedFile,
        now: SystemTime,
    ) -> Reply {
        let kind = self.type_of(&opened.name);
        let Some(coding) = opened.traits().to_be_made() else {
            return Reply::Now(represent(request, opened, kind, now));
        };
        // What the client has is known by the tag alone: for that no form is made.
        let validators = Validators::of(opened.traits(), now);
        if let Some(response) = refused(request, &validators) {
            return Reply::Now(response);
        }
        let bytes = match self.compressed.get(&opened.file, coding, &self.background) {
            FormLookup::Now(Some(bytes)) => {
                return Reply::Now(made(&opened, kind, &validators, bytes));
            }
            FormLookup::Now(None) => {
                return Reply::Now(represent(request, plain(opened), kind, now));
            }
            FormLookup::Later(bytes) => bytes,
        };
        let mut asked = Request::new(());
        *asked.method_mut() = request.method().clone();
        *asked.headers_mut() = request.headers().clone();
        Reply::Later(Box::pin(async move {
            match bytes.await {
                Ok(Some(bytes)) => made(&opened, kind, &validators, bytes),
                _ => represent(&asked, plain(opened), kind, now),
            }
        }))
    }
}

/// The file as it is.
fn plain(opened: OpenedFile) -> OpenedFile {
    OpenedFile {
        coding: None,
        ..opened
    }
}

/// A compressed form that was made of the file.
fn made(
    opened: &OpenedFile,
    kind: HeaderValue,
    validators: &Validators,
    form: Bytes,
) -> Response<Body> {
    let length = form.len() as u64;
    let mut response = Response::new(Body::shared(form));
    describe(response.headers_mut(), kind, opened.traits(), length);
    validators.write_coding(response.headers_mut());
    validators.write(response.headers_mut());
    response
}

/// The response to a request whose conditions keep it from being answered with content.
fn refused<B>(request: &Request<B>, validators: &Validators) -> Option<Response<Body>> {
    let mut response = match condition::evaluate(request.headers(), validators) {
        Verdict::Failed => page(StatusCode::PRECONDITION_FAILED),
        Verdict::NotModified => Body::empty_response(StatusCode::NOT_MODIFIED),
        Verdict::Proceed => return None,
    };
    validators.write(response.headers_mut());
    Some(response)
}

/// Conditions first, then ranges (RFC 9110 section 13.2.2).
fn represent<B>(
    request: &Request<B>,
    opened: OpenedFile,
    kind: HeaderValue,
    now: SystemTime,
) -> Response<Body> {
    let validators = Validators::of(opened.traits(), now);
    if let Some(response) = refused(request, &validators) {
        return response;
    }
    let mut response = content(request, opened, kind, &validators);
    if response.status().is_success() {
        validators.write_coding(response.headers_mut());
    }
    validators.write(response.headers_mut());
    response
}

fn content<B>(
    request: &Request<B>,
    opened: OpenedFile,
    kind: HeaderValue,
    validators: &Validators,
) -> Response<Body> {
    match range::requested(request, opened.size(), validators) {
        Range::Whole => whole(opened, kind),
        Range::Part(span) => part(opened, kind, span),
        // Content-Encoding would say of the parts' frame what is true of the parts alone.
        Range::Parts(_) if opened.coding.is_some() => whole(opened, kind),
        Range::Parts(spans) => parts(&opened, &kind, &spans, validators),
        Range::Unsatisfiable => unsatisfiable(opened.size()),
    }
}

pub(super) fn whole(opened: OpenedFile, kind: HeaderValue) -> Response<Body> {
    let size = opened.size();
    body(opened, kind, 0, size)
}

fn part(opened: OpenedFile, kind: HeaderValue, span: Span) -> Response<Body> {
    let content_range = span.content_range(opened.size());
    let mut response = body(opened, kind, span.first, span.length());
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    set(&mut response, header::CONTENT_RANGE, &content_range);
    response
}

/// Several parts as one content (RFC 9110 section 14.6).
fn parts(
    opened: &OpenedFile,
    kind: &HeaderValue,
    spans: &[Span],
    validators: &Validators,
) -> Response<Body> {
    let content = Multipart::new(&opened.file, kind, spans, &validators.etag);
    let (kind, length) = (content.kind(), content.remaining());
    let mut response = Response::new(Body::stream(content, None));
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    describe(response.headers_mut(), kind, opened.traits(), length);
    response
}

fn body(opened: OpenedFile, kind: HeaderValue, offset: u64, remaining: u64) -> Response<Body> {
    let traits = opened.traits();
    let mut response = Response::new(Body::file(FileRange {
        file: opened.file,
        offset,
        remaining,
    }));
    describe(response.headers_mut(), kind, traits, remaining);
    response
}

/// Sets the fields that describe a response's content of `length` bytes. Of a form that is made no
/// ranges are sent.
pub(super) fn describe(headers: &mut HeaderMap, kind: HeaderValue, traits: Traits, length: u64) {
    let ranges = match traits.to_be_made() {
        Some(_) => "none",
        None => "bytes",
    };
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static(ranges));
    headers.insert(header::CONTENT_LENGTH, length.into());
}

fn unsatisfiable(size: u64) -> Response<Body> {
    let mut response = page(StatusCode::RANGE_NOT_SATISFIABLE);
    set(
        &mut response,
        header::CONTENT_RANGE,
        &format!("bytes */{size}"),
    );
    response
}

/// Returns the media type by the file name's extension; text is said to be UTF-8.
pub(super) fn content_type(name: &Path) -> HeaderValue {
    let kind = mime_guess::from_path(name).first_or_octet_stream();
    let is_text =
        kind.type_() == mime_guess::mime::TEXT || kind.subtype() == mime_guess::mime::JAVASCRIPT;
    let text = if is_text && kind.get_param("charset").is_none() {
        format!("{kind}; charset=utf-8")
    } else {
        kind.to_string()
    };
    HeaderValue::try_from(text).expect("a media type is visible ASCII")
}
