//! A TCP socket, with TLS or without, as the driver needs it: everything at once, nothing waits.
//!
//! A read that fills less than its buffer has emptied the socket, and a write that takes less than it
//! was given has filled it. Saying so to the event loop (by [`io::ErrorKind::WouldBlock`]) saves the
//! system call that would find it out.

use crate::tcp::measured::TcpPathSampler;
use crate::tcp::socket::{Departure, departure};
use crate::tcp::{drain, kernel};
use altway_http2::Output;
use altway_socket::{Keepalive, KeepaliveWatch};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::ServerConnection;
use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Slices of one system call; the kernel takes up to 1,024.
const MAX_SLICES: usize = 128;

/// Bytes of a connection's beginning that are sent in short records: about the initial window of ten segments (RFC
/// 6928). A record is of no use before its end has come, and one of 16 KB has its end in the second round trip.
const SLOW_START_BYTES: usize = 16 << 10;

/// Time without a send after which a connection begins again: the kernel takes its window back to the initial one after
/// a silence (RFC 5681 section 4.1), on most paths sooner.
const IDLE_RESTART: Duration = Duration::from_secs(1);

/// The shortest round trip of a path whose connections begin with short records. Below it, the round trip that they save is
/// less than what a dozen records more cost both ends.
const SHORT_RECORDS_RTT: Duration = Duration::from_millis(1);

/// The plain text of a short record, in bytes: with what TLS adds it fits a segment of any usual path.
const SHORT_RECORD: usize = 1_300;

/// Bytes that a peer may go on sending while its connection is closed.
const MAX_DISCARDED: usize = 1 << 20;

pub(super) struct Transport {
    stream: Rc<TcpStream>,
    tls: Option<Box<Tls>>,
}

/// TLS, and what it holds.
struct Tls {
    session: ServerConnection,
    /// Bytes of records that are not sent, but for what encryption adds.
    unsent: usize,
    /// Bytes that are still sent in short records: what remains of the [`SLOW_START_BYTES`].
    beginning: usize,
    /// Time at which something was last sent; `None`: nothing was yet.
    last_sent: Option<Instant>,
    path: Rc<TcpPathSampler>,
}

/// The result of a receive.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReceiveOutcome {
    /// Bytes of the buffer.
    pub(super) len: usize,
    /// More may be there.
    pub(super) more: bool,
    /// The peer has closed its half.
    pub(super) end: bool,
}

impl Transport {
    pub(super) fn new(
        stream: Rc<TcpStream>,
        tls: Option<ServerConnection>,
        path: &Rc<TcpPathSampler>,
    ) -> Self {
        let tls = tls.map(|mut session| {
            // What is written is bounded by the driver.
            session.set_buffer_limit(None);
            Box::new(Tls {
                session,
                unsent: 0,
                beginning: 0,
                last_sent: None,
                path: Rc::clone(path),
            })
        });
        Self { stream, tls }
    }

    /// The socket's signs of life, which are asked for from now on.
    pub(super) fn watch(&self, keepalive: Keepalive) -> KeepaliveWatch {
        KeepaliveWatch::new(keepalive, &*self.stream)
    }

    /// Ready once `watch` finds that the peer has vanished.
    pub(super) fn poll_vanished(
        &self,
        watch: &mut KeepaliveWatch,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        watch.poll(&*self.stream, cx)
    }

    pub(super) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_read_ready(cx)
    }

    /// Resolves once the client has left while nothing is read of it.
    pub(super) fn departure(&self) -> Pin<Box<dyn Future<Output = Departure>>> {
        let stream = Rc::clone(&self.stream);
        Box::pin(async move { departure(&stream).await })
    }

    pub(super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_write_ready(cx)
    }

    /// Reads what is there, as far as `buffer` holds it.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<ReceiveOutcome> {
        match &mut self.tls {
            Some(tls) => receive_tls(&self.stream, tls, buffer),
            None => match read(&self.stream, buffer) {
                Ok(0) => Ok(ReceiveOutcome {
                    end: true,
                    ..ReceiveOutcome::default()
                }),
                Ok(len) => Ok(ReceiveOutcome {
                    len,
                    more: len == buffer.len(),
                    end: false,
                }),
                Err(error) if would_block(&error) => Ok(ReceiveOutcome::default()),
                Err(error) => Err(error),
            },
        }
    }

    /// Sends `output`; whether all of it is on its way. TLS takes all of it in any case.
    pub(super) fn send(&mut self, output: &mut Output, now: Instant) -> io::Result<bool> {
        match &mut self.tls {
            Some(tls) => {
                tls.begin_if_due(output, now);
                send_tls(&self.stream, tls, output)
            }
            None => send_clear(&self.stream, output),
        }
    }

    /// Returns true if TLS holds records that are not sent.
    pub(super) fn wants_write(&self) -> bool {
        self.tls
            .as_ref()
            .is_some_and(|tls| tls.session.wants_write())
    }

    /// About what TLS holds.
    pub(super) fn unsent(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.unsent)
    }

    /// Limits what the kernel holds unsent.
    pub(super) fn limit_unsent(&self, bytes: usize) {
        kernel::limit_unsent(&self.stream, u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Has the connection reset when it closes.
    pub(super) fn abort_on_close(&self) {
        kernel::abort_on_close(&self.stream);
    }

    /// Says goodbye, and waits for the peer to do the same.
    pub(super) async fn close(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.session.send_close_notify();
            while !flush_tls(&self.stream, tls)? {
                self.stream.writable().await?;
            }
        }
        drain::close(&self.stream, MAX_DISCARDED).await
    }
}

