//! The models that an operator can choose from, and their text form.

use super::{Fixed, Model, Study, SurfaceModel, Threshold};
use crate::Surface;
use crate::decision::Offer;
use altway_units::duration;
use std::fmt;
use std::str::FromStr;

/// The name of a model with its settings.
///
/// Text form: `h2`, `h3`, `threshold`, `threshold:rtt=50ms,loss=1%`, `study`, `study:delay=20ms,loss=3.5%` (each
/// setting may be left out), `surface`, `surface:FILE`, `learned`, `learned:FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelKind {
    /// HTTP/2 for everybody; offers of HTTP/3 are revoked at once.
    FixedH2,
    /// HTTP/3 for everybody.
    FixedH3,
    /// HTTP/3 for long or lossy paths.
    Threshold(Threshold),
    /// HTTP/3 above a line over delay and loss, with short offers.
    Study(Study),
    /// HTTP/3 where a surface predicts it to be faster: that of a file, or the embedded one.
    Surface(Option<String>),
    /// The same with what is learnt of clients and classes.
    Learned(Option<String>),
}

/// The default policy: `learned` with the embedded surface.
impl Default for ModelKind {
    fn default() -> Self {
        Self::Learned(None)
    }
}

impl ModelKind {
    /// The file whose text [`build`](Self::build) needs.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::Surface(file) | Self::Learned(file) => file.as_deref(),
            _ => None,
        }
    }

    /// The name of that file, to be replaced: by its absolute path, where it is relative to a configuration.
    pub fn file_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Surface(file) | Self::Learned(file) => file.as_mut(),
            _ => None,
        }
    }

    /// The model. `surface`: what was read from [`file`](Self::file), else the embedded one.
    #[must_use]
    pub fn build(&self, surface: &Surface) -> Box<dyn Model> {
        match self {
            Self::FixedH2 => Box::new(Fixed(Offer::Http2)),
            Self::FixedH3 => Box::new(Fixed(Offer::Http3)),
            Self::Threshold(threshold) => Box::new(*threshold),
            Self::Study(study) => Box::new(*study),
            Self::Surface(file) => Box::new(SurfaceModel::surface(surface.clone(), file.is_some())),
            Self::Learned(_) => Box::new(SurfaceModel::learned(surface.clone())),
        }
    }
}

impl fmt::Display for ModelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::FixedH2 => "h2".into(),
            Self::FixedH3 => "h3".into(),
            Self::Threshold(Threshold { min_rtt, loss }) => {
                format!("threshold:rtt={},loss={loss}", duration::format(*min_rtt))
            }
            Self::Study(Study { delay, loss }) => {
                format!("study:delay={},loss={loss}", duration::format(*delay))
            }
            Self::Surface(None) => "surface".into(),
            Self::Surface(Some(file)) => format!("surface:{file}"),
            Self::Learned(None) => "learned".into(),
            Self::Learned(Some(file)) => format!("learned:{file}"),
        };
        f.pad(&text)
    }
}

/// A text that is not a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseModelError {
    /// No model has this name.
    #[error(
        "`{0}` is not a policy: expected learned, learned:FILE, surface, surface:FILE, h2, h3, \
         threshold:rtt=50ms,loss=1% or study:delay=20ms,loss=3.5%"
    )]
    Unknown(String),
    /// The model has no such setting, or it stands twice.
    #[error("`{setting}` is not a setting here: expected {time}=TIME and loss=RATIO, once each")]
    Setting {
        /// The text that was found.
        setting: String,
        /// The name of the setting that is a time.
        time: &'static str,
    },
    /// A setting's value can't be read.
    #[error("`{setting}` can't be read")]
    Value {
        /// The setting's name.
        setting: String,
        /// The fault of its value.
        source: altway_units::ParseError,
    },
}

impl FromStr for ModelKind {
    type Err = ParseModelError;

