//! Against a plain socket of the standard library.

use super::*;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Time after which what was sent is not coming.
const TIME_LIMIT: Duration = Duration::from_secs(30);

fn pair(settings: Settings) -> (Udp<UdpSocket>, UdpSocket) {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(peer.local_addr().unwrap()).unwrap();
    (Udp::new(socket, settings).unwrap(), peer)
}

fn transmit(destination: SocketAddr, size: usize, segment_size: Option<usize>) -> Transmit {
    Transmit {
        destination,
        local_ip: None,
        ecn: Some(Ecn::Ect0),
        segment_size,
        size,
    }
}

/// Sends one batch of `size` bytes.
fn send(udp: &mut Udp<UdpSocket>, peer: &UdpSocket, size: usize, segment: usize) -> SendOutcome {
    let mut batch = Some(transmit(peer.local_addr().unwrap(), size, Some(segment)));
    let next = |buffer: &mut Vec<u8>| {
        buffer.clear();
        buffer.resize(size, 7);
        batch.take()
    };
    udp.send(next).unwrap()
}

fn receive(udp: &mut Udp<UdpSocket>, bytes: usize) -> Vec<usize> {
    let deadline = Instant::now() + TIME_LIMIT;
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < bytes {
        assert!(Instant::now() < deadline, "{sizes:?}");
        udp.receive(|datagram| sizes.push(datagram.payload.len()))
            .unwrap();
    }
    sizes
}

#[test]
fn segments_arrive_as_datagrams_of_their_own() {
    let (mut udp, peer) = pair(Settings::default());
    assert_eq!(send(&mut udp, &peer, 250, 100), SendOutcome::Drained);
    let mut buffer = [0; 500];
    let sizes: Vec<_> = (0..3).map(|_| peer.recv(&mut buffer).unwrap()).collect();
    assert_eq!(sizes, [100, 100, 50]);
    assert_eq!(udp.calls().send, 1);
}

#[test]
fn a_batch_too_large_for_a_message_leaves_in_several_by_one_call() {
    let (mut udp, peer) = pair(Settings::default());
    assert_eq!(send(&mut udp, &peer, 100_000, 9_000), SendOutcome::Drained);
    let mut buffer = [0; 10_000];
    let sizes: Vec<_> = (0..12).map(|_| peer.recv(&mut buffer).unwrap()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 100_000);
    assert_eq!(udp.calls().send, 1);
}

fn unconnected() -> Udp<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    Udp::new(socket, Settings::default()).unwrap()
}

fn peers<const N: usize>() -> [UdpSocket; N] {
    std::array::from_fn(|_| {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        peer
    })
}

/// Sends these batches of one byte each, which is their number, and segments of one byte.
fn send_to<S: NonBlocking>(
    udp: &mut Udp<S>,
    batches: &mut dyn Iterator<Item = (SocketAddr, usize)>,
) -> SendOutcome {
    let mut numbered = (0..).zip(batches);
    let next = |buffer: &mut Vec<u8>| {
        let (number, (address, size)) = numbered.next()?;
        buffer.clear();
        buffer.resize(size, number);
        Some(transmit(address, size, Some(1)))
    };
    udp.send(next).unwrap()
}

fn read_byte(peer: &UdpSocket) -> u8 {
    let mut buffer = [0; 2];
    assert_eq!(peer.recv(&mut buffer).unwrap(), 1);
    buffer[0]
}

#[test]
fn small_batches_to_many_peers_leave_by_one_call() {
    let (mut udp, peers) = (unconnected(), peers::<10>());
    let addresses = peers.each_ref().map(|peer| peer.local_addr().unwrap());
    let twice = addresses.iter().chain(&addresses);
    let progress = send_to(&mut udp, &mut twice.map(|address| (*address, 1)));
    assert_eq!(progress, SendOutcome::Drained);
    assert_eq!(udp.calls().send, 1);
    for (number, peer) in (0..).zip(&peers) {
        assert_eq!([read_byte(peer), read_byte(peer)], [number, number + 10]);
    }
}

