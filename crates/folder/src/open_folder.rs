//! A folder that is held open, and the files in it.
//!
//! Root may be who opens it, and the folder the user's as whom the server goes on, or another's: root takes nothing in it
//! that somebody else has put there, nor by somebody else's link.

use crate::path_walk::{PathWalk, Trust, open_folder, refused};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::SystemTime;

const ROOT: u32 = 0;

/// Folders within each other that are removed with their content, at most: each is held open meanwhile.
const MAX_LEVELS: u32 = 16;

/// A folder that is open.
#[derive(Debug)]
pub struct OpenFolder {
    place: OwnedFd,
    /// The user beside root whose files are read; `None`: everybody's, as far as the process may.
    user: Option<u32>,
}

/// The content of a file, with the time at which it was written.
#[derive(Debug)]
pub struct Content {
    /// The bytes, as far as they were asked for.
    pub bytes: Vec<u8>,
    /// The time of the file's last change.
    pub written: SystemTime,
}

impl OpenFolder {
    /// Opens the folder. `user`: the one beside root of whom root takes it, and what is in it; `None`: whoever has the
    /// folder.
    ///
    /// # Errors
    /// The folder is not there, can't be opened, or is not one that root takes.
    pub fn open(path: &Path, user: Option<u32>) -> io::Result<Self> {
        match geteuid().is_root() {
            true => Self::open_as_root(PathWalk::new(path, trust(user))?, user),
            false => Self::open_as_user(path),
        }
    }

    /// Opens the folder, and makes it, for its owner only, if it is missing.
    ///
    /// # Errors
    /// The folder can't be made, or not be opened, as by [`open`](Self::open).
    pub fn make(path: &Path, user: Option<u32>) -> io::Result<Self> {
        if geteuid().is_root() {
            return Self::open_as_root(PathWalk::new(path, trust(user))?.making(), user);
        }
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Self::open_as_user(path)
    }

    /// Opens a folder below this one, whose files are those of the same user.
    ///
    /// # Errors
    /// The folder can't be opened, as by [`open`](Self::open).
    pub fn open_within(&self, path: &Path) -> io::Result<Self> {
        match self.user {
            Some(user) => Self::open_as_root(self.way(path, user)?, Some(user)),
            None => self.open_within_as_user(path),
        }
    }

