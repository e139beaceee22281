//! A response's body between the task that polls it and the worker that sends it.

use super::AbortOnDrop;
use crate::request::body::Body;
use crate::request::handler::BoxError;
use bytes::Bytes;
use http::Response;
use http_body::{Body as _, Frame, SizeHint};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Semaphore, oneshot};

/// Bytes of a body that wait for its worker at most, besides one frame. A larger frame waits alone.
const MAX_AHEAD: u32 = 64 << 10;

/// Bytes that a frame counts for at least: 128 frames wait at most.
const MIN_COST: u32 = 512;

/// A body as the worker receives it.
pub(super) enum BridgedBody {
    /// All of it.
    Whole(Bytes),
    /// The frames that are still to come.
    Queue(Queue),
}

/// Frames of a body that wait for the worker, and what is known of the rest.
pub(super) struct Queue {
    frames: UnboundedReceiver<Item>,
    /// Permits for the bytes for which there is room.
    room: Arc<Semaphore>,
    rest: BodyRemainder,
}

/// A body's own statements about the rest of it: its size hint, and whether it has ended.
struct BodyRemainder {
    hint: SizeHint,
    ended: bool,
}

struct Item {
    /// `None`: the end.
    frame: Option<Result<Frame<Bytes>, BoxError>>,
    cost: u32,
    /// The rest of the body after the frame.
    rest: BodyRemainder,
}

/// Passes `response` to the worker, then its body as fast as the worker takes it.
pub(super) async fn carry(
    response: Response<Body>,
    head: oneshot::Sender<Result<Response<BridgedBody>, BoxError>>,
) {
    let (parts, mut body) = response.into_parts();
    let rest = BodyRemainder::of(&body);
    // Most bodies are there at once, and need no second wake of the worker.
    let first = match rest.ended {
        true => Poll::Ready(None),
        false => poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await,
    };
    if let Some(whole) = whole(&rest, &first, &body) {
        let _ = head.send(Ok(Response::from_parts(parts, BridgedBody::Whole(whole))));
        return;
    }
    let (sender, frames) = unbounded_channel();
    let room = Arc::new(Semaphore::new(MAX_AHEAD as usize));
    let queue = Queue {
        frames,
        room: Arc::clone(&room),
        rest,
    };
    let carried = Response::from_parts(parts, BridgedBody::Queue(queue));
    if head.send(Ok(carried)).is_err() {
        return;
    }
    let mut next = match first {
        Poll::Ready(frame) => frame,
        Poll::Pending => frame(&mut body).await,
    };
    loop {
        let item = Item::new(next, &body);
        let last = item.is_last();
        // It is never closed.
        let Ok(permits) = room.acquire_many(item.cost).await else {
            return;
        };
        permits.forget();
        if sender.send(item).is_err() || last {
            return;
        }
        next = frame(&mut body).await;
    }
}

async fn frame(body: &mut Body) -> Option<Result<Frame<Bytes>, BoxError>> {
    poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}

/// The content, if the first frame is all of a body of known length.
fn whole(
    rest: &BodyRemainder,
    first: &Poll<Option<Result<Frame<Bytes>, BoxError>>>,
    body: &Body,
) -> Option<Bytes> {
    let bytes = match first {
        Poll::Ready(None) => Bytes::new(),
        Poll::Ready(Some(Ok(frame))) if body.is_end_stream() => frame.data_ref()?.clone(),
        _ => return None,
    };
    (rest.hint.exact() == Some(bytes.len() as u64)).then_some(bytes)
}

impl Item {
    /// Makes an item of the frame that `body` has just given.
    fn new(frame: Option<Result<Frame<Bytes>, BoxError>>, body: &Body) -> Self {
        let data = frame
            .as_ref()
            .and_then(|frame| frame.as_ref().ok()?.data_ref());
        let len = data.map_or(0, |data| u32::try_from(data.len()).unwrap_or(u32::MAX));
        Self {
            frame,
            cost: len.clamp(MIN_COST, MAX_AHEAD),
            rest: BodyRemainder::of(body),
        }
    }

    fn is_last(&self) -> bool {
        self.rest.ended || !matches!(self.frame, Some(Ok(_)))
    }
}

impl BodyRemainder {
    fn of(body: &Body) -> Self {
        Self {
            hint: body.size_hint(),
            ended: body.is_end_stream(),
        }
    }
}

impl BridgedBody {
    /// The body, which ends `task` when it is dropped.
    pub(super) fn into_body(self, task: AbortOnDrop) -> Body {
        match self {
            Self::Whole(bytes) => Body::bytes(bytes),
            Self::Queue(queue) => Body::stream(BridgedBodyReader { queue, _task: task }, None),
        }
    }
}

/// The worker's end.
struct BridgedBodyReader {
    queue: Queue,
    _task: AbortOnDrop,
}

impl http_body::Body for BridgedBodyReader {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let queue = &mut self.queue;
        if queue.rest.ended {
            return Poll::Ready(None);
        }
        let Some(item) = ready!(queue.frames.poll_recv(cx)) else {
            // Else what came so far would pass for all of it.
            let error = "the program's runtime has shut down".into();
            return Poll::Ready(Some(Err(error)));
        };
        queue.room.add_permits(item.cost as usize);
        queue.rest = item.rest;
        queue.rest.ended |= item.frame.is_none();
        Poll::Ready(item.frame)
    }

    fn is_end_stream(&self) -> bool {
        self.queue.rest.ended
    }

    fn size_hint(&self) -> SizeHint {
        self.queue.rest.hint
    }
}
