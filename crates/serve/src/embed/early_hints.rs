//! Interim responses: fields that a handler has its client see before the response, with 103 (Early Hints, RFC 8297)
//! or another status that the client has asked for.

use crate::locks::lock;
use http::{HeaderMap, StatusCode, Version};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

/// Interim responses that one request may have.
const MAX_HINTS: usize = 8;

/// Sends 103 responses ahead of the response to a request: found in the request's extensions.
///
/// Hints go out over HTTP/2 and HTTP/3. RFC 8297 section 3 warns that clients of HTTP/1.1 may take a 103 for the
/// response: there [`send`](Self::send) fails, and nothing is sent. [`send_interim`](Self::send_interim) is for
/// interim responses that the client has asked for.
///
/// ```
/// use altway_serve::EarlyHints;
/// use axum::Extension;
/// use axum::http::{HeaderMap, HeaderValue, header::LINK};
///
/// async fn page(Extension(hints): Extension<EarlyHints>) -> String {
///     let style = HeaderValue::from_static("</style.css>; rel=preload; as=style");
///     // Clients that get no hints get the page all the same.
///     let _ = hints.send(HeaderMap::from_iter([(LINK, style)]));
///     "<link rel=stylesheet href=/style.css>".to_owned()
/// }
/// ```
#[derive(Debug, Clone)]
pub struct EarlyHints {
    /// `None`: the protocol has no interim responses (RFC 9110 section 15.2).
    queue: Option<Arc<Mutex<Queue>>>,
    takes_hints: bool,
}

/// Reasons why hints were not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EarlyHintsError {
    /// The request came over HTTP/1.1, or is for another status over HTTP/1.0.
    #[error("early hints are sent over HTTP/2 and HTTP/3 only")]
    Unsupported,
    /// The status is not that of an interim response, or one that the server sends itself (100, 101).
    #[error("the status is none of an interim response")]
    NotInterim,
    /// The response has begun, or its client is gone.
    #[error("the response has begun: it is too late for early hints")]
    TooLate,
    /// Eight were sent before.
    #[error("a request has {MAX_HINTS} interim responses at most")]
    TooMany,
}

impl EarlyHints {
    /// A handle that can send what a protocol takes, and what it sends.
    pub(super) fn new(version: Version) -> (Self, Hints) {
        let queue = (version >= Version::HTTP_11).then(spare);
        let hints = Hints(queue.clone());
        let takes_hints = version >= Version::HTTP_2;
        (Self { queue, takes_hints }, hints)
    }

    /// Sends a 103 response with `fields`, usually Link. Returns at once; what is sent before the handler
    /// returns goes out before the response.
    ///
    /// # Errors
    /// [`EarlyHintsError`].
    pub fn send(&self, fields: HeaderMap) -> Result<(), EarlyHintsError> {
        match self.takes_hints {
            true => self.queue(StatusCode::EARLY_HINTS, fields),
            false => Err(EarlyHintsError::Unsupported),
        }
    }

    /// Sends an interim response of another status (RFC 9110 section 15.2), as [`send`](Self::send) does, to a client
    /// that has asked for it, over HTTP/1.1 as well. There it is not sent if the response overtakes it.
    ///
    /// # Errors
    /// [`EarlyHintsError`].
    pub fn send_interim(
        &self,
        status: StatusCode,
        fields: HeaderMap,
    ) -> Result<(), EarlyHintsError> {
        match status.as_u16() {
            103 => self.send(fields),
            102..200 => self.queue(status, fields),
            _ => Err(EarlyHintsError::NotInterim),
        }
    }

