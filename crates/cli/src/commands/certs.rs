//! `altway certs`: a local certificate authority and a certificate that it signed.

use crate::Answer;
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_serve::Error as ServeError;
use altway_serve::certs::{Leaf, Store, SuppliedChain, trust};
use anyhow::Result;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// Make a local certificate authority, and a certificate signed by it.
///
/// The certificate is for localhost, 127.0.0.1, ::1 and the given names. Both are kept and reused; the
/// certificate is renewed before it expires or when it lacks a name. The authority's key never leaves this
/// machine: whoever has it can pose as any site to those who trust it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway certs
  altway certs altway.test '*.altway.test' 192.0.2.7
  altway certs --install        # as root: this system's programs trust the authority")]
pub(crate) struct Arguments {
    /// Further names and addresses that the certificate is for.
    names: Vec<String>,
    /// Folder that keeps authority and certificate [default: $XDG_DATA_HOME/altway/certs, or
    /// ~/.local/share/altway/certs].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Make this system trust the authority (as root).
    #[arg(long, conflicts_with = "uninstall")]
    install: bool,
    /// Make this system no longer trust the authority (as root).
    #[arg(long)]
    uninstall: bool,
    /// Make a chain like those of public authorities instead: leaf, intermediate and root with RSA keys, about 4 KB,
    /// signed by a root whose key is thrown away. For measurements: it is made anew each time.
    #[arg(long, conflicts_with_all = ["install", "uninstall"])]
    rsa_chain: bool,
    /// Make nothing: check a chain of your own, which this PEM file contains with its key, and keep its last
    /// certificate as the one that clients should trust. For measurements.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "install", "uninstall", "rsa_chain"])]
    chain: Option<PathBuf>,
    /// Print the paths of the files as JSON.
    #[arg(long)]
    json: bool,
}

/// The JSON of `--json`.
#[derive(Serialize)]
struct Files<'a> {
    ca_certificate: &'a Path,
    certificate: &'a Path,
    key: &'a Path,
    names: &'a [String],
    /// The host that a chain of the user's own is for.
    host: Option<&'a str>,
    expires: String,
    spki_sha256_base64: &'a str,
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let store = match &arguments.dir {
        Some(dir) => Store::open(dir)?,
        None => Store::open_default()?,
    };
    if arguments.uninstall {
        trust::uninstall().map_err(of_trust_store)?;
        printer.say("this system no longer trusts the authority");
        return Ok(Answer::Done);
    }
    if let Some(chain) = &arguments.chain {
        let given = SuppliedChain::read(chain)?;
        let root = store.root_of(&given)?;
        print(&root, (&given.leaf, Some(&given.host)), arguments, printer)?;
        return Ok(Answer::Done);
    }
    if arguments.rsa_chain {
        let leaf = store.rsa_chain(&arguments.names)?;
        print(&store.rsa_root(), (&leaf, None), arguments, printer)?;
        return Ok(Answer::Done);
    }
    let leaf = store.leaf(&arguments.names)?;
    if arguments.install {
        trust::install(&store.authority()).map_err(of_trust_store)?;
        printer.say("this system now trusts the authority");
    }
    print(&store.authority(), (&leaf, None), arguments, printer)?;
    Ok(Answer::Done)
}

/// Has the refusal of a change of the system's trust store say whose it is.
fn of_trust_store(error: ServeError) -> anyhow::Error {
    match &error {
        ServeError::CertificateStore { source, .. }
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            usage_error(
                format!("{error}: {source}"),
                "the system's trust store is root's to change: `altway certs` prints the command",
            )
        }
        _ => error.into(),
    }
}

fn print(
    authority: &Path,
    (leaf, host): (&Leaf, Option<&str>),
    arguments: &Arguments,
    printer: &Printer,
) -> Result<()> {
    let expires = leaf.expires_on();
    if arguments.json {
        printer.json(&Files {
            ca_certificate: authority,
            certificate: &leaf.certificate,
            key: &leaf.key,
            names: &leaf.names,
            host,
            expires,
            spki_sha256_base64: &leaf.spki_sha256,
        })?;
        return Ok(());
    }
    printer.data(&format!(
        "authority    {}\ncertificate  {}\nkey          {}\nvalid for    {}\nuntil        {expires}\n",
        authority.display(),
        leaf.certificate.display(),
        leaf.key.display(),
        leaf.names.join(", "),
    ))?;
    if !arguments.install && !arguments.rsa_chain && arguments.chain.is_none() {
        printer.say("\nTo trust the authority:\n");
        printer.say(trust::instructions(authority, None).trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trust_store_of_root_is_not_taken_for_the_folder_of_the_authority() {
        let error = of_trust_store(ServeError::CertificateStore {
            action: "write",
            path: "/usr/local/share/ca-certificates/altway-local-ca.crt".into(),
            source: io::ErrorKind::PermissionDenied.into(),
        });
        let hint = crate::hint::of(&error).unwrap();
        assert!(hint.contains("root's to change"), "{hint}");
        assert!(error.to_string().ends_with("permission denied"), "{error}");
    }
}
