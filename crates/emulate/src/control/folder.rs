//! The folder of the sockets of running links: where it is, what the sockets are called, and who
//! may come near them.

use crate::Error;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Extension of a socket's name, after the dot.
const EXTENSION: &str = "sock";

/// The longest name of a link in bytes.
const NAME_LIMIT: usize = 32;

/// Entries of a folder that are looked at: a thousand links at once are more than a machine runs.
const MOST_ENTRIES: usize = 1_024;

/// The folder in which a link of this user's listens: `altway` in $XDG_RUNTIME_DIR, else /run/altway
/// for root and `altway-USER` in the folder for temporary files for everyone else.
///
/// Ask before [`enter`](crate::enter), which makes everyone root.
#[must_use]
pub fn folder() -> PathBuf {
    runtime_folder().unwrap_or_else(system_folder)
}

/// The folders in which to look for links: this user's, and the one of links that were started
/// without $XDG_RUNTIME_DIR.
pub(super) fn folders() -> Vec<PathBuf> {
    runtime_folder()
        .into_iter()
        .chain([system_folder()])
        .collect()
}

fn runtime_folder() -> Option<PathBuf> {
    let folder = PathBuf::from(env::var_os("XDG_RUNTIME_DIR")?);
    // One that is not absolute is to be ignored (XDG Base Directory Specification).
    folder.is_absolute().then(|| folder.join("altway"))
}

fn system_folder() -> PathBuf {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return "/run/altway".into();
    }
    env::temp_dir().join(format!("altway-{}", user.as_raw()))
}

/// Makes the folder, or makes sure that it is this user's alone: whoever may write in it could put
/// himself in the place of a link.
pub(super) fn claim(folder: &Path) -> Result<(), Error> {
    let failed = |source| Error::ControlFolder {
        folder: folder.to_owned(),
        source,
    };
    let made = fs::DirBuilder::new().mode(0o700).create(folder);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made.map_err(failed),
    }
    let found = fs::symlink_metadata(folder).map_err(failed)?;
    let own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !own || found.mode() & 0o022 != 0 {
        return Err(failed(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is there, and others may write in it",
        )));
    }
    Ok(())
}

/// The name of a link's socket.
pub(super) fn file_name(pid: u32, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{pid}.{name}.{EXTENSION}"),
        None => format!("{pid}.{EXTENSION}"),
    }
}

/// Reads the name of a socket: the process, and what the link is called.
pub(super) fn read_file_name(path: &Path) -> Option<(u32, Option<String>)> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(EXTENSION)?.strip_suffix('.')?;
    match stem.split_once('.') {
        None => Some((stem.parse().ok()?, None)),
        Some((pid, name)) => {
            check_name(name).ok()?;
            Some((pid.parse().ok()?, Some(name.into())))
        }
    }
}

/// The sockets in a folder; none when there is no such folder.
pub(super) fn sockets(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.take(MOST_ENTRIES).map(|entry| entry.path());
    paths
        .filter(|path| read_file_name(path).is_some())
        .collect()
}

/// Reads the name of a link: at most 32 letters, digits, `-` and `_`, and not digits alone, lest it be
/// taken for the number of a process.
///
/// # Errors
/// [`Error::LinkName`].
pub fn name(text: &str) -> Result<String, Error> {
    check_name(text).map(|()| text.to_owned())
}

pub(super) fn check_name(name: &str) -> Result<(), Error> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let right = (1..=NAME_LIMIT).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.bytes().all(|byte| byte.is_ascii_digit());
    if right {
        return Ok(());
    }
    Err(Error::LinkName { name: name.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_socket_tells_its_process_and_its_name() {
        for (pid, name) in [(7, None), (1234, Some("router-1"))] {
            let path = Path::new("/run/altway").join(file_name(pid, name));
            assert_eq!(read_file_name(&path), Some((pid, name.map(Into::into))));
        }
        for other in [
            "x.sock",
            "7.socket",
            "7.a b.sock",
            "7.8.sock",
            ".7.sock",
            "sock",
            "7",
        ] {
            assert_eq!(read_file_name(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn a_name_is_a_short_word_and_no_number() {
        for name in ["a", "router-1", "1a", &"x".repeat(32)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "12", "a b", "a.b", "../a", "é", &"x".repeat(33)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_folder_in_which_others_may_write_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("altway");
        claim(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        claim(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(claim(&folder), Err(Error::ControlFolder { .. })));
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(claim(&file).is_err());
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(parent.path(), &link).unwrap();
        assert!(claim(&link).is_err());
    }
}
