//! A folder for the files of one run, which [`clean`](crate::clean()) finds when the process that
//! made it was killed.
//!
//! The folder is locked (flock(2)) as long as its owner lives, however it ends, so that nobody takes
//! away a folder that is in use, and process numbers need not be believed. Whoever makes one takes away those of a day ago
//! whose owners are gone, but for those that say what is to be put back.

use crate::{Error, changes};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// Beginning of the names of all such folders.
const PREFIX: &str = "altway-scratch-";

/// Age at which an abandoned folder goes without being asked for: until then someone may want to look at it.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A folder of this user's alone in the system's temporary folder; gone when it is dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    /// Closing it unlocks.
    _lock: File,
}

impl Scratch {
    /// Makes an empty one, and removes those that were abandoned a day ago or longer.
    ///
    /// # Errors
    /// The temporary folder takes none.
    pub fn create() -> io::Result<Self> {
        remove_old(&std::env::temp_dir(), SystemTime::now());
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
            let Ok(lock) = open(folder.path()) else {
                // Who cleans up was faster than the lock.
                continue;
            };
            flock(&lock, FlockOperation::LockExclusive)?;
            if is_still_there(folder.path(), &lock)? {
                return Ok(Self {
                    folder,
                    _lock: lock,
                });
            }
        }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders of this user in `parent` whose owners are gone; returns which. `prepare` gets
/// each before, and decides whether it may go.
pub(crate) fn remove_abandoned(
    parent: &Path,
    mut prepare: impl FnMut(&Path) -> bool,
) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Clean {
        path: parent.into(),
        source,
    };
    let entries = fs::read_dir(parent).map_err(failed)?;
    let ours = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        is_ours.then(|| entry.path())
    });
    let removed = ours.filter(|path| remove_if_abandoned(path, &mut prepare));
    Ok(removed.collect())
}

/// Removes the folders of this user in `parent` that were abandoned for a day, and hold nothing that is to be put back
/// first. One that can't be removed stays.
fn remove_old(parent: &Path, now: SystemTime) {
    let is_old = |path: &Path| {
        let changed = fs::symlink_metadata(path).and_then(|it| it.modified());
        let age = changed.ok().and_then(|time| now.duration_since(time).ok());
        age.is_some_and(|age| age >= DAY)
    };
    let may_go = |path: &Path| is_old(path) && !changes::are_recorded(path);
    if let Err(error) = remove_abandoned(parent, may_go) {
        tracing::debug!(%error, "abandoned folders stay");
    }
}

fn remove_if_abandoned(path: &Path, prepare: impl FnOnce(&Path) -> bool) -> bool {
    let Ok(lock) = open(path) else {
        return false;
    };
    let me = rustix::process::geteuid().as_raw();
    let is_mine = lock.metadata().is_ok_and(|metadata| metadata.uid() == me);
    if !is_mine || flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return false;
    }
    if !prepare(path) {
        return false;
    }
    match fs::remove_dir_all(path) {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(%error, "cannot remove {}", path.display());
            false
        }
    }
}

/// Opens a folder, and nothing that a link leads to: others may write in the parent.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Returns whether `path` is the folder that was opened, and not removed since.
fn is_still_there(path: &Path, opened: &File) -> io::Result<bool> {
    let opened = opened.metadata()?;
    let found = fs::symlink_metadata(path);
    Ok(found.is_ok_and(|found| (found.dev(), found.ino()) == (opened.dev(), opened.ino())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_there_until_it_is_dropped() {
        let scratch = Scratch::create().unwrap();
        let path = scratch.path().to_owned();
        fs::write(path.join("file"), "text").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_in_use_is_left_alone_and_what_is_not_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(format!("{PREFIX}{name}"));
        for name in ["used", "abandoned"] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("file"), "text").unwrap();
        }
        fs::create_dir(parent.path().join("foreign")).unwrap();
        fs::write(path("no-folder"), "text").unwrap();
        std::os::unix::fs::symlink(parent.path(), path("link")).unwrap();
        let lock = open(&path("used")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();

        let kept = remove_abandoned(parent.path(), |_| false).unwrap();
        assert!(kept.is_empty() && path("abandoned").exists());
        let removed = remove_abandoned(parent.path(), |_| true).unwrap();
        assert_eq!(removed, [path("abandoned")]);
        for left in [
            path("used"),
            path("no-folder"),
            parent.path().join("foreign"),
        ] {
            assert!(left.exists(), "{}", left.display());
        }
        drop(lock);
        let removed = remove_abandoned(parent.path(), |_| true).unwrap();
        assert_eq!(removed, [path("used")]);
    }

    #[test]
    fn what_was_abandoned_for_a_day_goes_unless_it_says_what_to_put_back() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(format!("{PREFIX}{name}"));
        for name in ["abandoned", "changes", "used"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("changes").join(changes::FILE), "{}").unwrap();
        let lock = open(&path("used")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let now = SystemTime::now();
        remove_old(parent.path(), now + DAY / 2);
        assert!(path("abandoned").exists());
        remove_old(parent.path(), now + 2 * DAY);
        assert!(!path("abandoned").exists());
        assert!(path("changes").exists() && path("used").exists());
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_an_error() {
        let missing = remove_abandoned(Path::new("/nowhere"), |_| true);
        assert!(matches!(missing, Err(Error::Clean { .. })));
    }
}
