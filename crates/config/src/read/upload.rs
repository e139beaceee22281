//! `upload` of a route.

use super::walk::{Table, Walk};
use crate::keys;
use crate::{MAX_CONCURRENT_UPLOADS, MAX_UPLOAD_PARTS, Upload};

impl Walk {
    pub(super) fn upload(&mut self, of: &Table<'_, '_>) -> Option<Upload> {
        let table = self.table(of, "upload", &keys::UPLOAD)?;
        if !table.has("folder") {
            self.missing(&table, "folder", "\"/srv/incoming\"");
        }
        let folder = self.file_path(&table, "folder");
        let mut upload = Upload::into_folder(folder.clone().unwrap_or_default());
        self.refuse_empty(&table, "methods");
        if let Some(methods) = self.list(&table, "methods", true) {
            upload.methods = methods;
        }
        let body = self.size(&table, "body");
        upload.body = body.unwrap_or(upload.body);
        let parts = self.count(&table, "parts", 1, MAX_UPLOAD_PARTS);
        upload.parts = parts.unwrap_or(upload.parts);
        upload.replace = self.switch(&table, "replace").unwrap_or_default();
        let min_free = self.size(&table, "min-free");
        upload.min_free = min_free.unwrap_or(upload.min_free);
        let slowest = self.parsed(&table, "slowest");
        upload.slowest = slowest.unwrap_or(upload.slowest);
        let concurrent = self.count(&table, "concurrent", 1, MAX_CONCURRENT_UPLOADS);
        upload.concurrent = concurrent.unwrap_or(upload.concurrent);
        upload.resumable = self.switch(&table, "resumable").unwrap_or_default();
        folder.map(|_| upload)
    }
}
