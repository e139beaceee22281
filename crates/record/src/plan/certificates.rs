//! The key `certificate` of a plan: words, and files of chains.

use super::PlanError;
use super::file::{Files, OneOrMany, Sources};
use crate::axis::{AxisError, MAX_AXIS_VALUES};
use crate::{Certificate, Chain};

const KEY: &str = "certificate";

impl Sources {
    /// The certificates of a plan, each once, and what is known of the files among them.
    pub(super) fn certificates(
        &self,
        typed: Option<OneOrMany<String>>,
        load: &mut Files<'_>,
    ) -> Result<(Vec<Certificate>, Vec<Chain>), PlanError> {
        let texts = typed.map_or_else(|| vec![Certificate::default().to_string()], OneOrMany::list);
        let (mut certificates, mut chains) = (Vec::new(), Vec::new());
        for text in texts {
            let certificate = match is_file(&text) {
                true => {
                    let chain = self.chain(&text, load)?;
                    let name = chain.name;
                    chains.push(chain);
                    Certificate::Chain(name)
                }
                false => text
                    .parse()
                    .map_err(|fault| self.axis_error(KEY, AxisError::Value(fault)))?,
            };
            if certificates.contains(&certificate) {
                return Err(self.axis_error(KEY, AxisError::Twice(certificate.to_string())));
            }
            certificates.push(certificate);
        }
        match certificates.len() {
            0 => Err(self.axis_error(KEY, AxisError::Empty)),
            1..=MAX_AXIS_VALUES => Ok((certificates, chains)),
            _ => Err(self.axis_error(KEY, AxisError::TooMany)),
        }
    }

    /// The values of certificate compression in a plan: `true`, `false`, or each once.
    pub(super) fn certificate_compressions(
        &self,
        typed: Option<OneOrMany<bool>>,
    ) -> Result<Vec<bool>, PlanError> {
        let values = typed.map_or_else(|| vec![true], OneOrMany::list);
        let fault = match values.as_slice() {
            [] => AxisError::Empty,
            [first, rest @ ..] if rest.contains(first) || rest.len() > 1 => {
                AxisError::Twice(first.to_string())
            }
            _ => return Ok(values),
        };
        Err(self.axis_error("certificate_compression", fault))
    }

    fn chain(&self, name: &str, load: &mut Files<'_>) -> Result<Chain, PlanError> {
        let file = load(self.source_of(KEY).name(), name);
        let chain = file.and_then(|file| Chain::read(&file.name, &file.text));
        chain.map_err(|reason| PlanError::File {
            key: KEY,
            place: self.place_of(KEY),
            reason,
        })
    }
}

/// Returns whether a text names a file: it has a dot or a slash, and the words for certificates
/// have neither.
fn is_file(text: &str) -> bool {
    text.contains(['.', '/'])
}

#[cfg(test)]
mod tests {
    use crate::{File, Plan, PlanError};

    const CHAIN: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n\
        -----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n";

    fn plan(certificate: &str) -> Result<Plan, PlanError> {
        let text = format!(
            "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms\"\nsize = \"1MB\"\npairs = 1\ncertificate = {certificate}"
        );
        Plan::read(&text, &mut |_, name| match name {
            "../own.pem" | "b/own.pem" => Ok(File {
                name: format!("plans/{name}"),
                text: CHAIN.into(),
            }),
            "empty.pem" => Ok(File {
                name: name.into(),
                text: String::new(),
            }),
            _ => Err(format!("cannot read {name}")),
        })
    }

    #[test]
    fn a_file_is_a_value_beside_the_words() {
        let plan = plan("[\"ecdsa\", \"../own.pem\", \"rsa-chain\"]").unwrap();
        let names: Vec<_> = plan
            .cells()
            .iter()
            .map(|cell| cell.certificate.to_string())
            .collect();
        assert_eq!(names, ["ecdsa", "own.pem", "rsa-chain"]);
        assert_eq!(plan.chains.len(), 1);
        assert_eq!(plan.chains[0].path, "plans/../own.pem");
        assert!(
            plan.to_toml()
                .contains("[\"ecdsa\", \"plans/../own.pem\", \"rsa-chain\"]")
        );
    }

    #[test]
    fn compression_is_an_axis_of_two_values() {
        let both = plan("\"ecdsa\"\ncertificate_compression = [true, false]").unwrap();
        let told: Vec<_> = both
            .cells()
            .iter()
            .map(|cell| cell.certificate_compression)
            .collect();
        assert_eq!(told, [true, false]);
        assert_eq!(plan("\"ecdsa\"").unwrap().certificate_compressions, [true]);
        for wrong in ["[]", "[true, true]", "[true, false, false]", "\"yes\""] {
            let text = format!("\"ecdsa\"\ncertificate_compression = {wrong}");
            assert!(plan(&text).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_server_that_cannot_be_told_is_refused() {
        let text = "\"ecdsa\"\ncertificate_compression = false\nserver = [\"altway\", \"nginx\"]";
        let error = plan(text).unwrap_err().to_string();
        assert!(
            error.contains("`nginx` can't be told whether to compress"),
            "{error}"
        );
    }

    #[test]
    fn what_can_be_no_certificate_is_said_with_its_line() {
        let error = |certificate| plan(certificate).unwrap_err().to_string();
        assert_eq!(
            error("\"lost.pem\""),
            "line 6, column 1: `certificate`: cannot read lost.pem"
        );
        assert!(error("\"empty.pem\"").contains("empty.pem holds no certificate"));
        assert!(error("[\"../own.pem\", \"b/own.pem\"]").contains("`own.pem` stands twice"));
        assert!(error("\"rsachain\"").contains("did you mean `rsa-chain`?"));
        assert!(error("[]").contains("it has no values"));
    }
}
