//! Servers that answer the same requests, with what all workers know of them.

use crate::background;
use crate::balance::{self, Balance, Candidate, Draw};
use crate::connect::Connector;
use crate::counters::{Counters, ServerStatistics};
use crate::health::Health;
use crate::pool::{self, Pool};
use crate::resolve::Names;
use crate::rewrite::FieldChanges;
use crate::tls::Tls;
use crate::{ClientCertificate, Error, Protocol, Roots, Server, retry};
use http::{HeaderValue, Method};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use thread_local::ThreadLocal;

/// A group of servers, and how they are treated.
#[derive(Debug, Clone)]
pub struct Options {
    /// The servers.
    pub servers: Vec<Server>,
    /// The choice of the server that has a request.
    pub balance: Balance,
    /// Requests that tell whether a server is there; `None`: only what clients' requests show.
    pub check: Option<Check>,
    /// Servers that a request is sent to at most, one after the other. Default: 2.
    pub attempts: u32,
    /// Bytes of a request's content that are kept for another attempt, where there may be one once some of it was sent: of an
    /// idempotent method, or of any with a server of HTTP/2 or HTTP/3 among them. Default: 64 KiB.
    pub keep_body: usize,
    /// Bytes of a request's content at most; longer ones are answered 413. Default `None`: no limit.
    pub max_body: Option<u64>,
    /// Time for a connection, with resolving and TLS, and for a request's turn. Default: 5 s.
    pub connect_timeout: Duration,
    /// Time from a request's last byte to the head of its response; a client that sends nothing for so long is
    /// answered 408. Default: 60 s.
    pub head_timeout: Duration,
    /// Time for which a response may pause. Default: 5 min.
    pub idle_timeout: Duration,
    /// The slowest response that is waited for; one that is slower is cut off. Default `None`: 1 KiB in
    /// [`idle_timeout`](Self::idle_timeout), where the length of the content is known; one without a length, such as a
    /// stream of events, may pause for so long again and again.
    pub min_rate: Option<MinRate>,
    /// Requests at a time that a worker has at one server, and so its connections; as many more wait, and those
    /// beyond are answered 503. Of four or more a ninth part, two at least, is for clients
    /// ([`Received::client`](crate::heads::Received::client)) that have few of it, so that none takes all. Default: 1,000.
    pub max_requests: usize,
    /// Host of the requests; `None`: what the client has asked for.
    pub host: Option<HeaderValue>,
    /// Changes of the fields of requests, made after those of [`heads`](crate::heads).
    pub request_fields: FieldChanges,
    /// The authorities of the servers' certificates.
    pub roots: Roots,
    /// The certificate that servers are shown which ask for one.
    pub client_certificate: Option<ClientCertificate>,
    /// True if each connection begins with a header of the PROXY protocol, version 2, that names the client. No
    /// connection has a second request then.
    pub send_proxy_protocol: bool,
}

impl Options {
    /// The servers, treated as by default.
    #[must_use]
    pub fn new(servers: Vec<Server>) -> Self {
        Self {
            servers,
            balance: Balance::default(),
            check: None,
            attempts: 2,
            keep_body: 64 << 10,
            max_body: None,
            connect_timeout: Duration::from_secs(5),
            head_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(300),
            min_rate: None,
            max_requests: 1_000,
            host: None,
            request_fields: FieldChanges::default(),
            roots: Roots::default(),
            client_certificate: None,
            send_proxy_protocol: false,
        }
    }

    /// Bytes of a request's content that are kept. A server of HTTP/1.1 never says that it has not begun a request, so that one
    /// whose method is not idempotent is not sent to it again.
    pub(crate) fn kept_of(&self, method: &Method) -> usize {
        let says_so = |server: &Server| server.protocol != Protocol::Http1;
        match retry::is_idempotent(method) || self.servers.iter().any(says_so) {
            true => self.keep_body,
            false => 0,
        }
    }
}

/// Bytes that must come in a time in which a server is waited for, and not its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinRate {
    /// The bytes.
    pub bytes: u64,
    /// The time.
    pub time: Duration,
}

/// A request that is sent to each server regularly: it passes with a status from 200 to 399.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Path and query.
    pub path: String,
    /// Time between two of them, and for each.
    pub every: Duration,
}