    fn from_str(text: &str) -> Result<Self, ParseModelError> {
        let (name, settings) = text
            .split_once(':')
            .map_or((text, None), |(name, it)| (name, Some(it)));
        match (name, settings) {
            ("h2", None) => Ok(Self::FixedH2),
            ("h3", None) => Ok(Self::FixedH3),
            ("learned", None) => Ok(Self::Learned(None)),
            ("learned", Some(file)) if !file.is_empty() => Ok(Self::Learned(Some(file.into()))),
            ("surface", None) => Ok(Self::Surface(None)),
            ("surface", Some(file)) if !file.is_empty() => Ok(Self::Surface(Some(file.into()))),
            ("threshold", settings) => {
                let mut it = Threshold::default();
                read(settings, "rtt", &mut it.min_rtt, &mut it.loss)?;
                Ok(Self::Threshold(it))
            }
            ("study", settings) => {
                let mut it = Study::default();
                read(settings, "delay", &mut it.delay, &mut it.loss)?;
                Ok(Self::Study(it))
            }
            _ => Err(ParseModelError::Unknown(text.into())),
        }
    }
}

/// Reads `TIME=40ms,loss=1%` into what they name.
fn read(
    settings: Option<&str>,
    time: &'static str,
    to_time: &mut std::time::Duration,
    to_loss: &mut altway_units::Ratio,
) -> Result<(), ParseModelError> {
    let mut found = (false, false);
    for setting in settings.into_iter().flat_map(|it| it.split(',')) {
        let unknown = || ParseModelError::Setting {
            setting: setting.into(),
            time,
        };
        let (name, value) = setting.split_once('=').ok_or_else(unknown)?;
        let wrong = |source| ParseModelError::Value {
            setting: name.into(),
            source,
        };
        if name == time && !found.0 {
            *to_time = duration::parse(value).map_err(wrong)?;
            found.0 = true;
        } else if name == "loss" && !found.1 {
            *to_loss = value.parse().map_err(wrong)?;
            found.1 = true;
        } else {
            return Err(unknown());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn a_setting_that_is_left_out_keeps_its_default() {
        let threshold = Threshold {
            min_rtt: Duration::from_millis(20),
            ..Threshold::default()
        };
        assert_eq!(
            "threshold:rtt=20ms".parse(),
            Ok(ModelKind::Threshold(threshold))
        );
        assert_eq!(
            "threshold".parse(),
            Ok(ModelKind::Threshold(Threshold::default()))
        );
        assert_eq!("study".parse(), Ok(ModelKind::Study(Study::default())));
    }

    #[test]
    fn every_model_parses_what_it_prints() {
        for text in [
            "h2",
            "h3",
            "surface",
            "surface:a:b.toml",
            "learned",
            "learned:fitted.toml",
            "study:delay=1ms,loss=2%",
        ] {
            assert_eq!(text.parse::<ModelKind>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn says_what_is_wrong_with_a_text() {
        let error = |text: &str| text.parse::<ModelKind>().unwrap_err();
        assert!(
            error("h4")
                .to_string()
                .contains("expected learned, learned:FILE, surface")
        );
        for text in [
            "threshold:",
            "threshold:rtt",
            "threshold:rtt=1ms,rtt=2ms",
            "study:rtt=1ms",
        ] {
            assert!(
                matches!(error(text), ParseModelError::Setting { .. }),
                "{text}"
            );
        }
        assert!(
            matches!(error("threshold:loss=150%"), ParseModelError::Value { setting, .. } if setting == "loss")
        );
        for text in ["h2:rtt=1ms", "surface:", "learned:", ""] {
            assert!(matches!(error(text), ParseModelError::Unknown(_)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn thresholds_parse_what_they_print(nanos: u64, parts in 0_u32..=1_000_000_000) {
            let kind = ModelKind::Threshold(Threshold {
                min_rtt: Duration::from_nanos(nanos),
                loss: altway_units::Ratio::from_parts_per_billion(parts).unwrap(),
            });
            prop_assert_eq!(kind.to_string().parse(), Ok(kind));
        }
    }
}