#[test]
fn a_turn_sends_a_bounded_number_of_batches() {
    let (mut udp, [peer]) = (unconnected(), peers());
    let address = peer.local_addr().unwrap();
    let mut endless = std::iter::repeat((address, 1));
    assert_eq!(send_to(&mut udp, &mut endless), SendOutcome::More);
    assert_eq!(udp.calls().send, 1);
    let received: Vec<_> = (0..BATCHES).map(|_| read_byte(&peer)).collect();
    assert!(received.into_iter().eq(0..BATCHES as u8));
}

/// Linux refuses port 0, as it does an address to send from that it has no longer.
#[test]
fn one_that_cannot_leave_is_lost_alone_and_splitting_goes_on() {
    let (mut udp, [peer]) = (unconnected(), peers());
    let address = peer.local_addr().unwrap();
    let nobody = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut batches = [(address, 1), (nobody, 3), (address, 1)].into_iter();
    assert_eq!(send_to(&mut udp, &mut batches), SendOutcome::Drained);
    assert_eq!([read_byte(&peer), read_byte(&peer)], [0, 2]);
    assert!(udp.max_segments() > 1);
}

#[test]
fn what_the_kernel_refuses_to_split_leaves_datagram_by_datagram_from_then_on() {
    /// More than Linux splits a message into.
    const MANY: usize = 150;
    let (mut udp, [peer]) = (unconnected(), peers());
    let address = peer.local_addr().unwrap();
    let mut batches = [(address, 1), (address, MANY), (address, 1)].into_iter();
    assert_eq!(send_to(&mut udp, &mut batches), SendOutcome::Drained);
    let received: Vec<_> = (0..MANY + 2).map(|_| read_byte(&peer)).collect();
    assert!(received[1..=MANY].iter().all(|number| *number == 1));
    assert_eq!((received[0], received[MANY + 1]), (0, 2));
    assert_eq!(udp.max_segments(), 1);
}

/// Takes a call, and then none until it is told to.
struct Full(UdpSocket, std::cell::Cell<bool>);

impl AsFd for Full {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl NonBlocking for Full {
    fn try_read<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        call()
    }

    fn try_write<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.1.replace(true) {
            true => Err(ErrorKind::WouldBlock.into()),
            false => call(),
        }
    }
}

#[test]
fn a_full_socket_keeps_what_is_left_and_asks_for_no_more() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let full = Full(socket, std::cell::Cell::new(true));
    let (mut udp, [peer]) = (Udp::new(full, Settings::default()).unwrap(), peers());
    let address = peer.local_addr().unwrap();
    let nobody = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut batches = [(address, 1), (nobody, 1), (address, 1)].into_iter();
    assert_eq!(send_to(&mut udp, &mut batches), SendOutcome::Blocked);
    let mut panicking = std::iter::from_fn(|| panic!("the socket is full"));
    // The first leaves; why the second doesn't is not to be learnt yet.
    udp.socket.1.set(false);
    assert_eq!(send_to(&mut udp, &mut panicking), SendOutcome::Blocked);
    assert_eq!(read_byte(&peer), 0);
    udp.socket.1.set(false);
    assert_eq!(send_to(&mut udp, &mut panicking), SendOutcome::Blocked);
    udp.socket.1.set(false);
    assert_eq!(
        send_to(&mut udp, &mut std::iter::empty()),
        SendOutcome::Drained
    );
    assert_eq!(read_byte(&peer), 2);
}

#[test]
fn what_comes_from_no_port_is_not_taken_in() {
    let meta = |port| {
        let mut meta = RecvMeta::default();
        meta.addr = ([192, 0, 2, 1], port).into();
        (meta.len, meta.stride) = (1, 1);
        meta
    };
    let mut taken = 0;
    hand_over(&meta(0), &[7], &mut |_| panic!("it can't be answered"));
    hand_over(&meta(1), &[7], &mut |_| taken += 1);
    assert_eq!(taken, 1);
}

