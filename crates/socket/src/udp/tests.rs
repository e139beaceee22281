//! Against a plain socket of the standard library.

use super::*;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

fn pair(settings: Settings) -> (Udp<UdpSocket>, UdpSocket) {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
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
fn send(udp: &mut Udp<UdpSocket>, peer: &UdpSocket, size: usize, segment: usize) -> Progress {
    let mut batch = Some(transmit(peer.local_addr().unwrap(), size, Some(segment)));
    let next = |buffer: &mut Vec<u8>| {
        buffer.clear();
        buffer.resize(size, 7);
        batch.take()
    };
    udp.send(next).unwrap()
}

fn receive(udp: &mut Udp<UdpSocket>, bytes: usize) -> Vec<usize> {
    let deadline = Instant::now() + Duration::from_secs(5);
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
    assert_eq!(send(&mut udp, &peer, 250, 100), Progress::Drained);
    let mut buffer = [0; 500];
    let sizes: Vec<_> = (0..3).map(|_| peer.recv(&mut buffer).unwrap()).collect();
    assert_eq!(sizes, [100, 100, 50]);
    assert_eq!(udp.calls().send, 1);
}

#[test]
fn a_batch_too_large_for_a_call_leaves_in_several() {
    let (mut udp, peer) = pair(Settings::default());
    assert_eq!(send(&mut udp, &peer, 100_000, 9_000), Progress::Drained);
    let mut buffer = [0; 10_000];
    let sizes: Vec<_> = (0..12).map(|_| peer.recv(&mut buffer).unwrap()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 100_000);
    assert_eq!(udp.calls().send, 2);
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
            let deadline = Instant::now() + Duration::from_secs(5);
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
    assert_eq!(udp.send(|_| None).unwrap(), Progress::Drained);
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
        assert_eq!(progress.unwrap(), Progress::Drained);
        udp.receive(|_| panic!("nobody sent")).unwrap();
    }
}
