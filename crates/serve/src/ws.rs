//! WebSockets in axum handlers, over HTTP/1.1 (RFC 6455), HTTP/2 (RFC 8441) and HTTP/3 (RFC 9220).
//!
//! axum's own `WebSocketUpgrade` works only with hyper's upgrades, which no other server can make. This one is
//! used in the same way: change the `use` lines, and leave the handlers as they are. Make routes with
//! `axum::routing::any`, because over HTTP/2 and HTTP/3 the method is CONNECT.
//!
//! ```
//! use altway_serve::ws::{WebSocket, WebSocketUpgrade};
//! use axum::{Router, response::Response, routing::any};
//!
//! async fn upgrade(upgrade: WebSocketUpgrade) -> Response {
//!     upgrade.max_message_size(1 << 20).on_upgrade(echo)
//! }
//!
//! async fn echo(mut socket: WebSocket) {
//!     while let Some(Ok(message)) = socket.recv().await {
//!         if socket.send(message).await.is_err() {
//!             return;
//!         }
//!     }
//! }
//!
//! let app: Router = Router::new().route("/", any(upgrade));
//! ```
//!
//! When the client disconnects, receiving and sending fail at once, so that a handler comes to what follows its loop.
//! A handler has five seconds for that: then the future of `on_upgrade` is dropped, also where it waits for something else than
//! its client, for which axum's would wait for ever. A client that only closes its half of the
//! stream stays connected: [`WebSocket::recv`] returns `None`, or an error. A WebSocket over which no byte moves
//! for [`Limits::idle_timeout`](crate::Limits::idle_timeout) ends, so applications that are silent for longer
//! should send a [`Message::Ping`] now and then.

mod message;
mod rejection;
mod socket;

pub use message::{CloseCode, CloseFrame, Message, Utf8Bytes, close_code};
pub use rejection::WebSocketUpgradeRejection;
pub use socket::{WebSocket, WebSocketError};

use crate::request::upgrade::{WEBSOCKET, has_token};
use crate::{Tunnel, Upgrade, UpgradeError};
use axum_core::extract::FromRequestParts;
use axum_core::response::{IntoResponse as _, Response};
use http::header::{
    CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Version};
use std::borrow::Cow;
use std::fmt;
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

/// Bytes of the buffer that each WebSocket reads into; tungstenite's default is 128 KiB.
const READ_BUFFER: usize = 8 << 10;

/// Time that a handler has for what it does once its client is gone.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// Extractor of a request that asks for a WebSocket. [`on_upgrade`](Self::on_upgrade) makes the response.
#[must_use = "a client waits for the response that `on_upgrade` makes"]
pub struct WebSocketUpgrade<F = IgnoreFailure> {
    upgrade: Upgrade,
    config: WebSocketConfig,
    requested: Vec<HeaderValue>,
    selected: Option<HeaderValue>,
    on_failed_upgrade: F,
}

/// A callback that does nothing with an upgrade that fails.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct IgnoreFailure;

/// A callback for an upgrade that fails: [`WebSocketUpgrade::on_failed_upgrade`].
pub trait OnFailedUpgrade: Send + 'static {
    /// Called once.
    fn call(self, error: UpgradeError);
}

impl OnFailedUpgrade for IgnoreFailure {
    fn call(self, _: UpgradeError) {}
}

impl<F: FnOnce(UpgradeError) + Send + 'static> OnFailedUpgrade for F {
    fn call(self, error: UpgradeError) {
        self(error);
    }
}

impl<F> fmt::Debug for WebSocketUpgrade<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketUpgrade")
            .field("requested", &self.requested)
            .field("selected", &self.selected)
            .finish_non_exhaustive()
    }
}

