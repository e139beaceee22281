//! Has the kernel hand datagrams of QUIC to the socket of the worker that they are for.
//!
//! Sockets that share a port (SO_REUSEPORT) get what the kernel's hash of both ends' addresses says.
//! A client that changes its address so comes to another worker, which knows nothing of its
//! connection. A program of classic BPF, which needs no privilege, decides by the connection ID
//! instead. It says what [`worker_of`](altway_quic::worker_of) says of the worker's number; whose
//! process has the worker is nothing to the kernel, which knows sockets.

use altway_quic::{CONNECTION_ID_BYTES, ServerId, Version, WorkerId};
use libc::{
    BPF_A, BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET,
    BPF_K, BPF_LD, BPF_LEN, BPF_RET, BPF_W, sock_filter, sock_fprog,
};
use nix::sys::socket::{setsockopt, sockopt::AttachReusePortCbpf};
use std::io;
use std::os::fd::AsFd;

/// Steers the datagrams of all sockets that share `socket`'s port, those that join later included,
/// until the last of them is closed by the last process that has it. The worker of number 0 must have bound its socket first, that
/// of number 1 next, and so on; when one closes its socket, the last one takes its place.
///
/// Datagrams that name no worker, or one that isn't there, come where the kernel's hash wants them.
///
/// # Errors
/// The system refuses: it knows no such programs (Linux does from 4.5 on), or forbids them.
pub fn steer_by_connection_id(socket: impl AsFd, server: ServerId) -> io::Result<()> {
    let mut program = program(server);
    let program = sock_fprog {
        len: u16::try_from(program.len()).expect("a short program"),
        filter: program.as_mut_ptr(),
    };
    Ok(setsockopt(&socket, AttachReusePortCbpf, &program)?)
}

/// Offsets of the version, the destination connection ID's length and the ID in a packet with a long header (RFC 8999
/// section 5.1), and of the ID in one with a short header (section 5.2). The program sees what UDP carries.
const VERSION_AT: u32 = 1;
const LONG_LENGTH_AT: u32 = 5;
const LONG_ID_AT: u32 = 6;
const SHORT_ID_AT: u32 = 1;

const ID_BYTES: u32 = CONNECTION_ID_BYTES as u32;

/// A worker's number past all workers: for the kernel, no choice at all.
const NO_WORKER: u32 = u32::MAX;

/// Instructions that others jump to.
const VERSION_1: u8 = 10;
const HANDSHAKE: u8 = 13;
const SHORT: u8 = 19;
const WORKER: u8 = 20;
const HASH: u8 = 22;

/// The type bits of a long header, and a Handshake packet's in version 1 (RFC 9000 section 17.2) and in
/// version 2 (RFC 9369 section 3.2).
const TYPE: u32 = 0x30;
const HANDSHAKE_1: u32 = 0x20;
const HANDSHAKE_2: u32 = 0x30;

/// The program. To load bytes that aren't there would end it with 0, the first worker: so lengths
/// come first.
fn program(server: ServerId) -> [sock_filter; 23] {
    let worker_at = u32::try_from(server.as_bytes().len()).expect("two bytes at most");
    [
        statement(BPF_LD | BPF_W | BPF_LEN, 0),
        jump_unless(BPF_JGE, SHORT_ID_AT + ID_BYTES, 1, HASH),
        load(BPF_B, 0),
        // The form bit: a long header.
        jump_unless(BPF_JSET, 0x80, 3, SHORT),
        // A Handshake packet, by its version's types. Clients make up the IDs that others go to.
        load(BPF_W, VERSION_AT),
        jump_unless(BPF_JEQ, Version::V2.number(), 5, VERSION_1),
        load(BPF_B, 0),
        statement(BPF_ALU | BPF_AND | BPF_K, TYPE),
        jump_unless(BPF_JEQ, HANDSHAKE_2, 8, HASH),
        jump(9, HANDSHAKE),
        load(BPF_B, 0),
        statement(BPF_ALU | BPF_AND | BPF_K, TYPE),
        jump_unless(BPF_JEQ, HANDSHAKE_1, 12, HASH),
        statement(BPF_LD | BPF_W | BPF_LEN, 0),
        jump_unless(BPF_JGE, LONG_ID_AT + ID_BYTES, 14, HASH),
        load(BPF_B, LONG_LENGTH_AT),
        jump_unless(BPF_JEQ, ID_BYTES, 16, HASH),
        load(BPF_H, LONG_ID_AT + worker_at),
        jump(18, WORKER),
        load(BPF_H, SHORT_ID_AT + worker_at),
        statement(BPF_ALU | BPF_AND | BPF_K, WorkerId::NUMBER_MASK.into()),
        statement(BPF_RET | BPF_A, 0),
        statement(BPF_RET | BPF_K, NO_WORKER),
    ]
}

