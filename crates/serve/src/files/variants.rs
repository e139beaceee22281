//! The compressed forms that a file has: siblings that were made ahead (`app.js.br` beside `app.js`).

use super::Files;
use super::coding::{Accepted, Codings, ContentCoding};
use super::open::Opened;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

impl Files {
    /// Finds out which compressed forms a file has.
    pub(super) fn with_variants(&self, mut opened: Opened) -> Opened {
        for coding in &self.options.precompressed {
            let modified = self.root.modified(&sibling(&opened.name, *coding));
            if modified.is_some_and(|modified| is_current(modified, opened.modified())) {
                opened.variants.insert(*coding);
            }
        }
        opened
    }

    /// The form of a file that a client likes best.
    pub(super) fn negotiate(&self, opened: Opened, accepted: impl FnOnce() -> Accepted) -> Opened {
        if opened.variants.is_empty() {
            return opened;
        }
        let coding = accepted().choose(opened.variants);
        match coding.and_then(|coding| self.variant(&opened, coding)) {
            Some(variant) => variant,
            None => opened,
        }
    }

    fn variant(&self, source: &Opened, coding: ContentCoding) -> Option<Opened> {
        self.variant_of(&source.name, source.modified(), source.variants, coding)
    }

    /// The form in a coding of the file `name` with these `variants`, under that name.
    pub(super) fn variant_of(
        &self,
        name: &Path,
        modified: SystemTime,
        variants: Codings,
        coding: ContentCoding,
    ) -> Option<Opened> {
        let found = self.root.open_file(&sibling(name, coding)).ok()?;
        is_current(found.modified(), modified).then(|| Opened {
            file: found.file,
            name: name.into(),
            coding: Some(coding),
            variants,
        })
    }
}

fn sibling(source: &Path, coding: ContentCoding) -> PathBuf {
    let mut name = OsString::from(source);
    name.push(coding.ending());
    name.into()
}

/// Whether a form is not older than its source. In whole seconds: programs that compress give what they make
/// the time of its source, and some of them without its fraction.
fn is_current(form: SystemTime, source: SystemTime) -> bool {
    let seconds = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH);
        since.unwrap_or_default().as_secs()
    };
    seconds(form) >= seconds(source)
}

impl Opened {
    /// Whether what is sent of it depends on Accept-Encoding.
    pub(super) fn varies(&self) -> bool {
        self.variants != Codings::NONE
    }
}
