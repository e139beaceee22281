//! The new process's side: what it begins with, its own or another's.

use super::channel::{self, receive, set_receive_timeout};
use super::handover_socket::{self, PathState, broken};
use super::message::{Message, Offer, PROTOCOL};
use super::{HandoverSocket, MAX_PREDECESSORS, Secrets};
use crate::Error;
use crate::h3::PredecessorRelay;
use crate::listen::{self, Bound, Further, Request};
use crate::options::{Bind, Options};
use altway_http3::{Generation, ServerId};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that the running server may take for a message: it may be talking to another process before.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(15);

/// The sockets that a server asks for at its start.
#[derive(Debug)]
pub(crate) struct StartRequest<'a> {
    pub(crate) request: &'a Request,
    pub(crate) server_id: ServerId,
    /// The path at which a running server may be, and at which this one will wait for the next.
    pub(crate) path: Option<&'a Path>,
}

/// The sockets and secrets that a server starts with.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) bound: Bound,
    pub(crate) generation: Generation,
    pub(crate) predecessors: Vec<PredecessorRelay>,
    pub(crate) secrets: Secrets,
    pub(crate) socket: Option<HandoverSocket>,
    predecessor: Option<Predecessor>,
}

/// A running server that has offered its sockets.
#[derive(Debug)]
struct Predecessor {
    process: u32,
    path: PathBuf,
    socket: OwnedFd,
    /// The congestion control that its listeners are to have from now on.
    congestion: Vec<u8>,
}

/// Takes the offer of the server that runs at the path; binds sockets where there is none.
///
/// # Errors
/// No sockets can be had, or the server's are not the wanted ones. It serves on then.
pub(crate) fn begin(wanted: &StartRequest<'_>) -> Result<Start, Error> {
    if let Some(path) = wanted.path
        && let PathState::Server(socket) = handover_socket::find(path)?
    {
        return request_handover(path, socket, wanted);
    }
    Ok(Start {
        bound: listen::listen(wanted.request)?,
        generation: Generation::default(),
        predecessors: Vec::new(),
        secrets: Secrets::random()?,
        // After the port, which two servers that start at the same time can't both have.
        socket: wanted.path.map(HandoverSocket::open).transpose()?,
        predecessor: None,
    })
}

impl Start {
    /// Confirms the takeover: from here on the sockets are this process's. It must serve at once.
    ///
    /// # Errors
    /// The running server has ended, or keeps them.
    pub(crate) fn confirm(&self) -> Result<(), Error> {
        let Some(predecessor) = &self.predecessor else {
            return Ok(());
        };
        let path = &predecessor.path;
        channel::send(&predecessor.socket, &Message::Ready, &[])
            .map_err(|error| broken(path, error))?;
        let Message::Yours = receive_message(&predecessor.socket, path)?.0 else {
            return Err(broken(path, io::ErrorKind::InvalidData.into()));
        };
        if let Err(error) = self.bound.set_congestion(&predecessor.congestion) {
            tracing::warn!(%error, "the congestion control stays that of the former server");
        }
        tracing::info!(process = predecessor.process, "took over");
        Ok(())
    }

    /// The process whose sockets these are.
    pub(crate) fn predecessor(&self) -> Option<u32> {
        let predecessor = self.predecessor.as_ref();
        predecessor.map(|predecessor| predecessor.process)
    }
}

pub(super) fn request_handover(
    path: &Path,
    socket: OwnedFd,
    wanted: &StartRequest<'_>,
) -> Result<Start, Error> {
    set_receive_timeout(&socket, MESSAGE_TIMEOUT).map_err(|error| broken(path, error))?;
    let hello = Message::Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").into(),
    };
    channel::send(&socket, &hello, &[]).map_err(|error| broken(path, error))?;
    let offer = match receive_message(&socket, path)?.0 {
        Message::Offer(offer) => offer,
        Message::Refused { reason } => {
            let path = path.into();
            return Err(Error::TakeoverRefused { path, reason });
        }
        _ => return Err(broken(path, io::ErrorKind::InvalidData.into())),
    };
    compare(&offer, wanted, path)?;
    let congestion = listen::congestion_of(wanted.request)?;
    let nonsense = || broken(path, io::ErrorKind::InvalidData.into());
    // Before the first descriptor is taken in: what is offered bounds how many.
    if offer.predecessors.len() > MAX_PREDECESSORS || offer.further.len() > Options::MAX_LISTENERS {
        return Err(nonsense());
    }
    let descriptors = receive_descriptors(&socket, &offer, wanted.request, path)?;
    let mut beginning = unpack(&offer, descriptors, wanted.request).ok_or_else(nonsense)?;
    arrange(&mut beginning.bound, wanted.request)?;
    Ok(Start {
        predecessor: Some(Predecessor {
            process: offer.process,
            path: path.into(),
            socket,
            congestion,
        }),
        ..beginning
    })
}

