//! Making clients believe the local authority.

use super::file_error;
use crate::Error;
use std::fs;
use std::io;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The place where a system keeps the authorities that its owner has added.
#[derive(Debug)]
struct SystemStore {
    anchors: PathBuf,
    /// The file's name there; Debian reads `.crt` alone.
    file: &'static str,
    rebuild: &'static [&'static str],
}

/// Debian's family, then Fedora's.
const SYSTEMS: [(&str, &str, &[&str]); 2] = [
    (
        "/usr/local/share/ca-certificates",
        "altway-local-ca.crt",
        &["update-ca-certificates"],
    ),
    (
        "/etc/pki/ca-trust/source/anchors",
        "altway-local-ca.pem",
        &["update-ca-trust", "extract"],
    ),
];

/// Tells people how to make each kind of client trust the authority. `port`: that of the server, if it is known.
#[must_use]
pub fn instructions(authority: &Path, port: Option<NonZeroU16>) -> String {
    let ca = quoted(authority);
    let port = match port.map(NonZeroU16::get) {
        Some(443) => String::new(),
        Some(port) => format!(":{port}"),
        None => ":PORT".into(),
    };
    format!(
        "\
Debian, Ubuntu     sudo cp {ca} /usr/local/share/ca-certificates/altway-local-ca.crt && sudo update-ca-certificates
Fedora, RHEL       sudo cp {ca} /etc/pki/ca-trust/source/anchors/altway-local-ca.pem && sudo update-ca-trust extract
macOS              sudo security add-trusted-cert -d -r trustRoot -k /Library/Keychains/System.keychain {ca}
Chromium (Linux)   certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n altway-local-ca -i {ca}
Firefox            Settings > Certificates > Authorities > Import; or certutil with -d sql:PROFILE
curl, once         curl --cacert {ca} https://localhost{port}/
"
    )
}

/// Adds the authority to this system's trust store. Needs root. Repeating it changes nothing.
///
/// # Errors
/// The system is unknown, forbids it, or its tool fails.
pub fn install(authority: &Path) -> Result<(), Error> {
    system()?.install(authority)
}

/// Removes the authority from this system's trust store. Needs root. It is no error if it is not there.
///
/// # Errors
/// The system is unknown, forbids it, or its tool fails.
pub fn uninstall() -> Result<(), Error> {
    system()?.uninstall()
}

fn system() -> Result<SystemStore, Error> {
    let stores = SYSTEMS.map(|(anchors, file, rebuild)| SystemStore {
        anchors: anchors.into(),
        file,
        rebuild,
    });
    let mut stores = stores.into_iter();
    stores
        .find(|store| store.anchors.is_dir())
        .ok_or(Error::UnknownTrustStore)
}

impl SystemStore {
    fn install(&self, authority: &Path) -> Result<(), Error> {
        let target = self.anchors.join(self.file);
        let text = fs::read(authority).map_err(file_error("read", authority))?;
        fs::write(&target, text).map_err(file_error("write", &target))?;
        self.rebuild()
    }

    fn uninstall(&self) -> Result<(), Error> {
        let target = self.anchors.join(self.file);
        match fs::remove_file(&target) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed.map_err(file_error("remove", &target))?,
        }
        self.rebuild()
    }

    fn rebuild(&self) -> Result<(), Error> {
        let failed = |reason: String| Error::TrustCommand {
            command: self.rebuild.join(" "),
            reason,
        };
        let status = Command::new(self.rebuild[0])
            .args(&self.rebuild[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .map_err(|error| failed(error.to_string()))?;
        if !status.success() {
            return Err(failed(status.to_string()));
        }
        Ok(())
    }
}

/// A path as a word of a shell.
pub(crate) fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(dir: &Path, rebuild: &'static [&'static str]) -> SystemStore {
        SystemStore {
            anchors: dir.into(),
            file: "ca.crt",
            rebuild,
        }
    }

    #[test]
    fn installs_and_uninstalls_the_authority_any_number_of_times() {
        let dir = tempfile::tempdir().unwrap();
        let authority = dir.path().join("ca.pem");
        fs::write(&authority, "PEM").unwrap();
        let anchors = tempfile::tempdir().unwrap();
        let store = store(anchors.path(), &["true"]);
        for _ in 0..2 {
            store.install(&authority).unwrap();
            assert_eq!(
                fs::read_to_string(anchors.path().join("ca.crt")).unwrap(),
                "PEM"
            );
        }
        for _ in 0..2 {
            store.uninstall().unwrap();
            assert!(!anchors.path().join("ca.crt").exists());
        }
    }

    #[test]
    fn a_tool_that_fails_or_is_missing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let failing = store(dir.path(), &["false", "x"]).rebuild().unwrap_err();
        assert!(
            failing
                .to_string()
                .starts_with("`false x` failed: exit status")
        );
        let missing = store(dir.path(), &["no-such-tool-here"]).rebuild();
        assert!(matches!(missing.unwrap_err(), Error::TrustCommand { .. }));
    }

    #[test]
    fn instructions_survive_a_quote_in_the_path() {
        let text = instructions(Path::new("/it's/ca.pem"), None);
        assert!(text.contains(r"--cacert '/it'\''s/ca.pem'"), "{text}");
    }

    #[test]
    fn instructions_name_the_port_of_the_server() {
        let url = |port| {
            let text = instructions(Path::new("ca.pem"), NonZeroU16::new(port));
            text.trim_end().rsplit(' ').next().unwrap().to_owned()
        };
        assert_eq!(url(9443), "https://localhost:9443/");
        assert_eq!(url(443), "https://localhost/");
        assert_eq!(url(0), "https://localhost:PORT/");
    }
}
