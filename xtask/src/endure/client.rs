//! A connection over HTTP/1.1 in clear text, with requests one after the other.

use anyhow::{Context as _, Result, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// The longest time without a byte.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection that is kept.
pub(super) struct Client(BufReader<TcpStream>);

impl Client {
    pub(super) fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a request with this further field, or none.
    pub(super) fn ask(&mut self, path: &str, field: &str) -> Result<()> {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n");
        Ok(self.0.get_mut().write_all(head.as_bytes())?)
    }

    /// Reads a response to its end: its status and the length of its content.
    pub(super) fn answer(&mut self) -> Result<(u16, u64)> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|it| it.parse().ok());
        let status = status.with_context(|| format!("no status line: {line:?}"))?;
        let mut length = None;
        loop {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                bail!("the connection ended within a head");
            }
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.parse()?);
            }
        }
        let length = length.context("a response without a length")?;
        let read = std::io::copy(&mut self.0.by_ref().take(length), &mut std::io::sink())?;
        if read < length {
            bail!("{read} bytes of {length}");
        }
        Ok((status, length))
    }

    /// Sends a request and reads its response.
    pub(super) fn get(&mut self, path: &str, field: &str) -> Result<(u16, u64)> {
        self.ask(path, field)?;
        self.answer()
    }
}
