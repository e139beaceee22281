//! The new process's side: what it begins with, its own or another's.

use super::channel::{self, receive, set_receive_timeout};
use super::handover_socket::{self, PathState, broken};
use super::message::{Message, Offer, PROTOCOL, PredecessorOffer};
use super::{HandoverSocket, MAX_PREDECESSORS, Secrets};
use crate::Error;
use crate::h3::{PredecessorRelay, ProcessIds};
use crate::listen::{self, Bound, BoundAddress, Request};
use crate::options::{Bind, Options};
use altway_http3::{Generation, ServerId, WorkerId};
use std::io;
use std::iter::successors;
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
    /// The beginnings of its connection IDs.
    pub(crate) ids: ProcessIds,
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
        ids: wanted.ids(Generation::default()),
        predecessors: Vec::new(),
        secrets: Secrets::random()?,
        // After the port, which two servers that start at the same time can't both have.
        socket: wanted.path.map(HandoverSocket::open).transpose()?,
        predecessor: None,
    })
}

impl StartRequest<'_> {
    fn ids(&self, generation: Generation) -> ProcessIds {
        ProcessIds {
            server: self.server_id,
            generation,
            workers: self.request.workers,
        }
    }
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
        // Should this fail, the former server goes on in this one's place.
        self.bound.listen()?;
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
    if !is_bounded(&offer) {
        return Err(nonsense());
    }
    let former = processes(&offer).ok_or_else(nonsense)?;
    let ids = next_ids(&former, wanted).ok_or_else(|| differs_in_server(&offer, wanted, path))?;
    let descriptors = receive_descriptors(&socket, &offer, path)?;
    let mut beginning = unpack(&offer, former, ids, descriptors).ok_or_else(nonsense)?;
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
    let request = wanted.request;
    if !is_at(offer.address, request.bind, request.port) {
        let ours = SocketAddr::new(request.bind.candidates()[0], request.port);
        return Some(("address", offer.address.to_string(), ours.to_string()));
    }
    let protection = |http3| match http3 {
        true => "TLS with HTTP/3",
        false => "clear text",
    };
    let (theirs, ours) = (protection(offer.udp > 0), protection(request.with_udp));
    (theirs != ours).then(|| ("protection", theirs.into(), ours.into()))
}

fn differs_in_server(offer: &Offer, wanted: &StartRequest<'_>, path: &Path) -> Error {
    let id = |id: String| match id.is_empty() {
        true => "none".to_owned(),
        false => id,
    };
    Error::TakeoverDiffers {
        path: path.into(),
        what: "server ID",
        theirs: id(offer.server_id.clone()),
        ours: id(wanted.server_id.to_string()),
    }
}

/// Returns true if no server of ours has more of anything than is offered.
fn is_bounded(offer: &Offer) -> bool {
    let most = WorkerId::MAX_WORKERS;
    let are_bounded = |(tcp, udp)| (1..=most).contains(&tcp) && udp <= most;
    offer.predecessors.len() <= MAX_PREDECESSORS
        && offer.further.len() <= Options::MAX_LISTENERS
        && sockets(offer).all(are_bounded)
}

/// The processes that may still have connections, by their connection IDs: the one that offers, and those before it.
/// `None`: no server of ours offers this.
fn processes(offer: &Offer) -> Option<Vec<ProcessIds>> {
    let own = PredecessorOffer {
        generation: offer.generation,
        workers: offer.workers,
        server_id: offer.server_id.clone(),
    };
    let process = |it: &PredecessorOffer| {
        let is_bounded = (1..=WorkerId::MAX_WORKERS).contains(&it.workers);
        is_bounded.then_some(ProcessIds {
            server: it.server_id.parse().ok()?,
            generation: Generation::new(it.generation).ok()?,
            workers: it.workers,
        })
    };
    [&own]
        .into_iter()
        .chain(&offer.predecessors)
        .map(process)
        .collect()
}

/// The connection IDs of this process: of the first number in the row with which no ID of it can be taken for one of
/// another process. `None` where there is none, which takes server IDs of different lengths and more than 240 workers, or
/// processes of 16 takeovers.
fn next_ids(former: &[ProcessIds], wanted: &StartRequest<'_>) -> Option<ProcessIds> {
    let last = former.first()?.generation;
    let all = successors(Some(last.next()), |it| Some(it.next()));
    let mut all = all.take_while(|it| *it != last).map(|it| wanted.ids(it));
    all.find(|ids| former.iter().all(|it| ids.is_told_from(it)))
}

/// Returns true if an address is one that was asked for.
fn is_at(address: SocketAddr, bind: Bind, port: u16) -> bool {
    bind.candidates().contains(&address.ip()) && (port == 0 || port == address.port())
}

