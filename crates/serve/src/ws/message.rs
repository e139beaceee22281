//! The messages of a WebSocket (RFC 6455 section 5.6), in types that outlive their implementation.

use super::WebSocketError;
use bytes::Bytes;
use std::fmt;
use std::ops::Deref;
use tokio_tungstenite::tungstenite as implementation;

/// Text: bytes that are UTF-8. A clone shares them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Utf8Bytes(implementation::Utf8Bytes);

impl Utf8Bytes {
    /// Text that lives as long as the program.
    #[must_use]
    pub const fn from_static(text: &'static str) -> Self {
        Self(implementation::Utf8Bytes::from_static(text))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Deref for Utf8Bytes {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Utf8Bytes {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for Utf8Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// Compares with whatever a `&str` compares with, as axum's does.
impl<T> PartialEq<T> for Utf8Bytes
where
    for<'a> &'a str: PartialEq<T>,
{
    fn eq(&self, other: &T) -> bool {
        self.as_str() == *other
    }
}

impl From<&str> for Utf8Bytes {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Utf8Bytes {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&String> for Utf8Bytes {
    fn from(text: &String) -> Self {
        Self(text.into())
    }
}

impl From<Utf8Bytes> for Bytes {
    fn from(text: Utf8Bytes) -> Self {
        text.0.into()
    }
}

impl TryFrom<Bytes> for Utf8Bytes {
    type Error = std::str::Utf8Error;

    fn try_from(bytes: Bytes) -> Result<Self, Self::Error> {
        bytes.try_into().map(Self)
    }
}

impl TryFrom<Vec<u8>> for Utf8Bytes {
    type Error = std::str::Utf8Error;

    fn try_from(bytes: Vec<u8>) -> Result<Self, Self::Error> {
        bytes.try_into().map(Self)
    }
}

/// A message, or a control frame. New kinds need a new version of RFC 6455.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Text.
    Text(Utf8Bytes),
    /// Bytes.
    Binary(Bytes),
    /// Asks for a [`Pong`](Message::Pong), which is sent by itself, at most 125 bytes long.
    Ping(Bytes),
    /// Answers a [`Ping`](Message::Ping), or shows that this end is there; at most 125 bytes long.
    Pong(Bytes),
    /// The last message in its direction. One that is received is answered by itself.
    Close(Option<CloseFrame>),
}

/// The code of a [`CloseFrame`].
pub type CloseCode = u16;

/// The close frame of a WebSocket: the code and the reason for which it is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseFrame {
    /// Code of the close: one of [`close_code`], or of an application's own.
    pub code: CloseCode,
    /// The reason in words for people; at most 123 bytes.
    pub reason: Utf8Bytes,
}

/// Codes of [`CloseFrame`] (RFC 6455 section 7.4.1).
pub mod close_code {
    /// The code of a connection whose purpose is fulfilled.
    pub const NORMAL: u16 = 1000;
    /// An end goes away: a server stops, a page is left.
    pub const AWAY: u16 = 1001;
    /// The other end broke the protocol.
    pub const PROTOCOL: u16 = 1002;
    /// A kind of message that is not taken.
    pub const UNSUPPORTED: u16 = 1003;
    /// Never sent: a close frame without a code.
    pub const STATUS: u16 = 1005;
    /// Never sent: the stream ended without a close frame.
    pub const ABNORMAL: u16 = 1006;
    /// A message whose content is not what its kind says, for instance text that is no UTF-8.
    pub const INVALID: u16 = 1007;
    /// A message that breaks a rule of the application's.
    pub const POLICY: u16 = 1008;
    /// A message that is too large.
    pub const SIZE: u16 = 1009;
    /// The server has not agreed on an extension that the client needs.
    pub const EXTENSION: u16 = 1010;
    /// The server can't go on.
    pub const ERROR: u16 = 1011;
    /// The server starts anew.
    pub const RESTART: u16 = 1012;
    /// The server is overloaded.
    pub const AGAIN: u16 = 1013;
}

impl Message {
    /// Makes a text message.
    #[must_use]
    pub fn text(text: impl Into<Utf8Bytes>) -> Self {
        Self::Text(text.into())
    }

    /// Makes a message of bytes.
    #[must_use]
    pub fn binary(bytes: impl Into<Bytes>) -> Self {
        Self::Binary(bytes.into())
    }

    /// Bytes or text, for whoever takes both; of a close frame the reason.
    #[must_use]
    pub fn into_data(self) -> Bytes {
        match self {
            Self::Text(text) => text.into(),
            Self::Binary(bytes) | Self::Ping(bytes) | Self::Pong(bytes) => bytes,
            Self::Close(frame) => frame.map_or_else(Bytes::new, |frame| frame.reason.into()),
        }
    }

    /// Returns the content as text, for whoever takes both; of a close frame the reason.
    ///
    /// # Errors
    /// The bytes are not UTF-8.
    pub fn into_text(self) -> Result<Utf8Bytes, WebSocketError> {
        self.into_data().try_into().map_err(WebSocketError::new)
    }

    /// Returns the content as text, as [`into_text`](Self::into_text) does.
    ///
    /// # Errors
    /// As of [`into_text`](Self::into_text).
    pub fn to_text(&self) -> Result<&str, WebSocketError> {
        match self {
            Self::Text(text) => Ok(text.as_str()),
            Self::Binary(bytes) | Self::Ping(bytes) | Self::Pong(bytes) => {
                std::str::from_utf8(bytes).map_err(WebSocketError::new)
            }
            Self::Close(frame) => Ok(frame.as_ref().map_or("", |frame| frame.reason.as_str())),
        }
    }

    pub(super) fn into_implementation(self) -> implementation::Message {
        match self {
            Self::Text(text) => implementation::Message::Text(text.0),
            Self::Binary(bytes) => implementation::Message::Binary(bytes),
            Self::Ping(bytes) => implementation::Message::Ping(bytes),
            Self::Pong(bytes) => implementation::Message::Pong(bytes),
            Self::Close(frame) => implementation::Message::Close(frame.map(|frame| {
                implementation::protocol::CloseFrame {
                    code: frame.code.into(),
                    reason: frame.reason.0,
                }
            })),
        }
    }

    /// `None` for a raw frame, which is never received.
    pub(super) fn of_implementation(message: implementation::Message) -> Option<Self> {
        Some(match message {
            implementation::Message::Text(text) => Self::Text(Utf8Bytes(text)),
            implementation::Message::Binary(bytes) => Self::Binary(bytes),
            implementation::Message::Ping(bytes) => Self::Ping(bytes),
            implementation::Message::Pong(bytes) => Self::Pong(bytes),
            implementation::Message::Close(frame) => Self::Close(frame.map(|frame| CloseFrame {
                code: frame.code.into(),
                reason: Utf8Bytes(frame.reason),
            })),
            implementation::Message::Frame(_) => return None,
        })
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<&[u8]> for Message {
    fn from(bytes: &[u8]) -> Self {
        Self::Binary(Bytes::copy_from_slice(bytes))
    }
}

impl From<Message> for Vec<u8> {
    fn from(message: Message) -> Self {
        message.into_data().into()
    }
}

impl From<Bytes> for Message {
    fn from(bytes: Bytes) -> Self {
        Self::Binary(bytes)
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Binary(bytes.into())
    }
}
