//! Pieces that are cut up on one side and joined on the other, against packets written by hand.

use super::inbox::Inbox;
use super::tcp::{ACK, CWR, FIN, FLAGS, PSH, SEQUENCE};
use super::train::{Joins, Train};
use super::virtio::{Checksum, LENGTH, Offload, PACKET_MAX, Segmentation};
use crate::checksum::{complete, complete_ipv4, is_right, is_right_ipv4, pseudo_header};
use crate::headers::{Headers, Protocol, u16_at};
use crate::ip::IpVersion;

/// The version of IP and the protocol of a test's packets.
#[derive(Debug, Clone, Copy)]
struct Flow {
    version: IpVersion,
    protocol: Protocol,
}

const TCP4: Flow = Flow {
    version: IpVersion::V4,
    protocol: Protocol::Tcp,
};

fn every_flow() -> impl Iterator<Item = Flow> {
    IpVersion::ALL.into_iter().flat_map(|version| {
        [Protocol::Tcp, Protocol::Udp].map(|protocol| Flow { version, protocol })
    })
}

impl Flow {
    /// A packet with these flags (where it is TCP, which has time stamps) and so much payload, of which
    /// each byte is another one; with its checksums.
    fn packet(self, flags: u8, payload: usize) -> Vec<u8> {
        let mut packet = self.ip_header();
        let transport = packet.len();
        packet.extend([0x1f, 0x90, 0xc3, 0x50]);
        match self.protocol {
            Protocol::Tcp => {
                // Close to where sequence numbers begin anew.
                packet.extend(0xffff_ff00_u32.to_be_bytes());
                packet.extend([0, 0, 0, 9, 8 << 4, flags, 1, 2, 0, 0, 0, 0]);
                packet.extend([1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6]);
            }
            Protocol::Udp => packet.extend([0; 4]),
        }
        packet.extend((0..payload).map(|byte| (byte * 7 / 5) as u8));
        let length = (packet.len() - transport) as u16;
        if self.protocol == Protocol::Udp {
            packet[transport + 4..transport + 6].copy_from_slice(&length.to_be_bytes());
        }
        match self.version {
            IpVersion::V4 => {
                let total = length + 20;
                packet[2..4].copy_from_slice(&total.to_be_bytes());
                complete_ipv4(&mut packet[..20]);
            }
            IpVersion::V6 => packet[4..6].copy_from_slice(&length.to_be_bytes()),
        }
        complete(&mut packet);
        packet
    }

    fn ip_header(self) -> Vec<u8> {
        let protocol = self.protocol.number();
        let (mut header, addresses) = match self.version {
            IpVersion::V4 => (
                vec![0x45, 2, 0, 0, 0xff, 0xff, 0x40, 0, 64, protocol, 0, 0],
                8,
            ),
            IpVersion::V6 => (vec![0x60, 1, 2, 3, 0, 0, protocol, 64], 32),
        };
        header.extend((0..addresses).map(|byte| 10 + byte));
        header
    }
}

/// The packet as a kernel hands it over that leaves cutting it up, and its checksum, to the interface.
fn piece(mut packet: Vec<u8>, size: u16) -> Vec<u8> {
    let headers = Headers::of(&packet).unwrap();
    let sum = pseudo_header(&packet, &headers, headers.end - headers.transport).bytes();
    packet[headers.checksum()].copy_from_slice(&sum);
    let offload = Offload {
        checksum: Some(Checksum {
            start: headers.transport as u16,
            offset: headers.protocol.checksum() as u16,
        }),
        segmentation: (size > 0).then_some(Segmentation {
            protocol: headers.protocol,
            size,
        }),
    };
    let header = offload.encode(headers.version, headers.payload as u16);
    [&header[..], &packet].concat()
}

fn cut_up(piece: &[u8]) -> (Vec<Vec<u8>>, u64) {
    let mut inbox = Inbox::new();
    inbox.room()[..piece.len()].copy_from_slice(piece);
    inbox.filled(piece.len());
    let mut buffer = [0; 1_536];
    let packets = std::iter::from_fn(|| {
        inbox
            .take(&mut buffer)
            .map(|length| buffer[..length].to_vec())
    });
    (packets.collect(), inbox.take_unfit())
}

/// Returns what is handed over of these packets, a piece each.
fn joined(joins: Joins, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut train, mut pieces) = (Train::new(joins), Vec::new());
    for packet in packets {
        if !train.join(packet) {
            if train.packets() > 0 {
                pieces.push(train.seal().to_vec());
            }
            train.begin(packet);
        }
    }
    pieces.push(train.seal().to_vec());
    pieces
}