/// Servers that answer the same requests. Clones are the same group; connections end with the last of them, and with
/// the requests that run.
#[derive(Debug, Clone)]
pub struct Group(pub(crate) Arc<Shared>);

/// A group as somebody sees it who does not keep it: it ends with the last [`Group`].
#[derive(Debug, Clone)]
pub struct WeakGroup(Weak<Shared>);

impl WeakGroup {
    /// The group, if it is still there.
    #[must_use]
    pub fn upgrade(&self) -> Option<Group> {
        self.0.upgrade().map(Group)
    }
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) members: Vec<Member>,
    turn: AtomicU64,
    /// The pools of each worker, one a server.
    pools: ThreadLocal<Vec<Arc<Pool>>>,
}

/// A server of a group.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) connector: Connector,
    id: u64,
    health: Arc<SharedHealth>,
    known: Arc<MemberCounters>,
}

/// The health of a server, which all workers and the groups that make the same checks of it share.
#[derive(Debug, Default)]
struct SharedHealth {
    health: Mutex<Health>,
    /// The server has failed of late, or is down. Known without the lock, by which the workers would wait for one another with
    /// each request.
    is_troubled: AtomicBool,
}

/// Counters of a server, over all groups that take each other's place.
#[derive(Debug, Default)]
struct MemberCounters {
    ejections: AtomicU64,
    /// Requests in progress.
    requests: Arc<AtomicUsize>,
    /// The latest failure in words; cleared when it is told.
    failure: Mutex<Option<String>>,
    /// The counters of each worker.
    counters: ThreadLocal<Arc<Counters>>,
}

/// Bytes of a connection over HTTP/1.1 in clear text, with its place in the event loop.
const CONNECTION_BYTES: u64 = 1 << 10;

/// Bytes of a connection over HTTP/1.1 with TLS.
const TLS_BYTES: u64 = 32 << 10;

/// Bytes of a connection over HTTP/2 or HTTP/3 that requests share: its window and its tables.
const MULTIPLEXED_BYTES: u64 = 5 << 20;

/// Bytes of a connection over HTTP/2 that carries one request: the stream's window, and TLS.
const HTTP2_BYTES: u64 = 288 << 10;

/// Bytes of an exchange over HTTP/3: its place at the connection, and a datagram's piece of content in each direction.
const EXCHANGE_BYTES: u64 = 4 << 10;

/// The choice that a request is given: there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoServer {
    pub(crate) retry_after: Duration,
}

/// The time after which a group without healthy servers is to be asked again, where nothing tells it better.
const UNKNOWN_RETRY_AFTER: Duration = Duration::from_secs(5);

impl Group {
    /// A group of servers. Reads what is believed of certificates, and starts a thread where there is something to
    /// look after: names that are resolved again, and checks. Connects to nobody.
    ///
    /// # Errors
    /// [`Error`].
    pub fn new(options: Options) -> Result<Self, Error> {
        Self::after(options, None)
    }

    /// A group in the place of a `former` one, whose requests go on there. Of servers that both have it goes by what is
    /// known of them: their figures go on, and so do ejections and slow starts. What checks have found counts where both
    /// make the same ones.
    ///
    /// # Errors
    /// As those of [`new`](Self::new).
    pub fn after(options: Options, former: Option<&Self>) -> Result<Self, Error> {
        if options.servers.is_empty() {
            return Err(Error::NoServers);
        }
        let has_tls = options.servers.iter().any(|server| server.tls.is_some());
        let shown = options.client_certificate.as_ref();
        let tls = has_tls.then(|| Tls::new(&options.roots, shown));
        let tls = tls.transpose()?;
        let is_checked_alike = former.is_some_and(|it| it.0.options.check == options.check);
        let mut former: Vec<_> = former.iter().flat_map(|it| &it.0.members).collect();
        let members = options.servers.iter().map(|server| {
            // A server may be there more than once.
            let same = former.iter().position(|it| it.connector.server == *server);
            let same = same.map(|place| former.swap_remove(place));
            let connector = Connector {
                server: server.clone(),
                names: Names::default(),
                tls: tls.clone(),
                timeout: options.connect_timeout,
            };
            Member::new(connector, same, is_checked_alike)
        });
        let shared = Arc::new(Shared {
            members: members.collect(),
            turn: AtomicU64::new(0),
            pools: ThreadLocal::new(),
            options,
        });
        background::start(&shared).map_err(Error::Thread)?;
        Ok(Self(shared))
    }

