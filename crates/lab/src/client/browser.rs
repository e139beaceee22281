//! Browsers as the client: pages, loaded by `altway lab browse` in the client's namespace.

use super::{FetchJob, Fetched, parse, run};
use crate::{Error, browser, presets};
use altway_record::Client;
use altway_units::duration;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// The folder in the workspace for the browsers' own.
const FOLDER: &str = "browsers";

/// Checks that the browser is there; returns its version.
pub(super) fn check(client: Client) -> Result<String, Error> {
    let program = browser::program(client);
    let version = program
        .and_then(|program| presets::version_of(&program.display().to_string(), "--version"));
    version.ok_or(Error::NoClient { client })
}

pub(super) fn fetch(job: &FetchJob<'_>, stop: &AtomicBool) -> Fetched {
    match fetch_with_browser(job, stop) {
        Ok(fetched) => fetched,
        Err(error) => Fetched::Failed(error.to_string()),
    }
}

fn fetch_with_browser(job: &FetchJob<'_>, stop: &AtomicBool) -> Result<Fetched, Error> {
    let visit = job.visit_file()?;
    let parent = job.testbed.workspace.state(FOLDER)?;
    // Removed here, for a driver that is ended can't do it.
    let folder = tempfile::tempdir_in(&parent).map_err(|source| Error::Folder {
        action: "create a folder in",
        path: parent.clone(),
        source,
    })?;
    let command = command(job, &visit, folder.path());
    Ok(match run(command, job, stop) {
        Ok(ended) => parse(&ended.stdout, None).unwrap_or_else(|| {
            let said = ended.stderr.trim().trim_start_matches("error: ");
            Fetched::Failed(match said {
                "" => format!("{} gave no measurement", job.cell.client),
                said => said.to_owned(),
            })
        }),
        Err(fetched) => fetched,
    })
}

fn command(job: &FetchJob<'_>, visit: &Path, folder: &Path) -> Command {
    let testbed = job.testbed;
    let mut command = testbed.network.client_command(testbed.binary);
    command.args(["lab", "browse", job.cell.client.name()]);
    command.args(["--address", &testbed.network.server_address().to_string()]);
    if testbed.is_named() {
        command.args(["--host", &testbed.host()]);
    }
    command.args(["--port", &job.port.to_string()]);
    command.args(["--protocol", &job.protocol.to_string()]);
    command.args([
        "--key-digest",
        &testbed
            .workspace
            .certificates(testbed.certificate)
            .spki_sha256_base64,
    ]);
    command.arg("--visit").arg(visit);
    command.arg("--folder").arg(folder);
    if let Some(file) = testbed.traces.netlog(job.cell.client) {
        command.arg("--netlog").arg(file);
    }
    command
        .arg("--timeout")
        .arg(duration::format(job.request_timeout()));
    command
}
