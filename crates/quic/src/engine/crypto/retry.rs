//! The integrity tag of Retry packets (RFC 9001 section 5.8, RFC 9369 section 3.3.3).
//!
//! The key is no secret: the tag shows that the packet's sender saw the client's packet, and that
//! nothing broke it on the way.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::TAG_BYTES;
use crate::{Version, long_header};

/// The tag of a packet, given in parts and by the engine's types, in answer to one that went to `id`.
pub(super) fn tag(version: Version, id: &[u8], packet: &[&[u8]]) -> [u8; TAG_BYTES] {
    let (key, nonce) = key_and_nonce(version);
    let id_length = u8::try_from(id.len()).expect("a connection ID has 20 bytes at most");
    let mut packet = packet.concat();
    if version == Version::V2
        && let Some(first) = packet.first_mut()
    {
        *first = long_header::to_version_2(*first);
    }
    let pseudo_packet = [&[id_length], id, &packet].concat();
    let key = UnboundKey::new(&AES_128_GCM, &key).expect("the key has the cipher's length");
    let mut nothing = [];
    let tag = LessSafeKey::new(key)
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(pseudo_packet),
            &mut nothing,
        )
        .expect("a packet is short enough for the cipher");
    *tag.as_ref()
        .first_chunk()
        .expect("the cipher's tags have 16 bytes")
}

/// Returns true if a Retry packet's payload ends with its tag.
pub(super) fn is_valid(version: Version, id: &[u8], header: &[u8], payload: &[u8]) -> bool {
    let Some((token, received)) = payload.split_last_chunk() else {
        return false;
    };
    tag(version, id, &[header, token]) == *received
}

/// "A secret key K, 128 bits", and "the nonce N, 96 bits", of RFC 9001 section 5.8, and what RFC 9369
/// section 3.3.3 has instead.
fn key_and_nonce(version: Version) -> ([u8; 16], [u8; 12]) {
    let (key, nonce): (u128, u128) = match version {
        Version::V1 => (
            0xbe0c_690b_9f66_575a_1d76_6b54_e368_c84e,
            0x4615_99d3_5d63_2bf2_2398_25bb,
        ),
        Version::V2 => (
            0x8fb4_b01b_56ac_48e2_60fb_cbce_ad7c_cc92,
            0xd869_69bc_2d7c_6d99_90ef_b04a,
        ),
    };
    let nonce = nonce.to_be_bytes();
    let nonce = *nonce.last_chunk().expect("12 of 16 bytes");
    (key.to_be_bytes(), nonce)
}