impl<F> WebSocketUpgrade<F> {
    /// Sets the subprotocols that the application supports, the preferred one first. The first of them that the
    /// client asks for is selected, and named in the response (RFC 6455 section 4.2.2). Names that can't be in a
    /// field are left out.
    pub fn protocols<I>(mut self, protocols: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<Cow<'static, str>>,
    {
        let mut known = protocols.into_iter().map(Into::into);
        self.selected = known.find_map(|protocol| {
            let is_known = |it: &&HeaderValue| it.as_bytes() == protocol.as_bytes();
            self.requested.iter().find(is_known).cloned()
        });
        self
    }

    /// The subprotocols that the client asks for, in its order.
    pub fn requested_protocols(&self) -> impl Iterator<Item = &HeaderValue> {
        self.requested.iter()
    }

    /// Selects a subprotocol, also one that the client did not ask for, which browsers refuse.
    pub fn set_selected_protocol(&mut self, protocol: HeaderValue) {
        self.selected = Some(protocol);
    }

    /// The subprotocol that is selected, if any is.
    #[must_use]
    pub fn selected_protocol(&self) -> Option<&HeaderValue> {
        self.selected.as_ref()
    }

    /// Bytes of the buffer that the WebSocket reads into, which it has as long as it lives. Default 8 KiB.
    pub fn read_buffer_size(mut self, bytes: usize) -> Self {
        self.config.read_buffer_size = bytes;
        self
    }

    /// Bytes of messages that are collected before they are written, unless they are flushed, which
    /// [`WebSocket::send`] does. Default 128 KiB; 0: none.
    pub fn write_buffer_size(mut self, bytes: usize) -> Self {
        self.config.write_buffer_size = bytes;
        self
    }

    /// The most bytes of messages that wait for a slow client; more is an error. Must be larger than
    /// [`write_buffer_size`](Self::write_buffer_size). Default: no limit, as [`WebSocket::send`] waits until its
    /// message is written.
    pub fn max_write_buffer_size(mut self, bytes: usize) -> Self {
        self.config.max_write_buffer_size = bytes;
        self
    }

    /// The largest message that is accepted, in bytes; a larger one ends the WebSocket. Default 64 MiB.
    pub fn max_message_size(mut self, bytes: usize) -> Self {
        self.config.max_message_size = Some(bytes);
        self
    }

    /// The largest frame that is accepted, in bytes; a larger one ends the WebSocket. Default 16 MiB.
    pub fn max_frame_size(mut self, bytes: usize) -> Self {
        self.config.max_frame_size = Some(bytes);
        self
    }

    /// Accepts frames without a mask, which RFC 6455 section 5.1 forbids clients to send. Default off.
    pub fn accept_unmasked_frames(mut self, accept: bool) -> Self {
        self.config.accept_unmasked_frames = accept;
        self
    }

    /// Sets the function that is called when there is no WebSocket after all: the client is gone, or a layer
    /// has replaced the response.
    pub fn on_failed_upgrade<C: OnFailedUpgrade>(self, callback: C) -> WebSocketUpgrade<C> {
        WebSocketUpgrade {
            upgrade: self.upgrade,
            config: self.config,
            requested: self.requested,
            selected: self.selected,
            on_failed_upgrade: callback,
        }
    }

    /// The response that opens the WebSocket. When it is sent, `callback` is called with the WebSocket, in a
    /// task of its own. Its future is dropped if it has not ended five seconds after the client is gone.
    ///
    /// # Panics
    /// Outside of a Tokio runtime; handlers always run in one.
    #[must_use = "the WebSocket opens when this response is sent"]
    pub fn on_upgrade<C, Fut>(self, callback: C) -> Response
    where
        C: FnOnce(WebSocket) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
        F: OnFailedUpgrade,
    {
        let Ok((mut response, on_upgrade)) = self.upgrade.accept() else {
            return WebSocketUpgradeRejection::ConnectionNotUpgradable.into_response();
        };
        if let Some(protocol) = &self.selected {
            let fields = response.headers_mut();
            fields.insert(SEC_WEBSOCKET_PROTOCOL, protocol.clone());
        }
        let (config, selected, failed) = (self.config, self.selected, self.on_failed_upgrade);
        tokio::spawn(async move {
            match on_upgrade.await {
                Ok(tunnel) => run(tunnel, config, selected, callback).await,
                Err(error) => failed.call(error),
            }
        });
        response
    }
}

/// Calls back with the WebSocket of a tunnel, until some time after its client is gone.
async fn run<C, Fut>(
    tunnel: Tunnel,
    config: WebSocketConfig,
    protocol: Option<HeaderValue>,
    callback: C,
) where
    C: FnOnce(WebSocket) -> Fut,
    Fut: Future<Output = ()>,
{
    let gone = tunnel.gone();
    let stream = WebSocketStream::from_raw_socket(tunnel, Role::Server, Some(config)).await;
    let mut callback = pin!(callback(WebSocket::new(stream, protocol)));
    tokio::select! {
        biased;
        () = &mut callback => return,
        () = gone => {}
    }
    // What it receives or sends has failed by now: what follows its loop has the time to run.
    let _ = timeout(CLEAN_UP_TIMEOUT, callback).await;
}

impl<S: Send + Sync> FromRequestParts<S> for WebSocketUpgrade {
    type Rejection = WebSocketUpgradeRejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        check(parts)?;
        let upgrade = parts.extensions.remove::<Upgrade>();
        let upgrade = upgrade.ok_or(WebSocketUpgradeRejection::ConnectionNotUpgradable)?;
        let config = WebSocketConfig::default();
        Ok(Self {
            upgrade,
            config: config.read_buffer_size(READ_BUFFER),
            requested: requested(&parts.headers),
            selected: None,
            on_failed_upgrade: IgnoreFailure,
        })
    }
}

/// Checks the client's part of the opening handshake (RFC 6455 section 4.2.1, RFC 8441 section 5).
fn check(parts: &Parts) -> Result<(), WebSocketUpgradeRejection> {
    let fields = &parts.headers;
    if parts.version <= Version::HTTP_11 {
        if parts.method != Method::GET {
            return Err(WebSocketUpgradeRejection::MethodNotGet);
        }
        if !has_token(fields, &CONNECTION, "upgrade") {
            return Err(WebSocketUpgradeRejection::InvalidConnectionHeader);
        }
        if !has_token(fields, &UPGRADE, WEBSOCKET) {
            return Err(WebSocketUpgradeRejection::InvalidUpgradeHeader);
        }
        if !fields.contains_key(SEC_WEBSOCKET_KEY) {
            return Err(WebSocketUpgradeRejection::WebSocketKeyHeaderMissing);
        }
    } else {
        if parts.method != Method::CONNECT {
            return Err(WebSocketUpgradeRejection::MethodNotConnect);
        }
        // A plain CONNECT has neither protocol nor path; one with another protocol comes to no service.
        if parts.uri.path_and_query().is_none() {
            return Err(WebSocketUpgradeRejection::InvalidProtocolPseudoheader);
        }
    }
    let version = fields.get(SEC_WEBSOCKET_VERSION);
    match version.is_some_and(|version| version == "13") {
        true => Ok(()),
        false => Err(WebSocketUpgradeRejection::InvalidWebSocketVersionHeader),
    }
}

/// The items of all Sec-WebSocket-Protocol fields.
fn requested(fields: &HeaderMap) -> Vec<HeaderValue> {
    let values = fields.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|item| HeaderValue::from_str(item.trim()).ok())
        .collect()
}

#[cfg(test)]
mod tests;
