//! Fields that an operator gives responses, by the path of the file that they are made of.

use super::options::InvalidFilesOptions;
use http::header::{self, HeaderMap, HeaderName};
use http::{HeaderValue, StatusCode};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;

/// Fields that say how a message is framed or what the server knows of a file: given by hand they would be
/// wrong.
const RESERVED: [HeaderName; 16] = [
    header::ACCEPT_RANGES,
    header::ALLOW,
    header::ALT_SVC,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::DATE,
    header::ETAG,
    header::LAST_MODIFIED,
    header::LOCATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// The files that a [`HeaderRule`] is for, by their paths beneath the root with a slash before them: `/a/file` (that
/// path), `/folder/*` (all that begin with it), `*.ext` (all that end with it). Paths are meant decoded. A file also
/// goes by the paths that lead to it otherwise: the index of a folder by the folder's, and with clean URLs
/// `/about.html` by `/about`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Exact(String),
    /// The beginning of a path, with its slash.
    Prefix(String),
    /// The ending of a name, with its dot.
    Suffix(String),
}

impl FromStr for PathPattern {
    type Err = InvalidFilesOptions;

    fn from_str(text: &str) -> Result<Self, InvalidFilesOptions> {
        let is_plain = |text: &str| !text.contains('*');
        let kind = match (text.strip_suffix('*'), text.strip_prefix('*')) {
            (Some(prefix), _) if is_plain(prefix) && is_folder(prefix) => {
                Kind::Prefix(prefix.into())
            }
            (_, Some(suffix)) if is_plain(suffix) && is_extension(suffix) => {
                Kind::Suffix(suffix.into())
            }
            (None, None) if is_plain(text) && text.starts_with('/') => Kind::Exact(text.into()),
            _ => return Err(InvalidFilesOptions::Pattern(text.into())),
        };
        Ok(Self(kind))
    }
}

fn is_folder(prefix: &str) -> bool {
    prefix.starts_with('/') && prefix.ends_with('/')
}

fn is_extension(suffix: &str) -> bool {
    suffix.len() > 1 && suffix.starts_with('.') && !suffix.contains('/')
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Exact(path) => f.pad(path),
            Kind::Prefix(path) => write!(f, "{path}*"),
            Kind::Suffix(end) => write!(f, "*{end}"),
        }
    }
}

impl PathPattern {
    /// Returns true if the pattern matches `path`, which begins with a slash.
    fn matches(&self, path: &[u8]) -> bool {
        match &self.0 {
            Kind::Exact(exact) => path == exact.as_bytes(),
            Kind::Prefix(prefix) => path.starts_with(prefix.as_bytes()),
            Kind::Suffix(suffix) => path.ends_with(suffix.as_bytes()),
        }
    }
}

/// A field of responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderRule {
    /// `None`: every response.
    pattern: Option<PathPattern>,
    name: HeaderName,
    value: HeaderValue,
    /// True if the field is added to those of its name.
    is_further: bool,
}

impl HeaderRule {
    /// A field of the responses that give out a file that `pattern` means ([`PathPattern`]), whole, in part or
    /// as one that has not changed (304). Vary is added to, any other field replaced.
    ///
    /// # Errors
    /// The pattern, the name or the value is none, or the field is one of those that only the server can
    /// give, as Content-Length.
    pub fn new(pattern: &str, name: &str, value: &str) -> Result<Self, InvalidFilesOptions> {
        let pattern = pattern.parse()?;
        Self::checked(Some(pattern), name, value)
    }

    /// A field of every response that the files give, those included that are errors or redirects.
    ///
    /// # Errors
    /// As [`new`](Self::new); also for Content-Type.
    pub fn always(name: &str, value: &str) -> Result<Self, InvalidFilesOptions> {
        Self::checked(None, name, value)
    }

    /// A field as that of [`always`](Self::always), which replaces none of its name: a message may have several of one
    /// name, as of Content-Security-Policy.
    ///
    /// # Errors
    /// As [`always`](Self::always).
    pub fn further(name: &str, value: &str) -> Result<Self, InvalidFilesOptions> {
        let is_further = true;
        Ok(Self {
            is_further,
            ..Self::always(name, value)?
        })
    }

