//! Validators, which tell two versions of a file apart: ETag and Last-Modified (RFC 9110 section 8.8).

use super::coding::ContentCoding;
use super::variants::Variants;
use http::HeaderMap;
use http::HeaderValue;
use http::header;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The value of Vary where there are compressed forms.
const ACCEPT_ENCODING: HeaderValue = HeaderValue::from_static("accept-encoding");

/// The properties of a form of a file of which its validators are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traits {
    pub(super) modified: SystemTime,
    /// Bytes of the file. Of a form that is made of it still those of the file, so that the form's entity tag is
    /// known before the form is.
    pub(super) size: u64,
    pub(super) coding: Option<ContentCoding>,
    pub(super) variants: Variants,
}

impl Traits {
    /// The coding in which the file is to be sent, if it must be compressed first.
    pub(super) fn to_be_made(self) -> Option<ContentCoding> {
        self.coding
            .filter(|coding| self.variants.made.contains(*coding))
    }
}

/// A file's validators at the time of a response.
#[derive(Debug)]
pub(crate) struct Validators {
    /// The ETag, with its quotes. Strong: time of change in nanoseconds, size, and the coding of a
    /// compressed form.
    pub(crate) etag: String,
    /// The time of change, in whole seconds as HTTP dates are; never later than the response.
    pub(crate) modified: SystemTime,
    now: SystemTime,
    coding: Option<ContentCoding>,
    varies: bool,
}

impl Validators {
    pub(super) fn of(traits: Traits, now: SystemTime) -> Self {
        let Traits { size, coding, .. } = traits;
        let age = since_epoch(traits.modified);
        // RFC 9110 section 8.8.2.1: "An origin server with a clock MUST NOT generate a
        // Last-Modified date that is later than the server's time of message origination (Date)."
        let modified = UNIX_EPOCH + Duration::from_secs(age.min(since_epoch(now)).as_secs());
        let suffix = coding.map_or(String::new(), |coding| format!("-{coding}"));
        Self {
            etag: format!("\"{:x}-{size:x}{suffix}\"", age.as_nanos()),
            modified,
            now,
            coding,
            varies: !traits.variants.is_empty(),
        }
    }

    /// Returns true if Last-Modified can stand for one version only: the file has not changed within the last second
    /// (RFC 9110 section 8.8.2.2), and there is no compressed form of the same time.
    pub(crate) fn is_date_strong(&self) -> bool {
        !self.varies && self.modified + Duration::from_secs(1) <= self.now
    }

    /// Says how the content is compressed, of a response that has some.
    pub(super) fn write_coding(&self, headers: &mut HeaderMap) {
        if let Some(coding) = self.coding {
            headers.insert(header::CONTENT_ENCODING, coding.value());
        }
    }

    /// Sets the fields that every response has of the file: its validators, and Vary.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        let etag = HeaderValue::try_from(&self.etag).expect("hexadecimal digits in quotes");
        headers.insert(header::ETAG, etag);
        let date = httpdate::fmt_http_date(self.modified);
        let date = HeaderValue::try_from(date).expect("a date is visible ASCII");
        headers.insert(header::LAST_MODIFIED, date);
        if self.varies {
            headers.append(header::VARY, ACCEPT_ENCODING);
        }
    }
}

/// Times before 1970 count as 1970: HTTP dates can't say them.
fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}
