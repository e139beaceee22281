//! Operations on a pair, in four bytes.

use crate::speech::Role;

/// An operation on a pair. `nth` and `stream` count modulo the number of exchanges or streams there
/// are; an operation that makes no sense at the moment is left out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// The client sends a request.
    Request { shape: u8, fields: u8 },
    /// The server sends a response's head.
    Respond { nth: u8, shape: u8, fields: u8 },
    /// The server sends an interim response.
    Inform { nth: u8, status: u8 },
    /// An application has more of a body to send; `last`: it is all.
    Offer {
        by: Role,
        nth: u8,
        len: u16,
        last: bool,
    },
    /// An application ends a body by fields.
    Trailers { by: Role, nth: u8 },
    /// An application gives an exchange up.
    Reset { by: Role, nth: u8, code: u8 },
    /// An application is done with bytes that it has got.
    Release { by: Role, nth: u8, len: u16 },
    /// The streams whose turn it is send so many frames.
    Pump { by: Role, frames: u8 },
    /// A number of bytes arrives, 0: all that are on their way.
    Pass { to: Role, len: u16 },
    /// Time passes, and what is due happens.
    Wait { millis: u32 },
    /// The client sends a PRIORITY_UPDATE of this stream, or the deprecated PRIORITY.
    Prioritise { stream: u8, value: u8 },
    /// A frame that `by` did not say appears among what it says.
    Inject {
        by: Role,
        stream: u8,
        what: u8,
        value: u8,
    },
    /// An application wants an end, gracefully.
    Shutdown { by: Role },
    /// An application wants an end at once.
    Close { by: Role, code: u8 },
    /// The server names an alternative service.
    AltSvc { len: u8 },
}

impl From<[u8; 4]> for Operation {
    fn from([kind, a, b, c]: [u8; 4]) -> Self {
        let by = if a < 0x80 { Role::Client } else { Role::Server };
        let nth = a & 0x7f;
        let long = u16::from_le_bytes([b, c]);
        match kind % 24 {
            0..=2 => Self::Request {
                shape: a,
                fields: b,
            },
            3..=5 => Self::Respond {
                nth,
                shape: b,
                fields: c,
            },
            6 => Self::Inform { nth, status: b },
            7 | 8 => Self::Offer {
                by,
                nth,
                len: long,
                last: false,
            },
            9 => Self::Offer {
                by,
                nth,
                len: long,
                last: true,
            },
            10 => Self::Trailers { by, nth },
            11 => Self::Reset { by, nth, code: b },
            12 => Self::Release { by, nth, len: long },
            13 | 14 => Self::Pump { by, frames: b },
            15..=17 => Self::Pass { to: by, len: long },
            18 => Self::Wait {
                millis: u32::from(long) * 2,
            },
            19 => Self::Prioritise {
                stream: nth,
                value: b,
            },
            20 => Self::Inject {
                by,
                stream: nth,
                what: b,
                value: c,
            },
            21 => Self::Shutdown { by },
            22 => Self::Close { by, code: b },
            _ => Self::AltSvc { len: b },
        }
    }
}
