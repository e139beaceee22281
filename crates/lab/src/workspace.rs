//! The folder of a run's objects, certificates and server files; gone with the run's end.

use crate::process::{process_error, start_error};
use crate::{Error, image};
use altway_emulate::Scratch;
use altway_record::{Certificate, Chain, MadeCertificate, OPENER_SIZE, Plan, Visit, object_path};
use altway_units::DataSize;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder in the workspace that is served.
const OBJECTS: &str = "objects";

/// The host name in the certificate beside the server's addresses, by which browsers know the
/// server.
pub(crate) const HOST: &str = "altway.test";

/// Folder of a run's objects, certificates and server logs.
#[derive(Debug)]
pub(crate) struct Workspace {
    folder: Scratch,
    certificates: BTreeMap<Certificate, Certificates>,
}

impl Workspace {
    /// Makes what the plan fetches, and a certificate for the `addresses`.
    pub(crate) fn create(
        binary: &Path,
        plan: &Plan,
        addresses: &BTreeSet<IpAddr>,
    ) -> Result<Self, Error> {
        let parent = std::env::temp_dir();
        let failed = |source| Error::Folder {
            action: "create a folder in",
            path: parent.clone(),
            source,
        };
        let folder = Scratch::create().map_err(failed)?;
        write_objects(&folder.path().join(OBJECTS), plan).map_err(failed)?;
        let certs = folder.path().join("certs");
        let make = |kind: &Certificate| {
            let made = Certificates::make(binary, &certs, addresses, plan, *kind)?;
            Ok((*kind, made))
        };
        let certificates = plan.certificates.iter().map(make);
        let certificates = certificates.collect::<Result<_, Error>>()?;
        Ok(Self {
            folder,
            certificates,
        })
    }

    /// The files of a certificate of the plan.
    pub(crate) fn certificates(&self, kind: Certificate) -> &Certificates {
        &self.certificates[&kind]
    }

    /// The folder that is served.
    pub(crate) fn objects(&self) -> PathBuf {
        self.folder.path().join(OBJECTS)
    }

    /// A folder of that name for a program's own files, made if there is none.
    pub(crate) fn state(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).map_err(|source| Error::Folder {
            action: "create",
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }

    /// A visit as a file; the same visit gives the same file.
    pub(crate) fn visit(&self, name: &str, visit: &Visit) -> Result<PathBuf, Error> {
        let path = self.folder.path().join(format!("visit-{name}.json"));
        if !path.exists() {
            let text = serde_json::to_vec(visit).expect("a visit is JSON");
            crate::write_whole(&path, &text)?;
        }
        Ok(path)
    }
}

/// The paths that `altway certs` printed.
#[derive(Debug, Deserialize)]
pub(crate) struct Certificates {
    pub(crate) ca_certificate: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) spki_sha256_base64: String,
    /// The name by which clients believe it, where it is not for the server's address.
    pub(crate) host: Option<String>,
}

impl Certificates {
    fn make(
        binary: &Path,
        folder: &Path,
        addresses: &BTreeSet<IpAddr>,
        plan: &Plan,
        kind: Certificate,
    ) -> Result<Self, Error> {
        let name = "altway certs";
        let mut command = Command::new(binary);
        command.args(["certs", "--json", "--dir"]).arg(folder);
        match kind {
            Certificate::Made(made) => {
                let addresses = addresses.iter().map(ToString::to_string);
                command.arg(HOST).args(addresses);
                if made == MadeCertificate::RsaChain {
                    command.arg("--rsa-chain");
                }
            }
            Certificate::Chain(name) => {
                let lost = || process_error(name.as_str(), "the plan does not say where it is");
                let chain = plan.chain(name).ok_or_else(lost)?;
                same_as_planned(chain).map_err(|reason| process_error(name.as_str(), &reason))?;
                command.arg("--chain").arg(&chain.path);
            }
        }
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| start_error(name, &error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim().trim_start_matches("error: ");
            return Err(process_error(name, said));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| process_error(name, &error.to_string()))
    }
}

/// A run that goes on with a chain of another size would measure something else.
fn same_as_planned(chain: &Chain) -> Result<(), String> {
    let text = fs::read_to_string(&chain.path)
        .map_err(|error| format!("cannot read {}: {error}", chain.path))?;
    let now = Chain::read(&chain.path, &text)?;
    match now.size == chain.size {
        true => Ok(()),
        false => Err(format!(
            "{} has {} bytes of certificates, and had {} when the run was begun",
            chain.path,
            now.size.as_bytes(),
            chain.size.as_bytes()
        )),
    }
}

fn write_objects(folder: &Path, plan: &Plan) -> io::Result<()> {
    fs::create_dir(folder)?;
    let sizes = plan
        .sizes
        .iter()
        .flat_map(|size| plan.scenario.objects(*size));
    for size in sizes.chain([OPENER_SIZE]) {
        write_object(&folder.join(&object_path(size)[1..]), size)?;
    }
    let pages = plan
        .sizes
        .iter()
        .flat_map(|size| plan.scenario.pages(*size));
    for page in pages {
        let html = page.to_html().expect("a plan's page fits its HTML");
        fs::write(folder.join(&page.path()[1..]), html)?;
    }
    Ok(())
}

/// An image for browsers, of bytes that no one can compress, so that nothing on the way makes the
/// object smaller.
fn write_object(path: &Path, size: DataSize) -> io::Result<()> {
    let mut file = io::BufWriter::new(File::create(path)?);
    image::write(&mut file, size)?;
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_a_page_names_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let text = "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms\"\npairs = 1\nscenario = \"page\"\n[page]\nhtml = \"1KB\"\nobjects = [\"2 x 3KB\", \"7KB\"]";
        let objects = folder.path().join("objects");
        write_objects(&objects, &text.parse().unwrap()).unwrap();
        let length = |name: &str| fs::metadata(objects.join(name)).unwrap().len();
        assert_eq!(length("page-14000.html"), 1_000);
        assert_eq!(length("page-125.html"), 125);
        assert_eq!((length("3000.bin"), length("7000.bin")), (3_000, 7_000));
        assert_eq!(length("125.bin"), 125);
    }
}
