//! Reasons why the sites of a configuration can't be served.

use crate::{SecretError, UploadFolderError};
use altway_serve::InvalidFilesOptions;

/// A site that can't be served as its configuration says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field or a pattern of files is none that the server gives.
    #[error(transparent)]
    Files(#[from] InvalidFilesOptions),
    /// Uploads can't be stored in their folder.
    #[error(transparent)]
    Upload(#[from] UploadFolderError),
    /// The servers of a `proxy` can't be used.
    #[error(transparent)]
    Upstream(#[from] altway_upstream::Error),
    /// The key of a client certificate is not where it should be.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The name of a server is one that no certificate can be for.
    #[error("no certificate can be for the name `{0}`")]
    ServerName(String),
}
