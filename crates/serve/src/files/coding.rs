//! Content codings (RFC 9110 section 8.4.1), and which of them a client takes.

use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, Request};
use std::fmt;
use std::str::FromStr;

/// A compressed form in which a file can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContentCoding {
    /// RFC 7932; files that end with `.br`.
    Brotli,
    /// RFC 8878; files that end with `.zst`.
    Zstd,
    /// RFC 1952; files that end with `.gz`.
    Gzip,
}

impl ContentCoding {
    /// All of them, in the order in which they are mostly wanted.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// Returns the name that HTTP has for it: `br`, `zstd`, `gzip`.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// Returns the ending, with its dot, of the names of files that are compressed so.
    pub(super) fn ending(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }

    /// The value of Content-Encoding.
    pub(super) fn value(self) -> HeaderValue {
        HeaderValue::from_static(self.token())
    }

    pub(super) fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for ContentCoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.token())
    }
}

/// A text that names no [`ContentCoding`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no content coding: expected zstd, br or gzip")]
pub struct UnknownContentCoding(String);

impl FromStr for ContentCoding {
    type Err = UnknownContentCoding;

    fn from_str(text: &str) -> Result<Self, UnknownContentCoding> {
        let found = Self::ALL.into_iter().find(|coding| coding.token() == text);
        found.ok_or_else(|| UnknownContentCoding(text.into()))
    }
}

/// Codings, each once, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Codings([Option<ContentCoding>; ContentCoding::ALL.len()]);

impl Codings {
    pub(super) const NONE: Self = Self([None; ContentCoding::ALL.len()]);

    /// Adds one behind the others, unless it is there.
    pub(super) fn push(&mut self, coding: ContentCoding) {
        if !self.contains(coding)
            && let Some(place) = self.0.iter_mut().find(|place| place.is_none())
        {
            *place = Some(coding);
        }
    }

    pub(super) fn contains(self, coding: ContentCoding) -> bool {
        self.0.contains(&Some(coding))
    }

    pub(super) fn is_empty(self) -> bool {
        self == Self::NONE
    }
}

impl FromIterator<ContentCoding> for Codings {
    fn from_iter<I: IntoIterator<Item = ContentCoding>>(codings: I) -> Self {
        let mut all = Self::NONE;
        codings.into_iter().for_each(|coding| all.push(coding));
        all
    }
}

/// The weights of Accept-Encoding in thousandths, 0 for what is not acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AcceptedCodings {
    codings: [u16; ContentCoding::ALL.len()],
    /// `None`: acceptable, and nothing is said of how much.
    identity: Option<u16>,
}

impl AcceptedCodings {
    /// Reads the lines of Accept-Encoding; members that can't be read are passed over. Without any line only
    /// the file as it is is taken: RFC 9110 section 12.5.3 permits any coding then, but who doesn't say so
    /// may not be able to decode it.
    pub(crate) fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut codings, mut identity, mut any) = ([None; 3], None, None);
        let members = lines.flat_map(|line| line.split(|byte| *byte == b','));
        for (name, weight) in members.filter_map(member) {
            let is = |token: &str| name.eq_ignore_ascii_case(token.as_bytes());
            if is("*") {
                any = Some(weight);
            } else if is("identity") {
                identity = Some(weight);
            } else if let Some(coding) = named(name) {
                codings[coding.index()] = Some(weight);
            }
        }
        Self {
            codings: codings.map(|weight: Option<u16>| weight.or(any).unwrap_or(0)),
            identity: identity.or(any),
        }
    }

    /// Returns the codings that a request accepts.
    pub(super) fn of_request<B>(request: &Request<B>) -> Self {
        let lines = request.headers().get_all(ACCEPT_ENCODING).iter();
        Self::of(lines.map(HeaderValue::as_bytes))
    }

    /// The coding that the client likes best, of what is there `ahead` and of what can be `made`; of those that it likes
    /// equally one that is there, the best first. `None`: the file as it is, also where the client takes neither (RFC 9110
    /// section 12.5.3 leaves that to the server).
    pub(super) fn choose(&self, ahead: Codings, made: Codings) -> Option<ContentCoding> {
        let mut chosen = None;
        // A coding is chosen where it is liked no less than the file as it is.
        let mut most = self.identity.unwrap_or(0).max(1);
        for coding in ahead.0.into_iter().chain(made.0).flatten() {
            let weight = self.codings[coding.index()];
            if weight > most || (weight == most && chosen.is_none()) {
                (chosen, most) = (Some(coding), weight);
            }
        }
        chosen
    }
}

/// The coding of a name, in any case; `x-gzip` is gzip (RFC 9110 section 8.4.1.3).
fn named(name: &[u8]) -> Option<ContentCoding> {
    let is = |token: &str| name.eq_ignore_ascii_case(token.as_bytes());
    if is("x-gzip") {
        return Some(ContentCoding::Gzip);
    }
    let mut all = ContentCoding::ALL.into_iter();
    all.find(|coding| is(coding.token()))
}

