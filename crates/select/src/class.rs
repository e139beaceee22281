//! The class of a client: which HTTP/3 implementation it has, and on what kind of machine.
//!
//! A client's rate over QUIC depends on its own program and machine more than on its path, and a
//! class of clients is known after a day where a single client is not. A client that lies about its class
//! buys itself nothing but the wrong first guess.

use std::fmt;
use std::str::FromStr;

/// Bytes of each field that are looked at.
const MAX_FIELD: usize = 512;

/// An implementation of HTTP/3, by its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Family {
    /// Unknown, or one that contradicts itself.
    Other,
    /// Chrome, Edge, Opera and all others on Chromium's network stack.
    Chromium,
    /// Firefox.
    Firefox,
    /// Safari, and every browser on iOS, where all have its network stack.
    Safari,
    /// Android's WebView: Chromium's stack in the process of another program.
    WebView,
    /// curl.
    Curl,
    /// altway's own client.
    Altway,
}

/// A kind of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Platform {
    /// Unknown.
    Other,
    /// Windows.
    Windows,
    /// macOS.
    MacOs,
    /// Linux on desktops.
    Linux,
    /// Android.
    Android,
    /// iOS and iPadOS.
    Ios,
    /// ChromeOS.
    ChromeOs,
}

const FAMILIES: [(Family, &str); 7] = [
    (Family::Other, "other"),
    (Family::Chromium, "chromium"),
    (Family::Firefox, "firefox"),
    (Family::Safari, "safari"),
    (Family::WebView, "webview"),
    (Family::Curl, "curl"),
    (Family::Altway, "altway"),
];

const PLATFORMS: [(Platform, &str); 7] = [
    (Platform::Other, "other"),
    (Platform::Windows, "windows"),
    (Platform::MacOs, "macos"),
    (Platform::Linux, "linux"),
    (Platform::Android, "android"),
    (Platform::Ios, "ios"),
    (Platform::ChromeOs, "chromeos"),
];

/// A family on a platform: one of 49 classes, whose index is below [`ClientClass::COUNT`].
///
/// Text form: `chromium-android`, `other-other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientClass {
    family: Family,
    platform: Platform,
}

/// The fields and facts that show a client's class. Fields are bytes as they arrived, and may contain anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hints<'a> {
    /// `User-Agent` (RFC 9110 section 10.1.5).
    pub user_agent: Option<&'a [u8]>,
    /// `Sec-CH-UA`: the brands, of which a Chromium names itself.
    pub brands: Option<&'a [u8]>,
    /// `Sec-CH-UA-Platform`.
    pub platform: Option<&'a [u8]>,
    /// The network stack that the handshake looks like, where the caller can tell.
    pub look: Option<Stack>,
}

/// A network stack, as recognised from a TLS or QUIC handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stack {
    /// Chromium's.
    Chromium,
    /// Firefox's.
    Firefox,
    /// Apple's.
    Apple,
    /// One that is known not to be any of these.
    Other,
}

impl ClientClass {
    /// An upper bound of [`index`](Self::index): it fits into six bits.
    pub const COUNT: usize = 64;

    /// The class of everything unknown.
    pub const OTHER: Self = Self::new(Family::Other, Platform::Other);

    /// A family on a platform.
    #[must_use]
    pub const fn new(family: Family, platform: Platform) -> Self {
        Self { family, platform }
    }

    /// The class that `hints` name; [`ClientClass::OTHER`] where they contradict each other.
    ///
    /// ```
    /// use altway_select::{ClientClass, Hints, Stack};
    ///
    /// let agent: &[u8] = b"Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0";
    /// let hints = Hints { user_agent: Some(agent), ..Hints::default() };
    /// assert_eq!(ClientClass::of(&hints).to_string(), "firefox-linux");
    ///
    /// // A handshake that doesn't look like Firefox's.
    /// let hints = Hints { look: Some(Stack::Chromium), ..hints };
    /// assert_eq!(ClientClass::of(&hints), ClientClass::OTHER);
    /// ```
    #[must_use]
    pub fn of(hints: &Hints<'_>) -> Self {
        let agent = Text::new(hints.user_agent);
        let brands = Text::new(hints.brands);
        let platform = platform(&agent, &Text::new(hints.platform));
        let family = family(&agent, &brands, platform);
        let look = hints.look.is_none_or(|look| look == stack_of(family));
        match family {
            Some(family) if look => Self::new(family, platform),
            _ => Self::OTHER,
        }
    }

