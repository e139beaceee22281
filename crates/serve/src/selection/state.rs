//! The folder in which a server keeps what it has learnt, so that a restart forgets nothing.
//!
//! `paths.key` is the key under which addresses are hashed, and `paths.state` the latest snapshot. Both are their
//! owner's alone (mode 600). The process that writes snapshots holds a lock on the key: one that finds it held writes none.
//! A snapshot that is damaged, or of another key or version, is put aside as
//! `paths.damaged`, and everything is learnt anew.

use altway_folder::{Content, OpenFolder};
use altway_select::{
    Client, ClientClass, Config, Congestion, ModelKind, Secret, Selector, Surface,
    snapshot_congestion,
};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Time between two snapshots.
pub(crate) const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// A snapshot is never larger: 131,072 clients of 49 bytes, as many networks of 25, and 1,089 hosts of 1.7 kB at most are
/// 12 MB.
const MAX_SNAPSHOT: u64 = 256 << 20;

const KEY: &str = "paths.key";
const SNAPSHOT: &str = "paths.state";
const DAMAGED: &str = "paths.damaged";
const NEW: &str = "paths.new";

/// The folder, with its key.
#[derive(Debug)]
pub(crate) struct StateFolder {
    path: PathBuf,
    /// The user beside root of whom root takes it.
    user: Option<u32>,
    secret: Secret,
    holding: Mutex<Holding>,
}

/// The right to write to the folder, as far as this process has it.
#[derive(Debug)]
enum Holding {
    /// No other process has been found to have it.
    Free,
    /// This process has it, as long as the key's file is open.
    Held { _key: File },
    /// This process has handed it over to another one.
    HandedOver,
}