    /// Opens such a folder, and makes it, with those above it, for its owner only if it is missing.
    ///
    /// # Errors
    /// The folder can't be made or opened, as by [`make`](Self::make).
    pub fn make_within(&self, path: &Path) -> io::Result<Self> {
        if let Some(user) = self.user {
            return Self::open_as_root(self.way(path, user)?.making(), Some(user));
        }
        for above in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            match mkdirat(&self.place, above, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST | Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.open_within_as_user(path)
    }

    fn open_within_as_user(&self, path: &Path) -> io::Result<Self> {
        let place = open_folder(self.place.as_fd(), path.as_os_str(), OFlags::empty())?;
        Ok(Self { place, user: None })
    }

    /// The way to something below the folder.
    fn way(&self, path: &Path, user: u32) -> io::Result<PathWalk> {
        Ok(PathWalk::within(
            self.place.try_clone()?,
            path,
            Trust::User(user),
        ))
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

    /// The first `limit` bytes of a file in the folder or in one below it; `None` where there is none.
    ///
    /// # Errors
    /// The file can't be read, is no regular file, or is not one that root takes.
    pub fn read(&self, path: impl AsRef<Path>, limit: u64) -> io::Result<Option<Content>> {
        let Some(file) = self.open_file(path)? else {
            return Ok(None);
        };
        let written = file.metadata()?.modified()?;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(Some(Content { bytes, written }))
    }

    /// Opens a file in the folder or in one below it, to be read or locked; `None` where there is none.
    ///
    /// # Errors
    /// The file can't be opened, is no regular file, or is not one that root takes.
    pub fn open_file(&self, path: impl AsRef<Path>) -> io::Result<Option<File>> {
        let path = path.as_ref();
        let opened = match self.user {
            Some(user) => self.find(path, user),
            None => open_file(self.place.as_fd(), path.as_os_str(), OFlags::empty())
                .map_err(io::Error::from),
        };
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => File::from(opened?),
        };
        if !file.metadata()?.is_file() {
            let text = format!("`{}` is no file", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(Some(file))
    }

    /// A file of root's or this user's. One of root's with a second name in a folder of the user's is one that the user
    /// may have given the name.
    fn find(&self, path: &Path, user: u32) -> io::Result<OwnedFd> {
        let found = self.way(path, user)?.open(open_file)?;
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
    ///
    /// # Errors
    /// The file can't be written, or something that is no file has one of the names.
    pub fn write(&self, new: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.remove(new)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.place, new, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(file);
        file.write_all(bytes)?;
        file.sync_all()?;
        self.rename(new, name)
    }

    /// Has the kernel put the names in the folder on the disk: what was written has its name after the machine fails.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        File::from(openat(&self.place, ".", flags, Mode::empty())?).sync_all()
    }

    /// Opens a file to be locked and written to, and makes it if it is missing, for its owner only. No link is followed to
    /// it, and root takes none that has a second name in a folder of another user's.
    ///
    /// # Errors
    /// The file can't be made or opened, or is not one that root takes.
    pub fn open_lock(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = openat(&self.place, name, flags, Mode::RUSR | Mode::WUSR)?;
        let owner = fstat(&self.place)?.st_uid;
        if self.user.is_some() && owner != ROOT && fstat(&file)?.st_nlink > 1 {
            let what = format!("has a second name, in a folder of user {owner}");
            return Err(refused(name.as_ref(), &what));
        }
        Ok(file.into())
    }

    /// The names in the folder, in no order.
    ///
    /// # Errors
    /// The folder can't be listed.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut names = Vec::new();
        for entry in Dir::new(openat(&self.place, ".", flags, Mode::empty())?)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Gives a file, or a link, another name in the folder.
    ///
    /// # Errors
    /// The system's.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.place, from, &self.place, to)?)
    }

    /// Removes a file, or a link; returns false if there was none.
    ///
    /// # Errors
    /// The system's, or it is a folder.
    pub fn remove(&self, name: impl AsRef<Path>) -> io::Result<bool> {
        self.unlink(name.as_ref(), AtFlags::empty())
    }

    /// Removes a folder with what is in it, or a link. Returns false if there was none.
    ///
    /// # Errors
    /// The system's, or there are too many folders within each other.
    pub fn remove_folder(&self, name: impl AsRef<Path>) -> io::Result<bool> {
        self.remove_levels(name.as_ref(), MAX_LEVELS)
    }

    fn remove_levels(&self, name: &Path, levels: u32) -> io::Result<bool> {
        let place = match open_folder(self.place.as_fd(), name.as_os_str(), OFlags::NOFOLLOW) {
            Ok(place) => place,
            Err(Errno::NOENT) => return Ok(false),
            // A link is removed, and nothing to which it leads.
            Err(Errno::LOOP | Errno::NOTDIR) => return self.remove(name),
            Err(error) => return Err(error.into()),
        };
        let below = levels.checked_sub(1).ok_or(Errno::NOTEMPTY)?;
        let user = self.user;
        let folder = Self { place, user };
        for name in folder.names()? {
            folder.remove_levels(name.as_ref(), below)?;
        }
        self.unlink(name, AtFlags::REMOVEDIR)
    }

    fn unlink(&self, name: &Path, flags: AtFlags) -> io::Result<bool> {
        match unlinkat(&self.place, name, flags) {
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
    fn folders_below_are_made_listed_and_removed_with_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let folder = OpenFolder::make(&dir.path().join("a"), None).unwrap();
        let below = folder.make_within(Path::new("b/c")).unwrap();
        let mode = |path: &str| fs::metadata(dir.path().join(path)).unwrap().mode() & 0o777;
        assert_eq!(
            (mode("a"), mode("a/b"), mode("a/b/c")),
            (0o700, 0o700, 0o700)
        );
        for text in ["one", "two"] {
            below.write("new", "file", text.as_bytes()).unwrap();
            below.sync().unwrap();
            let content = folder.read("b/c/file", 100).unwrap().unwrap();
            assert_eq!(content.bytes, text.as_bytes());
        }
        assert_eq!(mode("a/b/c/file"), 0o600);
        assert_eq!(below.names().unwrap(), ["file"]);
        symlink(dir.path(), dir.path().join("a/b/link")).unwrap();
        fs::create_dir_all(dir.path().join("a/b/c/d/e")).unwrap();
        let above = folder.open_within(Path::new("b")).unwrap();
        for name in ["c", "link"] {
            assert!(above.remove_folder(name).unwrap(), "{name}");
            assert!(!above.remove_folder(name).unwrap(), "{name}");
        }
        assert!(above.names().unwrap().is_empty() && dir.path().exists());
    }

    #[test]
    fn a_lock_is_no_link_and_has_no_second_name_that_another_gave_it() {
        let Some(dir) = folders() else { return };
        let state = OpenFolder::open(&dir.path().join("state"), None).unwrap();
        let (lock, secret) = (
            dir.path().join("state/lock"),
            dir.path().join("victim/secret"),
        );
        assert_eq!(
            state.open_lock("lock").unwrap().metadata().unwrap().mode() & 0o777,
            0o600
        );
        for user in [ROOT, USER] {
            link(&secret, &lock, user);
            assert!(state.open_lock("lock").is_err(), "a link of user {user}");
        }
        fs::remove_file(&lock).unwrap();
        fs::hard_link(&secret, &lock).unwrap();
        let refused = state.open_lock("lock").unwrap_err().to_string();
        assert!(refused.contains("`lock` has a second name"), "{refused}");
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