    /// A number below [`ClientClass::COUNT`].
    #[must_use]
    pub const fn index(self) -> u8 {
        self.family as u8 * 8 + self.platform as u8
    }

    /// The class with that index; `None` for a number that no class has.
    #[must_use]
    pub fn from_index(index: u8) -> Option<Self> {
        let (family, _) = FAMILIES.get(usize::from(index / 8))?;
        let (platform, _) = PLATFORMS.get(usize::from(index % 8))?;
        Some(Self::new(*family, *platform))
    }

    /// The implementation.
    #[must_use]
    pub const fn family(self) -> Family {
        self.family
    }

    /// The kind of machine.
    #[must_use]
    pub const fn platform(self) -> Platform {
        self.platform
    }

    /// True if these clients follow an offer within the page, by the very next request, and wait for the new connection.
    #[must_use]
    pub const fn moves_within_page(self) -> bool {
        matches!(self.family, Family::Firefox)
    }

    /// True if an offer in an ALTSVC frame (RFC 7838 section 4) reaches these clients: Chromium, Firefox and altway's take it as they
    /// take one in a field, curl doesn't know it, and of others it is not known.
    #[must_use]
    pub const fn heeds_alt_svc_frames(self) -> bool {
        matches!(
            self.family,
            Family::Chromium | Family::Firefox | Family::Altway
        )
    }

    /// True if these clients come over TCP where the alternative of an offer can't be reached, as RFC 7838 section 2.4 allows and
    /// does not ask for. curl tries QUIC alone until its entry has run out, so that it reaches nothing where UDP is blocked
    /// (seen with 8.14; curl's issue 19740).
    #[must_use]
    pub const fn falls_back(self) -> bool {
        !matches!(self.family, Family::Curl)
    }

    /// True if these clients keep a connection over HTTP/3 when a response of it takes every alternative back, and come over
    /// TCP at their next one.
    #[must_use]
    pub const fn keeps_cleared_connection(self) -> bool {
        matches!(self.family, Family::Firefox)
    }

    /// All classes.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..64).filter_map(Self::from_index)
    }

    /// True if a page of such a client tells what visitors load: a browser's, or one that came over HTTP/3. Most other programs,
    /// such as monitors and crawlers, have no HTTP/3 and nothing of what is chosen.
    pub(crate) const fn is_visitor(self, over_http3: bool) -> bool {
        over_http3 || self.is_browser()
    }

    /// The class is of a browser that people use.
    pub(crate) const fn is_browser(self) -> bool {
        !matches!(self.family, Family::Other | Family::Curl | Family::Altway)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(FAMILIES[*self as usize].1)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(PLATFORMS[*self as usize].1)
    }
}

impl fmt::Display for ClientClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}-{}", self.family, self.platform))
    }
}

/// A text that names no class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a class of clients: expected a family and a platform, like `chromium-android`"
)]
pub struct ParseClassError(String);

impl FromStr for Family {
    type Err = ParseClassError;

    fn from_str(text: &str) -> Result<Self, ParseClassError> {
        let found = FAMILIES.iter().find(|(_, name)| *name == text);
        found
            .map(|(family, _)| *family)
            .ok_or_else(|| ParseClassError(text.into()))
    }
}

impl FromStr for ClientClass {
    type Err = ParseClassError;

