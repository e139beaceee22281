//! The opening of files that a server appends to, as root, before it goes on as another user.

use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, openat, readlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// The most symbolic links on the way to a file, as of the kernel (path_resolution(7)).
const MAX_LINKS: u32 = 40;

const ROOT: u32 = 0;

/// Opens a file to append to. A missing file is made, readable by its owner only (mode 600).
///
/// Root follows no symbolic link of another user's, nor appends to a file that has a second name in a folder of another
/// user's: whoever has a log's folder could have root append to any file, or make one anywhere.
///
/// # Errors
/// The file can't be made or opened, or a link leads to it that root does not follow.
pub fn open_log(path: &Path) -> io::Result<File> {
    if geteuid().is_root() {
        return Walk::new(path)?.open();
    }
    File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

/// The way to a file, each folder on it held open: what is put in its place meanwhile is not looked at.
struct Walk {
    folder: OwnedFd,
    /// The rest of the way.
    path: PathBuf,
    links: u32,
}

impl Walk {
    fn new(path: &Path) -> io::Result<Self> {
        Ok(Self {
            folder: open_folder(CWD, ".".as_ref(), OFlags::NOFOLLOW)?,
            path: path.to_owned(),
            links: 0,
        })
    }

    fn open(mut self) -> io::Result<File> {
        loop {
            let path = std::mem::take(&mut self.path);
            let mut names = path.components();
            let first = names.next().ok_or(Errno::NOENT)?;
            let (name, rest) = (first.as_os_str(), names.as_path());
            let is_last = rest.as_os_str().is_empty() && first != Component::RootDir;
            let open = if is_last { open_file } else { open_folder };
            let opened = match open(self.folder.as_fd(), name, OFlags::NOFOLLOW) {
                Err(Errno::LOOP | Errno::NOTDIR) => match self.target(name)? {
                    Some(target) => {
                        self.path = target.join(rest);
                        continue;
                    }
                    None => open(self.folder.as_fd(), name, OFlags::empty())?,
                },
                opened => opened?,
            };
            if is_last {
                self.check(&opened, name)?;
                return Ok(File::from(opened));
            }
            self.folder = opened;
            self.path = rest.to_owned();
        }
    }

    /// The target of a link of root's; `None`: the kernel alone knows it, as of `/proc/self/fd/1`.
    fn target(&mut self, name: &OsStr) -> io::Result<Option<PathBuf>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let link = openat(&self.folder, name, flags, Mode::empty())?;
        let stat = fstat(&link)?;
        self.links += 1;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink if self.links > MAX_LINKS => return Err(Errno::LOOP.into()),
            FileType::Symlink => {}
            _ => return Err(Errno::NOTDIR.into()),
        }
        if stat.st_uid != ROOT {
            return Err(refused(name, "is a link of", &stat));
        }
        if fstatfs(&link)?.f_type == PROC_SUPER_MAGIC {
            return Ok(None);
        }
        // Of the link that was looked at, and not of one that has its name by now.
        let target = readlinkat(&link, "", Vec::new())?;
        Ok(Some(OsStr::from_bytes(target.as_bytes()).into()))
    }

    fn check(&self, file: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let (stat, folder) = (fstat(file)?, fstat(&self.folder)?);
        let is_plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        match is_plain && stat.st_nlink > 1 && folder.st_uid != ROOT {
            true => Err(refused(name, "has a second name, in a folder of", &folder)),
            false => Ok(()),
        }
    }
}

fn refused(name: &OsStr, what: &str, of: &Stat) -> io::Error {
    let (name, user) = (Path::new(name).display(), of.st_uid);
    let text = format!("`{name}` {what} user {user}, which root does not follow");
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

fn open_file(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::RUSR | Mode::WUSR)
}

fn open_folder(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    #[test]
    fn root_follows_no_link_of_another_users_to_a_log() {
        if !geteuid().is_root() {
            eprintln!("SKIPPED: root alone gives links away");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("victim")).unwrap();
        fs::create_dir_all(at("logs/sub")).unwrap();
        fs::write(at("victim/cron"), "precious").unwrap();
        let is_refused = |name: &str| {
            let error = open_log(&at(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
            assert_eq!(fs::read_dir(at("victim")).unwrap().count(), 1, "{name}");
        };
        lchown(at("logs"), Some(7), Some(7)).unwrap();
        for (name, target) in [
            ("file", "victim/cron"),
            ("new", "victim/new"),
            ("folder", "victim"),
            ("link", "logs/file"),
        ] {
            let link = at("logs").join(name);
            symlink(at(target), &link).unwrap();
            lchown(&link, Some(7), Some(7)).unwrap();
        }
        for name in ["logs/file", "logs/new", "logs/folder/new", "logs/link"] {
            is_refused(name);
        }
        // Root's own link leads to another's.
        symlink("logs/file", at("own")).unwrap();
        is_refused("own");
        fs::hard_link(at("victim/cron"), at("logs/second")).unwrap();
        is_refused("logs/second");
        assert_eq!(fs::read_to_string(at("victim/cron")).unwrap(), "precious");
    }

    #[test]
    fn a_log_is_found_by_links_of_ones_own_and_through_descriptors() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("there/sub")).unwrap();
        symlink("there/sub", at("folder")).unwrap();
        symlink(at("folder/../log"), at("link")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let append = |path: &Path, text: &str| {
            let mut log = open_log(path).unwrap_or_else(|it| panic!("{}: {it}", path.display()));
            log.write_all(text.as_bytes()).unwrap();
        };
        append(&at("link"), "one ");
        append(&at("there/log"), "two ");
        let log = File::open(at("there/log")).unwrap();
        append(
            Path::new(&format!("/proc/self/fd/{}", log.as_raw_fd())),
            "three",
        );
        let found = fs::read_to_string(at("there/log")).unwrap();
        assert_eq!(found, "one two three");
        let mode = fs::metadata(at("there/log")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for name in ["loop", "there/log/x", "missing/log", "there"] {
            assert!(open_log(&at(name)).is_err(), "{name}");
        }
        let relative = Path::new("Cargo.toml");
        assert!(open_log(relative).is_ok() && relative.is_file());
        assert!(open_log(Path::new("")).is_err() && open_log(Path::new("/")).is_err());
    }
}
