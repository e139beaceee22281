//! The SETTINGS frame (RFC 9114 section 7.2.4): what one side tells the other once, at the start.

use bytes::{BufMut, BytesMut};

use crate::failure::Violation;
use crate::{Code, frame, varint};

/// SETTINGS_QPACK_MAX_TABLE_CAPACITY (RFC 9204 section 5).
const QPACK_MAX_TABLE_CAPACITY: u64 = 0x01;
/// SETTINGS_MAX_FIELD_SECTION_SIZE.
const MAX_FIELD_SECTION_SIZE: u64 = 0x06;
/// SETTINGS_QPACK_BLOCKED_STREAMS (RFC 9204 section 5).
const QPACK_BLOCKED_STREAMS: u64 = 0x07;

/// Largest SETTINGS payload that is accepted, bytes. The RFC sets no bound; real ones have tens.
pub(crate) const MAX_PAYLOAD: u64 = 4096;

/// The settings this layer uses. QPACK's two are not kept: its encoder uses no dynamic table, so
/// whatever the peer allows is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Largest field section that the sender of the frame takes; unlimited unless given.
    pub(crate) max_field_section_size: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_field_section_size: u64::MAX,
        }
    }
}

impl Settings {
    /// Appends the whole frame.
    pub(crate) fn encode(&self, out: &mut impl BufMut) {
        let mut payload = BytesMut::new();
        for (id, value) in [
            (QPACK_MAX_TABLE_CAPACITY, 0),
            (QPACK_BLOCKED_STREAMS, 0),
            (
                MAX_FIELD_SECTION_SIZE,
                self.max_field_section_size.min(varint::MAX),
            ),
            GREASE,
        ] {
            varint::encode(id, &mut payload);
            varint::encode(value, &mut payload);
        }
        frame::encode_header(frame::kind::SETTINGS, payload.len() as u64, out);
        out.put(payload);
    }

    /// Reads a frame's payload.
    pub(crate) fn decode(mut payload: &[u8]) -> Result<Self, Violation> {
        let mut settings = Settings::default();
        let mut seen = Vec::new();
        while !payload.is_empty() {
            let (id, value) = take_pair(&mut payload)
                .ok_or(Violation::new(Code::H3_FRAME_ERROR, "SETTINGS cut short"))?;
            // Section 7.2.4.1: setting identifiers "defined in [HTTP/2] where there is no
            // corresponding HTTP/3 setting [...] MUST NOT be sent, and their receipt MUST be
            // treated as a connection error of type H3_SETTINGS_ERROR."
            if matches!(id, 0x00 | 0x02..=0x05) {
                return Err(Violation::new(
                    Code::H3_SETTINGS_ERROR,
                    "setting reserved by HTTP/2",
                ));
            }
            if id == MAX_FIELD_SECTION_SIZE {
                settings.max_field_section_size = value;
            }
            seen.push(id);
        }
        seen.sort_unstable();
        if seen.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Violation::new(
                Code::H3_SETTINGS_ERROR,
                "setting given twice",
            ));
        }
        Ok(settings)
    }
}

/// A setting without meaning, of the form 31 × N + 33, that keeps peers used to unknown settings
/// (section 7.2.4.1: "SHOULD include at least one such setting").
const GREASE: (u64, u64) = (31 * 2 + 33, 0);

fn take_pair(payload: &mut &[u8]) -> Option<(u64, u64)> {
    let (id, id_len) = varint::decode(payload)?;
    let (value, value_len) = varint::decode(&payload[id_len..])?;
    *payload = &payload[id_len + value_len..];
    Some((id, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_understood() {
        let settings = Settings {
            max_field_section_size: 65_536,
        };
        let mut out = Vec::new();
        settings.encode(&mut out);
        assert_eq!(out[0], 4);
        assert_eq!(usize::from(out[1]), out.len() - 2);
        assert_eq!(Settings::decode(&out[2..]), Ok(settings));
    }

    #[test]
    fn an_empty_frame_sets_nothing() {
        assert_eq!(Settings::decode(&[]), Ok(Settings::default()));
    }

    #[test]
    fn reserved_and_repeated_settings_are_errors() {
        for payload in [
            &[0x02, 1][..],
            &[0x00, 0],
            &[0x05, 9],
            &[0x06, 1, 0x06, 1],
            &[33, 0, 33, 1],
        ] {
            assert_eq!(
                Settings::decode(payload).unwrap_err().code,
                Code::H3_SETTINGS_ERROR
            );
        }
    }

    #[test]
    fn a_cut_pair_is_a_frame_error() {
        for payload in [&[0x06][..], &[0x06, 0x40], &[0x40]] {
            assert_eq!(
                Settings::decode(payload).unwrap_err().code,
                Code::H3_FRAME_ERROR
            );
        }
    }
}