/// Name and weight of a member of the list.
fn member(text: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = text.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let weight = match parts.next() {
        None => 1000,
        Some(parameter) => weight(parameter)?,
    };
    parts.next().is_none().then_some((name, weight))
}

/// `q=0.123` in thousandths (RFC 9110 section 12.4.2).
fn weight(parameter: &[u8]) -> Option<u16> {
    let value = match parameter {
        [b'q' | b'Q', b'=', value @ ..] => value,
        _ => return None,
    };
    let (whole, digits) = match value {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', digits @ ..] if digits.len() <= 3 => (*whole, digits),
        _ => return None,
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |at: usize| u16::from(digits.get(at).map_or(0, |digit| digit - b'0'));
    let weight = u16::from(whole - b'0') * 1000 + digit(0) * 100 + digit(1) * 10 + digit(2);
    (weight <= 1000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chosen(lines: &[&str], available: &[ContentCoding]) -> Option<ContentCoding> {
        let codings = available.iter().copied().collect();
        let lines = lines.iter().map(|line| line.as_bytes());
        AcceptedCodings::of(lines).choose(codings, Codings::NONE)
    }

    #[test]
    fn of_codings_that_the_client_likes_equally_the_first_is_chosen() {
        use ContentCoding::{Brotli, Gzip, Zstd};
        for available in [[Zstd, Brotli, Gzip], [Gzip, Zstd, Brotli]] {
            for line in ["gzip, deflate, br, zstd", "*", "br;q=0.5, *;q=0.5"] {
                assert_eq!(chosen(&[line], &available), Some(available[0]), "{line}");
            }
            let line = format!("{};q=0.9, *", available[0]);
            assert_eq!(chosen(&[&line], &available), Some(available[1]));
        }
        assert_eq!(chosen(&["br, zstd"], &[Zstd, Zstd, Brotli]), Some(Zstd));
    }

    #[test]
    fn the_coding_is_the_one_that_the_client_likes_best() {
        use ContentCoding::{Brotli, Gzip, Zstd};
        for (line, all, gzip) in [
            ("gzip, deflate, br, zstd", Some(Brotli), Some(Gzip)),
            ("gzip, zstd", Some(Zstd), Some(Gzip)),
            ("br;q=0.5, gzip", Some(Gzip), Some(Gzip)),
            ("br;q=0.5,gzip;q=0.499", Some(Brotli), Some(Gzip)),
            ("X-GZIP", Some(Gzip), Some(Gzip)),
            ("*", Some(Brotli), Some(Gzip)),
            ("br;q=0, *;q=0.1", Some(Zstd), Some(Gzip)),
            ("*;q=0, gzip;q=0.001", Some(Gzip), Some(Gzip)),
            ("identity, gzip;q=0.9", None, None),
            ("identity;q=0.5, gzip;q=0.5", Some(Gzip), Some(Gzip)),
            ("identity;q=0, br", Some(Brotli), None),
            ("gzip;q=0", None, None),
            ("", None, None),
            ("deflate", None, None),
            ("gzip;q=1.1, br;q=x, zstd;v=1", None, None),
            ("gzip;q=0.1234", None, None),
            (" gzip ; q=1.000 ,", Some(Gzip), Some(Gzip)),
        ] {
            assert_eq!(chosen(&[line], &ContentCoding::ALL), all, "{line}");
            assert_eq!(chosen(&[line], &[Gzip]), gzip, "{line}");
            assert_eq!(chosen(&[line], &[]), None, "{line}");
        }
        assert_eq!(chosen(&[], &ContentCoding::ALL), None);
        assert_eq!(chosen(&["gzip", "br"], &ContentCoding::ALL), Some(Brotli));
    }

    #[test]
    fn a_form_that_is_there_is_chosen_before_one_that_must_be_made() {
        let [ahead, made] =
            [ContentCoding::Gzip, ContentCoding::Brotli].map(|it| Codings::from_iter([it]));
        let chosen =
            |line: &str| AcceptedCodings::of([line.as_bytes()].into_iter()).choose(ahead, made);
        assert_eq!(chosen("br, gzip"), Some(ContentCoding::Gzip));
        assert_eq!(chosen("br, gzip;q=0.9"), Some(ContentCoding::Brotli));
        assert_eq!(chosen("br"), Some(ContentCoding::Brotli));
        assert_eq!(chosen("identity, br;q=0.5"), None);
    }

    #[test]
    fn codings_parse_what_they_print() {
        for coding in ContentCoding::ALL {
            assert_eq!(coding.to_string().parse(), Ok(coding));
        }
        assert!("deflate".parse::<ContentCoding>().is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(line in proptest::collection::vec(any::<u8>(), 0..60)) {
            let accepted = AcceptedCodings::of([line.as_slice()].into_iter());
            let weights = accepted.codings.iter().chain(&accepted.identity);
            prop_assert!(weights.into_iter().all(|weight| *weight <= 1000));
        }
    }
}
