//! The databases of a partition, by number and by name.
//!
//! [`Databases`] is a value, as a [`Catalog`] is: a schema change makes another one with the new catalog of its database, and so do
//! CREATE DATABASE and its kin. All databases share the partition's log, its store and its ids; nothing that has a name is shared.
//!
//! Invariants:
//! - The database [`DatabaseId::RUBATO`] is always there and keeps its name. It has a second one, `postgres`.
//! - No two tables or indexes share storage, and no two sequences a number, in whatever databases.

mod change;
mod codec;
mod copy;
mod heard;
mod keeping;

pub use change::{Applied, DatabaseChange, DatabaseCommand, DatabaseOptions};
pub(crate) use codec::{decode_facts, encode_facts};
pub(crate) use copy::{Copied, copied};
pub use heard::Heard;
pub use keeping::Keeping;

use crate::catalog::{Catalog, Table};
use rubato_base::{Error, Result, SqlState, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of a database: its oid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseId(pub u32);

impl DatabaseId {
    /// The database that is there from the start.
    pub const RUBATO: DatabaseId = DatabaseId(16_383);
}

impl Default for DatabaseId {
    fn default() -> DatabaseId {
        DatabaseId::RUBATO
    }
}

/// The name of the database that is there from the start.
pub const FIRST_NAME: &str = "rubato";
/// Its other name, which clients ask for where nothing else is known, with the number that goes with it.
pub(crate) const SECOND_NAME: (u32, &str) = (5, "postgres");
/// Names of PostgreSQL's templates: what is made of them is empty.
const TEMPLATES: [&str; 2] = ["template0", "template1"];

/// Whether two names are those of one database.
pub(crate) fn is_same_name(one: &str, other: &str) -> bool {
    let is_first = |name: &str| name == FIRST_NAME || name == SECOND_NAME.1;
    one == other || (is_first(one) && is_first(other))
}

/// What a database is, beside what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseFacts {
    /// Its number.
    pub id: DatabaseId,
    /// Its name.
    pub name: String,
    /// ALLOW_CONNECTIONS.
    pub allows_connections: bool,
    /// IS_TEMPLATE.
    pub is_template: bool,
    /// CONNECTION LIMIT; -1 is none. It is shown and binds nobody, as PostgreSQL's does not bind superusers.
    pub connections_max: i32,
    /// COMMENT ON DATABASE.
    pub comment: Option<String>,
    /// Settings that its sessions begin with, in the order in which they were made.
    pub settings: Vec<(String, String)>,
}

impl DatabaseFacts {
    fn new(id: DatabaseId, name: &str) -> DatabaseFacts {
        DatabaseFacts {
            id,
            name: name.to_owned(),
            allows_connections: true,
            is_template: false,
            connections_max: -1,
            comment: None,
            settings: Vec::new(),
        }
    }
}

/// A database.
#[derive(Clone, Debug)]
pub struct Database {
    /// What it is.
    pub facts: Arc<DatabaseFacts>,
    /// What is in it, as committed.
    pub catalog: Arc<Catalog>,
}

impl Database {
    fn empty(facts: DatabaseFacts) -> Database {
        // Plans are told apart by the catalog's version: no other has had this one.
        let catalog = match facts.id {
            DatabaseId::RUBATO => Catalog::default(),
            DatabaseId(id) => Catalog {
                version: u64::from(id),
                next_id: id + 1,
                ..Catalog::default()
            },
        };
        Database {
            facts: Arc::new(facts),
            catalog: Arc::new(catalog),
        }
    }
}

/// All databases.
#[derive(Clone, Debug)]
pub struct Databases {
    by_id: BTreeMap<DatabaseId, Database>,
    /// What a session finds whose database is gone.
    nothing: Arc<Catalog>,
    /// Who keeps what there is once, if that was ever handed over.
    keeping: Option<Keeping>,
    /// What was heard last, if another node changes the catalogs.
    heard: Option<Arc<Heard>>,
}

impl Default for Databases {
    /// One empty database.
    fn default() -> Databases {
        let first = Database::empty(DatabaseFacts::new(DatabaseId::RUBATO, FIRST_NAME));
        Databases {
            by_id: BTreeMap::from([(DatabaseId::RUBATO, first)]),
            nothing: Arc::default(),
            keeping: None,
            heard: None,
        }
    }
}

impl Databases {
    /// The committed catalog of a database.
    pub fn catalog(&self, id: DatabaseId) -> &Arc<Catalog> {
        self.by_id.get(&id).map_or(&self.nothing, |database| &database.catalog)
    }

    /// The same with another catalog of one database, if that is there.
    pub fn with_catalog(&self, id: DatabaseId, catalog: Arc<Catalog>) -> Databases {
        let mut changed = self.clone();
        if let Some(database) = changed.by_id.get_mut(&id) {
            database.catalog = catalog;
        }
        changed
    }

    /// The same with one more, which has this catalog. 42P04.
    pub(crate) fn with_new(&self, facts: &DatabaseFacts, catalog: &Arc<Catalog>) -> Result<Databases> {
        self.check_name(&facts.name)?;
        let mut all = self.facts();
        all.push(facts.clone());
        Ok(self.with_facts(all).with_catalog(facts.id, Arc::clone(catalog)))
    }

