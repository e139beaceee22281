//! The way from a request's path to a file's name: decoded once, refused when it could mean two
//! things.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A path that no client sends in good faith.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadPath;

/// The treatment of files and folders whose names begin with a dot.
///
/// Such names keep what was never meant for clients: `.git`, `.env`, `.htpasswd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// Such names are treated as absent, but for `.well-known` at the top (RFC 8615).
    Absent,
    /// Such names are served like others.
    ServedFolder,
}

/// The folder of RFC 8615, to which clients go by themselves: for certificates, contacts, policies.
const WELL_KNOWN: &str = ".well-known";

/// The file that is asked for, relative to the served directory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestedFile {
    /// Names joined by slashes; empty for the directory itself. No `.`, no `..`.
    pub(crate) relative: PathBuf,
    /// True if the path ends in a slash and so can only mean a directory.
    pub(crate) directory: bool,
    /// The same path as text with a slash behind it, for a redirect. Starts with exactly one slash:
    /// two would name another host.
    pub(crate) with_slash: String,
}

/// Reads the path of a request target. Empty segments are skipped, as in a file system.
///
/// # Errors
/// Not absolute; a `%` without two hexadecimal digits; a name that is `.` or `..` or holds a slash,
/// a backslash or NUL, encoded or not.
pub(crate) fn parse(path: &str) -> Result<RequestedFile, BadPath> {
    let rest = path.strip_prefix('/').ok_or(BadPath)?;
    let mut asked = RequestedFile {
        relative: PathBuf::new(),
        directory: rest.is_empty() || rest.ends_with('/'),
        with_slash: String::from("/"),
    };
    for segment in rest.split('/').filter(|segment| !segment.is_empty()) {
        asked.relative.push(name(segment)?);
        asked.with_slash.push_str(segment);
        asked.with_slash.push('/');
    }
    Ok(asked)
}

/// The path of a request's target, read once for the route and for the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TargetPath<'a> {
    path: &'a [u8],
    /// True if it needs no decoding: ASCII without escapes, without empty names, and without names that begin
    /// with a dot.
    is_plain: bool,
}

impl<'a> TargetPath<'a> {
    /// Finds the path in a target, which may have a query.
    pub(crate) fn of(target: &'a [u8]) -> Self {
        let (mut is_plain, mut is_name_start) = (target.starts_with(b"/"), false);
        let mut end = target.len();
        for (index, byte) in target.iter().enumerate() {
            if *byte == b'?' {
                end = index;
                break;
            }
            is_plain &= byte.is_ascii_graphic() && !matches!(byte, b'%' | b'\\');
            is_plain &= !(is_name_start && matches!(byte, b'/' | b'.'));
            is_name_start = *byte == b'/';
        }
        let path = &target[..end];
        Self { path, is_plain }
    }

    /// Returns the path by which requests are told apart: decoded, without what a file system would skip. All
    /// spellings of one file have the same. It begins with a slash: `*`, by which OPTIONS alone asks for the server as a
    /// whole (RFC 9110 section 9.3.7), counts as that slash.
    ///
    /// # Errors
    /// As [`parse`]; not UTF-8.
    pub(crate) fn routing(self) -> Result<Cow<'a, [u8]>, BadPath> {
        if self.is_plain {
            return Ok(Cow::Borrowed(self.path));
        }
        if self.path == b"*" {
            return Ok(Cow::Borrowed(b"/"));
        }
        Ok(Cow::Owned([b"/", &self.parse()?.name()[..]].concat()))
    }

    /// Returns the paths that servers may read where names have escaped slashes, each as [`routing`](Self::routing) has it:
    /// with `%2F` as a part of the name (RFC 3986 section 2.2), where it stays as it is, and with a slash in its place.
    ///
    /// # Errors
    /// As `routing`, of one of them.
    pub(crate) fn slash_readings(self) -> Result<[Vec<u8>; 2], BadPath> {
        let path = std::str::from_utf8(self.path).map_err(|_| BadPath)?;
        let reading = |slash: &str| {
            let path = path.replace("%2F", slash).replace("%2f", slash);
            let read = TargetPath::of(path.as_bytes()).routing();
            read.map(Cow::into_owned)
        };
        Ok([reading("%252F")?, reading("/")?])
    }

    /// The name of the file that the path asks for, where it needs no decoding.
    pub(super) fn plain_name(self) -> Option<&'a [u8]> {
        self.path.strip_prefix(b"/").filter(|_| self.is_plain)
    }

    /// Reads the path.
    ///
    /// # Errors
    /// As [`parse`]; not UTF-8.
    pub(super) fn parse(self) -> Result<RequestedFile, BadPath> {
        parse(std::str::from_utf8(self.path).map_err(|_| BadPath)?)
    }
}

