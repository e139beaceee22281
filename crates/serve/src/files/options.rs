//! Options of the files of a folder that an operator can set.

use super::coding::ContentCoding;
use super::compress;
use super::path;
use super::rules::HeaderRule;
use http::StatusCode;

/// Options for serving the files of a folder, with [`Files`](crate::Files) or
/// [`Site::files_with`](crate::Site::files_with). They are made by [`default`](Self::default), then changed field by
/// field.
///
/// ```
/// use altway_serve::{FilesOptions, HeaderRule, Site};
///
/// let mut options = FilesOptions::default();
/// options.fallback = Some("index.html".into());
/// options.headers = vec![
///     HeaderRule::cache_control("*.html", "no-cache")?,
///     HeaderRule::cache_control("/assets/*", "public, max-age=31536000, immutable")?,
/// ];
/// let site = Site::files_with("dist", options);
/// # Ok::<(), altway_serve::InvalidFilesOptions>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FilesOptions {
    /// Names of index files: a folder is answered with the first that exists. Default `index.html`.
    pub index: Vec<String>,
    /// Serves files and folders whose names begin with a dot. Default: they are treated as missing, except
    /// `/.well-known` (RFC 8615).
    pub hidden: bool,
    /// A file beneath the root that is answered with 200 where nothing is found: the page of an application that
    /// reads the path itself. Requests that are no navigation by the browser's `Sec-Fetch-Mode`, such as one for a
    /// script that is missing, are answered 404 all the same. Default: none.
    pub fallback: Option<String>,
    /// Answers `/about` with `about.html` where there is no file `about`, and redirects `/about.html` to
    /// `/about` and `/sub/index.html` to `/sub/` (308). Default: off.
    pub clean_urls: bool,
    /// Files beneath the root that are the content of responses with statuses from 400 to 599; of several for a
    /// status the first counts. A file that does not exist is ignored. Default: `404.html` for 404.
    pub error_pages: Vec<(u16, String)>,
    /// Answers a folder without an index with a list of what is in it: a page, or JSON for clients that ask for it
    /// (Accept). Hidden files are left out, unless they are [served](Self::hidden), and so are links that lead out of
    /// the root. At most 10,000 entries are shown, and the list says if there are more. Default: off.
    pub listing: bool,
    /// Compressed forms that are beside their sources, as `app.js.br` beside `app.js`, and are sent to clients that
    /// accept them, of those that a client likes equally the first. A form that is older than its source is ignored. Each coding costs one check of the file system
    /// per second for each file that is asked for. Default: none.
    pub precompressed: Vec<ContentCoding>,
    /// Codings, the best first, with which text, and formats like text, are compressed when a file is first asked for: br,
    /// gzip, and with the feature `zstd` of this crate zstd. A form that is beside its source comes before. It compresses files of 256 bytes to 4 MiB, on a thread of its own.
    /// Results are kept, in [`COMPRESSED_BYTES`](Self::COMPRESSED_BYTES) at most, as long as their files don't
    /// change. Requests for ranges, files whose Cache-Control says `no-transform`, and what there is no room or time
    /// for are answered with the file as it is. Default: none.
    ///
    /// Compression is safe for files, which are the same for everybody: the attack BREACH reveals secrets in pages that also
    /// contain text sent by the attacker, so it concerns dynamic content.
    pub compress: Vec<ContentCoding>,
    /// Fields of responses; of several rules for the same field, the last that matches counts. Default: none.
    pub headers: Vec<HeaderRule>,
}

impl Default for FilesOptions {
    fn default() -> Self {
        Self {
            index: vec!["index.html".into()],
            hidden: false,
            fallback: None,
            clean_urls: false,
            error_pages: vec![(404, "404.html".into())],
            listing: false,
            precompressed: Vec::new(),
            compress: Vec::new(),
            headers: Vec::new(),
        }
    }
}

