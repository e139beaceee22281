//! `[acme]`.

use super::walk::{Refusal, Table, Walk};
use crate::keys;
use crate::{Acme, AcmeOnDemand, ExternalAccount};

impl Refusal for crate::BadAcmeValue {}

/// The longest identifier of an external account, in bytes.
const MAX_ID: usize = 256;

impl Walk {
    pub(super) fn acme(&mut self, root: &Table<'_, '_>) -> Option<Acme> {
        let table = self.table(root, "acme", &keys::ACME)?;
        self.refuse_empty(&table, "challenges");
        Some(Acme {
            email: self.parsed(&table, "email"),
            directory: self.parsed(&table, "directory").unwrap_or_default(),
            profile: self.parsed(&table, "profile"),
            challenges: self.list(&table, "challenges", true).unwrap_or_default(),
            on_demand: self.on_demand(&table),
            folder: self.file_path(&table, "folder"),
            roots: self.file_path(&table, "roots"),
            external_account: self.external_account(&table),
        })
    }

    fn on_demand(&mut self, acme: &Table<'_, '_>) -> Option<AcmeOnDemand> {
        let table = self.table(acme, "on-demand", &keys::ON_DEMAND)?;
        if !table.has("ask") {
            self.missing(&table, "ask", "\"http://127.0.0.1:9123/allowed\"");
        }
        let ask = self.parsed(&table, "ask");
        let most = AcmeOnDemand::MOST_NAMES.into();
        let names = self.count(&table, "names", 1, most);
        Some(AcmeOnDemand {
            ask: ask?,
            names: names.unwrap_or(AcmeOnDemand::NAMES),
        })
    }

    fn external_account(&mut self, acme: &Table<'_, '_>) -> Option<ExternalAccount> {
        let table = self.table(acme, "external-account", &keys::EXTERNAL_ACCOUNT)?;
        for (name, example) in [("id", "\"kid-1\""), ("key", "\"/etc/altway/eab.key\"")] {
            if !table.has(name) {
                self.missing(&table, name, example);
            }
        }
        let id = self.text(&table, "id").map(str::to_owned);
        let is_id = |id: &String| {
            (1..=MAX_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if let (Some(id), Some(value)) = (&id, table.get("id"))
            && !is_id(id)
        {
            let shown = id.escape_debug();
            let message = format!("`{shown}` is not the identifier of a key");
            self.fault(value.span(), message, None);
        }
        let key = table.get("key");
        let key = key.and_then(|value| self.secret(value, &table));
        Some(ExternalAccount {
            id: id.filter(is_id)?,
            key: key?,
        })
    }
}
