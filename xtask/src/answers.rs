//! `cargo xtask answers`: what altway answers to the table of requests for a folder, beside nginx, Caddy and
//! static-web-server; each difference must have a reason.
//!
//! The table and the reasons stand in `crates/serve/tests/requests`, what came of them in `docs/answers.md`. Left to
//! others: that altway's answers are the same over its protocols (`serve/tests/it/requests.rs`).

mod answer;
mod client;
mod differences;
mod document;
mod install;
mod pattern;
mod reasons;
mod servers;
#[allow(
    clippy::unwrap_used,
    reason = "shared with the tests: a table that can't be read ends both"
)]
#[path = "../../crates/serve/tests/requests/table.rs"]
mod table;

use crate::scratch::Scratch;
use crate::shell;
use answer::Answer;
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use client::Client;
use reasons::Reasons;
use servers::{Protocol, Server, ServerSetup, Software};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Answers {
    /// Print every difference with its reason.
    #[arg(long)]
    list: bool,
    /// Write docs/answers.md anew.
    #[arg(long)]
    write: bool,
    /// Build of altway [default: target/debug/altway, built].
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// A server's answers to all rows of the table, by protocol.
type All = BTreeMap<Protocol, Vec<Answer>>;

pub(crate) fn run(arguments: &Answers) -> Result<()> {
    let reasons = Reasons::read()?;
    let program = altway(arguments)?;
    let scratch = Scratch::new()?;
    // nginx reads files as another user.
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o755))?;
    let root = scratch.path().join("folder/site");
    table::make(&root);
    let place = ServerSetup {
        root: &root,
        folder: scratch.path(),
        altway: &program,
    };
    let ours = all_answers(Software::Altway, &place)?.context("altway was just built")?;
    let (mut differences, mut versions, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for peer in Software::PEERS {
        match all_answers(peer, &place)? {
            Some(theirs) => {
                differences.extend(differences::between(peer, &ours, &theirs));
                versions.push((peer, servers::version(peer)?));
            }
            None => missing.push(peer),
        }
    }
    let explained = reasons.explain(differences, &missing);
    if arguments.list {
        shell::data(&explained.list())?;
    }
    explained.must_be_whole()?;
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
        ensure!(!arguments.write, "not there: {}", names.join(", "));
        shell::say(&format!(
            "the rest is explained, docs/answers.md is not compared; not there: {}",
            names.join(", ")
        ));
        return Ok(());
    }
    document::settle(&document::text(&explained, &versions), arguments.write)
}

/// The build of altway that is asked.
fn altway(arguments: &Answers) -> Result<PathBuf> {
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => {
            shell::run("cargo build --locked -p altway")?;
            shell::target_folder().join("debug/altway")
        }
    };
    Ok(std::path::absolute(program)?)
}

/// Answers of a server; `None` where it can't be had.
fn all_answers(software: Software, place: &ServerSetup) -> Result<Option<All>> {
    let Some(server) = Server::start(software, place)? else {
        return Ok(None);
    };
    let mut all = All::new();
    for (protocol, address) in server.addresses() {
        let client = Client::new(place.folder, address, protocol);
        let answers = ask(&client).with_context(|| format!("{software} over {protocol}"))?;
        all.insert(protocol, answers);
    }
    Ok(Some(all))
}

fn ask(client: &Client) -> Result<Vec<Answer>> {
    let mut tags = BTreeMap::new();
    let etag = |target| {
        let tag = tags.entry(target).or_insert_with(|| client.etag(target));
        tag.clone()
    };
    let rows = table::requests(etag);
    let files = table::files();
    let responses = client.ask(&rows)?;
    let answers = responses.iter().map(|it| Answer::of(it, &files));
    Ok(answers.collect())
}

/// The rows of the table, whatever the entity tags are.
fn rows() -> Vec<table::Row> {
    table::requests(|_| "\"\"".to_owned())
}
