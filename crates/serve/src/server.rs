//! Binds, runs a worker per thread, and stops them together.

mod supervise;

use crate::client_auth::AskedNames;
use crate::congestion::CongestionInUse;
use crate::incidents::Incidents;
use crate::limits::LONGEST;
use crate::listen::{self, Bound, Listeners, Sockets};
use crate::metrics::{Monitor, ServerCounters};
use crate::options::{Congestion, EarlyDataFor, Options, Security};
use crate::reload::InUse;
use crate::request::content::{Content, Current};
use crate::request::listener_policy::ListenerPolicy;
use crate::request::service::Service;
use crate::restarts::Restarts;
use crate::selection::state::SAVE_INTERVAL;
use crate::selection::{HostNames, Selection};
use crate::setup::{ListenerConfig, Setup};
use crate::stop::StopSignal;
use crate::takeover::{self, Handover, Start, StartRequest};
use crate::threads::{self, Thread, Threads};
use crate::tls::Tls;
use crate::{Error, Listener, ListenerKind, ReloadHandle, h3, random, sys, ticket_keys, tls};
use altway_http3::WorkerId;
use altway_message::Scheme;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Time that threads may take to end when the grace is over, before they count as stuck.
const MARGIN: Duration = Duration::from_secs(2);

/// Time that the access log has for waiting lines, when the grace is over or nearly so.
const LOG_MARGIN: Duration = Duration::from_millis(500);

/// A server whose sockets are bound. Clients that connect from now on wait until it runs.
#[derive(Debug)]
pub struct Server {
    /// The main address, then the further ones.
    addresses: Vec<SocketAddr>,
    congestion: CongestionInUse,
    listeners: Listeners,
    /// Places of HTTP/3: for each worker one at each address.
    worker_slots: Vec<Vec<h3::WorkerSlot>>,
    setup: Arc<Setup>,
    certificates: Option<InUse>,
    ticket_keys: Option<ticket_keys::InUse>,
    predecessor: Option<u32>,
    /// `None`: no other process can take over.
    handover: Option<Handover>,
}

impl Server {
    /// Opens the directory, prepares TLS, and binds the sockets or takes them over ([`Options::takeover`]). Raises
    /// this process's limit of open files as far as allowed.
    ///
    /// After a takeover the former server serves no new clients; if this one doesn't [run](Self::run) within two
    /// seconds, nobody does.
    ///
    /// # Errors
    /// Everything that can keep the server from running because of its options or the system, so that [`Server::run`]
    /// does not fail for such reasons. The server that was to be replaced then serves on.
    pub fn bind(options: &Options) -> Result<Self, Error> {
        options.limits.check()?;
        check_listeners(options)?;
        if let Err(error) = sys::raise_open_files() {
            tracing::debug!(%error, "cannot raise the limit of open files");
        }
        let content = Content::open(&options.site)?;
        let early_data = takes_early_data(options, &content);
        let tls = tls_configs(options, early_data)?;
        let request = request(options)?;
        let congestion = CongestionInUse::of(&request, options.quic_congestion)?;
        // Before anybody can connect.
        random::seed()?;
        let start = takeover::begin(&StartRequest {
            request: &request,
            server_id: options.server_id,
            path: options.takeover.as_deref(),
        })?;
        let addresses = start.bound.0.iter().map(|it| it.address).collect();
        let selection = selection(options, &congestion)?;
        let asked_names = asked_names(options);
        let service = Service {
            current: Current::new(content, host_names(options, selection.as_ref())?),
            has_hosts: options.hosts.is_some(),
            selection,
            early_services: options.early_data == EarlyDataFor::Everything,
            log: options.access_log.clone(),
            incidents: Incidents::new(options.limits.client_prefix, Instant::now()),
            counters: ServerCounters::default(),
            challenges: options.challenges.clone(),
        };
        service.current.replace_asked_names(asked_names);
        let setup = Arc::new(setup(options, &congestion, service, tls.as_ref(), &start));
        let routes = routes(options, &start);
        let (worker_slots, inboxes) = h3::worker_slots(&start.bound, &routes);
        let shared = Arc::clone(&setup);
        let copies = start.bound.try_clone().map_err(Error::Worker)?;
        start.confirm()?;
        // Not before: a process that is taken over from has it until then.
        setup.service.selection().inspect(|it| it.take_state());
        h3::steer(&start.bound, &routes);
        Ok(Self {
            addresses,
            congestion,
            worker_slots,
            setup,
            ticket_keys: tls.as_ref().and_then(|tls| tls.ticket_keys.clone()),
            certificates: tls.map(|tls| tls.certificates),
            predecessor: start.predecessor(),
            handover: start.socket.map(|socket| Handover {
                setup: Arc::clone(&shared),
                socket,
                bound: copies,
                ids: start.ids,
                predecessors: start.predecessors,
                secrets: start.secrets,
                inboxes,
            }),
            listeners: start.bound.share_out(&request).map_err(Error::Worker)?,
        })
    }

