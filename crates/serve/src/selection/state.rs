//! The folder in which a server keeps what it has learnt, so that a restart forgets nothing.
//!
//! `paths.key` is the key under which addresses are hashed, and `paths.state` the latest snapshot. Both are their
//! owner's alone (mode 600). A snapshot that is damaged, or of another key or version, is put aside as
//! `paths.damaged`, and everything is learnt anew.

use altway_select::{
    Client, ClientClass, Config, Congestion, ModelKind, Secret, Selector, snapshot_congestion,
};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Time between two snapshots.
pub(crate) const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// A snapshot is never larger: 131,072 clients of 49 bytes, and as many networks of 25, are 10 MB.
const MAX_SNAPSHOT: u64 = 256 << 20;

const KEY: &str = "paths.key";
const SNAPSHOT: &str = "paths.state";
const DAMAGED: &str = "paths.damaged";
const NEW: &str = "paths.new";

/// The folder, with its key.
#[derive(Debug)]
pub(crate) struct StateFolder {
    path: PathBuf,
    secret: Secret,
    /// True once another process writes to it.
    closed: AtomicBool,
    writing: Mutex<()>,
}

impl StateFolder {
    /// Opens the folder, which is made if it is not there, and its key, likewise.
    ///
    /// # Errors
    /// The folder or the key can't be made or read, or what stands in the key's place is none.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let key = path.join(KEY);
        let secret = match read_key(path)? {
            Some(secret) => secret,
            None => {
                let random = crate::random::random().map_err(io::Error::other)?;
                let mut bytes = [0; 16];
                bytes.copy_from_slice(&random[..16]);
                write(&path.join(NEW), &key, &bytes)?;
                Secret::new(bytes)
            }
        };
        Ok(Self {
            path: path.to_owned(),
            secret,
            closed: AtomicBool::new(false),
            writing: Mutex::default(),
        })
    }

    pub(crate) fn secret(&self) -> Secret {
        self.secret
    }

    /// The latest snapshot, if there is one.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn kept(&self) -> io::Result<Option<Vec<u8>>> {
        read(&self.path.join(SNAPSHOT), MAX_SNAPSHOT)
    }

    /// Puts a snapshot aside that is none.
    pub(crate) fn put_aside(&self, reason: &(dyn std::error::Error + 'static)) {
        let (from, to) = (self.path.join(SNAPSHOT), self.path.join(DAMAGED));
        let path = to.display();
        match fs::rename(from, &to) {
            Ok(()) => {
                tracing::warn!(reason, %path, "what was known of clients can't be read: put aside");
            }
            Err(error) => tracing::warn!(%error, reason, "what was known of clients can't be read"),
        }
    }

    /// Replaces the snapshot, as a whole or not at all.
    pub(crate) fn save(&self, snapshot: &[u8]) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        let (new, to) = (self.path.join(NEW), self.path.join(SNAPSHOT));
        if let Err(error) = write(&new, &to, snapshot) {
            tracing::warn!(%error, path = %to.display(), "what is known of clients can't be kept");
        }
    }

    /// Stops writing (`true`), or resumes it.
    pub(crate) fn close(&self, closed: bool) {
        self.closed.store(closed, Ordering::Relaxed);
    }
}

/// Knowledge that a server has kept of its clients in its state folder ([`Options::state`](crate::Options::state)), a minute old
/// while it runs.
#[derive(Debug)]
pub struct KeptPaths {
    selector: Selector,
    secret: Secret,
    written: SystemTime,
}

impl KeptPaths {
    /// Reads the folder, and changes nothing in it. `policy` is the server's; if that has a surface file, the
    /// embedded surface is used in its place. The congestion control of TCP and of QUIC is the server's, unless
    /// another one is `supposed`.
    ///
    /// # Errors
    /// The folder can't be read, or there is no snapshot in it that can be used.
    pub fn read(
        folder: &Path,
        policy: &ModelKind,
        supposed: [Option<Congestion>; 2],
    ) -> io::Result<Self> {
        let missing =
            || io::Error::new(io::ErrorKind::NotFound, "no server has kept anything in it");
        let secret = read_key(folder)?.ok_or_else(missing)?;
        let path = folder.join(SNAPSHOT);
        let bytes = read(&path, MAX_SNAPSHOT)?.ok_or_else(missing)?;
        let [tcp, quic] = snapshot_congestion(&bytes).unwrap_or_default();
        let mut config = Config::new(secret, policy);
        config.congestion = [supposed[0].unwrap_or(tcp), supposed[1].unwrap_or(quic)];
        let selector = Selector::new(config);
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        selector.restore(&bytes, super::now()).map_err(invalid)?;
        Ok(Self {
            selector,
            secret,
            written: fs::metadata(path)?.modified()?,
        })
    }

