//! The way from a request's path to names below the folder of uploads, and back.

use super::name;
use super::refusal::Refusal;
use super::resumable::FOLDER;
use altway_config::PathPattern;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Bytes of a name that are escaped in a path: all but RFC 3986's unreserved characters.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The most folders on the way to a file.
const MAX_FOLDERS: usize = 64;

/// The name below the folder of its route that a path has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Folders, and last of all what may be a file; each is a name that can be stored.
    pub(super) names: Vec<String>,
    /// The path ends with a slash.
    pub(super) is_folder: bool,
}

impl Target {
    /// Reads the path of a request that came by a route.
    ///
    /// # Errors
    /// A name in it is none that can be stored; or a path of another route.
    pub(super) fn parse(pattern: &PathPattern, path: &str) -> Result<Self, Refusal> {
        let skipped = match pattern {
            PathPattern::Exact(_) => {
                return Ok(Self {
                    names: Vec::new(),
                    is_folder: true,
                });
            }
            PathPattern::Prefix(prefix) => prefix.split('/').filter(|it| !it.is_empty()).count(),
            _ => 0,
        };
        // As files are found: what is empty between two slashes is skipped, and nothing is decoded twice.
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        let names: Vec<_> = segments
            .skip(skipped)
            .map(decoded)
            .collect::<Result<_, _>>()?;
        if names.len() > MAX_FOLDERS {
            return Err(Refusal::malformed("the path has too many folders"));
        }
        Ok(Self {
            is_folder: names.is_empty() || path.ends_with('/'),
            names,
        })
    }
}

/// The token of an upload that is not complete, where the path is that of one.
pub(super) fn token<'p>(pattern: &PathPattern, path: &'p str) -> Option<&'p str> {
    let folder = path_of(pattern, &[], FOLDER)?;
    let token = path.strip_prefix(&folder)?.strip_prefix('/')?;
    (!token.contains('/')).then_some(token)
}

fn decoded(segment: &str) -> Result<String, Refusal> {
    let decoded = percent_decode_str(segment).decode_utf8();
    let name = decoded.map_err(|_| Refusal::malformed("the path is not UTF-8"))?;
    name::check(&name).map_err(|error| Refusal::malformed(error.to_string()))?;
    Ok(name.into_owned())
}

/// The path of a file below the folder of a route; `None` where the route has one path alone.
pub(super) fn path_of(pattern: &PathPattern, folders: &[String], name: &str) -> Option<String> {
    let prefix = match pattern {
        PathPattern::All => "",
        PathPattern::Prefix(prefix) => prefix,
        _ => return None,
    };
    let names = prefix.split('/').filter(|it| !it.is_empty());
    let names = names
        .chain(folders.iter().map(String::as_str))
        .chain([name]);
    let mut path = String::new();
    for name in names {
        path.push('/');
        path.extend(utf8_percent_encode(name, ESCAPED));
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(pattern: &str, path: &str) -> Option<(Vec<String>, bool)> {
        let target = Target::parse(&pattern.parse().unwrap(), path).ok()?;
        Some((target.names, target.is_folder))
    }

    #[test]
    fn names_stand_below_what_the_route_has() {
        for (pattern, path, names, is_folder) in [
            ("/incoming/*", "/incoming/a.txt", &["a.txt"][..], false),
            ("/incoming/*", "//incoming//a/b%20c", &["a", "b c"], false),
            ("/incoming/*", "/%69ncoming/a/", &["a"], true),
            ("/incoming/*", "/incoming/", &[], true),
            ("/*", "/a/b", &["a", "b"], false),
            ("/*", "/", &[], true),
            ("/files", "/files", &[], true),
            ("/x/y/*", "/x/y/%E2%82%AC", &["€"], false),
        ] {
            let names = names.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(parse(pattern, path), Some((names, is_folder)), "{path}");
        }
    }

    #[test]
    fn hostile_paths_are_refused() {
        for path in [
            "/in/..",
            "/in/%2e%2e",
            "/in/a/../../b",
            "/in/a%2fb",
            "/in/a%5cb",
            "/in/a%00",
            "/in/.hidden/a",
            "/in/.env",
            "/in/%FF",
            "/in/con",
            "/in/a%0d%0ab",
        ] {
            assert_eq!(parse("/in/*", path), None, "{path}");
        }
        assert_eq!(parse("/in/*", &format!("/in/{}", "a/".repeat(65))), None);
        assert_eq!(parse("/in/*", &format!("/in/{}", "a".repeat(256))), None);
    }

    proptest! {
        #[test]
        fn a_path_leads_back_to_its_names(names in prop::collection::vec("[^/\\\\\\p{C} .][^/\\\\\\p{C}]{0,10}[a-z]", 1..5)) {
            let pattern = "/in coming/*".parse().unwrap();
            let (name, folders) = names.split_last().unwrap();
            if let Some(path) = path_of(&pattern, folders, name)
                && let Ok(target) = Target::parse(&pattern, &path)
            {
                prop_assert!(path.starts_with("/in%20coming/"));
                prop_assert_eq!(target.names, names);
                prop_assert!(!target.is_folder);
            }
        }

        #[test]
        fn no_path_leads_out_of_the_folder(path in "/[ -~]{0,60}") {
            if let Some((names, _)) = parse("/*", &path) {
                for name in names {
                    let path = std::path::Path::new(&name);
                    prop_assert!(matches!(path.components().next(), Some(std::path::Component::Normal(_))));
                    prop_assert_eq!(path.components().count(), 1);
                }
            }
        }
    }
}