/// Refuses sockets that are not the wanted ones.
fn compare(offer: &Offer, wanted: &StartRequest<'_>, path: &Path) -> Result<(), Error> {
    let Some((what, theirs, ours)) = difference(offer, wanted) else {
        return Ok(());
    };
    Err(Error::TakeoverDiffers {
        path: path.into(),
        what,
        theirs,
        ours,
    })
}

fn difference(offer: &Offer, wanted: &StartRequest<'_>) -> Option<(&'static str, String, String)> {
    let StartRequest {
        request, server_id, ..
    } = wanted;
    if !is_at(offer.address, request.bind, request.port) {
        let ours = SocketAddr::new(request.bind.candidates()[0], request.port);
        return Some(("address", offer.address.to_string(), ours.to_string()));
    }
    let protection = |http3| match http3 {
        true => "TLS with HTTP/3",
        false => "clear text",
    };
    let id = |id: String| match id.is_empty() {
        true => "none".to_owned(),
        false => id,
    };
    let all = [
        (
            "protection",
            protection(offer.udp > 0).into(),
            protection(request.with_udp).into(),
        ),
        (
            "number of threads",
            offer.workers.to_string(),
            request.workers.to_string(),
        ),
        ("spread", offer.spread.clone(), request.spread.to_string()),
        (
            "server ID",
            id(offer.server_id.clone()),
            id(server_id.to_string()),
        ),
    ];
    all.into_iter().find(|(_, theirs, ours)| theirs != ours)
}

/// Returns true if an address is one that was asked for.
fn is_at(address: SocketAddr, bind: Bind, port: u16) -> bool {
    bind.candidates().contains(&address.ip()) && (port == 0 || port == address.port())
}

/// Leaves the further addresses that are wanted, in their order: those that were handed over, and what they lack bound
/// anew. Others are closed, and end for their clients with the process that had them. What one entry names by its port is
/// not taken for another's that has any.
///
/// # Errors
/// An address that was not handed over can't be had.
fn arrange(bound: &mut Bound, request: &Request) -> Result<(), Error> {
    let mut offered = std::mem::take(&mut bound.further);
    let (any, named): (Vec<_>, Vec<_>) = request
        .further
        .iter()
        .enumerate()
        .partition(|(_, wanted)| wanted.port == 0);
    let mut arranged = Vec::new();
    for (place, wanted) in named.into_iter().chain(any) {
        let is_it = |it: &Further| is_at(it.address, wanted.bind, wanted.port);
        let mut further = match offered.iter().position(is_it) {
            Some(place) => offered.swap_remove(place),
            None => listen::listen_further(wanted, request)?,
        };
        match wanted.with_udp {
            true if further.udp.is_empty() => {
                further.udp = listen::udp_sockets(further.address, request.workers)?;
            }
            true => {}
            false => further.udp.clear(),
        }
        arranged.push((place, further));
    }
    arranged.sort_by_key(|(place, _)| *place);
    let in_order = arranged.into_iter().map(|(_, further)| further);
    bound.further = in_order.collect();
    Ok(())
}

/// Receives the descriptors of the offer, which is a wanted one: no address has more UDP sockets than there are
/// workers.
fn receive_descriptors(
    socket: &OwnedFd,
    offer: &Offer,
    request: &Request,
    path: &Path,
) -> Result<Vec<OwnedFd>, Error> {
    let udp: Vec<_> = udp_sockets(offer).collect();
    if udp.iter().any(|sockets| *sockets > request.workers) {
        return Err(broken(path, io::ErrorKind::InvalidData.into()));
    }
    let tcp = request.listeners() * udp.len();
    let count = 2 + offer.predecessors.len() + tcp + udp.iter().sum::<usize>();
    let mut all = Vec::new();
    while all.len() < count {
        let (message, descriptors) = receive_message(socket, path)?;
        if !matches!(message, Message::Sockets) || descriptors.is_empty() {
            return Err(broken(path, io::ErrorKind::InvalidData.into()));
        }
        all.extend(descriptors);
    }
    if all.len() > count {
        return Err(broken(path, io::ErrorKind::InvalidData.into()));
    }
    Ok(all)
}

/// The number of UDP sockets at each address, the first one first.
fn udp_sockets(offer: &Offer) -> impl Iterator<Item = usize> {
    let further = offer.further.iter().map(|it| it.udp);
    [offer.udp].into_iter().chain(further)
}

