//! Clients over HTTP/1.1, HTTP/2 and HTTP/3 that measure: one record a request.
//!
//! [`run`] fetches one URL over one protocol, on so many connections with so many streams each,
//! until a number of requests or a time is reached, and hands a [`RequestRecord`] to its caller for
//! each. It never falls back to another protocol: one is offered, and an answer over another is an
//! error.
//!
//! Meaning of the times:
//! - They count from when the request was due: when its stream was free (closed loop), or when the
//!   rate says (open loop). The request that opens a connection counts its set-up too.
//! - Connection set-up is from the socket call to the end of the TLS or QUIC handshake. Names are
//!   resolved before the run. TLS sessions are not resumed, unless early data is asked for
//!   ([`Options::with_early_data`]): a request that leaves with the first packets waits for no set-up.
//! - The first byte is taken when the response's header is complete, the last when the end of the
//!   body is known. Bodies are counted, not kept.
//!
//! A visit ([`Options::with_visit`]) is requests that belong together: a page and its objects, small
//! ones beside a large one, a client that returns. Each is sent when what it waits for has happened.
//!
//! The receive windows are large, and the same in HTTP/2 and HTTP/3 (16 MiB a stream, 32 MiB a
//! connection, from the beginning), so that 1 Gbit/s over a round trip of 100 ms (12.5 MB under
//! way) is limited by the path and not by this client.
//!
//! A request that the server resets or refuses has failed; it is not sent again. A failed connection
//! is retried after 10 ms, doubling to 1 s; after 10 failures in a row its place stays empty. All
//! runs on the caller's thread: use a current-thread runtime.
//!
//! Left to others: printing and files (`cli`), repetition and statistics (`lab`).
//!
//! ```
//! use altway_load::{Options, Stop};
//! use altway_record::Protocol;
//! use std::io::{Read, Write};
//!
//! // A server of one page, for one connection.
//! let server = std::net::TcpListener::bind("127.0.0.1:0")?;
//! let url = format!("http://{}/", server.local_addr()?);
//! std::thread::spawn(move || -> std::io::Result<()> {
//!     let (mut stream, _) = server.accept()?;
//!     while stream.read(&mut [0; 1_024])? > 0 {
//!         stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")?;
//!     }
//!     Ok(())
//! });
//!
//! let mut options = Options::new(&url, Protocol::H1)?;
//! options.stop = Stop::Requests(10.try_into()?);
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let run = altway_load::run(&options, |record| println!("{} µs", record.total_us));
//! let summary = runtime.block_on(run)?;
//! assert_eq!((summary.requests, summary.failed, summary.body_bytes), (10, 0, 50));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod exchanges;
mod h1;
mod h2;
mod options;
mod quic;
mod returning;
mod run;
mod script;
mod send_permits;
mod slot;
mod summary;
mod tcp;
mod tls;
mod udp;

pub use altway_http3::{Qlog, Version};
pub use error::Error;
pub use options::{Options, Stop, Trust};
pub use summary::{
    EarlyDataCount, ErrorCount, LoadSummary, MAX_ERROR_KINDS, OTHER_ERRORS, Percentiles, Times,
};

use altway_record::RequestRecord;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::time::{Duration, Instant};

/// Value of the requests' `User-Agent`.
const USER_AGENT: &str = concat!("altway-load/", env!("CARGO_PKG_VERSION"));

/// Makes the requests of `options`, calls `on_record` for each request when it has ended, and
/// returns the figures of the whole.
///
/// `on_record` is called between reads of the network: what it takes long for delays the requests
/// in flight. Dropping the future ends the run at once.
///
/// # Errors
/// The run could not be set up; no connection could ever be opened; or no connection could be
/// opened any more while requests were left. What was measured has been handed out by then.
///
/// # Panics
/// Outside a tokio runtime with I/O and time enabled.
pub async fn run(
    options: &Options,
    mut on_record: impl FnMut(&RequestRecord),
) -> Result<LoadSummary, Error> {
    let job = run::Job::prepare(options).await?;
    let run = run::Run::begin(&job, options, &mut on_record)?;
    let all_gave_up = match job.alt_svc_port {
        Some(_) => returning::drive(&run).await,
        None => drive_slots(&run, options).await,
    };
    run.finish(all_gave_up)
}

/// Keeps all connections busy, each from its time of the ramp on; whether all gave up.
async fn drive_slots(run: &run::Run<'_>, options: &Options) -> bool {
    let begun = Instant::now();
    // What lies beyond all that the clock can tell never begins.
    let mut waiting =
        (0..slots(options)).map_while(|slot| begun.checked_add(beginning(slot, options)));
    let mut next = waiting.next();
    let mut slots = FuturesUnordered::new();
    let mut all_gave_up = true;
    loop {
        while next.is_some_and(|due| due <= Instant::now()) {
            slots.push(slot::drive(run, run.job.protocol));
            next = waiting.next();
        }
        tokio::select! {
            Some(end) = slots.next() => {
                all_gave_up &= end == slot::End::GaveUp;
                // Those that wait would find nothing to send either.
                next = next.filter(|_| end == slot::End::GaveUp);
            }
            () = tokio::time::sleep_until(next.unwrap_or(begun).into()), if next.is_some() => {}
            else => return all_gave_up,
        }
    }
}

/// Time after the first connection at which this one begins.
fn beginning(slot: u32, options: &Options) -> Duration {
    options
        .ramp
        .mul_f64(f64::from(slot) / f64::from(slots(options)))
}

/// Connections that can have anything to do.
fn slots(options: &Options) -> u32 {
    let connections = options.connections.get();
    match options.stop {
        Stop::Requests(n) => u32::try_from(n.get()).map_or(connections, |n| n.min(connections)),
        Stop::Time(_) => connections,
    }
}
