//! The client's side of HTTP/1.1: one connection, and one exchange at a time (RFC 9112).
//!
//! No task carries a connection. Whoever waits for a response writes the request and reads what comes, and whoever
//! wants its content reads that: nothing is handed from task to task, and a response that arrives in one piece is
//! passed on in one. Only where a response begins before its request has ended a task sends the rest.
//!
//! Pure are the heads ([`head`]), the chunks ([`chunked`]), and what is left of a request ([`upload`]).

mod chunked;
mod deadline;
mod head;
mod incoming;
mod kept;
mod read;
mod switched;
mod upload;

pub(crate) use head::{Fields, ForwardedHead};
pub(crate) use incoming::Incoming;
pub(crate) use switched::Switched;

use crate::BoxError;
use crate::content::Outgoing;
use crate::counters::OpenConnection;
use crate::pool::IDLE_TIMEOUT;
use crate::retry::{Failure, Sent};
use crate::socket::Stream;
use altway_message::{InterimResponses, TooManyInterimResponses};
use bytes::{Bytes, BytesMut};
use deadline::Deadline;
use head::{BadHead, ContentLength, ResponseHead};
use http::header::{CONTENT_LENGTH, HeaderMap};
use http::{Method, StatusCode, Version};
use http_body::Body as _;
use incoming::Io;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Instant;
use upload::{Upload, UploadTask};

/// The most bytes of a response's head.
const MAX_HEAD: usize = 64 << 10;

/// Bytes that a thread keeps for the heads that it writes.
const HEAD_BUFFER: usize = 16 << 10;

thread_local! {
    /// Memory for one head at a time.
    static HEAD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A connection without a request.
#[derive(Debug)]
pub(crate) struct Http1 {
    link: Link,
    /// True if the connection has carried a request before.
    pub(crate) is_reused: bool,
    /// Time for which it may wait for a request.
    pub(crate) kept: Duration,
}

/// The parts of a connection that stay for all its requests.
#[derive(Debug)]
struct Link {
    stream: Stream,
    open: OpenConnection,
    deadline: Deadline,
}

/// A request, but for its content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestHead<'r> {
    pub(crate) method: &'r Method,
    pub(crate) target: &'r str,
    pub(crate) fields: Fields<'r>,
    /// True if the request asks for another protocol, and a response may open that.
    pub(crate) is_upgrade: bool,
}

/// The head of a response, and its content.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) version: Version,
    /// Fields of the response, without those of the hop.
    pub(crate) fields: HeaderMap,
    pub(crate) content: Content,
}

/// The content that follows a head.
#[derive(Debug)]
pub(crate) enum Content {
    /// All of it has come with the head; with its connection, if that can carry another request.
    Whole(Bytes, Option<Http1>),
    /// Content of which some is to come. In a box: nearly every response is whole, and is to have no room for it.
    Http(Box<Incoming>),
    /// Another protocol, after [`StatusCode::SWITCHING_PROTOCOLS`].
    Switched(Box<Switched>),
}

