//! The connections of one worker to one server, and the bound on its requests there.

mod reserve;
mod shared;

pub use reserve::ClientNumber;
pub(crate) use shared::SharedConnection;

use crate::connect::{Connector, in_time};
use crate::counters::Counters;
use crate::http1::Http1;
use crate::http2::{self, Http2};
use crate::http3::Http3;
use crate::resolve::Names;
use reserve::Reserve;
use shared::SharedConnections;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Time after which a connection that nobody uses is closed: sooner than most servers close it, which wait 60 s, so
/// that it is seldom closed in the moment in which it is used.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(55);

/// Time for which a connection that has carried a response is taken for open if the event loop knows nothing else: servers
/// do not close it so soon, and what arrives on it is known once the loop has turned. A look at the socket would be a
/// system call for most requests of a busy worker, whose connections wait for some ten milliseconds each.
const LIVENESS_INTERVAL: Duration = Duration::from_secs(1);

/// The time between two looks at idle connections.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The most connections over HTTP/2 or HTTP/3 that `requests` at a time share, where each has as many as a server should take.
pub(crate) fn most_connections(requests: usize) -> usize {
    let needed = requests.div_ceil(http2::FIRST_STREAMS);
    needed.max(shared::MAX_SPREAD).min(requests)
}

/// The pool of a worker for a server. Locks are never contended but by the background.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The latest last. At most as many as requests at a time.
    idle: Mutex<Vec<Idle>>,
    http2: SharedConnections<Http2>,
    /// Requests at a time that a connection over HTTP/2 has before the server's settings are there.
    first_streams: AtomicUsize,
    http3: SharedConnections<Http3>,
    is_swept: AtomicBool,
    /// Each connection carries one request, as its header of the PROXY protocol speaks for one client.
    is_of_one_client: bool,
    permits: Semaphore,
    /// Places beside these.
    reserve: Reserve,
    /// Requests in progress at the server, of all workers and groups.
    in_progress: Arc<AtomicUsize>,
    waiting: AtomicUsize,
    most: usize,
    pub(crate) counters: Arc<Counters>,
}

#[derive(Debug)]
struct Idle {
    connection: Http1,
    since: Instant,
}