    /// Forgets all clients: removes the snapshot, if there is one, and leaves the key; returns true if there was one.
    /// No server may run with the folder, because it would write the next snapshot.
    ///
    /// # Errors
    /// The snapshot can't be removed.
    pub fn forget(folder: &Path) -> io::Result<bool> {
        match fs::remove_file(folder.join(SNAPSHOT)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A selector that knows what the server knew, to query and to experiment with; nothing reaches the server.
    #[must_use]
    pub fn selector(&self) -> &Selector {
        &self.selector
    }

    /// The client of `class` at `address`, as the server knows it.
    #[must_use]
    pub fn client(&self, address: IpAddr, class: ClientClass) -> Client {
        Client::new(&self.secret, address, class)
    }

    /// Returns the time at which it was written.
    #[must_use]
    pub fn written(&self) -> SystemTime {
        self.written
    }
}

/// The folder's key; `None` where there is none.
fn read_key(folder: &Path) -> io::Result<Option<Secret>> {
    let key = folder.join(KEY);
    let Some(bytes) = read(&key, 17)? else {
        return Ok(None);
    };
    let bytes = <[u8; 16]>::try_from(bytes).map_err(|_| {
        let text = format!("`{}` is no key of 16 bytes", key.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    })?;
    Ok(Some(Secret::new(bytes)))
}

/// `None` where there is no file.
fn read(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Writes `new`, and gives it the name `path` once it is on the disk. What has that name before is no file of this
/// process: root may be who writes, and the folder another user's, who gave it the name of a link or of root's file.
fn write(new: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(new, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_key_stays_and_the_latest_snapshot_is_kept_for_the_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let folder = StateFolder::open(&path).unwrap();
        assert_eq!(folder.kept().unwrap(), None);
        folder.save(b"one");
        folder.save(b"two");
        let again = StateFolder::open(&path).unwrap();
        assert!(folder.secret() == again.secret());
        assert_eq!(again.kept().unwrap().as_deref(), Some(&b"two"[..]));
        for (name, mode) in [("", 0o700), (KEY, 0o600), (SNAPSHOT, 0o600)] {
            let found = fs::metadata(path.join(name)).unwrap().permissions().mode();
            assert_eq!(found & 0o777, mode, "{name}");
        }
        assert!(!path.join(NEW).exists());
    }

    #[test]
    fn what_else_has_the_name_of_the_new_file_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, new) = (dir.path().join("victim"), dir.path().join(NEW));
        fs::write(&victim, "precious").unwrap();
        let folder = StateFolder::open(dir.path()).unwrap();
        fs::hard_link(&victim, &new).unwrap();
        folder.save(b"one");
        std::os::unix::fs::symlink(&victim, &new).unwrap();
        folder.save(b"two");
        assert_eq!(folder.kept().unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_folder_that_another_process_has_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(dir.path()).unwrap();
        folder.close(true);
        folder.save(b"one");
        assert_eq!(folder.kept().unwrap(), None);
        folder.close(false);
        folder.save(b"one");
        assert!(folder.kept().unwrap().is_some());
    }

    #[test]
    fn what_is_no_key_is_an_error_and_a_bad_snapshot_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(dir.path()).unwrap();
        folder.save(b"nonsense");
        folder.put_aside(&io::Error::other("no snapshot"));
        assert_eq!(folder.kept().unwrap(), None);
        assert_eq!(fs::read(dir.path().join(DAMAGED)).unwrap(), b"nonsense");
        fs::write(dir.path().join(KEY), b"short").unwrap();
        let error = StateFolder::open(dir.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
