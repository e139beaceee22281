//! A configuration as the text that gives the same configuration again.

mod values;

use crate::keys::{self, Key, Section};
use crate::{Acme, Config, Files, Route, Site};
use values::Values;

/// The longest line of a comment, in characters.
const WIDTH: usize = 100;

/// The extent of what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrintExtent {
    /// Keys whose value differs from the default.
    Given,
    /// Every key, with its meaning and its default as a comment; one without a value as a comment itself.
    All,
}

impl Config {
    /// The text that equals it: read again, relative paths resolved from the working folder, it gives the same.
    /// Paths that are not UTF-8 are printed as far as they are.
    ///
    /// ```
    /// use altway_config::{Action, Config, Files, NoFiles, PathPattern, Route, PrintExtent, Site, read};
    ///
    /// let path = PathPattern::All;
    /// let action = Action::Files(Files::of("site"));
    /// let route = Route { path, headers: Vec::new(), action };
    /// let site = Site { is_default: true, routes: vec![route], ..Site::default() };
    /// let config = Config { sites: vec![site], ..Config::default() };
    /// let text = config.to_toml(PrintExtent::Given);
    /// assert_eq!(text, "\
    /// [[site]]
    /// default = true
    ///
    /// [[site.route]]
    /// files = \"site\"
    /// ");
    /// assert_eq!(read("altway.toml", &text, &mut NoFiles)?.config(), &config);
    /// # Ok::<(), altway_config::Faults>(())
    /// ```
    #[must_use]
    pub fn to_toml(&self, shown: PrintExtent) -> String {
        let usual = Self::default();
        let mut page = Page {
            text: String::new(),
            shown,
        };
        page.section(None, &keys::ROOT, &self.root_values(), &usual.root_values());
        let tables = [
            (
                "[listen]",
                &keys::LISTEN,
                self.listen.values(),
                usual.listen.values(),
            ),
            (
                "[transport]",
                &keys::TRANSPORT,
                self.transport.values(),
                usual.transport.values(),
            ),
            (
                "[limits]",
                &keys::LIMITS,
                self.limits.values(),
                usual.limits.values(),
            ),
            ("[log]", &keys::LOG, self.log.values(), usual.log.values()),
        ];
        for (header, section, values, usual) in tables {
            page.section(Some(header), section, &values, &usual);
        }
        match &self.acme {
            Some(acme) => {
                page.header("[acme]");
                page.keys(&keys::ACME, &acme.values(), &Acme::default().values());
            }
            // The table itself says that certificates are to be ordered.
            None if shown == PrintExtent::All => page.absent("[acme]", &keys::ACME),
            None => {}
        }
        for site in &self.sites {
            page.site(site);
        }
        page.text
    }
}

struct Page {
    text: String,
    shown: PrintExtent,
}

impl Page {
    fn site(&mut self, site: &Site) {
        let usual = Site::default();
        self.header("[[site]]");
        self.keys(&keys::SITE, &site.values(), &usual.values());
        for route in &site.routes {
            self.header("[[site.route]]");
            let usual = Route {
                path: crate::PathPattern::All,
                headers: Vec::new(),
                action: crate::Action::Files(Files::of("")),
            };
            self.keys(&keys::ROUTE, &route.values(), &usual.values());
        }
    }

    /// A table, unless nothing of it is shown.
    fn section(
        &mut self,
        header: Option<&str>,
        section: &Section,
        values: &Values,
        usual: &Values,
    ) {
        if self.shown == PrintExtent::Given && values == usual {
            return;
        }
        if let Some(header) = header {
            self.header(header);
        }
        self.keys(section, values, usual);
    }

    fn header(&mut self, header: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(header);
        self.text.push('\n');
    }

    fn keys(&mut self, section: &Section, values: &Values, usual: &Values) {
        for key in section.keys {
            // A key that the table's other keys leave no place for, or that is a table with a header.
            let Some(value) = values.get(key.name) else {
                continue;
            };
            let differs = usual.get(key.name) != Some(value);
            if self.shown == PrintExtent::All {
                self.comment(key);
            }
            match value {
                Some(value) if differs || self.shown == PrintExtent::All => {
                    self.text.push_str(&format!("{} = {value}\n", key.name));
                }
                None if self.shown == PrintExtent::All => {
                    self.text.push_str(&format!("# {} =\n", key.name));
                }
                _ => {}
            }
        }
    }

    /// A table that is not there, as comments.
    fn absent(&mut self, header: &str, section: &Section) {
        self.header(&format!("# {header}"));
        for key in section.keys {
            self.comment(key);
            self.text.push_str(&format!("# {} =\n", key.name));
        }
    }

    fn comment(&mut self, key: &Key) {
        let default = match key.default {
            "" => String::new(),
            words => format!(" Default: {}.", words.trim_matches(['(', ')'])),
        };
        let mut line = String::from("#");
        for word in format!("{}{default}", key.about).split_whitespace() {
            if line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.text.push_str(&line);
                self.text.push('\n');
                line = String::from("#");
            }
            line.push(' ');
            line.push_str(word);
        }
        self.text.push_str(&line);
        self.text.push('\n');
    }
}