/// The reason for which there is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The connection ended.
    #[error("the connection ended")]
    Connection(#[source] io::Error),
    /// The content of the request can't be sent.
    #[error("the content of the request can't be sent")]
    Content(#[source] BoxError),
    /// The bytes received are no response.
    #[error(transparent)]
    Head(#[from] BadHead),
    /// The bytes received are of HTTP/2.
    #[error("the server speaks HTTP/2")]
    Http2,
    /// The server sends interim responses without end.
    #[error(transparent)]
    Interim(#[from] TooManyInterimResponses),
}

/// The state of a request for which there is no response, or none yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) sent: Sent,
    /// A byte of a response was received.
    pub(crate) has_begun: bool,
}

impl Fault {
    /// Logs the fault with its source.
    pub(crate) fn log(&self) {
        use std::error::Error as _;
        let source = self.source().map(|it| format!(": {it}"));
        let source = source.unwrap_or_default();
        tracing::debug!("a request over HTTP/1.1 to an upstream failed: {self}{source}");
    }

    pub(crate) fn failure(&self) -> Failure {
        match self {
            Self::Connection(_) | Self::Content(_) => Failure::Connection,
            Self::Head(_) | Self::Interim(_) => Failure::Malformed,
            Self::Http2 => Failure::OtherVersion,
        }
    }
}

impl Http1 {
    pub(crate) fn new(stream: Stream, open: OpenConnection) -> Self {
        let deadline = Deadline::default();
        Self {
            link: Link {
                stream,
                open,
                deadline,
            },
            is_reused: false,
            kept: IDLE_TIMEOUT,
        }
    }

    fn reused(link: Link, kept: Duration) -> Self {
        Self {
            link,
            is_reused: true,
            kept,
        }
    }

    /// The same as far as the event loop knows, without a look at the socket.
    pub(crate) fn seems_quiet(&self) -> bool {
        self.link.stream.socket().seems_quiet()
    }

    /// Returns whether it can carry another request: nothing has arrived, not even the end.
    pub(crate) fn is_quiet(&self) -> bool {
        self.link.stream.socket().is_quiet()
    }

    /// The address of its server, as [`Socket::address`](crate::socket::Socket::address).
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.link.stream.socket().address()
    }

    /// Begins an exchange whose request has no content and [is sent](Exchange::send) later.
    pub(crate) fn begin_later(self) -> Exchange {
        Exchange {
            link: Some(self.link),
            head: Vec::new(),
            upload: None,
            has_sent: false,
            is_broken: None,
            is_head: false,
            is_upgrade: false,
            partial: BytesMut::new(),
            is_fast: false,
            has_begun: false,
            interim: InterimResponses::default(),
        }
    }

    /// Begins an exchange: the request with `body` as its content. Nothing is sent before the response is asked for.
    pub(crate) fn begin(self, request: RequestHead<'_>, body: Outgoing) -> Exchange {
        let length = length(request.fields.given(), &body);
        let head = HEAD.with_borrow_mut(|head| {
            head.clear();
            let (method, target, fields) = (request.method, request.target, request.fields);
            head::write_request(head, method, target, fields, length);
            let written = head.to_vec();
            head.shrink_to(HEAD_BUFFER);
            written
        });
        let (head, upload) = match length {
            ContentLength::None => (head, None),
            // It goes along with its content.
            _ => (Vec::new(), Some(Box::new(Upload::new(head, body, length)))),
        };
        Exchange {
            head,
            upload,
            is_head: *request.method == Method::HEAD,
            is_upgrade: request.is_upgrade,
            ..self.begin_later()
        }
    }
}

/// The extent of a request's content: as its client said, or as it is known by now.
fn length(fields: &HeaderMap, body: &Outgoing) -> ContentLength {
    if body.is_end_stream() {
        return ContentLength::None;
    }
    let said = fields.get(CONTENT_LENGTH);
    let said = said.and_then(|it| altway_message::content_length(it.as_bytes()).ok());
    match said.or_else(|| body.size_hint().exact()) {
        Some(bytes) => ContentLength::Known(bytes),
        None => ContentLength::Unknown,
    }
}

/// A request that was begun and whose response has not.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// `None`: the response has begun, or never will.
    link: Option<Link>,
    /// The whole of a request without content; empty once the kernel was given it.
    head: Vec<u8>,
    /// The content to send after that; `None`: there is none.
    upload: Option<Box<Upload>>,
    /// The kernel has taken some of the request, and nothing of `upload` need be known for it.
    has_sent: bool,
    /// The request can't be sent on; there may be a response that says why.
    is_broken: Option<Fault>,
    /// The request's method is HEAD.
    is_head: bool,
    is_upgrade: bool,
    /// The beginning of a head; [`MAX_HEAD`] and one read at most.
    partial: BytesMut,
    is_fast: bool,
    has_begun: bool,
    interim: InterimResponses,
}

impl Exchange {
    pub(crate) fn progress(&self) -> Progress {
        let has_begun = self.upload.as_ref().is_some_and(|it| it.has_begun);
        Progress {
            sent: match self.has_sent || has_begun {
                true => Sent::Some,
                false => Sent::Nothing,
            },
            has_begun: self.has_begun,
        }
    }

    /// Sends the request, and waits for the head of its response. Interim responses are for `interim`.
    ///
    /// # Errors
    /// [`Fault`]; the connection has ended then.
    pub(crate) async fn response(
        &mut self,
        mut interim: impl FnMut(StatusCode, HeaderMap),
    ) -> Result<Response, Fault> {
        poll_fn(|cx| self.poll_response(cx, &mut interim)).await
    }

    /// Ready when the connection was waited for until `late`. Costs little where it was not.
    pub(crate) fn poll_late(&mut self, late: Instant, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.link {
            Some(link) => link.deadline.poll(late, cx),
            None => Poll::Pending,
        }
    }

