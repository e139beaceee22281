//! The content of an upload as it arrives: no longer than permitted, no slower than permitted.

use super::progress::WaitBudget;
use super::refusal::Refusal;
use altway_units::LeastRate;
use bytes::Bytes;
use http::StatusCode;
use http_body::Body;
use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes that are taken in one go for the disk, and one piece of the transport more at most.
pub(crate) const BATCH: usize = 64 << 10;

/// The content that a client sends. It is sent no faster than this is asked for.
#[derive(Debug)]
pub(crate) struct Content<B> {
    body: B,
    limit: u64,
    received: u64,
    progress: WaitBudget,
    waiting: Option<Waiting>,
    has_ended: bool,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    end: Pin<Box<Sleep>>,
}

impl<B> Content<B>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    /// # Errors
    /// The client says that it will send more than `limit` bytes: nothing of it is asked for.
    pub(crate) fn new(body: B, limit: u64, slowest: LeastRate) -> Result<Self, Refusal> {
        if body.size_hint().lower() > limit {
            return Err(Refusal::too_large(limit));
        }
        Ok(Self {
            body,
            limit,
            received: 0,
            progress: WaitBudget::new(slowest),
            waiting: None,
            has_ended: false,
        })
    }

    /// The length of the content, where the client says it.
    pub(crate) fn length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// Takes the next piece; `None` at the end.
    pub(crate) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Refusal>>> {
        while !self.has_ended {
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                ready!(self.poll_waiting(cx));
                self.has_ended = true;
                let detail = "the content arrived too slowly";
                let late = Refusal::new(StatusCode::REQUEST_TIMEOUT, detail);
                return Poll::Ready(Some(Err(late)));
            };
            if let Some(waiting) = self.waiting.take() {
                self.progress.waited(waiting.since.elapsed());
            }
            match frame {
                None => self.has_ended = true,
                Some(Err(error)) => {
                    self.has_ended = true;
                    return Poll::Ready(Some(Err(Refusal::malformed(error.to_string()))));
                }
                // Trailers say nothing that is stored.
                Some(Ok(frame)) => {
                    let Ok(piece) = frame.into_data() else {
                        continue;
                    };
                    return Poll::Ready(Some(self.counted(piece)));
                }
            }
        }
        Poll::Ready(None)
    }

    /// Ready when the client has used its time up.
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let left = self.progress.left();
        let waiting = self.waiting.get_or_insert_with(|| {
            let since = Instant::now();
            Waiting {
                since,
                end: Box::pin(sleep_until(since + left)),
            }
        });
        waiting.end.as_mut().poll(cx)
    }

    fn counted(&mut self, piece: Bytes) -> Result<Bytes, Refusal> {
        self.received += piece.len() as u64;
        if self.received > self.limit {
            self.has_ended = true;
            return Err(Refusal::too_large(self.limit));
        }
        self.progress.received(piece.len());
        Ok(piece)
    }

    /// Waits for a piece and takes what is there beside it, up to [`BATCH`]; nothing at the end.
    pub(crate) async fn batch(&mut self) -> Result<Vec<Bytes>, Refusal> {
        let (mut batch, mut length) = (Vec::new(), 0);
        poll_fn(|cx| {
            while length < BATCH {
                match self.poll_piece(cx) {
                    Poll::Ready(Some(piece)) => {
                        let piece = piece?;
                        length += piece.len();
                        batch.push(piece);
                    }
                    Poll::Pending if batch.is_empty() => return Poll::Pending,
                    _ => break,
                }
            }
            Poll::Ready(Ok(()))
        })
        .await?;
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Full, StreamBody};
    use std::convert::Infallible;
    use std::time::Duration;

    fn slowest() -> LeastRate {
        "1KB/s after 10s".parse().unwrap()
    }

    fn runtime() -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap()
    }

    #[test]
    fn content_that_is_too_long_is_refused_before_it_is_asked_for_or_when_it_is() {
        let long = Full::new(Bytes::from_static(b"12345"));
        let refused = Content::new(long.clone(), 4, slowest()).unwrap_err();
        assert_eq!(refused.status, 413);
        let unknown = long.map_frame(|frame| frame).boxed();
        let pieces = [&b"123"[..], b"45", b"6"];
        let frames = pieces.map(|it| Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(it))));
        let stream = StreamBody::new(futures_util::stream::iter(frames));
        let mut content = Content::new(stream, 4, slowest()).unwrap();
        runtime().block_on(async {
            assert_eq!(content.batch().await.unwrap_err().status, 413);
            assert!(
                content.batch().await.unwrap().is_empty(),
                "nothing is read on"
            );
            let mut exact = Content::new(unknown, 5, slowest()).unwrap();
            assert_eq!(exact.batch().await.unwrap(), [&b"12345"[..]]);
            assert!(exact.batch().await.unwrap().is_empty());
        });
    }

    /// A client that sends `size` bytes every `every`, `times` times, and then nothing more.
    fn slow(
        size: usize,
        every: Duration,
        times: usize,
    ) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let stream = futures_util::stream::unfold(0, move |sent| async move {
            if sent == times {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(every).await;
            let piece = http_body::Frame::data(Bytes::from(vec![b'x'; size]));
            Some((Ok(piece), sent + 1))
        });
        StreamBody::new(Box::pin(stream))
    }

    async fn until_refused<B>(body: B) -> (usize, u16, Duration)
    where
        B: Body<Data = Bytes, Error: Display> + Unpin,
    {
        let begin = Instant::now();
        let mut content = Content::new(body, u64::MAX, slowest()).unwrap();
        let mut received = 0;
        loop {
            match content.batch().await {
                Ok(batch) => received += batch.iter().map(Bytes::len).sum::<usize>(),
                Err(refused) => return (received, refused.status.as_u16(), begin.elapsed()),
            }
        }
    }

    #[test]
    fn a_slow_client_is_waited_for_while_it_makes_progress() {
        runtime().block_on(async {
            // For three hours, then silence.
            let patient = slow(9_000, Duration::from_secs(9), 1_200);
            let (received, status, took) = until_refused(patient).await;
            assert_eq!((received, status), (1_200 * 9_000, 408));
            let rounded = Duration::from_secs(9 * 1_200 + 10);
            assert!(took.abs_diff(rounded) < Duration::from_secs(4), "{took:?}");
            let dripping = slow(1, Duration::from_secs(1), usize::MAX);
            let (received, status, took) = until_refused(dripping).await;
            assert_eq!((received, status), (10, 408));
            assert!(took < Duration::from_secs(11), "{took:?}");
        });
    }

    #[test]
    fn time_that_the_server_takes_is_not_the_clients() {
        runtime().block_on(async {
            let mut content = Content::new(slow(1, Duration::ZERO, 5), 99, slowest()).unwrap();
            let mut received = 0;
            while received < 5 {
                received += content.batch().await.unwrap().len();
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
            assert_eq!(content.batch().await.unwrap_err().status, 408);
        });
    }
}
