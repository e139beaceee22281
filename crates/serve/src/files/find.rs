//! The file that answers a path: itself, the index of a folder, a page without its ending, or none.

use super::open::{Elsewhere, FoundEntry, OpenedFile, Refusal};
use super::path::{RequestedFile, encode};
use super::served::ServedFolder;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The ending of pages, which clean URLs leave out.
const PAGE: &[u8] = b".html";

impl ServedFolder {
    /// The file that `asked` means, if it is served, and which compressed forms it has.
    pub(super) fn look_for(
        &self,
        asked: &RequestedFile,
        query: Option<&str>,
    ) -> Result<OpenedFile, Refusal> {
        let opened = self.look_for_source(asked, query)?;
        Ok(self.with_variants(opened))
    }

    fn look_for_source(
        &self,
        asked: &RequestedFile,
        query: Option<&str>,
    ) -> Result<OpenedFile, Refusal> {
        if asked.is_hidden(self.options.hidden.into()) {
            return Err(Refusal::Hidden);
        }
        if asked.directory {
            return self.index_of(&asked.relative);
        }
        match self.root.open_any(&asked.relative) {
            Ok(FoundEntry::File(opened)) => match self.clean_path(&asked.relative, &opened) {
                Some(elsewhere) => Err(Refusal::Redirect(elsewhere.with_query(query))),
                None => Ok(opened),
            },
            Ok(FoundEntry::Directory) => {
                self.page_of(&asked.relative)
                    .map_err(|refusal| match refusal {
                        Refusal::NotFound => {
                            let elsewhere = Elsewhere::beside(asked.with_slash.clone());
                            Refusal::Redirect(elsewhere.with_query(query))
                        }
                        other => other,
                    })
            }
            Err(Refusal::NotFound) => self.page_of(&asked.relative),
            Err(refusal) => Err(refusal),
        }
    }

    /// The file that answers where nothing is found, if there is to be one.
    pub(super) fn fallback(&self) -> Option<Result<OpenedFile, Refusal>> {
        let opened = self.root.open_file(Path::new(self.options.fallback()?));
        Some(opened.map(|opened| self.with_variants(opened)))
    }

    /// Returns the folder's first index file; without one, the refusal by which the folder is listed or
    /// not found.
    fn index_of(&self, folder: &Path) -> Result<OpenedFile, Refusal> {
        let opened = |name: &String| self.root.open_file(&folder.join(name));
        let mut names = self.options.index.iter().map(opened);
        let found = names.find(|found| !matches!(found, Err(Refusal::NotFound)));
        found.unwrap_or_else(|| {
            let is_folder = || self.root.metadata(folder).is_some_and(|it| it.is_dir());
            match self.options.listing && is_folder() {
                true => Err(Refusal::Folder(folder.into())),
                false => Err(Refusal::NotFound),
            }
        })
    }

    /// The page that a path means which leaves out its ending.
    fn page_of(&self, name: &Path) -> Result<OpenedFile, Refusal> {
        if !self.options.clean_urls {
            return Err(Refusal::NotFound);
        }
        let mut page = OsString::from(name);
        page.push(OsStr::from_bytes(PAGE));
        self.root.open_file(Path::new(&page))
    }

    /// The path without an ending that a page was found by, where that leads to it.
    fn clean_path(&self, name: &Path, opened: &OpenedFile) -> Option<Elsewhere> {
        let file = name.file_name()?.as_bytes();
        let stem = file
            .strip_suffix(PAGE)
            .filter(|_| self.options.clean_urls)?;
        let folder = name.parent().unwrap_or(Path::new(""));
        let is_index = self.options.index.iter().any(|it| it.as_bytes() == file);
        if is_index {
            let is_first = self.index_of(folder).ok()?.name == opened.name;
            return is_first.then(|| Elsewhere::folder(encode(folder, true)));
        }
        // Such a name would be refused.
        if matches!(stem, b"" | b"." | b"..") {
            return None;
        }
        let stem: PathBuf = folder.join(OsStr::from_bytes(stem));
        match self.root.open_any(&stem) {
            Ok(FoundEntry::File(_)) => None,
            _ => Some(Elsewhere::beside(encode(&stem, false))),
        }
    }
}

impl Elsewhere {
    /// A path in the folder of the one that was asked for.
    fn beside(path: String) -> Self {
        let names = path.strip_suffix('/').unwrap_or(&path);
        let name = names.rfind('/').map_or(0, |slash| slash + 1);
        // A name may have a colon, which a relative reference does not begin with.
        let relative = format!("./{}", &path[name..]);
        Self { path, relative }
    }

    /// The path of that folder itself.
    fn folder(path: String) -> Self {
        let relative = "./".into();
        Self { path, relative }
    }

    fn with_query(mut self, query: Option<&str>) -> Self {
        if let Some(query) = query {
            for reference in [&mut self.path, &mut self.relative] {
                reference.push('?');
                reference.push_str(query);
            }
        }
        self
    }
}
