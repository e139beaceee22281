//! The files that a server can reach, held to by the kernel (Landlock): those that its configuration names, whatever
//! happens in the process.
//!
//! A process can only give up more, so what a reload names must lie within. Rules hold for folders with all that is
//! in them: of a file that is replaced by another of its name, as certificates are, the folder is meant; of a served
//! folder that is a symbolic link, which deployments switch, the folder that holds what it leads to.
//!
//! The rules are set before there is a second thread, as the kernel holds to them those threads alone that begin
//! afterwards.

use super::places::{Places, Use};
use crate::hint::usage_error;
use altway_admin::Address;
use altway_config::{Listen, Plan, Sandbox as Wanted};
use anyhow::Result;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, make_bitflags,
};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The newest set of rights whose meaning for a server was looked at.
const KNOWN: ABI = ABI::V5;

/// The oldest that a server can live with: before it no file moves from folder to folder.
const NEEDED: ABI = ABI::V2;

/// The places where the system keeps what name look-ups and certificates of others need.
const OF_THE_SYSTEM: [&str; 12] = [
    "/etc",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/run/nscd",
    "/var/lib/ca-certificates",
];

/// Figures of the process and the system.
const FIGURES: [&str; 2] = ["/proc", "/sys/fs/cgroup"];

/// The state of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    On,
    /// The configuration says so.
    Off,
    /// The kernel has none.
    Unavailable,
}

impl State {
    /// The word that `status` has for it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Unavailable => "unavailable",
        }
    }
}

/// A right to a folder, or a file, and all in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Right {
    Read,
    /// Files are appended to, and made.
    Append,
    /// Sockets are made and removed.
    BindSockets,
    /// All rights but that to run programs.
    Write,
}

impl Right {
    fn access(self) -> BitFlags<AccessFs> {
        let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
        match self {
            Self::Read => read,
            Self::Append => make_bitflags!(AccessFs::{WriteFile | MakeReg}),
            Self::BindSockets => make_bitflags!(AccessFs::{MakeSock | RemoveFile}),
            Self::Write => {
                let files = make_bitflags!(AccessFs::{
                    WriteFile | Truncate | MakeReg | MakeDir | RemoveFile | RemoveDir | Refer
                });
                read | files
            }
        }
    }
}

/// The sandbox that a process is in, or not.
#[derive(Debug)]
pub(super) struct Sandbox {
    state: State,
    /// The places that can be reached, by their real paths.
    rights: BTreeMap<PathBuf, Place>,
}

/// A place that can be reached, for as long as it is not replaced by another of its name.
#[derive(Debug)]
struct Place {
    identity: Identity,
    rights: Vec<Right>,
}

/// Device and inode.
type Identity = (u64, u64);

impl Sandbox {
    /// Goes in, where the kernel has it and the configuration does not say otherwise. To be called while the process
    /// has one thread.
    ///
    /// # Errors
    /// The kernel has it and refuses.
    pub(super) fn enter(plan: &Plan, places: &Places, admin: Option<&Address>) -> Result<Self> {
        let wanted = &plan.config().sandbox;
        if !wanted.is_on {
            return Ok(Self::none(State::Off));
        }
        let mut sandbox = Self::none(State::On);
        sandbox.gather(wanted, places, places.own_authority(plan).as_ref());
        match sandbox.restrict(&ports(&plan.config().listen, admin)) {
            Ok(RulesetStatus::NotEnforced) => Ok(Self::none(State::Unavailable)),
            Ok(_) => Ok(sandbox),
            Err(error) if is_missing(&error) => {
                tracing::debug!(%error, "this kernel has no sandbox (Landlock 2): the process can reach what its user can");
                Ok(Self::none(State::Unavailable))
            }
            Err(error) => Err(usage_error(
                format!("cannot enter the sandbox: {error}"),
                "leave it out: `sandbox = false`, or --no-sandbox",
            )),
        }
    }

