//! The SETTINGS frame (RFC 9114 section 7.2.4): what one side tells the other once, at the start.

use bytes::{BufMut, BytesMut};

use crate::failure::Violation;
use crate::grease::Grease;
use crate::{Code, frame, varint};

/// SETTINGS_QPACK_MAX_TABLE_CAPACITY (RFC 9204 section 5).
const QPACK_MAX_TABLE_CAPACITY: u64 = 0x01;
/// SETTINGS_MAX_FIELD_SECTION_SIZE.
const MAX_FIELD_SECTION_SIZE: u64 = 0x06;
/// SETTINGS_QPACK_BLOCKED_STREAMS (RFC 9204 section 5).
const QPACK_BLOCKED_STREAMS: u64 = 0x07;
/// SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 9220 section 3).
const ENABLE_CONNECT_PROTOCOL: u64 = 0x08;
/// SETTINGS_H3_DATAGRAM (RFC 9297 section 2.1.1).
const H3_DATAGRAM: u64 = 0x33;

/// Largest SETTINGS payload that is accepted, bytes. The RFC sets no bound; real ones have tens.
pub(crate) const MAX_PAYLOAD: u64 = 4096;

/// The settings this layer uses. The peer's number of blocked streams is not among them, as nothing
/// is sent that could block; nor is SETTINGS_H3_DATAGRAM, which is checked and not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Largest field section that the sender of the frame takes; unlimited unless given.
    pub(crate) max_field_section_size: u64,
    /// Largest dynamic table that its decoder may be made to hold.
    pub(crate) qpack_table_capacity: u64,
    /// Streams whose field sections may wait for that table.
    pub(crate) qpack_blocked_streams: u64,
    /// Server: it takes extended CONNECT.
    pub(crate) extended_connect: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_field_section_size: u64::MAX,
            qpack_table_capacity: 0,
            qpack_blocked_streams: 0,
            extended_connect: false,
        }
    }
}

impl Settings {
    /// Appends the whole frame. Section 7.2.4.1: endpoints "SHOULD include at least one" reserved
    /// setting.
    pub(crate) fn encode(&self, grease: &mut Grease, out: &mut impl BufMut) {
        let mut payload = BytesMut::new();
        let mut put = |id, value: u64| {
            varint::encode(id, &mut payload);
            varint::encode(value.min(varint::MAX), &mut payload);
        };
        put(QPACK_MAX_TABLE_CAPACITY, self.qpack_table_capacity);
        put(QPACK_BLOCKED_STREAMS, self.qpack_blocked_streams);
        put(MAX_FIELD_SECTION_SIZE, self.max_field_section_size);
        if self.extended_connect {
            put(ENABLE_CONNECT_PROTOCOL, 1);
        }
        put(grease.identifier(), 0);
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
            settings.set(id, value)?;
            seen.push(id);
        }
        seen.sort_unstable();
        if seen.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(wrong("setting given twice"));
        }
        Ok(settings)
    }

    /// Returns true if a client that acted on `earlier` settings has violated none of these, and
    /// nothing that was announced then is withdrawn (RFC 9114 section 7.2.4.2; RFC 9204 section
    /// 3.2.3: "If the remembered value is non-zero, the server MUST send the same non-zero value").
    pub(crate) fn keeps_promises_of(&self, earlier: &Self) -> bool {
        let unsaid = |settings: &Self| settings.max_field_section_size == u64::MAX;
        let capacity = [0, self.qpack_table_capacity];
        unsaid(self) == unsaid(earlier)
            && self.max_field_section_size >= earlier.max_field_section_size
            && capacity.contains(&earlier.qpack_table_capacity)
            && self.qpack_blocked_streams >= earlier.qpack_blocked_streams
            && self.extended_connect >= earlier.extended_connect
    }

    /// All of it, as bytes that differ where settings do.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let numbers = [
            self.max_field_section_size,
            self.qpack_table_capacity,
            self.qpack_blocked_streams,
            self.extended_connect.into(),
        ];
        numbers.iter().flat_map(|it| it.to_be_bytes()).collect()
    }

    fn set(&mut self, id: u64, value: u64) -> Result<(), Violation> {
        match id {
            QPACK_MAX_TABLE_CAPACITY => self.qpack_table_capacity = value,
            QPACK_BLOCKED_STREAMS => self.qpack_blocked_streams = value,
            MAX_FIELD_SECTION_SIZE => self.max_field_section_size = value,
            ENABLE_CONNECT_PROTOCOL => self.extended_connect = flag(value)?,
            // RFC 9297 section 2.1.1: "the receiver of the SETTINGS frame MUST close the connection
            // with error H3_SETTINGS_ERROR if the value is other than 0 or 1".
            H3_DATAGRAM => drop(flag(value)?),
            // Section 7.2.4.1: setting identifiers "defined in [HTTP/2] where there is no
            // corresponding HTTP/3 setting [...] MUST NOT be sent, and their receipt MUST be
            // treated as a connection error of type H3_SETTINGS_ERROR."
            0x00 | 0x02..=0x05 => return Err(wrong("setting reserved by HTTP/2")),
            _ => {}
        }
        Ok(())
    }
}