#[test]
fn without_joining_and_batches_each_datagram_costs_a_call() {
    let alone = Settings {
        gro: false,
        messages: 1,
        ..Settings::default()
    };
    let (mut udp, _) = pair(alone);
    let (mut sender, _) = pair(Settings::default());
    let receiver = udp.socket.local_addr().unwrap();
    let unconnected = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.socket
        .connect(unconnected.local_addr().unwrap())
        .unwrap();
    sender.socket = unconnected;
    let mut batch = Some(transmit(receiver, 3_000, Some(1_000)));
    sender
        .send(|buffer| {
            buffer.resize(3_000, 7);
            batch.take()
        })
        .unwrap();
    assert_eq!(receive(&mut udp, 3_000), [1_000; 3]);
    assert!(udp.calls().receive >= 3);
}

#[test]
fn no_splitting_means_one_datagram_a_batch() {
    let without = Settings {
        gso: false,
        ..Settings::default()
    };
    assert_eq!(pair(without).0.max_segments(), 1);
}

/// Over either family, and both on one socket: the options are others. The datagrams come joined, which
/// takes room of its own in what is told about them.
#[test]
fn every_codepoint_of_ecn_arrives_with_every_datagram() {
    let (v4, v6) = ("127.0.0.1:0", "[::1]:0");
    for (from, at) in [(v4, v4), (v6, v6), (v4, "[::]:0"), (v6, "[::]:0")] {
        let [mut sender, mut receiver] = [from, at].map(|address| {
            let socket = UdpSocket::bind(address).unwrap();
            Udp::new(socket, Settings::default()).unwrap()
        });
        let mut to = sender.socket.local_addr().unwrap();
        to.set_port(receiver.socket.local_addr().unwrap().port());
        for ecn in [Some(Ecn::Ect0), Some(Ecn::Ect1), Some(Ecn::Ce), None] {
            let transmit = Transmit {
                ecn,
                ..transmit(to, 300, Some(100))
            };
            let mut batch = Some(transmit);
            let next = |buffer: &mut Vec<u8>| {
                buffer.clear();
                buffer.resize(300, 7);
                batch.take()
            };
            sender.send(next).unwrap();
            let deadline = Instant::now() + TIME_LIMIT;
            let mut arrived = Vec::new();
            while arrived.len() < 3 {
                assert!(Instant::now() < deadline, "{arrived:?}");
                let take = |datagram: Datagram<'_>| arrived.push(datagram.ecn);
                receiver.receive(take).unwrap();
            }
            assert_eq!(arrived, [ecn; 3], "{from} to {at}");
        }
    }
}

#[test]
fn nothing_there_is_no_error() {
    let (mut udp, _peer) = pair(Settings::default());
    udp.receive(|_| panic!("nobody sent")).unwrap();
    assert_eq!(udp.send(|_| None).unwrap(), SendOutcome::Drained);
}

#[test]
fn the_one_peer_that_is_gone_is_told_of() {
    let (mut udp, peer) = pair(Settings::default());
    let address = peer.local_addr().unwrap();
    drop(peer);
    let mut attempt = || {
        let mut one = Some(transmit(address, 1, None));
        udp.send(|buffer| {
            buffer.resize(1, 7);
            one.take()
        })
    };
    // The first leaves; the answer to it ends the second.
    attempt().unwrap();
    assert_eq!(attempt().unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn one_peer_among_many_that_is_gone_is_a_lost_datagram() {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = peer.local_addr().unwrap();
    drop(peer);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut udp = Udp::new(socket, Settings::default()).unwrap();
    for _ in 0..2 {
        let mut one = Some(transmit(address, 1, None));
        let progress = udp.send(|buffer| {
            buffer.resize(1, 7);
            one.take()
        });
        assert_eq!(progress.unwrap(), SendOutcome::Drained);
        udp.receive(|_| panic!("nobody sent")).unwrap();
    }
}
