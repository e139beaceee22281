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
pub(super) struct Stamps(Vec<(PathBuf, Option<Stamp>)>);

impl Stamps {
    /// Reads the stamps. Call it before the files are read: what changes meanwhile is found at the next look.
    pub(super) fn of(plan: &Plan) -> Self {
        let stamped = |file: PathBuf| {
            let stamp = stamp(&file);
            (file, stamp)
        };
        Self(files(plan).into_iter().map(stamped).collect())
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
