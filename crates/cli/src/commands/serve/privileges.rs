//! The user as whom a server goes on that root has started: `user` and `group`.
//!
//! Sockets are bound and keys and logs are opened as root. Then every thread of the process gives up root's
//! privileges for good, before a client is served. What the user must be able to reach later is checked then: at a
//! takeover the former server serves on if it can't.

use super::places::{Places, Use};
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_config::Config;
use anyhow::{Context, Result};
use nix::unistd::{
    Gid, Group, Uid, User, getegid, geteuid, getgrouplist, setgroups, setresgid, setresuid,
};
use rustix::fs::{
    Access, AtFlags, CWD, Dir, FileType, Mode, OFlags, access, chownat, fstat, openat, readlinkat,
};
use rustix::path::Arg;
use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The levels of folders in one that the server keeps with folders of its own: `FOLDER/AUTHORITY/certificates/NAME`.
const LEVELS: u32 = 4;

/// The account that a server goes on as.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// The name, as it was given.
    name: String,
    uid: Uid,
    gid: Gid,
    /// All groups, `gid` among them.
    groups: Vec<Gid>,
}

impl Account {
    /// The account that a configuration names; `None`: the process stays what it is.
    ///
    /// # Errors
    /// There is no such user or group, or the process may not become it.
    pub(super) fn of(config: &Config) -> Result<Option<Self>> {
        let Some(account) = Self::named(config)? else {
            return Ok(None);
        };
        if geteuid() == account.uid && getegid() == account.gid {
            // A service manager has started it as that user.
            return Ok(None);
        }
        if !geteuid().is_root() {
            let own = User::from_uid(geteuid()).ok().flatten();
            let own = own.map_or_else(
                || format!("user {}", geteuid()),
                |it| format!("`{}`", it.name),
            );
            return Err(usage_error(
                format!(
                    "cannot go on as the user `{}`: the process was started by {own}, and not by root",
                    account.name
                ),
                "start it as root, or leave `user` out and have it started as the user that it is to be",
            ));
        }
        Ok(Some(account))
    }

    /// The account that a configuration names, whether the process may become it or not.
    ///
    /// # Errors
    /// There is no such user or group, or it is root.
    pub(crate) fn named(config: &Config) -> Result<Option<Self>> {
        let Some(name) = &config.user else {
            return Ok(None);
        };
        let account = Self::find(name, config.group.as_deref())?;
        if account.uid.is_root() {
            return Err(usage_error(
                format!("`user` is `{name}`, which keeps every privilege"),
                "name a user of the server's own, or leave `user` out",
            ));
        }
        Ok(Some(account))
    }

    fn find(name: &str, group: Option<&str>) -> Result<Self> {
        let found =
            User::from_name(name).with_context(|| format!("cannot look up the user `{name}`"))?;
        let found = match (found, name.parse::<u32>()) {
            (Some(user), _) => Some(user),
            (None, Ok(number)) => User::from_uid(Uid::from_raw(number)).ok().flatten(),
            (None, Err(_)) => {
                return Err(usage_error(
                    format!("there is no user `{name}`"),
                    format!(
                        "make one: useradd --system --no-create-home --shell /usr/sbin/nologin {name}"
                    ),
                ));
            }
        };
        let own = group.map(gid_of).transpose()?;
        let Some(user) = found else {
            // A number that no user has, as in a container.
            let number = name.parse().unwrap_or(u32::MAX);
            let gid = own.unwrap_or(Gid::from_raw(number));
            return Ok(Self {
                name: name.to_owned(),
                uid: Uid::from_raw(number),
                gid,
                groups: vec![gid],
            });
        };
        let gid = own.unwrap_or(user.gid);
        let login = CString::new(user.name.as_str()).context("the user's name")?;
        let groups = getgrouplist(&login, gid)
            .with_context(|| format!("cannot look up the groups of `{name}`"))?;
        Ok(Self {
            name: name.to_owned(),
            uid: user.uid,
            gid,
            groups,
        })
    }

    /// The number of the user.
    pub(super) fn uid(&self) -> u32 {
        self.uid.as_raw()
    }

    /// Hands files and folders that the server writes to over to the account, where they are root's: the process has
    /// just made them, or was run as root before.
    pub(super) fn adopt(&self, places: &Places) {
        for (path, usage) in places.of_server() {
            match usage {
                Use::Append => self.adopt_at(path, 0),
                Use::Keep => self.adopt_at(path, 1),
                Use::KeepAll => self.adopt_at(path, LEVELS),
                _ => {}
            }
        }
    }

    /// Hands over what is at a path, a folder with what is in so many levels of folders, itself one of them.
    fn adopt_at(&self, path: &Path, levels: u32) {
        match find(path) {
            Ok(Some(found)) => self.take(&found, path, levels),
            Ok(None) => tracing::warn!(
                "`{}` is a link that is not root's: what it leads to is not handed over",
                path.display()
            ),
            // Whatever needs it says that it is missing.
            Err(_) => {}
        }
    }

