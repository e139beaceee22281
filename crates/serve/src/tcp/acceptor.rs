//! Accepts connections over TCP and serves each in a task of its own, until the stop.

use super::turns::{FILE_STEPS, HANDSHAKE_STEPS, Turns};
use super::{Context, h2, http1};
use crate::accept::{Accepting, Arrivals};
use crate::clients::Transport;
use crate::setup::{ListenerConfig, Setup, WorkerMemory};
use crate::stop::StopSignal;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::{JoinSet, spawn_local, yield_now};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Connections that are accepted in a turn. Each begins with a task of its own: a crowd that comes at once would
/// otherwise stand before whoever is there already.
const ACCEPTS: u64 = 16;

/// Accepts connections and serves each in a task of its own.
pub(crate) struct Acceptor<'a> {
    arrivals: Arrivals<'a>,
    context: Rc<Context>,
}

/// One for each address of the server, the main one first.
///
/// # Errors
/// The event loop doesn't take a socket, or no descriptor is left for it.
pub(crate) fn acceptors<'a>(
    setup: &Arc<Setup>,
    accepting: &'a mut [Accepting],
    memory: &WorkerMemory,
) -> io::Result<Vec<Acceptor<'a>>> {
    let buffers = Rc::new(RefCell::new(h2::WorkerBuffers::new(memory.clone())));
    let each = setup.listeners.iter().zip(accepting);
    each.map(|(listener, accepting)| Acceptor::new(setup, listener, accepting, memory, &buffers))
        .collect()
}

impl<'a> Acceptor<'a> {
    /// # Errors
    /// The event loop doesn't take the socket, or no descriptor is left for it.
    fn new(
        setup: &Arc<Setup>,
        listener: &ListenerConfig,
        accepting: &'a mut Accepting,
        memory: &WorkerMemory,
        buffers: &Rc<RefCell<h2::WorkerBuffers>>,
    ) -> io::Result<Self> {
        Ok(Self {
            arrivals: Arrivals::new(accepting)?,
            context: Rc::new(Context {
                setup: Arc::clone(setup),
                tls: listener.tls.clone().map(TlsAcceptor::from),
                listener: listener.clone(),
                http1: http1::builder(setup),
                http2: h2::config(setup, listener),
                responder: Rc::clone(&memory.responder),
                buffers: Rc::clone(buffers),
                clients: memory.clients.clone(),
                turns: Rc::new(Turns::new(HANDSHAKE_STEPS)),
                file_turns: Rc::new(Turns::new(FILE_STEPS)),
            }),
        })
    }

    /// Serves until the stop; then accepts nothing more, and waits for the connections that are
    /// there as long as the grace allows.
    pub(crate) async fn run(self, mut stop: StopSignal) {
        let Self {
            mut arrivals,
            context,
        } = self;
        let mut connections = JoinSet::new();
        let turns = [&context.turns, &context.file_turns].map(|turns| {
            let turns = Rc::clone(turns);
            spawn_local(async move { turns.run().await })
        });
        let mut accept_permit = stop.accept_permit();
        let signal = stop.clone();
        while !stop.is_requested() {
            arrivals.hold(!accept_permit.is_open());
            // The stop first: connections that end by it would make room for ones not yet accepted.
            tokio::select! {
                biased;
                () = accept_permit.changed() => {}
                () = serve_all(&mut arrivals, &context, &mut connections, &signal) => {
                    stop.requested().await;
                }
            }
        }
        arrivals.close();
        let ends = async {
            // Those in the worker's queue are there as well.
            serve_all(&mut arrivals, &context, &mut connections, &signal).await;
            while connections.join_next().await.is_some() {}
        };
        if timeout(context.setup.grace, ends).await.is_err() {
            tracing::warn!("the grace is over: connections are cut off");
        }
        for turns in turns {
            turns.abort();
        }
    }
}

/// Ends when no more connections come, while some may still be served.
async fn serve_all(
    arrivals: &mut Arrivals<'_>,
    context: &Rc<Context>,
    connections: &mut JoinSet<()>,
    stop: &StopSignal,
) {
    for accepted in 1_u64.. {
        if accepted.is_multiple_of(ACCEPTS) {
            yield_now().await;
        }
        // Ended ones leave, so that the set holds the open ones.
        while connections.try_join_next().is_some() {}
        let Some((stream, peer)) = arrivals.next().await else {
            return;
        };
        // Else it is closed at once: one that waited in the kernel's queue would keep others waiting.
        let admitted = context
            .clients
            .admit(peer.ip(), Transport::Tcp, Instant::now());
        let Some(admitted) = admitted else {
            continue;
        };
        let connection = Rc::clone(context).serve(stream, peer, admitted, stop.clone());
        connections.spawn_local(connection);
    }
}
