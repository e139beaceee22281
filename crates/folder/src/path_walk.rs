//! Paths on which root follows no link that another user has put there.

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Uid, chownat, fstat, fstatfs, mkdirat,
    openat, readlinkat,
};
use rustix::io::Errno;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// The most symbolic links on the way to a file, as of the kernel (path_resolution(7)).
const MAX_LINKS: u32 = 40;

const ROOT: u32 = 0;

/// Users whose links root follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Root alone.
    Root,
    /// Root and this user, whose links have to lead to what is that user's as well: root does there what the user could
    /// do without it.
    User(u32),
    /// Root and any user, for links that lead to what is that user's as well.
    Owner,
}

/// Opens the last part of a path, a name in a folder, with these flags added.
pub type OpenLast = fn(BorrowedFd<'_>, &OsStr, OFlags) -> rustix::io::Result<OwnedFd>;

/// The way to a file or folder, each folder on it held open: what is put in its place meanwhile is not looked at.
#[derive(Debug)]
pub struct PathWalk {
    folder: OwnedFd,
    /// The rest of the way.
    path: PathBuf,
    trust: Trust,
    links: u32,
    /// The user other than root whose link was followed.
    by: Option<u32>,
    /// True if missing folders are made.
    makes: bool,
}

/// The end of the way.
#[derive(Debug)]
pub struct Found {
    /// The file or folder, opened.
    pub file: OwnedFd,
    /// The folder that it is in.
    pub folder: OwnedFd,
    /// The name of the file in that folder.
    pub name: OsString,
}

impl PathWalk {
    /// A way that begins in the working folder, or at the root.
    ///
    /// # Errors
    /// The working folder can't be opened.
    pub fn new(path: &Path, trust: Trust) -> io::Result<Self> {
        let folder = open_folder(CWD, ".".as_ref(), OFlags::NOFOLLOW)?;
        Ok(Self::within(folder, path, trust))
    }

    /// A way that begins in a folder.
    #[must_use]
    pub fn within(folder: OwnedFd, path: &Path, trust: Trust) -> Self {
        Self {
            folder,
            path: path.to_owned(),
            trust,
            links: 0,
            by: None,
            makes: false,
        }
    }

    /// Makes folders that are missing (mode 700), as the user's by whose link they are reached, if it was not root's.
    #[must_use]
    pub fn making(self) -> Self {
        Self {
            makes: true,
            ..self
        }
    }

    /// Goes to the end, which `open_last` opens.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::PermissionDenied`] with the reason if root does not follow a link on the way.
    pub fn open(mut self, open_last: OpenLast) -> io::Result<Found> {
        loop {
            let path = std::mem::take(&mut self.path);
            let mut names = path.components();
            let name = names.next().ok_or(Errno::NOENT)?.as_os_str();
            let rest = names.as_path();
            let is_last = rest.as_os_str().is_empty();
            let open = if is_last { open_last } else { open_folder };
            let opened = match open(self.folder.as_fd(), name, OFlags::NOFOLLOW) {
                Err(Errno::LOOP | Errno::NOTDIR) => match self.target(name)? {
                    Some(target) => {
                        self.path = target.join(rest);
                        continue;
                    }
                    None => open(self.folder.as_fd(), name, OFlags::empty())?,
                },
                Err(Errno::NOENT) if self.makes => {
                    self.check_owner(&self.folder, name)?;
                    make_folder(&self.folder, name, self.by)?
                }
                opened => {
                    let opened = opened?;
                    if is_last {
                        self.check_owner(&opened, name)?;
                    }
                    opened
                }
            };
            if is_last {
                let (folder, name) = (self.folder, name.to_owned());
                return Ok(Found {
                    file: opened,
                    folder,
                    name,
                });
            }
            self.folder = opened;
            self.path = rest.to_owned();
        }
    }

    /// The target of a link that root follows; `None`: the kernel alone knows it, as of `/proc/self/fd/1`.
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
        let user = stat.st_uid;
        if user != ROOT {
            let is_trusted = match self.trust {
                Trust::Root => false,
                Trust::User(trusted) => user == trusted,
                Trust::Owner => true,
            };
            if !is_trusted || self.by.is_some_and(|by| by != user) {
                return Err(refused(name, &format!("is a link of user {user}")));
            }
            self.by = Some(user);
        }
        if fstatfs(&link)?.f_type == PROC_SUPER_MAGIC {
            return Ok(None);
        }
        // Of the link that was looked at, and not of one that has its name by now.
        let target = readlinkat(&link, "", Vec::new())?;
        Ok(Some(OsStr::from_bytes(target.as_bytes()).into()))
    }

    /// Refuses what is not the user's by whose link it is reached.
    fn check_owner(&self, opened: &OwnedFd, name: &OsStr) -> io::Result<()> {
        match self.by {
            Some(by) if by != fstat(opened)?.st_uid => {
                let what = format!("is not of user {by}, by whose link it is reached");
                Err(refused(name, &what))
            }
            _ => Ok(()),
        }
    }
}

/// The reason for which root does not use a file.
#[derive(Debug)]
struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Refused {}

/// The error of root that does not use what has this name, because of `what` it is.
#[must_use]
pub fn refused(name: &OsStr, what: &str) -> io::Error {
    let name = Path::new(name).display();
    let text = format!("`{name}` {what}, which root does not follow");
    io::Error::new(io::ErrorKind::PermissionDenied, Refused(text))
}

/// Opens the place of a folder.
pub(crate) fn open_folder(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

/// Makes a folder for its owner only, unless it is there by now, and opens its place. `by`: the owner, if not root.
fn make_folder(folder: &OwnedFd, name: &OsStr, by: Option<u32>) -> rustix::io::Result<OwnedFd> {
    let is_new = match mkdirat(folder, name, Mode::RWXU) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error),
    };
    let place = open_folder(folder.as_fd(), name, OFlags::NOFOLLOW)?;
    if let Some(by) = by.filter(|_| is_new) {
        let by = Some(Uid::from_raw(by));
        chownat(&place, "", by, None, AtFlags::EMPTY_PATH)?;
    }
    Ok(place)
}
