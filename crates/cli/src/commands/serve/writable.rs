//! Places that a configuration has a server write to, tried before it starts: logs, folders of its own, sockets. Nothing is
//! made.

use crate::config_file::{fault, refused};
use crate::hint::usage_error;
use altway_admin::Address;
use altway_config::{Config, Places};
use altway_serve::certs::Store;
use anyhow::Result;
use rustix::fs::{Access, access};
use rustix::net::SocketAddrUnix;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The folders in which systemd makes one for a service, with the setting of the unit that names it (systemd.exec(5)).
const BY_SYSTEMD: [(&str, &str); 4] = [
    ("/run", "RuntimeDirectory"),
    ("/var/lib", "StateDirectory"),
    ("/var/cache", "CacheDirectory"),
    ("/var/log", "LogsDirectory"),
];

/// The way in which a server makes what it writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    /// A file in a folder that is there.
    File,
    /// A folder, with those above it.
    Folder,
    /// A Unix socket in a folder that is there, in the place of a former one.
    Socket,
}

impl Made {
    fn hint(self) -> &'static str {
        match self {
            Self::File => {
                "give a file in a folder that is there and that the server's user may write to"
            }
            Self::Folder => {
                "name a folder that the server's user may write to, or one that it may make"
            }
            Self::Socket => {
                "give a path in a folder that is there and that the server's user may write to"
            }
        }
    }
}

/// A place that a server writes to.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    /// The path of the key that names it.
    key: &'static str,
    path: PathBuf,
    made: Made,
    /// The failure in words, without the path.
    failure: &'static str,
}

/// A place that can't be written to.
#[derive(Debug)]
pub(crate) struct Obstacle {
    /// The path of the key that names it.
    pub(crate) key: &'static str,
    pub(crate) error: anyhow::Error,
    /// The setting of a unit that has systemd make the folder that is missing, if one can.
    pub(crate) setting: Option<String>,
    kind: ErrorKind,
}

/// Returns what keeps a server from writing to the places of a configuration, those of `former` left out, which are in
/// use.
pub(crate) fn obstacles(config: &Config, former: Option<&Config>) -> Vec<Obstacle> {
    let in_use = former.map(targets).unwrap_or_default();
    let new = targets(config).into_iter();
    let new = new.filter(|target| !in_use.contains(target));
    new.filter_map(|target| target.obstacle()).collect()
}

/// Tries the folder in which this user has, or will have, the certificates of altway's own authority.
///
/// # Errors
/// There is none, it can't be entered, or it can't be made.
pub(crate) fn try_own_authority() -> io::Result<()> {
    let none = || io::Error::new(ErrorKind::NotFound, altway_serve::Error::NoDataDirectory);
    let folder = Store::default_dir().ok_or_else(none)?;
    match folder.is_dir() {
        // A certificate that is there need not be made.
        true => Ok(access(&folder, Access::READ_OK | Access::EXEC_OK)?),
        false => try_folder(&folder),
    }
}

/// Checks the places that a process which takes over would write to, and the running one does not. A process that root
/// started and that goes on as a user can't tell what root may write.
///
/// # Errors
/// One can't be written to.
pub(super) fn check_new(
    (former, new): (&Config, &Config),
    file: &Path,
    places: &Places,
) -> Result<()> {
    let is_root_to_write = former.user.is_some() || new.user.is_some();
    let is_known = |it: &Obstacle| !is_root_to_write || it.kind != ErrorKind::PermissionDenied;
    let found = obstacles(new, Some(former)).into_iter().filter(is_known);
    let faults = found.map(|it| fault(places, it.key, &it.error)).collect();
    let checked = places.none_of(faults);
    checked.map_err(|faults| refused(&file.display().to_string(), faults))
}

fn targets(config: &Config) -> Vec<Target> {
    let log = &config.log;
    let admin = config.admin.as_deref().map(str::parse);
    let admin = match admin {
        Some(Ok(Address::Unix(path))) => Some(path),
        _ => None,
    };
    let access = log.access.as_ref().filter(|path| *path != Path::new("-"));
    let acme = config.acme.as_ref().and_then(|acme| acme.folder.as_ref());
    let named = [
        (
            "state",
            config.state.as_ref(),
            Made::Folder,
            "cannot use the state folder",
        ),
        (
            "takeover",
            config.takeover.as_ref(),
            Made::Socket,
            "cannot wait for takeovers at",
        ),
        (
            "admin",
            admin.as_ref(),
            Made::Socket,
            "cannot listen at the admin socket",
        ),
        (
            "log.access",
            access,
            Made::File,
            "cannot open the access log",
        ),
        (
            "log.selection",
            log.selection.as_ref(),
            Made::File,
            "cannot open the selection log",
        ),
        (
            "log.keylog",
            log.keylog.as_ref(),
            Made::File,
            "cannot open the key log",
        ),
        (
            "log.qlog",
            log.qlog.as_ref(),
            Made::Folder,
            "cannot write qlogs to",
        ),
        (
            "acme.folder",
            acme,
            Made::Folder,
            "cannot use the folder of ACME",
        ),
    ];
    let target = |(key, path, made, failure): (_, Option<&PathBuf>, _, _)| {
        let path = path?.clone();
        Some(Target {
            key,
            path,
            made,
            failure,
        })
    };
    named.into_iter().filter_map(target).collect()
}