impl Pool {
    /// `most`: requests at a time; as many more may wait. `is_of_one_client`: no connection is kept for another request.
    /// `in_progress`: counts those that have their turn.
    pub(crate) fn new(
        most: usize,
        is_of_one_client: bool,
        in_progress: Arc<AtomicUsize>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            idle: Mutex::default(),
            http2: SharedConnections::default(),
            first_streams: AtomicUsize::new(http2::FIRST_STREAMS),
            http3: SharedConnections::default(),
            is_swept: AtomicBool::new(false),
            is_of_one_client,
            permits: Semaphore::new(most - Reserve::size(most)),
            reserve: Reserve::of(most),
            in_progress,
            waiting: AtomicUsize::new(0),
            most,
            counters,
        }
    }

    /// Waits for the turn of a client's request, for `wait` at most; `None`: too many wait already, or it took too long.
    pub(crate) async fn turn(
        self: &Arc<Self>,
        client: Option<ClientNumber>,
        wait: Duration,
    ) -> Option<Lease> {
        if let Some(lease) = self.turn_now(client) {
            return Some(lease);
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let counted = ActiveRequest(&self.waiting);
        let claim = self.claim(client);
        let turn = async {
            tokio::select! {
                permit = self.permits.acquire() => Some(Lease::new(self, permit.ok()?, None)),
                permit = self.reserve.places.acquire(), if claim.is_some() => {
                    Some(Lease::new(self, permit.ok()?, claim))
                }
            }
        };
        let lease = tokio::time::timeout(wait, turn).await;
        drop(counted);
        lease.ok()?
    }

    /// The turn of a client's request; `None`: it has to wait for it.
    pub(crate) fn turn_now(self: &Arc<Self>, client: Option<ClientNumber>) -> Option<Lease> {
        if let Ok(permit) = self.permits.try_acquire() {
            return Some(Lease::new(self, permit, None));
        }
        let claim = self.claim(client)?;
        let permit = self.reserve.places.try_acquire().ok()?;
        Some(Lease::new(self, permit, Some(claim)))
    }

    /// The right to a place in reserve; `None` for a client that has its share of them. One without a number may have all.
    fn claim(self: &Arc<Self>, client: Option<ClientNumber>) -> Option<Claim> {
        let may = client.is_none_or(|client| self.reserve.claim(client));
        may.then(|| Claim {
            pool: Arc::clone(self),
            client,
        })
    }

    /// An idle connection that can be used, to an address that `names` still have. `can_repeat`: the request may be sent again where it finds the connection
    /// closed; then one that was in use a moment ago is taken for open if the event loop knows nothing else.
    pub(crate) fn idle(&self, names: &Names, can_repeat: bool, now: Instant) -> Option<Http1> {
        let mut idle = self.lock();
        while let Some(Idle { connection, since }) = idle.pop() {
            let time = now.saturating_duration_since(since);
            let is_known = can_repeat && time < LIVENESS_INTERVAL && connection.seems_quiet();
            let is_usable = time < connection.kept && (is_known || connection.is_quiet());
            if is_usable && !names.has_left(|| connection.address()) {
                return Some(connection);
            }
        }
        None
    }

    /// Takes back a connection that has carried a whole request and a whole response, and waits for another `since`.
    pub(crate) fn put(self: &Arc<Self>, connection: Http1, since: Instant) {
        if self.is_of_one_client {
            return;
        }
        self.lock().push(Idle { connection, since });
        self.begin_sweeping();
    }

    /// Begins to look after connections that nobody uses, unless that is done already.
    fn begin_sweeping(self: &Arc<Self>) {
        let is_swept = || self.is_swept.swap(true, Ordering::Relaxed);
        if !self.is_swept.load(Ordering::Relaxed) && !is_swept() {
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn(sweep(Swept(Arc::downgrade(self))))),
                Err(_) => self.is_swept.store(false, Ordering::Relaxed),
            }
        }
    }

    /// A connection over HTTP/2, and whether it has carried requests before.
    pub(crate) async fn multiplexed(
        self: &Arc<Self>,
        connector: &Connector,
    ) -> io::Result<(Http2, bool)> {
        let open = async {
            let streams = self.first_streams();
            connector.http2(None, streams, &self.counters).await
        };
        self.shared(&self.http2, connector, open).await
    }

    /// Streams that a new connection is taken to have: as many as the known ones, so that a server which takes fewer than others do
    /// refuses those of the first connection alone. They are sent again once.
    fn first_streams(&self) -> usize {
        if let Some(known) = self.http2.least(Http2::streams) {
            let streams = known.clamp(1, http2::FIRST_STREAMS);
            self.first_streams.store(streams, Ordering::Relaxed);
        }
        self.first_streams.load(Ordering::Relaxed)
    }

    /// The same over HTTP/3; `pause`: the longest of a response.
    pub(crate) async fn http3(
        self: &Arc<Self>,
        connector: &Connector,
        pause: Duration,
    ) -> io::Result<(Http3, bool)> {
        // Boxed: it is long, and the future of every request would have room for it.
        let open = async { Box::pin(connector.http3(pause, &self.counters)).await };
        self.shared(&self.http3, connector, open).await
    }

    /// One of `connections`. Whoever waits for another request to open one waits no longer than for a connection of its own;
    /// where a server takes no further one, requests wait for those that it has.
    async fn shared<C: SharedConnection>(
        self: &Arc<Self>,
        connections: &SharedConnections<C>,
        connector: &Connector,
        open: impl Future<Output = io::Result<C>>,
    ) -> io::Result<(C, bool)> {
        let found = in_time(connector.timeout, connections.find(&connector.names, open)).await;
        if connections.len() > 1 {
            self.begin_sweeping();
        }
        found.or_else(|error| Ok((connections.any().ok_or(error)?, true)))
    }

    /// Lets go of connections over HTTP/2 and HTTP/3 to an address that `names` have left: they end with the requests that they have,
    /// at once where there are none. Those of HTTP/1.1 don't wait for long as it is.
    pub(crate) async fn leave(&self, names: &Names) {
        self.http2.leave_opened(names).await;
        self.http3.leave_opened(names).await;
    }

    /// Connections that wait for a request.
    pub(crate) fn idle_connections(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes connections that nobody has used for long, or that their servers have closed, until none is left but one that
/// requests share.
async fn sweep(swept: Swept) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(pool) = swept.0.upgrade() else {
            return;
        };
        pool.http2.sweep();
        pool.http3.sweep();
        let is_single = pool.http2.len().max(pool.http3.len()) <= 1;
        let mut idle = pool.lock();
        idle.retain(|it| it.since.elapsed() < it.connection.kept && it.connection.is_quiet());
        if idle.is_empty() && is_single {
            return;
        }
    }
}

