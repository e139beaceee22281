//! Servers of HTTP/2 that vanish, flood, or are not read from.

use super::*;
use crate::content::Content;
use crate::counters::Counters;
use http_body_util::Empty;
use std::io;
use std::pin::pin;
use tokio::io::{AsyncReadExt as _, DuplexStream, ReadBuf};
use tokio::time::Instant;

/// A server that answers `before` requests, takes another one, and then vanishes without a word; one that answers none
/// takes none. The end of its connection stays open.
async fn vanishing(before: usize) -> (Http2, JoinHandle<impl Sized>) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let serving = tokio::spawn(async move {
        let mut connection = h2::server::handshake(far).await.unwrap();
        for _ in 0..before {
            let (_, mut respond) = connection.accept().await.unwrap().unwrap();
            respond.send_response(Response::new(()), true).unwrap();
        }
        let taken = match before {
            0 => None,
            _ => connection.accept().await,
        };
        (connection, taken)
    });
    let counters = Arc::<Counters>::default();
    let connection = Http2::begin(near, None, FIRST_STREAMS, counters.open()).await;
    (connection.unwrap(), serving)
}

async fn get(connection: &Http2) -> Result<Response<Http2Body>, Failed> {
    let request = Request::get("http://a.test/").body(()).unwrap();
    let content = Content::new(Empty::<Bytes>::new(), 0, None);
    let sent = connection.send(request, content.attempt(None), None);
    timeout(10 * KEEP_ALIVE, sent).await.unwrap()
}

/// A connection to a server that sends faster than it is read from: acknowledgements of pings that nobody has sent.
struct Flooded {
    incoming: Bytes,
    outgoing: DuplexStream,
}

impl AsyncRead for Flooded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // As a socket, whose reads count for the task.
        ready!(pin!(tokio::task::consume_budget()).poll(cx));
        if self.incoming.is_empty() {
            const PONG: &[u8] = &[0, 0, 8, PING, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
            self.incoming = Bytes::from_static(PONG);
        }
        let len = buffer.remaining().min(self.incoming.len());
        buffer.put_slice(&self.incoming.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Flooded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.outgoing).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.outgoing).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.outgoing).poll_shutdown(cx)
    }
}

/// Types of frames.
const HEADERS: u8 = 1;
const PING: u8 = 6;

#[tokio::test]
async fn requests_are_sent_to_a_server_that_sends_faster_than_it_is_read_from() {
    let (outgoing, mut far) = tokio::io::duplex(64 << 10);
    let settings = Bytes::from_static(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    let stream = Flooded {
        incoming: settings,
        outgoing,
    };
    let counters = Arc::<Counters>::default();
    let connection = Http2::begin(stream, None, FIRST_STREAMS, counters.open())
        .await
        .unwrap();
    let sent = async {
        // The preface.
        far.read_exact(&mut [0; 24]).await.unwrap();
        loop {
            let mut frame = [0; 9];
            far.read_exact(&mut frame).await.unwrap();
            if frame[3] == HEADERS {
                return;
            }
            let mut payload = vec![0; usize::from(frame[2])];
            far.read_exact(&mut payload).await.unwrap();
        }
    };
    tokio::select! {
        sent = timeout(Duration::from_secs(50), sent) => sent.expect("it is sent"),
        _ = get(&connection) => panic!("a response of nobody"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_vanishes_while_a_request_waits_is_found_out() {
    let (connection, serving) = vanishing(1).await;
    assert!(get(&connection).await.is_ok());
    let began = Instant::now();
    let Err((_, sent)) = get(&connection).await else {
        panic!("a response of nobody");
    };
    assert_eq!(sent, Sent::Some);
    assert!(began.elapsed() <= KEEP_ALIVE + KEEP_ALIVE_TIMEOUT);
    assert!(connection.is_closed());
    drop(serving);
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_requests_is_not_asked_whether_it_is_there() {
    let (connection, serving) = vanishing(0).await;
    sleep(10 * KEEP_ALIVE).await;
    assert!(!connection.is_closed());
    let Err((_, sent)) = get(&connection).await else {
        panic!("a response of nobody");
    };
    assert_eq!(sent, Sent::Some);
    let Err((_, sent)) = get(&connection).await else {
        panic!("a response of nobody");
    };
    assert_eq!(sent, Sent::Nothing);
    drop(serving);
}

#[tokio::test]
async fn content_counts_until_its_end_is_read() {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (go, wait) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        let mut connection = h2::server::handshake(far).await.unwrap();
        let (_, mut respond) = connection.accept().await.unwrap().unwrap();
        let mut sending = respond.send_response(Response::new(()), false).unwrap();
        sending.send_data(Bytes::from("some"), false).unwrap();
        tokio::spawn(async move {
            let _ = wait.await;
            sending.send_data(Bytes::from("more"), true).unwrap();
        });
        while connection.accept().await.is_some() {}
    });
    let counters = Arc::<Counters>::default();
    let connection = Http2::begin(near, None, FIRST_STREAMS, counters.open()).await;
    let connection = connection.unwrap();
    let mut content = get(&connection).await.unwrap().into_body();
    let window = STREAM_WINDOW as usize;
    assert_eq!(connection.backlog(), window);
    let next = async |content: &mut Http2Body| poll_fn(|cx| content.poll_frame(cx)).await;
    let some = next(&mut content).await.unwrap().unwrap();
    assert_eq!(some.into_data().unwrap(), "some");
    let mut context = Context::from_waker(Waker::noop());
    assert!(content.poll_frame(&mut context).is_pending());
    assert_eq!(connection.backlog(), window, "more may come at any time");
    go.send(()).unwrap();
    let more = next(&mut content).await.unwrap().unwrap();
    assert_eq!(more.into_data().unwrap(), "more");
    assert_eq!(connection.backlog(), 0, "it has ended");
    serving.abort();
}