/// Reasons why options for files can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidFilesOptions {
    /// An index is a name within its folder.
    #[error("`{0}` is no name of an index: expected a file name without slashes, as index.html")]
    Index(String),
    /// A fallback or an error page is a file beneath the root.
    #[error(
        "`{0}` is no file beneath the served folder: expected a path without `..`, as index.html"
    )]
    Path(String),
    /// The build has no compressor for this coding.
    #[error(
        "this build compresses nothing by {0} when it is asked for: expected br or gzip, or a build with the feature {0}"
    )]
    Compress(ContentCoding),
    /// The status is not that of an error, so it has no page.
    #[error("status {0} has no error page: expected one from 400 to 599")]
    Status(u16),
    /// A pattern is a whole path, the beginning of one, or the end of a file name.
    #[error("`{0}` is no pattern of paths: expected /a/file, /folder/* or *.ext")]
    Pattern(String),
    /// The name of a field is a token (RFC 9110 section 5.1).
    #[error("`{0}` is no name of a field")]
    FieldName(String),
    /// The value of a field is visible characters, spaces and tabs (RFC 9110 section 5.5).
    #[error("`{value}` is no value of the field {name}")]
    FieldValue {
        /// The field.
        name: String,
        /// The value that was given.
        value: String,
    },
    /// Only the server knows the value of this field.
    #[error("the field {0} is the server's own")]
    Reserved(String),
}

impl FilesOptions {
    /// The most memory in bytes that [`compress`](Self::compress) uses for its results; [`Limits`](crate::Limits)
    /// does not include it.
    pub const COMPRESSED_BYTES: u64 = compress::MAX_BYTES as u64;

    /// Checks what the types alone don't.
    ///
    /// # Errors
    /// Names that can't be names of files beneath the root, and error pages of statuses that are no errors.
    pub fn check(&self) -> Result<(), InvalidFilesOptions> {
        if let Some(index) = self.index.iter().find(|index| !is_name(index)) {
            return Err(InvalidFilesOptions::Index(index.clone()));
        }
        if cfg!(not(feature = "zstd")) && self.compress.contains(&ContentCoding::Zstd) {
            return Err(InvalidFilesOptions::Compress(ContentCoding::Zstd));
        }
        let pages = self.error_pages.iter();
        for (status, page) in pages {
            if !(400..600).contains(status) {
                return Err(InvalidFilesOptions::Status(*status));
            }
            relative(page)?;
        }
        self.fallback.as_deref().map(relative).transpose()?;
        Ok(())
    }

    /// The page of a status, relative to the root.
    pub(super) fn error_page(&self, status: StatusCode) -> Option<&str> {
        let mut pages = self.error_pages.iter();
        let (_, page) = pages.find(|(of, _)| status == *of)?;
        Some(page.trim_start_matches('/'))
    }

    /// The fallback, relative to the root.
    pub(super) fn fallback(&self) -> Option<&str> {
        Some(self.fallback.as_deref()?.trim_start_matches('/'))
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

/// Checks a path beneath the root, with a slash before it or without.
fn relative(path: &str) -> Result<(), InvalidFilesOptions> {
    let is_path = |path: &str| path.split('/').all(is_name);
    match is_path(path.strip_prefix('/').unwrap_or(path)) {
        true => Ok(()),
        false => Err(InvalidFilesOptions::Path(path.into())),
    }
}

impl From<bool> for path::Hidden {
    fn from(served: bool) -> Self {
        match served {
            true => Self::ServedFolder,
            false => Self::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(FilesOptions::default().check(), Ok(()));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["", ".", "..", "a/b", "/index.html", "a\\b", "a\0"] {
            let options = FilesOptions {
                index: vec!["index.html".into(), name.into()],
                ..FilesOptions::default()
            };
            let refused = InvalidFilesOptions::Index(name.into());
            assert_eq!(options.check(), Err(refused), "{name}");
        }
        for path in ["", "/", "../a", "/a/../b", "a//b", "a/", "./a"] {
            let options = FilesOptions {
                fallback: Some(path.into()),
                ..FilesOptions::default()
            };
            let refused = InvalidFilesOptions::Path(path.into());
            assert_eq!(options.check(), Err(refused), "{path}");
        }
    }

    #[test]
    fn only_errors_have_error_pages() {
        let with = |status| FilesOptions {
            error_pages: vec![(status, "/errors/page.html".into())],
            ..FilesOptions::default()
        };
        for status in [403, 500] {
            assert_eq!(with(status).check(), Ok(()));
            let status = StatusCode::from_u16(status).unwrap();
            let page = with(status.as_u16());
            assert_eq!(page.error_page(status), Some("errors/page.html"));
        }
        for status in [0, 304, 600] {
            let refused = Err(InvalidFilesOptions::Status(status));
            assert_eq!(with(status).check(), refused);
        }
    }
}
