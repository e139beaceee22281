//! The folder into which files are uploaded. A file has no name before it is whole and on the disk: what was begun and
//! not ended, by a client or by the server, leaves nothing behind.
//!
//! Nothing outside of the folder is ever written: its own folders are opened by `cap-std`, which lets no link lead out of
//! it, and everything else is done in one of them by one name.

use super::disk::Disk;
use super::refusal::Refusal;
use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use http::StatusCode;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, fstat, fstatvfs, linkat, openat, renameat, stat, statat, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The beginning of the names that files have for the moment in which they take the place of others. No upload can have such a
/// name, and no `files` shows it.
const TEMPORARY_PREFIX: &str = ".altway-upload-";

/// The age from which a file of such a name was left behind by a server that was killed.
const STALE_FILE_AGE: Duration = Duration::from_secs(60);

/// Tells the names of this process from each other.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A folder that files can't be uploaded into.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UploadFolderError {
    /// The folder is missing or closed to this process.
    #[error("cannot open the folder `{path}` for uploads")]
    Open {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Files can't be written there before they have names.
    #[error("cannot store uploads in `{path}`: a file without a name can't be made there")]
    Unnamed {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// The folder for uploads that a path leads to, which may be another from one upload to the next. An upload ends in the
/// one that it has begun in.
#[derive(Debug)]
pub(crate) struct Folder {
    /// Absolute: the process may change its own folder later.
    path: PathBuf,
    current: Mutex<Arc<Dir>>,
    /// True if the log has it that the path leads to no folder that can be used.
    is_lost: AtomicBool,
    pub(crate) disk: Arc<Disk>,
    min_free: u64,
}

/// The place at which a file is to be stored.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) folder: Arc<Dir>,
    pub(crate) name: String,
    pub(crate) if_taken: IfTaken,
}

/// The fate of an upload whose name another file has, at its beginning or by the time at which it is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfTaken {
    /// The upload takes the place of the other.
    Replaces,
    /// Refusal: nothing is replaced here.
    Refused,
    /// Refusal for the request's `If-None-Match: *`, which forbids to replace what others have stored meanwhile (RFC
    /// 9110 section 13.1.2).
    PreconditionFails,
}

impl Place {
    /// The refusal of a file for which the name is taken.
    fn taken(&self) -> Refusal {
        match self.if_taken {
            IfTaken::PreconditionFails => Refusal::precondition_failed(),
            IfTaken::Replaces | IfTaken::Refused => Refusal::exists(&self.name),
        }
    }
}

/// A file that has no name yet. It is gone with its last handle.
#[derive(Debug)]
pub(crate) struct Unnamed {
    file: Option<Arc<File>>,
    disk: Arc<Disk>,
    min_free: u64,
    /// Bytes of it that are there.
    pub(crate) length: u64,
    /// The length that it will have, where the client has said it.
    pub(crate) declared: Option<u64>,
}

/// A file that has all of its content and waits for its name.
#[derive(Debug)]
pub(crate) struct CompleteFile {
    place: Place,
    file: Arc<File>,
    length: u64,
}

impl CompleteFile {
    pub(crate) fn new(place: Place, unnamed: &Unnamed) -> Self {
        Self {
            place,
            file: unnamed.file(),
            length: unnamed.length,
        }
    }

    /// Takes a name away that was just given, unless another file has replaced this one since.
    fn take_name_back(&self) {
        let Place { folder, name, .. } = &self.place;
        let named = statat(&**folder, &**name, AtFlags::SYMLINK_NOFOLLOW);
        if let (Ok(named), Ok(own)) = (named, fstat(&*self.file))
            && (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)
        {
            // Whatever it says, there is nothing else that could be done.
            let _ = unlinkat(&**folder, &**name, AtFlags::empty());
        }
    }
}

impl Folder {
    /// Opens a folder, tries whether files can be stored in it, and takes away what a server that was killed has left.
    ///
    /// # Errors
    /// They can not.
    pub(crate) fn open(path: &Path, min_free: u64) -> Result<Self, UploadFolderError> {
        Ok(Self {
            path: std::path::absolute(path).unwrap_or_else(|_| path.into()),
            current: Mutex::new(Arc::new(open(path)?)),
            is_lost: AtomicBool::new(false),
            disk: Arc::default(),
            min_free,
        })
    }

