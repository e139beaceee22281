//! The folder that keeps accounts, certificates and what is under way over restarts: for its owner alone, for one process at
//! a time, each file whole or not there.
//!
//! ```text
//! FOLDER/lock                                   held while a process orders certificates
//! FOLDER/AUTHORITY/account.json                 the account and its key
//! FOLDER/AUTHORITY/contact.json                 the address for mail that the authority was told last
//! FOLDER/AUTHORITY/certificates/NAME/certificate.pem    chain and key
//! FOLDER/AUTHORITY/certificates/NAME/order.json         an order that is not decided, and the key of its certificate
//! FOLDER/AUTHORITY/certificates/NAME/state.json         failures, when to try again, and the latest use of a name on demand
//! ```

use crate::{Error, SavedState};
use rustix::fs::{CWD, Mode, OFlags, Stat, fstat, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The most bytes of a file that are read.
const MAX_FILE: u64 = 1 << 20;

/// The folder of one authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    root: PathBuf,
    authority: PathBuf,
}

/// The right to order certificates in a folder. Ends when it is dropped, or with the process.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Folder {
    /// The folder of the authority with that directory. Opens nothing.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>, directory: &str) -> Self {
        let root = root.into();
        let url = directory.trim_start_matches("https://");
        let authority = root.join(plain(url.trim_end_matches('/')));
        Self { root, authority }
    }

    /// The file of a name's certificate, its chain and its key in PEM; it need not be there.
    #[must_use]
    pub fn certificate(&self, name: &str) -> PathBuf {
        self.of_name(name).join("certificate.pem")
    }

    /// The names that came at run time and have a certificate, in alphabetical order. Reads a file for each name; a name
    /// of which that can't be read counts as one of them.
    ///
    /// # Errors
    /// The folder is there and can't be listed.
    pub fn names_on_demand(&self) -> Result<Vec<String>, Error> {
        let mut names = self.names()?;
        names.retain(|name| {
            let is_on_demand = |text: Option<String>| parsed(text).is_some_and(|it| it.used_at > 0);
            let may_be_there = self.certificate(name).try_exists().unwrap_or(true);
            may_be_there && read(&self.state(name)).map_or(true, is_on_demand)
        });
        Ok(names)
    }

    /// The names that came at run time, with those whose orders were not decided, in alphabetical order.
    pub(crate) fn known_on_demand(&self) -> Vec<String> {
        let is_on_demand = |name: &String| self.saved_state(name).is_some_and(|it| it.used_at > 0);
        let mut names = self.names().unwrap_or_else(|error| {
            tracing::warn!("{error}: certificates on demand are not renewed");
            Vec::new()
        });
        names.retain(is_on_demand);
        names
    }

    /// The names that have a folder, in alphabetical order.
    fn names(&self) -> Result<Vec<String>, Error> {
        let folder = self.authority.join("certificates");
        let listed = || {
            let names = fs::read_dir(&folder)?.map(|entry| Ok(entry?.file_name().into_string()));
            names.collect::<io::Result<Vec<_>>>()
        };
        let listed = match listed() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            listed => listed.map_err(failed("list", &folder))?,
        };
        let mut names: Vec<_> = listed.into_iter().filter_map(Result::ok).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Reads the memory of a name, if any was kept.
    pub(crate) fn saved_state(&self, name: &str) -> Option<SavedState> {
        parsed(read(&self.state(name)).ok().flatten())
    }

    /// The folder that holds those of all authorities.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Deletes all that the folder has of a name.
    pub(crate) fn forget(&self, name: &str) {
        let folder = self.of_name(name);
        if let Err(error) = fs::remove_dir_all(&folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("cannot remove `{}`: {error}", folder.display());
        }
    }

    /// Takes the folder for this process, and makes it if it is missing.
    ///
    /// # Errors
    /// The folder can't be made or written to, or another process has it ([`Error::InUse`]).
    pub fn lock(&self) -> Result<Lock, Error> {
        make(&self.root)?;
        let path = self.root.join("lock");
        let mut file = open_lock(&self.root).map_err(failed("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.take(16).read_to_string(&mut text);
                return Err(Error::InUse {
                    folder: self.root.clone(),
                    holder: text.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed("lock", &path)(source)),
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(failed("write", &path))?;
        Ok(Lock { _file: file })
    }

    pub(crate) fn account(&self) -> PathBuf {
        self.authority.join("account.json")
    }

    pub(crate) fn contact(&self) -> PathBuf {
        self.authority.join("contact.json")
    }

    pub(crate) fn order(&self, name: &str) -> PathBuf {
        self.of_name(name).join("order.json")
    }

    pub(crate) fn state(&self, name: &str) -> PathBuf {
        self.of_name(name).join("state.json")
    }

    fn of_name(&self, name: &str) -> PathBuf {
        self.authority.join("certificates").join(plain(name))
    }
}

/// The memory of a name, by the content of its file.
fn parsed(text: Option<String>) -> Option<SavedState> {
    serde_json::from_str(&text?).ok()
}

/// A text as the name of a file.
fn plain(text: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    let name = text.chars().map(|it| if is_plain(it) { it } else { '-' });
    let name: String = name.collect();
    match name.strip_prefix('.') {
        Some(rest) => format!("-{rest}"),
        None => name,
    }
}

fn make(folder: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(failed("create", folder))
}

/// Opens the lock of a folder. Root may be who starts the process, and the folder, or that above, another user's: it
/// follows no link of that user's to the folder, none to the lock, and takes no file that has a second name there.
fn open_lock(root: &Path) -> io::Result<File> {
    let is_others = |stat: &Stat| geteuid().is_root() && stat.st_uid != 0;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = match openat(CWD, root, flags | OFlags::NOFOLLOW, Mode::empty()) {
        Err(Errno::LOOP | Errno::NOTDIR) => {
            let of_link = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let link = openat(CWD, root, of_link, Mode::empty())?;
            if is_others(&fstat(&link)?) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            // Of the link that was looked at, and not of one that has its name by now.
            let target = readlinkat(&link, "", Vec::new())?;
            let above = root.parent().unwrap_or(Path::new("."));
            let target = above.join(OsStr::from_bytes(target.as_bytes()));
            openat(CWD, target, flags, Mode::empty())?
        }
        opened => opened?,
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&folder, "lock", flags, Mode::RUSR | Mode::WUSR)?;
    match fstat(&file)?.st_nlink > 1 && is_others(&fstat(&folder)?) {
        true => Err(io::ErrorKind::PermissionDenied.into()),
        false => Ok(file.into()),
    }
}

/// The content of a file; `None`: there is none.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => file.take(MAX_FILE).read_to_string(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(text))
}

/// Writes a file for its owner alone, whole or not at all, whatever ends the process or the machine.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("."));
    make(folder)?;
    let write = || {
        // Mode 600 by default.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|failed| failed.error)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(failed("write", path))
}

/// Takes a file away, if it is there.
pub(crate) fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("cannot remove `{}`: {error}", path.display());
        }
        _ => {}
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Folder {
        action,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const DIRECTORY: &str = "https://acme.example:14000/dir";

    #[test]
    fn each_authority_has_a_folder_and_no_name_leaves_it() {
        let folder = Folder::new("/state", DIRECTORY);
        let path = folder.certificate("a.example");
        let expected = "/state/acme.example-14000-dir/certificates/a.example/certificate.pem";
        assert_eq!(path, Path::new(expected));
        let path = folder.certificate("../../x");
        let expected = "/state/acme.example-14000-dir/certificates/-.-..-x/certificate.pem";
        assert_eq!(path, Path::new(expected));
        let staging = Folder::new("/state", "https://acme.example:14000/other");
        assert_ne!(staging.account(), folder.account());
    }

    #[test]
    fn names_on_demand_are_found_again_with_their_certificates_alone() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), DIRECTORY);
        let names_on_demand = || folder.names_on_demand().unwrap();
        assert_eq!(names_on_demand(), [""; 0]);
        for (name, used_at, has_certificate) in [
            ("b.example", 5, true),
            ("a.example", 5, true),
            ("ordered.example", 5, false),
            ("mine.example", 0, true),
        ] {
            let saved_state = SavedState {
                used_at,
                ..SavedState::default()
            };
            let text = serde_json::to_string(&saved_state).unwrap();
            write(&folder.state(name), &text).unwrap();
            if has_certificate {
                write(&folder.certificate(name), "pem").unwrap();
            }
        }
        assert_eq!(names_on_demand(), ["a.example", "b.example"]);
        // A folder can't be read as a file, whoever reads it.
        fs::remove_file(folder.state("a.example")).unwrap();
        fs::create_dir(folder.state("a.example")).unwrap();
        assert_eq!(names_on_demand(), ["a.example", "b.example"]);
        folder.forget("a.example");
        folder.forget("a.example");
        assert_eq!(names_on_demand(), ["b.example"]);
        let all = dir.path().join("acme.example-14000-dir/certificates");
        fs::remove_dir_all(&all).unwrap();
        fs::write(&all, "no folder").unwrap();
        assert!(folder.names_on_demand().is_err());
    }

    #[test]
    fn root_locks_nothing_that_another_users_link_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("victim")).unwrap();
        std::os::unix::fs::symlink("victim", at("own")).unwrap();
        let folder = Folder::new(at("own"), DIRECTORY);
        drop(folder.lock().unwrap());
        let text = fs::read_to_string(at("victim/lock")).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
        if !geteuid().is_root() {
            eprintln!("SKIPPED: root alone gives links away");
            return;
        }
        fs::remove_file(at("victim/lock")).unwrap();
        std::os::unix::fs::lchown(at("own"), Some(7), Some(7)).unwrap();
        assert!(matches!(folder.lock(), Err(Error::Folder { .. })));
        assert!(!at("victim/lock").exists());
        let folder = Folder::new(at("state"), DIRECTORY);
        fs::create_dir(at("state")).unwrap();
        fs::write(at("victim/secret"), "precious").unwrap();
        fs::hard_link(at("victim/secret"), at("state/lock")).unwrap();
        std::os::unix::fs::chown(at("state"), Some(7), Some(7)).unwrap();
        assert!(matches!(folder.lock(), Err(Error::Folder { .. })));
        let text = fs::read_to_string(at("victim/secret")).unwrap();
        assert_eq!(text, "precious");
    }

    #[test]
    fn a_folder_is_for_one_holder_and_its_files_for_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path().join("acme"), DIRECTORY);
        let lock = folder.lock().unwrap();
        let refused = folder.lock().unwrap_err();
        let own = std::process::id();
        assert!(matches!(refused, Error::InUse { holder: Some(it), .. } if it == own));
        drop(lock);
        let _lock = folder.lock().unwrap();
        let (victim, lock) = (dir.path().join("victim"), dir.path().join("acme/lock"));
        fs::write(&victim, "precious").unwrap();
        fs::remove_file(&lock).unwrap();
        std::os::unix::fs::symlink(&victim, &lock).unwrap();
        assert!(matches!(folder.lock(), Err(Error::Folder { .. })), "a link");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        fs::remove_file(&lock).unwrap();
        let _lock = folder.lock().unwrap();
        let path = folder.certificate("a.example");
        for text in ["one", "two"] {
            write(&path, text).unwrap();
            assert_eq!(read(&path).unwrap().as_deref(), Some(text));
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(mode(&dir.path().join("acme/lock")), 0o600);
        remove(&path);
        remove(&path);
        assert_eq!(read(&path).unwrap(), None);
        let entries = fs::read_dir(path.parent().unwrap()).unwrap();
        assert_eq!(entries.count(), 0, "nothing half written is left");
    }
}
