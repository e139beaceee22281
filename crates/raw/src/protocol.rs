//! Both ends of the control protocol as state machines: bytes in, bytes out, no socket. Pure.
//!
//! A transport asks [`ProtocolEnd::next`] for what to send and says with [`ProtocolEnd::sent`] how much of it
//! went; it hands over what came with [`ProtocolEnd::handle_input`]. [`Exchange`] is the client's part of one
//! command; [`Responder`] the server's part of a connection.

use crate::payload::Payload;
use crate::wire::{COMMAND_BYTES, Command, RECEIPT_BYTES, Receipt, Transfer};
use bytes::Bytes;

/// The longest report that is believed: a real one has some 500 bytes.
const MAX_REPORT_BYTES: u64 = 64 << 10;

/// An end of a conversation.
pub(crate) trait ProtocolEnd {
    /// Returns what is to be sent now; empty when there is nothing (yet).
    fn next(&self) -> Bytes;

    /// Notes that the transport took so many bytes of [`ProtocolEnd::next`].
    fn sent(&mut self, bytes: usize);

    /// Payload bytes that come next and whose values nobody wants to know.
    fn ignores(&self) -> u64;

    /// Takes bytes that arrived.
    ///
    /// # Errors
    /// They aren't what they should be; the connection is of no use any more.
    fn handle_input(&mut self, bytes: &[u8]) -> Result<(), Fault>;
}

/// Violation of the protocol by a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bytes are not of this protocol.
    Foreign,
    /// A byte of the payload is not what was sent.
    WrongByte {
        /// The position in the transfer.
        at: u64,
    },
    /// The peer took fewer or more bytes than it was sent.
    WrongCount { sent: u64, taken: u64 },
}

/// A payload that comes in.
#[derive(Debug, Clone)]
struct Inbound {
    payload: Payload,
    taken: u64,
    left: u64,
    verify: bool,
}

impl Inbound {
    fn ignores(&self) -> u64 {
        if self.verify { 0 } else { self.left }
    }

    /// Takes what belongs to the payload from the front of `bytes`.
    fn take(&mut self, bytes: &mut &[u8]) -> Result<(), Fault> {
        let length = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (mine, rest) = bytes.split_at(length);
        if self.verify
            && let Some(at) = self.payload.first_difference(self.taken, mine)
        {
            return Err(Fault::WrongByte { at });
        }
        self.taken += length as u64;
        self.left -= length as u64;
        *bytes = rest;
        Ok(())
    }
}

/// A payload that goes out, with what stands before and behind it.
#[derive(Debug, Clone)]
struct Outbound {
    payload: Payload,
    head: Bytes,
    position: u64,
    length: u64,
}

impl Outbound {
    fn next(&self) -> Bytes {
        if self.head.is_empty() {
            self.payload.at(self.position, self.length - self.position)
        } else {
            self.head.clone()
        }
    }

    fn sent(&mut self, bytes: usize) {
        if self.head.is_empty() {
            self.position += bytes as u64;
        } else {
            self.head = self.head.slice(bytes..);
        }
    }

    fn is_done(&self) -> bool {
        self.head.is_empty() && self.position == self.length
    }
}

/// Bytes that arrive in pieces until there are enough of them.
#[derive(Debug, Clone)]
struct Reassembly<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Reassembly<N> {
    const fn new() -> Self {
        Self {
            bytes: [0; N],
            length: 0,
        }
    }

    /// Takes from the front of `bytes`; all of them at once when they are complete.
    fn take(&mut self, bytes: &mut &[u8]) -> Option<[u8; N]> {
        let (mine, rest) = bytes.split_at(bytes.len().min(N - self.length));
        self.bytes[self.length..][..mine.len()].copy_from_slice(mine);
        self.length += mine.len();
        *bytes = rest;
        if self.length < N {
            return None;
        }
        self.length = 0;
        Some(self.bytes)
    }
}

