//! Responses that are made of no file: redirects, and a page that names its status.

use super::open::Elsewhere;
use crate::request::body::Body;
use http::header::{self, HeaderName};
use http::{HeaderValue, Response, StatusCode};
use http_body::Body as _;
use percent_encoding::{CONTROLS, utf8_percent_encode};

/// The methods a file has.
const ALLOW: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// A redirect to a path of this server. A target may have come with bytes beyond ASCII, which the
/// reference in a Location field cannot have (RFC 3986 section 2).
pub(super) fn redirect(elsewhere: Elsewhere) -> Response<Body> {
    let mut response = page(StatusCode::PERMANENT_REDIRECT);
    set_location(&mut response, &elsewhere.path);
    response.extensions_mut().insert(elsewhere);
    response
}

/// Has a redirect hold wherever the folder stands: the beginning of the path may have been taken away.
pub(super) fn make_relative(mut response: Response<Body>) -> Response<Body> {
    if let Some(Elsewhere { relative, .. }) = response.extensions_mut().remove() {
        set_location(&mut response, &relative);
    }
    response
}

fn set_location(response: &mut Response<Body>, location: &str) {
    let reference = utf8_percent_encode(location, CONTROLS).to_string();
    set(response, header::LOCATION, &reference);
}

pub(super) fn allow(mut response: Response<Body>, status: StatusCode) -> Response<Body> {
    *response.status_mut() = status;
    response.headers_mut().insert(header::ALLOW, ALLOW);
    response
}

/// A small page that names its status.
pub(crate) fn page(status: StatusCode) -> Response<Body> {
    let title = status.to_string();
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<h1>{title}</h1>\n"
    );
    let mut response = Response::new(Body::bytes(html));
    *response.status_mut() = status;
    let length = response.body().size_hint().exact().unwrap_or_default();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HTML);
    headers.insert(header::CONTENT_LENGTH, length.into());
    response
}

pub(super) fn set(response: &mut Response<Body>, name: HeaderName, value: &str) {
    let value = HeaderValue::try_from(value).expect("digits, or parts of a valid URI");
    response.headers_mut().insert(name, value);
}
