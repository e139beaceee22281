//! Surfaces as files: TOML with a version, the coefficients with their units, and where they are from.

use super::{Congestion, Surface};
use crate::ClientClass;
use serde::Deserialize;
use std::fmt::Write as _;

/// Version of the format of surface files.
const VERSION: u32 = 1;

/// A text that is no surface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SurfaceError {
    /// No TOML of this form; with line and key.
    #[error("not a surface: {0}")]
    Syntax(String),
    /// Another version of altway wrote it.
    #[error("surface of version {found}, where {VERSION} is expected")]
    Version {
        /// Version in the text.
        found: u32,
    },
    /// A coefficient is not finite, or outside of what makes sense.
    #[error("{name} is outside of {low} to {high}")]
    Range {
        /// Name of the coefficient.
        name: &'static str,
        /// Least value.
        low: u32,
        /// Largest value.
        high: u32,
    },
    /// More pairs of congestion controls than there are.
    #[error("sources.congestion: {0} pairs, of which there are four")]
    Congestion(usize),
    /// A limit of a class that there is not, or one that no client can have.
    #[error("limit of `{0}`: expected a class like `chromium-android`, and 1e6 to 1e11 bit/s")]
    Limit(String),
}

/// The part that a file of any version has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Surface {
    /// Reads a surface file.
    ///
    /// # Errors
    /// The text is no surface (with the line, and the key), of another version, or has values that are out of range.
    pub fn parse(text: &str) -> Result<Self, SurfaceError> {
        let syntax = |error| SurfaceError::Syntax(located(&error, text));
        let Versioned { version } = toml::from_str(text).map_err(syntax)?;
        if version != VERSION {
            return Err(SurfaceError::Version { found: version });
        }
        let surface: Self = toml::from_str(text).map_err(syntax)?;
        surface.check()?;
        Ok(surface)
    }

    pub(crate) fn check(&self) -> Result<(), SurfaceError> {
        let ranges = [
            ("loss.numerator", self.loss.numerator, 1, 100),
            ("loss.softness", self.loss.softness, 1, 20),
            ("lead.base", self.lead.base, 0, 1),
            ("lead.growth", self.lead.growth, 0, 50),
            ("lead.pace", self.lead.pace, 0, 10),
            ("lead.objects", self.lead.objects, 0, 5),
            (
                "quic.handshake-bytes",
                self.quic.handshake_bytes,
                0,
                100_000,
            ),
            ("quic.handshake-seconds", self.quic.handshake_seconds, 0, 1),
            ("quic.request-seconds", self.quic.request_seconds, 0, 1),
        ];
        let out = ranges
            .iter()
            .find(|(_, value, low, high)| !(f64::from(*low)..=f64::from(*high)).contains(value));
        if let Some(&(name, _, low, high)) = out {
            return Err(SurfaceError::Range { name, low, high });
        }
        let pairs = self.sources.congestion.len();
        if pairs > 4 {
            return Err(SurfaceError::Congestion(pairs));
        }
        let wrong = self.limits.iter().find(|(class, limit)| {
            class.parse::<ClientClass>().is_err() || !(1e6..=1e11).contains(*limit)
        });
        wrong.map_or(Ok(()), |(class, _)| Err(SurfaceError::Limit(class.clone())))
    }

    /// The surface as a file, each coefficient with its unit.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let (loss, lead, quic) = (&self.loss, &self.lead, &self.quic);
        let coefficients = format!(
            "# Coefficients of the times of both protocols; altway's docs/policy.md says what they mean.\n\
             version = {VERSION}\n\n\
             # The rate that loss permits: its numerator (a number), and the exponent of its soft minimum with the rate\n\
             # of the path (a number).\n\
             [loss]\nnumerator = {:?}\nsoftness = {:?}\n\n\
             # ln of the lead of HTTP/3 where loss slows: base, growth by the share of packets lost, how soon it is\n\
             # reached by ln of the slowdown (a number), and what many objects add (a share).\n\
             [lead]\nbase = {:?}\ngrowth = {:?}\npace = {:?}\nobjects = {:?}\n\n\
             # What QUIC costs beyond TLS over TCP: a handshake in bytes and in seconds, a request in seconds.\n\
             [quic]\nhandshake-bytes = {:?}\nhandshake-seconds = {:?}\nrequest-seconds = {:?}\n\n\
             # Bit/s that a client of the class takes over QUIC at most; others are taken for the median of these.\n\
             [limits]\n",
            loss.numerator,
            loss.softness,
            lead.base,
            lead.growth,
            lead.pace,
            lead.objects,
            quic.handshake_bytes,
            quic.handshake_seconds,
            quic.request_seconds,
        );
        let limits = self.limits.iter();
        let limits = limits.map(|(class, limit)| format!("{class} = {}\n", megabits(*limit)));
        coefficients + &limits.collect::<String>() + &self.sources.to_toml()
    }
}

impl super::Sources {
    fn to_toml(&self) -> String {
        let mut text = format!(
            "\n# From what it was made, under which congestion control of TCP and of QUIC; errors are medians of\n\
             # |ln(T3/T2)|, predicted against measured.\n\
             [sources]\nnote = {}\ncongestion = [{}]\ncells = {}\nmedian-error = {:?}\n",
            quoted(&self.note),
            self.pairs(),
            self.cells,
            self.median_error
        );
        if let Some(error) = self.held_out_error {
            let _ = writeln!(text, "held-out-error = {error:?}");
        }
        for run in &self.runs {
            let _ = write!(
                text,
                "\n[[sources.runs]]\nname = {}\nplan = {}\nstarted = {}\n",
                quoted(&run.name),
                quoted(&run.plan),
                quoted(&run.started)
            );
            if let Some(commit) = &run.commit {
                let _ = writeln!(text, "commit = {}", quoted(commit));
            }
        }
        text
    }

    /// Pairs of congestion controls as members of a list.
    fn pairs(&self) -> String {
        let pair = |[tcp, quic]: &[Congestion; 2]| format!("[\"{tcp}\", \"{quic}\"]");
        let pairs: Vec<_> = self.congestion.iter().map(pair).collect();
        pairs.join(", ")
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// `735e6` where that is the number, which is easier to read.
fn megabits(bps: f64) -> String {
    let text = format!("{}e6", bps / 1e6);
    if text.parse() == Ok(bps) {
        text
    } else {
        format!("{bps:?}")
    }
}

/// The fault, after the line and the key that it stands at.
fn located(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().trim_end().replace('\n', "; ");
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
        return message;
    };
    let number = before.matches('\n').count();
    let line = text.lines().nth(number).unwrap_or_default();
    let key = line.split_once('=').map(|(key, _)| key.trim());
    match key.filter(|key| !message.contains(*key)) {
        Some(key) => format!("line {}: `{key}`: {message}", number + 1),
        None => format!("line {}: {message}", number + 1),
    }
}

#[cfg(test)]
mod tests;
