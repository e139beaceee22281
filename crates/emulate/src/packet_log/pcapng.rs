//! The blocks of a pcapng file that a packet log consists of (draft-ietf-opsawg-pcapng), in little
//! endian.
//!
//! Ours, because it is four kinds of blocks put into memory that the caller owns, and the libraries
//! that could write them want a file or an allocation for each packet. Readers that are not ours
//! check it in the tests.

/// The packets begin with their IP header: LINKTYPE_RAW.
const LINK_TYPE: u16 = 101;

/// Timestamps count 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// The block types, §4.1 to §4.6.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// The codes of options: of every block, and of the block that the name begins with.
const END: u16 = 0;
const COMMENT: u16 = 1;
const SECTION_PROGRAM: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_TIME_RESOLUTION: u16 = 9;
const STATISTICS_RECEIVED: u16 = 4;
const STATISTICS_MISSED: u16 = 7;
const PACKET_FLAGS: u16 = 2;

/// The most bytes of a packet's block that are not the packet: 32 around it, 3 of padding, 8 for the
/// flags, 4 for the end of the options, and the comment with 7 around it.
const PACKET_OVERHEAD: usize = 64;

/// Direction in which a packet passes an interface, in the two lowest bits of its flags (§4.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// The packet comes in.
    In = 1,
    /// The packet goes out.
    Out = 2,
}

/// A packet with what is said of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) interface: u32,
    /// Nanoseconds since 1970.
    pub(super) at: u64,
    pub(super) bound: Bound,
    pub(super) comment: Option<&'static str>,
    pub(super) bytes: &'a [u8],
}

/// The block that a file begins with.
pub(super) fn section_header(out: &mut Vec<u8>, program: &str) {
    block(out, SECTION_HEADER, |out| {
        // The byte-order magic, version 1.0, and a section of unknown length.
        out.extend(0x1a2b_3c4d_u32.to_le_bytes());
        out.extend(1_u16.to_le_bytes());
        out.extend(0_u16.to_le_bytes());
        out.extend(u64::MAX.to_le_bytes());
        option(out, SECTION_PROGRAM, program.as_bytes());
        option(out, END, &[]);
    });
}

/// The block of an interface; they are numbered in the order of their blocks, from 0.
pub(super) fn interface(out: &mut Vec<u8>, name: &str) {
    block(out, INTERFACE_DESCRIPTION, |out| {
        out.extend(LINK_TYPE.to_le_bytes());
        out.extend(0_u16.to_le_bytes());
        // Packets are never cut off.
        out.extend(0_u32.to_le_bytes());
        option(out, INTERFACE_NAME, name.as_bytes());
        option(out, INTERFACE_TIME_RESOLUTION, &[NANOSECONDS]);
        option(out, END, &[]);
    });
}

/// The block of a packet.
pub(super) fn packet(out: &mut Vec<u8>, packet: Packet<'_>) {
    block(out, ENHANCED_PACKET, |out| {
        out.extend(packet.interface.to_le_bytes());
        timestamp(out, packet.at);
        let length = u32::try_from(packet.bytes.len()).expect("an IP packet is below 64 KiB");
        out.extend(length.to_le_bytes());
        out.extend(length.to_le_bytes());
        padded(out, packet.bytes);
        if let Some(comment) = packet.comment {
            option(out, COMMENT, comment.as_bytes());
        }
        option(out, PACKET_FLAGS, &(packet.bound as u32).to_le_bytes());
        option(out, END, &[]);
    });
}

/// The most bytes that the block of a packet can take.
pub(super) fn packet_room(bytes: &[u8], comment: Option<&str>) -> usize {
    bytes.len() + comment.map_or(0, str::len) + PACKET_OVERHEAD
}

/// The block that ends the account of an interface: how many packets passed it, and how many of them
/// are not in the file.
pub(super) fn statistics(out: &mut Vec<u8>, interface: u32, at: u64, received: u64, missed: u64) {
    block(out, INTERFACE_STATISTICS, |out| {
        out.extend(interface.to_le_bytes());
        timestamp(out, at);
        option(out, STATISTICS_RECEIVED, &received.to_le_bytes());
        option(out, STATISTICS_MISSED, &missed.to_le_bytes());
        option(out, END, &[]);
    });
}

/// A block: its type, its length, its body, and its length again.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_le_bytes());
    out.extend(0_u32.to_le_bytes());
    body(out);
    let length = u32::try_from(out.len() - start + 4).expect("a block is a packet and a little");
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    out.extend(length.to_le_bytes());
}

/// The high half comes first, whatever the byte order.
fn timestamp(out: &mut Vec<u8>, at: u64) {
    out.extend(((at >> 32) as u32).to_le_bytes());
    out.extend((at as u32).to_le_bytes());
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let length = u16::try_from(value.len()).expect("options are short words and numbers");
    out.extend(code.to_le_bytes());
    out.extend(length.to_le_bytes());
    padded(out, value);
}

/// Values end at a multiple of four bytes.
fn padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.extend_from_slice(&[0; 3][..bytes.len().next_multiple_of(4) - bytes.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packets_block_is_this() {
        let mut out = Vec::new();
        let bytes = [0x45, 1, 2, 3, 4];
        packet(
            &mut out,
            Packet {
                interface: 1,
                at: 0x0102_0304_0506_0708,
                bound: Bound::Out,
                comment: Some("lost"),
                bytes: &bytes,
            },
        );
        #[rustfmt::skip]
        let expected = [
            6, 0, 0, 0, 60, 0, 0, 0, 1, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5, 5, 0, 0, 0, 5, 0, 0, 0,
            0x45, 1, 2, 3, 4, 0, 0, 0,
            1, 0, 4, 0, b'l', b'o', b's', b't', 2, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0,
        ];
        assert_eq!(out, expected);
        assert!(out.len() <= packet_room(&bytes, Some("lost")));
    }

    #[test]
    fn no_block_is_longer_than_its_room() {
        for length in 0..9 {
            for comment in [None, Some(""), Some("a"), Some("queue full")] {
                let bytes = vec![7; length];
                let mut out = Vec::new();
                let at = u64::MAX;
                let (interface, bound) = (0, Bound::In);
                let block = Packet {
                    interface,
                    at,
                    bound,
                    comment,
                    bytes: &bytes,
                };
                packet(&mut out, block);
                assert!(out.len() <= packet_room(&bytes, comment));
                assert_eq!(out.len() % 4, 0);
            }
        }
    }
}