fn statement(code: u32, operand: u32) -> sock_filter {
    instruction(code, operand, 0)
}

/// Loads big-endian what stands at `offset`.
fn load(size: u32, offset: u32) -> sock_filter {
    statement(BPF_LD | BPF_ABS | size, offset)
}

/// The instruction at `here` goes on at `target` unless the test holds.
fn jump_unless(test: u32, operand: u32, here: u8, target: u8) -> sock_filter {
    instruction(BPF_JMP | test | BPF_K, operand, target - here - 1)
}

/// The instruction at `here` goes on at `target`.
fn jump(here: u8, target: u8) -> sock_filter {
    statement(BPF_JMP | BPF_JA, (target - here - 1).into())
}

fn instruction(code: u32, operand: u32, skip: u8) -> sock_filter {
    sock_filter {
        code: u16::try_from(code).expect("codes have 16 bits"),
        jt: 0,
        jf: skip,
        k: operand,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_quic::worker_of;
    use rustix::net::{AddressFamily, SocketType, sockopt};
    use std::net::{SocketAddr, UdpSocket};
    use std::time::{Duration, Instant};

    const WORKERS: usize = 4;

    /// Sockets that share a port, in the order in which they were bound.
    fn group(address: &str) -> Vec<UdpSocket> {
        let mut address: SocketAddr = address.parse().unwrap();
        (0..WORKERS)
            .map(|_| {
                let family = match address.is_ipv4() {
                    true => AddressFamily::INET,
                    false => AddressFamily::INET6,
                };
                let socket = rustix::net::socket(family, SocketType::DGRAM, None).unwrap();
                sockopt::set_socket_reuseport(&socket, true).unwrap();
                rustix::net::bind(&socket, &address).unwrap();
                let socket = UdpSocket::from(socket);
                address = socket.local_addr().unwrap();
                socket.set_nonblocking(true).unwrap();
                socket
            })
            .collect()
    }

    fn client(group: &[UdpSocket]) -> UdpSocket {
        let server = group[0].local_addr().unwrap();
        let client = UdpSocket::bind((server.ip(), 0)).unwrap();
        client.connect(server).unwrap();
        client
    }

    /// Returns the index of the socket at which a datagram arrives.
    fn lands(group: &[UdpSocket], client: &UdpSocket, datagram: &[u8]) -> usize {
        client.send(datagram).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let got = |socket: &UdpSocket| socket.recv(&mut [0; 100]).is_ok();
            if let Some(index) = group.iter().position(got) {
                return index;
            }
            assert!(Instant::now() < deadline, "lost");
        }
    }

    /// A packet with its destination connection ID.
    fn packet(first: u8, id: &[u8]) -> Vec<u8> {
        packet_of(Version::V1, first, id)
    }

    fn packet_of(version: Version, first: u8, id: &[u8]) -> Vec<u8> {
        let version = version.number().to_be_bytes();
        let length = [u8::try_from(id.len()).unwrap()];
        match first & 0x80 {
            0 => [&[first], id].concat(),
            _ => [&[first], &version[..], &length, id].concat(),
        }
    }

    fn id(server: ServerId, worker: usize) -> Vec<u8> {
        id_of(0, server, worker)
    }

    fn id_of(generation: u16, server: ServerId, worker: usize) -> Vec<u8> {
        let worker = generation << 12 | u16::try_from(worker).unwrap();
        let mut id = [server.as_bytes(), &worker.to_be_bytes()].concat();
        id.resize(CONNECTION_ID_BYTES, 0xee);
        id
    }

    /// Checks where packets for a worker come to from 20 addresses.
    fn check_all_arrive(address: &str, server: ServerId) {
        let group = group(address);
        steer_by_connection_id(&group[0], server).unwrap();
        for _ in 0..20 {
            let client = client(&group);
            for worker in 0..WORKERS {
                let ids = [0, 1, 15].map(|generation| id_of(generation, server, worker));
                for (first, id) in [0x40, 0x00, 0x7f, 0xe0, 0xaf]
                    .iter()
                    .zip(ids.iter().cycle())
                {
                    let packet = packet(*first, id);
                    assert_eq!(lands(&group, &client, &packet), worker, "{first:#x}");
                }
            }
        }
    }

    #[test]
    fn packets_come_to_the_worker_that_they_name_from_every_address() {
        for server in [&[][..], &[7], &[0, 1]] {
            check_all_arrive("127.0.0.1:0", ServerId::new(server).unwrap());
        }
        check_all_arrive("[::1]:0", ServerId::default());
    }

    #[test]
    fn packets_that_name_nobody_come_where_the_hash_wants_them() {
        let (group, server) = (group("127.0.0.1:0"), ServerId::default());
        let initial = packet(0xc0, &id(server, 0));
        let strangers = [
            Vec::new(),
            vec![0x40],
            packet(0x40, &id(server, 0)[..7]),
            packet(0x40, &id(server, WORKERS)),
            packet(0x40, &id(server, WorkerId::MAX_WORKERS - 1)),
            packet(0x40, &id_of(15, server, WORKERS)),
            initial.clone(),
            packet(0xd0, &id(server, 0)),
            packet(0xf0, &id(server, 0)),
            packet(0xe0, &id(server, 0)[..7]),
            packet(0xe0, &[0; 20]),
            packet(0xe0, &id(server, 0))[..13].to_vec(),
        ];
        let mut chosen = [0; WORKERS];
        let clients: Vec<_> = (0..40).map(|_| client(&group)).collect();
        let of_the_hash: Vec<_> = clients
            .iter()
            .map(|client| lands(&group, client, &initial))
            .collect();
        steer_by_connection_id(&group[1], server).unwrap();
        for (client, expected) in clients.iter().zip(of_the_hash) {
            chosen[expected] += 1;
            for datagram in &strangers {
                let named = worker_of(datagram, server).map(WorkerId::number);
                assert!(named.is_none_or(|worker| worker >= WORKERS));
                assert_eq!(lands(&group, client, datagram), expected, "{datagram:x?}");
            }
        }
        assert!(chosen.iter().all(|times| *times > 0), "{chosen:?}");
    }

    /// Every first byte comes out in the program of the kernel as it does in `worker_of`.
    #[test]
    fn the_kernel_and_the_workers_agree_on_every_first_byte() {
        let (group, server) = (group("127.0.0.1:0"), ServerId::new(&[9]).unwrap());
        let client = client(&group);
        let by_hash = lands(&group, &client, b"");
        steer_by_connection_id(&group[0], server).unwrap();
        let other = (by_hash + 1) % WORKERS;
        for version in Version::ALL {
            for first in 0..=u8::MAX {
                let packet = packet_of(version, first, &id(server, other));
                let expected = worker_of(&packet, server).map_or(by_hash, WorkerId::number);
                assert_eq!(lands(&group, &client, &packet), expected, "{first:#x}");
            }
        }
    }

    /// Values of the two bytes, with a worker that is there and with one that isn't.
    #[test]
    fn the_kernel_and_the_workers_agree_on_every_worker() {
        let (group, server) = (group("127.0.0.1:0"), ServerId::default());
        let client = client(&group);
        let by_hash = lands(&group, &client, b"");
        steer_by_connection_id(&group[0], server).unwrap();
        for bytes in (0..=u16::MAX).step_by(7).map(u16::to_be_bytes) {
            let mut id = [0xee; CONNECTION_ID_BYTES];
            id[..2].copy_from_slice(&bytes);
            let packet = packet(0x40, &id);
            let named = worker_of(&packet, server).map(WorkerId::number);
            let expected = named.filter(|worker| *worker < WORKERS).unwrap_or(by_hash);
            assert_eq!(lands(&group, &client, &packet), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn a_socket_without_a_group_cannot_be_steered() {
        let alone = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(steer_by_connection_id(&alone, ServerId::default()).is_err());
    }
}