    fn queue(&self, status: StatusCode, fields: HeaderMap) -> Result<(), EarlyHintsError> {
        let queue = self.queue.as_ref().ok_or(EarlyHintsError::Unsupported)?;
        let mut queue = lock(queue);
        if queue.closed {
            return Err(EarlyHintsError::TooLate);
        }
        if queue.sent == MAX_HINTS {
            return Err(EarlyHintsError::TooMany);
        }
        queue.sent += 1;
        queue.waiting.push_back((status, fields));
        let waker = queue.waker.take();
        // The connection may look at once.
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Queue {
    /// [`MAX_HINTS`] at most.
    waiting: VecDeque<(StatusCode, HeaderMap)>,
    sent: usize,
    closed: bool,
    waker: Option<Waker>,
}

/// The connection's end.
#[derive(Debug)]
pub(crate) struct Hints(Option<Arc<Mutex<Queue>>>);

impl Hints {
    /// Returns the hints of an answer that has none.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Returns the next interim response. With `None` the task is woken when there is one.
    pub(super) fn next(&mut self, cx: &Context<'_>) -> Option<(StatusCode, HeaderMap)> {
        let mut queue = lock(self.0.as_ref()?);
        let next = queue.waiting.pop_front();
        if next.is_none() {
            match &mut queue.waker {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
        }
        next
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        let Some(mut queue) = self.0.take() else {
            return;
        };
        match Arc::get_mut(&mut queue) {
            // Nobody can send any more.
            Some(own) => {
                let own = own.get_mut().unwrap_or_else(PoisonError::into_inner);
                own.begin_anew();
                // A thread that ends keeps none.
                let _ = SPARE.try_with(|spare| {
                    let mut spare = spare.borrow_mut();
                    if spare.len() < MAX_SPARE {
                        spare.push(queue);
                    }
                });
            }
            None => {
                let mut queue = lock(&queue);
                queue.closed = true;
                queue.waiting.clear();
            }
        }
    }
}

impl Queue {
    /// Makes it that of another request. What it had room for goes.
    fn begin_anew(&mut self) {
        *self = Self::default();
    }
}

/// Queues that a thread keeps for its next requests, about 100 bytes each.
const MAX_SPARE: usize = 64;

thread_local! {
    static SPARE: RefCell<Vec<Arc<Mutex<Queue>>>> = const { RefCell::new(Vec::new()) };
}

/// An empty queue: most requests send no hints, and each has one.
fn spare() -> Arc<Mutex<Queue>> {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_come_in_order_and_are_bounded() {
        let (handle, mut hints) = EarlyHints::new(Version::HTTP_2);
        let cx = Context::from_waker(Waker::noop());
        let numbered = |n: usize| HeaderMap::from_iter([(http::header::LINK, n.into())]);
        for n in 0..MAX_HINTS {
            assert_eq!(handle.send(numbered(n)), Ok(()));
        }
        assert_eq!(handle.send(numbered(9)), Err(EarlyHintsError::TooMany));
        for n in 0..MAX_HINTS {
            assert_eq!(
                hints.next(&cx),
                Some((StatusCode::EARLY_HINTS, numbered(n)))
            );
        }
        assert_eq!(hints.next(&cx), None);
    }

    #[test]
    fn a_queue_that_was_used_begins_anew() {
        let (handle, hints) = EarlyHints::new(Version::HTTP_2);
        let link = HeaderMap::from_iter([(http::header::LINK, 1.into())]);
        for _ in 0..MAX_HINTS {
            handle.send(link.clone()).unwrap();
        }
        drop(handle);
        drop(hints);
        let (handle, mut hints) = EarlyHints::new(Version::HTTP_2);
        let cx = Context::from_waker(Waker::noop());
        assert_eq!(hints.next(&cx), None, "nothing is left of the one before");
        assert_eq!(handle.send(link), Ok(()));
        assert!(hints.next(&cx).is_some());
    }

    #[test]
    fn hints_that_nobody_sends_are_refused() {
        let (handle, hints) = EarlyHints::new(Version::HTTP_3);
        drop(hints);
        let refused = handle.send(HeaderMap::new());
        assert_eq!(refused, Err(EarlyHintsError::TooLate));
        let (handle, mut hints) = EarlyHints::new(Version::HTTP_11);
        let refused = handle.send(HeaderMap::new());
        assert_eq!(refused, Err(EarlyHintsError::Unsupported));
        let asked_for = StatusCode::from_u16(104).unwrap();
        assert_eq!(handle.send_interim(asked_for, HeaderMap::new()), Ok(()));
        let cx = Context::from_waker(Waker::noop());
        assert_eq!(hints.next(&cx), Some((asked_for, HeaderMap::new())));
        for (status, error) in [
            (StatusCode::EARLY_HINTS, EarlyHintsError::Unsupported),
            (StatusCode::CONTINUE, EarlyHintsError::NotInterim),
            (StatusCode::SWITCHING_PROTOCOLS, EarlyHintsError::NotInterim),
            (StatusCode::OK, EarlyHintsError::NotInterim),
        ] {
            assert_eq!(handle.send_interim(status, HeaderMap::new()), Err(error));
        }
        let (handle, _hints) = EarlyHints::new(Version::HTTP_10);
        let refused = handle.send_interim(asked_for, HeaderMap::new());
        assert_eq!(refused, Err(EarlyHintsError::Unsupported));
    }
}
