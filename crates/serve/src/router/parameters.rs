//! The values of a path's parameters in a request.

use http::Request;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// The parameters of a request's path, by their names, with their values decoded: in the extensions of a request that
/// a [`Router`](crate::Router) has led somewhere.
///
/// A value may hold whatever the client has escaped, a slash (`%2F`) and `..` too: it is no name of a file before it was
/// checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathParameters(Vec<(Box<str>, Box<str>)>);

/// The parameters of requests that no router has seen.
static NONE: PathParameters = PathParameters(Vec::new());

impl PathParameters {
    /// The parameters of a request; none where it came by no router.
    #[must_use]
    pub fn of<B>(request: &Request<B>) -> &Self {
        request.extensions().get().unwrap_or(&NONE)
    }

    /// The value of `{name}` or `{*name}`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(it, _)| *it == name).map(|it| it.1)
    }

    /// Names and values, in the order of the path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// `None`: a value is not UTF-8.
    pub(super) fn decode(found: &matchit::Params<'_, '_>) -> Option<Self> {
        let decoded = found.iter().map(|(name, value)| {
            let value = percent_decode_str(value).decode_utf8().ok()?;
            Some((name.into(), value.into()))
        });
        decoded.collect::<Option<_>>().map(Self)
    }
}

/// A path with the escapes of unreserved characters decoded (RFC 3986 section 6.2.2.2), and of no others: all spellings
/// that mean the same have the same.
pub(super) fn normalized(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut normal = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('%') {
        normal.push_str(before);
        let digits = after.get(..2);
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|byte| is_unreserved(*byte)) {
            Some(byte) => {
                normal.push(char::from(byte));
                rest = &after[2..];
            }
            None => {
                normal.push('%');
                rest = after;
            }
        }
    }
    normal.push_str(rest);
    Cow::Owned(normal)
}

/// RFC 3986 section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}
