//! Fields of a service's response that say where its content ends: the server frames messages itself, over HTTP/1.1 by hyper,
//! which believes them.

use crate::request::body::Body;
use crate::request::handler::BoxError;
use altway_message::response_length;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderValue, Response};

/// Takes away Transfer-Encoding, with the Content-Length that it overrides (RFC 9112 section 6.3), and holds the content to
/// Content-Length.
///
/// # Errors
/// The content is coded for its transfer, or [`response_length`] refuses its Content-Length.
pub(super) fn hold_to_length(mut response: Response<Body>) -> Result<Response<Body>, BoxError> {
    let fields = response.headers_mut();
    if fields.contains_key(TRANSFER_ENCODING) {
        let is_chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
        if !fields.get_all(TRANSFER_ENCODING).iter().all(is_chunked) {
            return Err("its Transfer-Encoding is another than chunked".into());
        }
        fields.remove(TRANSFER_ENCODING);
        fields.remove(CONTENT_LENGTH);
    }
    let values = fields.get_all(CONTENT_LENGTH).iter();
    let Some(length) = response_length(values.map(HeaderValue::as_bytes))? else {
        return Ok(response);
    };
    if length.is_repeated {
        fields.insert(CONTENT_LENGTH, length.bytes.into());
    }
    Ok(response.map(|body| body.with_length(length.bytes)))
}
