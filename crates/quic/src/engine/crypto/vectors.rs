//! The sample packets of RFC 9369 appendix A, sealed and opened by the keys that the engine gets.
//!
//! The engine's side of a packet has version 1's type; on the wire stand the RFC's bytes.

use bytes::BytesMut;
use quinn_proto::crypto::{HeaderKey, Keys, PacketKey};
use quinn_proto::{ConnectionId, Side};
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{DirectionalKeys, Suite};

use super::initial::InitialKeys;
use super::{TAG_BYTES, initial_suite, keys, retry};
use crate::{Version, long_header};

/// The client's first destination ID.
const ID: &str = "8394c8f03e515708";

/// The payload of the client's Initial packet, 1,162 bytes with its padding.
const CLIENT_PAYLOAD: &str = "\
    060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69 \
    484c00000413011302010000c000000010000e00000b6578616d706c652e636f6dff01000100000a \
    00080006001d0017001800100007000504616c706e000500050100000000003300260024001d0020 \
    9370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b000302030400 \
    0d0010000e0403050306030203080408050806002d00020101001c00024001003900320408ffffff \
    ffffffffff05048000ffff07048000ffff0801100104800075300901100f088394c8f03e51570806 \
    048000ffff";

/// The packet, number 2.
const CLIENT_PACKET: &str = "\
    d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485dd04de806071bf03 \
    dceebfa162e75d6c96058bdbfb127cdfcbf903388e99ad049f9a3dd4425ae4d0992cfff18ecf0fdb \
    5a842d09747052f17ac2053d21f57c5d250f2c4f0e0202b70785b7946e992e58a59ac52dea6774d4 \
    f03b55545243cf1a12834e3f249a78d395e0d18f4d766004f1a2674802a747eaa901c3f10cda5500 \
    cb9122faa9f1df66c392079a1b40f0de1c6054196a11cbea40afb6ef5253cd6818f6625efce3b6de \
    f6ba7e4b37a40f7732e093daa7d52190935b8da58976ff3312ae50b187c1433c0f028edcc4c2838b \
    6a9bfc226ca4b4530e7a4ccee1bfa2a3d396ae5a3fb512384b2fdd851f784a65e03f2c4fbe11a53c \
    7777c023462239dd6f7521a3f6c7d5dd3ec9b3f233773d4b46d23cc375eb198c63301c21801f6520 \
    bcfb7966fc49b393f0061d974a2706df8c4a9449f11d7f3d2dcbb90c6b877045636e7c0c0fe4eb0f \
    697545460c806910d2c355f1d253bc9d2452aaa549e27a1fac7cf4ed77f322e8fa894b6a83810a34 \
    b361901751a6f5eb65a0326e07de7c1216ccce2d0193f958bb3850a833f7ae432b65bc5a53975c15 \
    5aa4bcb4f7b2c4e54df16efaf6ddea94e2c50b4cd1dfe06017e0e9d02900cffe1935e0491d77ffb4 \
    fdf85290fdd893d577b1131a610ef6a5c32b2ee0293617a37cbb08b847741c3b8017c25ca9052ca1 \
    079d8b78aebd47876d330a30f6a8c6d61dd1ab5589329de714d19d61370f8149748c72f132f0fc99 \
    f34d766c6938597040d8f9e2bb522ff99c63a344d6a2ae8aa8e51b7b90a4a806105fcbca31506c44 \
    6151adfeceb51b91abfe43960977c87471cf9ad4074d30e10d6a7f03c63bd5d4317f68ff325ba3bd \
    80bf4dc8b52a0ba031758022eb025cdd770b44d6d6cf0670f4e990b22347a7db848265e3e5eb72df \
    e8299ad7481a408322cac55786e52f633b2fb6b614eaed18d703dd84045a274ae8bfa73379661388 \
    d6991fe39b0d93debb41700b41f90a15c4d526250235ddcd6776fc77bc97e7a417ebcb31600d01e5 \
    7f32162a8560cacc7e27a096d37a1a86952ec71bd89a3e9a30a2a26162984d7740f81193e8238e61 \
    f6b5b984d4d3dfa033c1bb7e4f0037febf406d91c0dccf32acf423cfa1e7071010d3f270121b493c \
    e85054ef58bada42310138fe081adb04e2bd901f2f13458b3d6758158197107c14ebb193230cd115 \
    7380aa79cae1374a7c1e5bbcb80ee23e06ebfde206bfb0fcbc0edc4ebec309661bdd908d532eb0c6 \
    adc38b7ca7331dce8dfce39ab71e7c32d318d136b6100671a1ae6a6600e3899f31f0eed19e3417d1 \
    34b90c9058f8632c798d4490da4987307cba922d61c39805d072b589bd52fdf1e86215c2d54e6670 \
    e07383a27bbffb5addf47d66aa85a0c6f9f32e59d85a44dd5d3b22dc2be80919b490437ae4f36a0a \
    e55edf1d0b5cb4e9a3ecabee93dfc6e38d209d0fa6536d27a5d6fbb17641cde27525d61093f1b280 \
    72d111b2b4ae5f89d5974ee12e5cf7d5da4d6a31123041f33e61407e76cffcdcfd7e19ba58cf4b53 \
    6f4c4938ae79324dc402894b44faf8afbab35282ab659d13c93f70412e85cb199a37ddec60054547 \
    3cfb5a05e08d0b209973b2172b4d21fb69745a262ccde96ba18b2faa745b6fe189cf772a9f84cbfc";

