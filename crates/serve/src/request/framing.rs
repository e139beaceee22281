//! Fields of a service's response that say where its content ends: the server frames messages itself, over HTTP/1.1 by hyper,
//! which believes them.

use crate::request::body::Body;
use crate::request::handler::BoxError;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderValue, Response};

/// Takes away Transfer-Encoding, with the Content-Length that it overrides (RFC 9112 section 6.3), and holds the content to
/// Content-Length.
///
/// # Errors
/// The content is coded for its transfer, or Content-Length has no number, or several.
pub(super) fn hold_to_length(mut response: Response<Body>) -> Result<Response<Body>, BoxError> {
    let fields = response.headers_mut();
    let is_chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    if !fields.get_all(TRANSFER_ENCODING).iter().all(is_chunked) {
        return Err("its Transfer-Encoding is another than chunked".into());
    }
    if fields.remove(TRANSFER_ENCODING).is_some() {
        fields.remove(CONTENT_LENGTH);
    }
    let mut values = fields.get_all(CONTENT_LENGTH).iter();
    let Some(value) = values.next() else {
        return Ok(response);
    };
    let mut is_repeated = false;
    let is_single = values.all(|other| {
        is_repeated = true;
        other == value
    });
    let length = altway_message::content_length(value.as_bytes());
    let Some(length) = length.ok().filter(|_| is_single) else {
        return Err(format!("its Content-Length is {value:?}, which is no single number").into());
    };
    if is_repeated {
        let value = value.clone();
        fields.insert(CONTENT_LENGTH, value);
    }
    Ok(response.map(|body| body.with_length(length)))
}
