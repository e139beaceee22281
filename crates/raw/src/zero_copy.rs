//! TCP without the two copies of payload: into the kernel, and out of it.
//!
//! Sends from a file in memory, whose pages the kernel passes on as they are (sendfile), and has
//! what comes thrown away in the kernel (MSG_TRUNC). No program could use TCP like this; the
//! difference to TCP as it is tells what the copies cost.

use crate::costs::Calls;
use crate::error::ConnectionFailure;
use crate::payload::Payload;
use crate::protocol::ProtocolEnd;
use crate::tcp::{Plain, READ_BYTES, Stream, none_if_blocked};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::net::{RecvFlags, recv};
use std::fs::File;
use std::io::{self, Write};
use std::net::TcpStream;

/// Plain TCP, but for payload.
#[derive(Debug)]
pub(crate) struct ZeroCopyTcp {
    plain: Plain,
    payload: Payload,
    /// Holds the payload's block.
    file: File,
}

impl ZeroCopyTcp {
    /// # Errors
    /// The machine gives no file in memory.
    pub(crate) fn new(socket: TcpStream, payload: &Payload) -> io::Result<Self> {
        let mut file = File::from(memfd_create("altway-raw", MemfdFlags::CLOEXEC)?);
        file.write_all(payload.block())?;
        Ok(Self {
            plain: Plain::new(socket),
            payload: payload.clone(),
            file,
        })
    }
}

impl Stream for ZeroCopyTcp {
    fn socket(&self) -> &TcpStream {
        self.plain.socket()
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn flush(&mut self, _: &mut Calls) -> io::Result<bool> {
        Ok(true)
    }

    fn send(&mut self, bytes: &[u8], calls: &mut Calls) -> io::Result<usize> {
        let Some(place) = self.payload.place_of(bytes) else {
            return self.plain.send(bytes, calls);
        };
        calls.write += 1;
        let mut offset = place as u64;
        let sent = sendfile(self.socket(), &self.file, Some(&mut offset), bytes.len());
        none_if_blocked(sent.map_err(io::Error::from)).map(Option::unwrap_or_default)
    }

    fn receive(
        &mut self,
        protocol: &mut dyn ProtocolEnd,
        calls: &mut Calls,
    ) -> Result<bool, ConnectionFailure> {
        let ignored = usize::try_from(protocol.ignores()).unwrap_or(usize::MAX);
        if ignored == 0 {
            return self.plain.receive(protocol, calls);
        }
        calls.read += 1;
        let most = ignored.min(READ_BYTES);
        let (socket, buffer) = self.plain.parts();
        let received = recv(socket, &mut buffer[..most], RecvFlags::TRUNC);
        let received = received.map(|(_, length)| length).map_err(io::Error::from);
        match none_if_blocked(received)? {
            None => Ok(true),
            Some(0) => Ok(false),
            Some(length) => {
                // Of these bytes only the number counts.
                protocol.handle_input(&buffer[..length])?;
                Ok(true)
            }
        }
    }
}
