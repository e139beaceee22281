//! Binds, runs a worker per thread, and stops them together.

use crate::accept::Dispatcher;
use crate::files::Files;
use crate::listen::{self, Listeners, Sockets};
use crate::options::{Options, Security};
use crate::path_meter::Paths;
use crate::service::{Content, Service};
use crate::site::Kind;
use crate::stop::StopSignal;
use crate::tls::Tls;
use crate::worker::{Setup, Worker};
use crate::{Error, ReloadHandle, h3, sys, tls};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;

/// A server whose sockets are bound: clients that connect from now on wait until it runs.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    sockets: Vec<Sockets>,
    /// One for each of the sockets.
    places: Vec<h3::Place>,
    dispatcher: Option<Dispatcher>,
    setup: Arc<Setup>,
    reload: Option<ReloadHandle>,
}

impl Server {
    /// Opens the directory, binds the sockets and prepares TLS. Raises this process's limit of open
    /// files to what it may have.
    ///
    /// # Errors
    /// Whatever keeps the server from running, so that [`Server::run`] fails no more for the
    /// operator's reasons.
    pub fn bind(options: &Options) -> Result<Self, Error> {
        if let Err(error) = sys::raise_open_files() {
            tracing::debug!(%error, "cannot raise the limit of open files");
        }
        let content = match &options.site.0 {
            Kind::Files(root) => Content::Files(Files::open(root)?),
            Kind::Service(handler) => Content::Handler(Arc::clone(handler)),
        };
        let with_udp = matches!(options.security, Security::Tls(_));
        let Listeners {
            address,
            workers,
            dispatcher,
        } = listen::listen(&listen::Request {
            bind: options.bind,
            port: options.port,
            workers: options.threads.get(),
            spread: options.spread,
            with_udp,
            congestion: options.congestion,
        })?;
        let service = Service {
            content,
            paths: Paths::new(),
            policy: options.policy,
            alternative: with_udp.then_some(address.port()),
            log: options.access_log.clone(),
        };
        let (setup, reload) = setup(options, service)?;
        Ok(Self {
            address,
            places: h3::places(&workers, options.steering, options.server_id),
            sockets: workers,
            dispatcher,
            setup: Arc::new(setup),
            reload,
        })
    }

    /// The address that it listens on, TCP and UDP, with the port number that was picked for 0.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the certificate while the server runs; `None` in clear text, which has none.
    #[must_use]
    pub fn reload_handle(&self) -> Option<ReloadHandle> {
        self.reload.clone()
    }

    /// Serves until `stop` says so, then lets running requests end for the options' grace. Blocks
    /// the calling thread.
    ///
    /// # Errors
    /// A thread can't be started or has failed; the others are stopped then.
    pub fn run(self, stop: &StopSignal) -> Result<(), Error> {
        // Kept until all workers have ended: a socket that leaves the group would change which
        // worker the kernel hands the datagrams of the others' connections to.
        let _group = udp_group(&self.sockets)?;
        let workers = self.sockets.into_iter().zip(self.places).enumerate();
        let mut threads: Vec<_> = workers
            .map(|(index, (sockets, place))| worker(index, sockets, place, &self.setup, stop))
            .collect();
        let acceptor = self.dispatcher.map(|dispatcher| {
            let accept = |stop| dispatcher.run(stop);
            spawn("acceptor".into(), stop, accept)
        });
        threads.extend(acceptor);
        let ends: Vec<_> = threads.into_iter().map(join).collect();
        ends.into_iter().collect()
    }
}

fn setup(options: &Options, service: Service) -> Result<(Setup, Option<ReloadHandle>), Error> {
    let choices = tls::Choices {
        early_data: options.early_data,
        key_log: options.key_log.as_ref(),
    };
    let tls = match &options.security {
        Security::ClearText => None,
        Security::Tls(identity) => Some(tls::configs(identity.clone(), &choices)?),
    };
    let quic = |tls: &Tls| h3::config(Arc::clone(&tls.quic), options);
    let setup = Setup {
        service: Arc::new(service),
        quic: tls.as_ref().map(quic).transpose()?,
        tls: tls.as_ref().map(|tls| Arc::clone(&tls.tcp)),
        limits: options.limits,
        grace: options.shutdown_grace,
    };
    Ok((setup, tls.map(|tls| tls.reload)))
}

fn udp_group(sockets: &[Sockets]) -> Result<Vec<UdpSocket>, Error> {
    let sockets = sockets.iter().filter_map(|sockets| sockets.udp.as_ref());
    let clones: Result<_, _> = sockets.map(UdpSocket::try_clone).collect();
    clones.map_err(Error::Worker)
}

type Handle = thread::JoinHandle<Result<(), Error>>;

fn worker(
    index: usize,
    sockets: Sockets,
    place: h3::Place,
    setup: &Arc<Setup>,
    stop: &StopSignal,
) -> Result<Handle, Error> {
    let setup = Arc::clone(setup);
    let serve = move |stop| Worker::start(&setup, sockets, place)?.run(stop);
    spawn(format!("worker-{index}"), stop, serve)
}

fn spawn(
    name: String,
    stop: &StopSignal,
    work: impl FnOnce(StopSignal) -> Result<(), Error> + Send + 'static,
) -> Result<Handle, Error> {
    let signal = stop.clone();
    let started = thread::Builder::new().name(name).spawn(move || {
        // Also when it panics: a server with a part of its threads would drop a part of its
        // clients.
        let _stop_others = StopOnDrop(signal.clone());
        work(signal)
    });
    started.map_err(|source| {
        stop.trigger();
        Error::Worker(source)
    })
}

struct StopOnDrop(StopSignal);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.trigger();
    }
}

fn join(thread: Result<Handle, Error>) -> Result<(), Error> {
    thread?.join().unwrap_or(Err(Error::WorkerPanicked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop_channel;

    #[test]
    fn a_thread_that_panics_stops_the_others() {
        let (_handle, signal) = stop_channel();
        let thread = spawn("acceptor".into(), &signal, |_| panic!("as a defect would"));
        assert!(matches!(join(thread), Err(Error::WorkerPanicked)));
        assert!(signal.is_requested());
    }
}
