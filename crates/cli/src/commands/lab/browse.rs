//! `altway lab browse` and `altway lab tether`: what the lab runs at the client's end of the link where
//! a browser is the client. Neither is meant to be typed, and both can be, to see what a browser does.

use crate::Answer;
use crate::commands::load::read_visit;
use crate::printer::Printer;
use altway_lab::browser::{self, PageLoad};
use altway_record::{Client, Protocol, RequestRecord};
use altway_units::duration;
use anyhow::{Context, Result};
use serde::Serialize;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Load the pages of a visit with a browser, and print what it measured of each request as JSON.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
The browser begins with an empty profile and is ended with all its processes. A request that it did
not make, or over another protocol than the one asked for, is in the output too, and says so.

A visit with `sessions` is not told a protocol: the browser goes where Alt-Svc leads it, and is started
anew for each session with the profile of the one before, whose entries are made older by the time that
passes between them. A further visit with the same folder goes on from there.")]
pub(super) struct BrowseArguments {
    /// The browser: chromium or firefox.
    #[arg(value_parser = browser)]
    browser: Client,
    /// A JSON file that says what is fetched: pages, and what they name.
    #[arg(long, value_name = "FILE")]
    visit: PathBuf,
    /// The name in the pages' URLs.
    #[arg(long, default_value = "altway.test")]
    host: String,
    /// The server's address.
    #[arg(long, value_name = "IP")]
    address: IpAddr,
    /// The server's port.
    #[arg(long)]
    port: u16,
    /// The only protocol that the browser is let use: h1, h2 or h3. Visits with sessions use any.
    #[arg(short, long, default_value_t = Protocol::H2)]
    protocol: Protocol,
    /// The base64 of the SHA-256 of the server's public key, which is trusted.
    #[arg(long, value_name = "BASE64")]
    key_digest: String,
    /// A folder for the browser's files: an empty one, or that of a visit with sessions before.
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// Time that a page may take.
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = duration::parse)]
    timeout: Duration,
    /// Have Chromium write its log of its network to this file.
    #[arg(long, value_name = "FILE")]
    netlog: Option<PathBuf>,
}

/// Become another program, which ends when the process that started this one does.
#[derive(Debug, clap::Args)]
pub(super) struct DieWithParentArguments {
    /// The process that started this one.
    parent: i32,
    /// The program.
    program: OsString,
    /// The program's arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// The output, as `altway load --json` prints it, so that the lab reads both alike.
#[derive(Serialize)]
struct Output {
    requests: Vec<RequestRecord>,
    summary: Summary,
}

#[derive(Serialize)]
struct Summary {
    /// Switches of all the browser's processes, its start included.
    involuntary_context_switches: u64,
}

pub(super) fn browse(arguments: &BrowseArguments, printer: &Printer) -> Result<Answer> {
    let folder = std::path::absolute(&arguments.folder).context("cannot find the folder")?;
    let visit = read_visit(&arguments.visit)?;
    visit.check()?;
    let requests = browser::browse(&PageLoad {
        browser: arguments.browser,
        host: arguments.host.clone(),
        address: arguments.address,
        port: arguments.port,
        protocol: arguments.protocol,
        visit,
        key_digest: arguments.key_digest.clone(),
        folder,
        timeout: arguments.timeout,
        netlog: arguments.netlog.clone(),
    })?;
    let failed = requests.iter().any(|request| request.error.is_some());
    printer.json(&Output {
        requests,
        summary: Summary {
            involuntary_context_switches: altway_emulate::children_involuntary_switches(),
        },
    })?;
    Ok(if failed { Answer::No } else { Answer::Done })
}

pub(super) fn exec_with_parent(arguments: &DieWithParentArguments) -> Result<Answer> {
    let program = &arguments.program;
    let error = browser::exec_with_parent(arguments.parent, program, &arguments.arguments);
    Err(error).with_context(|| format!("cannot start `{}`", program.display()))
}

fn browser(text: &str) -> Result<Client, String> {
    let client = text.parse::<Client>().ok();
    let browser = client.filter(|client| client.is_browser());
    browser.ok_or_else(|| "expected chromium or firefox".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_browsers_browse() {
        assert_eq!(browser("firefox"), Ok(Client::Firefox));
        assert!(browser("curl").is_err());
        assert!(browser("lynx").is_err());
    }
}
