//! A client that does no harm, from an address of its own: what an attack costs it is what counts.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::client::h2::Http2;
use crate::client::h3::Http3;
use crate::client::tls::{Tls, is_timeout, status, tcp};
use crate::server::{SMALL, Target};

/// Address of the bystander; attackers have 127.0.0.1.
pub const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// Time from one request to the next.
const PERIOD: Duration = Duration::from_millis(20);
/// A response that takes longer has failed.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A protocol to ask over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 over TLS.
    H1,
    /// HTTP/1.1 in clear text.
    H1Clear,
    /// HTTP/2 over TLS.
    H2,
    /// HTTP/3.
    H3,
}

/// One request on a connection of its own.
///
/// # Errors
/// No connection, or no response within 2 s.
pub fn fetch(target: &Target, protocol: Protocol, from: IpAddr) -> io::Result<u16> {
    Client::connect(target, protocol, from)?.fetch(&format!("/{SMALL}"))
}

/// A connection of any of the protocols.
enum Client {
    H1(Tls),
    H1Clear(TcpStream),
    H2(Http2, u32),
    H3(Box<Http3>),
}

impl Client {
    fn connect(target: &Target, protocol: Protocol, from: IpAddr) -> io::Result<Self> {
        Ok(match protocol {
            Protocol::H1 => Self::H1(Tls::connect(target, from, b"http/1.1")?),
            Protocol::H1Clear => Self::H1Clear(tcp(target, from, None)?),
            Protocol::H2 => Self::H2(Http2::connect(target, from, 65_535)?, 1),
            Protocol::H3 => Self::H3(Box::new(Http3::connect(target, from, 65_535)?)),
        })
    }

    fn fetch(&mut self, path: &str) -> io::Result<u16> {
        match self {
            Self::H1(tls) => {
                tls.write(&get(path))?;
                response(|left| tls.read(left))
            }
            Self::H1Clear(stream) => {
                stream.write_all(&get(path))?;
                response(|left| read(stream, left))
            }
            Self::H2(connection, stream) => {
                *stream += 2;
                connection.fetch(*stream - 2, path, RESPONSE_TIMEOUT)
            }
            Self::H3(connection) => connection.fetch(path, RESPONSE_TIMEOUT),
        }
    }
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

/// Status of a response of HTTP/1.1 that is read by `read`, once it is complete.
fn response(mut read: impl FnMut(Duration) -> io::Result<Vec<u8>>) -> io::Result<u16> {
    let deadline = Instant::now() + RESPONSE_TIMEOUT;
    let mut bytes = Vec::new();
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        bytes.extend(read(left)?);
        if let Some(code) = status(&bytes)
            && (bytes.ends_with(b"hello\n") || code != 200)
        {
            return Ok(code);
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn read(stream: &mut TcpStream, wait: Duration) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
    let mut bytes = vec![0; 4096];
    match stream.read(&mut bytes) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(len) => {
            bytes.truncate(len);
            Ok(bytes)
        }
        Err(error) if is_timeout(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The results of a bystander.
#[derive(Debug, Default, Clone)]
pub struct Service {
    /// Time of each response.
    pub times: Vec<Duration>,
    /// Reason of each failure.
    pub failures: Vec<String>,
}

impl Service {
    /// The time that `share` of the responses kept to.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        let rank = share * times.len().saturating_sub(1) as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank is neither large nor negative"
        )]
        let rank = rank.round() as usize;
        times.get(rank).copied().unwrap_or_default()
    }
}

/// A thread that asks over each protocol in turn, on connections that it keeps.
pub struct Bystander {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    thread: JoinHandle<Service>,
}

impl Bystander {
    /// Connects, and begins to ask.
    #[must_use]
    pub fn start(target: &Target, protocols: &[Protocol]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(AtomicUsize::new(0));
        let (stopped, count, target) = (Arc::clone(&stop), Arc::clone(&asked), target.clone());
        let mut seats: Vec<_> = protocols
            .iter()
            .map(|protocol| ProtocolClient::new(*protocol))
            .collect();
        let thread = thread::spawn(move || {
            let mut service = Service::default();
            for seat in &mut seats {
                seat.ask(&target, &mut Service::default());
            }
            let mut due = Instant::now();
            for turn in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let seat = turn % seats.len();
                seats[seat].ask(&target, &mut service);
                count.fetch_add(1, Ordering::Relaxed);
                due = (due + PERIOD).max(Instant::now());
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            service
        });
        Self {
            stop,
            asked,
            thread,
        }
    }

    /// The requests so far.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Stops, and tells.
    ///
    /// # Panics
    /// The thread panicked.
    #[must_use]
    pub fn stop(self) -> Service {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a bystander does not panic")
    }
}

/// A protocol, and the connection over which it was asked last.
struct ProtocolClient {
    protocol: Protocol,
    client: Option<Client>,
}

impl ProtocolClient {
    fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            client: None,
        }
    }

    /// Asks. A server may close a kept connection at any time: only a new one must serve.
    fn ask(&mut self, target: &Target, service: &mut Service) {
        let path = format!("/{SMALL}");
        let begun = Instant::now();
        if let Some(client) = &mut self.client {
            match client.fetch(&path) {
                Ok(200) => return service.times.push(begun.elapsed()),
                Ok(status) => return self.fail(service, &format!("status {status}")),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return self.fail(service, &error.to_string());
                }
                Err(_) => self.client = None,
            }
        }
        let connected = Client::connect(target, self.protocol, ADDRESS);
        let asked = connected.and_then(|mut client| Ok((client.fetch(&path)?, client)));
        match asked {
            Ok((200, client)) => {
                self.client = Some(client);
                service.times.push(begun.elapsed());
            }
            Ok((status, _)) => self.fail(service, &format!("status {status}")),
            Err(error) => self.fail(service, &error.to_string()),
        }
    }

    fn fail(&mut self, service: &mut Service, reason: &str) {
        self.client = None;
        service
            .failures
            .push(format!("{:?}: {reason}", self.protocol));
    }
}
