//! Uploads of zeros, all at once, by curl and by quic-go's client: what sends them, and how many are there whole.

use super::Figure;
use super::server::altway;
use crate::scratch::Scratch;
use crate::{go, shell};
use anyhow::{Context as _, Result};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The longest time for all of them: quic-go's client gives up then.
const UPLOADS_TIMEOUT: Duration = Duration::from_secs(600);

/// A place where a server stores uploads, and the file that is uploaded.
pub(super) struct Uploads {
    place: Scratch,
    /// File of the authority that has signed the server's certificate.
    authority: String,
    /// Number of uploads.
    count: usize,
    /// Length of each.
    bytes: u64,
}

impl Uploads {
    /// Makes what is uploaded `count` times and the folder where it goes, and has altway make its certificate.
    pub(super) fn prepare(program: &Path, count: usize, bytes: u64) -> Result<Self> {
        let place = Scratch::new()?;
        let folder = place.path();
        fs::create_dir(folder.join("stored"))?;
        zeros(&folder.join("zeros"), bytes)?;
        let output = altway(program, folder).args(["certs", "--json"]).output()?;
        let certs: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let authority = certs["ca_certificate"].as_str().context("no authority")?;
        Ok(Self {
            authority: authority.to_owned(),
            place,
            count,
            bytes,
        })
    }

    pub(super) fn folder(&self) -> &Path {
        self.place.path()
    }

    /// Returns the configuration of a site that takes them.
    pub(super) fn config(listen: &str) -> String {
        format!(
            "threads = 1\nsandbox = false\n\n[listen]\nhttps = \"{listen}\"\n\n[[site]]\nnames = [\"localhost\"]\ndefault = true\n\
             route = [{{ path = \"/in/*\", upload = {{ folder = \"stored\", body = \"3GB\", concurrent = 256 }} }}]\n"
        )
    }

    /// Returns a line of a shell that sends all of them at once over a protocol to a port of `$ALTWAY_HOST`.
    pub(super) fn line(&self, protocol: &str, port: u16) -> Result<String> {
        let version = match protocol {
            "h3" => return self.quic_go(port),
            "h2" => "--http2",
            _ => "--http1.1",
        };
        let count = self.count;
        let file = self.folder().join("zeros");
        Ok(format!(
            "curl -skSZ --parallel-immediate --parallel-max {count} {version} -o /dev/null -w '%{{http_code}}\\n' -H expect: -T {} \
             \"https://$ALTWAY_HOST:{port}/in/[1-{count}]\"",
            file.display()
        ))
    }

    fn quic_go(&self, port: u16) -> Result<String> {
        let program = go::interop_quic_go().context("quic-go is missing")?;
        let request = |at| serde_json::json!({"method": "PUT", "path": format!("/in/{at}"), "upload": self.bytes, "freely": true});
        let requests: Vec<_> = (0..self.count).map(request).collect();
        let plan = serde_json::json!({"requests": requests, "parallel": self.count, "seconds": UPLOADS_TIMEOUT.as_secs()});
        // Its report is a line for all.
        Ok(format!(
            "echo '{plan}' | {} client \"$ALTWAY_HOST:{port}\" {}",
            program.display(),
            self.authority
        ))
    }

    /// Sends them to a server on this machine, as [`carry_out`](Self::carry_out) does.
    pub(super) fn send(&self, protocol: &str, port: u16) -> Result<Figure> {
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.line(protocol, port)?]);
        self.carry_out(protocol, shell.env("ALTWAY_HOST", "127.0.0.1"))
    }

    /// Runs the command in which the clients are, and says how many uploads are not there whole then.
    pub(super) fn carry_out(&self, protocol: &str, command: &mut Command) -> Result<Figure> {
        let begin = Instant::now();
        let output = command.output()?;
        let took = begin.elapsed().as_secs_f64();
        let (missing, count) = (self.count - self.whole()?, self.count);
        if missing > 0 {
            shell::say(&format!("{protocol}: {}", said(&output)));
        }
        let what =
            format!("{protocol}: uploads that are not there whole, of {count} ({took:.1} s)");
        Ok(Figure::new(what, missing as f64, 0.0, ""))
    }

    /// The number of uploads that are stored whole.
    fn whole(&self) -> Result<usize> {
        let stored = fs::read_dir(self.folder().join("stored"))?;
        let is_whole = |it: &fs::DirEntry| it.metadata().is_ok_and(|it| it.len() == self.bytes);
        Ok(stored.flatten().filter(is_whole).count())
    }
}

/// A file of so many zeros, without blocks on the disk.
pub(super) fn zeros(path: &Path, bytes: u64) -> Result<()> {
    Ok(File::create(path)?.set_len(bytes)?)
}

/// The end of what a command has said.
fn said(output: &Output) -> String {
    let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy);
    let lines: Vec<_> = said.iter().flat_map(|it| it.lines()).collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
