//! The walk over a tree: tables with their places, and values by their forms.

use crate::fault::{Fault, MAX_FAULTS};
use crate::keys::{self, Section};
use crate::plan::Places;
use crate::read::{MAX_TEXT, hints};
use altway_document::{Source, Syntax, Tree, UnknownWord, Value, entries, parse, quoted};
use std::fmt::Display;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use toml::de::DeValue;

/// Faults and places found so far, and the file that is being read.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) faults: Vec<Fault>,
    pub(super) places: Places,
    /// True if a file is not TOML, or was not read.
    pub(super) is_broken: bool,
    source: Option<Source>,
    /// The folder that relative paths are relative to.
    folder: PathBuf,
}

/// A table and the path of its keys.
pub(super) struct Table<'v, 't> {
    pub(super) tree: &'v Tree<'t>,
    /// Path of the table, with a dot at its end, unless it is the root.
    pub(super) prefix: String,
    /// Name of the table in messages.
    pub(super) title: &'static str,
    /// Bytes of the table.
    pub(super) span: Range<usize>,
}

impl<'v, 't> Table<'v, 't> {
    pub(super) fn get(&self, key: &str) -> Option<&'v Value<'t>> {
        self.tree.get(key)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns true if the table has keys that its section has not.
    pub(super) fn has_unknown(&self, section: &Section) -> bool {
        let is_known = |name: &str| section.keys.iter().any(|key| key.name == name);
        self.tree.keys().any(|key| !is_known(key.get_ref()))
    }

    /// The path of a key.
    pub(super) fn path(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

/// Message about a value that its type refuses.
pub(super) trait Refusal: Display {
    fn sentence(&self) -> String {
        self.to_string()
    }

    fn hint(&self) -> Option<String> {
        None
    }
}

impl Refusal for UnknownWord {
    fn sentence(&self) -> String {
        self.sentence()
    }

    fn hint(&self) -> Option<String> {
        self.hint()
    }
}

impl Refusal for crate::BadTarget {
    fn hint(&self) -> Option<String> {
        self.hint()
    }
}

impl Refusal for altway_units::ParseError {}
impl Refusal for crate::BadUpstream {
    fn hint(&self) -> Option<String> {
        Some(self.hint())
    }
}

impl Refusal for altway_units::BadNetwork {}
impl Refusal for crate::BadAddress {}
impl Refusal for crate::BadBalance {}
impl Refusal for crate::BadCheckPath {}
impl Refusal for crate::BadHost {}
impl Refusal for altway_units::BadPrefixLengths {}
impl Refusal for crate::BadPathPrefix {}
impl Refusal for crate::BadPattern {}
impl Refusal for crate::BadServerId {}
impl Refusal for crate::BadSiteName {}
impl Refusal for crate::BadTlsName {}
impl Refusal for crate::BadUrlPath {}

impl Walk {
    /// Reads the syntax of a file, and what it says with `inside`.
    pub(super) fn file<T>(
        &mut self,
        name: &str,
        text: &str,
        inside: impl FnOnce(&mut Self, &Table<'_, '_>) -> T,
    ) -> Option<T> {
        self.places.files.push(name.into());
        self.folder = Path::new(name)
            .parent()
            .map(Path::to_owned)
            .unwrap_or_default();
        if text.len() > MAX_TEXT {
            self.is_broken = true;
            self.source = Some(Source::new(Some(name), ""));
            let hint = "split it, and `include` the parts";
            self.fault(
                0..0,
                format!("the file is longer than {MAX_TEXT} bytes"),
                Some(hint.into()),
            );
            return None;
        }
        self.source = Some(Source::new(Some(name), text));
        let (tree, syntax) = parse(text);
        let before = self.faults.len();
        let root = Table {
            tree: &tree,
            prefix: String::new(),
            title: "the file",
            span: 0..0,
        };
        if self.places.files.len() == 1 {
            self.note("", 0..0);
        }
        let read = inside(self, &root);
        self.syntax(text, syntax, before);
        Some(read)
    }

    /// Notes the faults of a file's syntax. A bracket or quote that is missing makes another text of what
    /// follows: of such faults the first is reported, and nothing of the values below it.
    fn syntax(&mut self, text: &str, syntax: Vec<Syntax>, before: usize) {
        let is_twice = |fault: &Syntax| fault.message.starts_with("duplicate key");
        let (twice, broken): (Vec<_>, Vec<_>) = syntax.into_iter().partition(is_twice);
        let first = broken.into_iter().min_by_key(|fault| fault.span.start);
        if let (Some(first), Some(source)) = (&first, &self.source) {
            self.is_broken = true;
            let end = source.place(first.span.start);
            let rest = self.faults.split_off(before);
            let is_above = |fault: &Fault| fault.place.as_ref().is_some_and(|place| *place < end);
            self.faults.extend(rest.into_iter().filter(is_above));
        }
        for fault in twice {
            let hint = "of one name there is one key in a table: leave the other out";
            self.fault(fault.span, "the key is there already", Some(hint.into()));
        }
        if let Some(fault) = first {
            let hint = hints::of_syntax(text, &fault);
            let message = format!("not TOML: {}", fault.message);
            self.fault(fault.span, message, Some(hint.into()));
        }
    }

    pub(super) fn fault(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        let place = self.source.as_ref().map(|source| source.place(span.start));
        let message = message.into();
        self.faults.push(Fault {
            place,
            message,
            hint,
        });
    }

    /// Remembers where a key stands.
    pub(super) fn note(&mut self, path: &str, span: Range<usize>) {
        if let Some(source) = &self.source {
            self.places
                .keys
                .insert(path.into(), source.place(span.start));
        }
    }

    /// A value of the wrong kind.
    pub(super) fn expected(&mut self, value: &Value<'_>, key: &str, wanted: &str) {
        let found = kind(value.get_ref());
        self.fault(
            value.span(),
            format!("`{key}` is {found}: expected {wanted}"),
            hints::of_form(key, wanted),
        );
    }

    /// Notes where the keys of a table stand, and the fault of those that it does not have.
    pub(super) fn keys(&mut self, table: &Table<'_, '_>, section: &Section) {
        for (key, value) in entries(table.tree) {
            let name: &str = key.get_ref();
            let known = || section.keys.iter().map(|key| key.name);
            if !known().any(|known| known == name) {
                let shown = name.escape_debug();
                let message = format!("unknown key `{shown}` in {}", section.title);
                let (hint, meant) = hints::of_key(name, section);
                self.fault(key.span(), message, Some(hint));
                // That the key which is meant is missing is no fault of its own.
                if let Some(meant) = meant.filter(|meant| !table.has(meant)) {
                    self.note(&table.path(meant), key.span());
                }
                continue;
            }
            let of_key = !matches!(value.get_ref(), DeValue::Array(_) | DeValue::Table(_));
            let span = if of_key { value.span() } else { key.span() };
            self.note(&table.path(name), span);
        }
    }

    /// The table that a key has, its keys checked.
    pub(super) fn table<'v, 't>(
        &mut self,
        of: &Table<'v, 't>,
        key: &str,
        section: &'static Section,
    ) -> Option<Table<'v, 't>> {
        let value = of.get(key)?;
        self.as_table(value, &of.path(key), key, section)
    }

    pub(super) fn as_table<'v, 't>(
        &mut self,
        value: &'v Value<'t>,
        path: &str,
        key: &str,
        section: &'static Section,
    ) -> Option<Table<'v, 't>> {
        let DeValue::Table(tree) = value.get_ref() else {
            self.expected(value, key, "a table");
            return None;
        };
        let table = Table {
            tree,
            prefix: format!("{path}."),
            title: section.title,
            span: value.span(),
        };
        self.keys(&table, section);
        Some(table)
    }

    /// The values of a list, each with its path; or of one value alone where that will do.
    pub(super) fn values<'v, 't>(
        &mut self,
        of: &Table<'v, 't>,
        key: &str,
        one_will_do: bool,
    ) -> Option<Vec<(String, &'v Value<'t>)>> {
        let value = of.get(key)?;
        let path = of.path(key);
        let values: Vec<_> = match value.get_ref() {
            DeValue::Array(values) => values.iter().collect(),
            _ if one_will_do => vec![value],
            _ => {
                self.expected(value, key, "a list");
                return None;
            }
        };
        let values = values.into_iter().enumerate();
        let values = values.map(|(index, value)| (format!("{path}.{index}"), value));
        let values: Vec<_> = values.collect();
        for (path, value) in &values {
            self.note(path, value.span());
        }
        Some(values)
    }

    /// A list of texts in the form of a type. What can't be read is left out.
    pub(super) fn list<T>(
        &mut self,
        of: &Table<'_, '_>,
        key: &str,
        one_will_do: bool,
    ) -> Option<Vec<T>>
    where
        T: FromStr<Err: Refusal>,
    {
        let mut list = Vec::new();
        for (_, value) in self.values(of, key, one_will_do)? {
            if let Some(read) = self.parsed_value(value, key) {
                // What can't be read has no place among the others.
                self.note(&of.path(&format!("{key}.{}", list.len())), value.span());
                list.push(read);
            }
        }
        Some(list)
    }

    /// The fault of a list that is there and says nothing.
    pub(super) fn refuse_empty(&mut self, of: &Table<'_, '_>, key: &str) {
        let value = of.get(key);
        let empty =
            value.filter(|value| matches!(value.get_ref(), DeValue::Array(it) if it.is_empty()));
        if let Some(value) = empty {
            let hint = "leave it out, or give what it should hold";
            self.fault(
                value.span(),
                format!("`{key}` is an empty list"),
                Some(hint.into()),
            );
        }
    }

    /// Forgets where the keys below a path stand: another table has the path.
    pub(super) fn forget(&mut self, path: &str) {
        // Further down places are no longer told.
        if self.faults.len() <= MAX_FAULTS {
            self.places.keys.retain(|other, _| !other.starts_with(path));
        }
    }

    pub(super) fn text<'v>(&mut self, of: &Table<'v, '_>, key: &str) -> Option<&'v str> {
        let value = of.get(key)?;
        self.as_text(value, key)
    }

    pub(super) fn as_text<'v>(&mut self, value: &'v Value<'_>, key: &str) -> Option<&'v str> {
        self.text_for(value, key, "a text in quotes")
    }

    /// `wanted`: what the text is.
    pub(super) fn text_for<'v>(
        &mut self,
        value: &'v Value<'_>,
        key: &str,
        wanted: &str,
    ) -> Option<&'v str> {
        if let DeValue::String(text) = value.get_ref() {
            return Some(text);
        }
        self.expected(value, key, wanted);
        None
    }

    /// A text in the form of a type.
    pub(super) fn parsed<T>(&mut self, of: &Table<'_, '_>, key: &str) -> Option<T>
    where
        T: FromStr<Err: Refusal>,
    {
        let value = of.get(key)?;
        self.parsed_value(value, key)
    }

    pub(super) fn parsed_value<T>(&mut self, value: &Value<'_>, key: &str) -> Option<T>
    where
        T: FromStr<Err: Refusal>,
    {
        let read = self.as_text(value, key)?.parse();
        self.accept(value.span(), read)
    }

    /// Returns the value that was read, or notes its fault.
    pub(super) fn accept<T, E: Refusal>(
        &mut self,
        span: Range<usize>,
        read: Result<T, E>,
    ) -> Option<T> {
        let refused = match read {
            Ok(value) => return Some(value),
            Err(refused) => refused,
        };
        self.fault(span, refused.sentence(), refused.hint());
        None
    }

    pub(super) fn switch(&mut self, of: &Table<'_, '_>, key: &str) -> Option<bool> {
        let value = of.get(key)?;
        if let DeValue::Boolean(on) = value.get_ref() {
            return Some(*on);
        }
        self.expected(value, key, "true or false");
        None
    }

    /// A number from `least` to `most`.
    pub(super) fn count<T: TryFrom<u64>>(
        &mut self,
        of: &Table<'_, '_>,
        key: &str,
        least: u64,
        most: u64,
    ) -> Option<T> {
        let value = of.get(key)?;
        let wanted = match most {
            keys::MOST => format!("a number, {least} or more"),
            _ => format!("a number from {least} to {most}"),
        };
        let DeValue::Integer(number) = value.get_ref() else {
            self.expected(value, key, &wanted);
            return None;
        };
        let read = u64::from_str_radix(number.as_str(), number.radix()).ok();
        let read = read.filter(|number| (least..=most).contains(number));
        let read = read.and_then(|number| T::try_from(number).ok());
        if read.is_none() {
            let message = format!("`{key}` is {number}: expected {wanted}");
            self.fault(value.span(), message, None);
        }
        read
    }

    /// A path; a relative one is made relative to the folder of the file.
    pub(super) fn file_path(&mut self, of: &Table<'_, '_>, key: &str) -> Option<PathBuf> {
        let value = of.get(key)?;
        self.as_file_path(value, key)
    }

    pub(super) fn as_file_path(&mut self, value: &Value<'_>, key: &str) -> Option<PathBuf> {
        let text = self.text_for(value, key, "a path in quotes")?;
        if text.is_empty() || text.contains('\0') {
            let message = format!("`{key}` is {}: expected a path", quoted(text));
            self.fault(value.span(), message, None);
            return None;
        }
        Some(self.folder.join(text))
    }

    /// `folder/text`, as a text.
    pub(super) fn in_folder(&self, text: &str) -> String {
        self.folder.join(text).to_string_lossy().into_owned()
    }

    /// A key that a table must have is missing.
    pub(super) fn missing(&mut self, table: &Table<'_, '_>, key: &str, example: &str) {
        let message = format!("{} has no `{key}`", table.title);
        self.fault(
            table.span.clone(),
            message,
            Some(format!("give one, like `{key} = {example}`")),
        );
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
