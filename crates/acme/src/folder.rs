//! The folder that keeps accounts, certificates and what is under way over restarts: for its owner alone, for one process at
//! a time, each file whole or not there. Root takes nothing in it that another user than the folder's has put there.
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
use altway_folder::OpenFolder;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

/// The most bytes of a file that are read.
const MAX_FILE: u64 = 1 << 20;

const ACCOUNT: &str = "account.json";

/// The name of a file before it is whole.
const NEW: &str = "new";

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

    /// Reads the file of a name's certificate, its chain and its key in PEM; `None`: there is none.
    ///
    /// Root reads none to which a link leads that root does not follow: one of another user than the folder's, or to what
    /// is not that user's.
    ///
    /// # Errors
    /// The file is there and can't be read.
    pub fn read_certificate(&self, name: &str) -> io::Result<Option<String>> {
        self.read(&self.certificate(name))
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
            may_be_there && self.read(&self.state(name)).map_or(true, is_on_demand)
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
        let listed = match self.open(&folder).and_then(|it| it.names()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            listed => listed.map_err(failed("list", &folder))?,
        };
        let listed = listed.into_iter().map(OsString::into_string);
        let mut names: Vec<_> = listed.filter_map(Result::ok).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Reads the memory of a name, if any was kept.
    pub(crate) fn saved_state(&self, name: &str) -> Option<SavedState> {
        parsed(self.read(&self.state(name)).ok().flatten())
    }

    /// The folder that holds those of all authorities.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Deletes all that the folder has of a name.
    pub(crate) fn forget(&self, name: &str) {
        self.remove_by(&self.of_name(name), |folder, name| {
            folder.remove_folder(name)
        });
    }

    /// Takes the folder for this process, and makes it if it is missing.
    ///
    /// # Errors
    /// The folder can't be made or written to, or another process has it ([`Error::InUse`]).
    pub fn lock(&self) -> Result<Lock, Error> {
        let folder = OpenFolder::make(&self.root, None).map_err(failed("create", &self.root))?;
        let path = self.root.join("lock");
        let mut file = folder.open_lock("lock").map_err(failed("open", &path))?;
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
        self.authority.join(ACCOUNT)
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

    /// The content of a file; `None`: there is none.
    ///
    /// # Errors
    /// The file is there and can't be read, or is none that root takes.
    pub(crate) fn read(&self, path: &Path) -> io::Result<Option<String>> {
        let read = OpenFolder::open(&self.root, None)
            .and_then(|folder| folder.read(self.below(path), MAX_FILE));
        let content = match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => read?,
        };
        let text = content.map(|it| String::from_utf8(it.bytes));
        let text = text.transpose();
        text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Writes a file for its owner alone, whole or not at all, whatever ends the process or the machine.
    ///
    /// # Errors
    /// The file can't be written, or its folder is none that root takes.
    pub(crate) fn write(&self, path: &Path, text: &str) -> Result<(), Error> {
        let write = || {
            let (above, name) = parts(path)?;
            let folder = OpenFolder::make(&self.root, None)?.make_within(self.below(above))?;
            folder.write(NEW, name, text.as_bytes())?;
            folder.sync()
        };
        write().map_err(failed("write", path))
    }

    /// Keeps the file of the account under another name, as far as there is one.
    pub(crate) fn set_account_aside(&self) {
        let open = self.open(&self.authority);
        let _ = open.and_then(|it| it.rename(ACCOUNT, "account.json.unknown"));
    }

    /// Takes a file away, if it is there.
    pub(crate) fn remove(&self, path: &Path) {
        self.remove_by(path, |folder, name| folder.remove(name));
    }

    /// Takes away what is there by `remove`, of the folder that it is in.
    fn remove_by(&self, path: &Path, remove: fn(&OpenFolder, &str) -> io::Result<bool>) {
        let removed = parts(path).and_then(|(above, name)| remove(&self.open(above)?, name));
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("cannot remove `{}`: {error}", path.display());
            }
            _ => {}
        }
    }

    /// Opens a folder of the authority's.
    fn open(&self, path: &Path) -> io::Result<OpenFolder> {
        OpenFolder::open(&self.root, None)?.open_within(self.below(path))
    }

    /// A path of the authority's as it is below the folder of all.
    fn below<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }
}