/// The payload of the server's answer.
const SERVER_PAYLOAD: &str = "\
    02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df566d \
    c5430b9a045a1200130100002e00330024001d00209d3c940d89690b84d08a60993c144eca684d10 \
    81287c834d5311bcf32bb9da1a002b00020304";

/// The packet, number 1.
const SERVER_PACKET: &str = "\
    dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698baeea26b91eb761d \
    9b89237bbf87263017915358230035f7fd3945d88965cf17f9af6e16886c61bfc703106fbaf3cb4c \
    fa52382dd16a393e42757507698075b2c984c707f0a0812d8cd5a6881eaf21ceda98f4bd23f6fe1a \
    3e2c43edd9ce7ca84bed8521e2e140";

const RETRY_PACKET: &str = "\
    cf6b3343cf0008f067a5502a4262b574 6f6b656ec8646ce8bfe33952d9555436 \
    65dcc7b6";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn suite() -> Suite {
    initial_suite(&rustls::crypto::aws_lc_rs::default_provider()).unwrap()
}

fn initial_keys(side: Side) -> Keys {
    let id = ConnectionId::new(&bytes(ID));
    InitialKeys::new(Version::V2, &suite(), &id, side).lend()
}

/// Returns the packet that leaves when the engine sends this header, whose packet number has so
/// many bytes.
fn sealed(
    (header_key, packet_key): (&dyn HeaderKey, &dyn PacketKey),
    (number, length): (u64, usize),
    header: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let room = vec![0; packet_key.tag_len()];
    let mut packet = [header, payload, &room].concat();
    packet_key.encrypt(number, &mut packet, header.len());
    header_key.encrypt(header.len() - length, &mut packet);
    packet
}

/// The engine's way with a packet that came: the header, and what was in it.
fn opened(
    (header_key, packet_key): (&dyn HeaderKey, &dyn PacketKey),
    (number, length): (u64, usize),
    header_length: usize,
    packet: &[u8],
) -> (Vec<u8>, Vec<u8>) {
    let mut packet = packet.to_vec();
    long_header::translate(&mut packet);
    header_key.decrypt(header_length - length, &mut packet);
    let (header, payload) = packet.split_at(header_length);
    let mut payload = BytesMut::from(payload);
    packet_key.decrypt(number, header, &mut payload).unwrap();
    (header.to_vec(), payload.to_vec())
}

#[test]
fn the_clients_initial_packet_is_the_samples() {
    let [client, server] = [Side::Client, Side::Server].map(initial_keys);
    let header = bytes("c36b3343cf088394c8f03e5157080000449e00000002");
    let mut payload = bytes(CLIENT_PAYLOAD);
    payload.resize(1162, 0);
    let keys = (&*client.header.local, &*client.packet.local);
    let packet = sealed(keys, (2, 4), &header, &payload);
    assert_eq!(packet, bytes(CLIENT_PACKET));

    let keys = (&*server.header.remote, &*server.packet.remote);
    let (bare, read) = opened(keys, (2, 4), header.len(), &packet);
    assert_eq!(bare, bytes("d36b3343cf088394c8f03e5157080000449e00000002"));
    assert_eq!(read, bytes(CLIENT_PAYLOAD), "without its padding");
}

