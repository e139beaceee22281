//! An open WebSocket: a stream and a sink of messages.

use super::message::Message;
use crate::Tunnel;
use crate::request::handler::BoxError;
use futures_util::stream::FusedStream;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use http::HeaderValue;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio_tungstenite::WebSocketStream;

/// An open WebSocket, which is also a `Stream` and a `Sink` of messages, for `StreamExt::split`.
///
/// Pings are answered, and a close frame too, as long as messages are received.
#[derive(Debug)]
pub struct WebSocket {
    inner: WebSocketStream<Tunnel>,
    protocol: Option<HeaderValue>,
}

/// The error by which a WebSocket failed: its client broke the protocol or is gone, or a message is too
/// large, or is not the text that was asked for.
#[derive(Debug, thiserror::Error)]
#[error("the WebSocket failed")]
pub struct WebSocketError(#[source] BoxError);

impl WebSocketError {
    pub(super) fn new(source: impl Into<BoxError>) -> Self {
        Self(source.into())
    }
}

impl WebSocket {
    pub(super) fn new(inner: WebSocketStream<Tunnel>, protocol: Option<HeaderValue>) -> Self {
        Self { inner, protocol }
    }

    /// Receives a message; `None` once the WebSocket is closed.
    pub async fn recv(&mut self) -> Option<Result<Message, WebSocketError>> {
        self.next().await
    }

    /// Sends a message: returns when it is written, up to 64 KiB of it ahead of the client.
    ///
    /// # Errors
    /// The WebSocket is closed, or failed; or the message breaks a limit.
    pub async fn send(&mut self, message: Message) -> Result<(), WebSocketError> {
        self.inner
            .send(message.into_implementation())
            .await
            .map_err(WebSocketError::new)
    }

    /// The subprotocol that was [selected](super::WebSocketUpgrade::protocols).
    #[must_use]
    pub fn protocol(&self) -> Option<&HeaderValue> {
        self.protocol.as_ref()
    }
}

impl Stream for WebSocket {
    type Item = Result<Message, WebSocketError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.inner.poll_next_unpin(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(WebSocketError::new(error)))),
                Some(Ok(message)) => {
                    if let Some(message) = Message::of_implementation(message) {
                        return Poll::Ready(Some(Ok(message)));
                    }
                }
            }
        }
    }
}

impl FusedStream for WebSocket {
    fn is_terminated(&self) -> bool {
        self.inner.is_terminated()
    }
}

impl Sink<Message> for WebSocket {
    type Error = WebSocketError;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready_unpin(cx).map_err(WebSocketError::new)
    }

    fn start_send(mut self: Pin<&mut Self>, message: Message) -> Result<(), Self::Error> {
        let message = message.into_implementation();
        self.inner
            .start_send_unpin(message)
            .map_err(WebSocketError::new)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_flush_unpin(cx).map_err(WebSocketError::new)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_close_unpin(cx).map_err(WebSocketError::new)
    }
}
