//! Sites that a server serves: the files of a directory, or a service of the embedder.

use crate::embed::{App, RequestContext};
use crate::request::body::Body;
use crate::request::handler::{
    BoxError, Handler, Pending, PerThread, Responder, Responding, Tower,
};
use crate::{FilesOptions, RequestBody, files};
use http::{Request, Response, StatusCode};
use std::fmt;
use std::future::ready;
use std::path::PathBuf;
use std::sync::Arc;

/// A site: what answers requests.
#[derive(Debug, Clone)]
pub struct Site(pub(crate) Kind);

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Files(PathBuf, FilesOptions),
    Service(Arc<dyn Handler>),
    Dispatched(Arc<dyn Dispatch>, Vec<Site>),
}

/// The choice among several sites by what a request is for: first by its host, then by its path. It is asked on the
/// threads of connections, so it should not block. Where it panics the request is answered 500, and a CONNECT, which has no
/// path, is answered 501 unasked.
pub trait Dispatch: fmt::Debug + Send + Sync {
    /// Returns a number for the host that a request names, to be given to [`dispatch`](Self::dispatch); `None` if it is
    /// none of the sites': a listener of clear text redirects its clients nowhere
    /// ([`ListenerKind::Redirect`](crate::ListenerKind::Redirect)). Default: 0 for every host.
    ///
    /// `authority` is the host, perhaps with a port; empty where the request names none (HTTP/1.0). It is not asked
    /// again while the requests of a connection name the same, until the site is replaced.
    fn host(&self, authority: &[u8]) -> Option<usize> {
        let _ = authority;
        Some(0)
    }

    /// Returns the place, among the sites given to [`Site::dispatched`], of the one that answers; `None` where
    /// none does, for which the client gets a 404.
    ///
    /// `host` is the number of the request's host; `None` for a host that has none. `path` is decoded once, begins with a
    /// slash, and has no empty names, no `.` and no `..`: two spellings of one file are one path. An ambiguous path is
    /// refused before (400). With an escaped slash in a name (`%2F`) it is asked for twice, once with `%2F` in the name and once
    /// with a slash in its place, as servers differ in that: where the answers differ, the path is refused as well.
    fn dispatch(&self, host: Option<usize>, path: &[u8]) -> Option<usize>;

    /// Returns true if a site has a route for that path, so that [`dispatch`](Self::dispatch) leads to a site's
    /// route. Default: true if it leads to any site.
    fn has_route(&self, host: Option<usize>, path: &[u8]) -> bool {
        self.dispatch(host, path).is_some()
    }
}

impl Site {
    /// An empty site: every request is answered 404.
    #[must_use]
    pub fn nothing() -> Self {
        Self(Kind::Service(Arc::new(Nothing)))
    }

    /// The files of the directory `root`: nothing outside of it is ever read, and hidden files and folders (`.name`)
    /// in it are not served, except `/.well-known`. This is the fastest way to serve files: small ones are answered
    /// from memory, with their fields already encoded. For files beside other things see [`Files`](crate::Files).
    #[must_use]
    pub fn files(root: impl Into<PathBuf>) -> Self {
        Self::files_with(root, FilesOptions::default())
    }

    /// The files of the directory `root`, served as `options` say, as fast as by [`files`](Self::files).
    #[must_use]
    pub fn files_with(root: impl Into<PathBuf>, options: FilesOptions) -> Self {
        Self(Kind::Files(root.into(), options))
    }

    /// Serves the hidden files and folders of [`files`](Self::files) like others; no effect on a service. Default:
    /// they are treated as missing.
    #[must_use]
    pub fn with_hidden(mut self) -> Self {
        if let Kind::Files(_, options) = &mut self.0 {
            options.hidden = true;
        }
        self
    }

    /// Several sites, among which `dispatch` chooses for each request. Files among them are as fast as files alone.
    ///
    /// None of them may itself be such a site ([`Error::NestedDispatch`](crate::Error::NestedDispatch) when the
    /// server is bound).
    #[must_use]
    pub fn dispatched(dispatch: impl Dispatch + 'static, sites: Vec<Self>) -> Self {
        Self(Kind::Dispatched(Arc::new(dispatch), sites))
    }

    /// The answers of a [tower](https://docs.rs/tower-service) service, over all three protocols; an axum `Router` is
    /// one.
    ///
    /// A request brings its [`Peer`](crate::Peer) and [`EarlyHints`](crate::EarlyHints) in its extensions, and Host
    /// over every protocol. Its response gets Date, Server, Content-Length where the length is known, and Alt-Svc;
    /// content that it must not have (in a response to HEAD, 204 and 304) is left out. An error or a panic of the
    /// service becomes a 500, and so does a 101 (Switching Protocols) without an [`Upgrade`](crate::Upgrade).
    ///
    /// A service that makes another one for each client's address can be given as well ([`App`]): with
    /// `Router::into_make_service_with_connect_info::<SocketAddr>()` axum's `ConnectInfo` works.
    ///
    /// The service is cloned for each request and polled on the thread of the request's connection, together with all
    /// other connections of that worker: it should not block. Its futures need not be `Send`. To run them in the
    /// program's own runtime, see [`serve`](crate::serve).
    #[must_use]
    pub fn service<A, K>(app: A) -> Self
    where
        A: App<K>,
    {
        let service = PerThread::new(app.into_service());
        Self(Kind::Service(Arc::new(Tower(service))))
    }

    /// The answers of a [`Responder`], which costs less than a [`service`](Self::service) and does the same.
    #[must_use]
    pub fn responder(responder: impl Responder) -> Self {
        Self(Kind::Service(Arc::new(Responding(responder))))
    }
}

#[derive(Debug)]
struct Nothing;

impl Handler for Nothing {
    fn call(
        &self,
        _: Request<RequestBody>,
        _: RequestContext,
    ) -> Pending<Result<Response<Body>, BoxError>> {
        Box::pin(ready(Ok(files::page(StatusCode::NOT_FOUND))))
    }
}
