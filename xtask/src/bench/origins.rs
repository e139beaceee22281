//! `cargo xtask bench origins`: a page of real applications in browsers, through proxies, over links of the lab.
//!
//! The applications and the plans stand in `examples/origins`. Here they are built, installed and found by `PATH`, the
//! plans are run by the binary's own lab, and its rows become one table. Left to the lab: links, browsers, order, and
//! which transfers count.

use super::arguments::chosen_or_all;
use super::contender::Contender;
use super::folder::new_folder;
use super::origin::Origin;
use super::process::Stop;
use super::{cores, install, origins_table};
use crate::{go, shell};
use anyhow::{Context, Result, ensure};
use std::env::{join_paths, split_paths, var_os};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder of the applications and the plans.
const FOLDER: &str = "examples/origins";

/// The plans, the first of which has the proxy that the others are held against.
const PLANS: [&str; 2] = ["h2", "h3"];

/// The file that both plans include.
const INCLUDED: &str = "page.toml";

/// Debian's packages, and the program that shows that each is there.
const PACKAGES: [(&str, &str); 4] = [
    ("chromium", "chromium"),
    ("firefox-esr", "firefox-esr"),
    ("nodejs", "node"),
    ("python3", "python3"),
];

const ROUNDS: u32 = 5;

/// Load a page of 50 objects from applications on axum, Node and Python through altway, nginx and Caddy, with Chromium
/// and Firefox, over three links of the lab.
///
/// Builds the release binary and the application on axum, installs what is missing (as root), and runs the plans of
/// examples/origins: over HTTP/2 all three proxies, over HTTP/3 altway and Caddy. Prints a table and writes both runs
/// of the lab and the table into a folder under results/ (a quick run: under runs/). A round takes about 6 minutes.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  cargo xtask bench origins                  # the whole of it, about half an hour
  cargo xtask bench origins --quick          # does it work? One round over one link
  cargo xtask bench origins --rounds 12 --links mobile")]
pub(crate) struct Arguments {
    /// Rounds, in each of which everything is loaded once [default: 5; quick: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Links to load over: LAN, DSL, mobile [default: all; quick: DSL].
    #[arg(long, value_name = "LINKS", value_delimiter = ',')]
    links: Vec<String>,
    /// One round over one link: to see that it works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// Take altway from this folder and the application from `examples` in it, as cargo lays them out, instead of
    /// building them.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Write the folder in here [default: results, quick: runs].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let programs = arguments.programs()?;
    let stop = Stop::on_signals()?;
    let path = installed(&programs)?;
    stop.check()?;
    let origin = Origin::of_binary(&programs.join("altway"))?;
    let name = origin.folder_name("origins", cores::available()?.len());
    let folder = new_folder(&arguments.parent(), &name)?;
    fs::write(
        folder.join("setup.json"),
        serde_json::to_string_pretty(&origin)? + "\n",
    )?;
    let plans = arguments.plans()?;
    let mut rows = Vec::new();
    for plan in PLANS {
        stop.check()?;
        let runs = folder.join(plan);
        shell::say(&format!("altway lab run {FOLDER}/{plan}.toml"));
        let mut lab = Command::new(programs.join("altway"));
        lab.args(["lab", "run"])
            .arg(plans.path().join(format!("run-{plan}.toml")));
        lab.arg("--runs").arg(&runs).env("PATH", &path);
        // What it prints is in its folder as well.
        let status = lab.stdout(Stdio::null()).status()?;
        ensure!(
            status.success(),
            "`altway lab run {plan}.toml` failed: {status}"
        );
        rows.extend(rows_of(&runs)?);
    }
    let text = origins_table::text(&rows);
    fs::write(folder.join("summary.txt"), &text)?;
    shell::data(&text)?;
    shell::say(&format!("written to {}", folder.display()));
    Ok(())
}

impl Arguments {
    fn programs(&self) -> Result<PathBuf> {
        let folder = match &self.programs {
            Some(folder) => folder.clone(),
            None => {
                shell::run("cargo build --release --locked -p altway")?;
                shell::run("cargo build --release --locked -p altway-serve --example origin-axum")?;
                shell::target_folder().join("release")
            }
        };
        // Servers are started from other folders.
        std::path::absolute(&folder).with_context(|| format!("no {}", folder.display()))
    }

    fn parent(&self) -> PathBuf {
        let default = if self.quick { "runs" } else { "results" };
        self.out.clone().unwrap_or(default.into())
    }

