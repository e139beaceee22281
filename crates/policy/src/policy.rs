//! The rules an operator can choose from, and their text form.

use crate::decision::{AltSvc, Decision, FIXED_MAX_AGE, Offer, Reason};
use crate::{ParseError, Threshold};
use altway_path::PathStatistics;
use altway_units::duration;
use std::fmt;
use std::str::FromStr;

/// How the offer is chosen.
///
/// Text form: `h2`, `h3`, `threshold` (with its defaults), `threshold:rtt=50ms,loss=1%` (either
/// setting may be left out).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// HTTP/2 for everybody; earlier offers of HTTP/3 are revoked on every response.
    FixedH2,
    /// HTTP/3 for everybody, with offers that live for a month ([`FIXED_MAX_AGE`]).
    FixedH3,
    /// HTTP/3 for long or lossy paths.
    Threshold(Threshold),
}

impl Policy {
    /// What to tell a client whose path is `path` (`None`: unknown).
    #[must_use]
    pub fn decide(&self, path: Option<&PathStatistics>) -> Decision {
        match self {
            // `clear`, for an operator who switches HTTP/3 off wants it un-learnt.
            Self::FixedH2 => Decision {
                offer: Offer::Http2,
                alt_svc: AltSvc::Clear,
                reason: Reason::Fixed,
            },
            Self::FixedH3 => Decision {
                offer: Offer::Http3,
                alt_svc: AltSvc::Advertise {
                    max_age: FIXED_MAX_AGE,
                },
                reason: Reason::Fixed,
            },
            Self::Threshold(threshold) => threshold.decide(path),
        }
    }
}

/// The threshold policy with its defaults.
impl Default for Policy {
    fn default() -> Self {
        Self::Threshold(Threshold::default())
    }
}

impl FromStr for Policy {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.split_once(':') {
            None if text == "h2" => Ok(Self::FixedH2),
            None if text == "h3" => Ok(Self::FixedH3),
            None if text == "threshold" => Ok(Self::default()),
            Some(("threshold", settings)) => threshold(settings).map(Self::Threshold),
            _ => Err(ParseError::Unknown(text.into())),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FixedH2 => f.pad("h2"),
            Self::FixedH3 => f.pad("h3"),
            Self::Threshold(Threshold { min_rtt, loss }) => {
                let rtt = duration::format(*min_rtt);
                f.pad(&format!("threshold:rtt={rtt},loss={loss}"))
            }
        }
    }
}

fn threshold(settings: &str) -> Result<Threshold, ParseError> {
    let (mut min_rtt, mut loss) = (None, None);
    for setting in settings.split(',') {
        let unknown = || ParseError::Setting(setting.into());
        let (name, value) = setting.split_once('=').ok_or_else(unknown)?;
        let wrong = |source| ParseError::Value {
            setting: name.into(),
            source,
        };
        match name {
            "rtt" if min_rtt.is_none() => {
                min_rtt = Some(duration::parse(value).map_err(wrong)?);
            }
            "loss" if loss.is_none() => loss = Some(value.parse().map_err(wrong)?),
            _ => return Err(unknown()),
        }
    }
    let default = Threshold::default();
    Ok(Threshold {
        min_rtt: min_rtt.unwrap_or(default.min_rtt),
        loss: loss.unwrap_or(default.loss),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_units::Ratio;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn fixed_http2_clears_and_fixed_http3_advertises_whatever_the_path() {
        let path = PathStatistics {
            min_rtt: Duration::from_secs(1),
            loss: Ratio::ONE,
            packets: 1000,
            updated: Duration::ZERO,
        };
        for path in [None, Some(&path)] {
            let h2 = Policy::FixedH2.decide(path);
            assert_eq!((h2.offer, h2.alt_svc), (Offer::Http2, AltSvc::Clear));
            let h3 = Policy::FixedH3.decide(path);
            let advertise = AltSvc::Advertise {
                max_age: FIXED_MAX_AGE,
            };
            assert_eq!((h3.offer, h3.alt_svc), (Offer::Http3, advertise));
        }
    }

    #[test]
    fn a_setting_that_is_left_out_keeps_its_default() {
        let policy: Policy = "threshold:rtt=20ms".parse().unwrap();
        let expected = Threshold {
            min_rtt: Duration::from_millis(20),
            ..Threshold::default()
        };
        assert_eq!(policy, Policy::Threshold(expected));
        assert_eq!("threshold".parse(), Ok(Policy::default()));
    }

    #[test]
    fn says_what_is_wrong_with_a_text() {
        let error = |text: &str| text.parse::<Policy>().unwrap_err();
        assert!(error("h4").to_string().contains("expected h2, h3"));
        assert!(matches!(error("threshold:"), ParseError::Setting(_)));
        assert!(matches!(error("threshold:rtt"), ParseError::Setting(_)));
        let twice = error("threshold:rtt=1ms,rtt=2ms");
        assert_eq!(twice, ParseError::Setting("rtt=2ms".into()));
        let loss = error("threshold:loss=150%");
        assert!(matches!(loss, ParseError::Value { setting, .. } if setting == "loss"));
        assert!(matches!(error("h2:rtt=1ms"), ParseError::Unknown(_)));
    }

    proptest! {
        #[test]
        fn parses_what_it_prints(nanos: u64, parts in 0_u32..=1_000_000_000) {
            let policy = Policy::Threshold(Threshold {
                min_rtt: Duration::from_nanos(nanos),
                loss: Ratio::from_parts_per_billion(parts).unwrap(),
            });
            prop_assert_eq!(policy.to_string().parse(), Ok(policy));
        }
    }
}
