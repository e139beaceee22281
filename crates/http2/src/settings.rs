//! SETTINGS (RFC 9113 section 6.5): what the peer told, and what this side tells.

use crate::Code;
use crate::config::{Config, Role};
use crate::fault::Fault;
use crate::frame::{self, MAX_PAYLOAD, flag, kind};
use crate::window::{DEFAULT_WINDOW, MAX_WINDOW};

const HEADER_TABLE_SIZE: u16 = 0x01;
const ENABLE_PUSH: u16 = 0x02;
const MAX_CONCURRENT_STREAMS: u16 = 0x03;
const INITIAL_WINDOW_SIZE: u16 = 0x04;
const MAX_FRAME_SIZE: u16 = 0x05;
const MAX_HEADER_LIST_SIZE: u16 = 0x06;
/// RFC 8441 section 3.
const ENABLE_CONNECT_PROTOCOL: u16 = 0x08;
/// RFC 9218 section 2.1.
const NO_RFC7540_PRIORITIES: u16 = 0x09;

/// Length of one setting in bytes (RFC 9113 section 6.5.1).
const ENTRY_LEN: usize = 6;

/// SETTINGS of the peer, with the values that hold before they arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerSettings {
    pub(crate) header_table_size: u32,
    /// Smallest table size: of those in the last frame, and the one that held before it.
    pub(crate) smallest_table_size: u32,
    pub(crate) max_concurrent_streams: u32,
    pub(crate) initial_window: u32,
    /// Largest payload that it takes.
    pub(crate) max_frame_size: usize,
    pub(crate) max_header_list_size: usize,
    pub(crate) connect_protocol: bool,
    no_rfc7540_priorities: Option<u32>,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            header_table_size: 4096,
            smallest_table_size: 4096,
            max_concurrent_streams: u32::MAX,
            initial_window: DEFAULT_WINDOW,
            max_frame_size: MAX_PAYLOAD,
            max_header_list_size: usize::MAX,
            connect_protocol: false,
            no_rfc7540_priorities: None,
        }
    }
}

impl PeerSettings {
    /// Takes in one SETTINGS frame's payload. `role` is this side's.
    pub(crate) fn update(&mut self, payload: &[u8], role: Role) -> Result<(), Fault> {
        let (entries, rest) = payload.as_chunks::<ENTRY_LEN>();
        // "A SETTINGS frame with a length other than a multiple of 6 octets MUST be treated as a
        // connection error [...] of type FRAME_SIZE_ERROR."
        if !rest.is_empty() {
            return Err(Fault::Connection(Code::FRAME_SIZE_ERROR, "cut settings"));
        }
        self.smallest_table_size = self.header_table_size;
        for [i1, i0, value @ ..] in entries {
            let value = frame::be32(*value);
            self.set(u16::from_be_bytes([*i1, *i0]), value, role)?;
        }
        Ok(())
    }

    fn set(&mut self, id: u16, value: u32, role: Role) -> Result<(), Fault> {
        match id {
            HEADER_TABLE_SIZE => {
                self.header_table_size = value;
                self.smallest_table_size = self.smallest_table_size.min(value);
            }
            // "A server MUST NOT explicitly set this value to 1."
            ENABLE_PUSH if value > 1 || (value == 1 && role == Role::Client) => {
                return Err(Fault::protocol("bad SETTINGS_ENABLE_PUSH"));
            }
            MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = value,
            INITIAL_WINDOW_SIZE if value > MAX_WINDOW => {
                return Err(Fault::Connection(
                    Code::FLOW_CONTROL_ERROR,
                    "initial window above 2^31-1",
                ));
            }
            INITIAL_WINDOW_SIZE => self.initial_window = value,
            MAX_FRAME_SIZE => {
                let size = usize::try_from(value).unwrap_or(usize::MAX);
                if !(MAX_PAYLOAD..1 << 24).contains(&size) {
                    return Err(Fault::protocol("bad SETTINGS_MAX_FRAME_SIZE"));
                }
                self.max_frame_size = size;
            }
            MAX_HEADER_LIST_SIZE => {
                self.max_header_list_size = usize::try_from(value).unwrap_or(usize::MAX);
            }
            ENABLE_CONNECT_PROTOCOL => {
                // "A sender MUST NOT send [...] the value of 0 after previously sending a value of
                // 1" (RFC 8441 section 3).
                if value > 1 || (value == 0 && self.connect_protocol) {
                    return Err(Fault::protocol("bad SETTINGS_ENABLE_CONNECT_PROTOCOL"));
                }
                self.connect_protocol = value == 1;
            }
            NO_RFC7540_PRIORITIES => {
                // "[...] any value other than 0 or 1, or a value change [...] connection error".
                let changed = self.no_rfc7540_priorities.is_some_and(|old| old != value);
                if value > 1 || changed {
                    return Err(Fault::protocol("bad SETTINGS_NO_RFC7540_PRIORITIES"));
                }
                self.no_rfc7540_priorities = Some(value);
            }
            // "An endpoint that receives a SETTINGS frame with any unknown or unsupported
            // identifier MUST ignore that setting."
            _ => {}
        }
        Ok(())
    }
}