/// `None`: no server of ours offers this.
fn unpack(offer: &Offer, descriptors: Vec<OwnedFd>, request: &Request) -> Option<Start> {
    let generation = Generation::new(offer.generation).ok()?;
    let mut next = descriptors.into_iter();
    let socket = HandoverSocket::from_descriptor(next.next()?);
    let mut predecessors = vec![PredecessorRelay::new(generation, next.next()?)];
    for predecessor in &offer.predecessors {
        predecessors.push(PredecessorRelay::new(
            Generation::new(*predecessor).ok()?,
            next.next()?,
        ));
    }
    let addresses = offer.further.iter().map(|it| it.address);
    let addresses = [offer.address].into_iter().chain(addresses);
    let mut sockets = addresses.zip(udp_sockets(offer)).map(|(address, udp)| {
        let tcp = next.by_ref().take(request.listeners());
        let tcp = tcp.map(TcpListener::from).collect();
        let udp = next.by_ref().take(udp).map(UdpSocket::from).collect();
        Further { address, tcp, udp }
    });
    let main = sockets.next()?;
    let bound = Bound {
        address: main.address,
        tcp: main.tcp,
        udp: main.udp,
        further: sockets.collect(),
    };
    Some(Start {
        bound,
        generation: generation.next(),
        predecessors,
        secrets: offer.secrets.clone(),
        socket: Some(socket),
        predecessor: None,
    })
}

/// Receives the next message of the running server.
fn receive_message(socket: &OwnedFd, path: &Path) -> Result<(Message, Vec<OwnedFd>), Error> {
    receive(socket).map_err(|error| broken(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Bind, Spread};

    fn request() -> Request {
        Request {
            bind: Bind::All,
            port: 8443,
            workers: 2,
            spread: Spread::PerWorker,
            with_udp: true,
            congestion: None,
            passed: Vec::new(),
            further: Vec::new(),
        }
    }

    fn offer() -> Offer {
        Offer {
            process: 1,
            generation: 0,
            address: "[::]:8443".parse().unwrap(),
            further: Vec::new(),
            workers: 2,
            spread: "per-worker".into(),
            udp: 2,
            server_id: "0a".into(),
            predecessors: Vec::new(),
            secrets: Secrets::random().unwrap(),
        }
    }

    #[test]
    fn an_address_that_is_named_by_its_port_is_not_taken_for_one_with_any() {
        let bind = Bind::Address([127, 0, 0, 1].into());
        let at = |port| listen::ListenerRequest {
            bind,
            port,
            with_udp: false,
        };
        let mut request = request();
        (request.bind, request.port, request.with_udp) = (bind, 0, false);
        request.further = vec![at(0), at(0)];
        let mut bound = listen::listen(&request).unwrap();
        let ports = |bound: &Bound| -> Vec<_> {
            bound.further.iter().map(|it| it.address.port()).collect()
        };
        let before = ports(&bound);
        // The first address is what an entry with any port would take.
        request.further = vec![at(0), at(before[0]), at(0)];
        arrange(&mut bound, &request).unwrap();
        let after = ports(&bound);
        assert_eq!(after[..2], [before[1], before[0]]);
        assert!(!before.contains(&after[2]), "a new one");
    }

    fn differs(change: impl FnOnce(&mut Request)) -> Option<String> {
        let mut request = request();
        change(&mut request);
        let wanted = StartRequest {
            request: &request,
            server_id: "0a".parse().unwrap(),
            path: None,
        };
        let error = compare(&offer(), &wanted, Path::new("socket")).err()?;
        Some(error.to_string())
    }

    #[test]
    fn the_same_sockets_are_wanted_where_any_port_is() {
        assert_eq!(differs(|_| {}), None);
        assert_eq!(differs(|request| request.port = 0), None);
        let all: Bind = Bind::Address("::".parse().unwrap());
        assert_eq!(differs(|request| request.bind = all), None);
    }

    #[test]
    fn each_difference_is_named() {
        let says = |change: fn(&mut Request), what: &str| {
            let error = differs(change).unwrap();
            let begin = "cannot take over from the server at `socket`: its ";
            assert_eq!(error, format!("{begin}{what}"));
        };
        says(|it| it.port = 443, "address is [::]:8443, not [::]:443");
        let local = |it: &mut Request| it.bind = Bind::Address([127, 0, 0, 1].into());
        says(local, "address is [::]:8443, not 127.0.0.1:8443");
        says(
            |it| it.with_udp = false,
            "protection is TLS with HTTP/3, not clear text",
        );
        says(|it| it.workers = 3, "number of threads is 2, not 3");
        says(
            |it| it.spread = Spread::RoundRobin,
            "spread is per-worker, not round-robin",
        );
        let request = request();
        let wanted = StartRequest {
            request: &request,
            server_id: ServerId::default(),
            path: None,
        };
        let difference = difference(&offer(), &wanted);
        assert_eq!(difference, Some(("server ID", "0a".into(), "none".into())));
    }
}
