//! `altway config show`: a configuration as a text, from a file or from options.

use crate::commands::serve::Flags;
use crate::config_file;
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_admin::Address;
use altway_config::{Action, Certificate, ClientCertificates, Config, Plan, PrintExtent, Secret};
use anyhow::Result;
use clap::Parser;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Print the configuration of FILE, or the one that equals options of `altway serve`.
///
/// Keys are printed that differ from their defaults, and included sites in place. Paths of options are made absolute,
/// so that the file can be anywhere.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The configuration.
    #[arg(value_name = "FILE", conflicts_with = "serve")]
    file: Option<PathBuf>,
    /// Print every key, with its meaning and its default.
    #[arg(long)]
    all: bool,
    /// Options of `altway serve`, in place of FILE.
    #[arg(
        last = true,
        value_name = "OPTIONS OF SERVE",
        allow_hyphen_values = true
    )]
    serve: Vec<OsString>,
}

/// A command line of `altway serve`, after its name.
#[derive(Debug, Parser)]
#[command(
    name = "altway config show --",
    no_binary_name = true,
    disable_help_flag = true
)]
struct Serve {
    /// The admin socket: an option beside --config as well, so not one of the flags.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<Address>,
    #[command(flatten)]
    flags: Flags,
}

pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<()> {
    let plan = match &arguments.file {
        Some(file) => config_file::load(file)?.0,
        None if arguments.serve.is_empty() => {
            return Err(usage_error(
                "there is nothing to show",
                "give a file, or options of `altway serve`: `altway config show -- DIR --port 443`",
            ));
        }
        None => of_options(&arguments.serve, printer)?,
    };
    let shown = if arguments.all {
        PrintExtent::All
    } else {
        PrintExtent::Given
    };
    printer.data(&plan.config().to_toml(shown))?;
    Ok(())
}

fn of_options(options: &[OsString], printer: &Printer) -> Result<Plan> {
    let serve = Serve::try_parse_from(options).unwrap_or_else(|error| error.exit());
    let mut config = serve.flags.config(printer)?;
    config.admin = serve.admin.map(absolute_address).transpose()?;
    make_absolute(&mut config)?;
    Plan::check(config).map_err(config_file::of_options)
}

fn absolute_address(admin: Address) -> Result<String> {
    Ok(match admin {
        Address::Unix(path) => std::path::absolute(path)?.display().to_string(),
        Address::Loopback(address) => address.to_string(),
    })
}

/// Paths of options are relative to the working folder, those of a file to its own.
fn make_absolute(config: &mut Config) -> Result<()> {
    let log = &mut config.log;
    let access = log.access.as_mut().filter(|path| *path != Path::new("-"));
    let one = [
        config.state.as_mut(),
        config.takeover.as_mut(),
        access,
        log.selection.as_mut(),
        log.qlog.as_mut(),
        log.keylog.as_mut(),
    ];
    let mut paths: Vec<&mut PathBuf> = one.into_iter().flatten().collect();
    for site in &mut config.sites {
        for Certificate { chain, key, ocsp } in &mut site.certificates {
            paths.push(chain);
            paths.extend(ocsp.as_mut());
            if let Secret::File(file) = key {
                paths.push(file);
            }
        }
        if let Some(ClientCertificates {
            roots, revocation, ..
        }) = &mut site.client_certificates
        {
            paths.push(roots);
            paths.extend(revocation);
        }
        if let Some(file) = site.policy.file_mut() {
            *file = std::path::absolute(&*file)?.to_string_lossy().into_owned();
        }
        for route in &mut site.routes {
            match &mut route.action {
                Action::Files(files) => paths.push(&mut files.root),
                Action::Upload(upload) => paths.push(&mut upload.folder),
                _ => {}
            }
        }
    }
    for path in paths {
        *path = std::path::absolute(&*path)?;
    }
    Ok(())
}
