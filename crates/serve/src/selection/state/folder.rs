//! The state folder, held open, and the files in it.
//!
//! Root may be who opens it, and the folder the user's as whom the server goes on, or another's: root takes nothing in it
//! that somebody else has put there, nor by somebody else's link.

use crate::path_walk::{PathWalk, Trust, open_folder, refused};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::SystemTime;

const ROOT: u32 = 0;

/// A state folder that is open.
pub(super) struct OpenFolder {
    place: OwnedFd,
    /// The user beside root whose files are read; `None`: everybody's, as far as the process may.
    user: Option<u32>,
}

/// The content of a file, with the time at which it was written.
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) written: SystemTime,
}

impl OpenFolder {
    /// Opens the folder. `user`: the one beside root of whom root takes it, and what is in it; `None`: whoever has the
    /// folder.
    ///
    /// # Errors
    /// The folder is not there, can't be opened, or is not one that root takes.
    pub(super) fn open(path: &Path, user: Option<u32>) -> io::Result<Self> {
        match geteuid().is_root() {
            true => Self::open_as_root(PathWalk::new(path, trust(user))?, user),
            false => Self::open_as_user(path),
        }
    }

    /// The same of a folder that is made if it is missing, for its owner only.
    pub(super) fn make(path: &Path, user: Option<u32>) -> io::Result<Self> {
        if geteuid().is_root() {
            return Self::open_as_root(PathWalk::new(path, trust(user))?.making(), user);
        }
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Self::open_as_user(path)
    }

    fn open_as_user(path: &Path) -> io::Result<Self> {
        let place = open_folder(CWD, path.as_os_str(), OFlags::empty())?;
        Ok(Self { place, user: None })
    }

    fn open_as_root(way: PathWalk, user: Option<u32>) -> io::Result<Self> {
        let found = way.open(open_folder)?;
        let owner = fstat(&found.file)?.st_uid;
        let user = user.unwrap_or(owner);
        if owner != ROOT && owner != user {
            return Err(refused(
                &found.name,
                &format!("is a folder of user {owner}"),
            ));
        }
        Ok(Self {
            place: found.file,
            user: Some(user),
        })
    }

    /// The first `limit` bytes of a file; `None` where there is none.
    ///
    /// # Errors
    /// The file can't be read, is no regular file, or is not one that root takes.
    pub(super) fn read(&self, name: &str, limit: u64) -> io::Result<Option<Content>> {
        let opened = match self.user {
            Some(user) => self.find(name, user),
            None => open_file(self.place.as_fd(), name.as_ref(), OFlags::empty())
                .map_err(io::Error::from),
        };
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => File::from(opened?),
        };
        let about = file.metadata()?;
        if !about.is_file() {
            let text = format!("`{name}` is no file");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        let written = about.modified()?;
        Ok(Some(Content { bytes, written }))
    }

    /// A file of root's or this user's. One of root's with a second name in a folder of the user's is one that the user
    /// may have given the name.
    fn find(&self, name: &str, user: u32) -> io::Result<OwnedFd> {
        let place = self.place.try_clone()?;
        let way = PathWalk::within(place, name.as_ref(), Trust::User(user));
        let found = way.open(open_file)?;
        let (stat, folder) = (fstat(&found.file)?, fstat(&found.folder)?);
        let owner = stat.st_uid;
        if owner != ROOT && owner != user {
            return Err(refused(&found.name, &format!("is a file of user {owner}")));
        }
        let is_plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if is_plain && stat.st_nlink > 1 && owner == ROOT && folder.st_uid != ROOT {
            let what = format!("has a second name, in a folder of user {}", folder.st_uid);
            return Err(refused(&found.name, &what));
        }
        Ok(found.file)
    }

    /// Writes the file `new`, and gives it its name once it is on the disk. What is called `new` before is no file of this
    /// process: whoever has the folder may have given root's file that name.
    pub(super) fn write(&self, new: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.remove(new)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.place, new, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(file);
        file.write_all(bytes)?;
        file.sync_all()?;
        self.rename(new, name)
    }

