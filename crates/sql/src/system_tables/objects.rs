//! Everything in a catalog that has a number, by its number and by its name.

use super::View;
use super::made::MadeRows;
use crate::catalog::{self, Catalog, Deferral, Domain, KeyOrder, RelationName, RowExpression, Sequence, Table};
use std::collections::HashMap;
use std::sync::Arc;

/// What a number stands for; places are those in the table's lists.
#[derive(Clone, Debug)]
pub(super) enum Object {
    Table(Arc<Table>),
    PrimaryKey(Arc<Table>),
    Index(Arc<Table>, usize),
    Sequence(Arc<Sequence>),
    View(Arc<catalog::View>),
    Check(Arc<Table>, usize),
    ForeignKey(Arc<Table>, usize),
    DomainCheck(Arc<Domain>, usize),
}

impl Object {
    /// The name of a relation; a constraint has none.
    pub(super) fn relation(&self) -> Option<RelationName> {
        Some(match self {
            Object::Table(table) => table.key(),
            Object::PrimaryKey(table) => RelationName::new(table.schema, table.primary_key_name.as_str()),
            Object::Index(table, place) => RelationName::new(table.schema, index_at(table, *place)?.name),
            Object::Sequence(sequence) => sequence.key(),
            Object::View(view) => view.key(),
            Object::Check(..) | Object::ForeignKey(..) | Object::DomainCheck(..) => return None,
        })
    }
}

/// The objects of one catalog version.
#[derive(Debug, Default)]
pub(super) struct Objects {
    by_number: HashMap<u32, Object>,
    /// Tables, indexes, sequences and views of a schema share one space of names.
    relations: HashMap<RelationName, u32>,
}

impl Objects {
    fn of(catalog: &Catalog) -> Objects {
        let mut objects = Objects::default();
        for table in catalog.tables.values() {
            let own = || Arc::clone(table);
            objects.add(table.oid, Some(table.key()), Object::Table(own()));
            for index in table_indexes(table) {
                let object = index
                    .place
                    .map_or_else(|| Object::PrimaryKey(own()), |place| Object::Index(own(), place));
                objects.add(index.oid, Some(RelationName::new(table.schema, index.name)), object);
            }
            for place in 0..table.checks.len() {
                objects.add(check_number(table, place), None, Object::Check(own(), place));
            }
            for place in 0..table.foreign_keys.len() {
                objects.add(foreign_key_number(table, place), None, Object::ForeignKey(own(), place));
            }
        }
        for domain in catalog.domains.values() {
            for place in 0..domain.checks.len() {
                let object = Object::DomainCheck(Arc::clone(domain), place);
                objects.add(domain_check_number(domain, place), None, object);
            }
        }
        for sequence in catalog.sequences.values() {
            objects.add(
                sequence.id,
                Some(sequence.key()),
                Object::Sequence(Arc::clone(sequence)),
            );
        }
        for view in catalog.views.values() {
            objects.add(view.oid, Some(view.key()), Object::View(Arc::clone(view)));
        }
        objects
    }

    fn add(&mut self, number: u32, relation: Option<RelationName>, object: Object) {
        self.by_number.insert(number, object);
        if let Some(name) = relation {
            self.relations.insert(name, number);
        }
    }

    /// The number of a table, index, sequence or view of the users.
    pub(super) fn relation(&self, name: &RelationName) -> Option<u32> {
        self.relations.get(name).copied()
    }
}

impl MadeRows {
    /// The objects of the catalog that this belongs to.
    pub(super) fn objects(&self, catalog: &Catalog) -> &Objects {
        self.objects.get_or_init(|| Objects::of(catalog))
    }

    /// What a number stands for.
    pub(super) fn object(&self, catalog: &Catalog, number: i64) -> Option<&Object> {
        let number = u32::try_from(number).ok()?;
        self.objects(catalog).by_number.get(&number)
    }
}

impl View<'_> {
    pub(super) fn object(&self, number: i64) -> Option<&Object> {
        self.catalog.made.object(self.catalog, number)
    }
}

