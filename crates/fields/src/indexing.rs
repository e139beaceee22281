//! The choice of fields that an encoder puts into its dynamic table.

use std::hash::Hasher;

use rustc_hash::FxHasher;

/// Returns true if a field, named in lower case, seldom comes again with the same value. In a dynamic table it would only
/// push out what does.
#[must_use]
pub fn comes_once(name: &str) -> bool {
    matches!(
        name,
        "age"
            | "content-length"
            | "content-range"
            | "etag"
            | "if-modified-since"
            | "if-none-match"
            | "last-modified"
            | "location"
            | "range"
            | "set-cookie"
    )
}

/// Returns the hash by which an encoder finds a field in its dynamic table, the same for every connection.
#[must_use]
pub fn hash(name: &[u8], value: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(name);
    hasher.write(value);
    hasher.finish()
}