    /// Makes a file or folder of root's the account's, with what is in it, the folder last; nothing that a link leads
    /// to, or that has a second name. All of it is held open meanwhile: the account, which may have had the folder
    /// before, can't put something else in its place.
    fn take(&self, found: &OwnedFd, path: &Path, levels: u32) {
        let Ok(stat) = fstat(found) else { return };
        let is_folder = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if levels > 0 => true,
            FileType::RegularFile if stat.st_nlink == 1 => false,
            _ => return,
        };
        let names = match is_folder {
            true => names_in(found),
            false => Vec::new(),
        };
        for name in names {
            if let Ok(inner) = open(found, name.as_c_str()) {
                let path = path.join(OsStr::from_bytes(name.as_bytes()));
                self.take(&inner, &path, levels - 1);
            }
        }
        if stat.st_uid != 0 {
            return;
        }
        let (uid, gid) = (
            rustix::fs::Uid::from_raw(self.uid.as_raw()),
            rustix::fs::Gid::from_raw(self.gid.as_raw()),
        );
        if let Err(error) = chownat(found, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH) {
            let (path, name) = (path.display(), &self.name);
            tracing::warn!("cannot hand `{path}` over to `{name}`: {error}");
        }
    }

    /// Becomes the account, with every thread and for good, and looks whether it can reach what it must.
    ///
    /// # Errors
    /// The kernel refuses, a thread keeps something, or a folder is closed to the account.
    pub(super) fn switch_user(&self, places: &Places, printer: &Printer) -> Result<()> {
        let refused = || format!("cannot go on as the user `{}`", self.name);
        setgroups(&self.groups).with_context(refused)?;
        setresgid(self.gid, self.gid, self.gid).with_context(refused)?;
        setresuid(self.uid, self.uid, self.uid).with_context(refused)?;
        self.check_threads()?;
        let root = Uid::from_raw(0);
        if setresuid(root, root, root).is_ok() {
            return Err(anyhow::anyhow!("{}: root could be had again", refused()));
        }
        self.check_places(places, printer)
    }

    /// The C library changes all threads; whether it did is read from the kernel.
    fn check_threads(&self) -> Result<()> {
        let tasks = fs::read_dir("/proc/self/task").context("cannot look at the threads")?;
        for task in tasks.flatten() {
            // One that has ended meanwhile has nothing.
            let Ok(status) = fs::read_to_string(task.path().join("status")) else {
                continue;
            };
            if !self.is_of(&status) {
                let (name, task) = (&self.name, task.file_name());
                anyhow::bail!("thread {} did not become `{name}`", task.display());
            }
        }
        Ok(())
    }

    /// True if a thread, by its file in /proc, has the account's user and groups and no others.
    fn is_of(&self, status: &str) -> bool {
        let numbers = |key: &str| -> Option<BTreeSet<u32>> {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().map(|it| it.parse().ok()).collect()
        };
        let groups = self.groups.iter().map(|it| it.as_raw()).collect();
        numbers("Uid:") == Some([self.uid.as_raw()].into())
            && numbers("Gid:") == Some([self.gid.as_raw()].into())
            && numbers("Groups:") == Some(groups)
    }

    fn check_places(&self, places: &Places, printer: &Printer) -> Result<()> {
        let name = &self.name;
        for (path, usage) in places.used_again() {
            let (right, what) = match usage {
                Use::Folder => (Access::READ_OK | Access::EXEC_OK, "read"),
                Use::Store | Use::Keep | Use::KeepAll => (
                    Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK,
                    "write to",
                ),
                Use::Secret | Use::Append | Use::BindSockets => (Access::READ_OK, "read"),
            };
            let Err(error) = access(path, right) else {
                continue;
            };
            let shown = path.display();
            match usage {
                Use::Folder | Use::Store | Use::Keep | Use::KeepAll => {
                    return Err(usage_error(
                        format!("`{name}` cannot {what} `{shown}`: {error}"),
                        format!("give it the right, as by `chown {name} {shown}`, and to enter the folders above"),
                    ));
                }
                Use::Secret => printer.warn(&format!(
                    "`{name}` cannot read `{shown}`: every reload reads it again, and is refused then; \
                     let a group of its own read it (mode 640), or replace the process with a takeover"
                )),
                Use::Append | Use::BindSockets => {}
            }
        }
        Ok(())
    }
}

/// The place of a file or folder, and of what a link leads to where the link is root's. `None`: it is another's, who
/// may have it lead to anything of root's.
///
/// # Errors
/// There is nothing.
fn find(path: &Path) -> rustix::io::Result<Option<OwnedFd>> {
    let found = open(CWD, path)?;
    let stat = fstat(&found)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return Ok(Some(found));
    }
    if stat.st_uid != 0 {
        return Ok(None);
    }
    // Of the link that was looked at, and not of one that has its name by now.
    let target = readlinkat(&found, "", Vec::new())?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let target = folder.join(OsStr::from_bytes(target.as_bytes()));
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat(CWD, target, flags, Mode::empty()).map(Some)
}

