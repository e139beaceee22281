//! Names of sites that their certificates are not for: clients refuse those that they are shown there.

use altway_config::Site;
use altway_serve::CertificateNames;
use std::fmt;
use std::path::PathBuf;

/// The most names and certificates of a site that are printed.
const MOST: usize = 8;

/// Names of a site that none of its certificates is for. [`Display`](fmt::Display) tells the first of them, and what the
/// certificates are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncoveredNames {
    /// The first name of the site.
    site: String,
    names: Vec<String>,
    certificates: Vec<(PathBuf, CertificateNames)>,
}

/// Returns the names of a site that none of its certificates of files is for; `None`: there are none. `certificates`: the
/// names of each, in the order of the site.
#[must_use]
pub fn uncovered_names(site: &Site, certificates: &[CertificateNames]) -> Option<UncoveredNames> {
    let names = site.names.iter().map(ToString::to_string);
    let is_uncovered = |name: &String| !certificates.iter().any(|it| it.include(name));
    let names: Vec<_> = names.filter(is_uncovered).collect();
    if names.is_empty() || certificates.is_empty() {
        return None;
    }
    let chains = site.certificates.iter().map(|it| it.chain.clone());
    Some(UncoveredNames {
        site: site.names.first()?.to_string(),
        names,
        certificates: chains.zip(certificates.iter().cloned()).collect(),
    })
}

impl fmt::Display for UncoveredNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.names.len() == 1 {
            "name"
        } else {
            "names"
        };
        let names = self.names.iter().map(|name| format!("`{name}`"));
        let certificates = self.certificates.iter();
        let certificates =
            certificates.map(|(path, names)| format!("`{}` is for {names}", path.display()));
        write!(
            f,
            "no certificate of the site `{}` is valid for its {word} {}: {}",
            self.site,
            listed(names.collect(), ", "),
            listed(certificates.collect(), "; ")
        )
    }
}

/// The first texts, and how many more there are.
fn listed(mut texts: Vec<String>, between: &str) -> String {
    let more = texts.len().saturating_sub(MOST);
    texts.truncate(MOST);
    let text = texts.join(between);
    match more {
        0 => text,
        _ => format!("{text} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_config::{NoFiles, Plan, read};
    use altway_serve::certs::Store;

    /// A plan of one site with these names and as many certificates.
    fn plan(names: &[String], certificates: usize) -> Plan {
        let files: Vec<_> = (0..certificates)
            .map(|number| format!("{{ chain = \"{number}.pem\", key = \"{number}.key\" }}"))
            .collect();
        let certificate = match files.is_empty() {
            true => String::new(),
            false => format!("certificate = [{}]\n", files.join(", ")),
        };
        let text =
            format!("[[site]]\nnames = {names:?}\n{certificate}route = [{{ respond = {{}} }}]\n");
        read("a.toml", &text, &mut NoFiles).unwrap_or_else(|it| panic!("{it}"))
    }

    /// The warning of a site with these names, whose certificates are each for those and this machine's.
    fn warning(names: &[&str], certificates: &[&[&str]]) -> Option<String> {
        let owned: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let plan = plan(&owned, certificates.len());
        let of_each = certificates.iter().map(|names| {
            let folder = tempfile::tempdir().unwrap();
            let leaf = Store::open(folder.path()).unwrap().leaf(names).unwrap();
            leaf.identity().unwrap().names()
        });
        let of_each: Vec<_> = of_each.collect();
        uncovered_names(&plan.sites()[0], &of_each).map(|it| it.to_string())
    }

    #[test]
    fn a_name_that_no_certificate_of_its_site_is_for_is_told_with_what_they_are_for() {
        let own: &[&str] = &["a.example", "*.b.example", "192.0.2.1"];
        let said = warning(&["a.example", "www.a.example"], &[own]).unwrap();
        let expected = "no certificate of the site `a.example` is valid for its name `www.a.example`: `0.pem` is for ";
        assert!(said.starts_with(expected), "{said}");
        assert!(
            said.contains("a.example") && said.contains("*.b.example"),
            "{said}"
        );
        let said = warning(&["c.example", "*.c.example", "[2001:db8::1]"], &[own, own]).unwrap();
        let names =
            "is valid for its names `c.example`, `*.c.example`, `[2001:db8::1]`: `0.pem` is for ";
        assert!(
            said.contains(names) && said.contains("; `1.pem` is for "),
            "{said}"
        );
    }

    #[test]
    fn names_that_certificates_of_a_site_are_for_between_them_are_no_fault() {
        let names = ["a.example", "x.b.example", "*.b.example", "192.0.2.1"];
        assert_eq!(
            warning(&names, &[&["a.example"], &["*.b.example", "192.0.2.1"]]),
            None
        );
        assert_eq!(warning(&["a.example"], &[]), None);
    }

    #[test]
    fn of_many_names_the_first_are_told() {
        let names: Vec<_> = (0..20).map(|number| format!("{number}.example")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let said = warning(&names, &[&["a.example"]]).unwrap();
        assert!(said.contains("`7.example` and 12 more: "), "{said}");
    }
}