fn flag(value: u64) -> Result<bool, Violation> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(wrong("setting is neither 0 nor 1")),
    }
}

fn wrong(reason: &'static str) -> Violation {
    Violation::new(Code::H3_SETTINGS_ERROR, reason)
}

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
        for extended_connect in [false, true] {
            let settings = Settings {
                max_field_section_size: 65_536,
                qpack_table_capacity: 4096,
                qpack_blocked_streams: 16,
                extended_connect,
            };
            let mut out = Vec::new();
            settings.encode(&mut Grease::new(1), &mut out);
            assert_eq!(out[0], 4);
            assert_eq!(usize::from(out[1]), out.len() - 2);
            assert_eq!(Settings::decode(&out[2..]), Ok(settings));
        }
    }

    #[test]
    fn later_settings_may_promise_more_and_never_less() {
        let earlier = Settings {
            max_field_section_size: 1000,
            qpack_table_capacity: 4096,
            qpack_blocked_streams: 16,
            extended_connect: true,
        };
        let kept = |change: fn(&mut Settings)| {
            let mut later = earlier;
            change(&mut later);
            later.keeps_promises_of(&earlier)
        };
        assert!(kept(|_| {}));
        assert!(kept(|it| it.max_field_section_size = 1001));
        assert!(!kept(|it| it.max_field_section_size = 999));
        assert!(!kept(|it| it.max_field_section_size = u64::MAX), "unsaid");
        assert!(!kept(|it| it.qpack_table_capacity = 4097));
        assert!(!kept(|it| it.qpack_table_capacity = 0));
        assert!(kept(|it| it.qpack_blocked_streams = 17));
        assert!(!kept(|it| it.qpack_blocked_streams = 15));
        assert!(!kept(|it| it.extended_connect = false));
        let none = Settings {
            qpack_table_capacity: 0,
            ..earlier
        };
        assert!(earlier.keeps_promises_of(&none));
        assert_ne!(earlier.to_bytes(), none.to_bytes());
    }

    #[test]
    fn an_empty_frame_sets_nothing() {
        assert_eq!(Settings::decode(&[]), Ok(Settings::default()));
    }

    #[test]
    fn reserved_repeated_and_impossible_settings_are_errors() {
        for payload in [
            &[0x02, 1][..],
            &[0x00, 0],
            &[0x05, 9],
            &[0x06, 1, 0x06, 1],
            &[33, 0, 33, 1],
            &[0x08, 2],
            &[0x33, 2],
        ] {
            assert_eq!(
                Settings::decode(payload).unwrap_err().code,
                Code::H3_SETTINGS_ERROR
            );
        }
        assert_eq!(Settings::decode(&[0x33, 1]), Ok(Settings::default()));
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
