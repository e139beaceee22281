//! Sites and their certificates.

use super::proxy::NewField;
use super::walk::{Refusal, Table, Walk};
use crate::keys::{self, Section};
use crate::values::HeaderField;
use crate::{Certificate, ClientCertificates, Issuer, Secret, Site};
use altway_document::{Value, did_you_mean, entries};
use altway_select::{ModelKind, ParseModelError};
use altway_units::Ratio;
use toml::de::DeValue;

/// Names of policies, for whoever misspells one.
const POLICIES: [&str; 6] = ["learned", "surface", "threshold", "study", "h2", "h3"];

impl Refusal for ParseModelError {
    fn sentence(&self) -> String {
        match self {
            Self::Value { setting, source } => format!("`{setting}`: {source}"),
            _ => self.to_string(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown(found) => {
                did_you_mean(found.split(':').next().unwrap_or_default(), POLICIES)
            }
            _ => None,
        }
    }
}

impl Refusal for crate::BadField {
    fn hint(&self) -> Option<String> {
        match self {
            Self::OfTheServer(name) if name == "alt-svc" => {
                Some("`policy` says who is offered HTTP/3".into())
            }
            Self::OfTheServer(name) if name == "host" => Some("`host` of the route says it".into()),
            Self::OfTheServer(_) => Some("leave it out".into()),
            _ => None,
        }
    }
}

impl Walk {
    /// Adds the sites of a file.
    pub(super) fn sites(&mut self, root: &Table<'_, '_>, sites: &mut Vec<Site>) {
        self.refuse_empty(root, "site");
        for value in self.tables(root, "site") {
            // Sites of all files are counted together.
            let path = format!("site.{}", sites.len());
            self.note(&path, value.span());
            if let Some(table) = self.as_table(value, &path, "site", &keys::SITE) {
                sites.push(self.site(&table));
            }
        }
    }

    /// The tables of `[[key]]`.
    pub(super) fn tables<'v, 't>(&mut self, of: &Table<'v, 't>, key: &str) -> Vec<&'v Value<'t>> {
        let Some(value) = of.get(key) else {
            return Vec::new();
        };
        match value.get_ref() {
            DeValue::Array(values) => values.iter().collect(),
            _ => {
                let header = if key == "route" {
                    "[[site.route]]"
                } else {
                    "[[site]]"
                };
                let message =
                    format!("there may be several: `{key}` stands in two pairs of brackets");
                self.fault(value.span(), message, Some(format!("write {header}")));
                Vec::new()
            }
        }
    }

    fn site(&mut self, table: &Table<'_, '_>) -> Site {
        let hidden = self.switch(table, "hidden").unwrap_or_default();
        let mut site = Site {
            names: self.list(table, "names", true).unwrap_or_default(),
            is_default: self.switch(table, "default").unwrap_or_default(),
            certificates: Vec::new(),
            issued_by: None,
            client_certificates: self.client_certificates(table),
            policy: self.policy(table).unwrap_or_default(),
            beacon: self.beacon(table),
            headers: self.headers(table),
            max_body: self.size(table, "max-body"),
            routes: Vec::new(),
        };
        match table.get("certificate") {
            Some(value) if matches!(value.get_ref(), DeValue::String(_)) => {
                site.issued_by = self.issuer(value);
            }
            _ => site.certificates = self.certificates(table),
        }
        self.refuse_empty(table, "names");
        self.refuse_empty(table, "route");
        for value in self.tables(table, "route") {
            let path = table.path(&format!("route.{}", site.routes.len()));
            self.note(&path, value.span());
            let Some(route) = self.as_table(value, &path, "route", &keys::ROUTE) else {
                continue;
            };
            match self.route(&route, hidden) {
                Some(route) => site.routes.push(route),
                None => self.forget(&path),
            }
        }
        site
    }

    fn policy(&mut self, table: &Table<'_, '_>) -> Option<ModelKind> {
        let mut policy: ModelKind = self.parsed(table, "policy")?;
        if let Some(file) = policy.file_mut() {
            *file = self.in_folder(file);
        }
        Some(policy)
    }

    fn beacon(&mut self, table: &Table<'_, '_>) -> Option<Ratio> {
        let share: Ratio = self.parsed(table, "beacon")?;
        if share == Ratio::ZERO {
            let span = table.get("beacon")?.span();
            let hint = "leave `beacon` out where no browser is to report";
            self.fault(span, "`beacon` is a share above 0", Some(hint.into()));
            return None;
        }
        Some(share)
    }

    fn issuer(&mut self, value: &Value<'_>) -> Option<Issuer> {
        let read = self.as_text(value, "certificate")?.parse::<Issuer>();
        let files =
            "files are given like `{ chain = \"/etc/ssl/site.pem\", key = \"/etc/ssl/site.key\" }`";
        let fault = |unknown: altway_document::UnknownWord| {
            let hint = unknown.hint().unwrap_or_else(|| files.into());
            (unknown.sentence(), hint)
        };
        match read.map_err(fault) {
            Ok(issuer) => Some(issuer),
            Err((message, hint)) => {
                self.fault(value.span(), message, Some(hint));
                None
            }
        }
    }