impl Target {
    fn obstacle(&self) -> Option<Obstacle> {
        let tried = match self.made {
            Made::File => try_file(&self.path),
            Made::Folder => try_folder(&self.path),
            Made::Socket => try_socket(&self.path),
        };
        let reason = tried.err()?;
        let what = format!("{} `{}`: {reason}", self.failure, self.path.display());
        Some(Obstacle {
            key: self.key,
            error: usage_error(what, self.made.hint()),
            setting: (reason.kind() == ErrorKind::NotFound)
                .then(|| setting(parent(&self.path)))
                .flatten(),
            kind: reason.kind(),
        })
    }
}

/// The setting of a unit by which systemd makes a folder; `None`: it makes none there.
fn setting(folder: &Path) -> Option<String> {
    let (above, name) = (folder.parent()?, folder.file_name()?);
    let by_systemd = BY_SYSTEMD
        .iter()
        .find(|(place, _)| Path::new(place) == above);
    by_systemd.map(|(_, setting)| format!("{setting}={}", name.display()))
}

fn try_file(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder"))
        }
        Ok(_) => Ok(access(path, Access::WRITE_OK)?),
        Err(error) if error.kind() == ErrorKind::NotFound => try_within(parent(path)),
        Err(error) => Err(error),
    }
}

fn try_folder(path: &Path) -> io::Result<()> {
    let above = path.ancestors().skip(1).map(or_working_folder);
    above.fold(try_within(path), |tried, above| match tried {
        Err(error) if error.kind() == ErrorKind::NotFound => try_within(above),
        tried => tried,
    })
}

fn try_socket(path: &Path) -> io::Result<()> {
    // The kernel has room for some 100 bytes.
    SocketAddrUnix::new(path)?;
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            let text = "a file that is no socket is in its place";
            Err(io::Error::new(ErrorKind::AlreadyExists, text))
        }
        _ => try_within(parent(path)),
    }
}

/// Tries a folder in which something is to be made.
fn try_within(folder: &Path) -> io::Result<()> {
    let shown = folder.display();
    let found = fs::metadata(folder).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let text = format!("the folder `{shown}` is not there");
            io::Error::new(ErrorKind::NotFound, text)
        }
        kind => io::Error::new(kind, format!("cannot reach the folder `{shown}`: {error}")),
    })?;
    if !found.is_dir() {
        let text = format!("`{shown}` is no folder");
        return Err(io::Error::new(ErrorKind::NotADirectory, text));
    }
    access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
        let text = format!("cannot write to the folder `{shown}`: {error}");
        io::Error::new(error.kind(), text)
    })
}

fn parent(path: &Path) -> &Path {
    or_working_folder(path.parent().unwrap_or(path))
}

fn or_working_folder(path: &Path) -> &Path {
    match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_config::NoFiles;

    fn config(text: &str) -> Config {
        let site = "[[site]]\ndefault = true\nroute = [{ respond = { status = 204 } }]\n";
        let plan = altway_config::read("a.toml", &format!("{text}{site}"), &mut NoFiles);
        plan.unwrap_or_else(|it| panic!("{it}")).config().clone()
    }

    #[test]
    fn a_folder_that_systemd_may_make_is_told_from_others() {
        assert_eq!(
            setting(Path::new("/var/log/altway")).as_deref(),
            Some("LogsDirectory=altway")
        );
        assert_eq!(
            setting(Path::new("/run/altway")).as_deref(),
            Some("RuntimeDirectory=altway")
        );
        for folder in ["/run", "/var/log/altway/more", "/srv/log", "/", "."] {
            assert_eq!(setting(Path::new(folder)), None, "{folder}");
        }
    }

    #[test]
    fn what_can_be_made_is_no_obstacle_and_what_is_in_use_is_not_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        fs::write(dir.path().join("file"), "").unwrap();
        let good = config(&format!(
            "state = \"{}\"\nadmin = \"{}\"\n[log]\naccess = \"{}\"\nselection = \"{}\"\n",
            at("a/b/c"),
            at("admin"),
            at("file"),
            at("new")
        ));
        assert!(obstacles(&good, None).is_empty());
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "nothing is made"
        );
        let bad = format!(
            "state = \"{}\"\ntakeover = \"{}\"\n[log]\naccess = \"{}\"\nselection = \"{}\"\n",
            at("file/a"),
            at("file"),
            dir.path().display(),
            at("none/log")
        );
        let bad = config(&bad);
        let found = obstacles(&bad, None);
        let said: Vec<_> = found.iter().map(|it| it.error.to_string()).collect();
        for (said, end) in said.iter().zip([
            "Not a directory (os error 20)",
            ": a file that is no socket is in its place",
            ": it is a folder",
            "/none` is not there",
        ]) {
            assert!(said.ends_with(end), "{said}");
        }
        assert_eq!(said.len(), 4, "{said:?}");
        assert!(obstacles(&bad, Some(&bad)).is_empty());
    }
}
