//! Randomness that no peer can predict.

use crate::Error;
use rustls::crypto::aws_lc_rs;

/// Seeds AWS-LC's generator, of which each thread has one. The first one of a process takes its seed from the jitter of
/// the processor's clock, for some 30 ms that the first handshake would wait for.
///
/// # Errors
/// As [`random`].
pub(crate) fn seed() -> Result<(), Error> {
    random().map(drop)
}

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