impl StateFolder {
    /// Opens the folder, which is made if it is not there, and its key, likewise. `user`: see
    /// [`Options::user`](crate::Options::user).
    ///
    /// # Errors
    /// The folder or the key can't be made or read, what stands in the key's place is none, or root does not take it.
    pub(crate) fn open(path: &Path, user: Option<u32>) -> io::Result<Self> {
        let folder = OpenFolder::make(path, user)?;
        let secret = match read_key(&folder)? {
            Some(secret) => secret,
            None => {
                let random = crate::random::random().map_err(io::Error::other)?;
                let mut bytes = [0; 16];
                bytes.copy_from_slice(&random[..16]);
                folder.write(NEW, KEY, &bytes)?;
                Secret::new(bytes)
            }
        };
        Ok(Self {
            path: path.to_owned(),
            user,
            secret,
            holding: Mutex::new(Holding::Free),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn secret(&self) -> Secret {
        self.secret
    }

    /// The latest snapshot, if there is one.
    ///
    /// # Errors
    /// The file can't be read, or root does not take it.
    pub(crate) fn kept(&self) -> io::Result<Option<Vec<u8>>> {
        let kept = self.place()?.read(SNAPSHOT, MAX_SNAPSHOT)?;
        Ok(kept.map(|it| it.bytes))
    }

    /// Puts a snapshot aside that is none.
    pub(crate) fn put_aside(&self, reason: &(dyn std::error::Error + 'static)) {
        let to = self.path.join(DAMAGED);
        let path = to.display();
        let renamed = self.place().and_then(|it| it.rename(SNAPSHOT, DAMAGED));
        match renamed {
            Ok(()) => {
                tracing::warn!(reason, %path, "what was known of clients can't be read: put aside");
            }
            Err(error) => tracing::warn!(%error, reason, "what was known of clients can't be read"),
        }
    }

    /// Takes the folder for this process, until that has ended or hands it over. Returns false if another one has it.
    pub(crate) fn take(&self) -> bool {
        let place = self.place();
        // Of a folder that is gone nobody else has anything.
        place.map_or(true, |place| take(&mut self.holding(), &place))
    }

    /// Replaces the snapshot, as a whole or not at all, unless another process has the folder.
    pub(crate) fn save(&self, snapshot: &[u8]) {
        let mut holding = self.holding();
        let written = self.place().and_then(|place| {
            let is_ours = take(&mut holding, &place);
            is_ours
                .then(|| place.write(NEW, SNAPSHOT, snapshot))
                .transpose()
        });
        if let Err(error) = written {
            let path = self.path.join(SNAPSHOT);
            tracing::warn!(%error, path = %path.display(), "what is known of clients can't be kept");
        }
    }

    /// Stops writing, for another process to take the folder (`true`), or resumes it.
    pub(crate) fn hand_over(&self, to_another: bool) {
        *self.holding() = match to_another {
            true => Holding::HandedOver,
            false => Holding::Free,
        };
    }

    fn holding(&self) -> MutexGuard<'_, Holding> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder that has its path now.
    fn place(&self) -> io::Result<OpenFolder> {
        OpenFolder::open(&self.path, self.user)
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
    /// Reads the folder, and changes nothing in it. `policy` is the server's, and `surface` that of its
    /// [file](ModelKind::file), or the embedded one. The congestion control of TCP and of QUIC is the server's, unless
    /// another one is `supposed`.
    ///
    /// Of another user's folder root takes what is root's or that user's alone, and follows no link to it that is not root's
    /// or that user's to what is the user's.
    ///
    /// # Errors
    /// The folder can't be read, or there is no snapshot in it that can be used.
    pub fn read(
        folder: &Path,
        policy: &ModelKind,
        surface: Surface,
        supposed: [Option<Congestion>; 2],
    ) -> io::Result<Self> {
        let missing =
            || io::Error::new(io::ErrorKind::NotFound, "no server has kept anything in it");
        let folder = OpenFolder::open(folder, None)?;
        let secret = read_key(&folder)?.ok_or_else(missing)?;
        let snapshot = folder.read(SNAPSHOT, MAX_SNAPSHOT)?;
        let Content { bytes, written } = snapshot.ok_or_else(missing)?;
        let [tcp, quic] = snapshot_congestion(&bytes).unwrap_or_default();
        let mut config = Config::with_surface(secret, policy, surface);
        config.congestion = [supposed[0].unwrap_or(tcp), supposed[1].unwrap_or(quic)];
        let selector = Selector::new(config);
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        selector.restore(&bytes, super::now()).map_err(invalid)?;
        Ok(Self {
            selector,
            secret,
            written,
        })
    }

    /// Forgets all clients: removes the snapshot, if there is one, and leaves the key; returns true if there was one.
    /// No server may run with the folder, because it would write the next snapshot.
    ///
    /// # Errors
    /// A server runs with the folder ([`io::ErrorKind::WouldBlock`]), or the snapshot can't be removed.
    pub fn forget(folder: &Path) -> io::Result<bool> {
        let folder = match OpenFolder::open(folder, None) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened?,
        };
        let _locked = match lock(&folder) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            locked => locked.ok(),
        };
        folder.remove(SNAPSHOT)
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

/// Takes the folder unless another process has it. Returns true if this one may write; so it may where nothing can be
/// locked.
fn take(holding: &mut Holding, place: &OpenFolder) -> bool {
    if matches!(holding, Holding::Free) {
        match lock(place) {
            Ok(key) => *holding = Holding::Held { _key: key },
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
    }
    matches!(holding, Holding::Held { .. })
}

/// Locks the folder's key, which is made once and then stays.
///
/// # Errors
/// Another process has locked it ([`io::ErrorKind::WouldBlock`]), or there is nothing that can be locked.
fn lock(folder: &OpenFolder) -> io::Result<File> {
    let key = folder.open_file(KEY)?.ok_or(io::ErrorKind::NotFound)?;
    key.try_lock()?;
    Ok(key)
}

/// The folder's key; `None` where there is none.
fn read_key(folder: &OpenFolder) -> io::Result<Option<Secret>> {
    let Some(key) = folder.read(KEY, 17)? else {
        return Ok(None);
    };
    let bytes = <[u8; 16]>::try_from(key.bytes).map_err(|_| {
        let text = format!("`{KEY}` is no key of 16 bytes");
        io::Error::new(io::ErrorKind::InvalidData, text)
    })?;
    Ok(Some(Secret::new(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_key_stays_and_the_latest_snapshot_is_kept_for_the_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let folder = StateFolder::open(&path, None).unwrap();
        assert_eq!(folder.kept().unwrap(), None);
        folder.save(b"one");
        folder.save(b"two");
        let again = StateFolder::open(&path, None).unwrap();
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
        let folder = StateFolder::open(dir.path(), None).unwrap();
        fs::hard_link(&victim, &new).unwrap();
        folder.save(b"one");
        std::os::unix::fs::symlink(&victim, &new).unwrap();
        folder.save(b"two");
        assert_eq!(folder.kept().unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_folder_that_was_handed_over_is_left_alone_until_it_is_handed_back() {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(dir.path(), None).unwrap();
        folder.hand_over(true);
        folder.save(b"one");
        assert_eq!(folder.kept().unwrap(), None);
        assert!(!folder.take());
        folder.hand_over(false);
        folder.save(b"one");
        assert!(folder.kept().unwrap().is_some());
    }

    #[test]
    fn of_two_servers_with_a_folder_one_writes_and_the_other_does_once_that_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let open = || StateFolder::open(dir.path(), None).unwrap();
        let (first, second) = (open(), open());
        assert!(first.take() && first.take() && !second.take());
        first.save(b"one");
        second.save(b"two");
        assert_eq!(second.kept().unwrap().as_deref(), Some(&b"one"[..]));
        let refused = KeptPaths::forget(dir.path()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        first.hand_over(true);
        assert!(second.take());
        first.hand_over(false);
        first.save(b"three");
        assert_eq!(first.kept().unwrap().as_deref(), Some(&b"one"[..]));
        drop(second);
        first.save(b"three");
        assert_eq!(first.kept().unwrap().as_deref(), Some(&b"three"[..]));
        drop(first);
        assert!(KeptPaths::forget(dir.path()).unwrap());
        assert!(!KeptPaths::forget(dir.path()).unwrap());
    }

    #[test]
    fn what_is_no_key_is_an_error_and_a_bad_snapshot_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(dir.path(), None).unwrap();
        folder.save(b"nonsense");
        folder.put_aside(&io::Error::other("no snapshot"));
        assert_eq!(folder.kept().unwrap(), None);
        assert_eq!(fs::read(dir.path().join(DAMAGED)).unwrap(), b"nonsense");
        fs::write(dir.path().join(KEY), b"short").unwrap();
        let error = StateFolder::open(dir.path(), None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
