//! The running server's side: a thread that waits for the process which is to take its place.

use super::channel::{self, MAX_DESCRIPTORS, next};
use super::message::{FurtherOffer, Message, Offer, PROTOCOL, PredecessorOffer};
use super::{HANDOVER_GRACE, HandoverSocket, MAX_PREDECESSORS, Secrets, handover_socket};
use crate::Error;
use crate::h3::{self, Inboxes, PredecessorRelay, ProcessIds};
use crate::listen::{Bound, BoundAddress};
use crate::selection::Selection;
use crate::setup::Setup;
use crate::stop::{AcceptPause, StopSignal};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// Time that the other process may take for a message, and the threads to stop taking in connections.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Accepting fails when the process is out of descriptors; trying again at once would spin.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The sockets and secrets that are handed over.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) setup: Arc<Setup>,
    pub(crate) socket: HandoverSocket,
    /// Copies of the workers' sockets.
    pub(crate) bound: Bound,
    /// The beginnings of this process's connection IDs.
    pub(crate) ids: ProcessIds,
    pub(crate) predecessors: Vec<PredecessorRelay>,
    pub(crate) secrets: Secrets,
    /// Takes the datagrams that the next process passes back.
    pub(crate) inboxes: Vec<Inboxes>,
}

/// The way of datagrams to a server that has handed its sockets over, and what keeps its workers from taking in more.
struct HandedOver {
    datagram_channel: AsyncFd<OwnedFd>,
    /// A guard as long as which nothing is taken in.
    _held: AcceptPause,
}