    /// The address that it listens on, TCP and UDP, with the port number that was picked for 0.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Returns the further addresses that it listens at, in the order of [`Options::listeners`].
    #[must_use]
    pub fn further_addrs(&self) -> &[SocketAddr] {
        &self.addresses[1..]
    }

    /// The congestion control of each transport.
    #[must_use]
    pub fn congestion(&self) -> &CongestionInUse {
        &self.congestion
    }

    /// The number of the process that it took the sockets over from, if there was one.
    #[must_use]
    pub fn predecessor(&self) -> Option<u32> {
        self.predecessor
    }

    /// A handle that replaces the certificates and the site while the server runs.
    #[must_use]
    pub fn reload_handle(&self) -> ReloadHandle {
        ReloadHandle {
            certificates: self.certificates.clone(),
            ticket_keys: self.ticket_keys.clone(),
            service: Arc::clone(&self.setup.service),
        }
    }

    /// A monitor of the server while it runs: figures, what is known of clients, certificates.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor {
            service: Arc::clone(&self.setup.service),
            certificates: self.certificates.clone(),
        }
    }

    /// Serves until `stop` is given or another process has taken over. Then running requests have the options' grace
    /// to end, and the access log writes what waits for it. Blocks the calling thread, until three seconds after the
    /// grace at most, whatever the server's threads do.
    ///
    /// A worker that panics is restarted on its sockets: its connections are lost, those of the other workers go on.
    /// After the sixth panic within 60 s the server stops.
    ///
    /// # Errors
    /// A thread can't be started or has failed, or workers panic too often
    /// ([`Error::WorkerPanicked`]); the others are stopped then. Or threads have not ended in time
    /// ([`Error::ThreadsStuck`]): they are left behind, and the process should end.
    pub fn run(self, stop: &StopSignal) -> Result<(), Error> {
        let Listeners {
            workers,
            dispatchers,
        } = self.listeners;
        // Kept until all workers have ended: a socket that leaves the group would change which
        // worker the kernel hands the datagrams of the others' connections to.
        let _group = udp_group(&workers)?;
        let (serving, served) = oneshot::channel();
        let handover = self.handover.map(|handover| {
            let give = |stop| handover.run(stop, served);
            Threads::one(Thread::spawn("takeover".into(), stop, give))
        });
        let workers = workers.into_iter().zip(self.worker_slots).enumerate();
        let mut threads: Vec<_> = workers
            .map(|(index, (sockets, worker_slots))| {
                worker(index, sockets, worker_slots, &self.setup, stop)
            })
            .collect();
        let acceptors = dispatchers.into_iter().map(|dispatcher| {
            let accept = |stop| dispatcher.run(stop);
            Thread::spawn("acceptor".into(), stop, accept)
        });
        threads.extend(acceptors);
        let saving = spawn_state_saver(&self.setup, stop);
        threads::wait_for(stop);
        let stopped = Instant::now();
        let grace = self.setup.grace;
        let ended = Threads::all(threads).join(stopped, grace + MARGIN);
        drop::<oneshot::Sender<()>>(serving);
        let handed_over = handover.map(|thread| thread.join(stopped, grace + MARGIN + LOG_MARGIN));
        let service = &self.setup.service;
        service.incidents.report();
        drop(saving);
        let saved = last_save(&self.setup, stop);
        if let Err(error) = saved.join(Instant::now(), LOG_MARGIN) {
            tracing::warn!(%error, "what was learnt last of clients is not kept");
        }
        if let Some(log) = &service.log {
            let left = grace.saturating_sub(stopped.elapsed()).max(LOG_MARGIN);
            if !log.drain(left) {
                tracing::warn!("the grace is over: the access log lacks its last lines");
            }
        }
        if let Some(log) = service.selection().and_then(Selection::log)
            && !log.drain(LOG_MARGIN)
        {
            tracing::warn!("the grace is over: the selection log lacks its last lines");
        }
        ended.and(handed_over.unwrap_or(Ok(())))
    }
}

