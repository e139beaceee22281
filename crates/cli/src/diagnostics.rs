//! Views into the inside of connections, for `serve` and `load` alike: TLS secrets for Wireshark, and
//! qlog for qvis. Both are off unless asked for, and whoever asks for secrets is warned.

use crate::hint::usage_error;
use crate::printer::Printer;
use altway_serve::{KeyLog, Qlog, QlogWriter, open_log};
use anyhow::Result;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Connections of one process that are logged; later ones are not.
const MAX_FILES: u64 = 1_000;

/// Bytes of all their logs together: 1 GiB, some four million packets. What comes beyond is left out,
/// which may cut the last event of a file.
const MAX_BYTES: u64 = 1 << 30;

/// The variable of the environment that browsers and curl obey.
const VARIABLE: &str = "SSLKEYLOGFILE";

/// The rule by which a command obeys the variable without the option's word. A server's environment may be another
/// person's than the one who would be asked for the secrets of its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variable {
    Obeyed,
    Ignored,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Diagnostics {
    /// Append TLS secrets to this file (NSS key log format), for Wireshark: whoever has them can read the
    /// connections. The word env means the file that the variable SSLKEYLOGFILE names; `serve` uses that variable
    /// only if told so.
    #[arg(long, value_name = "FILE")]
    keylog: Option<OsString>,
    /// Write a qlog of each HTTP/3 connection into this folder, made if missing (1,000 files, 1 GiB at most), for qvis.
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
}

impl Diagnostics {
    /// The file that secrets go to. Says that they do.
    pub(crate) fn key_log(
        &self,
        variable: Variable,
        printer: &Printer,
    ) -> Result<Option<Arc<SecretsFile>>> {
        let path = self.key_log_path(variable, printer)?;
        path.map(|path| key_log_to(&path, printer)).transpose()
    }

    /// The file that secrets go to.
    pub(crate) fn key_log_path(
        &self,
        variable: Variable,
        printer: &Printer,
    ) -> Result<Option<PathBuf>> {
        // An empty variable is one that is not set.
        let named = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
        let given = self.keylog.as_ref().filter(|path| !path.is_empty());
        let path = match (given, variable) {
            (Some(word), _) if word == "env" => Some(named.ok_or_else(|| {
                usage_error(
                    format!("--keylog env needs the variable {VARIABLE}, which is not set"),
                    format!("set {VARIABLE} to a file, or name the file: `--keylog FILE`"),
                )
            })?),
            (Some(path), _) => Some(path.clone()),
            (None, Variable::Obeyed) => named,
            (None, Variable::Ignored) => {
                if named.is_some() {
                    printer.say(&format!(
                        "{VARIABLE} is set and ignored: a server obeys it with `--keylog env`"
                    ));
                }
                None
            }
        };
        Ok(path.map(PathBuf::from))
    }

    /// The folder that logs of connections go to.
    pub(crate) fn qlog_path(&self) -> Option<&Path> {
        self.qlog.as_deref()
    }

    /// The folder that logs of connections go to.
    pub(crate) fn qlog(&self) -> Result<Option<Qlog>> {
        self.qlog_path().map(qlog_to).transpose()
    }
}

/// Opens the file that secrets go to. Says that they do.
pub(crate) fn key_log_to(path: &Path, printer: &Printer) -> Result<Arc<SecretsFile>> {
    let file = SecretsFile::append(path).map_err(|error| {
        usage_error(
            format!("cannot open the key log `{}`: {error}", path.display()),
            "give a file in a folder that is there and that you may write to; or unset SSLKEYLOGFILE",
        )
    })?;
    printer.warn(&format!(
        "the secrets of every connection go to `{}`: whoever reads it can read them all",
        path.display()
    ));
    Ok(Arc::new(file))
}

/// Makes the folder that logs of connections go to.
pub(crate) fn qlog_to(path: &Path) -> Result<Qlog> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| {
        usage_error(
            format!(
                "cannot make the folder `{}` for qlogs: {error}",
                path.display()
            ),
            "give a folder that is there, or that you may make",
        )
    })?;
    Ok(qlog_into(path, MAX_FILES, MAX_BYTES))
}

/// A line for each secret: label, the client's random bytes, the secret.
#[derive(Debug)]
pub(crate) struct SecretsFile {
    file: Mutex<File>,
    failed: AtomicBool,
}

impl SecretsFile {
    fn append(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: Mutex::new(open_log(path)?),
            failed: AtomicBool::new(false),
        })
    }
}

impl KeyLog for SecretsFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // In one call, so that lines of several processes don't mix.
        let written = file.write_all(line.as_bytes());
        // Logged once: a peer can cause it with each connection.
        if let Err(error) = written
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, "cannot write to the key log");
        }
    }
}

/// Writes the secrets of the clients of `load`.
impl rustls::KeyLog for SecretsFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        KeyLog::log(self, label, client_random, secret);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A file for each connection, by its name.
fn qlog_into(folder: &Path, max_files: u64, max_bytes: u64) -> Qlog {
    let folder = folder.to_owned();
    let files = AtomicU64::new(0);
    let room = Arc::new(AtomicU64::new(max_bytes));
    Qlog::new(move |name| {
        if files.fetch_add(1, Ordering::Relaxed) >= max_files {
            // Stays above the limit, however many come.
            files.store(max_files, Ordering::Relaxed);
            return None;
        }
        let path = folder.join(format!("{name}.sqlog"));
        // A name may come again: the client chooses it.
        let file = File::create_new(&path);
        let file = file.inspect_err(|error| {
            tracing::warn!(%error, path = %path.display(), "cannot write a qlog");
        });
        let log = Bounded {
            file: file.ok()?,
            room: Arc::clone(&room),
        };
        Some(Box::new(BufWriter::new(log)) as QlogWriter)
    })
}

/// A file that takes as much as there is room for, and swallows the rest.
struct Bounded {
    file: File,
    /// Bytes of all files together.
    room: Arc<AtomicU64>,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wanted = bytes.len() as u64;
        let take = |room: u64| Some(room.saturating_sub(wanted));
        let before = self
            .room
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let before = before.unwrap_or_else(|room| room);
        let fitting = usize::try_from(before.min(wanted)).unwrap_or(bytes.len());
        self.file.write_all(&bytes[..fitting])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn secrets_are_lines_that_wireshark_reads_and_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        for _ in 0..2 {
            let log = SecretsFile::append(&path).unwrap();
            log.log("CLIENT_TRAFFIC_SECRET_0", &[0, 0xab], &[0xff]);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "CLIENT_TRAFFIC_SECRET_0 00ab ff\n".repeat(2));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn logs_are_bounded_in_number_and_size_and_replace_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("aa.sqlog"), "before").unwrap();
        let qlog = qlog_into(dir.path(), 3, 10);
        let open = |name| qlog.open(name);
        assert!(open("aa").is_none(), "is there");
        let (mut first, mut second) = (open("bb").unwrap(), open("cc").unwrap());
        assert!(open("dd").is_none() && open("ee").is_none(), "too many");
        for _ in 0..3 {
            first.write_all(b"1234").unwrap();
            first.flush().unwrap();
        }
        second.write_all(b"5").unwrap();
        drop((first, second));
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(read("aa.sqlog"), "before");
        assert_eq!(read("bb.sqlog"), "1234123412");
        assert_eq!(read("cc.sqlog"), "");
        assert!(!dir.path().join("dd.sqlog").exists());
    }
}