    /// Makes a rule of Cache-Control, by which caches keep the files that `pattern` matches (RFC 9111 section 5.2).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn cache_control(pattern: &str, value: &str) -> Result<Self, InvalidFilesOptions> {
        Self::new(pattern, header::CACHE_CONTROL.as_str(), value)
    }

    fn checked(
        pattern: Option<PathPattern>,
        name: &str,
        value: &str,
    ) -> Result<Self, InvalidFilesOptions> {
        let field = HeaderName::from_bytes(name.as_bytes());
        let field = field.map_err(|_| InvalidFilesOptions::FieldName(name.into()))?;
        let is_type_of_all = pattern.is_none() && field == header::CONTENT_TYPE;
        if RESERVED.contains(&field) || is_type_of_all {
            return Err(InvalidFilesOptions::Reserved(field.to_string()));
        }
        let text = HeaderValue::from_str(value.trim());
        let value = text.map_err(|_| InvalidFilesOptions::FieldValue {
            name: field.to_string(),
            value: value.into(),
        })?;
        Ok(Self {
            pattern,
            name: field,
            value,
            is_further: false,
        })
    }

    /// Returns true if the rule is for the file at `paths`, or for a response that is made of none.
    fn is_for(&self, paths: Option<&Paths>) -> bool {
        let matches = |pattern| paths.is_some_and(|paths| paths.match_any(pattern));
        self.pattern.as_ref().is_none_or(matches)
    }

    fn write(&self, headers: &mut HeaderMap) {
        if self.is_further || self.name == header::VARY {
            headers.append(self.name.clone(), self.value.clone());
        } else {
            headers.insert(self.name.clone(), self.value.clone());
        }
    }
}

/// The paths that lead to a file.
pub(super) struct Paths([Option<Vec<u8>>; 2]);

impl Paths {
    /// `index`: names of what folders are answered with. `clean`: whether `.html` may be left out.
    pub(super) fn of(file: &Path, index: &[String], clean: bool) -> Self {
        let mut path = vec![b'/'];
        path.extend_from_slice(file.as_os_str().as_bytes());
        let name = file.file_name().unwrap_or_default();
        let folder = path.len() - name.len();
        let is_index = index.iter().any(|index| name == index.as_str());
        let other = match is_index {
            true => Some(&path[..folder]),
            false if clean => path.strip_suffix(b".html"),
            false => None,
        };
        let other = other.map(<[u8]>::to_vec);
        Self([Some(path), other])
    }

    fn match_any(&self, pattern: &PathPattern) -> bool {
        let mut paths = self.0.iter().flatten();
        paths.any(|path| pattern.matches(path))
    }
}

/// The value that the rules give a field of the file at `paths`.
pub(super) fn value(rules: &[HeaderRule], name: &HeaderName, paths: &Paths) -> Option<HeaderValue> {
    let matches = |rule: &&HeaderRule| rule.name == *name && rule.is_for(Some(paths));
    let rule = rules.iter().rfind(matches)?;
    Some(rule.value.clone())
}

