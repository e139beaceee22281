//! The compressed forms that a file has: siblings that were made ahead (`app.js.br` beside `app.js`), and those
//! that are made when they are asked for.

use super::coding::{AcceptedCodings, Codings, ContentCoding};
use super::compress::Compressed;
use super::open::OpenedFile;
use super::served::ServedFolder;
use super::validators::Traits;
use http::Request;
use http::header::{CACHE_CONTROL, RANGE};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The compressed forms of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Variants {
    /// Codings of the forms that lie beside the file.
    pub(super) ahead: Codings,
    /// Codings of the forms that can be made of the file, and don't lie beside it.
    pub(super) made: Codings,
}

impl Variants {
    pub(super) fn is_empty(self) -> bool {
        self.ahead.is_empty() && self.made.is_empty()
    }
}

impl OpenedFile {
    /// Returns the properties of which the file's validators are made.
    pub(super) fn traits(&self) -> Traits {
        Traits {
            modified: self.modified(),
            size: self.size(),
            coding: self.coding,
            variants: self.variants,
        }
    }
}

impl ServedFolder {
    /// Finds out which compressed forms a file has.
    pub(super) fn with_variants(&self, mut opened: OpenedFile) -> OpenedFile {
        for coding in &self.options.precompressed {
            let modified = self
                .root
                .modified(&precompressed_form(&opened.name, *coding));
            if modified.is_some_and(|modified| is_current(modified, opened.modified())) {
                opened.variants.ahead.push(*coding);
            }
        }
        if !self.options.compress.is_empty() && !self.forbids_transforming(&opened.name) {
            let all = Compressed::codings(&opened, &self.type_of(&opened.name));
            let ahead = opened.variants.ahead;
            let wanted = self.options.compress.iter().copied();
            let made = wanted.filter(|coding| all.contains(*coding) && !ahead.contains(*coding));
            opened.variants.made = made.collect();
        }
        opened
    }

    /// Returns true if the operator's Cache-Control has `no-transform` (RFC 9111 section 5.2.2.6).
    fn forbids_transforming(&self, file: &Path) -> bool {
        let value = self.given(&CACHE_CONTROL, file);
        let value = value.as_ref().and_then(|value| value.to_str().ok());
        let mut directives = value.into_iter().flat_map(|value| value.split(','));
        directives.any(|it| it.trim().eq_ignore_ascii_case("no-transform"))
    }

    /// The form of a file that a client likes best. One that must be [made](Traits::to_be_made) is not chosen
    /// for a request for a range.
    pub(super) fn negotiate<B>(&self, opened: OpenedFile, request: &Request<B>) -> OpenedFile {
        if opened.variants.is_empty() {
            return opened;
        }
        let Variants { ahead, made } = opened.variants;
        let made = match request.headers().contains_key(RANGE) {
            true => Codings::NONE,
            false => made,
        };
        match AcceptedCodings::of_request(request).choose(ahead, made) {
            Some(coding) if made.contains(coding) => OpenedFile {
                coding: Some(coding),
                ..opened
            },
            Some(coding) => {
                let modified = opened.modified();
                let found =
                    self.precompressed_form(&opened.name, modified, opened.variants, coding);
                found.unwrap_or(opened)
            }
            None => opened,
        }
    }

    /// The form that lies beside the file `name` with these `variants`, under that name.
    pub(super) fn precompressed_form(
        &self,
        name: &Path,
        modified: SystemTime,
        variants: Variants,
        coding: ContentCoding,
    ) -> Option<OpenedFile> {
        let found = self
            .root
            .open_file(&precompressed_form(name, coding))
            .ok()?;
        is_current(found.modified(), modified).then(|| OpenedFile {
            file: found.file,
            name: name.into(),
            coding: Some(coding),
            variants,
        })
    }
}

fn precompressed_form(source: &Path, coding: ContentCoding) -> PathBuf {
    let mut name = OsString::from(source);
    name.push(coding.ending());
    name.into()
}

/// Returns true if a form is not older than its source. In whole seconds: programs that compress give what they make
/// the time of its source, and some of them without its fraction.
fn is_current(form: SystemTime, source: SystemTime) -> bool {
    let seconds = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH);
        since.unwrap_or_default().as_secs()
    };
    seconds(form) >= seconds(source)
}
