//! The side of the link: a socket, and a thread that answers on it.

use super::folder::{check_name, claim, file_name};
use super::protocol::{Answer, Ask, LinkState, REQUEST_LIMIT, Request, line};
use crate::Error;
use altway_link::Change;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time that one client may take for its request, and again for taking the answer. Clients are
/// served one after the other; those who wait are kept by the kernel, which bounds them.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);

/// A running link, which can be controlled.
pub trait Target: Send + Sync {
    /// Changes the link; packets in it stay.
    ///
    /// # Errors
    /// The link no longer runs, or its backend can't do that.
    fn change(&self, change: &Change) -> Result<(), Error>;

    /// Takes the shaping away, and what the schedule has in store; packets in the link stay.
    ///
    /// # Errors
    /// The link no longer runs, or its backend can't do that.
    fn reset(&self) -> Result<(), Error>;

    /// Returns the settings of the link, and what it did.
    ///
    /// # Errors
    /// The link no longer runs.
    fn state(&self) -> Result<LinkState, Error>;
}

/// A socket on which a link is controlled. Dropping it removes the socket; a client in the middle
/// of its request may hold that up for a second.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Makes the socket in `folder`, which [`folder`](super::folder()) names and which is made when
    /// it is not there. `name` is one more name of the link beside the number of the process: at
    /// most 32 letters, digits, `-` and `_`, not digits alone.
    ///
    /// # Errors
    /// The name is none, the folder is not this user's alone, or the socket can't be made.
    pub fn listen(
        target: Arc<dyn Target>,
        folder: &Path,
        name: Option<&str>,
    ) -> Result<Self, Error> {
        name.map_or(Ok(()), check_name)?;
        claim(folder)?;
        let path = folder.join(file_name(std::process::id(), name));
        let failed = |source| Error::ControlSocket {
            path: path.clone(),
            source,
        };
        let listener = bind(&path).map_err(failed)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let stop = Arc::new(stop);
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("altway-control".into())
            .spawn(move || serve(&listener, &stopped, &*target))
            .map_err(failed)?;
        Ok(Self {
            path,
            stop,
            thread: Some(thread),
        })
    }

    /// The path of the socket, for [`VARIABLE`](super::VARIABLE).
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // First of all, so that nobody finds a socket on which nobody listens.
        let _ = fs::remove_file(&self.path);
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes the socket under a name that nobody looks for, and moves it when it listens: a socket on
/// which nobody listens is taken for a dead process's.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let hidden = path.with_extension("new");
    match fs::remove_file(&hidden) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&hidden)?;
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600))?;
    fs::rename(&hidden, path)?;
    Ok(listener)
}

fn serve(listener: &UnixListener, stop: &OwnedFd, target: &dyn Target) {
    while has_client(listener, stop) {
        let Ok((stream, _)) = listener.accept() else {
            // No file descriptors are left, for instance; the client goes on waiting.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if let Err(error) = serve_client(&stream, target) {
            tracing::debug!(%error, "a client of the link's control went away");
        }
    }
}

/// Waits; false when it is time to end.
fn has_client(listener: &UnixListener, stop: &OwnedFd) -> bool {
    let mut files = [
        PollFd::new(listener, PollFlags::IN),
        PollFd::new(stop, PollFlags::IN),
    ];
    loop {
        match poll(&mut files, None) {
            Ok(_) => return files[1].revents().is_empty(),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

fn serve_client(stream: &UnixStream, target: &dyn Target) -> io::Result<()> {
    let request = read_line(stream)?;
    let answer = match Request::read(&request) {
        Ok(request) => answer(&request.ask, target),
        Err(reason) => Answer::Refused { reason },
    };
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    (&*stream).write_all(&line(&answer)?)
}

/// Reads up to the end of a line; a request that is too long or too slow is cut off.
fn read_line(stream: &UnixStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + CLIENT_TIMEOUT;
    let mut request = Vec::new();
    let mut chunk = [0; 4 << 10];
    while !request.ends_with(b"\n") && (request.len() as u64) < REQUEST_LIMIT {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match (&*stream).read(&mut chunk)? {
            0 => break,
            length => request.extend_from_slice(&chunk[..length]),
        }
    }
    Ok(request)
}

fn answer(ask: &Ask, target: &dyn Target) -> Answer {
    match carry_out(ask, target) {
        Ok(state) => Answer::State(Box::new(state)),
        Err(reason) => Answer::Refused { reason },
    }
}

fn carry_out(ask: &Ask, target: &dyn Target) -> Result<LinkState, String> {
    let words = |error: Error| error.to_string();
    match ask {
        Ask::Show => {}
        Ask::Reset => target.reset().map_err(words)?,
        Ask::Set { change } => {
            let change: Change = change.parse().map_err(|error| format!("{error}"))?;
            target.change(&change).map_err(words)?;
        }
    }
    target.state().map_err(words)
}
