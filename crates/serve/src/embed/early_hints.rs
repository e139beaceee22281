//! 103 (Early Hints, RFC 8297): fields that a handler has its client see before the response.

use http::HeaderMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

/// Interim responses that one request may have.
const MAX_HINTS: usize = 8;

/// Sends 103 responses ahead of the response to a request: found in the request's extensions.
///
/// Over HTTP/2 and HTTP/3. Over HTTP/1.1 the engine has no way to send one, and RFC 8297 section 3 warns of
/// clients that take it for the response: there [`send`](Self::send) fails, and nothing else happens.
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
pub struct EarlyHints(Option<Arc<Mutex<Queue>>>);

/// Why hints were not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EarlyHintsError {
    /// The request came over HTTP/1.1.
    #[error("early hints are sent over HTTP/2 and HTTP/3 only")]
    Unsupported,
    /// The response has begun, or its client is gone.
    #[error("the response has begun: it is too late for early hints")]
    TooLate,
    /// Eight were sent before.
    #[error("a request has {MAX_HINTS} interim responses at most")]
    TooMany,
}

impl EarlyHints {
    /// A handle that can send if `supported`, and what it sends.
    pub(super) fn new(supported: bool) -> (Self, Hints) {
        let queue = supported.then(Arc::default);
        (Self(queue.clone()), Hints(queue))
    }

    /// Sends a 103 response with `fields`, usually Link. Returns at once; what is sent before the handler
    /// returns goes out before the response.
    ///
    /// # Errors
    /// [`EarlyHintsError`].
    pub fn send(&self, fields: HeaderMap) -> Result<(), EarlyHintsError> {
        let queue = self.0.as_ref().ok_or(EarlyHintsError::Unsupported)?;
        let mut queue = lock(queue);
        if queue.closed {
            return Err(EarlyHintsError::TooLate);
        }
        if queue.sent == MAX_HINTS {
            return Err(EarlyHintsError::TooMany);
        }
        queue.sent += 1;
        queue.waiting.push_back(fields);
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
    waiting: VecDeque<HeaderMap>,
    sent: usize,
    closed: bool,
    waker: Option<Waker>,
}

/// The connection's end.
#[derive(Debug)]
pub(crate) struct Hints(Option<Arc<Mutex<Queue>>>);

impl Hints {
    /// Of an answer that has none.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// What is to be sent next. With `None` the task is woken when there is something.
    pub(super) fn next(&mut self, cx: &Context<'_>) -> Option<HeaderMap> {
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
        if let Some(queue) = &self.0 {
            let mut queue = lock(queue);
            queue.closed = true;
            queue.waiting.clear();
        }
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    // A panic between two of its lines leaves nothing half done.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_come_in_order_and_are_bounded() {
        let (handle, mut hints) = EarlyHints::new(true);
        let cx = Context::from_waker(Waker::noop());
        let numbered = |n: usize| HeaderMap::from_iter([(http::header::LINK, n.into())]);
        for n in 0..MAX_HINTS {
            assert_eq!(handle.send(numbered(n)), Ok(()));
        }
        assert_eq!(handle.send(numbered(9)), Err(EarlyHintsError::TooMany));
        for n in 0..MAX_HINTS {
            assert_eq!(hints.next(&cx), Some(numbered(n)));
        }
        assert_eq!(hints.next(&cx), None);
    }

    #[test]
    fn hints_that_nobody_sends_are_refused() {
        let (handle, hints) = EarlyHints::new(true);
        drop(hints);
        let refused = handle.send(HeaderMap::new());
        assert_eq!(refused, Err(EarlyHintsError::TooLate));
        let (handle, _hints) = EarlyHints::new(false);
        let refused = handle.send(HeaderMap::new());
        assert_eq!(refused, Err(EarlyHintsError::Unsupported));
    }
}
