//! curl as the client: one process for all requests of the table, over one protocol.

use super::servers::Protocol;
use super::table::Row;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A response as it came.
#[derive(Debug, Default)]
pub(super) struct Response {
    /// 0: there was none.
    pub(super) status: u16,
    /// Fields by names in lower case; several lines of one name joined by commas.
    pub(super) fields: BTreeMap<String, String>,
    pub(super) content: Vec<u8>,
}

/// A client of one server.
pub(super) struct Client {
    folder: PathBuf,
    address: SocketAddr,
    protocol: Protocol,
}

/// The methods that bring content, which here is empty (RFC 9110 section 8.6).
const WITH_CONTENT: [&str; 3] = ["POST", "PUT", "PATCH"];

impl Client {
    pub(super) fn new(folder: &Path, address: SocketAddr, protocol: Protocol) -> Self {
        Self {
            folder: folder.join("curl"),
            address,
            protocol,
        }
    }

    /// The entity tag of a target, or one that nothing has where the server gives none.
    pub(super) fn etag(&self, target: &'static str) -> String {
        let row = Row {
            group: "",
            line: "",
            method: "HEAD",
            target,
            fields: Vec::new(),
        };
        let responses = self.ask(&[row]).unwrap_or_default();
        let tag = responses.first().and_then(|it| it.fields.get("etag"));
        tag.cloned().unwrap_or_else(|| "\"none\"".to_owned())
    }

    /// The responses to all requests, in their order.
    ///
    /// # Errors
    /// curl can't be started, or does not say what became of each.
    pub(super) fn ask(&self, rows: &[Row]) -> Result<Vec<Response>> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)?;
        }
        fs::create_dir_all(&self.folder)?;
        let config = self.folder.join("config");
        fs::write(&config, self.config(rows))?;
        let mut curl = Command::new("curl");
        curl.arg("--disable").arg("--config").arg(&config);
        let output = curl.output().context("curl is not there")?;
        // It fails if one of the requests does.
        let said = String::from_utf8(output.stdout)?;
        ensure!(
            said.lines().count() == rows.len(),
            "curl: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let responses: Vec<_> = (0..rows.len()).map(|row| self.response(row)).collect();
        let answered = responses.iter().any(|it| it.status > 0);
        ensure!(answered, "there is no answer to any request");
        Ok(responses)
    }

    fn config(&self, rows: &[Row]) -> String {
        let mut text = String::new();
        for (at, row) in rows.iter().enumerate() {
            let mut say = |name: &str, value: &str| {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                writeln!(text, "{name} = \"{value}\"").expect("a String takes all");
            };
            // A host of its own has a connection of its own: curl 7.88 can't use one of HTTP/2 again that it began by
            // prior knowledge.
            say("url", &format!("http://request-{at}/"));
            say("connect-to", &format!("::{}", self.address));
            say("request-target", row.target);
            say("output", &self.path(at, "content").to_string_lossy());
            say("dump-header", &self.path(at, "head").to_string_lossy());
            say("write-out", "%{exitcode}\\n");
            say("max-time", "10");
            for field in ["user-agent:", "accept:", "host: localhost"] {
                say("header", field);
            }
            if WITH_CONTENT.contains(&row.method) {
                say("header", "content-length: 0");
            }
            for (name, value) in &row.fields {
                say("header", &format!("{name}: {value}"));
            }
            match row.method {
                "HEAD" => text.push_str("head\n"),
                method => say("request", method),
            }
            text.push_str("silent\n");
            text.push_str(match self.protocol {
                Protocol::Http1 => "http1.1\n",
                Protocol::Http2 => "http2-prior-knowledge\n",
            });
            if at + 1 < rows.len() {
                text.push_str("next\n");
            }
        }
        text
    }

    fn path(&self, row: usize, what: &str) -> PathBuf {
        self.folder.join(format!("{row}.{what}"))
    }

    fn response(&self, row: usize) -> Response {
        let head = fs::read(self.path(row, "head")).unwrap_or_default();
        let mut response = parse(&String::from_utf8_lossy(&head));
        // Of a HEAD curl writes the fields there as well.
        let content = fs::read(self.path(row, "content")).unwrap_or_default();
        if content != head {
            response.content = content;
        }
        if let Some(location) = response.fields.get_mut("location") {
            *location = location.replace(&format!(":{}/", self.address.port()), ":PORT/");
        }
        response
    }
}

/// Reads the last head of those that came.
fn parse(heads: &str) -> Response {
    let mut response = Response::default();
    for line in heads.lines() {
        if line.starts_with("HTTP/") {
            let status = line.split(' ').nth(1).and_then(|it| it.parse().ok());
            response = Response {
                status: status.unwrap_or_default(),
                ..Response::default()
            };
        } else if let Some((name, value)) = line.split_once(':') {
            let values = response.fields.entry(name.to_ascii_lowercase());
            let values = values.or_default();
            if !values.is_empty() {
                values.push_str(", ");
            }
            values.push_str(value.trim());
        }
    }
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

    use super::*;

    #[test]
    fn the_last_head_counts_and_lines_of_one_name_are_joined() {
        let heads = "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nVary: A\r\nvary: b\r\n\r\n";
        let response = parse(heads);
        assert_eq!(response.status, 200);
        assert_eq!(response.fields.len(), 1);
        assert_eq!(response.fields["vary"], "A, b");
    }

    #[test]
    fn quotes_of_a_field_are_escaped_for_curl() {
        let client = Client::new(
            Path::new("/f"),
            "127.0.0.1:1".parse().unwrap(),
            Protocol::Http1,
        );
        let row = Row {
            group: "",
            line: "",
            method: "PUT",
            target: "/a",
            fields: vec![("if-match", "\"x\"".to_owned())],
        };
        let config = client.config(&[row]);
        assert!(
            config.contains("header = \"if-match: \\\"x\\\"\"\n"),
            "{config}"
        );
        assert!(config.contains("request = \"PUT\"\n"), "{config}");
        assert!(
            config.contains("header = \"content-length: 0\"\n"),
            "{config}"
        );
    }
}