    /// The most bytes that a worker holds for the group: connections, those that wait for a request among them, and what
    /// HTTP/2 and HTTP/3 have received ahead of their readers. Of responses over HTTP/1.1 no more is read than is given
    /// on. Not in it are WebSockets to servers of HTTP/2: what each may hold is for its client to account for
    /// ([`Tunnel::held`](crate::Tunnel::held)); nor the further connections to servers that take fewer than 100 requests at a
    /// time over one, which RFC 9113 section 6.5.2 recommends to none.
    #[must_use]
    pub fn memory(options: &Options) -> u64 {
        let most = options.max_requests as u64;
        let shared = pool::most_connections(options.max_requests) as u64;
        let shared = shared.saturating_mul(MULTIPLEXED_BYTES);
        let of = |server: &Server| match (server.protocol, &server.tls) {
            (Protocol::Http2, _) if options.send_proxy_protocol => most.saturating_mul(HTTP2_BYTES),
            (Protocol::Http2, _) => shared,
            (Protocol::Http3, _) => shared.saturating_add(most.saturating_mul(EXCHANGE_BYTES)),
            (Protocol::Http1, None) => most.saturating_mul(CONNECTION_BYTES),
            (Protocol::Http1, Some(_)) => most.saturating_mul(TLS_BYTES),
        };
        options.servers.iter().map(of).fold(0, u64::saturating_add)
    }

    /// The servers with whether each may be given requests now.
    pub fn servers(&self) -> impl Iterator<Item = (&Server, bool)> {
        let now = Instant::now();
        let members = self.0.members.iter();
        members.map(move |it| (&it.connector.server, it.health().is_available(now)))
    }

    /// A handle that does not keep it.
    #[must_use]
    pub fn downgrade(&self) -> WeakGroup {
        WeakGroup(Arc::downgrade(&self.0))
    }

    /// The figures of each server, over all workers.
    #[must_use]
    pub fn statistics(&self) -> Vec<ServerStatistics> {
        let now = Instant::now();
        let members = self.0.members.iter().enumerate();
        let sums = members.map(|(place, member)| {
            let name = member.connector.server.to_string();
            let is_available = member.health().is_available(now);
            let mut sum = ServerStatistics::of_nothing(name, is_available);
            sum.ejections = member.known.ejections.load(Ordering::Relaxed);
            sum.in_progress = member.known.requests.load(Ordering::Relaxed);
            let counters = member.known.counters.iter();
            counters.for_each(|it| it.add_to(&mut sum));
            for pools in &self.0.pools {
                sum.idle_connections += pools[place].idle_connections() as u64;
            }
            sum
        });
        sums.collect()
    }
}

impl Shared {
    /// The pool of a server on this worker.
    pub(crate) fn pool(&self, member: usize) -> &Arc<Pool> {
        let most = self.options.max_requests;
        let is_of_one_client = self.options.send_proxy_protocol;
        let new = |member: &Member| {
            let counters = Arc::clone(member.known.counters.get_or_default());
            let in_progress = Arc::clone(&member.known.requests);
            Arc::new(Pool::new(most, is_of_one_client, in_progress, counters))
        };
        &self.pools.get_or(|| self.members.iter().map(new).collect())[member]
    }

    /// The server for a request that has failed at those in `tried`: a healthy one; for one that has failed, rather one
    /// that is left alone for its failures than the same again; that where there is no other.
    pub(crate) fn choose(&self, key: Option<&[u8]>, tried: &[usize]) -> Result<usize, NoServer> {
        if let [only] = &self.members[..]
            && !only.is_troubled()
        {
            return Ok(0);
        }
        let now = Instant::now();
        if let [only] = &self.members[..] {
            let is_available = only.health().is_available(now);
            return match is_available {
                true => Ok(0),
                false => self.on_trial(tried, now),
            };
        }
        let healthy: Vec<_> = self.members.iter().map(|it| it.candidate(now)).collect();
        let draw = Draw {
            turn: self.turn.fetch_add(1, Ordering::Relaxed),
            random: fastrand::u64(..),
            key,
        };
        let chosen =
            |candidates: &[Candidate]| balance::choose(&self.options.balance, candidates, draw);
        if tried.is_empty() {
            return chosen(&healthy).map_or_else(|| self.on_trial(tried, now), Ok);
        }
        let mut untried = healthy.clone();
        tried
            .iter()
            .for_each(|place| untried[*place].is_usable = false);
        let left_alone = || {
            let mut candidates = healthy.clone();
            for (place, member) in self.members.iter().enumerate() {
                candidates[place].is_usable = !tried.contains(&place) && !member.health().is_down();
            }
            chosen(&candidates)
        };
        let chosen = chosen(&untried)
            .or_else(left_alone)
            .or_else(|| chosen(&healthy));
        chosen.map_or_else(|| self.on_trial(tried, now), Ok)
    }