fn headers_of(packet: &[u8]) -> Headers {
    let headers = Headers::of(packet).unwrap();
    assert!(is_right(packet, &headers));
    if headers.version == IpVersion::V4 {
        assert!(is_right_ipv4(&packet[..20]));
    }
    headers
}

fn sequence_of(packet: &[u8], headers: &Headers) -> u32 {
    let field = packet[headers.transport + SEQUENCE..].first_chunk();
    u32::from_be_bytes(*field.unwrap())
}

#[test]
fn a_large_piece_becomes_packets_of_the_wire() {
    for flow in every_flow() {
        for length in [1, 999, 1_000, 1_001, 10_000, 10_001] {
            let whole = flow.packet(ACK, length);
            let (packets, unfit) = cut_up(&piece(whole.clone(), 1_000));
            assert_eq!((packets.len(), unfit), (length.div_ceil(1_000), 0));
            let payloads = packets
                .iter()
                .map(|packet| &packet[headers_of(packet).payload..]);
            let payloads: Vec<_> = payloads.collect();
            assert!(
                payloads[..payloads.len() - 1]
                    .iter()
                    .all(|payload| payload.len() == 1_000)
            );
            assert_eq!(payloads.concat(), whole[headers_of(&whole).payload..]);
        }
    }
}

#[test]
fn the_packets_of_a_segment_have_numbers_and_flags_of_their_own() {
    let (packets, _) = cut_up(&piece(TCP4.packet(ACK | PSH | FIN | CWR, 2_500), 1_000));
    let of_each = packets.iter().map(|packet| {
        let headers = headers_of(packet);
        let identification = u16_at(packet, 4).unwrap();
        let flags = packet[headers.transport + FLAGS];
        (sequence_of(packet, &headers), identification, flags)
    });
    let expected = [
        (0xffff_ff00, 0xffff, ACK | CWR),
        (0x0000_02e8, 0x0000, ACK),
        (0x0000_06d0, 0x0001, ACK | PSH | FIN),
    ];
    assert_eq!(of_each.collect::<Vec<_>>(), expected);
}

#[test]
fn a_packet_whose_checksum_was_left_to_the_interface_gets_it() {
    for flow in every_flow() {
        for length in 0..9 {
            let whole = flow.packet(ACK, length);
            assert_eq!(cut_up(&piece(whole.clone(), 0)), (vec![whole], 0));
        }
    }
}

#[test]
fn a_packet_that_left_nothing_to_the_interface_stays_as_it_is() {
    let whole = [&[0; LENGTH][..], b"whatever it is"].concat();
    assert_eq!(cut_up(&whole), (vec![b"whatever it is".to_vec()], 0));
}

#[test]
fn what_can_be_no_packet_of_the_wire_is_counted() {
    let whole = TCP4.packet(ACK, 3_000);
    let too_long = [&[0; LENGTH][..], &whole].concat();
    assert_eq!(cut_up(&too_long), (vec![], 1));
    let (large_ones, unfit) = cut_up(&piece(whole.clone(), 1_600));
    assert_eq!((large_ones.len(), unfit), (0, 1));
    // Cut short anywhere, and with any byte of its headers broken.
    let right = piece(whole, 1_000);
    for length in 0..80 {
        cut_up(&right[..length]);
        let mut wrong = right.clone();
        wrong[length] ^= 0xff;
        cut_up(&wrong);
    }
}

#[test]
fn what_was_cut_up_is_joined_again() {
    for flow in every_flow() {
        for (length, size) in [(2_000, 1_000), (9_001, 1_000), (60_000, 1_448), (3, 1)] {
            let whole = piece(flow.packet(ACK, length), size);
            let (packets, _) = cut_up(&whole);
            let pieces = joined(Joins::TcpAndUdp, &packets);
            assert!(pieces == [whole], "{flow:?} {length} {size}");
        }
    }
}

#[test]
fn a_single_packet_is_handed_over_as_it_is() {
    let packet = TCP4.packet(ACK, 1_000);
    let alone = [&[0; LENGTH][..], &packet].concat();
    assert_eq!(joined(Joins::TcpAndUdp, &[packet]), [alone]);
}

#[test]
fn only_what_the_kernel_takes_is_joined() {
    let pieces = |flow: Flow, joins| {
        let (packets, _) = cut_up(&piece(flow.packet(ACK, 5_000), 1_000));
        joined(joins, &packets).len()
    };
    for version in IpVersion::ALL {
        let of = |protocol| Flow { version, protocol };
        assert_eq!(pieces(of(Protocol::Udp), Joins::Tcp), 5);
        assert_eq!(pieces(of(Protocol::Tcp), Joins::Tcp), 1);
        assert_eq!(pieces(of(Protocol::Tcp), Joins::Nothing), 5);
    }
}

