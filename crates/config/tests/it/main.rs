//! Configurations as files: broken ones and what is said of them, good ones, any text, and the documents
//! that are made of the table of keys.

#![allow(clippy::unwrap_used, reason = "a test ends where it can't go on")]

mod any_text;
mod broken;
mod documents;
mod good;

use altway_config::ConfigFiles;
use std::path::Path;

/// The folder of a kind of test files.
fn folder(name: &str) -> String {
    format!("{}/tests/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Files on the disk.
struct Disk {
    /// The working folder.
    folder: String,
}

impl ConfigFiles for Disk {
    fn names(&mut self, folder: &str) -> Result<Vec<String>, String> {
        let entries = Path::new(&self.folder).join(folder).read_dir();
        let entries = entries.map_err(|_| String::from("no such folder"))?;
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        Ok(names.collect())
    }

    fn text(&mut self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(Path::new(&self.folder).join(path))
            .map_err(|_| "no such file".into())
    }
}

/// Compares a file of the repository with what the crate makes; with `ALTWAY_WRITE_EXPECTED` in the
/// environment it writes the file instead, for whoever then looks at the difference.
fn expect_file(path: &str, text: &str) {
    if std::env::var_os("ALTWAY_WRITE_EXPECTED").is_some() {
        std::fs::write(path, text).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        expected == text,
        "{path} is not what the crate makes; run the test with ALTWAY_WRITE_EXPECTED=1 and look at the \
         difference. It makes:\n{text}"
    );
}