/// Appends this side's SETTINGS frame.
pub(crate) fn put(config: &Config, role: Role, out: &mut Vec<u8>) {
    let mut payload = Vec::with_capacity(7 * ENTRY_LEN);
    let mut set = |id: u16, value: u32| {
        payload.extend_from_slice(&id.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    };
    match role {
        Role::Server => {
            set(MAX_CONCURRENT_STREAMS, config.max_concurrent_streams);
            set(NO_RFC7540_PRIORITIES, 1);
            if config.extended_connect {
                set(ENABLE_CONNECT_PROTOCOL, 1);
            }
        }
        Role::Client => set(ENABLE_PUSH, 0),
    }
    set(HEADER_TABLE_SIZE, config.header_table_size);
    set(INITIAL_WINDOW_SIZE, config.stream_window.min(MAX_WINDOW));
    set(MAX_HEADER_LIST_SIZE, config.max_header_list_size);
    frame::put(out, kind::SETTINGS, flag::NONE, 0, &payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(entries: &[(u16, u32)]) -> Result<PeerSettings, Fault> {
        let mut settings = PeerSettings::default();
        let payload: Vec<u8> = entries
            .iter()
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        settings.update(&payload, Role::Client)?;
        Ok(settings)
    }

    #[test]
    fn the_last_value_holds_and_unknown_ones_are_ignored() {
        let settings = update(&[(4, 1), (4, 2), (0x77, 9), (3, 5), (1, 0)]).unwrap();
        assert_eq!(settings.initial_window, 2);
        assert_eq!(settings.max_concurrent_streams, 5);
        assert_eq!(settings.header_table_size, 0);
    }

    #[test]
    fn values_out_of_range_are_connection_errors() {
        for (id, value) in [
            (2, 1),
            (2, 2),
            (4, 1 << 31),
            (5, 16_383),
            (5, 1 << 24),
            (8, 2),
            (9, 2),
        ] {
            assert!(update(&[(id, value)]).is_err(), "{id} = {value}");
        }
        assert!(update(&[(5, 16_384), (5, (1 << 24) - 1), (4, MAX_WINDOW)]).is_ok());
        assert!(update(&[(8, 1), (8, 0)]).is_err());
        assert!(update(&[(9, 1), (9, 0)]).is_err());
        let cut = PeerSettings::default().update(&[0; 5], Role::Server);
        assert_eq!(
            cut,
            Err(Fault::Connection(Code::FRAME_SIZE_ERROR, "cut settings"))
        );
    }

    #[test]
    fn a_client_may_allow_push() {
        let mut settings = PeerSettings::default();
        assert!(settings.update(&[0, 2, 0, 0, 0, 1], Role::Server).is_ok());
    }

    #[test]
    fn what_one_side_tells_the_other_understands() {
        let config = Config {
            extended_connect: true,
            ..Config::default()
        };
        let mut wire = Vec::new();
        put(&config, Role::Server, &mut wire);
        let mut peer = PeerSettings::default();
        peer.update(&wire[frame::HEADER_LEN..], Role::Client)
            .unwrap();
        assert_eq!(peer.max_concurrent_streams, config.max_concurrent_streams);
        assert_eq!(peer.initial_window, config.stream_window);
        assert!(peer.connect_protocol);
    }
}
