//! The certificates that sites name, in the order in which a server looks for them.

use altway_config::{Certificate, ClientCertificates, Plan, Site};
use altway_serve::{Certificates, ClientAuth, Identity};

/// The certificates of all sites, those of the default site first. `read` has one that a site names; `own` makes one
/// for these names, of all sites that name none: host names, `*.` and a host name, and addresses.
///
/// Where no site is the default one, clients that ask for a name that no certificate is for are shown none
/// ([`Certificates::strict`]).
///
/// # Errors
/// The errors of `read` and `own`.
pub fn certificates<E>(
    plan: &Plan,
    mut read: impl FnMut(&Certificate) -> Result<Identity, E>,
    own: impl FnOnce(&[String]) -> Result<Identity, E>,
) -> Result<Certificates, E> {
    let has_default = plan.sites().iter().any(|site| site.is_default);
    let mut sites: Vec<_> = plan.sites().iter().collect();
    sites.sort_by_key(|site| !site.is_default);
    let (mut identities, mut own_names, mut own_place) = (Vec::new(), Vec::new(), None);
    for site in sites {
        if site.certificates.is_empty() {
            own_place.get_or_insert(identities.len());
            own_names.extend(names_of(site));
        }
        for certificate in &site.certificates {
            identities.push(read(certificate)?);
        }
    }
    if let Some(place) = own_place {
        identities.insert(place, own(&own_names)?);
    }
    let mut identities = identities.into_iter();
    let first = identities.next();
    // A plan has one site at least, and each has a certificate or one of ours.
    let first = first.expect("each site has a certificate");
    let all = identities.fold(Certificates::new(first), Certificates::with);
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
    for site in sites {
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

/// The names of a site as certificates write them: addresses without brackets.
fn names_of(site: &Site) -> impl Iterator<Item = String> {
    let plain = |name: String| name.trim_matches(['[', ']']).to_owned();
    site.names.iter().map(move |name| plain(name.to_string()))
}