    /// Returns whether another server may be given requests.
    pub(crate) fn has_another(&self, member: usize) -> bool {
        let now = Instant::now();
        let mut others = self.members.iter().enumerate();
        others.any(|(place, it)| place != member && it.health().is_available(now))
    }

    /// Lets go of connections to addresses that the name of a server has left. Waits for connections that are being opened.
    pub(crate) async fn leave_former_addresses(&self, member: usize) {
        let names = &self.members[member].connector.names;
        if !names.have_changed() {
            return;
        }
        // Cloned: pools of other workers may come while it waits.
        let pools: Vec<_> = self
            .pools
            .iter()
            .map(|it| Arc::clone(&it[member]))
            .collect();
        for pool in pools {
            pool.leave(names).await;
        }
    }

    /// A server that may be back, where none is available.
    fn on_trial(&self, tried: &[usize], now: Instant) -> Result<usize, NoServer> {
        let mut untried = (0..self.members.len()).filter(|place| !tried.contains(place));
        let on_trial = untried.find(|place| self.members[*place].health().begin_trial(now));
        on_trial.ok_or_else(|| self.none(now))
    }

    fn none(&self, now: Instant) -> NoServer {
        let times = self
            .members
            .iter()
            .filter_map(|it| it.health().trial_in(now));
        let checks = || self.options.check.as_ref().map(|check| check.every);
        let soonest = times.min().or_else(checks).unwrap_or(UNKNOWN_RETRY_AFTER);
        NoServer {
            retry_after: soonest,
        }
    }
}

impl Member {
    /// `former`: the same server in the group before; `is_checked_alike`: by the same checks.
    fn new(connector: Connector, former: Option<&Self>, is_checked_alike: bool) -> Self {
        let health = former.map(|former| match is_checked_alike {
            true => Arc::clone(&former.health),
            false => {
                let health = former.health().unchecked();
                Arc::new(SharedHealth {
                    is_troubled: (!health.is_well()).into(),
                    health: health.into(),
                })
            }
        });
        Self {
            id: connector.server.id(),
            connector,
            health: health.unwrap_or_default(),
            known: former.map(|it| Arc::clone(&it.known)).unwrap_or_default(),
        }
    }

