//! Sockets that another process hands over, for a process with more workers: what they lack is bound beside them.
//!
//! A new TCP socket listens only once the takeover is certain, for connections would wait in it that nobody accepts if
//! nothing came of it. Where the system refuses (the sockets are another user's, as a service manager's may be), workers
//! share a listener, or leave HTTP/3 to others.

use super::{BACKLOG, Bound, BoundAddress, Kind, Request, Sharing, bind, listen_error, udp};
use crate::Error;
use socket2::SockRef;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;

/// Binds what the workers of a request lack of the sockets at an address; there is a listener at least.
///
/// # Errors
/// No descriptors are left.
pub(crate) fn fit(sockets: &mut BoundAddress, request: &Request) -> Result<(), Error> {
    let address = sockets.address;
    fit_listeners(address, &mut sockets.tcp, request.listeners())?;
    if !sockets.udp.is_empty() {
        fit_udp(address, &mut sockets.udp, request.workers);
    }
    Ok(())
}

fn fit_listeners(
    address: SocketAddr,
    tcp: &mut Vec<TcpListener>,
    wanted: usize,
) -> Result<(), Error> {
    for index in tcp.len()..wanted {
        let listener = match joined(address, tcp, Kind::Tcp) {
            Ok(()) => bind(address, Kind::Tcp, Sharing::AmongWorkers).map(TcpListener::from),
            Err(error) => Err(error),
        };
        if let Err(error) = &listener {
            tracing::info!(%error, %address, "workers share a listener of the former server");
        }
        let shared = || tcp[index % tcp.len()].try_clone().map_err(Error::Worker);
        let listener = listener.or_else(|_| shared())?;
        tcp.push(listener);
    }
    Ok(())
}

fn fit_udp(address: SocketAddr, sockets: &mut Vec<UdpSocket>, wanted: usize) {
    while sockets.len() < wanted {
        let socket = joined(address, sockets, Kind::Udp).and_then(|()| udp(address));
        match socket {
            Ok(socket) => sockets.push(socket),
            Err(error) => {
                tracing::warn!(
                    %error,
                    %address,
                    "HTTP/3 is served by {} of {wanted} workers: others have no UDP socket",
                    sockets.len()
                );
                return;
            }
        }
    }
}

/// Lets others bind the address of these sockets beside them.
fn joined(address: SocketAddr, sockets: &[impl AsFd], kind: Kind) -> Result<(), Error> {
    let mut sockets = sockets.iter().map(SockRef::from);
    let joined = sockets.try_for_each(|it| match it.reuse_port()? {
        true => Ok(()),
        false => it.set_reuse_port(true),
    });
    joined.map_err(|source| listen_error(address, kind, source))
}

impl Bound {
    /// Has every TCP socket listen that does not yet.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn listen(&self) -> Result<(), Error> {
        for BoundAddress { address, tcp, .. } in &self.0 {
            for socket in tcp {
                // What listens keeps its queue's length, which whoever bound it has chosen.
                let listens = rustix::net::sockopt::socket_acceptconn(socket);
                if !listens.is_ok_and(|listens| listens) {
                    let listening = SockRef::from(socket).listen(BACKLOG);
                    listening.map_err(|source| listen_error(*address, Kind::Tcp, source))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{listen, tests::request};
    use super::*;
    use crate::options::Spread;
    use std::net::TcpStream;

    #[test]
    fn sockets_of_fewer_workers_are_joined_by_others_and_listen_when_it_is_certain() {
        for spread in [Spread::PerWorker, Spread::RoundRobin] {
            let one = Request {
                workers: 1,
                spread,
                ..request(0)
            };
            let mut bound = listen(&one).unwrap();
            let four = Request {
                workers: 4,
                ..request(bound.main().address.port())
            };
            fit(&mut bound.0[0], &four).unwrap();
            let BoundAddress { address, tcp, udp } = bound.main();
            let addresses = tcp.iter().map(|it| it.local_addr().unwrap());
            let addresses = addresses.chain(udp.iter().map(|it| it.local_addr().unwrap()));
            assert!(addresses.eq([*address; 8]));
            let address = *address;
            let own = |it: &TcpListener| {
                it.set_nonblocking(true).unwrap();
                it.accept().is_ok()
            };
            let clients: Vec<_> = (0..40)
                .map(|_| TcpStream::connect(address).unwrap())
                .collect();
            let accepted = |bound: &Bound| -> Vec<usize> {
                let count = |it| std::iter::from_fn(|| own(it).then_some(())).count();
                bound.main().tcp.iter().map(count).collect()
            };
            assert_eq!(accepted(&bound), [40, 0, 0, 0], "{spread}");
            bound.listen().unwrap();
            drop(clients);
            let _clients: Vec<_> = (0..100)
                .map(|_| TcpStream::connect(address).unwrap())
                .collect();
            let shares = accepted(&bound);
            assert_eq!(shares.iter().sum::<usize>(), 100, "{shares:?}");
            assert!(
                shares.iter().all(|share| *share > 0),
                "{spread}: {shares:?}"
            );
        }
    }

    #[test]
    fn workers_share_a_listener_where_none_can_be_bound_beside_it() {
        let mut bound = listen(&Request {
            workers: 1,
            ..request(0)
        })
        .unwrap();
        let three = Request {
            workers: 3,
            ..request(bound.main().address.port())
        };
        let address = bound.main().address;
        // As that of another user would: it has another address.
        bound.0[0].address = ([192, 0, 2, 1], address.port()).into();
        fit(&mut bound.0[0], &three).unwrap();
        let BoundAddress { tcp, udp, .. } = bound.main();
        assert_eq!((tcp.len(), udp.len()), (3, 1));
        bound.listen().unwrap();
        let _client = TcpStream::connect(address).unwrap();
        assert!(tcp[2].accept().is_ok());
    }
}
