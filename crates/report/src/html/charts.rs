//! Parts that make the pictures on the page interactive: the figures as JSON, the chart library, the
//! page's own script, and a policy under which a browser runs these two and loads nothing.
//!
//! Left to others: what a figure holds (`pictures`), and drawing it (`report.js`).

mod choices;
mod json;

use crate::Picture;
use crate::analysis::Analysis;
use crate::figure::Figure;
use choices::Choices;
use serde_json::json;

/// Observable Plot and its licences; see `charts/README.md`.
const LIBRARY: &str = include_str!("../../charts/plot.min.js");
/// SHA-256 of [`LIBRARY`] in base64.
const LIBRARY_SHA256: &str = "sWGjrKdhTDLsJ8gt8sOVMOEilCGrGsAvIcVbCKFDq+U=";
/// Script that draws the figures with the library.
const SCRIPT: &str = include_str!("report.js");
/// SHA-256 of [`SCRIPT`] in base64.
const SCRIPT_SHA256: &str = "1T4hELcnBxJQPIou5iJU1Cwy42/x+A06Xs5gIM3ofIQ=";

/// The policy as an element of the head. Styles stand in the page and on elements of the charts, and
/// can load nothing under it.
pub(super) fn policy() -> String {
    format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; font-src data:; \
         script-src 'sha256-{LIBRARY_SHA256}' 'sha256-{SCRIPT_SHA256}'; \
         base-uri 'none'; form-action 'none'\">\n"
    )
}

/// The figures and the scripts, for the end of the body.
pub(super) fn scripts(analysis: &Analysis<'_>, drawn: &[Picture]) -> String {
    if drawn.is_empty() {
        return String::new();
    }
    let choices = Choices::new(analysis);
    let figures: Vec<_> = drawn
        .iter()
        .map(|picture| json::figure(&picture.figure, &choices))
        .collect();
    let data = json!({"axes": choices.to_json(), "figures": figures});
    format!(
        "<script type=\"application/json\" id=\"figures\">{}</script>\n<script>{LIBRARY}</script>\n\
         <script>{SCRIPT}</script>\n",
        inert(&data.to_string())
    )
}

/// A sentence about points that the page leaves out of a figure.
pub(super) fn thinned(figure: &Figure) -> Option<String> {
    json::Thinning::of(figure).sentence()
}

/// JSON in which no text can end its element, nor begin a comment or another one.
fn inert(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::digest::{SHA256, digest};
    use base64::prelude::{BASE64_STANDARD, Engine as _};

    #[test]
    fn the_policy_allows_the_two_scripts_as_they_are() {
        let sum = |script: &str| BASE64_STANDARD.encode(digest(&SHA256, script.as_bytes()));
        assert_eq!(sum(LIBRARY), LIBRARY_SHA256, "of charts/plot.min.js");
        assert_eq!(sum(SCRIPT), SCRIPT_SHA256, "of src/html/report.js");
    }

    #[test]
    fn no_script_can_end_its_element() {
        for script in [LIBRARY, SCRIPT] {
            let lower = script.to_lowercase();
            assert!(!lower.contains("</script") && !lower.contains("<!--"));
        }
    }

    #[test]
    fn the_library_brings_the_licences_of_all_that_is_in_it() {
        let head = LIBRARY.split("*/").next().unwrap();
        for owner in ["Observable, Inc.", "Mike Bostock", "Charles Karney"] {
            assert!(head.contains(owner), "{owner}");
        }
    }

    #[test]
    fn hostile_json_stays_the_same_value_and_inside_its_element() {
        let hostile = "</script><!--&\u{2028}\u{2029}\"'\\";
        let text = inert(&json!([hostile]).to_string());
        assert!(
            !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']),
            "{text}"
        );
        let back: Vec<String> = serde_json::from_str(&text).unwrap();
        assert_eq!(back, [hostile]);
    }
}
