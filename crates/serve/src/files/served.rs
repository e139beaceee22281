//! The folder that is served, which may be another from one moment to the next: a deployment switches the link
//! that its path is (`current` to `releases/2`).

use super::Files;
use super::open::Root;
use crate::Error;
use crate::locks::{read, write};
use crate::throttle::Throttle;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

/// Time for which a change of the folder may go unseen.
const INTERVAL: Duration = Duration::from_secs(1);

/// Lines about a folder that can't be opened, of which there may be one each second.
static FAILURES: Throttle = Throttle::new();

/// The number of the folder that is opened next.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The number of no folder: of a place that nothing serves any more.
const NONE: u64 = u64::MAX;

/// The path of the folder, and the folder that was there at the latest look.
#[derive(Debug)]
pub(super) struct WatchedFolder {
    /// Absolute.
    path: PathBuf,
    current: RwLock<Arc<Root>>,
    /// True if the folder could be listed when it was first opened.
    is_readable: bool,
    /// A number that tells the folder that is served now from all others that this process has opened.
    number: Arc<AtomicU64>,
    opened: Instant,
    /// Milliseconds from `opened` to the latest look.
    looked: AtomicU64,
}

/// The files as they are in one folder: everything that answers one request is of it.
#[derive(Debug, Clone)]
pub(super) struct ServedFolder {
    files: Files,
    pub(super) root: Arc<Root>,
}

impl Deref for ServedFolder {
    type Target = Files;

    fn deref(&self) -> &Files {
        &self.files
    }
}

impl Files {
    /// The files of the folder that is there now.
    pub(super) fn served(&self) -> ServedFolder {
        ServedFolder {
            root: self.place.current(),
            files: self.clone(),
        }
    }

    /// Looks whether another folder has taken the place of the served one, if nobody has for a second. To be called
    /// once a second by whoever keeps what is in it.
    pub(crate) fn look_for_change(&self, now: Instant) {
        self.place.look_if_due(now);
    }
}

impl Drop for WatchedFolder {
    fn drop(&mut self) {
        self.number.store(NONE, Ordering::Release);
    }
}

impl WatchedFolder {
    /// # Errors
    /// `path` is missing, closed to us, or no directory.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let root = Root::open(path)?;
        Ok(Self {
            // The process may change its own folder later.
            path: std::path::absolute(path).unwrap_or_else(|_| path.into()),
            current: RwLock::new(Arc::new(root)),
            is_readable: readable(path).is_ok(),
            number: Arc::new(AtomicU64::new(NEXT.fetch_add(1, Ordering::Relaxed))),
            opened: Instant::now(),
            looked: AtomicU64::new(0),
        })
    }

    /// Returns the number that tells the folder that is served now from all others that this process has opened.
    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// The same, as it is at any later time; [`NONE`] once the place is gone.
    pub(super) fn shared_number(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.number)
    }

    fn current(&self) -> Arc<Root> {
        Arc::clone(&read(&self.current))
    }

    /// Looks for a change, if nobody has for a second.
    pub(super) fn look_if_due(&self, now: Instant) {
        let age = now.saturating_duration_since(self.opened);
        let looked = Duration::from_millis(self.looked.load(Ordering::Relaxed));
        if age >= looked + INTERVAL {
            self.look(now);
        }
    }

    /// A path that is gone leaves the former folder in service: it may be on its way to another.
    fn look(&self, now: Instant) {
        let age = now.saturating_duration_since(self.opened).as_millis();
        let age = u64::try_from(age).unwrap_or(u64::MAX);
        self.looked.store(age, Ordering::Relaxed);
        if self.current().is_at(&self.path) {
            return;
        }
        // One that may be entered and not read would answer every request with a refusal: to be kept from it, as by a
        // sandbox, shows at reading alone.
        let opened = match self.is_readable {
            true => readable(&self.path).and_then(|()| Root::open(&self.path)),
            false => Root::open(&self.path),
        };
        let root = match opened {
            Ok(root) => root,
            Err(error) => {
                if let Some(suppressed) = FAILURES.admit(now) {
                    let path = self.path.display();
                    tracing::warn!(
                        %error,
                        suppressed,
                        "the folder that was served as `{path}` is served on: no other can be opened there"
                    );
                }
                return;
            }
        };
        let mut current = write(&self.current);
        // Another worker may have seen it, too.
        if !current.is_same_folder(&root) {
            *current = Arc::new(root);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            self.number.store(number, Ordering::Release);
            tracing::info!("`{}` is another folder now", self.path.display());
        }
    }
}

/// # Errors
/// The folder can't be read.
fn readable(path: &Path) -> Result<(), Error> {
    match std::fs::read_dir(path) {
        Ok(_) => Ok(()),
        Err(source) => Err(Error::Root {
            path: path.into(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn content(place: &WatchedFolder) -> Vec<u8> {
        let opened = place.current().open_file(Path::new("a")).unwrap();
        let size = usize::try_from(opened.size()).unwrap();
        opened.file.read_at(0, size).unwrap().to_vec()
    }

    fn switch(dir: &Path, release: &str) {
        symlink(release, dir.join("next")).unwrap();
        fs::rename(dir.join("next"), dir.join("current")).unwrap();
    }

    #[test]
    fn a_link_that_is_switched_is_seen_within_a_second() {
        let dir = tempfile::tempdir().unwrap();
        for release in ["1", "2"] {
            fs::create_dir(dir.path().join(release)).unwrap();
            fs::write(dir.path().join(release).join("a"), release).unwrap();
        }
        switch(dir.path(), "1");
        let place = WatchedFolder::open(&dir.path().join("current")).unwrap();
        let (before, opened, number) = (place.current(), place.opened, place.number());
        switch(dir.path(), "2");
        place.look_if_due(opened + INTERVAL - Duration::from_millis(1));
        assert_eq!(content(&place), b"1");
        place.look_if_due(opened + INTERVAL);
        assert_eq!(content(&place), b"2");
        let next = place.number();
        assert_ne!(next, number);
        let old = before.open_file(Path::new("a")).unwrap();
        assert_eq!(
            old.file.read_at(0, 1).unwrap(),
            b"1"[..],
            "who has begun goes on"
        );
        place.look_if_due(opened + INTERVAL * 2);
        assert_eq!(place.number(), next, "the same");
    }

    #[test]
    fn a_folder_that_is_gone_is_served_until_another_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("site");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("a"), "1").unwrap();
        let place = WatchedFolder::open(&path).unwrap();
        fs::rename(&path, dir.path().join("old")).unwrap();
        place.look(Instant::now());
        assert_eq!(content(&place), b"1");
        fs::write(&path, "no folder").unwrap();
        place.look(Instant::now());
        assert_eq!(content(&place), b"1");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("a"), "2").unwrap();
        place.look(Instant::now());
        assert_eq!(content(&place), b"2");
    }
}