/// Opens the place of a file or folder, or of a link itself.
fn open(folder: impl AsFd, name: impl Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

/// The names in a folder whose place is open.
fn names_in(folder: &OwnedFd) -> Vec<CString> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let entries = openat(folder, ".", flags, Mode::empty()).and_then(Dir::new);
    let entries = entries.into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_owned());
    names
        .filter(|name| !matches!(name.as_bytes(), b"." | b".."))
        .collect()
}

fn gid_of(name: &str) -> Result<Gid> {
    let found =
        Group::from_name(name).with_context(|| format!("cannot look up the group `{name}`"))?;
    match (found, name.parse::<u32>()) {
        (Some(group), _) => Ok(group.gid),
        (None, Ok(number)) => Ok(Gid::from_raw(number)),
        (None, Err(_)) => Err(usage_error(
            format!("there is no group `{name}`"),
            format!("make one: groupadd --system {name}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    fn account(groups: &[u32]) -> Account {
        Account {
            name: "altway".into(),
            uid: Uid::from_raw(7),
            gid: Gid::from_raw(8),
            groups: groups.iter().map(|it| Gid::from_raw(*it)).collect(),
        }
    }

    #[test]
    fn a_thread_that_keeps_anything_is_found() {
        let account = account(&[8, 9]);
        let status = |uid: &str, gid: &str, groups: &str| {
            format!("Name:\tx\nUid:\t{uid}\nGid:\t{gid}\nFDSize:\t64\nGroups:\t{groups} \n")
        };
        assert!(account.is_of(&status("7\t7\t7\t7", "8\t8\t8\t8", "8 9")));
        for (uid, gid, groups) in [
            ("7\t7\t0\t7", "8\t8\t8\t8", "8 9"),
            ("7\t7\t7\t7", "8\t8\t8\t0", "8 9"),
            ("7\t7\t7\t7", "8\t8\t8\t8", "0 8 9"),
            ("7\t7\t7\t7", "8\t8\t8\t8", "8"),
        ] {
            assert!(
                !account.is_of(&status(uid, gid, groups)),
                "{uid} {gid} {groups}"
            );
        }
        assert!(!account.is_of(""));
    }

    #[test]
    fn who_is_not_there_or_keeps_everything_is_refused() {
        let of = |user: &str, group: Option<&str>| {
            let config = Config {
                user: Some(user.into()),
                group: group.map(Into::into),
                ..Config::default()
            };
            Account::of(&config).unwrap_err().to_string()
        };
        assert!(of("no-such-user-here", None).contains("no user `no-such-user-here`"));
        assert!(of("root", None).contains("keeps every privilege"));
        assert!(of("0", None).contains("keeps every privilege"));
        let error = of("nobody", Some("no-such-group-here"));
        assert!(error.contains("no group `no-such-group-here`"), "{error}");
        assert_eq!(Account::of(&Config::default()).unwrap(), None);
    }

    #[test]
    fn what_is_roots_is_handed_over_and_nothing_that_another_s_link_leads_to() {
        if !geteuid().is_root() {
            eprintln!("SKIPPED: root alone gives files away");
            return;
        }
        let (dir, account) = (tempfile::tempdir().unwrap(), account(&[8]));
        let at = |name: &str| dir.path().join(name);
        for folder in ["victim/sub", "kept/a/b/c", "state/sub"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for file in [
            "victim/shadow",
            "victim/sub/x",
            "kept/a/b/c/x",
            "state/x",
            "state/sub/x",
        ] {
            fs::write(at(file), "").unwrap();
        }
        fs::hard_link(at("victim/shadow"), at("state/second")).unwrap();
        symlink(at("victim"), at("state/link")).unwrap();
        let are = |owner: u32, names: &[&str]| {
            for name in names {
                let found = fs::symlink_metadata(at(name)).unwrap().uid();
                assert_eq!(found, owner, "{name}");
            }
        };
        let victims = ["victim", "victim/shadow", "victim/sub", "victim/sub/x"];
        account.adopt_at(&at("state"), 1);
        are(7, &["state", "state/x"]);
        are(
            0,
            &["state/sub", "state/sub/x", "state/second", "state/link"],
        );
        are(0, &victims);
        // The account has the folder now, and so any link in it.
        symlink(at("victim"), at("state/acme")).unwrap();
        lchown(at("state/acme"), Some(7), Some(8)).unwrap();
        account.adopt_at(&at("state/acme"), LEVELS);
        are(0, &victims);
        let kept = find(&at("kept")).unwrap().unwrap();
        fs::rename(at("kept"), at("moved")).unwrap();
        symlink(at("victim"), at("kept")).unwrap();
        account.take(&kept, &at("kept"), LEVELS);
        are(
            7,
            &[
                "moved",
                "moved/a",
                "moved/a/b",
                "moved/a/b/c",
                "moved/a/b/c/x",
            ],
        );
        are(0, &victims);
        // That link is root's.
        account.adopt_at(&at("kept"), LEVELS);
        are(7, &["victim", "victim/sub", "victim/sub/x"]);
    }
}
