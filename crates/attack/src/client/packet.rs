//! QUIC packets and frames made by hand.

use bytes::BytesMut;

use super::keys::Sealing;

/// A maker of 1-RTT packets (RFC 9000 section 17.3.1) of one connection.
pub struct Sealer {
    pub(super) keys: Sealing,
    pub(super) connection_id: Vec<u8>,
    pub(super) next_number: u64,
}

impl Sealer {
    /// A packet with these frames, padded so that there is enough for header protection (RFC 9001
    /// section 5.4.2).
    pub fn packet(&mut self, frames: &[u8]) -> Vec<u8> {
        let number = self.next_number;
        self.next_number += 1;
        // Fixed bit, and a packet number of four bytes.
        let mut packet = vec![0x43];
        packet.extend_from_slice(&self.connection_id);
        let offset = packet.len();
        let low = u32::try_from(number & 0xffff_ffff).unwrap_or_default();
        packet.extend_from_slice(&low.to_be_bytes());
        let header_len = packet.len();
        packet.extend_from_slice(frames);
        packet.extend_from_slice(&[0; 16]);
        self.keys.packet.encrypt(number, &mut packet, header_len);
        self.keys.header.encrypt(offset, &mut packet);
        packet
    }

    /// The number that the next packet will have.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.next_number
    }
}

/// Length of the connection IDs that quinn-proto gives a client.
const CLIENT_ID: usize = 8;

impl Sealer {
    /// Error code of the CONNECTION_CLOSE frame (RFC 9000 section 19.19) in a datagram of the server,
    /// where it is in its first packet, before any frame but ACK and PADDING.
    #[must_use]
    pub fn close_code(&self, datagram: &[u8]) -> Option<u64> {
        let (offset, mut packet) = (1 + CLIENT_ID, datagram.to_vec());
        if packet.first()? & 0x80 != 0 || packet.len() < offset + 20 {
            return None;
        }
        self.keys.servers_header.decrypt(offset, &mut packet);
        let header_len = offset + usize::from(packet[0] & 3) + 1;
        let number = packet[offset..header_len].iter();
        let number = number.fold(0, |number, byte| number << 8 | u64::from(*byte));
        let mut payload = BytesMut::from(&packet[header_len..]);
        let key = &self.keys.servers_packet;
        key.decrypt(number, &packet[..header_len], &mut payload)
            .ok()?;
        close_code(&payload)
    }
}

fn close_code(mut frames: &[u8]) -> Option<u64> {
    loop {
        match take(&mut frames)? {
            0 => {}
            kind @ (2 | 3) => {
                let (_, _, ranges, _) = (
                    take(&mut frames)?,
                    take(&mut frames)?,
                    take(&mut frames)?,
                    take(&mut frames)?,
                );
                let more = if kind == 3 { 3 } else { 0 };
                for _ in 0..2 * ranges + more {
                    take(&mut frames)?;
                }
            }
            0x1c | 0x1d => return take(&mut frames),
            _ => return None,
        }
    }
}

/// Takes a variable-length integer.
fn take(input: &mut &[u8]) -> Option<u64> {
    let len = 1 << (*input.first()? >> 6);
    let (bytes, rest) = input.split_at_checked(len)?;
    *input = rest;
    let value = bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte));
    Some(value & (u64::MAX >> (64 - 8 * len + 2)))
}

/// A variable-length integer (RFC 9000 section 16), in eight bytes where it needs more than two.
#[must_use]
pub fn varint(value: u64) -> Vec<u8> {
    match u16::try_from(value) {
        Ok(small) if small < 64 => vec![small.to_be_bytes()[1]],
        Ok(small) if small < 1 << 14 => (small | 0x4000).to_be_bytes().to_vec(),
        _ => (value | 3 << 62).to_be_bytes().to_vec(),
    }
}

/// A frame: its type, then integers.
#[must_use]
pub fn frame(kind: u64, values: &[u64]) -> Vec<u8> {
    let values = values.iter().flat_map(|value| varint(*value));
    varint(kind).into_iter().chain(values).collect()
}

/// A STREAM frame with offset and length (RFC 9000 section 19.8).
#[must_use]
pub fn stream(id: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    let head = frame(0x0e, &[id, offset, data.len() as u64]);
    [&head[..], data].concat()
}

/// A CRYPTO frame (RFC 9000 section 19.6).
#[must_use]
pub fn crypto(offset: u64, data: &[u8]) -> Vec<u8> {
    let head = frame(0x06, &[offset, data.len() as u64]);
    [&head[..], data].concat()
}

/// A NEW_CONNECTION_ID frame (RFC 9000 section 19.15) whose ID and token come from its number.
#[must_use]
pub fn new_connection_id(sequence: u64, retire_prior_to: u64) -> Vec<u8> {
    let head = frame(0x18, &[sequence, retire_prior_to]);
    let id = sequence.to_be_bytes();
    [&head[..], &[8], &id, &id, &id].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_is_read_as_it_was_written() {
        for value in [0, 63, 64, 16_383, 16_384, (1 << 62) - 1] {
            assert_eq!(take(&mut &varint(value)[..]), Some(value));
        }
    }

    #[test]
    fn a_close_is_found_behind_an_acknowledgement() {
        let close = [frame(2, &[9, 0, 1, 2, 1, 1]), frame(0x1c, &[10, 0, 0])].concat();
        assert_eq!(close_code(&close), Some(10));
    }
}