    /// The same with these databases instead: what is not among them is gone, what is new is empty.
    pub fn with_facts(&self, facts: Vec<DatabaseFacts>) -> Databases {
        let keep = |facts: DatabaseFacts| match self.by_id.get(&facts.id) {
            Some(known) => Database {
                facts: Arc::new(facts),
                catalog: Arc::clone(&known.catalog),
            },
            None => Database::empty(facts),
        };
        let mut changed = Databases {
            by_id: facts.into_iter().map(|facts| (facts.id, keep(facts))).collect(),
            nothing: Arc::clone(&self.nothing),
            keeping: self.keeping,
            heard: self.heard.clone(),
        };
        if let (Some(first), false) = (
            self.by_id.get(&DatabaseId::RUBATO),
            changed.by_id.contains_key(&DatabaseId::RUBATO),
        ) {
            changed.by_id.insert(DatabaseId::RUBATO, first.clone());
        }
        changed
    }

    /// Who keeps what there is once in the grid, if that was ever handed over.
    pub fn keeping(&self) -> Option<&Keeping> {
        self.keeping.as_ref()
    }

    /// The same with another keeper, if that is newer than the one that is known.
    pub fn with_keeping(&self, keeping: Keeping) -> Databases {
        let mut changed = self.clone();
        if self.keeping.is_none_or(|known| known.number < keeping.number) {
            changed.keeping = Some(keeping);
        }
        changed
    }

    /// The same with what was heard last, if that is said.
    pub fn with_heard(mut self, heard: Option<Heard>) -> Databases {
        if let Some(heard) = heard {
            self.heard = Some(Arc::new(heard));
        }
        self
    }

    /// What was heard last, if that was ever heard.
    pub fn heard(&self) -> Option<&Heard> {
        self.heard.as_deref()
    }

    /// The same, if nothing newer is here by a transaction whose definitions the node that changes the catalogs has yet to tell.
    pub fn heard_of_all(&self) -> Option<&Heard> {
        let told = |id| Some(self.heard()?.catalogs.iter().find(|(told, _)| *told == id)?.1);
        let is_told = |own: &Database| told(own.facts.id).is_some_and(|version| own.catalog.version <= version);
        self.heard().filter(|_| self.by_id.values().all(is_told))
    }

    /// What each database is, by number.
    pub fn facts(&self) -> Vec<DatabaseFacts> {
        self.by_id.values().map(|database| (*database.facts).clone()).collect()
    }

    /// Whether there is nothing to tell of databases: only the first one, as it is from the start.
    pub fn is_plain(&self) -> bool {
        self.facts() == Databases::default().facts()
    }

    /// A database by name.
    pub fn find(&self, name: &str) -> Option<&Database> {
        let mut all = self.by_id.values();
        all.find(|database| is_same_name(&database.facts.name, name))
    }

    /// A database by number, which may be that of the second name.
    pub fn get(&self, id: DatabaseId) -> Option<&Database> {
        let id = if id.0 == SECOND_NAME.0 { DatabaseId::RUBATO } else { id };
        self.by_id.get(&id)
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Database> {
        self.by_id.values()
    }

    /// Numbers and names as they are listed: the first database stands there twice.
    pub(crate) fn listed(&self) -> impl Iterator<Item = (u32, &str, &Database)> {
        let second = self.by_id.get(&DatabaseId::RUBATO);
        let second = second.map(|first| (SECOND_NAME.0, SECOND_NAME.1, first));
        let own = self.by_id.values();
        let own = own.map(|own| (own.facts.id.0, own.facts.name.as_str(), own));
        second.into_iter().chain(own)
    }

    /// The number under which a name is listed.
    pub(crate) fn listed_number(&self, name: &str) -> Option<u32> {
        let mut listed = self.listed();
        listed.find(|(_, own, _)| *own == name).map(|(number, _, _)| number)
    }

    /// The storage of all tables and indexes.
    pub fn storage(&self) -> Vec<TableId> {
        let catalogs = self.by_id.values();
        catalogs.flat_map(|database| storage_of(&database.catalog)).collect()
    }

    /// Above every id that was given to something which is there.
    pub fn next_id(&self) -> u32 {
        let after = |database: &Database| {
            let own = match database.facts.id {
                DatabaseId::RUBATO => 0,
                DatabaseId(id) => id + 1,
            };
            own.max(database.catalog.next_id)
        };
        let given = self.keeping.map_or(0, |keeping| keeping.next_id);
        self.by_id.values().map(after).max().unwrap_or(0).max(given)
    }
}

/// The storage of a catalog's tables and indexes.
pub fn storage_of(catalog: &Catalog) -> Vec<TableId> {
    catalog
        .tables
        .values()
        .flat_map(|table| storage_of_table(table))
        .collect()
}

/// The storage of a table and of its indexes.
pub fn storage_of_table(table: &Table) -> impl Iterator<Item = TableId> + '_ {
    std::iter::once(table.id).chain(table.indexes.iter().map(|index| index.id))
}

/// 3D000.
pub fn no_database(name: &str) -> Error {
    let message = format!("database \"{name}\" does not exist");
    Error::new(SqlState::INVALID_CATALOG_NAME, message)
}
