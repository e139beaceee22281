//! The side of whoever wants something of a link: finding it, and asking.

use super::VARIABLE;
use super::folder::{folders, read_file_name, sockets};
use super::protocol::{ANSWER_LIMIT, Answer, Ask, LinkState, Request, line};
use crate::Error;
use altway_link::Change;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fmt, fs};

/// Time that a link may take to answer: others may be asking it too.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A link of another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningLink {
    /// The number of the process.
    pub pid: u32,
    /// Name of the link, if it has one.
    pub name: Option<String>,
    path: PathBuf,
}

impl RunningLink {
    /// The link that is meant by `wanted`, its name or the number of its process; without that the
    /// one that [`VARIABLE`] names, or the only one that runs.
    ///
    /// # Errors
    /// There is none, or there are several; the error lists what there is.
    pub fn find(wanted: Option<&str>) -> Result<Self, Error> {
        if let (None, Some(path)) = (wanted, env::var_os(VARIABLE)) {
            return Self::at(Path::new(&path)).ok_or(Error::NoLink);
        }
        choose(Self::all(), wanted)
    }

    /// All links of this user's that run. Sockets of processes that died are removed.
    #[must_use]
    pub fn all() -> Vec<Self> {
        Self::all_in(&folders())
    }

    /// The link whose socket this is; `None` if its name is not that of a link's socket.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        let (pid, name) = read_file_name(path)?;
        Some(Self {
            pid,
            name,
            path: path.to_owned(),
        })
    }

    /// Returns the settings of the link, and what it did.
    ///
    /// # Errors
    /// The link does not answer, or not with what is understood here.
    pub fn show(&self) -> Result<LinkState, Error> {
        self.ask(Ask::Show)
    }

    /// Changes the link; returns how it is then.
    ///
    /// # Errors
    /// The link does not answer, or refuses.
    pub fn set(&self, change: &Change) -> Result<LinkState, Error> {
        let change = change.to_string();
        self.ask(Ask::Set { change })
    }

    /// Takes the shaping away; returns how the link is then.
    ///
    /// # Errors
    /// The link does not answer, or refuses.
    pub fn reset(&self) -> Result<LinkState, Error> {
        self.ask(Ask::Reset)
    }

    pub(super) fn all_in(folders: &[PathBuf]) -> Vec<Self> {
        let sockets = folders.iter().flat_map(|folder| sockets(folder));
        let alive = sockets.filter(|path| is_alive(path));
        let mut links: Vec<_> = alive.filter_map(|path| Self::at(&path)).collect();
        links.sort_by_key(|link| link.pid);
        links
    }

    fn is(&self, wanted: &str) -> bool {
        self.name.as_deref() == Some(wanted) || wanted.parse() == Ok(self.pid)
    }

    fn ask(&self, ask: Ask) -> Result<LinkState, Error> {
        let silent = |source| Error::LinkSilent {
            link: self.to_string(),
            source,
        };
        let answer = self.exchange(&Request::new(ask)).map_err(silent)?;
        let answer = serde_json::from_slice(&answer).map_err(|error| Error::LinkRefused {
            link: self.to_string(),
            reason: format!("it is of another version of altway: {error}"),
        })?;
        match answer {
            Answer::State(state) => Ok(*state),
            Answer::Refused { reason } => Err(Error::LinkRefused {
                link: self.to_string(),
                reason,
            }),
        }
    }

    fn exchange(&self, request: &Request) -> io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(&self.path)?;
        stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
        stream.set_write_timeout(Some(RESPONSE_TIMEOUT))?;
        stream.write_all(&line(request)?)?;
        let mut answer = Vec::new();
        BufReader::new(stream.take(ANSWER_LIMIT)).read_until(b'\n', &mut answer)?;
        if !answer.ends_with(b"\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(answer)
    }
}

/// `router (process 1234)`.
impl fmt::Display for RunningLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} (process {})", self.pid),
            None => write!(f, "process {}", self.pid),
        }
    }
}

/// Removes the sockets that killed processes of this user's left; returns where they were.
pub(crate) fn remove_abandoned() -> Vec<PathBuf> {
    let folders = folders();
    let sockets = folders.iter().flat_map(|folder| sockets(folder));
    let abandoned = sockets.filter(|path| matches!(has_listener(path), Ok(false)));
    abandoned
        .filter(|path| fs::remove_file(path).is_ok())
        .collect()
}

pub(super) fn choose(
    running: Vec<RunningLink>,
    wanted: Option<&str>,
) -> Result<RunningLink, Error> {
    let list = |links: &[RunningLink]| {
        let names: Vec<_> = links.iter().map(ToString::to_string).collect();
        names.join(", ")
    };
    if running.is_empty() {
        return Err(Error::NoLink);
    }
    let all = list(&running);
    let find_interface = |link: &RunningLink| wanted.is_none_or(|wanted| link.is(wanted));
    let mut find_interface: Vec<_> = running.into_iter().filter(find_interface).collect();
    match (find_interface.len(), wanted) {
        (1, _) => Ok(find_interface.remove(0)),
        (0, wanted) => Err(Error::UnknownLink {
            wanted: wanted.unwrap_or_default().into(),
            running: all,
        }),
        _ => Err(Error::SeveralLinks {
            running: list(&find_interface),
        }),
    }
}

/// Returns whether anybody listens; a socket that a dead process left is removed.
fn is_alive(path: &Path) -> bool {
    let listens = has_listener(path);
    if matches!(listens, Ok(false)) {
        let _ = fs::remove_file(path);
    }
    listens.unwrap_or(false)
}

/// Fails when the folder or the socket is somebody else's, or has just gone.
fn has_listener(path: &Path) -> io::Result<bool> {
    match UnixStream::connect(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
        Err(error) => Err(error),
    }
}