#[test]
fn the_servers_initial_packet_is_the_samples() {
    let [client, server] = [Side::Client, Side::Server].map(initial_keys);
    let header = bytes("c16b3343cf0008f067a5502a4262b50040750001");
    let payload = bytes(SERVER_PAYLOAD);
    let keys = (&*server.header.local, &*server.packet.local);
    let packet = sealed(keys, (1, 2), &header, &payload);
    assert_eq!(packet, bytes(SERVER_PACKET));

    let keys = (&*client.header.remote, &*client.packet.remote);
    let (bare, read) = opened(keys, (1, 2), header.len(), &packet);
    assert_eq!(bare, bytes("d16b3343cf0008f067a5502a4262b50040750001"));
    assert_eq!(read, payload);
}

#[test]
fn a_packet_that_says_it_is_of_another_version_is_not_opened() {
    let keys = initial_keys(Side::Server);
    let mut packet = bytes(CLIENT_PACKET);
    keys.header.remote.decrypt(18, &mut packet);
    packet[4] = 1;
    let (header, payload) = packet.split_at(22);
    let mut payload = BytesMut::from(payload);
    assert!(keys.packet.remote.decrypt(2, header, &mut payload).is_err());
}

#[test]
fn the_retry_packet_is_the_samples() {
    let mut packet = bytes(RETRY_PACKET);
    let (sent, expected) = packet.split_at(packet.len() - TAG_BYTES);
    let engines = [&[0xff][..], &sent[1..]].concat();
    assert_eq!(retry::tag(Version::V2, &bytes(ID), &[&engines]), expected);

    long_header::translate(&mut packet);
    assert_eq!(packet[0], 0xff);
    let (header, payload) = packet.split_at(15);
    let is_valid = |version, payload| retry::is_valid(version, &bytes(ID), header, payload);
    assert!(is_valid(Version::V2, payload));
    assert!(!is_valid(Version::V1, payload));
    assert!(!is_valid(Version::V2, &payload[..payload.len() - 1]));
    assert!(!is_valid(Version::V2, &payload[..3]));
}

/// RFC 9001 appendix A.4.
#[test]
fn the_retry_packet_of_version_1_is_the_samples() {
    let packet =
        bytes("ff000000010008f067a5502a4262b574 6f6b656e04a265ba2eff4d829058fb3f 0f2496ba");
    let (header, payload) = packet.split_at(15);
    assert!(retry::is_valid(Version::V1, &bytes(ID), header, payload));
}

/// TLS derives these keys by itself: the RFC's are given here, and leave the header as it is.
#[test]
fn the_short_headers_packet_is_the_samples() {
    let cipher = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256;
    let quic = cipher.tls13().unwrap().quic.unwrap();
    let key = |hex: &str| AeadKey::from(<[u8; 32]>::try_from(bytes(hex)).unwrap());
    let iv = <[u8; 12]>::try_from(bytes("a6b5bc6ab7dafce30ffff5dd")).unwrap();
    let packet_key = key("3bfcddd72bcf02541d7fa0dd1f5f9eeea817e09a6963a0e6c7df0f9a1bab90f2");
    let header_key = key("d659760d2ba434a226fd37b35c69e2da8211d10c4f12538787d65645d5d1b8e2");
    let keys = || DirectionalKeys {
        header: quic.header_protection_key(header_key),
        packet: quic.packet_key(packet_key, Iv::new(iv)),
    };
    let (header_key, packet_key) = keys::of_short_header(keys());
    let keys = (&*header_key, &*packet_key);
    let number = (654_360_564, 3);
    let packet = sealed(keys, number, &bytes("4200bff4"), &[1]);
    assert_eq!(packet, bytes("5558b1c60ae7b6b932bc27d786f4bc2bb20f2162ba"));
    assert_eq!(
        opened(keys, number, 4, &packet),
        (bytes("4200bff4"), vec![1])
    );
}
