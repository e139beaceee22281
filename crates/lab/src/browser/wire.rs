//! Messages to and from a browser over a socket: bounded in size, and awaited no longer than said.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The most that a message may have; the times of 250 objects take less than a megabyte.
const MESSAGE_LIMIT: usize = 16 << 20;

/// A socket that can be read with a time-out.
pub(super) trait Socket: Read + Write {
    /// Time that the next read may take.
    fn limit(&self, time: Duration) -> io::Result<()>;
}

impl Socket for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

impl Socket for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

/// Marks by which messages in a stream are told apart.
#[derive(Debug, Clone, Copy)]
pub(super) enum Framing {
    /// Each ends with a NUL: Chromium's, on a pipe.
    Terminated,
    /// Each begins with its length in decimal digits and a colon: Marionette's.
    Counted,
}

/// A browser's end of a conversation.
#[derive(Debug)]
pub(super) struct Wire<S> {
    socket: S,
    framing: Framing,
    /// Bytes that are not taken yet: at most [`MESSAGE_LIMIT`] and one read.
    received: Vec<u8>,
}

impl<S: Socket> Wire<S> {
    pub(super) fn new(socket: S, framing: Framing) -> Self {
        Self {
            socket,
            framing,
            received: Vec::new(),
        }
    }

    pub(super) fn send(&mut self, message: &str) -> io::Result<()> {
        let framed = match self.framing {
            Framing::Terminated => format!("{message}\0"),
            Framing::Counted => format!("{}:{message}", message.len()),
        };
        self.socket
            .write_all(framed.as_bytes())
            .map_err(|error| ended(error.kind()))
    }

    /// The next message.
    pub(super) fn receive(&mut self, deadline: Instant) -> io::Result<Vec<u8>> {
        loop {
            if let Some(message) = self.framing.take(&mut self.received)? {
                return Ok(message);
            }
            if self.received.len() > MESSAGE_LIMIT {
                return Err(io::Error::other("it says more than can be"));
            }
            self.read(deadline)?;
        }
    }

    fn read(&mut self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        self.socket.limit(left)?;
        let mut chunk = [0; 64 << 10];
        match self.socket.read(&mut chunk) {
            Ok(0) => Err(ended(ErrorKind::UnexpectedEof)),
            Ok(length) => {
                self.received.extend_from_slice(&chunk[..length]);
                Ok(())
            }
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => Ok(()),
                ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(late()),
                kind => Err(ended(kind)),
            },
        }
    }
}

impl Framing {
    /// Takes the first message out of what was received, if all of it is there.
    fn take(self, received: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        let Some((start, end, next)) = self.bounds(received)? else {
            return Ok(None);
        };
        let message = received[start..end].to_vec();
        received.drain(..next);
        Ok(Some(message))
    }

    /// Offsets at which the first message begins and ends, and where the next one begins.
    fn bounds(self, received: &[u8]) -> io::Result<Option<(usize, usize, usize)>> {
        let position = |byte: u8| received.iter().position(|one| *one == byte);
        match self {
            Self::Terminated => Ok(position(0).map(|end| (0, end, end + 1))),
            Self::Counted => {
                let Some(colon) = position(b':') else {
                    return Ok(None);
                };
                let digits = std::str::from_utf8(&received[..colon]).ok();
                let length = digits
                    .and_then(|digits| digits.parse::<usize>().ok())
                    .filter(|length| *length <= MESSAGE_LIMIT)
                    .ok_or_else(|| io::Error::other("its message has no length"))?;
                let (start, end) = (colon + 1, colon + 1 + length);
                Ok((end <= received.len()).then_some((start, end, end)))
            }
        }
    }
}

fn late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it timed out")
}

fn ended(kind: ErrorKind) -> io::Error {
    io::Error::new(kind, "it ended by itself")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(framing: Framing) -> (Wire<UnixStream>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Wire::new(ours, framing), theirs)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(50)
    }

    #[test]
    fn messages_arrive_in_pieces_and_in_bunches() {
        for (framing, sent) in [
            (Framing::Terminated, "one\0two\0cut"),
            (Framing::Counted, "3:one3:two5:cut"),
        ] {
            let (mut wire, mut browser) = pair(framing);
            browser.write_all(sent.as_bytes()).unwrap();
            assert_eq!(wire.receive(soon()).unwrap(), b"one");
            assert_eq!(wire.receive(soon()).unwrap(), b"two");
            let error = wire.receive(soon()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        }
    }

    #[test]
    fn what_is_sent_is_framed() {
        for (framing, expected) in [
            (Framing::Terminated, &b"hi\0"[..]),
            (Framing::Counted, b"2:hi"),
        ] {
            let (mut wire, mut browser) = pair(framing);
            wire.send("hi").unwrap();
            drop(wire);
            let mut received = Vec::new();
            browser.read_to_end(&mut received).unwrap();
            assert_eq!(received, expected);
        }
    }

    #[test]
    fn a_browser_that_ends_is_told_from_one_that_is_silent() {
        let (mut wire, browser) = pair(Framing::Terminated);
        drop(browser);
        let error = wire.receive(soon()).unwrap_err();
        assert_eq!(error.to_string(), "it ended by itself");
    }

    #[test]
    fn a_length_that_can_not_be_is_refused() {
        for sent in ["x:", ":", "99999999999:", "-1:", "18446744073709551616:"] {
            let (mut wire, mut browser) = pair(Framing::Counted);
            browser.write_all(sent.as_bytes()).unwrap();
            assert!(wire.receive(soon()).is_err(), "{sent}");
        }
    }
}
