//! State that all workers share, and state that the connections of one worker share.

use crate::Protocols;
use crate::clients::Clients;
use crate::files::FileCache;
use crate::held::HeldBytes;
use crate::limits::Limits;
use crate::request::listener_policy::ListenerPolicy;
use crate::request::requests::Responder;
use crate::request::service::Service;
use crate::restarts::Restarts;
use crate::sys;
use altway_message::Scheme;
use altway_units::Network;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// State that all workers share.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) service: Arc<Service>,
    /// The policy of the server's addresses, the main one first.
    pub(crate) listeners: Vec<ListenerConfig>,
    /// The networks whose connections begin with a header of the PROXY protocol.
    pub(crate) proxies: Vec<Network>,
    /// The settings of each endpoint of QUIC; `None`: no HTTP/3.
    pub(crate) quic: Option<altway_http3::ServerConfig>,
    pub(crate) limits: Limits,
    pub(crate) grace: Duration,
    /// Interval at which a worker shows that its event loop turns; `None`: never.
    pub(crate) heartbeat: Option<Duration>,
    /// Collects the heap of the calling thread.
    pub(crate) collect_heap: Option<fn()>,
    pub(crate) restarts: Restarts,
}

/// The settings of the TCP connections of one address.
#[derive(Debug, Clone)]
pub(crate) struct ListenerConfig {
    /// `None`: clear text.
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    /// The scheme of what its connections carry; those of QUIC carry `https`.
    pub(crate) scheme: Scheme,
    pub(crate) protocols: Protocols,
    pub(crate) listener_policy: ListenerPolicy,
}

/// The memory that all connections of a worker share.
#[derive(Clone)]
pub(crate) struct WorkerMemory {
    pub(crate) files: Rc<RefCell<FileCache>>,
    pub(crate) responder: Rc<Responder>,
    /// Everybody's share of what connections hold, and of everything else.
    pub(crate) clients: Clients,
}

impl WorkerMemory {
    pub(crate) fn new(setup: &Arc<Setup>) -> Self {
        let limits = &setup.limits;
        let cached = usize::try_from(limits.max_cached_bytes).unwrap_or(usize::MAX);
        let files = FileCache::new(cached, sys::open_files_of_a_cache());
        let held = HeldBytes::new(limits.max_held_bytes);
        let service = Arc::clone(&setup.service);
        let record = move |client, incident| service.incidents.record(client, incident);
        let files = Rc::new(RefCell::new(files));
        let responder = Rc::new(Responder::new(
            Arc::clone(&setup.service),
            Rc::clone(&files),
            limits,
        ));
        let requests = responder.counters.requests();
        Self {
            responder,
            files,
            clients: Clients::counted(limits, held, record, requests),
        }
    }
}
