//! The targets that answer requests, and their replacement while the server runs.

use crate::client_auth::AskedNames;
use crate::files::{BadPath, Files, TargetPath};
use crate::locks::lock;
use crate::request::handler::Handler;
use crate::request::panic_guard::catch_panic;
use crate::selection::HostNames;
use crate::site::{Dispatch, Kind, Site};
use crate::{Certificates, Error};
use http::StatusCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The targets that answer requests, and the choice among them.
#[derive(Debug)]
pub(crate) struct Content {
    /// `None`: the one target answers all.
    dispatch: Option<Arc<dyn Dispatch>>,
    /// Never empty.
    pub(super) targets: Vec<Target>,
}

/// The way of one request to what answers it.
#[derive(Debug)]
pub(crate) struct Route {
    pub(super) snapshot: Rc<Snapshot>,
    /// The index of the target, or the status that refuses the request.
    pub(super) target: Result<usize, StatusCode>,
}

/// Files or a handler that answer requests.
#[derive(Debug)]
pub(crate) enum Target {
    Files(Files),
    Handler(Arc<dyn Handler>),
}

impl Content {
    /// Opens what `site` names.
    ///
    /// # Errors
    /// A folder can't be served.
    pub(crate) fn open(site: &Site) -> Result<Self, Error> {
        let (dispatch, sites) = match &site.0 {
            Kind::Dispatched(dispatch, sites) => (Some(Arc::clone(dispatch)), &sites[..]),
            _ => (None, std::slice::from_ref(site)),
        };
        let mut targets = Vec::with_capacity(sites.len());
        for site in sites {
            targets.push(Target::open(site)?);
        }
        Ok(Self { dispatch, targets })
    }

    /// The one target for all requests.
    #[cfg(test)]
    pub(crate) fn of(target: Target) -> Self {
        Self {
            dispatch: None,
            targets: vec![target],
        }
    }

    /// The files among the targets.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Files> {
        self.targets.iter().filter_map(|target| match target {
            Target::Files(files) => Some(files),
            Target::Handler(_) => None,
        })
    }

    /// The number of an authority's host, by which a target is found; `None`: it is none of the server's.
    ///
    /// # Errors
    /// The status that refuses the request: the choice panics.
    pub(crate) fn host(&self, authority: &[u8]) -> Result<Option<usize>, StatusCode> {
        match &self.dispatch {
            Some(dispatch) => chosen(|| dispatch.host(authority)),
            None => Ok(Some(0)),
        }
    }

    /// The index of the target that answers a request for that host and path; `path`: `None` for CONNECT.
    ///
    /// # Errors
    /// The status that refuses it: the path could mean two things, nobody answers it, or the choice panics.
    pub(crate) fn target(
        &self,
        host: Option<usize>,
        path: Option<TargetPath<'_>>,
    ) -> Result<usize, StatusCode> {
        let Some(dispatch) = &self.dispatch else {
            return Ok(0);
        };
        // Sites are chosen by paths, and nothing else.
        let path = path.ok_or(StatusCode::NOT_IMPLEMENTED)?;
        let dispatched = |path: &[u8]| chosen(|| dispatch.dispatch(host, path));
        let index = match path.routing() {
            Ok(path) => dispatched(&path)?,
            Err(BadPath) => {
                let readings = path.slash_readings();
                let [in_name, delimiter] = readings.map_err(|BadPath| StatusCode::BAD_REQUEST)?;
                let index = dispatched(&in_name)?;
                if index != dispatched(&delimiter)? {
                    return Err(StatusCode::BAD_REQUEST);
                }
                index
            }
        };
        let index = index.filter(|index| *index < self.targets.len());
        index.ok_or(StatusCode::NOT_FOUND)
    }

    /// Returns true if a site has a route for that target (path and query).
    pub(crate) fn has_route(&self, host: Option<usize>, target: &[u8]) -> bool {
        let Some(dispatch) = &self.dispatch else {
            return true;
        };
        let path = TargetPath::of(target).routing();
        path.is_ok_and(|path| chosen(|| dispatch.has_route(host, &path)) == Ok(true))
    }
}

