//! The content of a response, from a server or of the proxy's own, with a note of when it ends.

use crate::statistics::Statistics;
use altway_serve::BodyMemory;
use altway_upstream::{BoxError, ResponseBody};
use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The content of a response.
#[derive(Debug, Default)]
pub struct ProxyBody {
    source: Source,
    timing: Option<Timing>,
    /// Told what the source holds; `None`: nothing that it has not given.
    memory: Option<BodyMemory>,
}

#[derive(Debug, Default)]
enum Source {
    #[default]
    None,
    Text(Bytes),
    Upstream(ResponseBody),
}

/// Notes the end of a response when it is dropped.
#[derive(Debug)]
pub(crate) struct Timing {
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) version: Version,
    pub(crate) began: Instant,
    /// Time after which the response was there whole; `None`: its content is to come.
    pub(crate) whole_after: Option<Duration>,
    pub(crate) is_whole: bool,
    /// True if the answer is the proxy's own, whose time is not counted.
    pub(crate) is_own: bool,
}

impl Drop for Timing {
    fn drop(&mut self) {
        if self.is_own {
            return;
        }
        let after = self.whole_after.unwrap_or_else(|| self.began.elapsed());
        self.statistics.end(self.version, self.is_whole, after);
    }
}

impl ProxyBody {
    /// A page of the proxy's own.
    pub(crate) fn text(text: String, timing: Timing) -> Self {
        Self {
            source: Source::Text(text.into()),
            timing: Some(timing),
            memory: None,
        }
    }

    /// The content of a server's response, whose head has come `after` the request.
    pub(crate) fn upstream(body: ResponseBody, mut timing: Timing, after: Duration) -> Self {
        timing.is_whole = body.is_end_stream();
        timing.whole_after = body.is_received().then_some(after);
        let memory = (!body.is_received()).then(BodyMemory::default);
        let body = Self {
            source: Source::Upstream(body),
            timing: Some(timing),
            memory,
        };
        body.report_memory();
        body
    }

    /// The figure of what it holds, for the response's extensions.
    pub(crate) fn memory(&self) -> Option<BodyMemory> {
        self.memory.clone()
    }

    fn report_memory(&self) {
        if let (Some(memory), Source::Upstream(body)) = (&self.memory, &self.source) {
            memory.set(body.held());
        }
    }

    fn note(&mut self, frame: Option<&Result<Frame<Bytes>, BoxError>>) {
        let is_trailers = matches!(frame, Some(Ok(frame)) if frame.is_trailers());
        let is_whole = frame.is_none() || is_trailers || self.is_end_stream();
        if let Some(timing) = &mut self.timing {
            timing.is_whole |= is_whole && !matches!(frame, Some(Err(_)));
        }
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = match &mut self.source {
            Source::None => Poll::Ready(None),
            Source::Text(text) if text.is_empty() => Poll::Ready(None),
            Source::Text(text) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(text))))),
            Source::Upstream(body) => Pin::new(body).poll_frame(cx),
        };
        if let Poll::Ready(frame) = &polled {
            self.note(frame.as_ref());
            self.report_memory();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::None => true,
            Source::Text(text) => text.is_empty(),
            Source::Upstream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::None => SizeHint::with_exact(0),
            Source::Text(text) => SizeHint::with_exact(text.len() as u64),
            Source::Upstream(body) => body.size_hint(),
        }
    }
}
