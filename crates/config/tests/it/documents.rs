//! Documents made of the table of keys, as they stand in the repository.

use crate::expect_file;
use altway_config::keys::{Form, Key, SECTIONS, Section};
use altway_config::{NoFiles, read, schema};

const REFERENCE: &str = "<!-- What follows is made of crates/config/src/keys.rs by its tests. -->";

fn document(name: &str) -> String {
    format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_schema_in_the_repository_is_the_crates() {
    let path = document("config.schema.json");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    // The order of keys depends on what other crates of a build want of serde_json.
    if serde_json::from_str(&text).ok() != Some(schema()) {
        let text = serde_json::to_string_pretty(&schema()).unwrap();
        expect_file(&path, &format!("{text}\n"));
    }
}

#[test]
fn the_reference_in_the_repository_is_the_table_of_keys() {
    let path = document("configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, _) = page
        .split_once(REFERENCE)
        .expect("a line before the reference");
    let sections: String = SECTIONS.into_iter().map(table).collect();
    expect_file(&path, &format!("{head}{REFERENCE}\n{sections}"));
}

#[test]
fn the_examples_of_the_reference_and_of_the_guide_are_good() {
    assert!(examples_are_good(&document("configuration.md")) >= 3);
    let pages = std::fs::read_dir(document("guide")).unwrap();
    let pages = pages.map(|page| page.unwrap().path().display().to_string());
    let pages = pages.filter(|path| path.ends_with(".md"));
    assert!(pages.map(|path| examples_are_good(&path)).sum::<usize>() >= 5);
    assert!(read("altway.toml", "", &mut NoFiles).is_err());
}

/// Reads each example of a page as a configuration, and returns how many there are.
fn examples_are_good(path: &str) -> usize {
    let page = std::fs::read_to_string(path).unwrap();
    let examples: Vec<_> = page.split("```toml\n").skip(1).collect();
    for example in &examples {
        let (text, _) = example.split_once("```").expect("an end");
        let mut disk = crate::Disk {
            folder: crate::folder("good"),
        };
        let read = read("altway.toml", text, &mut disk);
        read.unwrap_or_else(|faults| panic!("{path}: {faults}\n{text}"));
    }
    examples.len()
}

/// The keys of a section, each with form, default and meaning.
fn table(section: &'static Section) -> String {
    let title = match section.title {
        "the file" => "Before the first table",
        "a secret" => "Secrets",
        title => title,
    };
    let mut text = format!(
        "\n## {title}\n{}\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
        section.about
    );
    for key in section.keys {
        text.push_str(&row(key));
    }
    text
}

fn row(key: &Key) -> String {
    let default = match key.default {
        "" => "–".into(),
        words if words.starts_with('(') => words.trim_matches(['(', ')']).to_owned(),
        value if value.contains(", unless") => {
            value.replacen("], ", "]`, ", 1).replacen('[', "`[", 1)
        }
        value => format!("`{value}`"),
    };
    format!(
        "| `{}` | {} | {default} | {} |\n",
        key.name,
        form(&key.form),
        key.about
    )
}

fn form(of: &Form) -> String {
    match of {
        Form::Text(example) => format!("text like `{example:?}`"),
        Form::Path => "path".into(),
        Form::Size => "size".into(),
        Form::Time => "time".into(),
        Form::Count(least, most) if *most > u64::from(u32::MAX) => {
            format!("number, {least} or more")
        }
        Form::Count(least, most) => format!("number, {least} to {most}"),
        Form::Switch => "`true` or `false`".into(),
        Form::Words(words) => {
            let words: Vec<_> = words.iter().map(|word| format!("`{word:?}`")).collect();
            words.join(", ")
        }
        Form::List(one) => format!("list: {}", form(one)),
        Form::OneOrMore(one) => format!("{}, or a list of such", form(one)),
        Form::Table(of) => format!("table: see {}", of.title),
        Form::Tables(of) => format!("tables, each headed {}", of.title),
        Form::Map(keys, example, value) => {
            format!("table of {keys}, like `{example}`, and {}", form(value))
        }
        Form::Either(one, other) => format!("{}, or {}", form(one), form(other)),
    }
}

#[test]
fn a_default_is_a_value_or_words_in_brackets() {
    for key in SECTIONS.into_iter().flat_map(|section| section.keys) {
        let brackets = (key.default.starts_with('('), key.default.ends_with(')'));
        assert!(brackets.0 == brackets.1, "{}: {}", key.name, key.default);
    }
}
