//! The files and the certificate that every server serves, in a temporary folder.

use super::workload::{LARGE_BYTES, Load, PATHS, SMALL_BYTES};
use anyhow::{Context, Result, ensure};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The paths of the files that the servers serve.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) root: PathBuf,
    /// Chain of the server's certificate, ECDSA P-256, PEM.
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// The authority that signed it, PEM.
    pub(crate) authority: PathBuf,
}

/// The small file.
pub(crate) const SMALL: &str = "/600.txt";

/// The large file.
pub(crate) const LARGE: &str = "/10m.txt";

impl Site {
    /// The paths of a site in `folder`, whether it is there or not.
    pub(crate) fn named(folder: &Path) -> Self {
        let certificates = folder.join("certificates");
        Self {
            root: folder.join("site"),
            certificate: certificates.join("localhost.pem"),
            key: certificates.join("localhost-key.pem"),
            authority: certificates.join("ca.pem"),
        }
    }

    /// Makes files and certificate in `folder`; the certificate by `altway` itself.
    ///
    /// # Errors
    /// The folder can't be written to, or `altway certs` fails.
    pub(crate) fn make(folder: &Path, altway: &Path) -> Result<Self> {
        // Servers that give up root's rights read the files as somebody else.
        fs::set_permissions(folder, Permissions::from_mode(0o755))?;
        let mut site = Self::named(folder);
        fs::create_dir(&site.root)?;
        write(&site.root, SMALL, SMALL_BYTES)?;
        write(&site.root, LARGE, LARGE_BYTES)?;
        for path in many() {
            write(&site.root, &path, SMALL_BYTES)?;
        }
        site.sign(&folder.join("certificates"), altway)?;
        Ok(site)
    }

    fn sign(&mut self, folder: &Path, altway: &Path) -> Result<()> {
        let output = Command::new(altway)
            .args(["certs", "--json", "--dir"])
            .arg(folder)
            .output()
            .with_context(|| format!("cannot start {}", altway.display()))?;
        ensure!(output.status.success(), "`altway certs` failed");
        let files: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let path = |name: &str| -> Result<PathBuf> {
            let path = files[name].as_str();
            Ok(path.with_context(|| format!("no `{name}`"))?.into())
        };
        self.certificate = path("certificate")?;
        self.key = path("key")?;
        self.authority = path("ca_certificate")?;
        Ok(())
    }
}

/// The paths that `load` asks for, in turn.
pub(crate) fn paths(load: Load) -> Vec<String> {
    if load.paths > 1 {
        many().take(load.paths).collect()
    } else if load.body_bytes == LARGE_BYTES {
        vec![LARGE.into()]
    } else {
        vec![SMALL.into()]
    }
}

/// The paths of W5.
fn many() -> impl Iterator<Item = String> {
    (0..PATHS).map(|number| format!("/many-{number:03}.txt"))
}

fn write(root: &Path, path: &str, bytes: u64) -> Result<()> {
    let text = b"0123456789abcdefghijklmnopqrstuvwxyz\n";
    let length = usize::try_from(bytes).expect("the files are small");
    let content: Vec<u8> = text.iter().copied().cycle().take(length).collect();
    Ok(fs::write(root.join(path.trim_start_matches('/')), content)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_another() {
        let mut paths: Vec<_> = many().collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), PATHS);
    }

    #[test]
    fn files_have_their_size() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "/a.txt", 600).unwrap();
        let length = fs::metadata(folder.path().join("a.txt")).unwrap().len();
        assert_eq!(length, 600);
    }
}
