//! The certificates that sites name, in the order in which a server looks for them.

use altway_config::{Certificate, ClientCertificates, Issuer, Plan, Site, SiteName};
use altway_serve::{Certificates, ClientAuth, Identity};

/// The certificates of all sites, those of the default site first. `read` has one that a site names; `ordered` the one
/// that was got for a name by ACME; `own` makes one for these names, of all sites whose certificate is of altway's own
/// authority: host names, `*.` and a host name, and addresses.
///
/// Clients that ask for a name whose certificate is to come by ACME and is not there yet are shown none
/// ([`Certificates::awaiting`]). Where no site is the default one, or that one has none yet, clients that ask for a
/// name that no certificate is for are shown none ([`Certificates::strict`]). Clients that ask for no name are shown what
/// the first site has that is named by an address ([`Certificates::with_unnamed`]).
///
/// # Errors
/// The errors of `read` and `own`.
pub fn certificates<E>(
    plan: &Plan,
    mut read: impl FnMut(&Certificate) -> Result<Identity, E>,
    mut ordered: impl FnMut(&str) -> Option<Identity>,
    own: impl FnOnce(&[String]) -> Result<Identity, E>,
) -> Result<Certificates, E> {
    let has_acme = plan.config().acme.is_some();
    let (mut identities, mut own_place) = (Vec::new(), None);
    let (mut awaited, mut has_default) = (Vec::new(), false);
    let sites = default_first(plan);
    let by_address = sites.iter().position(|site| has_address(site));
    let mut is_own_by_address = false;
    for (place, site) in sites.into_iter().enumerate() {
        let is_by_address = by_address == Some(place);
        match site.issuer(has_acme) {
            None => {
                for certificate in &site.certificates {
                    identities.push((read(certificate)?, is_by_address));
                }
            }
            Some(Issuer::Own) => {
                own_place.get_or_insert(identities.len());
                is_own_by_address |= is_by_address;
            }
            Some(Issuer::Acme) => {
                // What a wildcard stands for is had on demand, name by name.
                let exact = site.names.iter().filter(|name| name.exact().is_some());
                for name in exact.map(plain) {
                    identities.extend(ordered(&name).map(|it| (it, false)));
                    awaited.push(name);
                }
            }
        }
        has_default |= site.is_default && (!identities.is_empty() || own_place.is_some());
    }
    if let Some(place) = own_place {
        identities.insert(place, (own(&own_names(plan))?, is_own_by_address));
    }
    let add = |all: Certificates, (identity, is_by_address)| match is_by_address {
        true => all.with_unnamed(identity),
        false => all.with(identity),
    };
    let all = identities.into_iter().fold(Certificates::default(), add);
    let names = awaited.iter();
    let all = names.fold(all, |all, name| all.awaiting(name));
    Ok(if has_default { all } else { all.strict() })
}

/// The same certificates, with what the sites ask their clients for. `read` has what one asks for.
///
/// # Errors
/// The errors of `read`.
pub fn with_client_auth<E>(
    plan: &Plan,
    mut certificates: Certificates,
    mut read: impl FnMut(&ClientCertificates) -> Result<ClientAuth, E>,
) -> Result<Certificates, E> {
    let sites = plan.sites();
    if sites.iter().all(|site| site.client_certificates.is_none()) {
        return Ok(certificates);
    }
    // In this order the first address is that whose certificate clients without a name are shown.
    for site in default_first(plan) {
        let auth = site.client_certificates.as_ref().map(&mut read);
        let auth = auth.transpose()?;
        let names = site.names.iter().map(ToString::to_string);
        certificates = certificates.with_client_auth(names, auth.as_ref());
        if let Some(auth) = auth.filter(|_| site.is_default) {
            certificates = certificates.with_other_client_auth(&auth);
        }
    }
    Ok(certificates)
}

/// Returns the names of all sites whose certificate is of altway's own authority, the default site's first.
#[must_use]
pub fn own_names(plan: &Plan) -> Vec<String> {
    let has_acme = plan.config().acme.is_some();
    let sites = default_first(plan).into_iter();
    let own = sites.filter(|site| site.issuer(has_acme) == Some(Issuer::Own));
    own.flat_map(names_of).collect()
}

fn has_address(site: &Site) -> bool {
    site.names.iter().any(SiteName::is_address)
}

fn default_first(plan: &Plan) -> Vec<&Site> {
    let mut sites: Vec<_> = plan.sites().iter().collect();
    sites.sort_by_key(|site| !site.is_default);
    sites
}

/// Returns the names of a site as certificates write them: addresses without brackets.
fn names_of(site: &Site) -> impl Iterator<Item = String> {
    site.names.iter().map(plain)
}

fn plain(name: &SiteName) -> String {
    name.to_string().trim_matches(['[', ']']).to_owned()
}
