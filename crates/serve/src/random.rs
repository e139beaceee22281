//! Randomness that no peer can predict.

use crate::Error;
use rustls::crypto::aws_lc_rs;

/// Returns 32 bytes that nobody can predict.
///
/// # Errors
/// The system has no randomness.
pub(crate) fn random() -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    let random = aws_lc_rs::default_provider().secure_random;
    random
        .fill(&mut bytes)
        .map_err(|_| Error::tls(rustls::Error::FailedToGetRandomBytes))?;
    Ok(bytes)
}