    /// Gives a file, or a link, another name in the folder.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.place, from, &self.place, to)?)
    }

    /// Removes a file, or a link; returns false if there was none.
    pub(super) fn remove(&self, name: &str) -> io::Result<bool> {
        match unlinkat(&self.place, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn trust(user: Option<u32>) -> Trust {
    user.map_or(Trust::Owner, Trust::User)
}

/// Opens a file to read. One that has to be waited for, a FIFO or a terminal, is opened at once.
fn open_file(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkfifoat;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};
    use std::path::PathBuf;

    const USER: u32 = 7;
    const OTHER: u32 = 9;

    /// A folder with `state`, which is the user's, and `victim`, which is root's. `None`: the process is not root.
    fn folders() -> Option<tempfile::TempDir> {
        if !geteuid().is_root() {
            eprintln!("SKIPPED: root alone gives files away");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        for name in ["state", "victim", "other"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        chown(dir.path().join("state"), Some(USER), None).unwrap();
        chown(dir.path().join("other"), Some(OTHER), None).unwrap();
        fs::write(dir.path().join("victim/secret"), "precious").unwrap();
        Some(dir)
    }

    /// A link of a user's.
    fn link(target: &Path, at: &Path, user: u32) {
        let _ = fs::remove_file(at);
        symlink(target, at).unwrap();
        lchown(at, Some(user), None).unwrap();
    }

    /// The reason why the folder isn't opened, or the file in it not read.
    fn refusal(folder: &Path, user: Option<u32>) -> Option<String> {
        let read = OpenFolder::make(folder, user).and_then(|it| it.read("file", 100));
        read.err().map(|error| error.to_string())
    }

    #[test]
    fn root_reads_nothing_in_the_folder_that_another_has_put_there() {
        let Some(dir) = folders() else { return };
        let at = |name: &str| dir.path().join(name);
        let state = at("state");
        let check = |expected: Option<&str>| {
            for user in [Some(USER), None] {
                let found = refusal(&state, user);
                match expected {
                    Some(text) => {
                        assert!(
                            found.as_ref().is_some_and(|it| it.contains(text)),
                            "{found:?}"
                        );
                    }
                    None => assert_eq!(found, None),
                }
            }
        };
        check(None);
        let file = at("state/file");
        link(&at("victim/secret"), &file, USER);
        check(Some("`secret` is not of user 7"));
        link(&at("victim/secret"), &file, OTHER);
        check(Some("`file` is a link of user 9"));
        link(&at("victim/secret"), &file, ROOT);
        check(None);
        fs::write(at("state/own"), "own").unwrap();
        chown(at("state/own"), Some(USER), None).unwrap();
        link(Path::new("own"), &file, USER);
        check(None);
        chown(at("state/own"), Some(OTHER), None).unwrap();
        link(Path::new("own"), &file, ROOT);
        check(Some("`own` is a file of user 9"));
        fs::remove_file(&file).unwrap();
        fs::hard_link(at("victim/secret"), &file).unwrap();
        check(Some("`file` has a second name, in a folder of user 7"));
        fs::remove_file(&file).unwrap();
        mkfifoat(CWD, &file, Mode::RWXU).unwrap();
        check(Some("`file` is no file"));
    }

    #[test]
    fn root_takes_a_folder_that_the_operator_has_linked_and_no_other() {
        let Some(dir) = folders() else { return };
        let at = |name: &str| dir.path().join(name);
        let takes = |path: &Path, user| refusal(path, user).is_none();
        let linked = at("linked");
        for (target, by, for_user, for_any) in [
            ("state", ROOT, true, true),
            ("state", USER, true, true),
            ("state/a/b", USER, true, true),
            ("victim", ROOT, true, true),
            ("victim", USER, false, false),
            ("victim/new", USER, false, false),
            ("state", OTHER, false, false),
            ("other", OTHER, false, true),
            ("other", ROOT, false, true),
        ] {
            let (folder, rest) = target.split_once('/').unwrap_or((target, ""));
            link(&at(folder), &linked, by);
            let path = linked.join(rest);
            assert_eq!(takes(&path, Some(USER)), for_user, "{target} by {by}");
            assert_eq!(takes(&path, None), for_any, "{target} by {by}");
        }
        assert!(!takes(&at("other"), Some(USER)));
        assert_eq!(fs::read_dir(at("victim")).unwrap().count(), 1);
        for made in ["state/a", "state/a/b"] {
            assert_eq!(fs::metadata(at(made)).unwrap().uid(), USER, "{made}");
        }
    }

    #[test]
    fn a_folder_is_found_by_links_of_ones_own_and_by_any_spelling() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        symlink("a/b", dir.path().join("link")).unwrap();
        fs::write(dir.path().join("a/b/file"), "text").unwrap();
        symlink("file", dir.path().join("a/b/second")).unwrap();
        for name in ["a/b", "a/b/", "a/../a/./b", "link", "link/"] {
            let path: PathBuf = dir.path().join(name);
            let folder = OpenFolder::open(&path, None).unwrap();
            for file in ["file", "second"] {
                let found = folder.read(file, 3).unwrap().unwrap();
                assert_eq!(found.bytes, b"tex", "{name}");
            }
            assert!(folder.read("missing", 3).unwrap().is_none());
        }
        assert!(OpenFolder::open(Path::new("."), None).is_ok());
        assert!(OpenFolder::open(Path::new("/"), None).is_ok());
        let missing = OpenFolder::open(&dir.path().join("missing"), None);
        assert_eq!(missing.err().unwrap().kind(), io::ErrorKind::NotFound);
        assert!(OpenFolder::make(&dir.path().join("a/b/file"), None).is_err());
    }
}
