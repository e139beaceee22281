//! Routes that are answered without a file: redirects, and what stands in the configuration.

use altway_config::{HeaderField, PathPattern, Redirect, Requested, Respond as RespondPlan};
use altway_config::{Route, Site};
use altway_serve::RequestBody;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// A service that is always ready.
#[derive(Debug, Clone)]
pub(crate) enum Answers {
    Respond(Respond),
    Redirect(Arc<Redirecting>),
}

/// An answer that is the same for every request.
#[derive(Debug, Clone)]
pub(crate) struct Respond {
    status: StatusCode,
    fields: HeaderMap,
    content: Bytes,
}

#[derive(Debug)]
pub(crate) struct Redirecting {
    pattern: PathPattern,
    redirect: Redirect,
    status: StatusCode,
    fields: HeaderMap,
}

impl Respond {
    /// The name of a status as text.
    pub(crate) fn status(status: StatusCode, headers: &[HeaderField]) -> Self {
        let reason = status.canonical_reason().unwrap_or_default();
        let text = format!("{} {reason}\n", status.as_u16());
        let mut fields = HeaderMap::new();
        replace(&mut fields, headers);
        Self::new(status, fields, text)
    }

    fn new(status: StatusCode, mut fields: HeaderMap, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        if !content.is_empty() {
            fields.entry(header::CONTENT_TYPE).or_insert(TEXT);
        }
        Self {
            status,
            fields,
            content,
        }
    }
}

impl Answers {
    pub(crate) fn respond(site: &Site, route: &Route, respond: &RespondPlan) -> Self {
        let mut fields = fields_of(site, route);
        replace(&mut fields, &respond.headers);
        let status = status(respond.status);
        Self::Respond(Respond::new(status, fields, respond.body.clone()))
    }

    pub(crate) fn redirect(site: &Site, route: &Route, redirect: Redirect) -> Self {
        Self::Redirect(Arc::new(Redirecting {
            pattern: route.path.clone(),
            status: status(redirect.status),
            redirect,
            fields: fields_of(site, route),
        }))
    }

    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let (status, fields, content) = match self {
            Self::Respond(it) => (it.status, it.fields.clone(), it.content.clone()),
            Self::Redirect(it) => match it.location(request) {
                Some(location) => {
                    let mut fields = it.fields.clone();
                    fields.insert(header::LOCATION, location);
                    (it.status, fields, Bytes::new())
                }
                None => (StatusCode::BAD_REQUEST, it.fields.clone(), Bytes::new()),
            },
        };
        let mut response = Response::new(Full::new(content));
        *response.status_mut() = status;
        *response.headers_mut() = fields;
        response
    }
}

impl Redirecting {
    /// The URL that a request is redirected to; `None` where that can't stand in a field.
    fn location<B>(&self, request: &Request<B>) -> Option<HeaderValue> {
        let uri = request.uri();
        let host = uri.authority().map(http::uri::Authority::as_str);
        let field = || request.headers().get(header::HOST)?.to_str().ok();
        let requested = Requested {
            host: host.or_else(field).unwrap_or_default(),
            path: uri.path(),
            query: uri.query(),
            rest: self.pattern.rest(uri.path()),
        };
        HeaderValue::try_from(self.redirect.to.resolve(requested)).ok()
    }
}

impl Service<Request<RequestBody>> for Answers {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Full<Bytes>>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        ready(Ok(self.answer(&request)))
    }
}

/// A checked plan has statuses of three digits only.
fn status(number: u16) -> StatusCode {
    StatusCode::from_u16(number).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The fields of a route's responses: its own in place of the site's of the same name.
pub(crate) fn fields_of(site: &Site, route: &Route) -> HeaderMap {
    let mut fields = HeaderMap::new();
    replace(&mut fields, &site.headers);
    replace(&mut fields, &route.headers);
    fields
}

/// Puts fields in the place of those that have the same names; of one name may be several.
pub(crate) fn replace(fields: &mut HeaderMap, new: &[HeaderField]) {
    for field in new {
        if let Ok(name) = HeaderName::try_from(field.name()) {
            fields.remove(name);
        }
    }
    for field in new {
        let name = HeaderName::try_from(field.name());
        // A checked plan has none that can't be sent.
        if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(field.value())) {
            fields.append(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        Site {
            headers: vec![field("x-site", "1"), field("x-both", "site")],
            ..Site::default()
        }
    }

    fn field(name: &str, value: &str) -> HeaderField {
        HeaderField::new(name, value).unwrap()
    }

    fn route(path: &str, action: altway_config::Action) -> Route {
        Route {
            path: path.parse().unwrap(),
            headers: vec![field("x-both", "route"), field("x-both", "twice")],
            action,
        }
    }

    fn ask(answers: &Answers, uri: &str) -> Response<Full<Bytes>> {
        answers.answer(&Request::get(uri).body(()).unwrap())
    }

    #[test]
    fn what_stands_in_the_configuration_is_answered_with_the_fields_of_all_levels() {
        let plan = RespondPlan {
            status: 410,
            body: "gone\n".into(),
            headers: vec![field("x-site", "mine"), field("cache-control", "no-store")],
        };
        let route = route("/*", altway_config::Action::Respond(plan.clone()));
        let response = ask(&Answers::respond(&site(), &route, &plan), "/x");
        assert_eq!(response.status(), 410);
        let fields: Vec<_> = response
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        let mut expected = vec![
            ("x-both", "route"),
            ("x-both", "twice"),
            ("x-site", "mine"),
            ("cache-control", "no-store"),
            ("content-type", "text/plain; charset=utf-8"),
        ];
        expected.sort_unstable();
        let mut sorted = fields.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
    }

    #[test]
    fn a_redirect_keeps_what_its_target_names() {
        let redirect = Redirect {
            to: "https://new.example/{rest}{query}".parse().unwrap(),
            status: 308,
        };
        let route = route("/old/*", altway_config::Action::Redirect(redirect.clone()));
        let answers = Answers::redirect(&site(), &route, redirect);
        let response = ask(&answers, "https://a.example/old/a%20b?q=1");
        assert_eq!(response.status(), 308);
        let location = &response.headers()[header::LOCATION];
        assert_eq!(location, "https://new.example/a%20b?q=1");
        assert_eq!(response.headers()["x-site"], "1");
    }
}
