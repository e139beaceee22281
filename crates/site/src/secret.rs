//! Secrets that a configuration names, read where they are found.

use altway_config::Secret;
use altway_folder::read_file;
use std::io;
use std::path::{Path, PathBuf};

/// A secret that is not where it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The file can't be read.
    #[error("cannot read the key `{path}`")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the read.
        source: io::Error,
    },
    /// The variable is not there.
    #[error("the variable {0}, which holds a key, is not set, or no text")]
    Variable(String),
    /// The process has no credentials.
    #[error("the credential `{0}` can't be had: systemd gives this process none")]
    Credential(String),
}

/// The secret, and in words where it was found.
pub(crate) fn read(secret: &Secret) -> Result<(String, Vec<u8>), SecretError> {
    let file = |path: &Path| match read_file(path) {
        Ok((bytes, _)) => Ok((format!("`{}`", path.display()), bytes)),
        Err(source) => Err(SecretError::File {
            path: path.to_owned(),
            source,
        }),
    };
    match secret {
        Secret::File(path) => file(path),
        Secret::Env(name) => match std::env::var(name) {
            Ok(text) => Ok((format!("${name}"), text.into_bytes())),
            Err(_) => Err(SecretError::Variable(name.clone())),
        },
        Secret::Credential(name) => match std::env::var_os("CREDENTIALS_DIRECTORY") {
            Some(folder) => file(&Path::new(&folder).join(name)),
            None => Err(SecretError::Credential(name.clone())),
        },
    }
}
