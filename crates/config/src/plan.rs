//! A configuration that holds together.

mod check;
mod sites;

use crate::fault::Fault;
use crate::{Config, Faults, Site};
use altway_document::Place;
use std::collections::HashMap;

/// Where keys stand, by their paths: `limits.max-held`, `site.0.route.2.path`.
pub(crate) type Places = HashMap<String, Place>;

/// A [`Config`] that was checked: what its values say goes together. It can't be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan(Config);

impl Plan {
    /// Checks a configuration that was not read from a text.
    ///
    /// # Errors
    /// All that does not go together.
    pub fn check(config: Config) -> Result<Self, Faults> {
        let faults = faults_of(&config, &Places::new());
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

    /// Its sites, one at least.
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

/// What does not go together, in no order.
pub(crate) fn faults_of(config: &Config, places: &Places) -> Vec<Fault> {
    let mut check = check::Check::new(places);
    check.server(config);
    check.limits(&config.limits);
    check.sites(config);
    check.faults
}