impl Handover {
    /// Waits for the process that takes over until the stop; then stops the server, and passes it
    /// what is left for it until `served` has ended. Blocks the calling thread.
    ///
    /// # Errors
    /// There is no event loop to be had.
    pub(crate) fn run(self, stop: StopSignal, served: oneshot::Receiver<()>) -> Result<(), Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::Worker)?;
        runtime
            .block_on(self.until_served(stop, served))
            .map_err(Error::Worker)
    }

    async fn until_served(
        mut self,
        mut stop: StopSignal,
        served: oneshot::Receiver<()>,
    ) -> io::Result<()> {
        let socket = self.socket.watch()?;
        let signal = stop.clone();
        let handover = loop {
            let handover = tokio::select! {
                handover = self.handover(&socket, &signal) => handover,
                () = stop.requested() => return Ok(()),
            };
            tokio::select! {
                () = sleep(HANDOVER_GRACE) => break handover,
                () = stop.requested() => break handover,
                () = h3::carry(&handover.datagram_channel, &self.inboxes) => {
                    tracing::warn!("the process that took over has ended: serving on");
                    self.selection().inspect(|it| it.handed_over(false));
                }
            }
        };
        stop.trigger();
        // All but the way of datagrams is the next process's alone: others must not wait at a socket
        // that nobody attends to, nor the processes before this one for word from here.
        drop(socket);
        let inboxes = self.inboxes.clone();
        drop(self);
        handover.relay_to_end(&inboxes, &stop, served).await;
        Ok(())
    }

    /// Returns when a process has taken over.
    async fn handover(&mut self, socket: &AsyncFd<OwnedFd>, stop: &StopSignal) -> HandedOver {
        loop {
            let handover = match handover_socket::accept(socket).await {
                Ok(successor) => self.give(&successor, stop).await,
                Err(error) => {
                    sleep(ACCEPT_RETRY_DELAY).await;
                    Err(error)
                }
            };
            match handover {
                Ok(handover) => return handover,
                Err(error) => tracing::warn!(%error, "a takeover came to nothing: serving on"),
            }
        }
    }

    async fn give(
        &mut self,
        successor: &AsyncFd<OwnedFd>,
        stop: &StopSignal,
    ) -> io::Result<HandedOver> {
        let Message::Hello { protocol, version } = receive_message(successor).await? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        if let Some(reason) = self.objection(protocol, &version) {
            let refused = Message::Refused {
                reason: reason.clone(),
            };
            channel::send(successor.get_ref(), &refused, &[])?;
            return Err(io::Error::other(reason));
        }
        let (ours, theirs) = h3::datagram_channel()?;
        self.offer(successor.get_ref(), &theirs)?;
        // The other process's end is closed when it closes it.
        drop(theirs);
        let datagram_channel = altway_socket::watch(ours, Interest::READABLE)?;
        let Message::Ready = receive_message(successor).await? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let handover = HandedOver {
            datagram_channel,
            _held: timeout(MESSAGE_TIMEOUT, stop.hold()).await?,
        };
        // The other process takes the state folder as soon as it is told.
        self.selection().inspect(|it| it.handed_over(true));
        channel::send(successor.get_ref(), &Message::Yours, &[]).inspect_err(|_| {
            self.selection().inspect(|it| it.handed_over(false));
        })?;
        tracing::info!(version, "handed the sockets over");
        Ok(handover)
    }

    fn selection(&self) -> Option<&Selection> {
        self.setup.service.selection()
    }

    fn objection(&mut self, protocol: u32, version: &str) -> Option<String> {
        self.predecessors
            .retain(|predecessor| !predecessor.is_gone());
        if protocol != PROTOCOL {
            let ours = env!("CARGO_PKG_VERSION");
            return Some(format!(
                "it is altway {ours}, whose takeovers altway {version} does not understand"
            ));
        }
        let many = self.predecessors.len() >= MAX_PREDECESSORS;
        many.then(|| format!("{MAX_PREDECESSORS} servers before it are still ending"))
    }

    fn offer(&self, successor: &OwnedFd, datagram_channel: &OwnedFd) -> io::Result<()> {
        // The other process reads it before it says that it is ready.
        self.selection().inspect(|it| it.save());
        let predecessors = self.predecessors.iter();
        let (main, further) = (self.bound.main(), &self.bound.0[1..]);
        let further_offer = |it: &BoundAddress| FurtherOffer {
            address: it.address,
            tcp: it.tcp.len(),
            udp: it.udp.len(),
        };
        let offer = Offer {
            process: std::process::id(),
            generation: self.ids.generation.number(),
            address: main.address,
            further: further.iter().map(further_offer).collect(),
            workers: self.ids.workers,
            tcp: main.tcp.len(),
            udp: main.udp.len(),
            server_id: self.ids.server.to_string(),
            predecessors: predecessors.map(|it| offer_of(it.ids())).collect(),
            secrets: self.secrets.clone(),
        };
        channel::send(successor, &Message::Offer(Box::new(offer)), &[])?;
        for part in self.descriptors(datagram_channel).chunks(MAX_DESCRIPTORS) {
            channel::send(successor, &Message::Sockets, part)?;
        }
        Ok(())
    }

    /// The descriptors in the order that [`Offer`] tells.
    fn descriptors<'a>(&'a self, datagram_channel: &'a OwnedFd) -> Vec<BorrowedFd<'a>> {
        let sockets = self.bound.0.iter().flat_map(|it| {
            let tcp = it.tcp.iter().map(AsFd::as_fd);
            tcp.chain(it.udp.iter().map(AsFd::as_fd))
        });
        let own = [self.socket.as_fd(), datagram_channel.as_fd()].into_iter();
        own.chain(self.predecessors.iter().map(PredecessorRelay::link))
            .chain(sockets)
            .collect()
    }
}

impl HandedOver {
    /// Hands the workers what the next process passes back, until they have all `served`.
    async fn relay_to_end(
        self,
        inboxes: &[Inboxes],
        stop: &StopSignal,
        mut served: oneshot::Receiver<()>,
    ) {
        tokio::select! {
            // An error tells it as well.
            _ = &mut served => {}
            () = h3::carry(&self.datagram_channel, inboxes) => {
                tracing::warn!("the process that took over has ended");
                stop.mark_sockets_lost();
                let _ = served.await;
            }
        }
    }
}

fn offer_of(ids: &ProcessIds) -> PredecessorOffer {
    PredecessorOffer {
        generation: ids.generation.number(),
        workers: ids.workers,
        server_id: ids.server.to_string(),
    }
}

/// Receives the next message of the other process.
async fn receive_message(successor: &AsyncFd<OwnedFd>) -> io::Result<Message> {
    Ok(timeout(MESSAGE_TIMEOUT, next(successor)).await??.0)
}
