//! Opens files beneath one directory, and nothing else.

use super::coding::ContentCoding;
use super::shared::{OpenFile, OpenFiles};
use super::variants::Variants;
use crate::Error;
use crate::throttle::Throttle;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt, ReadDir};
use http::StatusCode;
use rustix::fs::{Access, AtFlags, accessat};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Lines about files that can't be read: clients ask for them as often as they like.
static FAILURES: Throttle = Throttle::new();

/// The served directory.
#[derive(Debug)]
pub(crate) struct Root {
    dir: Dir,
    /// Device and inode.
    identity: (u64, u64),
    open: OpenFiles,
}

/// A regular file beneath the root.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub(crate) file: Arc<OpenFile>,
    /// Relative to the root; for the content type. Of a compressed form that of its source.
    pub(crate) name: PathBuf,
    /// The coding in which the file is compressed.
    pub(super) coding: Option<ContentCoding>,
    /// The compressed forms that the file has beside itself.
    pub(super) variants: Variants,
}

impl OpenedFile {
    /// Length in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.file.size()
    }

    pub(crate) fn modified(&self) -> SystemTime {
        self.file.modified()
    }
}

/// Reasons for which there is no file to answer with.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The file has another path: with a slash for a directory, without an ending for a page.
    Redirect(Elsewhere),
    /// The path is that of a folder without an index, and the folder is to be listed.
    Folder(PathBuf),
    /// The file is not there, or is none that this server gives out.
    NotFound,
    /// One of the path's names begins with a dot, and such names are treated as missing.
    Hidden,
    /// Another status answers the request.
    Status(StatusCode),
}

/// The other path of a file that a client has asked for.
#[derive(Debug, Clone)]
pub(crate) struct Elsewhere {
    /// Path and query beneath the root.
    pub(super) path: String,
    /// The same from the folder of the path that was asked for (RFC 3986 section 4.2): a router may have cut off the beginning
    /// of what the client asked for.
    pub(super) relative: String,
}

/// A file or a directory that has a name.
pub(crate) enum FoundEntry {
    File(OpenedFile),
    Directory,
}

impl Root {
    /// # Errors
    /// `path` is missing, closed to us, or no directory.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let dir = Dir::open_ambient_dir(path, ambient_authority());
        let dir = dir.map_err(|source| match source.kind() {
            io::ErrorKind::NotADirectory => Error::RootNotDirectory { path: path.into() },
            _ => Error::Root {
                path: path.into(),
                source,
            },
        })?;
        let failed = |source| Error::Root {
            path: path.into(),
            source,
        };
        let metadata = dir.dir_metadata().map_err(failed)?;
        // One that can't be entered is opened all the same, and would have every request refused.
        accessat(&dir, ".", Access::EXEC_OK, AtFlags::empty()).map_err(|it| failed(it.into()))?;
        Ok(Self {
            identity: (metadata.dev(), metadata.ino()),
            dir,
            open: OpenFiles::default(),
        })
    }

    /// Returns true if `path` still leads to this directory.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        let found = std::fs::metadata(path);
        found.is_ok_and(|found| {
            use std::os::unix::fs::MetadataExt;
            (found.dev(), found.ino()) == self.identity
        })
    }

    pub(super) fn is_same_folder(&self, other: &Self) -> bool {
        self.identity == other.identity
    }

    /// Opens a regular file.
    pub(crate) fn open_file(&self, name: &Path) -> Result<OpenedFile, Refusal> {
        match self.open_any(name)? {
            FoundEntry::File(opened) => Ok(opened),
            FoundEntry::Directory => Err(Refusal::NotFound),
        }
    }

    /// Pipes, sockets and devices count as not there. Opened without blocking, so that a pipe
    /// without a writer can't hold the worker up.
    pub(crate) fn open_any(&self, name: &Path) -> Result<FoundEntry, Refusal> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = self.dir.open_with(name, &options);
        let file = file.map_err(|error| refusal(&error, name))?.into_std();
        let metadata = file.metadata().map_err(|error| refusal(&error, name))?;
        if metadata.is_dir() {
            return Ok(FoundEntry::Directory);
        }
        if !metadata.is_file() {
            return Err(Refusal::NotFound);
        }
        Ok(FoundEntry::File(OpenedFile {
            file: self.open.share(file, &metadata),
            name: name.into(),
            coding: None,
            variants: Variants::default(),
        }))
    }

    /// Returns the time of a regular file's last change; `None` where there is none.
    pub(super) fn modified(&self, name: &Path) -> Option<SystemTime> {
        let metadata = self.metadata(name).filter(Metadata::is_file)?;
        let modified = metadata.modified();
        Some(modified.map_or(SystemTime::UNIX_EPOCH, cap_std::time::SystemTime::into_std))
    }

    /// Returns the metadata of the file that has a name, links resolved.
    pub(super) fn metadata(&self, name: &Path) -> Option<Metadata> {
        self.dir.metadata(here(name)).ok()
    }

    /// Returns the entries of a folder; `None` where it can't be read.
    pub(super) fn entries(&self, folder: &Path) -> Option<ReadDir> {
        self.dir.read_dir(here(folder)).ok()
    }
}

/// A name for the system: no name is the root itself.
fn here(name: &Path) -> &Path {
    match name.as_os_str().is_empty() {
        true => Path::new("."),
        false => name,
    }
}

fn refusal(error: &io::Error, name: &Path) -> Refusal {
    use rustix::io::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    match errno {
        Some(Errno::ACCESS | Errno::PERM) => Refusal::Status(StatusCode::FORBIDDEN),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => {
            Refusal::Status(StatusCode::SERVICE_UNAVAILABLE)
        }
        Some(Errno::IO) => {
            if let Some(suppressed) = FAILURES.admit(Instant::now()) {
                tracing::error!(?name, %error, suppressed, "cannot read a file");
            }
            Refusal::Status(StatusCode::INTERNAL_SERVER_ERROR)
        }
        // Missing, a name too long, a loop of links, a file where a directory should be, a socket;
        // and without a number: a link that leads out of the root.
        _ => Refusal::NotFound,
    }
}