/// The idle connections of a pool while a task looks after them. Dropped with the task, also where that ends with its
/// runtime before its time, as that of a worker that panics: no other runtime can read from the connections that are
/// left, and a request would be sent over one of them in vain.
struct Swept(Weak<Pool>);

impl Drop for Swept {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.lock().clear();
            pool.is_swept.store(false, Ordering::Relaxed);
        }
    }
}

/// The place of a request at a server. Its connection goes back to the pool only after a whole response.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Arc<Pool>,
    /// The place is one in reserve. In a box, for few are.
    claim: Option<Box<Claim>>,
}

/// The right to a place in reserve.
#[derive(Debug)]
struct Claim {
    pool: Arc<Pool>,
    client: Option<ClientNumber>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(client) = self.client {
            self.pool.reserve.release(client);
        }
    }
}

impl Lease {
    fn new(pool: &Arc<Pool>, permit: SemaphorePermit<'_>, claim: Option<Claim>) -> Self {
        // It is given back with the lease, which does not borrow the pool.
        permit.forget();
        pool.in_progress.fetch_add(1, Ordering::Relaxed);
        Self {
            pool: Arc::clone(pool),
            claim: claim.map(Box::new),
        }
    }

    /// The response is whole `now`. `connection`: the one that it came over, if that can carry another request.
    pub(crate) fn release(self, connection: Option<Http1>, now: Instant) {
        if let Some(connection) = connection {
            self.pool.put(connection, now);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.in_progress.fetch_sub(1, Ordering::Relaxed);
        let places = match self.claim {
            None => &self.pool.permits,
            Some(_) => &self.pool.reserve.places,
        };
        places.add_permits(1);
    }
}

/// Counted down when it is dropped: a request that waits may be taken back.
struct ActiveRequest<'c>(&'c AtomicUsize);

