//! A server of altway's library that does more than serve files: it gives uploads back or refuses them unread,
//! and keeps what browsers report.

use super::Ground;
use altway_serve::{
    Bind, Files, Options, Policy, Security, Server, Site, StopHandle, certs, stop_channel,
};
use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::routing::post;
use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The ground's site, `POST /echo`, `POST /report`, and `POST /refuse`, which reads nothing and answers 415.
/// Stopped with this value.
pub(crate) struct Echo {
    pub(crate) port: u16,
    reports: Receiver<String>,
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Everybody is offered HTTP/3.
    pub(crate) fn start(ground: &Ground) -> Self {
        Self::with(ground, Policy::FixedH3)
    }

    pub(crate) fn with(ground: &Ground, policy: Policy) -> Self {
        let folder = ground.dir.path();
        let store = certs::Store::open(folder.join("data/altway/certs")).unwrap();
        let identity = store.leaf(&[super::HOST]).unwrap().identity().unwrap();
        let (sender, reports) = channel();
        let site = Site::service(router(ground, sender));
        let mut options = Options::new(site, Security::tls(identity));
        options.bind = Bind::Address(Ipv4Addr::LOCALHOST.into());
        options.port = 0;
        options.policy = policy;
        let server = Server::bind(&options).unwrap();
        let port = server.local_addr().port();
        let (stop, signal) = stop_channel();
        let thread = std::thread::spawn(move || server.run(&signal).unwrap());
        Self {
            port,
            reports,
            stop,
            thread: Some(thread),
        }
    }

    /// The next report; `None` if none comes.
    pub(crate) fn report(&self) -> Option<String> {
        self.reports.recv_timeout(Duration::from_secs(60)).ok()
    }
}

fn router(ground: &Ground, reports: Sender<String>) -> Router {
    let report = async move |report: String| {
        // The test has ended when nobody wants it.
        let _ = reports.send(report);
    };
    let files = Files::open(ground.dir.path().join("site")).unwrap();
    Router::new()
        .route("/echo", post(async |body: Body| body))
        .route("/refuse", post(async || StatusCode::UNSUPPORTED_MEDIA_TYPE))
        .route("/report", post(report))
        .layer(DefaultBodyLimit::disable())
        .fallback_service(files)
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}