/// Has the first address suit the workers, and leaves the further addresses that are wanted, in their order: those that
/// were handed over, and what they lack bound anew. Others are closed, and end for their clients with the process that had
/// them. What one entry names by its port is not taken for another's that has any.
///
/// # Errors
/// An address that was not handed over can't be had.
fn arrange(bound: &mut Bound, request: &Request) -> Result<(), Error> {
    let mut offered = bound.0.split_off(1);
    listen::fit(&mut bound.0[0], request)?;
    let (any, named): (Vec<_>, Vec<_>) = request
        .further
        .iter()
        .enumerate()
        .partition(|(_, wanted)| wanted.port == 0);
    let mut arranged = Vec::new();
    for (place, wanted) in named.into_iter().chain(any) {
        let is_it = |it: &BoundAddress| is_at(it.address, wanted.bind, wanted.port);
        let mut further = match offered.iter().position(is_it) {
            Some(place) => offered.swap_remove(place),
            None => listen::listen_at(wanted, request)?,
        };
        match wanted.with_udp {
            true if further.udp.is_empty() => {
                further.udp = listen::udp_sockets(further.address, request.workers)?;
            }
            true => {}
            false => further.udp.clear(),
        }
        listen::fit(&mut further, request)?;
        arranged.push((place, further));
    }
    arranged.sort_by_key(|(place, _)| *place);
    let in_order = arranged.into_iter().map(|(_, further)| further);
    bound.0.extend(in_order);
    Ok(())
}

/// Receives the descriptors of the offer, whose number is bounded.
fn receive_descriptors(
    socket: &OwnedFd,
    offer: &Offer,
    path: &Path,
) -> Result<Vec<OwnedFd>, Error> {
    let sockets: usize = sockets(offer).map(|(tcp, udp)| tcp + udp).sum();
    let count = 2 + offer.predecessors.len() + sockets;
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

/// The number of TCP and of UDP sockets at each address, the first one first.
fn sockets(offer: &Offer) -> impl Iterator<Item = (usize, usize)> {
    let further = offer.further.iter().map(|it| (it.tcp, it.udp));
    [(offer.tcp, offer.udp)].into_iter().chain(further)
}

/// `None`: no server of ours offers this.
fn unpack(
    offer: &Offer,
    former: Vec<ProcessIds>,
    ids: ProcessIds,
    descriptors: Vec<OwnedFd>,
) -> Option<Start> {
    let mut next = descriptors.into_iter();
    let socket = HandoverSocket::from_descriptor(next.next()?);
    let relays = former.into_iter();
    let predecessors = relays.map(|ids| Some(PredecessorRelay::new(ids, next.next()?)));
    let predecessors = predecessors.collect::<Option<_>>()?;
    let addresses = offer.further.iter().map(|it| it.address);
    let addresses = [offer.address].into_iter().chain(addresses);
    let bound = addresses.zip(sockets(offer)).map(|(address, (tcp, udp))| {
        let tcp = next.by_ref().take(tcp).map(TcpListener::from).collect();
        let udp = next.by_ref().take(udp).map(UdpSocket::from).collect();
        BoundAddress { address, tcp, udp }
    });
    Some(Start {
        bound: Bound(bound.collect()),
        ids,
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
            tcp: 2,
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
            let further = bound.0[1..].iter();
            further.map(|it| it.address.port()).collect()
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
    }

    #[test]
    fn connection_ids_are_told_from_those_of_processes_that_still_end() {
        let request = request();
        let next = |server: &str, offer: &Offer| {
            let wanted = StartRequest {
                request: &request,
                server_id: server.parse().unwrap(),
                path: None,
            };
            let ids = next_ids(&processes(offer).unwrap(), &wanted)?;
            Some(ids.generation.number())
        };
        assert_eq!(next("0a", &offer()), Some(1));
        assert_eq!(next("0b", &offer()), Some(1));
        assert_eq!(next("", &offer()), Some(1));
        let with = |change: fn(&mut Offer)| {
            let mut offer = offer();
            change(&mut offer);
            offer
        };
        // The bytes of the server ID are those of a worker of number 1 in the row.
        let as_worker = with(|it| it.server_id = "1000".into());
        assert_eq!(next("", &as_worker), Some(2));
        let long_ago = |it: &mut Offer| {
            let (generation, workers, server_id) = (1, 2, "0a".into());
            let it = &mut it.predecessors;
            it.push(PredecessorOffer {
                generation,
                workers,
                server_id,
            });
        };
        assert_eq!(next("0a", &with(long_ago)), Some(2), "16 takeovers ago");
        let many = with(|it| (it.workers, it.server_id) = (4096, String::new()));
        assert_eq!(
            next("00", &many),
            None,
            "each ID may be one of the former process's"
        );
        assert_eq!(next("10", &many), Some(1));
    }
}
