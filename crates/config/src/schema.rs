//! The JSON schema of a configuration, for editors.

use crate::keys::{self, Form, Key, Section};
use serde_json::{Map, Value, json};

/// The schema (JSON Schema 2020-12) of a configuration, after [`keys`]. It knows forms and ranges; what
/// goes together is known to [`read`](crate::read) alone.
///
/// ```
/// let schema = altway_config::schema();
/// assert_eq!(schema["properties"]["grace"]["default"], "10s");
/// ```
#[must_use]
pub fn schema() -> Value {
    let mut schema = section(&keys::ROOT);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("altway.toml");
    // The same text whether serde_json keeps the order of insertion or not, which any crate of a build decides.
    schema.sort_all_objects();
    schema
}

fn section(of: &Section) -> Value {
    let properties = of
        .keys
        .iter()
        .map(|key| (key.name.to_owned(), property(key)));
    let mut schema = json!({
        "type": "object",
        "description": of.about,
        "additionalProperties": false,
        "properties": properties.collect::<Map<_, _>>(),
    });
    let required: Vec<_> = of
        .keys
        .iter()
        .filter(|key| key.default == "(required)")
        .collect();
    if !required.is_empty() {
        schema["required"] = required.iter().map(|key| key.name).collect();
    }
    match of.title {
        "[[site.route]]" => {
            let one = ["files", "proxy", "redirect", "respond", "upload"]
                .map(|name| json!({ "required": [name] }));
            schema["oneOf"] = json!(one);
        }
        "a secret" => {
            schema["minProperties"] = json!(1);
            schema["maxProperties"] = json!(1);
        }
        _ => {}
    }
    schema
}

fn property(key: &Key) -> Value {
    let mut schema = form(&key.form);
    let default = key.default;
    let is_words = default.is_empty() || default.starts_with('(') || default.contains(", unless");
    match toml_value(default).filter(|_| !is_words) {
        Some(value) => schema["default"] = value,
        None if !matches!(default, "" | "(required)") => {
            let words = default.trim_matches(['(', ')']);
            schema["description"] = json!(format!("{} Default: {words}.", key.about));
            return schema;
        }
        None => {}
    }
    schema["description"] = json!(key.about);
    schema
}

fn toml_value(text: &str) -> Option<Value> {
    let document = format!("value = {text}");
    let table: toml::Table = document.parse().ok()?;
    serde_json::to_value(table.get("value")?).ok()
}

fn form(of: &Form) -> Value {
    match of {
        Form::Text(example) => json!({ "type": "string", "examples": [example] }),
        Form::Path => json!({ "type": "string", "minLength": 1 }),
        Form::Size => text_with_unit("([KMGkmg][iI]?)?[Bb]", "64MiB"),
        Form::Time => text_with_unit("(ns|us|µs|ms|s|min|h)", "10s"),
        Form::Count(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Form::Switch => json!({ "type": "boolean" }),
        Form::Words(words) => json!({ "type": "string", "enum": words }),
        Form::List(one) => json!({ "type": "array", "items": form(one) }),
        Form::OneOrMore(one) => {
            json!({ "anyOf": [form(one), { "type": "array", "items": form(one) }] })
        }
        Form::Table(of) => section(of),
        Form::Tables(of) => json!({ "type": "array", "items": section(of) }),
        Form::Map(_, _, value) => json!({ "type": "object", "additionalProperties": form(value) }),
        Form::Either(one, other) => json!({ "anyOf": [form(one), form(other)] }),
    }
}

fn text_with_unit(unit: &str, example: &str) -> Value {
    let pattern = format!("^ *[0-9]+(\\.[0-9]*)? *{unit} *$");
    json!({ "type": "string", "pattern": pattern, "examples": [example] })
}