    /// Polls for the response that [`Self::response`] waits for.
    pub(crate) fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        interim: &mut impl FnMut(StatusCode, HeaderMap),
    ) -> Poll<Result<Response, Fault>> {
        self.send_head();
        let Some(link) = &mut self.link else {
            let error = io::ErrorKind::NotConnected.into();
            return Poll::Ready(Err(Fault::Connection(error)));
        };
        if self.is_broken.is_none()
            && let Some(upload) = &mut self.upload
            && let Poll::Ready(sent) = upload.poll(&mut link.stream, cx)
        {
            match sent {
                Err(fault @ Fault::Content(_)) => return Poll::Ready(Err(fault)),
                Err(fault) => self.is_broken = Some(fault),
                Ok(()) => {
                    self.has_sent = true;
                    self.upload = None;
                }
            }
        }
        loop {
            let link = self.link.as_mut();
            let link = link.expect("the loop ends when it is taken");
            let read = ready!(read::poll(
                &mut link.stream,
                cx,
                usize::MAX,
                &mut self.is_fast
            ));
            let more = match read {
                Ok(more) if !more.is_empty() => more,
                Ok(_) => return Poll::Ready(Err(self.ended(io::ErrorKind::UnexpectedEof.into()))),
                Err(error) => return Poll::Ready(Err(self.ended(error))),
            };
            self.has_begun = true;
            let input = match self.partial.is_empty() {
                true => more,
                // Only a line's end can be the head's: one that comes byte by byte is not read as often.
                false if !more.contains(&b'\n') => {
                    self.partial.extend_from_slice(&more);
                    Bytes::new()
                }
                false => {
                    self.partial.extend_from_slice(&more);
                    std::mem::take(&mut self.partial).freeze()
                }
            };
            if let Some(taken) = self.read_heads(input, interim)? {
                return Poll::Ready(self.take(taken));
            }
            if self.partial.len() > MAX_HEAD {
                return Poll::Ready(Err(BadHead.into()));
            }
        }
    }

    /// Sends a request without content, before its response is asked for.
    pub(crate) fn send(&mut self, request: RequestHead<'_>) {
        self.is_head = *request.method == Method::HEAD;
        HEAD.with_borrow_mut(|head| {
            head.clear();
            let (method, target, fields) = (request.method, request.target, request.fields);
            head::write_request(head, method, target, fields, ContentLength::None);
            self.write_head(head);
            head.shrink_to(HEAD_BUFFER);
        });
    }

    fn send_head(&mut self) {
        if !self.head.is_empty() {
            let head = std::mem::take(&mut self.head);
            self.write_head(&head);
        }
    }

    /// Hands a request without content to the kernel. What it does not take at once is uploaded.
    fn write_head(&mut self, head: &[u8]) {
        let Some(link) = &self.link else { return };
        match link.stream.write_now(head) {
            Ok(sent) => {
                self.has_sent = sent > 0;
                if sent < head.len() {
                    let (rest, body) = (head[sent..].to_vec(), Outgoing::default());
                    let upload = Upload::new(rest, body, ContentLength::None);
                    self.upload = Some(Box::new(upload));
                }
            }
            Err(error) => self.is_broken = Some(Fault::Connection(error)),
        }
    }

    /// Reads heads up to that of the response, with what follows it; keeps the beginning of one.
    fn read_heads(
        &mut self,
        mut input: Bytes,
        interim: &mut impl FnMut(StatusCode, HeaderMap),
    ) -> Result<Option<(ResponseHead, Bytes)>, Fault> {
        while !input.is_empty() {
            let parsed =
                ResponseHead::parse(&input).map_err(|error| match head::is_http2(&input) {
                    true => Fault::Http2,
                    false => error.into(),
                });
            let Some((head, len)) = parsed? else {
                let copied = |input: Bytes| BytesMut::from(&input[..]);
                self.partial = input.try_into_mut().unwrap_or_else(copied);
                break;
            };
            if len > MAX_HEAD {
                return Err(BadHead.into());
            }
            input = input.slice(len..);
            if !head.status.is_informational() || head.status == StatusCode::SWITCHING_PROTOCOLS {
                return Ok(Some((head, input)));
            }
            self.interim.count(&head.fields)?;
            interim(head.status, head.fields);
        }
        Ok(None)
    }

    /// The connection has ended. What the sending has met with says more of it, if it came first.
    fn ended(&mut self, error: io::Error) -> Fault {
        self.link = None;
        self.is_broken.take().unwrap_or(Fault::Connection(error))
    }

    /// The response, whose head was read.
    fn take(&mut self, (mut head, mut input): (ResponseHead, Bytes)) -> Result<Response, Fault> {
        let extent = head.extent(self.is_head)?;
        let link = self.link.take();
        let Link {
            stream,
            open,
            deadline,
        } = link.expect("the response has only begun");
        let kept = head.keeps_connection();
        let kept = kept.filter(|_| self.is_broken.is_none());
        let upload = self.upload.take().filter(|_| self.is_broken.is_none());
        let content = if head.status == StatusCode::SWITCHING_PROTOCOLS {
            if !self.is_upgrade || !head.switches() {
                return Err(BadHead.into());
            }
            Content::Switched(Box::new(Switched::new(input, stream, open)))
        } else if let Some(length) = extent.within(input.len())
            && upload.is_none()
        {
            let link = Link {
                stream,
                open,
                deadline,
            };
            // Nothing else may have arrived.
            let kept = kept.filter(|_| input.len() == length);
            input.truncate(length);
            Content::Whole(input, kept.map(|kept| Http1::reused(link, kept)))
        } else {
            let io = match upload {
                None => Io::Whole(stream),
                Some(upload) => {
                    let (read, write) = tokio::io::split(stream);
                    Io::Divided(read, UploadTask::send(*upload, write))
                }
            };
            let incoming = Incoming::new((io, open, deadline), input, extent, kept);
            Content::Http(Box::new(incoming))
        };
        Ok(Response {
            status: head.status,
            version: head.version,
            fields: head.into_stripped(),
            content,
        })
    }
}
