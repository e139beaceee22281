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
use std::task::{Context, Poll, ready};

/// A value of the embedder's. It is dropped at once when a call of it panics, and a panic of the drop
/// is caught as well.
pub(crate) struct Contained<T>(Option<T>);

impl<T> Contained<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// Calls `act` with the value.
    ///
    /// # Errors
    /// It panics, or has before.
    pub(crate) fn call<R>(&mut self, act: impl FnOnce(&mut T) -> R) -> Result<R, BoxError> {
        let value = self.0.as_mut().ok_or("panicked before")?;
        let called = contain(|| act(value));
        if called.is_err() {
            self.discard();
        }
        called
    }

    fn discard(&mut self) {
        if let Some(value) = self.0.take() {
            // The hook has reported it, and there is nobody else to tell.
            let _ = contain(|| drop(value));
        }
    }
}

impl<T> Drop for Contained<T> {
    fn drop(&mut self) {
        self.discard();
    }
}

/// Calls `act`, whose panic is an error.
///
/// # Errors
/// It panics.
pub(crate) fn contain<R>(act: impl FnOnce() -> R) -> Result<R, BoxError> {
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
pub(crate) struct ContainedBody<B>(Contained<Pin<Box<B>>>);

impl<B> ContainedBody<B> {
    pub(crate) fn new(body: B) -> Self {
        Self(Contained::new(Box::pin(body)))
    }
}

impl<B> Body for ContainedBody<B>
where
    B: Body<Error: Into<BoxError>>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let bytes = |mut data: B::Data| data.copy_to_bytes(data.remaining());
        let polled = self.0.call(|body| {
            Poll::Ready(match ready!(body.as_mut().poll_frame(cx)) {
                Some(Ok(frame)) => Some(Ok(frame.map_data(bytes))),
                Some(Err(error)) => Some(Err(error.into())),
                None => None,
            })
        });
        polled.unwrap_or_else(|panic| Poll::Ready(Some(Err(panic))))
    }

    /// One that panics has not ended: its next frame is the error.
    fn is_end_stream(&self) -> bool {
        let body = self.0.0.as_ref();
        body.is_some_and(|body| contain(|| body.is_end_stream()).unwrap_or(false))
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.0.0.as_ref();
        let hint = body.map(|body| contain(|| body.size_hint()).unwrap_or_default());
        hint.unwrap_or_default()
    }
}