    fn current(&self) -> MutexGuard<'_, Arc<Dir>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks which folder the path leads to: a deployment switches links, an operator moves folders. One that is gone, or
    /// that no other can be used in place of, stays in use.
    fn look(&self) -> Arc<Dir> {
        let mut current = self.current();
        if is_at(&current, &self.path) {
            self.is_lost.store(false, Ordering::Relaxed);
            return Arc::clone(&current);
        }
        let path = self.path.display();
        match open(&self.path) {
            Ok(dir) => {
                *current = Arc::new(dir);
                tracing::info!("`{path}`, for uploads, is another folder now");
            }
            Err(error) if !self.is_lost.swap(true, Ordering::Relaxed) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(
                    error = source.unwrap_or_default(),
                    "uploads go on into the folder that was `{path}`: no other can be used there (`altway reload` may say why)"
                );
            }
            Err(_) => {}
        }
        Arc::clone(&current)
    }

    /// A folder below this one, as its path is now. To be called on a thread of the disk, as everything here.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn below(&self, path: &[String]) -> Result<Arc<Dir>, Refusal> {
        let dir = self.look();
        if path.is_empty() {
            return Ok(dir);
        }
        let relative: PathBuf = path.iter().collect();
        let opened = dir.open_dir(&relative);
        opened.map(Arc::new).map_err(|error| {
            let errno = error.raw_os_error().map(Errno::from_raw_os_error);
            if matches!(
                errno,
                Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO)
            ) {
                return Refusal::of_system(&error);
            }
            let detail = "the folder is not there";
            Refusal::new(StatusCode::CONFLICT, detail)
        })
    }

    /// Makes a file that has no name.
    ///
    /// # Errors
    /// There is no space for `length` bytes, or what the system says.
    pub(crate) fn unnamed(&self, folder: &Dir, length: u64) -> Result<Unnamed, Refusal> {
        let file = unnamed(folder).map_err(|error| Refusal::of_system(&error))?;
        let unnamed = Unnamed {
            file: Some(Arc::new(file)),
            disk: Arc::clone(&self.disk),
            min_free: self.min_free,
            length: 0,
            declared: None,
        };
        unnamed.check_space(length)?;
        Ok(unnamed)
    }

    /// Gives files their names once all of them are on the disk: all, or none if one of the names is taken. Returns which
    /// of them have replaced another.
    ///
    /// # Errors
    /// A name is taken, or what the system says.
    pub(crate) fn commit(&self, files: &[CompleteFile]) -> Result<Vec<bool>, Refusal> {
        let of_system = |error: io::Error| Refusal::of_system(&error);
        for CompleteFile { file, length, .. } in files {
            // What was begun to be written may reach further.
            file.set_len(*length).map_err(of_system)?;
            file.sync_all().map_err(of_system)?;
        }
        let mut replaced = Vec::with_capacity(files.len());
        for CompleteFile { place, file, .. } in files {
            match self.give_name(place, file) {
                Ok(has_replaced) => replaced.push(has_replaced),
                Err(refusal) => {
                    for (whole, _) in files.iter().zip(&replaced).filter(|it| !*it.1) {
                        whole.take_name_back();
                    }
                    return Err(refusal);
                }
            }
        }
        for CompleteFile { place, .. } in files {
            sync(&place.folder).map_err(of_system)?;
        }
        Ok(replaced)
    }

    fn give_name(&self, place: &Place, file: &File) -> Result<bool, Refusal> {
        match link(file, &place.folder, &place.name) {
            Ok(()) => Ok(false),
            Err(Errno::EXIST) if place.if_taken == IfTaken::Replaces => {
                self.take_place(place, file)
            }
            Err(Errno::EXIST) => Err(place.taken()),
            Err(error) => Err(Refusal::of_system(&error.into())),
        }
    }

    /// Replaces a file in one step.
    fn take_place(&self, place: &Place, file: &File) -> Result<bool, Refusal> {
        check_replaceable(place)?;
        let of_system = |error: Errno| Refusal::of_system(&error.into());
        // In the folder itself, where it is found if we are killed now; a folder below may be another file system.
        let current = Arc::clone(&self.current());
        let mut own: &Dir = &current;
        let name = loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{TEMPORARY_PREFIX}{}-{number}", std::process::id());
            match link(file, own, &name) {
                Ok(()) => break name,
                Err(Errno::EXIST) => {}
                Err(Errno::XDEV) if !std::ptr::eq(own, &*place.folder) => own = &place.folder,
                Err(error) => return Err(of_system(error)),
            }
        };
        match renameat(own, &*name, &*place.folder, &*place.name) {
            Ok(()) => Ok(true),
            Err(error) => {
                let _ = unlinkat(own, &*name, AtFlags::empty());
                match error {
                    Errno::ISDIR | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST => {
                        Err(Refusal::exists(&place.name))
                    }
                    error => Err(of_system(error)),
                }
            }
        }
    }
}

fn open(path: &Path) -> Result<Dir, UploadFolderError> {
    let opened = Dir::open_ambient_dir(path, ambient_authority()).and_then(|dir| {
        remove_left_behind(&dir)?;
        Ok(dir)
    });
    let dir = opened.map_err(|source| UploadFolderError::Open {
        path: path.into(),
        source,
    })?;
    unnamed(&dir).map_err(|source| UploadFolderError::Unnamed {
        path: path.into(),
        source,
    })?;
    Ok(dir)
}

/// Returns true if the path leads to the folder.
fn is_at(dir: &Dir, path: &Path) -> bool {
    let (Ok(own), Ok(found)) = (fstat(dir), stat(path)) else {
        return false;
    };
    (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino)
}

