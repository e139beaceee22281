//! The user as whom a server goes on that root has started: `user` and `group`.
//!
//! Sockets are bound and keys and logs are opened as root. Then every thread of the process gives up root's
//! privileges for good, before a client is served. What the user must be able to reach later is checked then: at a
//! takeover the former server serves on if it can't.

use super::places::{Places, Use};
use crate::hint::mistake;
use crate::printer::Printer;
use altway_config::Config;
use anyhow::{Context, Result};
use nix::unistd::{
    Gid, Group, Uid, User, getegid, geteuid, getgrouplist, setgroups, setresgid, setresuid,
};
use rustix::fs::{Access, AtFlags, CWD, access, chownat};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The account that a server goes on as.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Account {
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
        let Some(name) = &config.user else {
            return Ok(None);
        };
        let account = Self::find(name, config.group.as_deref())?;
        if account.uid.is_root() {
            return Err(mistake(
                format!("`user` is `{name}`, which keeps every privilege"),
                "name a user of the server's own, or leave `user` out",
            ));
        }
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
            return Err(mistake(
                format!(
                    "cannot go on as the user `{name}`: the process was started by {own}, and not by root"
                ),
                "start it as root, or leave `user` out and have it started as the user that it is to be",
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
                return Err(mistake(
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

    /// Hands files and folders that the server writes to over to the account, where they are root's: the process has
    /// just made them, or was run as root before.
    pub(super) fn adopt(&self, places: &Places) {
        for (path, usage) in places.of_server() {
            match usage {
                Use::Keep => {
                    self.take(path);
                    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                        if entry.file_type().is_ok_and(|it| it.is_file()) {
                            self.take(&entry.path());
                        }
                    }
                }
                Use::KeepAll => self.take_all(path),
                Use::Append => self.take(path),
                _ => {}
            }
        }
    }

    /// Takes a folder with all that is in it, as far as it is root's; the folders last, as whoever has a folder can put
    /// something else in a file's place.
    fn take_all(&self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.take_all(&entry.path()),
                _ => self.take(&entry.path()),
            }
        }
        self.take(folder);
    }

    /// Makes a file or folder of root's the account's; nothing that a link leads to, or that has a second name.
    fn take(&self, path: &Path) {
        let is_roots = fs::symlink_metadata(path).is_ok_and(|it| {
            let is_plain = it.is_dir() || (it.is_file() && it.nlink() == 1);
            is_plain && it.uid() == 0
        });
        if !is_roots {
            return;
        }
        let (uid, gid) = (
            rustix::fs::Uid::from_raw(self.uid.as_raw()),
            rustix::fs::Gid::from_raw(self.gid.as_raw()),
        );
        let done = chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW);
        if let Err(error) = done {
            let (path, name) = (path.display(), &self.name);
            tracing::warn!("cannot hand `{path}` over to `{name}`: {error}");
        }
    }

    /// Becomes the account, with every thread and for good, and looks whether it can reach what it must.
    ///
    /// # Errors
    /// The kernel refuses, a thread keeps something, or a folder is closed to the account.
    pub(super) fn become_it(&self, places: &Places, printer: &Printer) -> Result<()> {
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
        for (path, usage) in places.all() {
            let (right, what) = match usage {
                Use::Folder => (Access::READ_OK | Access::EXEC_OK, "read"),
                Use::Store | Use::Keep | Use::KeepAll => (
                    Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK,
                    "write to",
                ),
                Use::Secret | Use::Append | Use::Meet => (Access::READ_OK, "read"),
            };
            let Err(error) = access(path, right) else {
                continue;
            };
            let shown = path.display();
            match usage {
                Use::Folder | Use::Store | Use::Keep | Use::KeepAll => {
                    return Err(mistake(
                        format!("`{name}` cannot {what} `{shown}`: {error}"),
                        format!("give it the right, as by `chown {name} {shown}`, and to enter the folders above"),
                    ));
                }
                Use::Secret => printer.warn(&format!(
                    "`{name}` cannot read `{shown}`: a reload can't read it again, and the former one stays in use; \
                     let a group of its own read it (mode 640), or replace the process with a takeover"
                )),
                Use::Append | Use::Meet => {}
            }
        }
        Ok(())
    }
}

fn gid_of(name: &str) -> Result<Gid> {
    let found =
        Group::from_name(name).with_context(|| format!("cannot look up the group `{name}`"))?;
    match (found, name.parse::<u32>()) {
        (Some(group), _) => Ok(group.gid),
        (None, Ok(number)) => Ok(Gid::from_raw(number)),
        (None, Err(_)) => Err(mistake(
            format!("there is no group `{name}`"),
            format!("make one: groupadd --system {name}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