/// An index as PostgreSQL sees it; the primary key is one whose number is that of the table's storage.
pub(super) struct IndexView<'a> {
    pub oid: u32,
    pub name: &'a str,
    pub columns: &'a [usize],
    pub predicate: Option<&'a RowExpression>,
    pub unique: bool,
    /// Its place among the table's indexes; `None` for the primary key.
    pub place: Option<usize>,
    pub deferral: Deferral,
    pub constraint: bool,
    pub included: &'a [usize],
    /// None if all columns are ordered as usual.
    pub orders: &'a [KeyOrder],
    pub nulls_not_distinct: bool,
    is_primary: bool,
}

impl IndexView<'_> {
    /// Whether it holds something that is made of a column.
    pub(super) fn reads(&self, table: &Table, column: usize) -> bool {
        match self.place.and_then(|place| table.indexes.get(place)) {
            Some(index) => table.index_reads(index, column),
            None => self.columns.contains(&column),
        }
    }

    pub(super) fn is_primary(&self) -> bool {
        self.is_primary
    }

    /// Its columns, and those that it includes.
    pub(super) fn all_columns(&self) -> Vec<usize> {
        self.columns.iter().chain(self.included).copied().collect()
    }

    /// How the column at a place is ordered.
    pub(super) fn order(&self, place: usize) -> KeyOrder {
        self.orders.get(place).copied().unwrap_or_default()
    }
}

/// The primary key, if there is one.
pub(super) fn primary_key(table: &Table) -> Option<IndexView<'_>> {
    (!table.primary_key.is_empty()).then(|| IndexView {
        oid: table.id.0,
        name: &table.primary_key_name,
        columns: &table.primary_key,
        predicate: None,
        unique: true,
        place: None,
        deferral: Deferral::Never,
        constraint: true,
        included: &table.primary_key_included,
        orders: &[],
        nulls_not_distinct: false,
        is_primary: true,
    })
}

/// The index at a place of the table's list.
pub(super) fn index_at(table: &Table, place: usize) -> Option<IndexView<'_>> {
    table.indexes.get(place).map(|index| IndexView {
        oid: index.id.0,
        name: &index.name,
        columns: &index.columns,
        predicate: index.predicate.as_ref(),
        unique: index.is_to_be_unique(),
        place: Some(place),
        deferral: index.deferral,
        constraint: index.constraint,
        included: &index.options.included,
        orders: &index.options.orders,
        nulls_not_distinct: index.options.nulls_not_distinct,
        is_primary: index.options.is_primary,
    })
}

/// All indexes of a table.
pub(super) fn table_indexes(table: &Table) -> impl Iterator<Item = IndexView<'_>> {
    let others = (0..table.indexes.len()).filter_map(|place| index_at(table, place));
    primary_key(table).into_iter().chain(others)
}

/// The index by whose key a foreign key finds the rows that it refers to.
pub(super) fn referred_index(referred: &Table, columns: &[usize]) -> u32 {
    let is_meant = |index: &IndexView<'_>| {
        index.unique
            && index.predicate.is_none()
            && index.columns.len() == columns.len()
            && columns.iter().all(|own| index.columns.contains(own))
    };
    table_indexes(referred).find(is_meant).map_or(0, |index| index.oid)
}

/// A number for what has none of its own: far above every id that is handed out one by one.
fn derived_number(table: &Table, place: usize) -> u32 {
    derived_of(table.oid, place)
}

fn derived_of(oid: u32, place: usize) -> u32 {
    0x8000_0000 | (oid.wrapping_mul(8192).wrapping_add(place as u32) & 0x7fff_ffff)
}

pub(super) fn check_number(table: &Table, place: usize) -> u32 {
    derived_number(table, place)
}

pub(super) fn domain_check_number(domain: &Domain, place: usize) -> u32 {
    derived_of(domain.oid, place)
}

pub(super) fn foreign_key_number(table: &Table, place: usize) -> u32 {
    derived_number(table, 2048 + place)
}

pub(super) fn default_number(table: &Table, column: usize) -> u32 {
    derived_number(table, 4096 + column)
}
