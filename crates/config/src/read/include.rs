//! Files that a configuration includes.

use super::walk::{Table, Walk};
use crate::{Site, keys};
use std::ops::Range;

/// The most files that a configuration includes.
pub const MAX_INCLUDED: usize = 10_000;

/// The files beside a configuration, for whoever reads one that includes others.
pub trait ConfigFiles {
    /// The names of the files in a folder (empty: the working folder), without its path, in any order.
    ///
    /// # Errors
    /// Why they can't be had, in a sentence.
    fn names(&mut self, folder: &str) -> Result<Vec<String>, String>;

    /// The text of a file.
    ///
    /// # Errors
    /// Why it can't be had, in a sentence.
    fn text(&mut self, path: &str) -> Result<String, String>;
}

/// No files: whatever is included can't be read.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFiles;

impl ConfigFiles for NoFiles {
    fn names(&mut self, _: &str) -> Result<Vec<String>, String> {
        Err("no file can be read here".into())
    }

    fn text(&mut self, _: &str) -> Result<String, String> {
        Err("no file can be read here".into())
    }
}

/// A text of `include`, and where it stands.
pub(super) struct Include {
    /// Path of the file, with the folder of the file that names it.
    path: String,
    span: Range<usize>,
}

impl Walk {
    pub(super) fn includes(&mut self, root: &Table<'_, '_>) -> Vec<Include> {
        let mut includes = Vec::new();
        for (_, value) in self.values(root, "include", true).unwrap_or_default() {
            let Some(text) = self.as_text(value, "include") else {
                continue;
            };
            let span = value.span();
            let name = text.rsplit('/').next().unwrap_or_default();
            let folder_has_star =
                text.len() > name.len() && text[..text.len() - name.len()].contains('*');
            if name.is_empty()
                || text.contains('\0')
                || folder_has_star
                || name.matches('*').count() > 1
            {
                let shown = text.escape_debug();
                let message = format!("`{shown}` names no files to include");
                let hint = "a path, with one `*` in its last part at most: `sites/*.toml`";
                self.fault(span, message, Some(hint.into()));
                continue;
            }
            let path = self.in_folder(text);
            includes.push(Include { path, span });
        }
        includes
    }

    /// Reads all that the includes of the first file name.
    pub(super) fn included(
        &mut self,
        includes: Vec<Include>,
        files: &mut dyn ConfigFiles,
        sites: &mut Vec<Site>,
    ) {
        let mut paths: Vec<(String, Range<usize>)> = Vec::new();
        for Include { path, span } in includes {
            match matching(&path, files) {
                Ok(found) => paths.extend(found.into_iter().map(|path| (path, span.clone()))),
                Err(reason) => {
                    self.has_unread_sites(&span);
                    self.fault(
                        span,
                        format!("cannot read the folder of `{path}`: {reason}"),
                        None,
                    );
                }
            }
        }
        if let Some((_, span)) = paths.get(MAX_INCLUDED) {
            let message = format!("`include` names more than {MAX_INCLUDED} files");
            self.fault(
                span.clone(),
                message,
                Some("put several sites into one file".into()),
            );
            paths.truncate(MAX_INCLUDED);
        }
        // Faults of reading stand in the first file: all are noted before another becomes the current one.
        let mut texts = Vec::new();
        for (path, span) in paths {
            if texts.iter().any(|(other, _)| *other == path) {
                continue;
            }
            match files.text(&path) {
                Ok(text) => texts.push((path, text)),
                Err(reason) => {
                    self.has_unread_sites(&span);
                    let hint =
                        "a file that may be missing is named with a `*`, like `sites/*.toml`";
                    self.fault(
                        span,
                        format!("cannot read `{path}`: {reason}"),
                        Some(hint.into()),
                    );
                }
            }
        }
        for (path, text) in texts {
            self.file(&path, &text, |walk, root| {
                walk.keys(root, &keys::INCLUDED);
                walk.sites(root, sites);
            });
        }
    }

    /// Notes that there are sites which could not be read: that there are none is no fault of its own.
    fn has_unread_sites(&mut self, span: &Range<usize>) {
        self.note("site", span.clone());
    }
}

/// The files that `path` names, in the order of their names.
fn matching(path: &str, files: &mut dyn ConfigFiles) -> Result<Vec<String>, String> {
    let (folder, name) = path
        .rsplit_once('/')
        .map_or(("", path), |(folder, name)| (folder, name));
    let Some((start, end)) = name.split_once('*') else {
        return Ok(vec![path.into()]);
    };
    let fits = |name: &String| {
        let is_long_enough = name.len() >= start.len() + end.len();
        // As in a shell, a hidden file is not meant by `*`.
        let is_hidden = name.starts_with('.') && !start.starts_with('.');
        is_long_enough && !is_hidden && name.starts_with(start) && name.ends_with(end)
    };
    let slash = path.contains('/');
    let root = if slash && folder.is_empty() {
        "/"
    } else {
        folder
    };
    let mut names: Vec<_> = files.names(root)?.into_iter().filter(fits).collect();
    names.sort_unstable();
    let full = |name: String| {
        if slash {
            format!("{folder}/{name}")
        } else {
            name
        }
    };
    Ok(names.into_iter().map(full).collect())
}
