//! The catalogs that a session sees.

use super::Session;
use crate::catalog::Catalog;
use crate::partition::Partition;
use std::sync::Arc;

impl Session {
    /// The catalog as this session sees it now.
    pub(super) fn catalog(&self, partition: &Partition) -> Arc<Catalog> {
        let own = self.own_catalog().unwrap_or_else(|| self.committed(partition));
        Arc::clone(own)
    }

    /// The catalog with the changes of its transaction, if that has made any, here or elsewhere.
    pub(super) fn own_catalog(&self) -> Option<&Arc<Catalog>> {
        let here = self.transaction.as_ref().and_then(|open| open.catalog.as_ref());
        here.or_else(|| self.away.as_ref()?.catalog.as_ref())
    }

    /// The same for whoever it works for.
    pub fn catalog_of_transaction(&self) -> Option<Arc<Catalog>> {
        self.own_catalog().cloned()
    }

    /// The committed catalog of the session's database.
    pub(super) fn committed<'p>(&self, partition: &'p Partition) -> &'p Arc<Catalog> {
        partition.databases.catalog(self.identity.database_id)
    }

    /// Values of enums are read and shown from now on as this catalog calls them.
    pub(super) fn see_enums(&mut self, catalog: &Catalog) {
        if !Arc::ptr_eq(&self.text.enums, &catalog.enum_labels) {
            self.text.enums = Arc::clone(&catalog.enum_labels);
        }
    }
}
