//! A router for programs that have no framework: which function or service answers a method and a path.

mod endpoint;
mod error;
mod parameters;

pub use endpoint::{Answer, ByFunction, Endpoint};
pub use error::InvalidRoute;
pub use parameters::PathParameters;

use crate::RequestBody;
use crate::files;
use crate::request::body::Body;
use crate::request::handler::BoxError;
use endpoint::{Answering, Shared};
use http::header::{ALLOW, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// The most routes of a router, counted by their paths.
const MAX_PATHS: usize = 100_000;

/// A router, which passes requests by method and path to functions and services. It is a tower service itself, for
/// [`Site::service`](crate::Site::service), [`serve`](crate::serve()) and everything else that takes one.
///
/// A path is text with parameters: `{name}` stands for one segment that is not empty, or for the part of one between
/// fixed characters, and `{*name}` at the end for all that remains, which is not empty either. Of the paths that match,
/// the one whose first difference is fixed text counts before one with a parameter there: `/files/new` before
/// `/files/{name}`. Paths are compared after escapes of unreserved characters are decoded
/// (RFC 3986 section 6.2.2.2); a request's parameters are in its extensions, decoded, as [`PathParameters`].
///
/// Routes are fixed before the server starts; one that is registered twice is an error.
///
/// - A path that nothing is registered for is answered 404, or by the [`fallback`](Self::fallback).
/// - A method that a path has no route for is answered 405 with Allow.
/// - HEAD is answered by what is registered for GET, without content, unless it has a route of its own.
/// - OPTIONS is answered 204 with Allow, unless it has a route of its own.
///
/// ```
/// use altway_serve::{PathParameters, RequestBody, Router};
/// use http::{Request, Response};
///
/// async fn greet(request: Request<RequestBody>) -> Response<String> {
///     let name = PathParameters::of(&request).get("name").unwrap_or_default();
///     Response::new(format!("hello {name}\n"))
/// }
///
/// let router = Router::new()
///     .get("/", async |_| Response::new("home\n".to_owned()))?
///     .get("/greetings/{name}", greet)?;
/// let twice = router.get("/greetings/{name}", greet).unwrap_err();
/// assert_eq!(twice.to_string(), "GET `/greetings/{name}` is registered twice");
/// # Ok::<(), altway_serve::InvalidRoute>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Router(Arc<Routes>);

#[derive(Clone, Default)]
struct Routes {
    tree: matchit::Router<usize>,
    paths: Vec<Path>,
    fallback: Option<Shared>,
}

/// The methods that are registered for one path.
#[derive(Clone)]
struct Path {
    pattern: Box<str>,
    methods: Vec<(Method, Shared)>,
    /// The endpoint for methods that have no route of their own.
    any: Option<Shared>,
}

impl Router {
    /// A router without routes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a route: requests of a method for a path are answered by a function or a service.
    ///
    /// # Errors
    /// The route is registered already, the path is ambiguous with another one, or it is no path.
    pub fn route<K>(
        mut self,
        method: Method,
        path: &str,
        endpoint: impl Endpoint<K>,
    ) -> Result<Self, InvalidRoute> {
        let place = self.place(path)?;
        let methods = &mut Arc::make_mut(&mut self.0).paths[place].methods;
        if methods.iter().any(|(other, _)| *other == method) {
            let path = path.to_owned();
            return Err(InvalidRoute::Twice {
                method: method.to_string(),
                path,
            });
        }
        methods.push((method, endpoint.into_shared()));
        Ok(self)
    }

    /// Adds a route for GET and HEAD of a path.
    ///
    /// # Errors
    /// As [`route`](Self::route).
    pub fn get<K>(self, path: &str, endpoint: impl Endpoint<K>) -> Result<Self, InvalidRoute> {
        self.route(Method::GET, path, endpoint)
    }

    /// Adds a route for POST of a path.
    ///
    /// # Errors
    /// As [`route`](Self::route).
    pub fn post<K>(self, path: &str, endpoint: impl Endpoint<K>) -> Result<Self, InvalidRoute> {
        self.route(Method::POST, path, endpoint)
    }

    /// Adds a route for PUT of a path.
    ///
    /// # Errors
    /// As [`route`](Self::route).
    pub fn put<K>(self, path: &str, endpoint: impl Endpoint<K>) -> Result<Self, InvalidRoute> {
        self.route(Method::PUT, path, endpoint)
    }

    /// Adds a route for PATCH of a path.
    ///
    /// # Errors
    /// As [`route`](Self::route).
    pub fn patch<K>(self, path: &str, endpoint: impl Endpoint<K>) -> Result<Self, InvalidRoute> {
        self.route(Method::PATCH, path, endpoint)
    }

    /// Adds a route for DELETE of a path.
    ///
    /// # Errors
    /// As [`route`](Self::route).
    pub fn delete<K>(self, path: &str, endpoint: impl Endpoint<K>) -> Result<Self, InvalidRoute> {
        self.route(Method::DELETE, path, endpoint)
    }

    /// Adds a route for all methods of a path that have no route of their own, HEAD and OPTIONS among
    /// them.
    ///
    /// # Errors
    /// As [`route`](Self::route).
    pub fn any<K>(mut self, path: &str, endpoint: impl Endpoint<K>) -> Result<Self, InvalidRoute> {
        let place = self.place(path)?;
        let any = &mut Arc::make_mut(&mut self.0).paths[place].any;
        if any.is_some() {
            return Err(InvalidRoute::Twice {
                method: "any method of".into(),
                path: path.into(),
            });
        }
        *any = Some(endpoint.into_shared());
        Ok(self)
    }

    /// Sets the function or service that answers requests for paths without a route. Default: 404.
    #[must_use]
    pub fn fallback<K>(mut self, endpoint: impl Endpoint<K>) -> Self {
        Arc::make_mut(&mut self.0).fallback = Some(endpoint.into_shared());
        self
    }

    /// The place of a path among those registered; it is registered if it is not.
    fn place(&mut self, path: &str) -> Result<usize, InvalidRoute> {
        let routes = Arc::make_mut(&mut self.0);
        let same = |it: &Path| &*it.pattern == path;
        if let Some(place) = routes.paths.iter().position(same) {
            return Ok(place);
        }
        error::check(path)?;
        let place = routes.paths.len();
        if place == MAX_PATHS {
            return Err(InvalidRoute::TooMany(MAX_PATHS));
        }
        routes
            .tree
            .insert(path, place)
            .map_err(|error| InvalidRoute::of_tree(path, &error))?;
        routes.paths.push(Path {
            pattern: path.into(),
            methods: Vec::new(),
            any: None,
        });
        Ok(place)
    }
}

impl Service<Request<RequestBody>> for Router {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Answering {
        match self.0.find(request) {
            Ok((endpoint, request)) => endpoint.call(request),
            Err(response) => Box::pin(ready(Ok(*response))),
        }
    }
}

impl Routes {
    /// Finds what answers a request, with the request as that is to see it; or the answer.
    fn find(
        &self,
        mut request: Request<RequestBody>,
    ) -> Result<(&Shared, Request<RequestBody>), Box<Response<Body>>> {
        let path = parameters::normalized(request.uri().path());
        let is_options = request.method() == Method::OPTIONS;
        if is_options && path == "*" {
            return Err(options(&self.all_methods()).into());
        }
        let Ok(found) = self.tree.at(&path) else {
            let fallback = self.fallback.as_ref();
            let none = || Box::new(files::page(StatusCode::NOT_FOUND));
            return fallback.map(|it| (it, request)).ok_or_else(none);
        };
        let registered = &self.paths[*found.value];
        let Some(endpoint) = registered.endpoint(request.method()) else {
            let allow = registered.allow();
            return Err(if is_options {
                options(&allow)
            } else {
                not_allowed(&allow)
            }
            .into());
        };
        let Some(parameters) = PathParameters::decode(&found.params) else {
            return Err(files::page(StatusCode::BAD_REQUEST).into());
        };
        request.extensions_mut().insert(parameters);
        Ok((endpoint, request))
    }

    /// The answer to `OPTIONS *`, which asks for the server as a whole.
    fn all_methods(&self) -> String {
        let mut names: Vec<_> = self.paths.iter().flat_map(Path::names).collect();
        names.extend(["OPTIONS"]);
        joined(names)
    }
}

impl Path {
    fn endpoint(&self, method: &Method) -> Option<&Shared> {
        let of = |wanted: &Method| {
            let mut methods = self.methods.iter();
            methods.find(|(it, _)| it == wanted).map(|(_, it)| it)
        };
        let as_get = || of(&Method::GET).filter(|_| method == Method::HEAD);
        of(method).or_else(as_get).or(self.any.as_ref())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let has_get = self.methods.iter().any(|(it, _)| *it == Method::GET);
        let head = has_get.then_some("HEAD");
        self.methods.iter().map(|(it, _)| it.as_str()).chain(head)
    }

    fn allow(&self) -> String {
        joined(self.names().chain(["OPTIONS"]).collect())
    }
}

/// The value of Allow (RFC 9110 section 10.2.1).
fn joined(mut names: Vec<&str>) -> String {
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

fn options(allow: &str) -> Response<Body> {
    with_allow(Body::empty_response(StatusCode::NO_CONTENT), allow)
}

fn not_allowed(allow: &str) -> Response<Body> {
    with_allow(files::page(StatusCode::METHOD_NOT_ALLOWED), allow)
}

fn with_allow(mut response: Response<Body>, allow: &str) -> Response<Body> {
    // Methods are tokens, which a field can hold.
    if let Ok(allow) = HeaderValue::from_str(allow) {
        response.headers_mut().insert(ALLOW, allow);
    }
    response
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.paths).finish()
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = self.any.as_ref().map(|_| "*");
        let methods = self.methods.iter().map(|(method, _)| method.as_str());
        let methods: Vec<_> = methods.chain(any).collect();
        write!(f, "{} {}", methods.join(","), self.pattern)
    }
}

#[cfg(test)]
mod tests;
