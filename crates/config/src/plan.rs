//! A configuration that holds together.

mod acme;
mod check;
mod proxy;
mod redirects;
mod sites;
mod upload;

use crate::fault::Fault;
use crate::{Config, Faults, Site};
use altway_document::Place;
use std::collections::HashMap;

/// Places of the keys of a configuration, by their paths: `limits.max-held`, `site.0.route.2.path`, counted
/// as in the [`Config`].
#[derive(Debug, Clone, Default)]
pub struct Places {
    pub(crate) keys: HashMap<String, Place>,
    /// The files, in the order of reading.
    pub(crate) files: Vec<String>,
}

impl Places {
    /// The place of a key's value, or of a table; `None`: the text does not have it.
    #[must_use]
    pub fn of(&self, path: &str) -> Option<&Place> {
        self.keys.get(path)
    }

    /// Faults that were found later, sorted as [`read`](crate::read) sorts its own.
    ///
    /// # Errors
    /// There are faults.
    pub fn none_of(&self, mut faults: Vec<Fault>) -> Result<(), Faults> {
        self.sort(&mut faults);
        Faults::none_or(faults, ())
    }

    /// Sorts faults: those of the first file first, each file's from top to bottom.
    pub(crate) fn sort(&self, faults: &mut [Fault]) {
        faults.sort_by_cached_key(|fault| {
            let place = fault.place.as_ref();
            let file = place.and_then(|place| place.file.as_ref());
            let file = file.and_then(|file| self.files.iter().position(|name| name == file));
            (file, place.map(|place| (place.line, place.column)))
        });
    }
}

/// A [`Config`] that was checked: what its values say goes together. It can't be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan(Config);

impl Plan {
    /// Checks a configuration that was not read from a text.
    ///
    /// # Errors
    /// All that does not go together.
    pub fn check(config: Config) -> Result<Self, Faults> {
        let faults = faults_of(&config, &Places::default());
        Faults::none_or(faults, Self(config))
    }

    pub(crate) fn unchecked(config: Config) -> Self {
        Self(config)
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.0
    }

    /// Returns the sites, one at least.
    #[must_use]
    pub fn sites(&self) -> &[Site] {
        &self.0.sites
    }

    /// The site that has requests for `host` (without port, in any case): by its exact name, else by a
    /// wildcard, else the default one. Looks at every name; a server makes a table of them.
    #[must_use]
    pub fn site_of(&self, host: &str) -> Option<&Site> {
        let named = |wildcard: bool| {
            self.sites().iter().find(|site| {
                let mut names = site.names.iter();
                names.any(|name| name.wildcard().is_some() == wildcard && name.matches(host))
            })
        };
        let default = || self.sites().iter().find(|site| site.is_default);
        named(false).or_else(|| named(true)).or_else(default)
    }
}

/// Returns the faults of what does not go together, in no order.
pub(crate) fn faults_of(config: &Config, places: &Places) -> Vec<Fault> {
    let mut check = check::Check::new(places);
    check.server(config);
    check.limits(&config.limits);
    check.sites(config);
    check.acme(config);
    check.faults
}
