//! What a server serves: the files of a directory, or whatever a service of the embedder answers.

use crate::RequestBody;
use crate::request::handler::{BoxError, Handler, Tower};
use http::{Request, Response};
use std::path::PathBuf;
use std::sync::Arc;
use tower_service::Service;

/// What is served.
#[derive(Debug, Clone)]
pub struct Site(pub(crate) Kind);

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Files { root: PathBuf, hidden: bool },
    Service(Arc<dyn Handler>),
}

impl Site {
    /// The files of the directory `root`: nothing outside of it is ever read, and hidden files and
    /// folders (`.name`) in it are not served but for `/.well-known`. The fastest way to serve files: small ones are answered from
    /// memory with their fields already encoded. For files beside other things see
    /// [`Files`](crate::Files).
    #[must_use]
    pub fn files(root: impl Into<PathBuf>) -> Self {
        Self(Kind::Files {
            root: root.into(),
            hidden: false,
        })
    }

    /// Serves the hidden files and folders of [`files`](Self::files) like others; without effect on a
    /// service. Default: they are answered as if they were missing.
    #[must_use]
    pub fn with_hidden(mut self) -> Self {
        if let Kind::Files { hidden, .. } = &mut self.0 {
            *hidden = true;
        }
        self
    }

    /// Whatever a [tower](https://docs.rs/tower-service) service answers, over all three protocols;
    /// an axum `Router` is one.
    ///
    /// A request brings its [`Peer`](crate::Peer) in its extensions. Its response gets Date, Server,
    /// Content-Length where the length is known, and Alt-Svc; what it may not contain (content of a
    /// response to HEAD, of 204 and of 304) is left out. An error or a panic of the service becomes
    /// a 500; switching protocols (101) does too.
    ///
    /// The service is cloned for each request and polled on the thread of the request's connection,
    /// together with all other connections of that worker: it should not block. Its futures need
    /// not be `Send`.
    #[must_use]
    pub fn service<S, B>(service: S) -> Self
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: 'static,
        B: http_body::Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Kind::Service(Arc::new(Tower(service))))
    }
}