    fn certificates(&mut self, table: &Table<'_, '_>) -> Vec<Certificate> {
        let values = self.values(table, "certificate", true).unwrap_or_default();
        let values = values.into_iter();
        values
            .filter_map(|(path, value)| self.certificate(value, &path, &keys::CERTIFICATE))
            .collect()
    }

    fn client_certificates(&mut self, of: &Table<'_, '_>) -> Option<ClientCertificates> {
        let table = self.table(of, "client-certificates", &keys::CLIENT_CERTIFICATES)?;
        if !table.has("roots") {
            self.missing(&table, "roots", "\"/etc/altway/clients.pem\"");
        }
        let required = self.switch(&table, "required").unwrap_or(true);
        let revocation = self.file_paths(&table, "revocation");
        Some(ClientCertificates {
            roots: self.file_path(&table, "roots")?,
            revocation,
            required,
        })
    }

    pub(super) fn certificate(
        &mut self,
        value: &Value<'_>,
        path: &str,
        section: &'static Section,
    ) -> Option<Certificate> {
        let name = section.title.trim_matches('`');
        let table = self.as_table(value, path, name, section)?;
        let chain = self.file_path(&table, "chain");
        let key = table
            .get("key")
            .and_then(|value| self.secret(value, &table));
        let ocsp = self.file_path(&table, "ocsp");
        for (name, example) in [
            ("chain", "\"/etc/ssl/site.pem\""),
            ("key", "\"/etc/ssl/site.key\""),
        ] {
            if !table.has(name) {
                self.missing(&table, name, example);
            }
        }
        Some(Certificate {
            chain: chain?,
            key: key?,
            ocsp,
        })
    }

    /// A file, or a table with one of the ways to find it.
    pub(super) fn secret(&mut self, value: &Value<'_>, of: &Table<'_, '_>) -> Option<Secret> {
        if matches!(value.get_ref(), DeValue::String(_)) {
            return self.as_file_path(value, "key").map(Secret::File);
        }
        let table = self.as_table(value, &of.path("key"), "key", &keys::SECRET)?;
        let given: Vec<_> = keys::SECRET
            .keys
            .iter()
            .filter(|key| table.has(key.name))
            .collect();
        if given.is_empty() && table.has_unknown(&keys::SECRET) {
            return None;
        }
        if given.len() != 1 {
            let message = format!(
                "a secret is found in one way, and {} are given",
                given.len()
            );
            let hint = "give `{ file = \"…\" }`, `{ env = \"…\" }` or `{ credential = \"…\" }`";
            self.fault(table.span.clone(), message, Some(hint.into()));
            return None;
        }
        if table.has("file") {
            return self.file_path(&table, "file").map(Secret::File);
        }
        let name = given[0].name;
        let text = self.text(&table, name)?;
        let is_name =
            !text.is_empty() && !text.contains(['/', '=', '\0']) && !matches!(text, "." | "..");
        if !is_name {
            let what = if name == "env" {
                "a variable of the environment"
            } else {
                "a credential"
            };
            let shown = text.escape_debug();
            self.fault(
                table.span.clone(),
                format!("`{shown}` is not the name of {what}"),
                None,
            );
            return None;
        }
        let text = text.to_owned();
        Some(if name == "env" {
            Secret::Env(text)
        } else {
            Secret::Credential(text)
        })
    }

    /// Fields of responses by their names, each with a value or several.
    pub(super) fn headers(&mut self, of: &Table<'_, '_>) -> Vec<HeaderField> {
        self.fields(of, "headers", HeaderField::new)
    }

    /// Fields by their names, each with a value or several; `new` makes one of both.
    pub(super) fn fields(
        &mut self,
        of: &Table<'_, '_>,
        key: &'static str,
        new: NewField,
    ) -> Vec<HeaderField> {
        let mut fields: Vec<HeaderField> = Vec::new();
        let Some(value) = of.get(key) else {
            return fields;
        };
        let DeValue::Table(tree) = value.get_ref() else {
            self.expected(value, key, "a table of names and values");
            return fields;
        };
        let table = Table {
            tree,
            prefix: of.path(&format!("{key}.")),
            title: key,
            span: value.span(),
        };
        for (name, _) in entries(tree) {
            let span = name.span();
            let name: &str = name.get_ref();
            let before = fields.len();
            for (_, value) in self.values(&table, name, true).unwrap_or_default() {
                let Some(text) = self.as_text(value, name) else {
                    continue;
                };
                let field = new(name, text);
                let at = if matches!(field, Err(crate::BadField::Value(_))) {
                    value.span()
                } else {
                    span.clone()
                };
                fields.extend(self.accept(at, field));
            }
            let is_twice = |field: &HeaderField| field.name().eq_ignore_ascii_case(name);
            if fields[..before].iter().any(is_twice) {
                let message = format!("the field `{name}` is given twice, in another case");
                let hint = "give a list of its values in one place";
                self.fault(span, message, Some(hint.into()));
            }
        }
        fields
    }
}
