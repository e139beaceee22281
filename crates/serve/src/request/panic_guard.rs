//! The embedder's code, kept from harming more than its own request: a panic in it is an error.
//!
//! All exchanges of a connection are polled in one task, and those of all HTTP/3 connections of a
//! worker in one: what unwinds there would take all of them along.

use crate::request::handler::BoxError;
use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

/// A value of the embedder's. It is dropped at once when a call of it panics, and a panic of the drop
/// is caught as well.
pub(crate) struct PanicGuard<T>(Option<T>);

impl<T> PanicGuard<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// Calls `act` with the value.
    ///
    /// # Errors
    /// `act` panics, or a former call has.
    pub(crate) fn call<R>(&mut self, act: impl FnOnce(&mut T) -> R) -> Result<R, BoxError> {
        let value = self.0.as_mut().ok_or("panicked before")?;
        let called = catch_panic(|| act(value));
        if called.is_err() {
            self.discard();
        }
        called
    }

    /// Drops the value where it is: it may be large, and to move it out first would copy it.
    fn discard(&mut self) {
        if self.0.is_some() {
            // The hook has reported it, and there is nobody else to tell. It is gone also where its drop panics.
            let _ = catch_panic(|| self.0 = None);
        }
    }
}

impl<T> Drop for PanicGuard<T> {
    fn drop(&mut self) {
        self.discard();
    }
}

/// Calls `act`, whose panic is an error.
///
/// # Errors
/// `act` panics.
pub(crate) fn catch_panic<R>(act: impl FnOnce() -> R) -> Result<R, BoxError> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| panicked(&*panic))
}

/// A panic's message, as an error.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> BoxError {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", message.unwrap_or("no message")).into()
}

/// A body of the embedder's, whose panics are errors of the body.
pub(crate) struct PanicGuardBody<B> {
    body: PanicGuard<B>,
    /// The frame that the body gave when it was asked ahead.
    first: Option<Polled>,
}

/// A frame of a body, or its end.
type Polled = Option<Result<Frame<Bytes>, BoxError>>;

impl<B> PanicGuardBody<B>
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    pub(crate) fn new(body: B) -> Self {
        Self {
            body: PanicGuard::new(body),
            first: None,
        }
    }

    /// All of it, where it is there at once, in one piece and of a known length up to `most`: then nothing of the
    /// embedder's is left to be called.
    pub(crate) fn at_once(&mut self, most: u64) -> Option<Bytes> {
        let length = self.size_hint().exact().filter(|it| *it <= most)?;
        if self.is_end_stream() {
            return Some(Bytes::new());
        }
        // What isn't ready is polled again before anybody waits.
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(polled) = self.poll_inner(&mut context) else {
            return None;
        };
        match polled {
            Some(Ok(frame))
                if frame.data_ref().is_some_and(|it| it.len() as u64 == length)
                    && self.is_end_stream() =>
            {
                frame.into_data().ok()
            }
            polled => {
                self.first = Some(polled);
                None
            }
        }
    }

    fn poll_inner(&mut self, cx: &mut Context<'_>) -> Poll<Polled> {
        let bytes = |mut data: B::Data| data.copy_to_bytes(data.remaining());
        let polled = self.body.call(|body| {
            Poll::Ready(match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => Some(Ok(frame.map_data(bytes))),
                Some(Err(error)) => Some(Err(error.into())),
                None => None,
            })
        });
        polled.unwrap_or_else(|panic| Poll::Ready(Some(Err(panic))))
    }
}

impl<B> Body for PanicGuardBody<B>
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.first.take() {
            Some(polled) => Poll::Ready(polled),
            None => self.poll_inner(cx),
        }
    }

    /// Returns whether the body has ended. One that panics has not: its next frame is the error.
    fn is_end_stream(&self) -> bool {
        let body = self.body.0.as_ref();
        self.first.is_none()
            && body.is_some_and(|body| catch_panic(|| body.is_end_stream()).unwrap_or(false))
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.0.as_ref();
        let hint = body.map(|body| catch_panic(|| body.size_hint()).unwrap_or_default());
        let hint = hint.unwrap_or_default();
        let ahead = match &self.first {
            Some(Some(Ok(frame))) => frame.data_ref().map_or(0, Bytes::len) as u64,
            _ => 0,
        };
        match hint.exact() {
            _ if ahead == 0 => hint,
            Some(rest) => SizeHint::with_exact(rest.saturating_add(ahead)),
            None => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{Full, StreamBody};
    use std::cell::Cell;
    use std::convert::Infallible;

    fn frames(sizes: &[usize]) -> impl Body<Data = Bytes, Error = Infallible> + use<> {
        let frames: Vec<_> = sizes
            .iter()
            .map(|size| Bytes::from(vec![7; *size]))
            .collect();
        StreamBody::new(futures_util::stream::iter(
            frames.into_iter().map(|data| Ok(Frame::data(data))),
        ))
    }

    fn read<B: Body<Error: Into<BoxError>> + Unpin>(body: &mut PanicGuardBody<B>) -> Vec<usize> {
        let mut context = Context::from_waker(Waker::noop());
        let mut sizes = Vec::new();
        while let Poll::Ready(Some(frame)) = Pin::new(&mut *body).poll_frame(&mut context) {
            sizes.push(frame.unwrap().into_data().unwrap().len());
        }
        sizes
    }

    #[test]
    fn a_short_body_that_is_there_is_taken_whole() {
        let mut body = PanicGuardBody::new(Full::new(Bytes::from_static(b"hello")));
        assert_eq!(body.at_once(5).unwrap(), "hello");
        let mut body = PanicGuardBody::new(Full::new(Bytes::new()));
        assert_eq!(body.at_once(5).unwrap(), "");
    }

    #[test]
    fn a_value_is_dropped_once_where_its_drop_panics() {
        struct Panicking<'d>(&'d Cell<u32>);
        impl Drop for Panicking<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
                panic!("dropped");
            }
        }
        let drops = Cell::new(0);
        let mut guard = PanicGuard::new(Panicking(&drops));
        assert!(guard.call(|_| ()).is_ok());
        assert!(guard.call(|_| panic!("called")).is_err());
        assert!(guard.call(|_| ()).is_err());
        drop(guard);
        assert_eq!(drops.get(), 1);
        drop(PanicGuard::new(Panicking(&drops)));
        assert_eq!(drops.get(), 2);
    }

    #[test]
    fn what_is_longer_or_of_unknown_length_stays_a_stream_and_is_given_whole() {
        let mut body = PanicGuardBody::new(Full::new(Bytes::from_static(b"longer")));
        assert_eq!(body.at_once(5), None);
        assert_eq!(read(&mut body), [6]);
        let mut body = PanicGuardBody::new(frames(&[1, 2]));
        assert_eq!(body.at_once(5), None);
        assert_eq!(read(&mut body), [1, 2]);
        let mut body = PanicGuardBody::new(Halves(2));
        assert_eq!(body.at_once(5), None);
        assert_eq!(body.size_hint().exact(), Some(4));
        assert!(!body.is_end_stream());
        assert_eq!(read(&mut body), [2, 2]);
        assert!(body.is_end_stream());
    }

    /// A body of two bytes a frame, whose length is known.
    struct Halves(u64);

    impl Body for Halves {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.0 == 0 {
                return Poll::Ready(None);
            }
            self.0 -= 1;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"ab")))))
        }

        fn is_end_stream(&self) -> bool {
            self.0 == 0
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0 * 2)
        }
    }
}
