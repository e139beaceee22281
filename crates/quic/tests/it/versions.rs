//! Packets of QUIC versions that one side doesn't speak (RFC 9000 section 6, RFC 8999).

use std::time::Instant;

use altway_quic::{CloseReason, Event, Version};

use crate::engine::QuicEndpoint;
use crate::wire::{
    client, client_address, connect, events, give, initial, sent, server, server_address,
};

const VERSION_1: [u8; 4] = [0, 0, 0, 1];
const VERSION_2: [u8; 4] = [0x6b, 0x33, 0x43, 0xcf];
/// The last of the drafts, and another one that nobody speaks.
const DRAFT_34: [u8; 4] = [0xff, 0, 0, 34];
const UNKNOWN: [u8; 4] = [0xba, 0xba, 0xba, 0xba];

/// A long header of this version, between connection IDs of 20 and 8 bytes, and noise.
fn packet(version: [u8; 4], length: usize) -> Vec<u8> {
    let header = [&[0xd0][..], &version, &[20], &[1; 20], &[8], &[2; 8]].concat();
    [&header[..], &vec![3; length - header.len()]].concat()
}

/// The versions that the server offers for this.
fn offered(datagram: &[u8]) -> Option<Vec<[u8; 4]>> {
    let now = Instant::now();
    let mut server = server(|_| {});
    give(&mut server, now, client_address(1), datagram);
    assert_eq!(server.statistics().connections, 0);
    let answers = sent(&mut server, now);
    let [answer] = &answers[..] else {
        assert!(answers.is_empty());
        return None;
    };
    assert!(answer.len() < datagram.len());
    // The version 0, and the client's connection IDs the other way round.
    let header = [&[0, 0, 0, 0, 8][..], &[2; 8], &[20], &[1; 20]].concat();
    assert_eq!(answer[0] & 0x80, 0x80);
    let versions = answer[1..].strip_prefix(&header[..]).unwrap();
    let (versions, []) = versions.as_chunks() else {
        panic!("half a version")
    };
    Some(versions.to_vec())
}

#[test]
fn a_version_that_is_not_spoken_is_answered_by_those_that_are() {
    for version in [DRAFT_34, [0xff, 0, 0, 1], UNKNOWN] {
        let versions = offered(&packet(version, 1200)).unwrap();
        assert!(versions.contains(&VERSION_1), "{versions:x?}");
        assert!(versions.contains(&VERSION_2) && !versions.contains(&version));
        // And by one of those that are reserved to be ignored (RFC 9000 section 15).
        let is_reserved = |version: &[u8; 4]| version.iter().all(|byte| byte & 0xf == 0xa);
        assert!(versions.iter().any(is_reserved), "{versions:x?}");
    }
}

/// "Servers MUST drop smaller packets that specify unsupported versions" (RFC 9000 section 5.2.2).
#[test]
fn a_datagram_too_small_to_begin_a_connection_is_not_answered() {
    for length in [40, 1199] {
        for version in [VERSION_1, VERSION_2, UNKNOWN] {
            assert_eq!(offered(&packet(version, length)), None);
        }
    }
}

/// A Version Negotiation packet in answer to one would go back and forth for ever.
#[test]
fn version_negotiation_is_not_answered() {
    assert_eq!(offered(&packet([0; 4], 1200)), None);
}

/// Returns the events of a client of this version whose first packet is answered by a Version
/// Negotiation of these.
fn told(speaks: Version, versions: &[[u8; 4]]) -> Vec<Event> {
    let now = Instant::now();
    let mut client = client(|config| config.version = speaks);
    let first = initial(&mut client, now);
    let (id, rest) = first[6..].split_at(first[5].into());
    let own_id = &rest[1..=usize::from(rest[0])];
    let length = |id: &[u8]| [u8::try_from(id.len()).unwrap()];
    let header = [
        &[0x80, 0, 0, 0, 0][..],
        &length(own_id),
        own_id,
        &length(id),
        id,
    ]
    .concat();
    let answer = [header, versions.concat()].concat();
    give(&mut client, now, server_address(), &answer);
    events(&mut client)
}

#[test]
fn a_client_that_shares_no_version_is_told_so_at_once() {
    for (speaks, other) in [(Version::V1, VERSION_2), (Version::V2, VERSION_1)] {
        let reason = CloseReason::VersionMismatch;
        let closed = [Event::Closed { reason }];
        assert_eq!(told(speaks, &[other]), closed);
        assert_eq!(told(speaks, &[other, UNKNOWN]), closed);
        // Who offers what the client speaks has not seen its packet.
        assert_eq!(told(speaks, &[other, speaks.number().to_be_bytes()]), []);
    }
}

#[test]
fn a_client_answers_no_version_that_it_does_not_speak() {
    for (speaks, other) in [(Version::V1, VERSION_2), (Version::V2, VERSION_1)] {
        let now = Instant::now();
        let mut client = client(|config| config.version = speaks);
        connect(&mut client, now);
        sent(&mut client, now);
        give(&mut client, now, server_address(), &packet(other, 1200));
        assert_eq!(sent(&mut client, now), Vec::<Vec<u8>>::new());
    }
}
