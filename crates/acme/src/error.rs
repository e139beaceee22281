//! Failures that no waiting mends.

use std::io;
use std::path::PathBuf;

/// A failure that no waiting mends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder can't be used.
    #[error("cannot {action} `{path}`")]
    Folder {
        /// The attempt, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The folder is in use by another process.
    #[error("the folder `{folder}` of ACME is in use by another process{}", of(holder.as_ref()))]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// Process number of the holder.
        holder: Option<u32>,
    },
    /// The roots can't be read.
    #[error("cannot read the roots `{path}` for the directory of ACME")]
    Roots {
        /// The file.
        path: PathBuf,
        /// The fault.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The place of the trusted roots has none.
    #[error("there is no root certificate in {place}, so no directory of ACME can be believed")]
    NoRoots {
        /// The place that was looked at.
        place: String,
    },
    /// The URL at which names on demand are asked for is none of `http`.
    #[error("`{url}` is no URL of http, at which names could be asked for")]
    Ask {
        /// The text.
        url: String,
    },
    /// The folder is another one than the process has had so far.
    #[error("the folder of ACME is `{folder}` as long as this process runs")]
    OtherFolder {
        /// The folder that the process has.
        folder: PathBuf,
    },
    /// TLS can't be set up.
    #[error("TLS to the directory of ACME can't be set up")]
    Tls(#[source] rustls::Error),
    /// The system has no thread to give.
    #[error("cannot start the thread that gets certificates")]
    Thread(#[source] io::Error),
}

fn of(holder: Option<&u32>) -> String {
    holder.map_or_else(String::new, |process| format!(", {process}"))
}
