//! A look at the files of certificates now and then, for those that were replaced.

use super::acme;
use altway_config::{Plan, Secret};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time from one look at the files to the next.
pub(super) const INTERVAL: Duration = Duration::from_secs(30);

/// The properties that tell a file from the one that had its name before: device, inode, and time of the last change. A symbolic
/// link counts as what it leads to, through however many folders, as Kubernetes swaps them.
type Stamp = (u64, u64, i64, i64);

/// The files of a plan's certificates as they were when they were read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamps {
    files: Vec<(PathBuf, Option<Stamp>)>,
    /// The fault that kept one of them from being read, or from use.
    pub(super) unread: Option<String>,
}

impl Stamps {
    /// Reads the stamps. Call it before the files are read: what changes meanwhile is found at the next look.
    pub(super) fn of(plan: &Plan) -> Self {
        let stamped = |file: PathBuf| {
            let stamp = stamp(&file);
            (file, stamp)
        };
        Self {
            files: files(plan).into_iter().map(stamped).collect(),
            unread: None,
        }
    }

    /// Returns true if the files are to be read again, these being their stamps now: one has changed, or could not be
    /// read, which nothing about the file may show.
    pub(super) fn are_outdated(&self, now: &Self) -> bool {
        self.unread.is_some() || self.files != now.files
    }
}

/// Chains, keys, OCSP responses, roots of clients and lists of revoked certificates; a key in the environment can't change.
fn files(plan: &Plan) -> Vec<PathBuf> {
    let certificates = plan.sites().iter().flat_map(|site| &site.certificates);
    let clients = plan.sites().iter();
    let clients = clients.filter_map(|site| site.client_certificates.as_ref());
    let clients = clients.flat_map(|it| [&it.roots].into_iter().chain(&it.revocation));
    let mut files: Vec<_> = clients.cloned().collect();
    files.extend(acme::files(plan));
    for certificate in certificates {
        files.push(certificate.chain.clone());
        files.extend(certificate.ocsp.clone());
        match &certificate.key {
            Secret::File(key) => files.push(key.clone()),
            Secret::Credential(name) => {
                let folder = std::env::var_os("CREDENTIALS_DIRECTORY");
                files.extend(folder.map(|folder| Path::new(&folder).join(name)));
            }
            Secret::Env(_) => {}
        }
    }
    files
}

/// `None`: there is no such file, or it is closed to us.
fn stamp(file: &Path) -> Option<Stamp> {
    let found = fs::metadata(file).ok()?;
    Some((found.dev(), found.ino(), found.mtime(), found.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_config::{NoFiles, read};
    use std::os::unix::fs::symlink;

    #[test]
    fn files_that_are_replaced_rewritten_or_swapped_by_a_link_have_other_stamps() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for folder in ["1", "2"] {
            fs::create_dir(at(folder)).unwrap();
            fs::write(at(folder).join("a.key"), folder).unwrap();
        }
        // As Kubernetes mounts secrets: a link to a folder that is itself a link.
        symlink(at("1"), at("data")).unwrap();
        symlink(at("data").join("a.key"), at("a.key")).unwrap();
        fs::write(at("a.pem"), "chain").unwrap();
        let text = format!(
            "[[site]]\nnames = [\"a.example\"]\ncertificate = {{ chain = {:?}, key = {:?} }}\nroute = [{{ files = \"site\" }}]\n",
            at("a.pem"),
            at("a.key")
        );
        let plan = read("altway.toml", &text, &mut NoFiles).unwrap();
        let mut before = Stamps::of(&plan);
        assert!(!before.are_outdated(&Stamps::of(&plan)));
        let mut is_another = |what: &str| {
            let now = Stamps::of(&plan);
            assert!(before.are_outdated(&now), "{what}");
            before = now;
        };
        fs::write(at("new"), "chain").unwrap();
        fs::rename(at("new"), at("a.pem")).unwrap();
        is_another("renamed over");
        symlink(at("2"), at("new")).unwrap();
        fs::rename(at("new"), at("data")).unwrap();
        is_another("swapped");
        fs::remove_file(at("a.pem")).unwrap();
        is_another("taken away");
    }
}