impl Tls {
    /// Begins, or begins again after a silence, with short records where the path's round trip is worth them.
    fn begin_if_due(&mut self, output: &Output, now: Instant) {
        if output.is_empty() {
            return;
        }
        let is_beginning = self
            .last_sent
            .is_none_or(|last| now.saturating_duration_since(last) >= IDLE_RESTART);
        self.last_sent = Some(now);
        if is_beginning {
            let min_rtt = self.path.min_rtt();
            let is_near = min_rtt.is_some_and(|rtt| rtt < SHORT_RECORDS_RTT);
            self.beginning = if is_near { 0 } else { SLOW_START_BYTES };
        }
    }
}

fn receive_tls(stream: &TcpStream, tls: &mut Tls, buffer: &mut [u8]) -> io::Result<ReceiveOutcome> {
    let mut received = ReceiveOutcome::default();
    let mut drained = false;
    loop {
        received.more = fill(&mut tls.session, buffer, &mut received)?;
        if received.more || received.end || drained {
            return Ok(received);
        }
        let mut socket = Socket {
            stream,
            drained: false,
        };
        match tls.session.read_tls(&mut socket) {
            Ok(_) => drained = socket.drained,
            Err(error) if would_block(&error) => return Ok(received),
            Err(error) => return Err(error),
        }
        if let Err(error) = tls.session.process_new_packets() {
            // The alert that says why, as far as it leaves at once.
            let _ = flush_tls(stream, tls);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
    }
}

/// Takes what is decrypted; whether something may be left, because the buffer is full.
fn fill(
    tls: &mut ServerConnection,
    buffer: &mut [u8],
    received: &mut ReceiveOutcome,
) -> io::Result<bool> {
    while received.len < buffer.len() {
        match tls.reader().read(&mut buffer[received.len..]) {
            Ok(0) => {
                received.end = true;
                return Ok(false);
            }
            Ok(n) => received.len += n,
            Err(error) if would_block(&error) => return Ok(false),
            // Closed without close_notify: HTTP/2 frames have lengths, so nothing is cut unseen.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                received.end = true;
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn send_clear(stream: &TcpStream, output: &mut Output) -> io::Result<bool> {
    while !output.is_empty() {
        let written = match output.as_slice() {
            Some(bytes) => attempt(stream, Interest::WRITABLE, bytes.len(), || {
                Ok(send(stream, bytes, SendFlags::NOSIGNAL)?)
            }),
            None => {
                let mut slices = Vec::with_capacity(MAX_SLICES);
                output.fill(&mut slices, MAX_SLICES);
                write_slices(stream, &slices)
            }
        };
        match written {
            Ok(n) => output.advance(n),
            Err(error) if would_block(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn send_tls(stream: &TcpStream, tls: &mut Tls, output: &mut Output) -> io::Result<bool> {
    write_beginning(tls, output)?;
    let mut writer = tls.session.writer();
    if let Some(bytes) = output.as_slice() {
        writer.write_all(bytes)?;
    } else {
        let slices: Vec<IoSlice<'_>> = output.slices().map(IoSlice::new).collect();
        let taken = writer.write_vectored(&slices)?;
        debug_assert_eq!(taken, output.len(), "the buffer has no limit");
    }
    tls.unsent += output.len();
    output.clear();
    flush_tls(stream, tls)
}

/// Takes what `output` has of the connection's beginning, in short records.
fn write_beginning(tls: &mut Tls, output: &mut Output) -> io::Result<()> {
    let mut record = Vec::new();
    while tls.beginning > 0 && output.len() > SHORT_RECORD {
        record.clear();
        for slice in output.slices() {
            let room = SHORT_RECORD - record.len();
            record.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        tls.session.writer().write_all(&record)?;
        output.advance(record.len());
        tls.unsent += record.len();
        tls.beginning = tls.beginning.saturating_sub(record.len());
    }
    tls.beginning = tls.beginning.saturating_sub(output.len());
    Ok(())
}

/// Sends the records that there are; whether all of them left.
fn flush_tls(stream: &TcpStream, tls: &mut Tls) -> io::Result<bool> {
    let mut socket = Socket {
        stream,
        drained: false,
    };
    while tls.session.wants_write() {
        match tls.session.write_tls(&mut socket) {
            Ok(sent) => tls.unsent = tls.unsent.saturating_sub(sent),
            Err(error) if would_block(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    tls.unsent = 0;
    Ok(true)
}

/// The socket as TLS sees it.
struct Socket<'a> {
    stream: &'a TcpStream,
    /// The last read has emptied it.
    drained: bool,
}

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = read(self.stream, buffer)?;
        self.drained = n < buffer.len();
        Ok(n)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        write_slices(self.stream, &slices[..slices.len().min(MAX_SLICES)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn read(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let len = buffer.len();
    attempt(stream, Interest::READABLE, len, || {
        Ok(recv(stream, buffer, RecvFlags::empty())?.0)
    })
}

fn write_slices(stream: &TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let len = slices.iter().map(|slice| slice.len()).sum();
    attempt(stream, Interest::WRITABLE, len, || {
        Ok(rustix::io::writev(stream, slices)?)
    })
}

/// Calls the kernel if the socket may be ready. A result below `len` means that it is not any more.
fn attempt(
    stream: &TcpStream,
    interest: Interest,
    len: usize,
    call: impl FnOnce() -> io::Result<usize>,
) -> io::Result<usize> {
    let mut moved = None;
    let tried = stream.try_io(interest, || {
        let n = call()?;
        moved = Some(n);
        // 0 bytes read are the end of the stream, which stays readable.
        if n > 0 && n < len {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(n)
    });
    moved.map_or(tried, Ok)
}

fn would_block(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_http2::Config;
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::Arc;

    /// A server's side of TLS whose hand-shake is over.
    fn established() -> ServerConnection {
        let made = rcgen::generate_simple_self_signed(["altway.test".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let provider = Arc::new(crate::tls::provider());
        let client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let key = made.signing_key.serialize_der().try_into().unwrap();
        let server = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let name = "altway.test".try_into().unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();
        while client.wants_write() || server.wants_write() {
            let mut flight = Vec::new();
            client.write_tls(&mut flight).unwrap();
            server.read_tls(&mut flight.as_slice()).unwrap();
            server.process_new_packets().unwrap();
            let mut flight = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut flight).unwrap();
            }
            let mut flight = flight.as_slice();
            while !flight.is_empty() {
                client.read_tls(&mut flight).unwrap();
                client.process_new_packets().unwrap();
            }
        }
        assert!(!server.is_handshaking());
        server
    }

    /// Frames of a body of so many bytes.
    fn last_sent(bytes: usize) -> Output {
        let now = Instant::now();
        let mut output = Output::new();
        let mut client = altway_http2::Connection::client(Arc::new(Config::default()), now);
        let mut turn = client.turn(now, &mut output);
        let request = http::Request::post("https://altway.test/")
            .body(())
            .unwrap();
        let stream = turn.send_request(&request, None, false).unwrap();
        while turn.output_len() < bytes {
            turn.send_data(stream, &vec![0; 1_000].into(), false)
                .unwrap();
        }
        output
    }

    /// The lengths of the records that have come.
    fn records(client: &mut std::net::TcpStream) -> Vec<usize> {
        let mut bytes = Vec::new();
        let ended = client.read_to_end(&mut bytes);
        assert!(would_block(&ended.unwrap_err()), "the connection is open");
        let mut records = Vec::new();
        let mut rest = bytes.as_slice();
        while let [_, _, _, high, low, after @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            records.push(length);
            rest = &after[length..];
        }
        records
    }

    /// Returns the lengths of the records in which 40 KB leave at the beginning of a connection over loopback, soon after,
    /// and after a rest. `relayed`: by a proxy, behind which the client's path is not known.
    async fn records_of_three_responses(relayed: bool) -> [Vec<usize>; 3] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nonblocking(true).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let stream = Rc::new(TcpStream::from_std(stream).unwrap());
        stream.writable().await.unwrap();
        let now = Instant::now();
        let path = TcpPathSampler::new(Ipv4Addr::LOCALHOST.into(), Rc::clone(&stream), relayed);
        let mut transport = Transport::new(stream, Some(established()), &Rc::new(path));
        let mut say = |bytes, now| {
            assert!(
                transport.send(&mut last_sent(bytes), now).unwrap(),
                "the socket is full"
            );
            records(&mut client)
        };
        let times = [now, now + IDLE_RESTART / 2, now + IDLE_RESTART * 2];
        times.map(|time| say(40_000, time))
    }

    fn is_short(length: &usize) -> bool {
        *length < 1_400
    }

    #[tokio::test]
    async fn records_are_short_at_the_beginning_and_again_after_a_rest() {
        let [first, soon, rested] = records_of_three_responses(true).await;
        let beginning = first.iter().take_while(|length| is_short(length)).count();
        assert_eq!(
            beginning,
            SLOW_START_BYTES.div_ceil(SHORT_RECORD),
            "{first:?}"
        );
        assert!(first.len() < beginning + 4, "{first:?}");
        assert!(!is_short(&soon[0]), "{soon:?}");
        assert!(rested[..beginning].iter().all(is_short), "{rested:?}");
    }

    #[tokio::test]
    async fn records_are_long_from_the_beginning_where_the_round_trip_is_short() {
        for records in records_of_three_responses(false).await {
            assert!(!is_short(&records[0]), "{records:?}");
        }
    }
}
