//! Rows of system tables once they are made. They belong to a version of the catalog, and are found by the values of a column.

use super::registry::by_full_name;
use super::{Content, SystemTable, View};
use crate::catalog::{RelationName, SchemaId};
use parking_lot::Mutex;
use rubato_base::{Key, KeyWriter, Value};
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

/// Rows are kept for at most so many pairs of a database's name and a user's.
const SESSIONS_MAX: usize = 8;

/// The rows of each table, by its name.
type ByTable = HashMap<&'static str, Arc<TableRows>>;

/// What was made of one version of a catalog. A clone, which is to become another version, begins with nothing.
#[derive(Default)]
pub struct MadeRows {
    by_session: Mutex<HashMap<(String, String), ByTable>>,
    pub(super) objects: OnceLock<super::objects::Objects>,
}

impl Clone for MadeRows {
    fn clone(&self) -> MadeRows {
        MadeRows::default()
    }
}

impl std::fmt::Debug for MadeRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MadeRows").finish_non_exhaustive()
    }
}

/// All rows of a system table.
#[derive(Debug, Default)]
pub(crate) struct TableRows {
    rows: Vec<Box<[Value]>>,
    /// The places of the rows by the value of a column, made when it is first asked for.
    by_column: Mutex<HashMap<usize, Arc<Places>>>,
}

/// The places of rows by a value.
type Places = HashMap<Key, Vec<u32>>;

impl TableRows {
    /// All of them.
    pub(crate) fn all(&self) -> &[Box<[Value]>] {
        &self.rows
    }

    /// The row at a place.
    pub(crate) fn row(&self, place: u32) -> &[Value] {
        self.rows.get(place as usize).map_or(&[], |row| row)
    }

    /// The places of the rows whose column is equal to `value`; `None` if only a look at each row can tell.
    pub(crate) fn places(&self, column: usize, value: &Value) -> Option<Vec<u32>> {
        if value.is_null() {
            return Some(Vec::new());
        }
        let key = key_of(value)?;
        let places = Arc::clone(
            self.by_column
                .lock()
                .entry(column)
                .or_insert_with(|| Arc::new(self.index(column))),
        );
        Some(places.get(&key).cloned().unwrap_or_default())
    }

    fn index(&self, column: usize) -> Places {
        let mut places = Places::default();
        for (place, row) in self.rows.iter().enumerate() {
            if let Some(key) = row.get(column).and_then(key_of) {
                places.entry(key).or_default().push(place as u32);
            }
        }
        places
    }
}

/// A key that equal values share; `None` for NULL and for what is equal in other ways.
fn key_of(value: &Value) -> Option<Key> {
    let mut writer = KeyWriter::default();
    match value {
        Value::Text(_) | Value::Bool(_) => writer.push(value),
        other => writer.push(&Value::Int8(other.as_i64()?)),
    }
    Some(writer.finish())
}

/// The rows of a table while they are made, some tables of the users at a time.
pub(crate) struct Making {
    table: &'static SystemTable,
    rows: Vec<Box<[Value]>>,
    /// The user's table that was done last; `None` before the first.
    last: Option<RelationName>,
    /// The version of the catalog that they are made of.
    version: Option<u64>,
    /// How often it was another one by the next part.
    begun_again: u32,
}

/// So often rows begin anew that were made in part when the catalog became another one; then they are made at once.
const BEGUN_AGAIN_MAX: u32 = 2;

impl std::fmt::Debug for Making {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Making")
            .field("table", &self.table.name)
            .finish_non_exhaustive()
    }
}

/// How far [`Making::go_on`] got.
pub(crate) enum Made {
    Paused,
    All(Arc<TableRows>),
}

impl MadeRows {
    /// The rows of a table, if they are made.
    pub(crate) fn of(&self, table: &str, view: &View<'_>) -> Option<Arc<TableRows>> {
        let by_session = self.by_session.lock();
        let tables = by_session.get(&(view.database.to_owned(), view.user.to_owned()))?;
        tables.get(table).cloned()
    }