/// The folder of a file, and the file's name in it.
fn parts(path: &Path) -> io::Result<(&Path, &str)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let parts = path.parent().zip(name);
    parts.ok_or_else(|| io::ErrorKind::InvalidInput.into())
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
    use rustix::process::geteuid;
    use std::fs;
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
            folder.write(&folder.state(name), &text).unwrap();
            if has_certificate {
                folder.write(&folder.certificate(name), "pem").unwrap();
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

    /// A folder of user 7's in which files of root's are not to be read or written, with a path in that and one of root's
    /// beside it. `None`: the process is not root.
    fn folder_of_another() -> Option<(tempfile::TempDir, Folder)> {
        if !geteuid().is_root() {
            eprintln!("SKIPPED: root alone gives files away");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("victim")).unwrap();
        for name in ["certificate.pem", "order.json", "account.json"] {
            fs::write(dir.path().join("victim").join(name), "precious").unwrap();
        }
        let folder = Folder::new(dir.path().join("state"), DIRECTORY);
        folder
            .write(&folder.certificate("a.example"), "own")
            .unwrap();
        folder.write(&folder.account(), "own").unwrap();
        let of_root = folder.of_name("a.example");
        for path in of_root.ancestors().take(4) {
            std::os::unix::fs::chown(path, Some(7), Some(7)).unwrap();
        }
        Some((dir, folder))
    }

    /// Puts a link of a user's in the place of a file or folder.
    fn link(target: &Path, at: &Path, user: u32) {
        let _ = fs::remove_file(at);
        let _ = fs::remove_dir_all(at);
        std::os::unix::fs::symlink(target, at).unwrap();
        std::os::unix::fs::lchown(at, Some(user), Some(user)).unwrap();
    }

    #[test]
    fn root_reads_no_certificate_that_another_users_link_leads_to() {
        let Some((dir, folder)) = folder_of_another() else {
            return;
        };
        let victim = dir.path().join("victim/certificate.pem");
        let file = folder.certificate("a.example");
        let read = || folder.read_certificate("a.example");
        assert_eq!(read().unwrap().as_deref(), Some("own"), "root's own");
        for user in [7, 9] {
            link(&victim, &file, user);
            let refused = read().unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{user}");
            link(&dir.path().join("victim"), file.parent().unwrap(), user);
            assert!(read().is_err(), "{user}, a link to the folder");
            fs::remove_file(file.parent().unwrap()).unwrap();
            fs::create_dir(file.parent().unwrap()).unwrap();
        }
        std::os::unix::fs::chown(file.parent().unwrap(), Some(7), None).unwrap();
        fs::hard_link(&victim, &file).unwrap();
        assert!(read().is_err(), "a second name");
        link(&victim, &file, 0);
        assert_eq!(read().unwrap().as_deref(), Some("precious"), "root's link");
        let kept = dir.path().join("state/kept.pem");
        fs::write(&kept, "kept").unwrap();
        std::os::unix::fs::chown(&kept, Some(7), None).unwrap();
        link(&kept, &file, 7);
        assert_eq!(read().unwrap().as_deref(), Some("kept"), "to one's own");
    }

    #[test]
    fn root_writes_and_removes_nothing_that_another_users_link_leads_to() {
        let Some((dir, folder)) = folder_of_another() else {
            return;
        };
        let victim = dir.path().join("victim");
        let are_untouched = |what: &str| {
            for name in ["certificate.pem", "order.json", "account.json"] {
                let text = fs::read_to_string(victim.join(name)).unwrap();
                assert_eq!(text, "precious", "{what}: {name}");
            }
            assert_eq!(fs::read_dir(&victim).unwrap().count(), 3, "{what}");
        };
        let order = folder.order("a.example");
        link(&victim.join("order.json"), &order, 7);
        folder.write(&order, "{}").unwrap();
        assert!(order.symlink_metadata().unwrap().is_file(), "in its place");
        are_untouched("a link of a file");
        link(
            &victim.join("order.json"),
            order.parent().unwrap().join("new").as_path(),
            7,
        );
        folder.write(&order, "{}").unwrap();
        are_untouched("a link of the new file");
        link(&victim, order.parent().unwrap(), 7);
        assert!(folder.write(&order, "{}").is_err());
        folder.remove(&order);
        are_untouched("a link of the name's folder");
        folder.forget("a.example");
        are_untouched("a name that is forgotten");
        assert!(order.parent().unwrap().symlink_metadata().is_err());
        link(&victim, &folder.authority, 7);
        folder.set_account_aside();
        assert!(folder.write(&folder.account(), "{}").is_err());
        are_untouched("a link of the authority's folder");
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
            folder.write(&path, text).unwrap();
            assert_eq!(folder.read(&path).unwrap().as_deref(), Some(text));
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(mode(&dir.path().join("acme/lock")), 0o600);
        folder.remove(&path);
        folder.remove(&path);
        assert_eq!(folder.read(&path).unwrap(), None);
        let entries = fs::read_dir(path.parent().unwrap()).unwrap();
        assert_eq!(entries.count(), 0, "nothing half written is left");
    }
}