/// The client's part of one command, until the server has done it.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    command: Command,
    outbound: Outbound,
    inbound: Inbound,
    receipt: Reassembly<RECEIPT_BYTES>,
    state: Wait,
    report: Vec<u8>,
}

/// Message that an exchange waits for when its payload is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Receipt,
    Report { left: u64 },
    Nothing,
}

impl Exchange {
    pub(crate) fn new(command: Command, payload: &Payload) -> Self {
        let (up, down, verify) = match command {
            Command::Transfer(transfer) => (transfer.up, transfer.down, transfer.verify),
            Command::Hello | Command::Report => (0, 0, false),
        };
        Self {
            command,
            outbound: Outbound {
                payload: payload.clone(),
                head: Bytes::copy_from_slice(&command.encode()),
                position: 0,
                length: up,
            },
            inbound: Inbound {
                payload: payload.clone(),
                taken: 0,
                left: down,
                verify,
            },
            receipt: Reassembly::new(),
            state: Wait::Receipt,
            report: Vec::new(),
        }
    }

    /// Returns whether the server has said that it is done.
    pub(crate) fn is_done(&self) -> bool {
        self.state == Wait::Nothing
    }

    /// Payload bytes that went, and that came.
    pub(crate) fn moved(&self) -> (u64, u64) {
        (self.outbound.position, self.inbound.taken)
    }

    /// The text of a report that is done.
    pub(crate) fn into_report(self) -> Vec<u8> {
        self.report
    }

    fn on_receipt(&mut self, receipt: Receipt) -> Result<Wait, Fault> {
        match self.command {
            Command::Report if receipt.value > MAX_REPORT_BYTES => Err(Fault::Foreign),
            Command::Report if receipt.value > 0 => Ok(Wait::Report {
                left: receipt.value,
            }),
            Command::Report | Command::Hello => Ok(Wait::Nothing),
            // A receipt before all was even sent is a lie too.
            Command::Transfer(transfer)
                if receipt.value == transfer.up && self.outbound.is_done() =>
            {
                Ok(Wait::Nothing)
            }
            Command::Transfer(_) => Err(Fault::WrongCount {
                sent: self.outbound.position,
                taken: receipt.value,
            }),
        }
    }

    fn on_report(&mut self, left: u64, bytes: &mut &[u8]) -> Wait {
        let length = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (mine, rest) = bytes.split_at(length);
        self.report.extend_from_slice(mine);
        *bytes = rest;
        match left - length as u64 {
            0 => Wait::Nothing,
            left => Wait::Report { left },
        }
    }
}

impl ProtocolEnd for Exchange {
    fn next(&self) -> Bytes {
        self.outbound.next()
    }

    fn sent(&mut self, bytes: usize) {
        self.outbound.sent(bytes);
    }

    fn ignores(&self) -> u64 {
        self.inbound.ignores()
    }

    fn handle_input(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        self.inbound.take(&mut bytes)?;
        while !bytes.is_empty() {
            self.state = match self.state {
                Wait::Receipt => match self.receipt.take(&mut bytes) {
                    None => return Ok(()),
                    Some(receipt) => {
                        let receipt = Receipt::decode(&receipt).ok_or(Fault::Foreign)?;
                        self.on_receipt(receipt)?
                    }
                },
                Wait::Report { left } => self.on_report(left, &mut bytes),
                Wait::Nothing => return Err(Fault::Foreign),
            };
        }
        Ok(())
    }
}

/// Task of a server's shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerAction {
    /// Count from here: the first transfer begins.
    Begin,
    /// Hand the report to [`Responder::report`].
    Report,
}

/// The server's part of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Responder {
    payload: Payload,
    command: Reassembly<COMMAND_BYTES>,
    serving: Option<Serving>,
    action: Option<ServerAction>,
    begun: bool,
    sent: u64,
    received: u64,
}