    fn from_str(text: &str) -> Result<Self, ParseClassError> {
        let wrong = || ParseClassError(text.into());
        let (family, platform) = text.split_once('-').ok_or_else(wrong)?;
        let family = family.parse().map_err(|_| wrong())?;
        let platform = PLATFORMS.iter().find(|(_, name)| *name == platform);
        Ok(Self::new(family, platform.ok_or_else(wrong)?.0))
    }
}

/// The first bytes of a field.
struct Text<'a>(Option<&'a [u8]>);

impl<'a> Text<'a> {
    fn new(field: Option<&'a [u8]>) -> Self {
        Self(field.map(|field| &field[..field.len().min(MAX_FIELD)]))
    }

    fn has(&self, word: &str) -> bool {
        let word = word.as_bytes();
        self.0
            .is_some_and(|text| text.windows(word.len()).any(|it| it == word))
    }

    fn has_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.has(word))
    }

    fn begins_with(&self, word: &str) -> bool {
        self.0.is_some_and(|text| text.starts_with(word.as_bytes()))
    }
}

/// `None` where agent and brands contradict each other, or neither is known.
fn family(agent: &Text<'_>, brands: &Text<'_>, platform: Platform) -> Option<Family> {
    let by_agent = family_of_agent(agent, platform);
    if !brands.has("\"Chromium\"") {
        return by_agent;
    }
    match by_agent {
        _ if brands.has("\"Android WebView\"") => Some(Family::WebView),
        None | Some(Family::Chromium | Family::WebView) => by_agent.or(Some(Family::Chromium)),
        _ => None,
    }
}

fn family_of_agent(agent: &Text<'_>, platform: Platform) -> Option<Family> {
    if agent.begins_with("curl/") {
        return Some(Family::Curl);
    }
    if agent.begins_with("altway") {
        return Some(Family::Altway);
    }
    if platform == Platform::Ios && agent.has("AppleWebKit/") {
        return Some(Family::Safari);
    }
    if agent.has("Firefox/") && agent.has("Gecko/") {
        return Some(Family::Firefox);
    }
    if agent.has_any(&["Chrome/", "Chromium/"]) {
        let embedded = platform == Platform::Android && agent.has("; wv)");
        return Some(if embedded {
            Family::WebView
        } else {
            Family::Chromium
        });
    }
    let safari = agent.has("AppleWebKit/") && agent.has("Version/") && agent.has("Safari/");
    safari.then_some(Family::Safari)
}

fn platform(agent: &Text<'_>, hint: &Text<'_>) -> Platform {
    const HINTS: [(&str, Platform); 7] = [
        ("Windows", Platform::Windows),
        ("macOS", Platform::MacOs),
        ("Android", Platform::Android),
        ("iOS", Platform::Ios),
        ("Chrome OS", Platform::ChromeOs),
        ("Chromium OS", Platform::ChromeOs),
        ("Linux", Platform::Linux),
    ];
    // Android names Linux as well, and an iPhone says `like Mac OS X`.
    const WORDS: [(&str, Platform); 9] = [
        ("Android", Platform::Android),
        ("iPhone", Platform::Ios),
        ("iPad", Platform::Ios),
        ("iPod", Platform::Ios),
        ("Windows", Platform::Windows),
        ("Macintosh", Platform::MacOs),
        ("CrOS", Platform::ChromeOs),
        ("Linux", Platform::Linux),
        ("X11", Platform::Linux),
    ];
    let find = |text: &Text<'_>, words: &[(&str, Platform)]| {
        words
            .iter()
            .find(|(word, _)| text.has(word))
            .map(|(_, it)| *it)
    };
    find(hint, &HINTS)
        .or_else(|| find(agent, &WORDS))
        .unwrap_or(Platform::Other)
}

/// The stack that a family's handshake must look like. An unknown family may look like anything but a browser.
const fn stack_of(family: Option<Family>) -> Stack {
    match family {
        Some(Family::Chromium | Family::WebView) => Stack::Chromium,
        Some(Family::Firefox) => Stack::Firefox,
        Some(Family::Safari) => Stack::Apple,
        _ => Stack::Other,
    }
}

#[cfg(test)]
mod tests;