    pub(super) fn none(state: State) -> Self {
        Self {
            state,
            rights: BTreeMap::new(),
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    fn gather(
        &mut self,
        wanted: &Wanted,
        places: &Places,
        own: Option<&altway_serve::certs::Store>,
    ) {
        for (path, usage) in places.all() {
            if matches!(usage, Use::Keep | Use::KeepAll) {
                // Nothing can be made where it lies once the process is in; who opens it says what hinders.
                let _ = DirBuilder::new().recursive(true).mode(0o700).create(path);
            }
            for (folder, right) in folders_of(path, usage) {
                self.add(&folder, right);
            }
        }
        let figures = FIGURES.iter().map(Path::new);
        figures.for_each(|path| self.add(path, Right::Read));
        if places.asks_others {
            let system = OF_THE_SYSTEM.iter().map(PathBuf::from);
            let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter();
            let named = named.filter_map(|name| std::env::var_os(name).map(PathBuf::from));
            system
                .chain(named)
                .for_each(|path| self.add(&path, Right::Read));
        }
        if let Some(store) = own {
            self.add(store.dir(), Right::Write);
        }
        wanted.read.iter().for_each(|it| self.add(it, Right::Read));
        wanted
            .write
            .iter()
            .for_each(|it| self.add(it, Right::Write));
    }

    /// Leaves out what is not there, which can't be reached later either.
    fn add(&mut self, path: &Path, right: Right) {
        let Ok(real) = fs::canonicalize(path) else {
            return;
        };
        let Ok(identity) = identity(&real) else {
            return;
        };
        let rights = Vec::new();
        let place = self
            .rights
            .entry(real)
            .or_insert(Place { identity, rights });
        if !place.rights.contains(&right) {
            place.rights.push(right);
        }
    }

    fn restrict(&self, ports: &[u16]) -> Result<RulesetStatus, RulesetError> {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(NEEDED))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(KNOWN))?;
        // A port that is to be found is not known yet.
        let ruleset = match ports.contains(&0) {
            true => ruleset,
            false => ruleset.handle_access(AccessNet::BindTcp)?,
        };
        let mut created = ruleset.create()?;
        for (path, place) in &self.rights {
            // One that has gone meanwhile is not there for the process.
            let Ok(opened) = PathFd::new(path) else {
                continue;
            };
            let mut access = BitFlags::empty();
            let rights = place.rights.iter();
            rights.for_each(|right| access |= right.access());
            if !path.is_dir() {
                access &= AccessFs::from_file(KNOWN);
            }
            created = created.add_rule(PathBeneath::new(opened, access))?;
        }
        for port in ports.iter().filter(|_| !ports.contains(&0)) {
            created = created.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
        }
        Ok(created.restrict_self()?.ruleset)
    }

    /// Says why the first place of a plan's sites that can't be reached from within can not, and what to do.
    pub(super) fn outside(&self, places: &Places) -> Option<String> {
        let mut hindrances = places.of_sites().map(|(path, usage)| match usage {
            Use::Store => self.hindrance(path, Right::Write),
            _ => self.hindrance(path, Right::Read),
        });
        hindrances.find_map(|it| it)
    }

    /// Says why a log can't be opened anew from within, and what to do; `None`: it is not the sandbox that hinders.
    pub(super) fn hinders_log(&self, log: &Path) -> Option<String> {
        self.hindrance(&parent(log), Right::Append)
    }

    fn hindrance(&self, path: &Path, right: Right) -> Option<String> {
        if self.state != State::On {
            return None;
        }
        // Said by whoever opens it.
        let real = fs::canonicalize(path).ok()?;
        let mut replaced = None;
        for above in real.ancestors() {
            let Some(place) = self.rights.get(above) else {
                continue;
            };
            if !place.rights.contains(&right) && !place.rights.contains(&Right::Write) {
                continue;
            }
            match identity(above).is_ok_and(|it| it == place.identity) {
                true => return None,
                false => replaced = replaced.or(Some(above)),
            }
        }
        let key = match right {
            Right::Read => "read",
            _ => "write",
        };
        let (what, named) = match replaced {
            Some(place) => (
                format!(
                    "`{}` was replaced by another of its name, which this process can't reach",
                    place.display()
                ),
                parent(place).display().to_string(),
            ),
            None => (
                format!(
                    "`{}` lies outside of what this process can reach",
                    path.display()
                ),
                "…".to_owned(),
            ),
        };
        Some(format!(
            "{what} (its sandbox): that needs a new process, as by `takeover`, or `sandbox = {{ {key} = [\"{named}\"] }}` \
             from the start"
        ))
    }
}

fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => PathBuf::from("/"),
    }
}

/// The folders that stand for a place, with the right to each.
fn folders_of(path: &Path, usage: Use) -> Vec<(PathBuf, Right)> {
    let real_parent = || fs::canonicalize(path).ok().map(|real| parent(&real));
    match usage {
        Use::Folder if path.is_symlink() => {
            let real = real_parent().map(|it| (it, Right::Read));
            real.into_iter().collect()
        }
        Use::Folder => vec![(path.to_owned(), Right::Read)],
        Use::Secret => {
            let real = real_parent().into_iter();
            real.chain([parent(path)])
                .map(|it| (it, Right::Read))
                .collect()
        }
        Use::Store | Use::Keep | Use::KeepAll => vec![(path.to_owned(), Right::Write)],
        Use::Append => vec![(parent(path), Right::Append)],
        Use::BindSockets => vec![(parent(path), Right::BindSockets)],
    }
}

/// The ports over TCP that are bound.
fn ports(listen: &Listen, admin: Option<&Address>) -> Vec<u16> {
    let listeners = listen.listeners.iter().map(|it| it.address.port);
    let admin = match admin {
        Some(Address::Loopback(address)) => Some(address.port()),
        _ => None,
    };
    listeners.chain(admin).collect()
}

/// True if the kernel lacks what is needed.
fn is_missing(error: &RulesetError) -> bool {
    matches!(
        error,
        RulesetError::HandleAccesses(_) | RulesetError::CreateRuleset(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_config::NoFiles;
    use std::os::unix::fs::symlink;

    fn plan(text: &str) -> Plan {
        altway_config::read("a.toml", text, &mut NoFiles).unwrap_or_else(|it| panic!("{it}"))
    }

    fn site(root: &Path) -> Plan {
        plan(&format!(
            "[listen]\nhttp = [\"127.0.0.1:0\"]\n[[site]]\ndefault = true\nroute = [{{ files = \"{}\" }}]\n",
            root.display()
        ))
    }

    fn sandbox(root: &Path) -> Sandbox {
        let mut sandbox = Sandbox::none(State::On);
        sandbox.gather(
            &Wanted::default(),
            &Places::of(&site(root), None, None),
            None,
        );
        sandbox
    }

    #[test]
    fn what_a_reload_names_outside_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let [inside, within, outside] =
            ["in", "in/deep", "out"].map(|name| folder.path().join(name));
        for each in [&inside, &within, &outside] {
            fs::create_dir_all(each).unwrap();
        }
        let sandbox = sandbox(&inside);
        let asked = |root: &Path| sandbox.outside(&Places::of(&site(root), None, None));
        let is_refused = |root: &Path, why: &str| {
            let said = asked(root).unwrap();
            let expected = format!("`{}` {why}", root.display());
            assert!(said.starts_with(&expected), "{said}");
        };
        assert_eq!(asked(&inside), None);
        assert_eq!(asked(&within), None);
        is_refused(&outside, "lies outside of");
        // A link within leads outside.
        let link = inside.join("link");
        symlink(&outside, &link).unwrap();
        is_refused(&link, "lies outside of");
        // The kernel goes by the folder, not by its name.
        fs::rename(&inside, folder.path().join("former")).unwrap();
        fs::create_dir(&inside).unwrap();
        is_refused(&inside, "was replaced by another of its name");
        let hint = format!(
            "read = [\"{}\"]",
            folder.path().canonicalize().unwrap().display()
        );
        assert!(asked(&inside).unwrap().contains(&hint));
        let off = Sandbox::none(State::Off);
        assert_eq!(off.outside(&Places::of(&site(&outside), None, None)), None);
    }

    #[test]
    fn a_link_that_deployments_switch_stands_for_the_folder_of_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (
            folder.path().join("releases/1"),
            folder.path().join("releases/2"),
        );
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(&two).unwrap();
        let link = folder.path().join("current");
        symlink(&one, &link).unwrap();
        let sandbox = sandbox(&link);
        assert_eq!(sandbox.hindrance(&two, Right::Read), None);
        assert!(sandbox.hindrance(folder.path(), Right::Read).is_some());
        assert!(sandbox.hindrance(&two, Right::Write).is_some());
    }
}