/// A command that is being done.
#[derive(Debug, Clone)]
struct Serving {
    outbound: Outbound,
    inbound: Inbound,
    together: bool,
    /// A report is asked for and not yet there.
    waits: bool,
    receipt: Bytes,
}

impl Responder {
    pub(crate) fn new(payload: &Payload) -> Self {
        Self {
            payload: payload.clone(),
            command: Reassembly::new(),
            serving: None,
            action: None,
            begun: false,
            sent: 0,
            received: 0,
        }
    }

    /// Takes the action, once for each occasion, after [`ProtocolEnd::handle_input`].
    pub(crate) fn take_action(&mut self) -> Option<ServerAction> {
        self.action.take()
    }

    /// Payload bytes of all transfers that went, and that came.
    pub(crate) fn moved(&self) -> (u64, u64) {
        (self.sent, self.received)
    }

    /// The report that was asked for.
    pub(crate) fn report(&mut self, text: &[u8]) {
        if let Some(serving) = &mut self.serving {
            let receipt = Receipt {
                value: text.len() as u64,
            };
            serving.receipt = [receipt.encode().as_slice(), text].concat().into();
            serving.waits = false;
        }
    }

    /// Returns whether nothing is owed to the client: it may go.
    pub(crate) fn is_idle(&self) -> bool {
        self.serving.is_none()
    }

    fn begin(&mut self, command: Command) {
        let transfer = match command {
            Command::Transfer(transfer) => transfer,
            Command::Hello | Command::Report => Transfer {
                up: 0,
                down: 0,
                together: false,
                verify: false,
            },
        };
        self.action = match command {
            Command::Report => Some(ServerAction::Report),
            Command::Transfer(_) if !self.begun => Some(ServerAction::Begin),
            Command::Transfer(_) | Command::Hello => None,
        };
        self.begun |= matches!(command, Command::Transfer(_));
        let receipt = Receipt { value: transfer.up };
        self.serving = Some(Serving {
            outbound: Outbound {
                payload: self.payload.clone(),
                head: Bytes::new(),
                position: 0,
                length: transfer.down,
            },
            inbound: Inbound {
                payload: self.payload.clone(),
                taken: 0,
                left: transfer.up,
                verify: transfer.verify,
            },
            together: transfer.together,
            waits: command == Command::Report,
            receipt: Bytes::copy_from_slice(&receipt.encode()),
        });
    }
}

impl ProtocolEnd for Responder {
    fn next(&self) -> Bytes {
        let Some(serving) = &self.serving else {
            return Bytes::new();
        };
        let complete = serving.inbound.left == 0;
        if !serving.outbound.is_done() && (serving.together || complete) {
            serving.outbound.next()
        } else if serving.outbound.is_done() && complete && !serving.waits {
            serving.receipt.clone()
        } else {
            Bytes::new()
        }
    }

    fn sent(&mut self, bytes: usize) {
        let Some(serving) = &mut self.serving else {
            return;
        };
        if !serving.outbound.is_done() {
            serving.outbound.sent(bytes);
            self.sent += bytes as u64;
            return;
        }
        serving.receipt = serving.receipt.slice(bytes..);
        if serving.receipt.is_empty() {
            self.serving = None;
        }
    }

    fn ignores(&self) -> u64 {
        let serving = self.serving.as_ref();
        serving.map_or(0, |serving| serving.inbound.ignores())
    }

    fn handle_input(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        while !bytes.is_empty() {
            if let Some(serving) = &mut self.serving {
                let before = serving.inbound.taken;
                serving.inbound.take(&mut bytes)?;
                self.received += serving.inbound.taken - before;
                if !bytes.is_empty() {
                    // The next command has to wait for the receipt of this one.
                    return Err(Fault::Foreign);
                }
            } else if let Some(command) = self.command.take(&mut bytes) {
                self.begin(Command::decode(&command).ok_or(Fault::Foreign)?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