    fn candidate(&self, now: Instant) -> Candidate {
        let health = self.health();
        Candidate {
            id: self.id,
            is_usable: health.is_available(now),
            weight: health.weight(now),
            requests: self.known.requests.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn health(&self) -> MutexGuard<'_, Health> {
        let health = self.health.health.lock();
        health.unwrap_or_else(PoisonError::into_inner)
    }

    fn is_troubled(&self) -> bool {
        self.health.is_troubled.load(Ordering::Relaxed)
    }

    fn latest_failure(&self) -> MutexGuard<'_, Option<String>> {
        let failure = self.known.failure.lock();
        failure.unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a failure in words, for when the server is down for it.
    pub(crate) fn note_failure(&self, failure: String) {
        *self.latest_failure() = Some(failure);
    }

    /// Notes that it has given a response.
    pub(crate) fn succeeded(&self) {
        if self.is_troubled() {
            self.note(Health::succeeded);
        }
    }

    /// Notes a change of its health, and tells of it.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Health, Instant)) {
        let now = Instant::now();
        let mut health = self.health();
        let before = health.is_available(now);
        change(&mut health, now);
        let after = health.is_available(now);
        let is_troubled = !health.is_well();
        self.health
            .is_troubled
            .store(is_troubled, Ordering::Relaxed);
        drop(health);
        let server = &self.connector.server;
        match (before, after) {
            (true, false) => {
                self.known.ejections.fetch_add(1, Ordering::Relaxed);
                let why = self.latest_failure().take();
                let why = why.map_or_else(String::new, |why| format!(", for {why}"));
                tracing::warn!("upstream {server} is down: it is given no requests{why}");
            }
            (false, true) => tracing::warn!("upstream {server} is up again"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;
    use crate::health::FAILURES;

    fn server(port: u16) -> Server {
        Server {
            address: Address::Tcp("127.0.0.1".into(), port),
            protocol: Protocol::Http1,
            tls: None,
        }
    }

    fn options(ports: &[u16]) -> Options {
        Options::new(ports.iter().map(|port| server(*port)).collect())
    }

    fn available(group: &Group) -> Vec<bool> {
        group
            .servers()
            .map(|(_, is_available)| is_available)
            .collect()
    }

    #[test]
    fn what_is_known_of_a_server_goes_on_in_the_group_after() {
        let former = Group::new(options(&[1, 2])).unwrap();
        for _ in 0..FAILURES {
            former.0.members[1].note(Health::failed);
        }
        former.0.pool(1).counters.request();
        let running = former.0.pool(1).turn_now(None);
        let new = Group::after(options(&[2, 3, 2]), Some(&former)).unwrap();
        assert_eq!(
            available(&new),
            [false, true, true],
            "the second is another one"
        );
        new.0.pool(0).counters.request();
        let figures = new.statistics();
        let of = |it: &ServerStatistics| (it.requests, it.in_progress, it.ejections);
        let of: Vec<_> = figures.iter().map(of).collect();
        assert_eq!(of, [(2, 1, 1), (0, 0, 0), (0, 0, 0)]);
        // What runs at the former one counts until its end.
        drop(running);
        drop(former);
        assert_eq!(new.statistics()[0].in_progress, 0);
        assert_eq!(new.statistics()[0].requests, 2);
    }

    #[test]
    fn where_no_server_is_there_one_request_a_second_finds_out_whether_one_is_back() {
        let group = Group::new(options(&[1])).unwrap();
        let now = Instant::now();
        let mut began = now - Duration::from_secs(9);
        for seconds in [1, 2, 4, 8] {
            let fail = |health: &mut Health, _| (0..FAILURES).for_each(|_| health.failed(began));
            group.0.members[0].note(fail);
            began += Duration::from_secs(seconds);
        }
        assert_eq!(available(&group), [false]);
        assert_eq!(
            group.0.choose(None, &[0]).unwrap_err().retry_after,
            Duration::ZERO
        );
        assert_eq!(group.0.choose(None, &[]), Ok(0));
        assert!(group.0.choose(None, &[]).is_err());
        group.0.members[0].succeeded();
        assert_eq!(available(&group), [true]);
        assert_eq!(group.0.choose(None, &[]), Ok(0));
    }

    #[test]
    fn memory_is_that_of_all_connections_that_requests_may_share() {
        let memory = |requests, protocol| {
            let mut options = options(&[1]);
            options.servers[0].protocol = protocol;
            options.max_requests = requests;
            Group::memory(&options)
        };
        for (requests, connections) in [(1, 1), (100, 8), (1_000, 10)] {
            let shared = connections * MULTIPLEXED_BYTES;
            assert_eq!(memory(requests, Protocol::Http2), shared);
            let exchanges = requests as u64 * EXCHANGE_BYTES;
            assert_eq!(memory(requests, Protocol::Http3), shared + exchanges);
        }
    }

    #[test]
    fn what_a_check_has_found_holds_for_the_same_checks_alone() {
        let former = Group::new(options(&[1])).unwrap();
        let checked = |passed| {
            former.0.members[0].note(|health, now| health.checked(passed, now));
        };
        checked(false);
        let same = Group::after(options(&[1]), Some(&former)).unwrap();
        assert_eq!(available(&same), [false]);
        checked(true);
        checked(true);
        assert_eq!(available(&same), [true], "it is found out for both");
        checked(false);
        checked(false);
        let connector = Connector {
            server: server(1),
            names: Names::default(),
            tls: None,
            timeout: Duration::from_secs(1),
        };
        let apart = Member::new(connector, Some(&former.0.members[0]), false);
        assert!(!apart.health().is_down());
    }
}