/// The names of which clients are asked for certificates.
fn asked_names(options: &Options) -> Option<Arc<AskedNames>> {
    let Security::Tls(certificates) = &options.security else {
        return None;
    };
    certificates.demanded_names()
}

/// Returns true if the main address has HTTP/3.
fn has_http3(options: &Options) -> bool {
    options.protocols.http3 && matches!(options.security, Security::Tls(_))
}

/// The number of addresses with HTTP/3.
fn http3_addresses(options: &Options) -> usize {
    let further = options.listeners.iter().filter(|it| it.has_http3());
    usize::from(has_http3(options)) + further.count()
}

/// The names that decisions are made for at the start.
fn host_names(options: &Options, selection: Option<&Selection>) -> Result<HostNames, Error> {
    if let (Some(hosts), Some(selection)) = (&options.hosts, selection) {
        return selection.host_names(hosts);
    }
    match (&options.security, selection) {
        (Security::Tls(certificates), Some(selection)) => {
            Ok(selection.certificate_names(certificates))
        }
        _ => Ok(HostNames::default()),
    }
}

/// The knowledge of clients, where there is HTTP/3 to offer.
fn selection(options: &Options, congestion: &CongestionInUse) -> Result<Option<Selection>, Error> {
    let is_offered = http3_addresses(options) > 0;
    let selection = is_offered.then(|| Selection::new(options, congestion.of_selection()));
    selection.transpose()
}

/// Writes what is known of clients now and then, on a thread of its own: disks may be slow. Ends when what is
/// returned is dropped, or with the process.
fn spawn_state_saver(setup: &Arc<Setup>, stop: &StopSignal) -> Option<mpsc::Sender<()>> {
    setup.service.selection().filter(|it| it.is_kept())?;
    let (setup, (sender, ended)) = (Arc::clone(setup), mpsc::channel());
    let saving = move |_| {
        while ended.recv_timeout(SAVE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            setup.service.selection().inspect(|it| it.save());
        }
        Ok(())
    };
    Thread::spawn("state".into(), stop, saving).ok()?;
    Some(sender)
}

/// Writes what is known of clients at the end, and leaves the state folder to others.
fn last_save(setup: &Arc<Setup>, stop: &StopSignal) -> Threads {
    let Some(_) = setup.service.selection().filter(|it| it.is_kept()) else {
        return Threads::all(Vec::new());
    };
    let setup = Arc::clone(setup);
    Threads::one(Thread::spawn("state".into(), stop, move |_| {
        setup.service.selection().inspect(|it| {
            it.save();
            it.handed_over(true);
        });
        Ok(())
    }))
}

fn request(options: &Options) -> Result<listen::Request, Error> {
    let (threads, max) = (options.threads.get(), WorkerId::MAX_WORKERS);
    if threads > max {
        return Err(Error::TooManyThreads { threads, max });
    }
    Ok(listen::Request {
        bind: options.bind,
        port: options.port,
        workers: threads,
        spread: options.spread,
        with_udp: has_http3(options),
        congestion: options.congestion,
        passed: options.passed.clone(),
        further: options.listeners.iter().map(listener_request).collect(),
    })
}

fn listener_request(listener: &Listener) -> listen::ListenerRequest {
    listen::ListenerRequest {
        bind: listener.bind,
        port: listener.port,
        with_udp: listener.has_http3(),
    }
}

/// The settings of TLS; `None` in clear text.
fn tls_configs(options: &Options, early_data: bool) -> Result<Option<Tls>, Error> {
    match &options.security {
        Security::ClearText | Security::BehindTlsProxy => Ok(None),
        Security::Tls(certificates) => {
            tls::configs(certificates.clone(), options, early_data).map(Some)
        }
    }
}

/// Returns true if clients may send early data. Sites that come with a reload are not waited for.
fn takes_early_data(options: &Options, content: &Content) -> bool {
    match options.early_data {
        EarlyDataFor::Nobody => false,
        EarlyDataFor::Files => {
            let is_for_anybody = options.ticket_keys.is_none() && asked_names(options).is_none();
            is_for_anybody && content.files().next().is_some()
        }
        EarlyDataFor::Everything => true,
    }
}