/// Refuses a name that can't be given.
///
/// # Errors
/// Something is there that is not to be replaced, or is no file.
pub(crate) fn check_free(place: &Place) -> Result<(), Refusal> {
    if place.if_taken == IfTaken::Replaces {
        return check_replaceable(place);
    }
    match is_there(place) {
        true => Err(place.taken()),
        false => Ok(()),
    }
}

/// Returns true if the name is taken.
pub(crate) fn is_there(place: &Place) -> bool {
    place.folder.symlink_metadata(&place.name).is_ok()
}

fn check_replaceable(place: &Place) -> Result<(), Refusal> {
    match place.folder.symlink_metadata(&place.name) {
        Ok(found) if !found.is_file() && !found.is_symlink() => Err(Refusal::exists(&place.name)),
        _ => Ok(()),
    }
}

impl Unnamed {
    fn file(&self) -> Arc<File> {
        Arc::clone(self.file.as_ref().expect("it is taken by `drop` alone"))
    }

    /// Appends to it. What can't be written whole does not count.
    ///
    /// # Errors
    /// There is no space, or what the system says.
    pub(crate) fn append(&mut self, pieces: &[Bytes]) -> Result<(), Refusal> {
        self.check_space(0)?;
        let file = self.file();
        for piece in pieces {
            let written = file.write_all_at(piece, self.length);
            written.map_err(|error| Refusal::of_system(&error))?;
            self.length += piece.len() as u64;
        }
        Ok(())
    }

    /// # Errors
    /// `more` bytes would take of the space that is left free.
    pub(crate) fn check_space(&self, more: u64) -> Result<(), Refusal> {
        let space = fstatvfs(&*self.file()).map_err(|error| Refusal::of_system(&error.into()))?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        match free < self.min_free.saturating_add(more) {
            true => Err(Refusal::no_space()),
            false => Ok(()),
        }
    }
}

/// Closes a file, which takes the system a while if it is large.
impl Drop for Unnamed {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            self.disk.do_later(move || drop(file));
        }
    }
}

fn unnamed(folder: &Dir) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    // Less what the process's umask takes away.
    let mode = Mode::from_raw_mode(0o666);
    Ok(File::from(openat(folder, ".", flags, mode)?))
}

/// Gives a file without a name one that nothing has.
fn link(file: &File, folder: &Dir, name: &str) -> Result<(), Errno> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    match linkat(CWD, own, folder, name, AtFlags::SYMLINK_FOLLOW) {
        // There is no /proc: the other way needs a capability, or a kernel of 2024.
        Err(Errno::NOENT) => linkat(file, "", folder, name, AtFlags::EMPTY_PATH),
        done => done,
    }
}

/// Brings the names in a folder to the disk.
fn sync(folder: &Dir) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    File::from(openat(folder, ".", flags, Mode::empty())?).sync_all()
}

fn remove_left_behind(dir: &Dir) -> io::Result<()> {
    for entry in dir.entries()? {
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        let is_ours = name
            .to_str()
            .is_some_and(|it| it.starts_with(TEMPORARY_PREFIX));
        let Some(metadata) = is_ours.then(|| entry.metadata().ok()).flatten() else {
            continue;
        };
        let changed = metadata.modified().map(cap_std::time::SystemTime::into_std);
        let age = changed.ok().and_then(|it| it.elapsed().ok());
        if metadata.is_file() && age.is_some_and(|age| age > STALE_FILE_AGE) {
            entry.remove_file()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_folder_that_is_replaced_is_used_from_the_next_upload_on() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("in")).unwrap();
        let folder = Folder::open(&at("in"), 0).unwrap();
        let store = |dir: &Arc<Dir>, name: &str| {
            let place = Place {
                folder: Arc::clone(dir),
                name: name.into(),
                if_taken: IfTaken::Replaces,
            };
            let file = folder.unnamed(dir, 0).unwrap();
            folder.commit(&[CompleteFile::new(place, &file)]).unwrap();
        };
        let begun = folder.below(&[]).unwrap();
        store(&begun, "one");
        fs::rename(at("in"), at("former")).unwrap();
        store(&folder.below(&[]).unwrap(), "while none is there");
        assert!(at("former/while none is there").exists());
        fs::create_dir_all(at("in/sub")).unwrap();
        store(&folder.below(&[]).unwrap(), "two");
        store(&folder.below(&["sub".into()]).unwrap(), "three");
        assert!(at("in/two").exists() && at("in/sub/three").exists());
        // Both by a name that is free and by one that is taken.
        store(&begun, "begun before");
        store(&begun, "one");
        assert!(at("former/begun before").exists());
        assert_eq!(fs::read_dir(at("in")).unwrap().count(), 2);
        assert_eq!(fs::read_dir(at("former")).unwrap().count(), 3);
        // As deployments switch a link.
        fs::rename(at("in"), at("2")).unwrap();
        symlink("2", at("in")).unwrap();
        store(&folder.below(&[]).unwrap(), "four");
        assert!(at("2/four").exists());
    }
}