    fn keep(&self, table: &'static str, view: &View<'_>, rows: &Arc<TableRows>) {
        let mut by_session = self.by_session.lock();
        let session = (view.database.to_owned(), view.user.to_owned());
        if by_session.len() >= SESSIONS_MAX && !by_session.contains_key(&session) {
            by_session.clear();
        }
        by_session.entry(session).or_default().insert(table, Arc::clone(rows));
    }
}

impl Making {
    /// Nothing yet.
    pub(crate) fn of(table: &'static SystemTable) -> Making {
        Making {
            table,
            rows: Vec::new(),
            last: None,
            version: None,
            begun_again: 0,
        }
    }

    /// Makes at least the rows of one more table of the users, and no more after about `rows_left` rows. Says how many it has made.
    pub(crate) fn go_on(&mut self, view: &View<'_>, rows_left: usize) -> (Made, usize) {
        if let Some(rows) = view.catalog.made.of(self.table.name, view) {
            return (Made::All(rows), 0);
        }
        let rows_left = self.of_one_version(view.catalog.version, rows_left);
        let before = self.rows.len();
        let Content::Catalog(Some(source)) = &self.table.content else {
            return (Made::All(self.finish(view)), 0);
        };
        let places = self.places(source.columns);
        if self.last.is_none() {
            self.add((source.others)(view), &places);
        }
        let from = self
            .last
            .as_ref()
            .map_or(Bound::Unbounded, |last| Bound::Excluded(last.clone()));
        for (name, table) in view.catalog.tables.range((from, Bound::Unbounded)) {
            if self.rows.len() - before >= rows_left {
                self.last
                    .get_or_insert_with(|| RelationName::new(SchemaId::NOWHERE, ""));
                return (Made::Paused, self.rows.len() - before);
            }
            self.add((source.of_table)(view, table), &places);
            self.last = Some(name.clone());
        }
        let made = self.rows.len() - before;
        (Made::All(self.finish(view)), made)
    }

    /// All rows are of one version: those of another one would be kept for this, and who asks for what lies between would not find it. Says
    /// how many may be made.
    fn of_one_version(&mut self, version: u64, rows_left: usize) -> usize {
        if self.version.replace(version).is_some_and(|known| known != version) {
            (self.rows, self.last) = (Vec::new(), None);
            self.begun_again += 1;
        }
        match self.begun_again < BEGUN_AGAIN_MAX {
            true => rows_left,
            false => usize::MAX,
        }
    }

    /// Where each value of a source's row goes.
    fn places(&self, columns: &[&str]) -> Vec<Option<usize>> {
        let place = |said: &&str| self.table.columns.iter().position(|column| column.name == *said);
        columns.iter().map(place).collect()
    }

    fn add(&mut self, rows: Vec<Vec<Value>>, places: &[Option<usize>]) {
        for values in rows {
            let columns = self.table.columns.iter().map(|column| column.default.clone());
            let mut row: Box<[Value]> = columns.chain([Value::Int8(i64::from(self.table.oid))]).collect();
            for (value, place) in values.into_iter().zip(places) {
                if let Some(slot) = place.and_then(|place| row.get_mut(place)) {
                    *slot = value;
                }
            }
            self.rows.push(row);
        }
    }

    fn finish(&mut self, view: &View<'_>) -> Arc<TableRows> {
        let rows = Arc::new(TableRows {
            rows: std::mem::take(&mut self.rows),
            by_column: Mutex::default(),
        });
        view.catalog.made.keep(self.table.name, view, &rows);
        rows
    }
}

/// The rows of a table at once, made or found: for functions that look something up.
pub(super) fn rows_of(table: &str, view: &View<'_>) -> Arc<TableRows> {
    let made = by_full_name(table).map(|table| Making::of(table).go_on(view, usize::MAX).0);
    match made {
        Some(Made::All(rows)) => rows,
        _ => Arc::default(),
    }
}

#[cfg(test)]
pub(super) fn all_rows(table: &'static SystemTable, view: &View<'_>) -> Vec<Box<[Value]>> {
    rows_of(table.name, view).all().to_vec()
}