#[test]
fn a_packet_that_is_missing_parts_those_before_it_from_those_after_it() {
    let (mut packets, _) = cut_up(&piece(TCP4.packet(ACK, 5_000), 1_000));
    packets.remove(2);
    let lengths = |pieces: Vec<Vec<u8>>| pieces.iter().map(Vec::len).collect::<Vec<_>>();
    let head = LENGTH + headers_of(&packets[0]).payload;
    assert_eq!(
        lengths(joined(Joins::TcpAndUdp, &packets)),
        [head + 2_000, head + 2_000]
    );
}

#[test]
fn a_shorter_packet_or_one_that_does_not_want_to_wait_is_the_last() {
    let (packets, _) = cut_up(&piece(TCP4.packet(ACK | PSH, 2_500), 1_000));
    let twice = |packets: &[Vec<u8>]| [packets, packets].concat();
    assert_eq!(joined(Joins::TcpAndUdp, &twice(&packets)).len(), 2);
    let pushed = joined(Joins::TcpAndUdp, &packets);
    assert_ne!(pushed[0][LENGTH + 20 + FLAGS] & PSH, 0);
    let (datagrams, _) = cut_up(&piece(
        Flow {
            protocol: Protocol::Udp,
            ..TCP4
        }
        .packet(ACK, 2_500),
        1_000,
    ));
    assert_eq!(joined(Joins::TcpAndUdp, &twice(&datagrams)).len(), 2);
}

/// A corrupted packet must not be joined: its receiver would no longer look at its checksum.
#[test]
fn a_packet_of_another_kind_or_with_a_flipped_bit_stays_alone() {
    for flow in every_flow() {
        let (packets, _) = cut_up(&piece(flow.packet(ACK, 48), 16));
        let [first, second, third] = <[_; 3]>::try_from(packets).unwrap();
        for bit in 0..second.len() * 8 {
            let mut flipped = second.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let pieces = joined(Joins::TcpAndUdp, &[first.clone(), flipped, third.clone()]);
            assert_eq!(pieces.len(), 3, "{flow:?}: bit {bit}");
            assert!(pieces.iter().all(|piece| piece[..LENGTH] == [0; LENGTH]));
        }
        for bit in 0..first.len() * 8 {
            let mut flipped = first.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let pieces = joined(Joins::TcpAndUdp, &[flipped, second.clone()]);
            assert_eq!(pieces.len(), 2, "{flow:?}: bit {bit}");
        }
    }
}

#[test]
fn packets_that_say_something_else_are_not_joined() {
    let (packets, _) = cut_up(&piece(TCP4.packet(ACK, 2_000), 1_000));
    // Type of service, time to live, addresses, ports, acknowledgement, window, time stamps, and the
    // flags but PSH.
    for place in [1, 8, 12, 19, 20, 23, 28, 34, 44, 48] {
        let mut other = packets[1].clone();
        other[place] ^= 2;
        complete_ipv4(&mut other[..20]);
        complete(&mut other);
        assert_eq!(
            joined(Joins::TcpAndUdp, &[packets[0].clone(), other]).len(),
            2,
            "{place}"
        );
    }
    for flag in [0x01, 0x02, 0x04, 0x20, 0x40, 0x80] {
        let flagged = packets.iter().map(|packet| {
            let mut packet = packet.clone();
            packet[20 + FLAGS] ^= flag;
            complete(&mut packet);
            packet
        });
        let flagged: Vec<_> = flagged.collect();
        assert_eq!(joined(Joins::TcpAndUdp, &flagged).len(), 2, "{flag:#x}");
    }
}

#[test]
fn acknowledgements_are_not_joined() {
    let packets = vec![TCP4.packet(ACK, 0); 3];
    assert_eq!(joined(Joins::TcpAndUdp, &packets).len(), 3);
}

#[test]
fn a_piece_has_64_packets_and_65_535_bytes_at_most() {
    let udp = Flow {
        protocol: Protocol::Udp,
        ..TCP4
    };
    let small = vec![udp.packet(ACK, 100); 100];
    let pieces = joined(Joins::TcpAndUdp, &small);
    let lengths: Vec<_> = pieces.iter().map(Vec::len).collect();
    assert_eq!(lengths, [LENGTH + 28 + 6_400, LENGTH + 28 + 3_600]);
    let large = vec![udp.packet(ACK, 1_472); 60];
    let pieces = joined(Joins::TcpAndUdp, &large);
    assert!(
        pieces
            .iter()
            .all(|piece| piece.len() <= LENGTH + PACKET_MAX)
    );
    assert_eq!(pieces[0].len(), LENGTH + 28 + 44 * 1_472);
    assert_eq!(pieces.len(), 2);
}