/// # Errors
/// There are too many, or one has TLS where the options have none.
fn check_listeners(options: &Options) -> Result<(), Error> {
    let (listeners, max) = (&options.listeners, Options::MAX_LISTENERS);
    if listeners.len() > max {
        let found = listeners.len();
        return Err(Error::TooManyListeners { found, max });
    }
    let is_tls = |listener: &Listener| listener.kind == ListenerKind::Tls;
    if !matches!(options.security, Security::Tls(_)) && listeners.iter().any(is_tls) {
        return Err(Error::ListenerWithoutCertificate);
    }
    Ok(())
}

/// The policy at each address, the main one first.
fn listeners(options: &Options, tls: Option<&Tls>, bound: &Bound) -> Vec<ListenerConfig> {
    let redirect = options.alt_svc_port.unwrap_or(bound.main().address.port());
    let main = ListenerConfig {
        tls: tls.map(|tls| Arc::clone(&tls.tcp)),
        scheme: options.security.scheme(),
        protocols: options.protocols,
        listener_policy: ListenerPolicy {
            is_secure: options.security.scheme() == Scheme::Https,
            port: bound.main().address.port(),
            http3: has_http3(options).then_some(redirect),
            redirect: None,
        },
    };
    let further = options.listeners.iter().zip(&bound.0[1..]);
    let further = further.map(|(listener, bound_further)| {
        let kind = listener.kind;
        let is_tls = kind == ListenerKind::Tls;
        let seen = listener.alt_svc_port.or(options.alt_svc_port);
        let port = seen.unwrap_or(bound_further.address.port());
        ListenerConfig {
            tls: tls
                .filter(|_| is_tls)
                .map(|tls| tls.over_tcp(listener.protocols)),
            scheme: kind.scheme(),
            protocols: listener.protocols,
            listener_policy: ListenerPolicy {
                is_secure: kind.scheme() == Scheme::Https,
                port: bound_further.address.port(),
                http3: listener.has_http3().then_some(port),
                redirect: (kind == ListenerKind::Redirect).then_some(redirect),
            },
        }
    });
    [main].into_iter().chain(further).collect()
}

fn routes(options: &Options, start: &Start) -> h3::Routes {
    h3::Routes {
        steering: options.steering,
        ids: start.ids,
        predecessors: start.predecessors.clone(),
        can_be_taken_over: start.socket.is_some(),
    }
}

fn setup(
    options: &Options,
    congestion: &CongestionInUse,
    service: Service,
    tls: Option<&Tls>,
    start: &Start,
) -> Setup {
    let congestion = congestion.quic.unwrap_or(Congestion::Cubic);
    let quic = |tls: &Tls| {
        let quic = Arc::clone(&tls.quic);
        let mut config = h3::config(quic, options, congestion, &start.secrets);
        // For WebSockets (RFC 9220): always, for what is said at a connection's beginning, and remembered for early data,
        // has to hold for services that a reload adds.
        config.extended_connect = true;
        config.quic.early_data = tls.early_data;
        // A worker has an endpoint for each address, and they share what it may hold.
        config.quic.limits.max_held_bytes /= http3_addresses(options).max(1) as u64;
        config
    };
    Setup {
        listeners: listeners(options, tls, &start.bound),
        proxies: options.proxy_protocol_from.clone(),
        quic: tls.map(quic),
        service: Arc::new(service),
        limits: options.limits.with_finite_times(),
        grace: options.shutdown_grace.min(LONGEST),
        heartbeat: options.heartbeat,
        collect_heap: options.collect_heap,
        restarts: Restarts::default(),
    }
}

fn udp_group(sockets: &[Sockets]) -> Result<Vec<UdpSocket>, Error> {
    let sockets = sockets.iter().flat_map(|it| &it.udp);
    let sockets = sockets.flat_map(listen::WorkerUdp::all);
    let clones: Result<_, _> = sockets.map(UdpSocket::try_clone).collect();
    clones.map_err(Error::Worker)
}

fn worker(
    index: usize,
    sockets: Sockets,
    worker_slots: Vec<h3::WorkerSlot>,
    setup: &Arc<Setup>,
    stop: &StopSignal,
) -> Result<Thread, Error> {
    let setup = Arc::clone(setup);
    let serve = move |stop| supervise::serve(&setup, sockets, worker_slots, &stop);
    Thread::spawn(format!("worker-{index}"), stop, serve)
}