impl RequestedFile {
    /// The same name as that of [`TargetPath::plain_name`], of a path that was decoded.
    pub(super) fn name(&self) -> Vec<u8> {
        let mut name = self.relative.as_os_str().as_bytes().to_vec();
        if self.directory && !name.is_empty() {
            name.push(b'/');
        }
        name
    }

    /// Returns true if one of the path's names begins with a dot, and `hidden` doesn't serve those.
    pub(crate) fn is_hidden(&self, hidden: Hidden) -> bool {
        let has_dot = |name: &OsStr| name.as_bytes().starts_with(b".");
        let is_well_known = |(index, name): (usize, &OsStr)| index == 0 && name == WELL_KNOWN;
        let mut names = self.relative.iter().enumerate();
        hidden == Hidden::Absent && names.any(|it| has_dot(it.1) && !is_well_known(it))
    }
}

/// Bytes of a name that are escaped in a path: all but RFC 3986's unreserved characters.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The name as a segment of a path.
pub(super) fn encode_name(name: &OsStr) -> String {
    percent_encode(name.as_bytes(), ESCAPED).to_string()
}

/// The path of a file or, if `directory`, of a folder beneath the root, for a reference to it: what
/// [`parse`] reads.
pub(super) fn encode(relative: &Path, directory: bool) -> String {
    let mut path = String::new();
    for name in relative {
        path.push('/');
        path.push_str(&encode_name(name));
    }
    if directory || path.is_empty() {
        path.push('/');
    }
    path
}

fn name(segment: &str) -> Result<OsString, BadPath> {
    if !is_well_encoded(segment) {
        return Err(BadPath);
    }
    let bytes: Vec<u8> = percent_decode_str(segment).collect();
    let ambiguous = |byte: &u8| matches!(byte, b'/' | b'\\' | 0);
    if bytes == b"." || bytes == b".." || bytes.iter().any(ambiguous) {
        return Err(BadPath);
    }
    Ok(OsString::from_vec(bytes))
}

