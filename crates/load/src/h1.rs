//! HTTP/1.1 on one connection, driven by hyper: one request after the other.

use crate::error::Failure;
use crate::run::{Answer, Due, InFlightRequest, Job, Run, content_length};
use crate::tcp::{CLOSE_TIMEOUT, Wire};
use altway_record::Protocol;
use bytes::Bytes;
use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::time::Instant;
use tokio::task::JoinHandle;

/// Sends `first` and then one request after the other, until the connection closes or the permits
/// run out.
///
/// # Errors
/// The connection is of no use; nothing has been recorded.
pub(crate) async fn serve(
    run: &Run<'_>,
    ordinal: u32,
    wire: Box<dyn Wire>,
    first: Due,
) -> Result<(), Failure> {
    let (sender, connection) = handshake(TokioIo::new(wire)).await?;
    run.on_connected();
    // What goes wrong with the connection, its request is told as well.
    let driver = Driver(tokio::spawn(async move { drop(connection.await) }));
    let connection = Connection {
        run,
        ordinal,
        sender,
        requests: 0,
    };
    connection.work(first).await;
    driver.close().await;
    Ok(())
}

/// The task that moves the connection's bytes. Dropping it cuts the connection.
struct Driver(JoinHandle<()>);

impl Driver {
    /// Closes the connection in good order, once the sender is gone.
    async fn close(mut self) {
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, &mut self.0).await;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Connection<'r, 'a> {
    run: &'r Run<'a>,
    ordinal: u32,
    sender: SendRequest<Empty<Bytes>>,
    /// Requests sent so far.
    requests: u32,
}

impl Connection<'_, '_> {
    async fn work(mut self, first: Due) {
        let mut complete = self.request(&first).await;
        let stays = !self.run.job.new_connections;
        while stays && complete && self.sender.ready().await.is_ok() {
            let Some(permit) = self.run.send_permits.next(Protocol::H1).await else {
                return;
            };
            if self.sender.is_closed() {
                // The peer went while the permit was awaited: the next connection takes it.
                return self.run.send_permits.give_back(permit);
            }
            complete = self.request(&Due::now(permit, self.run.job)).await;
        }
    }

    /// Sends a request and records what came of it; true when it was answered in full, so that
    /// the connection can carry another one.
    async fn request(&mut self, due: &Due) -> bool {
        let sent = self.sent(due);
        let mut answer = Answer::default();
        let (run, item) = (self.run, due.permit.item);
        let begins = |now| run.send_permits.on_first_byte(item, now);
        let request = request(run.job, due);
        let exchange = exchange(&mut self.sender, request, &mut answer, begins);
        let result = tokio::time::timeout_at(due.deadline.into(), exchange).await;
        let end = Instant::now();
        let result = result.unwrap_or(Err(Failure::TimedOut(self.run.job.timeout)));
        let complete = result.is_ok();
        self.run.record(&sent, &answer, end, result);
        complete
    }

    fn sent(&mut self, due: &Due) -> InFlightRequest {
        let stream = self.requests;
        self.requests = stream.saturating_add(1);
        InFlightRequest {
            connection: self.ordinal,
            stream,
            item: due.permit.item,
            start: due.permit.start,
            connect: due.connect,
            protocol_used: Some(Protocol::H1),
        }
    }
}

async fn exchange(
    sender: &mut SendRequest<Empty<Bytes>>,
    request: Request<Empty<Bytes>>,
    answer: &mut Answer,
    begins: impl FnOnce(Instant),
) -> Result<(), Failure> {
    let response = sender.send_request(request).await?;
    let length = content_length(response.headers());
    let now = Instant::now();
    answer.on_head(now, response.status().as_u16(), length);
    begins(now);
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            answer.on_data(data.len());
        }
    }
    answer.complete()
}

/// Returns the request in the form that HTTP/1.1 wants: path and Host (RFC 9112, section 3.2.1).
fn request(job: &Job, due: &Due) -> Request<Empty<Bytes>> {
    let mut request = job.head(due.permit).clone().map(|()| Empty::new());
    if let Ok(host) = HeaderValue::from_str(job.authority()) {
        request.headers_mut().insert(header::HOST, host);
    }
    *request.uri_mut() = job.path(due.permit);
    request
}
