//! A response's body on its way from whoever makes it to an engine.

use crate::request::body::Body;
use crate::request::handler::BoxError;
use crate::request::pending::{Exchanges, Ready, Work};
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame};
use std::hash::Hash;

/// Bytes of memory that a response takes which waits for its client, beside those of its body.
pub(crate) const RESPONSE_OVERHEAD: usize = 512;

/// A body that has not been handed over whole. Holds one chunk of it.
pub(crate) struct Sending {
    /// `None` while it is waited for.
    body: Option<Body>,
    chunk: Bytes,
    trailers: Option<HeaderMap>,
    /// The body has given all that it has.
    is_read: bool,
}

/// What there is to hand over next.
pub(crate) enum Next<'a> {
    /// These bytes: take away what was handed over. `last`: the content ends with them.
    Data { chunk: &'a mut Bytes, last: bool },
    /// The content's end, with fields.
    Trailers(HeaderMap),
    /// Nothing yet: the body is waited for.
    Nothing,
}

impl Sending {
    pub(crate) fn new(body: Body) -> Self {
        Self {
            is_read: body.is_end_stream(),
            body: Some(body),
            chunk: Bytes::new(),
            trailers: None,
        }
    }

    /// What to hand over next for `key`; what is not there yet is waited for in `exchanges`.
    ///
    /// # Errors
    /// The body fails.
    pub(crate) fn next<K: Copy + Eq + Hash + Unpin + Send + 'static>(
        &mut self,
        key: K,
        exchanges: &mut Exchanges<K>,
    ) -> Result<Next<'_>, BoxError> {
        while self.chunk.is_empty() && !self.is_read {
            let Some(body) = self.body.take() else {
                return Ok(Next::Nothing);
            };
            match exchanges.begin(key, Work::Frame(body)) {
                Some(Ready::Frame(body, frame)) => self.resume(body, frame)?,
                _ => return Ok(Next::Nothing),
            }
        }
        if self.chunk.is_empty()
            && let Some(trailers) = self.trailers.take()
        {
            return Ok(Next::Trailers(trailers));
        }
        Ok(Next::Data {
            last: self.is_read && self.trailers.is_none(),
            chunk: &mut self.chunk,
        })
    }

    /// Takes the body back from where it waited, with what it gave.
    ///
    /// # Errors
    /// The body fails.
    pub(crate) fn resume(
        &mut self,
        body: Body,
        frame: Option<Result<Frame<Bytes>, BoxError>>,
    ) -> Result<(), BoxError> {
        let frame = frame.transpose()?;
        self.is_read = frame.is_none() || body.is_end_stream();
        self.body = Some(body);
        match frame.map(Frame::into_data) {
            Some(Ok(data)) => self.chunk = data,
            Some(Err(frame)) => {
                // Nothing follows trailers.
                self.trailers = frame.into_trailers().ok();
                self.is_read |= self.trailers.is_some();
            }
            None => {}
        }
        Ok(())
    }

    /// Whether nothing is left but the end, or trailers: what no window holds back.
    pub(crate) fn is_at_end(&self) -> bool {
        self.chunk.is_empty() && self.is_read
    }

    /// Bytes in memory that wait for the client.
    pub(crate) fn held(&self) -> usize {
        self.chunk.len() + self.body.as_ref().map_or(0, Body::held)
    }

    /// Whether bytes wait for the client, not for the body.
    pub(crate) fn is_held_up(&self) -> bool {
        !self.chunk.is_empty()
    }
}