impl Drop for ActiveRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Protocol, Server};
    use std::net::SocketAddr;
    use tokio::net::{TcpListener, TcpStream};

    /// Two servers at one port of this machine: a name may have either.
    async fn servers() -> [TcpListener; 2] {
        loop {
            let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = first.local_addr().unwrap().port();
            if let Ok(second) = TcpListener::bind(("127.0.0.2", port)).await {
                return [first, second];
            }
        }
    }

    fn connector(port: u16, protocol: Protocol) -> Connector {
        Connector {
            server: Server {
                address: Address::Tcp("moves.test".into(), port),
                protocol,
                tls: None,
            },
            names: Names::default(),
            tls: None,
            timeout: Duration::from_secs(10),
        }
    }

    fn pool() -> Arc<Pool> {
        Arc::new(Pool::new(4, false, Arc::default(), Arc::default()))
    }

    /// Speaks HTTP/2 on each connection that comes.
    fn accept(listener: TcpListener) -> SocketAddr {
        let address = listener.local_addr().unwrap();
        let serve = async |stream: TcpStream| {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while connection.accept().await.is_some() {}
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
        address
    }

    #[tokio::test]
    async fn a_client_never_has_all_places_of_a_server() {
        let pool = Arc::new(Pool::new(90, false, Arc::default(), Arc::default()));
        let take = |client| {
            let pool = Arc::clone(&pool);
            let leases = std::iter::from_fn(move || pool.turn_now(client));
            leases.collect::<Vec<_>>()
        };
        let of_one = take(Some(1));
        assert_eq!(of_one.len(), 80 + 2);
        let another = pool.turn(Some(2), Duration::ZERO).await;
        assert!(another.is_some());
        let of_many: Vec<_> = (3..)
            .map_while(|client| pool.turn_now(Some(client)))
            .collect();
        assert_eq!(of_many.len(), 10 - 2 - 1);
        // Whoever waits has the next place that it may have.
        let waits = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move { pool.turn(Some(99), Duration::from_secs(60)).await.is_some() }
        });
        let too_many = pool.turn(Some(1), Duration::ZERO);
        assert!(too_many.await.is_none());
        drop(of_many);
        assert!(waits.await.unwrap());
        drop((of_one, another));
        // One that speaks for many has all.
        let all = take(None);
        assert_eq!(all.len(), 90);
        drop(all);
        assert_eq!(take(Some(1)).len(), 80 + 2, "all were given back");
    }

    #[tokio::test]
    async fn a_connection_of_http2_is_left_once_its_server_has_left_its_address() {
        let [first, second] = servers().await.map(accept);
        let (connector, pool) = (connector(first.port(), Protocol::Http2), pool());
        let connection = async || {
            let (connection, is_reused) = pool.multiplexed(&connector).await.unwrap();
            (connection.address().unwrap(), is_reused)
        };
        connector.names.keep(&[first]);
        assert_eq!(connection().await, (first.ip(), false));
        connector.names.keep(&[second, first]);
        assert_eq!(connection().await, (first.ip(), true));
        let (former, _) = pool.multiplexed(&connector).await.unwrap();
        connector.names.keep(&[second]);
        assert_eq!(connection().await, (second.ip(), false));
        assert_eq!(connection().await, (second.ip(), true));
        assert!(!former.is_closed(), "what runs there ends there");
    }

    #[tokio::test]
    async fn a_connection_of_http2_without_requests_ends_once_its_server_has_left_its_address() {
        let [first, second] = servers().await;
        let address = second.local_addr().unwrap();
        let (connector, pool) = (connector(address.port(), Protocol::Http2), pool());
        connector.names.keep(&[first.local_addr().unwrap()]);
        let serving = tokio::spawn(async move {
            let (stream, _) = first.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let (_, mut respond) = connection.accept().await.unwrap().unwrap();
            let response = http::Response::new(());
            let mut sending = respond.send_response(response, false).unwrap();
            let end = async {
                sending.send_data("all".into(), true).unwrap();
                connection.accept().await.is_none()
            };
            end.await
        });
        let (connection, _) = pool.multiplexed(&connector).await.unwrap();
        let request = http::Request::get("http://moves.test/").body(()).unwrap();
        let none = http_body_util::Empty::<bytes::Bytes>::new();
        let content = crate::content::Content::new(none, 0, None);
        let sent = connection.send(request, content.attempt(None), None);
        let running = async { sent.await.map_err(|(error, _)| error) };
        pool.leave(&connector.names).await;
        assert_eq!(pool.http2.len(), 1, "its address is known");
        connector.names.keep(&[address]);
        pool.leave(&connector.names).await;
        let mut content = running.await.unwrap().into_body();
        drop(connection);
        let next = std::future::poll_fn(|cx| content.poll_frame(cx)).await;
        assert_eq!(next.unwrap().unwrap().into_data().unwrap(), "all");
        drop(content);
        let ended = tokio::time::timeout(Duration::from_secs(50), serving).await;
        assert!(ended.unwrap().unwrap());
    }

    #[tokio::test]
    async fn an_idle_connection_of_http1_is_not_used_once_its_server_has_left_its_address() {
        let [first, second] = servers().await;
        let address = |listener: &TcpListener| listener.local_addr().unwrap();
        let (first, second) = ((address(&first), first), (address(&second), second));
        let (connector, pool) = (connector(first.0.port(), Protocol::Http1), pool());
        let idle = || pool.idle(&connector.names, true, Instant::now());
        connector.names.keep(&[first.0]);
        let (connection, _) = connector.http1(None, &pool.counters).await.unwrap();
        pool.put(connection, Instant::now());
        let connection = idle().expect("it waits for a request");
        pool.put(connection, Instant::now());
        connector.names.keep(&[second.0]);
        assert!(idle().is_none());
        let (connection, _) = connector.http1(None, &pool.counters).await.unwrap();
        pool.put(connection, Instant::now());
        assert_eq!(idle().unwrap().address(), Some(second.0.ip()));
    }
}
