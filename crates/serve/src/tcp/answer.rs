//! The answer to a request over HTTP/1.1, as hyper asks for it.

use crate::RequestBody;
use crate::embed::Step;
use crate::request::body::Body;
use crate::request::requests::{Answer, AnswerSource, Now, Requests};
use crate::selection::counters::Counters;
use altway_message::Cookies;
use http::header::COOKIE;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};
use hyper::body::Incoming;
use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;

/// The answer to a request over HTTP/1.1. `body`: what makes its body one that services read.
pub(super) fn answer(
    requests: &mut Requests<Infallible>,
    mut request: hyper::Request<Incoming>,
    now: Now,
    read: impl FnMut() -> Option<Counters>,
    body: impl FnOnce(Incoming) -> RequestBody,
) -> Answer {
    complete_path(request.uri_mut());
    let whole = hyper::body::Body::is_end_stream(request.body());
    let screened = requests.screen(&request, whole, 1, now, read);
    // From here on it is known whether the body is read to its end.
    let mut request = request.map(body);
    match screened {
        AnswerSource::Refused(response) => Answer::Now(response),
        AnswerSource::Prepared(prepared) => Answer::Now(requests.respond_prepared(&prepared, now)),
        AnswerSource::Service(route) => {
            join_cookies(request.headers_mut());
            requests.ask(route, request, now)
        }
    }
}

/// Puts a slash before the query of a target in absolute form that has no path (RFC 9110 section 4.2.3), as of `http://a?b`.
fn complete_path(uri: &mut Uri) {
    let target = uri.path_and_query().map(PathAndQuery::as_str);
    let Some(query) = target.filter(|it| it.starts_with('?')) else {
        return;
    };
    let Ok(path) = PathAndQuery::try_from(format!("/{query}")) else {
        return;
    };
    let mut parts = std::mem::take(uri).into_parts();
    parts.path_and_query = Some(path);
    *uri = Uri::from_parts(parts).expect("it had all its parts");
}

/// Makes one Cookie field of several, as the engines of HTTP/2 and HTTP/3 do.
fn join_cookies(fields: &mut HeaderMap) {
    let mut cookies = Cookies::default();
    let lines = fields.get_all(COOKIE);
    if lines.iter().nth(1).is_some() {
        lines.iter().for_each(|line| cookies.push(line.as_bytes()));
    }
    let joined = cookies.take().map(HeaderValue::try_from);
    if let Some(Ok(joined)) = joined {
        fields.insert(COOKIE, joined);
    }
}

/// Waits for an answer, and makes it one that can be sent. What precedes it is given to `interim`.
pub(super) async fn finished(
    answer: Answer,
    requests: &RefCell<Requests<Infallible>>,
    mut interim: impl FnMut(StatusCode, &HeaderMap),
) -> Response<Body> {
    let mut answering = match answer {
        Answer::Now(response) => return response,
        Answer::Later(answering) => answering,
    };
    loop {
        match poll_fn(|cx| answering.poll_step(cx)).await {
            Step::Interim(status, fields) => interim(status, &fields),
            Step::Response(answered) => {
                return requests.borrow_mut().finish(answered, Now::read());
            }
        }
    }
}