    /// The plans in a folder, as they are run: with the rounds and links that are wanted.
    fn plans(&self) -> Result<tempfile::TempDir> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let read = |name: &str| {
            let path = Path::new(FOLDER).join(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let page = read(INCLUDED)?;
        let quick = ["DSL".to_owned()];
        let links = match self.quick {
            true => chosen_or_all(&self.links, &quick),
            false => self.links.clone(),
        };
        fs::write(folder.path().join(INCLUDED), only_links(&page, &links)?)?;
        let rounds = self.rounds.unwrap_or(if self.quick { 1 } else { ROUNDS });
        for plan in PLANS {
            let name = format!("{plan}.toml");
            fs::write(folder.path().join(&name), read(&name)?)?;
            let run = format!("include = \"{name}\"\npairs = {rounds}\n");
            fs::write(folder.path().join(format!("run-{name}")), run)?;
        }
        Ok(folder)
    }
}

/// The plan `page` with those of its links that are called `wanted`; none: with all.
fn only_links(page: &str, wanted: &[String]) -> Result<String> {
    let mut plan: toml::Table = page.parse()?;
    let links = plan.get_mut("link").and_then(toml::Value::as_array_mut);
    let links = links.context("the plan has no links")?;
    let name_of = |link: &toml::Value| link["name"].as_str().map(str::to_owned);
    let names: Vec<String> = links.iter().filter_map(name_of).collect();
    let unknown = wanted.iter().find(|name| !names.contains(name));
    if let Some(unknown) = unknown {
        anyhow::bail!(
            "there is no link `{unknown}`: the plan has {}",
            names.join(", ")
        );
    }
    links.retain(|link| {
        wanted.is_empty() || name_of(link).is_some_and(|name| wanted.contains(&name))
    });
    Ok(toml::to_string(&plan)?)
}

/// Installs what is missing, and gives the `PATH` by which all that takes part is found.
fn installed(programs: &Path) -> Result<OsString> {
    go::install_caddy().context("Caddy is missing")?;
    let proxies = [Contender::Nginx, Contender::Caddy];
    let there = install::peers(&proxies, programs)?;
    ensure!(there == proxies, "nginx and Caddy are held against altway");
    let missing = |(_, program): &&(&str, &str)| shell::find(program).is_none();
    let packages: Vec<_> = PACKAGES
        .iter()
        .filter(missing)
        .map(|(name, _)| *name)
        .collect();
    if !packages.is_empty() {
        install::install(&packages)?;
    }
    if let Some((package, program)) = PACKAGES.iter().find(missing) {
        anyhow::bail!("{program} is missing: install the package {package}");
    }
    let application = programs.join("examples/origin-axum");
    ensure!(
        application.is_file(),
        "there is no {}",
        application.display()
    );
    let of_proxies = proxies.iter().filter_map(|proxy| proxy.program(programs));
    let of_proxies = of_proxies.filter_map(|program| Some(program.parent()?.to_owned()));
    let ours = [
        std::path::absolute(FOLDER)?,
        programs.to_owned(),
        programs.join("examples"),
    ];
    let given = var_os("PATH").unwrap_or_default();
    let all = ours
        .into_iter()
        .chain(of_proxies)
        .chain(split_paths(&given));
    Ok(join_paths(all)?)
}

/// The transfers of the one run in `runs`.
fn rows_of(runs: &Path) -> Result<Vec<origins_table::Row>> {
    let mut folders = fs::read_dir(runs)
        .with_context(|| format!("no run in {}", runs.display()))?
        .filter_map(|entry| Some(entry.ok()?.path().join("samples.csv")))
        .filter(|samples| samples.is_file());
    let samples = folders
        .next()
        .with_context(|| format!("no samples in {}", runs.display()))?;
    let mut reader = csv::Reader::from_path(&samples)?;
    let rows = reader.deserialize().collect::<Result<Vec<_>, _>>();
    rows.with_context(|| format!("cannot read {}", samples.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../examples/origins/page.toml");
    const CATALOGUE: &str = include_str!("../../../examples/origins/catalogue.json");

    #[test]
    fn the_plans_page_is_that_of_the_applications() {
        let bytes = |text: &str| {
            let thousands: u64 = text.trim_end_matches("KB").parse().unwrap();
            thousands * 1000
        };
        let plan: toml::Table = PAGE.parse().unwrap();
        let objects = plan["page"]["objects"].as_array().unwrap().iter();
        let planned: Vec<u64> = objects
            .flat_map(|words| {
                let words = words.as_str().unwrap();
                let (count, size) = words.split_once(" x ").unwrap_or(("1", words));
                vec![bytes(size); count.parse().unwrap()]
            })
            .collect();
        let catalogue: serde_json::Value = serde_json::from_str(CATALOGUE).unwrap();
        let pictures = catalogue["pictures"].as_array().unwrap().iter();
        let shown: Vec<u64> = pictures.map(|one| one["bytes"].as_u64().unwrap()).collect();
        assert_eq!(planned, shown);
        assert_eq!(shown.len(), 50);
        let html = bytes(plan["page"]["html"].as_str().unwrap());
        assert_eq!(Some(html), catalogue["document_bytes"].as_u64());
    }

    #[test]
    fn links_are_chosen_by_name() {
        let chosen = only_links(PAGE, &["mobile".into()]).unwrap();
        assert!(chosen.contains("\"mobile\"") && !chosen.contains("\"DSL\""));
        assert!(only_links(PAGE, &[]).unwrap().contains("\"LAN\""));
        let error = only_links(PAGE, &["moon".into()]).unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no link `moon`: the plan has LAN, DSL, mobile"
        );
    }
}
