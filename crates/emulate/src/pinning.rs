//! Processors that the link thread and the programs at its ends keep to, lest they disturb each
//! other.

use crate::processors::{Places, Processors};
use crate::{Error, Options};

/// Processors that the link and its ends keep to; `None` for those of the whole process.
///
/// Binds what is started here, and nothing else: other programs may still run on these processors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pinning {
    /// The link thread's.
    pub link: Option<usize>,
    /// Processors of the commands at the client's end.
    pub client: Option<Processors>,
    /// Processors of the commands at the far end.
    pub server: Option<Processors>,
}

impl Pinning {
    /// Returns the pinning that was asked for, and, if [`Options::isolate`] says so, a place for
    /// what was not.
    pub(crate) fn of(options: &Options) -> Result<Self, Error> {
        let mut pinning = Self {
            link: options.pin,
            client: options.pin_client.clone(),
            server: options.pin_server.clone(),
        };
        if pinning == Self::default() && !options.isolate {
            return Ok(pinning);
        }
        let allowed = Processors::allowed()?;
        let link = pinning.link.map(Processors::one);
        for asked in [&link, &pinning.client, &pinning.server] {
            asked
                .as_ref()
                .map_or(Ok(()), |asked| asked.check(&allowed))?;
        }
        if options.isolate {
            pinning.fill_in(Places::among(&allowed));
        }
        Ok(pinning)
    }

    fn fill_in(&mut self, places: Option<Places>) {
        let Some(places) = places else {
            return;
        };
        self.link.get_or_insert(places.link);
        self.client.get_or_insert(places.client);
        self.server.get_or_insert(places.server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_pinned_unless_asked_for() {
        assert_eq!(
            Pinning::of(&Options::default()).unwrap(),
            Pinning::default()
        );
    }

    #[test]
    fn what_was_asked_for_holds_and_the_rest_is_filled_in() {
        let mut pinning = Pinning {
            client: Some(Processors::one(0)),
            ..Pinning::default()
        };
        pinning.fill_in(Places::among(&"0-3".parse().unwrap()));
        let expected = Pinning {
            link: Some(3),
            client: Some(Processors::one(0)),
            server: Some(Processors::one(2)),
        };
        assert_eq!(pinning, expected);
        pinning.fill_in(None);
        assert_eq!(pinning, expected);
    }

    #[test]
    fn a_processor_that_is_not_there_is_an_error() {
        let options = Options {
            pin: Some(1_000),
            ..Options::default()
        };
        assert!(matches!(
            Pinning::of(&options),
            Err(Error::Processors { .. })
        ));
    }
}