/// Asks the embedder's choice, in the midst of a connection, and over HTTP/3 of all of them.
///
/// # Errors
/// The choice panics: the status of its request.
fn chosen<T>(choose: impl FnOnce() -> T) -> Result<T, StatusCode> {
    catch_panic(choose).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

impl Target {
    fn open(site: &Site) -> Result<Self, Error> {
        match &site.0 {
            Kind::Files(root, options) => Ok(Self::Files(Files::open_with(root, options.clone())?)),
            Kind::Service(handler) => Ok(Self::Handler(Arc::clone(handler))),
            Kind::Dispatched(..) => Err(Error::NestedDispatch),
        }
    }
}

/// The part of a server that is replaced as a whole when the server is given another site or other certificates.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    /// Counted up with each replacement.
    pub(crate) number: u64,
    pub(crate) content: Arc<Content>,
    /// The names that decisions are made for.
    pub(crate) hosts: HostNames,
    /// The names of which clients are asked for certificates; `None`: nobody is.
    pub(crate) asked_names: Option<Arc<AskedNames>>,
}

/// The snapshot in use. Workers keep a reference of their own and look for a newer one at each request, which
/// costs them a read of a number that seldom changes.
#[derive(Debug)]
pub(crate) struct Current {
    number: AtomicU64,
    snapshot: Mutex<Arc<Snapshot>>,
}

impl Current {
    pub(crate) fn new(content: Content, hosts: HostNames) -> Self {
        let snapshot = Snapshot {
            number: 0,
            content: Arc::new(content),
            hosts,
            asked_names: None,
        };
        Self {
            number: AtomicU64::new(0),
            snapshot: Mutex::new(Arc::new(snapshot)),
        }
    }

    pub(crate) fn get(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.snapshot))
    }

    /// The snapshot in use where it is another than `former`.
    pub(crate) fn newer_than(&self, former: &Snapshot) -> Option<Arc<Snapshot>> {
        // Requests that see the former number are requests that came before the change.
        (self.number.load(Ordering::Relaxed) != former.number).then(|| self.get())
    }

    /// Replaces the content for requests that begin from now on.
    pub(crate) fn replace_content(&self, content: Content) {
        self.replace(|snapshot| snapshot.content = Arc::new(content));
    }

    /// Replaces the names that decisions are made for.
    pub(crate) fn replace_hosts(&self, hosts: HostNames) {
        self.replace(|snapshot| snapshot.hosts = hosts);
    }

    /// Replaces the names of which clients are asked for certificates.
    pub(crate) fn replace_asked_names(&self, names: Option<Arc<AskedNames>>) {
        if names.is_some() || lock(&self.snapshot).asked_names.is_some() {
            self.replace(|snapshot| snapshot.asked_names = names);
        }
    }

    /// Replaces the content, the names that decisions are made for, and the names of which clients are asked for
    /// certificates, the latter two where they are given, in one step: no request is answered by the new content under the
    /// former demand for certificates, or the other way round.
    pub(crate) fn replace_all(
        &self,
        content: Content,
        hosts: Option<HostNames>,
        certificates: Option<&Certificates>,
    ) {
        self.replace(|snapshot| {
            snapshot.content = Arc::new(content);
            if let Some(hosts) = hosts {
                snapshot.hosts = hosts;
            }
            if let Some(certificates) = certificates {
                snapshot.asked_names = certificates.demanded_names();
            }
        });
    }

    fn replace(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut snapshot = lock(&self.snapshot);
        let number = snapshot.number + 1;
        let mut new = Snapshot::clone(&snapshot);
        new.number = number;
        change(&mut new);
        *snapshot = Arc::new(new);
        self.number.store(number, Ordering::Relaxed);
    }
}