/// Writes the fields of a response with `status` that is made of the file at `paths`, or of none.
pub(super) fn apply(
    rules: &[HeaderRule],
    status: StatusCode,
    paths: Option<&Paths>,
    headers: &mut HeaderMap,
) {
    for rule in rules {
        // RFC 9110 section 15.4.5: metadata of the content is not sent where there is none.
        let is_without =
            status == StatusCode::NOT_MODIFIED && rule.name == header::CONTENT_LANGUAGE;
        // The media type is that of each part where there are several.
        if rule.is_for(paths) && !is_without && rule.name != header::CONTENT_TYPE {
            rule.write(headers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_print_what_they_were_read_from() {
        for text in [
            "/",
            "/a/b",
            "/assets/*",
            "/*",
            "*.js",
            "*.tar.gz",
            "/a b/\u{e4}",
        ] {
            assert_eq!(text.parse::<PathPattern>().unwrap().to_string(), text);
        }
        for text in [
            "", "*", "a", "a/*", "/a*", "*a", "*.", "/*/b", "**", "*.a/b", "/a/*.js",
        ] {
            let refused = InvalidFilesOptions::Pattern(text.into());
            assert_eq!(text.parse::<PathPattern>(), Err(refused), "{text}");
        }
    }

    #[test]
    fn a_file_goes_by_every_path_that_leads_to_it() {
        let index = ["index.html".to_owned()];
        let matches = |pattern: &str, file: &str, clean| {
            let paths = Paths::of(Path::new(file), &index, clean);
            paths.match_any(&pattern.parse().unwrap())
        };
        for (pattern, file) in [
            ("/", "index.html"),
            ("/index.html", "index.html"),
            ("*.html", "index.html"),
            ("/sub/", "sub/index.html"),
            ("/sub/*", "sub/index.html"),
            ("/*", "a"),
            ("*.gz", "a.tar.gz"),
        ] {
            assert!(matches(pattern, file, false), "{pattern} {file}");
        }
        for (pattern, file) in [
            ("/", "a.html"),
            ("/sub", "sub/index.html"),
            ("/sub/*", "subs/a"),
            ("/about", "about.html"),
            ("*.js", "js"),
        ] {
            assert!(!matches(pattern, file, false), "{pattern} {file}");
        }
        assert!(matches("/about", "about.html", true));
    }

    #[test]
    fn what_only_the_server_knows_is_not_given_by_hand() {
        for name in ["Content-Length", "ETag", "connection", "Alt-Svc", "Date"] {
            let refused = HeaderRule::always(name, "x").unwrap_err();
            assert!(
                matches!(refused, InvalidFilesOptions::Reserved(_)),
                "{name}"
            );
        }
        assert!(HeaderRule::always("content-type", "text/plain").is_err());
        let refused = HeaderRule::always("a b", "x").unwrap_err();
        assert_eq!(refused, InvalidFilesOptions::FieldName("a b".into()));
        let refused = HeaderRule::always("x", "a\nb").unwrap_err();
        assert!(matches!(refused, InvalidFilesOptions::FieldValue { .. }));
    }

    #[test]
    fn the_last_rule_that_matches_counts_and_what_may_stand_beside_others_is_added() {
        let rule = |pattern, name, value| HeaderRule::new(pattern, name, value).unwrap();
        let rules = [
            rule("/*", "cache-control", "no-cache"),
            rule("*.js", "cache-control", "max-age=60"),
            rule("/*", "vary", "origin"),
            rule("/*", "content-type", "text/x"),
            HeaderRule::always("x-a", "1").unwrap(),
            HeaderRule::always("link", "</a>").unwrap(),
            HeaderRule::further("link", "</b>").unwrap(),
        ];
        let fields = |status, file: Option<&str>| {
            let paths = file.map(|file| Paths::of(Path::new(file), &[], false));
            let mut headers = HeaderMap::new();
            headers.insert(header::VARY, HeaderValue::from_static("accept"));
            apply(&rules, status, paths.as_ref(), &mut headers);
            headers
        };
        let found = fields(StatusCode::OK, Some("a.js"));
        assert_eq!(found["cache-control"], "max-age=60");
        assert_eq!(found.get_all("vary").iter().count(), 2);
        assert_eq!(
            fields(StatusCode::OK, Some("a"))["cache-control"],
            "no-cache"
        );
        let paths = Paths::of(Path::new("a.js"), &[], false);
        let given = value(&rules, &header::CONTENT_TYPE, &paths);
        assert_eq!(given.unwrap(), "text/x");
        assert!(!found.contains_key("content-type"));
        let missing = fields(StatusCode::NOT_FOUND, None);
        assert_eq!(missing["x-a"], "1");
        for fields in [&found, &missing] {
            let links: Vec<_> = fields.get_all("link").iter().collect();
            assert_eq!(links, ["</a>", "</b>"]);
        }
        assert!(!missing.contains_key("cache-control"));
    }
}
