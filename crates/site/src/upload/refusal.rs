//! Reasons why an upload is not stored, as a client is told: a status and a sentence (RFC 9457).

use altway_serve::ContentTooLong;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use rustix::io::Errno;
use serde_json::{Map, Value, json};
use std::fmt;
use std::io;

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// The answer to an upload that is not stored.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    detail: String,
    fields: Box<HeaderMap>,
    /// Further members of the problem.
    members: Map<String, Value>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            fields: Box::default(),
            members: Map::new(),
        }
    }

    pub(crate) fn with_field(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.fields.insert(name, value);
        self
    }

    pub(crate) fn with_member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.into(), value.into());
        self
    }

    /// The request can't be read as what it says that it is.
    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// The refusal of a name under which there is a file.
    pub(crate) fn exists(name: &str) -> Self {
        let name = name.escape_debug();
        Self::new(StatusCode::CONFLICT, format!("`{name}` is there already"))
    }

    pub(crate) fn precondition_failed() -> Self {
        let detail = "the precondition of the request is not met";
        Self::new(StatusCode::PRECONDITION_FAILED, detail)
    }

    pub(crate) fn too_large(limit: u64) -> Self {
        let detail = format!("the content is longer than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    }

    pub(crate) fn no_space() -> Self {
        let detail = "there is not enough space left to store the content";
        Self::new(StatusCode::INSUFFICIENT_STORAGE, detail)
    }

    pub(crate) fn busy() -> Self {
        let detail = "as many uploads are going on as may at the same time";
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, detail);
        refusal.with_field(header::RETRY_AFTER, HeaderValue::from_static("5"))
    }

    /// A refusal for an error of the system. One that is no fault of the client's is logged; the client is not told what it is.
    pub(crate) fn of_system(error: &io::Error) -> Self {
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        match errno {
            Some(Errno::NOSPC | Errno::DQUOT) => Self::no_space(),
            Some(Errno::FBIG) => {
                let detail = "the content is longer than a file can be here";
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
            }
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => {
                tracing::error!(%error, "cannot store an upload");
                Self::busy()
            }
            _ => {
                tracing::error!(%error, "cannot store an upload");
                let detail = "the content could not be stored";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
            }
        }
    }

    pub(crate) fn response(self) -> Response<Full<Bytes>> {
        let mut problem = json!({
            "title": self.status.canonical_reason().unwrap_or_default(),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if let Some(object) = problem.as_object_mut() {
            object.extend(self.members);
        }
        let mut response = Response::new(Full::from(format!("{problem}\n")));
        *response.status_mut() = self.status;
        *response.headers_mut() = *self.fields;
        response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM);
        if self.status == StatusCode::PAYLOAD_TOO_LARGE {
            response.extensions_mut().insert(ContentTooLong);
        }
        response
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Refusal {}
