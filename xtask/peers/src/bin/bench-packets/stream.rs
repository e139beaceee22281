//! A stream of TCP with Cubic, and how fast its payload comes once it is under way.

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Bytes that are written or read at once.
const CHUNK: usize = 256 << 10;

/// Number of times that the client tries to connect; below, its wait each time.
const TRIES: u32 = 100;
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// Longest time without a byte.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// Rate at which the stream came.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    payload_bits_per_s: f64,
    bytes: u64,
    seconds: f64,
}

/// Sends to the first client until it has enough.
///
/// # Errors
/// Nobody connects, or the kernel has no Cubic.
pub(crate) fn serve(listener: &TcpListener) -> Result<()> {
    let (mut stream, _) = listener.accept()?;
    let cubic = SockRef::from(&stream).set_tcp_congestion(b"cubic");
    cubic.context("cannot use Cubic")?;
    let chunk = vec![0; CHUNK];
    // It ends with an error: the client closes when it has enough.
    while stream.write_all(&chunk).is_ok() {}
    Ok(())
}

/// Takes a stream in, and counts what comes between two moments after its first byte.
///
/// # Errors
/// Nobody listens, or the stream ends too early.
pub(crate) fn ask(server: SocketAddr, warm_up_ms: u64, for_ms: u64) -> Result<Report> {
    let mut stream = connect(server)?;
    stream.set_read_timeout(Some(SILENCE_TIMEOUT))?;
    let mut buffer = vec![0; CHUNK];
    read_for(&mut stream, &mut buffer, Duration::from_millis(warm_up_ms))?;
    let start = Instant::now();
    let bytes = read_for(&mut stream, &mut buffer, Duration::from_millis(for_ms))?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Report {
        payload_bits_per_s: bytes as f64 * 8.0 / seconds,
        bytes,
        seconds,
    })
}

fn connect(server: SocketAddr) -> Result<TcpStream> {
    for _ in 0..TRIES {
        match TcpStream::connect_timeout(&server, SILENCE_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(_) => sleep(TRY_AGAIN),
        }
    }
    anyhow::bail!("nobody listens at {server}")
}

/// Reads for so long at least, until the read that ends after it.
fn read_for(stream: &mut TcpStream, buffer: &mut [u8], time: Duration) -> Result<u64> {
    let start = Instant::now();
    let mut bytes = 0;
    while start.elapsed() < time {
        let read = stream.read(buffer)?;
        ensure!(read > 0, "the stream has ended");
        bytes += read as u64;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_counted_for_the_time_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let sending = std::thread::spawn(move || serve(&listener));
        let report = ask(server, 10, 50).unwrap();
        assert!(report.seconds >= 0.05 && report.bytes > 0);
        assert_eq!(
            report.payload_bits_per_s,
            report.bytes as f64 * 8.0 / report.seconds
        );
        sending.join().unwrap().unwrap();
    }
}