/// Every `%` is followed by two hexadecimal digits (RFC 3986 section 2.1).
fn is_well_encoded(segment: &str) -> bool {
    segment.split('%').skip(1).all(|after| {
        let digits = after.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Component;

    fn check(path: &str, relative: &str, directory: bool) {
        let asked = parse(path).unwrap();
        assert_eq!(asked.relative, PathBuf::from(relative), "{path}");
        assert_eq!(asked.directory, directory, "{path}");
    }

    #[test]
    fn reads_names_and_trailing_slashes() {
        check("/", "", true);
        check("/a/b.html", "a/b.html", false);
        check("/a/", "a", true);
        check("//a//b", "a/b", false);
        check("/a%20b/%C3%A4", "a b/ä", false);
        check("/.well-known/x", ".well-known/x", false);
        check("/...", "...", false);
    }

    #[test]
    fn a_name_that_begins_with_a_dot_is_hidden_wherever_it_stands() {
        let is_hidden = |path: &str, hidden| parse(path).unwrap().is_hidden(hidden);
        for path in [
            "/.git/config",
            "/%2egit/config",
            "//.env",
            "/a/.env",
            "/a/.b/",
            "/...",
            "/.well-known/.x",
            "/a/.well-known/x",
            "/.well-known2",
        ] {
            assert!(is_hidden(path, Hidden::Absent), "{path}");
            assert!(!is_hidden(path, Hidden::ServedFolder), "{path}");
        }
        for path in [
            "/",
            "/a.b/c.",
            "/.well-known/x",
            "/%2Ewell-known/x",
            "/.well-known",
            "/%252eenv",
        ] {
            assert!(!is_hidden(path, Hidden::Absent), "{path}");
        }
    }

    #[test]
    fn what_is_encoded_is_read_back() {
        for (relative, directory) in [("", true), ("a b/\u{e4}%41?#", false), ("x/y.z~", true)] {
            let relative = PathBuf::from(relative);
            let asked = parse(&encode(&relative, directory)).unwrap();
            assert_eq!((asked.relative, asked.directory), (relative, directory));
        }
    }

    #[test]
    fn decodes_once() {
        check("/%2541", "%41", false);
        check("/%252e%252e", "%2e%2e", false);
    }

    #[test]
    fn refuses_what_could_mean_two_things() {
        for path in [
            "",
            "a",
            "*",
            "/..",
            "/../a",
            "/a/../b",
            "/.",
            "/./a",
            "/%2e%2e/a",
            "/%2E.",
            "/.%2e",
            "/a%2Fb",
            "/a%2fb",
            "/a%5Cb",
            "/a\\b",
            "/a%00",
            "/%",
            "/%4",
            "/%zz",
            "/a%4/b",
        ] {
            assert_eq!(parse(path), Err(BadPath), "{path}");
        }
    }

    #[test]
    fn an_escaped_slash_is_read_as_a_part_of_its_name_and_as_a_delimiter() {
        let readings = |path: &str| TargetPath::of(path.as_bytes()).slash_readings();
        for (path, in_name, delimiter) in [
            ("/a%2Fb", "/a%2Fb", "/a/b"),
            ("/a%2fb%20c/%2F/d?e%2Ff", "/a%2Fb c/%2F/d", "/a/b c/d"),
            ("/a%252Fb", "/a%2Fb", "/a%2Fb"),
        ] {
            let read = [in_name, delimiter].map(|it| it.as_bytes().to_vec());
            assert_eq!(readings(path), Ok(read), "{path}");
        }
        for path in [
            "/a%2F..",
            "/%2e%2E%2fa",
            "/a%2F%5Cb",
            "/a%2F%00",
            "/%%2F",
            "%2Fa",
        ] {
            assert_eq!(readings(path), Err(BadPath), "{path}");
        }
    }

    #[test]
    fn what_needs_no_decoding_is_known_without_it() {
        for (target, name) in [
            ("/", Some("")),
            ("/a/b.html", Some("a/b.html")),
            ("/a/", Some("a/")),
            ("/a?b=//.%2e c", Some("a")),
            ("/?", Some("")),
            ("/a..b/c.", Some("a..b/c.")),
            ("", None),
            ("?a", None),
            ("a/b", None),
            ("*", None),
            ("//a", None),
            ("/a//", None),
            ("/.a", None),
            ("/a/.b", None),
            ("/..", None),
            ("/a%20b", None),
            ("/a\\b", None),
            ("/a b", None),
            ("/\u{e4}", None),
            ("/a\0", None),
        ] {
            let found = TargetPath::of(target.as_bytes()).plain_name();
            assert_eq!(found, name.map(str::as_bytes), "{target:?}");
        }
    }

    #[test]
    fn a_redirect_stays_on_this_host() {
        assert_eq!(parse("//evil.test").unwrap().with_slash, "/evil.test/");
        assert_eq!(parse("/a%20b").unwrap().with_slash, "/a%20b/");
    }

    proptest! {
        #[test]
        fn never_yields_anything_but_plain_names(path in "(/|[.]|%2e|%2f|%5c|%00|%25|[a-z%]){0,20}") {
            if let Ok(asked) = parse(&path) {
                let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
                prop_assert!(asked.relative.components().all(plain));
                prop_assert!(!asked.with_slash.starts_with("//"));
            }
        }

        #[test]
        fn a_plain_name_is_that_of_the_decoded_path(path in "/{0,2}([.]|%2e|[a-z?%/]){0,8}") {
            let target = TargetPath::of(path.as_bytes());
            if let Some(name) = target.plain_name() {
                prop_assert_eq!(name, target.parse().unwrap().name());
                prop_assert_eq!(target.routing().unwrap(), [b"/", name].concat());
            }
        }
    }
}
