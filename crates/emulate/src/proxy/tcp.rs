//! TCP: a connection of a client, a connection to the target, and bytes from each to the other.

use super::{Counters, Limits, count, sockets};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};

/// Bytes that one direction of a connection holds at most, besides the buffers of its sockets: two
/// turns of what the kernel hands over at once.
const BUFFER: usize = 64 << 10;

/// Time that no connection is taken after the system had no descriptor for one.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Takes connections and passes each on, so many at once as `limits` say; the rest wait in the kernel.
pub(super) async fn serve(
    listener: TcpListener,
    target: SocketAddr,
    limits: Limits,
    counters: Arc<Counters>,
) {
    let room = Arc::new(Semaphore::new(limits.tcp_connections.max(1)));
    loop {
        let place = Arc::clone(&room).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        count(&counters.tcp_connections, 1);
        let counters = Arc::clone(&counters);
        tokio::spawn(async move {
            let _place = place;
            pass_on(client, target, limits.tcp_idle, &counters).await;
        });
    }
}

/// Passes one connection on to its end. What breaks one side resets the other: an orderly end
/// would tell it that it has all there was.
async fn pass_on(mut client: TcpStream, target: SocketAddr, idle: Duration, counters: &Counters) {
    let Ok(Ok(mut server)) = timeout(idle, TcpStream::connect(target)).await else {
        count(&counters.tcp_unreachable, 1);
        let _ = client.set_zero_linger();
        return;
    };
    let prepared = sockets::prepare(&client).and_then(|()| sockets::prepare(&server));
    let passed = match prepared {
        Ok(()) => {
            let activity = Activity::new();
            tokio::select! {
                passed = both_ways(&mut client, &mut server, &activity, counters) => passed,
                () = activity.silence(idle) => Err(io::ErrorKind::TimedOut.into()),
            }
        }
        Err(error) => Err(error),
    };
    if passed.is_err() {
        let _ = client.set_zero_linger();
        let _ = server.set_zero_linger();
    }
}

async fn both_ways(
    client: &mut TcpStream,
    server: &mut TcpStream,
    activity: &Activity,
    counters: &Counters,
) -> io::Result<()> {
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::try_join!(
        one_way(from_client, to_server, activity, &counters.tcp_bytes_up),
        one_way(from_server, to_client, activity, &counters.tcp_bytes_down),
    )?;
    Ok(())
}

/// Passes bytes on until their end, and then the end. Nothing is read before the last was taken, so
/// that a slow reader slows the sender down.
async fn one_way(
    from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    activity: &Activity,
    passed: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        from.readable().await?;
        match from.try_read(&mut buffer) {
            Ok(0) => return to.shutdown().await,
            Ok(length) => {
                activity.note();
                to.write_all(&buffer[..length]).await?;
                activity.note();
                count(passed, length as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Time of the latest byte of a connection, in either direction.
struct Activity {
    began: Instant,
    /// Milliseconds after the beginning.
    latest: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            latest: AtomicU64::new(0),
        }
    }

    fn note(&self) {
        let elapsed = self.began.elapsed().as_millis();
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        self.latest.store(elapsed, Ordering::Relaxed);
    }

    /// Ends when nothing has passed for `limit`.
    async fn silence(&self, limit: Duration) {
        loop {
            let latest = Duration::from_millis(self.latest.load(Ordering::Relaxed));
            let end = self.began + latest + limit;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }
}
