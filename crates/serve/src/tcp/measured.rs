//! Reports a TCP connection's path when a response has been handed over, and when it ends.

use super::socket::Activity;
use crate::body::Body;
use crate::handler::BoxError;
use crate::path_meter::{self, Meter, Paths};
use crate::worker::Setup;
use altway_path::ConnectionStatistics;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Reads the kernel's counters of one connection.
#[derive(Debug)]
pub(super) struct Probe {
    client: IpAddr,
    stream: Rc<TcpStream>,
    began: Instant,
    handshake: Cell<Option<Duration>>,
    meter: RefCell<Meter>,
}

impl Probe {
    pub(super) fn new(client: IpAddr, stream: Rc<TcpStream>) -> Self {
        Self {
            client,
            stream,
            began: Instant::now(),
            handshake: Cell::new(None),
            meter: RefCell::new(Meter::new(client)),
        }
    }

    /// TLS's hand-shake is done.
    pub(super) fn secured(&self) {
        self.handshake.set(Some(self.began.elapsed()));
    }

    /// Reports what is new of the path; what all of it is.
    pub(super) fn observe(&self, paths: &Paths) -> Option<ConnectionStatistics> {
        let handshake = self.handshake.get();
        let statistics = path_meter::of_tcp(&*self.stream, self.client, handshake)?;
        self.meter.borrow_mut().observe(statistics, paths);
        Some(statistics)
    }
}

/// An HTTP/1.1 response's body: its end is an occasion to measure, and while it has nothing to
/// give the client's silence means nothing.
#[derive(Debug)]
pub(super) struct Measured {
    body: Body,
    activity: Activity,
    probe: Rc<Probe>,
    setup: Arc<Setup>,
}

impl Measured {
    pub(super) fn new(body: Body, activity: Activity, probe: Rc<Probe>, setup: Arc<Setup>) -> Self {
        Self {
            body,
            activity,
            probe,
            setup,
        }
    }
}

impl http_body::Body for Measured {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.activity.answering(frame.is_pending());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.activity.answering(false);
        self.probe.observe(&self.setup.service.paths);
    }
}
