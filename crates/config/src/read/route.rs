//! Routes and what they do.

use super::walk::{Table, Walk};
use crate::keys;
use crate::values::is_field_value;
use crate::{Action, CacheRule, ErrorPage, Files, PathPattern, Redirect, Respond, Route};
use altway_document::{Value, entries};
use toml::de::DeValue;

/// The keys of which a route has one.
const ACTIONS: [&str; 5] = ["files", "proxy", "redirect", "respond", "upload"];

/// The keys that say more of `files`.
const OF_FILES: [&str; 9] = [
    "index",
    "fallback",
    "clean-urls",
    "listing",
    "precompressed",
    "compress",
    "cache",
    "error-pages",
    "hidden",
];

impl Walk {
    /// `hidden`: what the site says of files whose names begin with a dot.
    pub(super) fn route(&mut self, table: &Table<'_, '_>, hidden: bool) -> Option<Route> {
        let path = match table.has("path") {
            true => self.parsed(table, "path"),
            false => Some(PathPattern::All),
        };
        let headers = self.headers(table);
        let action = self.action(table, hidden);
        Some(Route {
            path: path?,
            headers,
            action: action?,
        })
    }

    fn action(&mut self, table: &Table<'_, '_>, hidden: bool) -> Option<Action> {
        let given: Vec<_> = ACTIONS.into_iter().filter(|name| table.has(name)).collect();
        if !given.contains(&"files") {
            self.refuse_keys_of_files(table);
        }
        // All are read, for their faults.
        let files = self.files(table, hidden).map(Action::Files);
        let proxy = self.proxy(table).map(Box::new).map(Action::Proxy);
        let redirect = self.redirect(table).map(Action::Redirect);
        let respond = self.respond(table).map(Action::Respond);
        let upload = self.upload(table).map(Action::Upload);
        match given.as_slice() {
            // It may be what the unknown key was to say.
            [] if table.has_unknown(&keys::ROUTE) => None,
            [] => {
                let message = "the route does nothing";
                let hint = "give `files`, `proxy`, `redirect`, `respond` or `upload`";
                self.fault(table.span.clone(), message, Some(hint.into()));
                None
            }
            [_] => files.or(proxy).or(redirect).or(respond).or(upload),
            [first, second, ..] => {
                let message = format!("the route does two things: `{first}` and `{second}`");
                let hint = "make two routes of it: the first whose `path` matches counts";
                self.fault(table.span.clone(), message, Some(hint.into()));
                None
            }
        }
    }

    fn refuse_keys_of_files(&mut self, table: &Table<'_, '_>) {
        for (key, _) in entries(table.tree) {
            let name: &str = key.get_ref();
            if OF_FILES.contains(&name) {
                let message = format!("`{name}` belongs to `files`, which this route has not");
                let hint = "leave it out, or give `files = \"DIR\"`";
                self.fault(key.span(), message, Some(hint.into()));
            }
        }
    }

    fn files(&mut self, table: &Table<'_, '_>, hidden: bool) -> Option<Files> {
        let root = self.file_path(table, "files");
        let mut files = Files::of(root.clone().unwrap_or_default());
        if let Some(index) = self.index(table) {
            files.index = index;
        }
        files.fallback = self.parsed(table, "fallback");
        files.clean_urls = self.switch(table, "clean-urls").unwrap_or_default();
        files.listing = self.switch(table, "listing").unwrap_or_default();
        files.precompressed = self.list(table, "precompressed", false).unwrap_or_default();
        files.compress = self.list(table, "compress", false).unwrap_or_default();
        files.cache = self.cache(table);
        files.error_pages = self.error_pages(table);
        files.hidden = self.switch(table, "hidden").unwrap_or(hidden);
        root.map(|_| files)
    }

    fn index(&mut self, table: &Table<'_, '_>) -> Option<Vec<String>> {
        let values = self.values(table, "index", true)?;
        let mut names = Vec::new();
        for (_, value) in values {
            let Some(name) = self.as_text(value, "index") else {
                continue;
            };
            if name.is_empty() || name.contains(['/', '\0']) || matches!(name, "." | "..") {
                let message = format!("`{}` is not the name of a file", name.escape_debug());
                let hint = "`index` has names within a folder, like `index.html`, without a path";
                self.fault(value.span(), message, Some(hint.into()));
                continue;
            }
            self.note(&table.path(&format!("index.{}", names.len())), value.span());
            names.push(name.to_owned());
        }
        Some(names)
    }

    fn cache(&mut self, table: &Table<'_, '_>) -> Vec<CacheRule> {
        let mut rules = Vec::new();
        for (key, value) in self.map(table, "cache", "a table of patterns and values") {
            let path = self.accept(key.span(), key.get_ref().parse());
            let Some(text) = self.as_text(value, "cache") else {
                continue;
            };
            if text.is_empty() || !is_field_value(text) {
                let message = format!("`{}` is not a value of Cache-Control", text.escape_debug());
                let hint = "like `public, max-age=3600`, or `no-cache`";
                self.fault(value.span(), message, Some(hint.into()));
                continue;
            }
            if let Some(path) = path {
                self.note(&table.path(&format!("cache.{}", rules.len())), key.span());
                rules.push(CacheRule {
                    path,
                    value: text.into(),
                });
            }
        }
        rules
    }

    fn error_pages(&mut self, table: &Table<'_, '_>) -> Vec<ErrorPage> {
        let mut pages = Vec::new();
        for (key, value) in self.map(table, "error-pages", "a table of statuses and pages") {
            let name: &str = key.get_ref();
            let status: Option<u16> = name.parse().ok().filter(|_| name.len() == 3);
            if status.is_none() {
                let message = format!("`{}` is not the status of an error", name.escape_debug());
                let hint = "like `error-pages = { 404 = \"/404.html\" }`";
                self.fault(key.span(), message, Some(hint.into()));
            }
            let page = self.parsed_value(value, "error-pages");
            if let Some((status, page)) = status.zip(page) {
                self.note(
                    &table.path(&format!("error-pages.{}", pages.len())),
                    key.span(),
                );
                pages.push(ErrorPage { status, page });
            }
        }
        pages
    }

    /// The entries of a table whose keys are the operator's, as they were written.
    fn map<'v, 't>(
        &mut self,
        of: &Table<'v, 't>,
        key: &str,
        wanted: &str,
    ) -> Vec<(&'v toml::Spanned<toml::de::DeString<'t>>, &'v Value<'t>)> {
        match of.get(key).map(|value| (value, value.get_ref())) {
            None => Vec::new(),
            Some((_, DeValue::Table(tree))) => entries(tree),
            Some((value, _)) => {
                self.expected(value, key, wanted);
                Vec::new()
            }
        }
    }

    fn redirect(&mut self, of: &Table<'_, '_>) -> Option<Redirect> {
        let table = self.table(of, "redirect", &keys::REDIRECT)?;
        if !table.has("to") {
            self.missing(&table, "to", "\"https://www.example.org{path}{query}\"");
        }
        let to = self.parsed(&table, "to");
        let status = self
            .count(&table, "status", 100, 999)
            .unwrap_or(Redirect::DEFAULT_STATUS);
        Some(Redirect { to: to?, status })
    }

    fn respond(&mut self, of: &Table<'_, '_>) -> Option<Respond> {
        let table = self.table(of, "respond", &keys::RESPOND)?;
        Some(Respond {
            status: self.count(&table, "status", 200, 599).unwrap_or(200),
            body: self.text(&table, "body").unwrap_or_default().to_owned(),
            headers: self.headers(&table),
        })
    }
}
