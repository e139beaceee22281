//! Texts that nobody meant as a configuration, and those that nearly are one.

use altway_config::{MAX_TEXT, NoFiles, PrintExtent, keys, read};
use proptest::prelude::*;

/// A line with a key of any table and a value that fits some key.
fn line() -> impl Strategy<Value = String> {
    let sections = [
        keys::ROOT,
        keys::LISTEN,
        keys::TRANSPORT,
        keys::LIMITS,
        keys::LOG,
        keys::ACME,
        keys::EXTERNAL_ACCOUNT,
        keys::SITE,
        keys::ROUTE,
        keys::CERTIFICATE,
        keys::SECRET,
        keys::REDIRECT,
        keys::RESPOND,
        keys::UPLOAD,
    ];
    let names = sections
        .iter()
        .flat_map(|section| section.keys.iter().map(|key| key.name));
    let names: Vec<_> = names.collect();
    let values = [
        "7",
        "-1",
        "true",
        "\"10s\"",
        "\"64MiB\"",
        "\"*:443\"",
        "[\"*:443\"]",
        "[\"h1\", \"h2\"]",
        "{}",
        "[]",
        "[{}]",
        "\"/srv/www\"",
        "\"/api/*\"",
        "\"*.png\"",
        "{ to = \"/{rest}\" }",
        "{ body = \"é\" }",
        "{ folder = \"/srv/in\" }",
        "{ folder = \"in\", methods = \"PUT\", replace = true, slowest = \"1KB/s after 1s\", parts = 3, min-free = \"0B\" }",
        "[\"PUT\"]",
        "[\"example.org\", \"*.example.org\"]",
        "{ \"/*\" = \"no-cache\" }",
        "{ 404 = \"/404.html\" }",
        "1.5",
        "{ chain = \"a\", key = { env = \"K\" } }",
        "\"learned\"",
        "\"acme\"",
        "\"own\"",
        "\"https://ca.example/dir\"",
        "\"tls-alpn-01\"",
        "{ id = \"a\", key = \"k\" }",
        "2026-11-25",
        "'''\n'''",
        "[[]]",
        "\"",
    ];
    prop_oneof![
        8 => (prop::sample::select(names), prop::sample::select(values.to_vec()))
            .prop_map(|(name, value)| format!("{name} = {value}\n")),
        4 => prop::sample::select(&["[[site]]\n", "[[site.route]]\n", "[listen]\n", "[limits]\n", "[log]\n", "[acme]\n", "[site]\n", "[transport]\n"][..])
            .prop_map(str::to_owned),
        1 => ".{0,12}\n",
    ]
}

fn check(text: &str) -> Result<(), TestCaseError> {
    match read("altway.toml", text, &mut NoFiles) {
        Ok(plan) => {
            let printed = plan.config().to_toml(PrintExtent::All);
            let again = read("altway.toml", &printed, &mut NoFiles);
            prop_assert_eq!(again.as_ref(), Ok(&plan), "{}", printed);
        }
        Err(faults) => {
            prop_assert!(!faults.as_slice().is_empty());
            for fault in faults.as_slice() {
                let place = fault.place.as_ref().expect("read from a text");
                prop_assert!(place.line >= 1 && place.line <= text.split('\n').count());
                prop_assert!(!fault.message.contains('\n'), "{:?}", fault);
            }
        }
    }
    Ok(())
}

#[test]
fn of_a_text_that_is_too_long_nothing_else_is_said() {
    let text = "#".repeat(MAX_TEXT + 1);
    let faults = read("a.toml", &text, &mut NoFiles).unwrap_err();
    let said: Vec<_> = faults.as_slice().iter().map(|it| &*it.message).collect();
    assert_eq!(said, [format!("the file is longer than {MAX_TEXT} bytes")]);
}

proptest! {
    #[test]
    fn no_text_makes_reading_panic(text: String) {
        check(&text)?;
    }

    #[test]
    fn keys_and_values_in_any_order_are_read_or_refused(lines in prop::collection::vec(line(), 0..24)) {
        check(&lines.concat())?;
    }
}
