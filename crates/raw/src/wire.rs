//! The control protocol: what a client asks for, and what the server says to it. Pure.
//!
//! On one connection, of whatever transport, the client sends a [`Command`] of 32 bytes and, for a
//! transfer, its payload; the server sends its payload and then a [`Receipt`] of 16 bytes, behind
//! which a report follows as text. All numbers are big-endian. The client's next command follows the
//! receipt. Neither end closes before it has what it is owed, so nothing is cut off that was sent.

/// Begins every command and every receipt: the protocol and its version.
const MAGIC: [u8; 8] = *b"altraw/1";

/// Bytes of a command.
pub(crate) const COMMAND_BYTES: usize = 32;

/// Bytes of a receipt.
pub(crate) const RECEIPT_BYTES: usize = 16;

const HELLO: u8 = 0;
const TRANSFER: u8 = 1;
const REPORT: u8 = 2;

const VERIFY: u8 = 1;
const SIMULTANEOUS: u8 = 2;

/// Request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Answer, so that I know who you are.
    Hello,
    /// Take so much and send so much.
    Transfer(Transfer),
    /// Tell what the transfers cost you.
    Report,
}

/// A transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// Bytes from the client to the server.
    pub(crate) up: u64,
    /// Bytes from the server to the client.
    pub(crate) down: u64,
    /// The server's bytes don't wait for the client's.
    pub(crate) together: bool,
    /// True if both ends compare every byte with what it should be.
    pub(crate) verify: bool,
}

impl Command {
    pub(crate) fn encode(self) -> [u8; COMMAND_BYTES] {
        let mut bytes = [0; COMMAND_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        match self {
            Self::Hello => bytes[8] = HELLO,
            Self::Report => bytes[8] = REPORT,
            Self::Transfer(transfer) => {
                bytes[8] = TRANSFER;
                bytes[9] =
                    u8::from(transfer.verify) * VERIFY + u8::from(transfer.together) * SIMULTANEOUS;
                bytes[16..24].copy_from_slice(&transfer.up.to_be_bytes());
                bytes[24..].copy_from_slice(&transfer.down.to_be_bytes());
            }
        }
        bytes
    }

    /// `None`: this is nothing that a client of ours would send.
    pub(crate) fn decode(bytes: &[u8; COMMAND_BYTES]) -> Option<Self> {
        if bytes[..8] != MAGIC {
            return None;
        }
        let command = match bytes[8] {
            HELLO => Self::Hello,
            REPORT => Self::Report,
            TRANSFER => Self::Transfer(Transfer {
                up: number(&bytes[16..24]),
                down: number(&bytes[24..]),
                together: bytes[9] & SIMULTANEOUS != 0,
                verify: bytes[9] & VERIFY != 0,
            }),
            _ => return None,
        };
        // What means nothing yet must be nothing, so that it may mean something later.
        (command.encode() == *bytes).then_some(command)
    }
}

/// Answer of the server when it has done what it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// Bytes that a transfer took; after a report, the bytes of text that follow.
    pub(crate) value: u64,
}

impl Receipt {
    pub(crate) fn encode(self) -> [u8; RECEIPT_BYTES] {
        let mut bytes = [0; RECEIPT_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..].copy_from_slice(&self.value.to_be_bytes());
        bytes
    }

    /// `None`: no server of ours said this.
    pub(crate) fn decode(bytes: &[u8; RECEIPT_BYTES]) -> Option<Self> {
        let value = number(&bytes[8..]);
        (bytes[..8] == MAGIC).then_some(Self { value })
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("callers give eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_no_client_of_ours_sends_is_no_command() {
        let hello = Command::Hello.encode();
        assert_eq!(
            Command::decode(
                b"GET / HTTP/1.1\r\nhost: hostname\r\n"[..32]
                    .try_into()
                    .unwrap()
            ),
            None
        );
        for at in 0..COMMAND_BYTES {
            let mut changed = hello;
            changed[at] ^= 0x80;
            assert_eq!(Command::decode(&changed), None, "byte {at}");
        }
    }

    #[test]
    fn a_receipt_needs_its_magic() {
        assert_eq!(Receipt::decode(b"HTTP/1.1 400 Bad"), None);
    }

    proptest! {
        #[test]
        fn a_command_is_read_as_it_was_written(up: u64, down: u64, together: bool, verify: bool) {
            let command = Command::Transfer(Transfer { up, down, together, verify });
            prop_assert_eq!(Command::decode(&command.encode()), Some(command));
        }

        #[test]
        fn a_receipt_is_read_as_it_was_written(value: u64) {
            let receipt = Receipt { value };
            prop_assert_eq!(Receipt::decode(&receipt.encode()), Some(receipt));
        }
    }
}
