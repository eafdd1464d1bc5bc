//! CREATE, DROP and TRUNCATE.

use super::sequences::number_new_sequence;
use super::still_needed;
use super::{Applied, Decide, StorageWork};
use crate::binder::{ResolvedPath, say_number};
use crate::catalog::{Catalog, RelationName, Sequence, Table};
use crate::statement::SchemaChange;
use rubato_base::{Error, Result, SqlState, TableId};
use rubato_protocol::Outcome;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The first id of a user's table, index or sequence: below are PostgreSQL's own numbers of types and catalogs.
pub(crate) const FIRST_ID: u32 = 16_384;

/// A change in the making.
#[derive(Clone)]
pub(super) struct Change {
    /// Where the session looks for names without a schema.
    pub(super) path: ResolvedPath,
    pub catalog: Catalog,
    pub work: Vec<StorageWork>,
    pub notices: Vec<Error>,
    /// Tables whose definition changed.
    pub touched: BTreeSet<RelationName>,
    /// Whether comments, domains or schemas changed.
    pub changed: bool,
    /// Columns that have another type, and whether their values have changed.
    pub retyped: Vec<(usize, bool)>,
    /// Sequences that this change has made, with their numbers.
    pub new_sequences: Vec<(String, u32)>,
    /// What goes because of CASCADE.
    pub cascaded: Vec<String>,
    /// The definitions of a block so far.
    pub carried: Vec<Arc<SchemaChange>>,
    /// Ids from here on are given by this change.
    pub first_id: u32,
}

impl Change {
    pub fn new(catalog: &Catalog, path: &ResolvedPath) -> Change {
        Change {
            path: path.clone(),
            catalog: catalog.clone(),
            work: Vec::new(),
            notices: Vec::new(),
            touched: BTreeSet::new(),
            retyped: Vec::new(),
            changed: false,
            new_sequences: Vec::new(),
            cascaded: Vec::new(),
            carried: Vec::new(),
            first_id: catalog.next_id,
        }
    }

    pub fn run(mut self, change: &SchemaChange) -> Result<Applied> {
        let tag = self.carry_out(change)?;
        self.finish(tag)
    }

    /// As [`Change::run`], where the conditions of a block may be asked.
    pub fn run_deciding(mut self, change: &SchemaChange, decide: Decide<'_>) -> Outcome<Applied> {
        let SchemaChange::Do(definitions) = change else {
            return Ok(self.run(change)?);
        };
        self.run_block(&definitions.block, &definitions.settings, decide)?;
        Ok(self.finish("DO")?)
    }

    /// Does what a statement says, and gives its tag.
    pub(super) fn carry_out(&mut self, change: &SchemaChange) -> Result<&'static str> {
        Ok(match change {
            SchemaChange::CreateSchema {
                name,
                if_not_exists,
                elements,
                text,
            } => {
                self.create_schema(name, *if_not_exists)?;
                self.create_elements(name, elements, text)?;
                "CREATE SCHEMA"
            }
            SchemaChange::Do(_) => return Err(Error::internal("a block is carried out by itself")),
            SchemaChange::Extension(change) => self.change_extension(change)?,
            SchemaChange::DropAbsent { absent, tag } => {
                for what in absent {
                    let message = format!("{what} does not exist, skipping");
                    self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
                }
                tag
            }
            SchemaChange::DropSchema {
                names,
                if_exists,
                cascade,
            } => {
                self.drop_schemas(names, *if_exists, *cascade)?;
                "DROP SCHEMA"
            }
            SchemaChange::RenameSchema { name, new_name } => {
                self.rename_schema(name, new_name)?;
                "ALTER SCHEMA"
            }
            SchemaChange::MoveRelation {
                relation,
                kind,
                if_exists,
                to,
            } => {
                self.move_relation(relation, *kind, *if_exists, to)?;
                kind.alter_tag()
            }
            SchemaChange::Refresh { name, with_data } => {
                self.refresh(name, *with_data)?;
                "REFRESH MATERIALIZED VIEW"
            }
            SchemaChange::EmptyTemporary { names } => {
                names.iter().try_for_each(|name| self.empty_table(name))?;
                "TRUNCATE TABLE"
            }
            SchemaChange::DropTemporary { schema } => {
                self.drop_temporary(*schema);
                "DISCARD TEMP"
            }
            SchemaChange::CreateTable {
                table,
                sequences,
                comments,
                if_not_exists,
            } => {
                self.create_table(table, (sequences, comments), *if_not_exists)?;
                "CREATE TABLE"
            }
            SchemaChange::DropTable {
                names,
                if_exists,
                cascade,
            } => {
                self.drop_tables(names, *if_exists, *cascade)?;
                "DROP TABLE"
            }
            SchemaChange::CreateView {
                view,
                or_replace,
                becomes_temporary,
            } => {
                if *becomes_temporary {
                    let message = format!("view \"{}\" will be a temporary view", view.name);
                    self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
                }
                self.create_view(view, *or_replace)?;
                "CREATE VIEW"
            }
            SchemaChange::DropView {
                names,
                if_exists,
                cascade,
                materialised: false,
            } => {
                self.drop_views(names, *if_exists, *cascade)?;
                "DROP VIEW"
            }
            SchemaChange::CreateDomain { domain } => {
                self.create_domain(domain)?;
                "CREATE DOMAIN"
            }
            SchemaChange::AlterDomain { name, change } => {
                self.alter_domain(name, change)?;
                "ALTER DOMAIN"
            }
            SchemaChange::CreateEnum { name, labels } => {
                self.create_enum(name, labels)?;
                "CREATE TYPE"
            }
            SchemaChange::AlterEnum { name, change } => {
                self.alter_enum(name, change)?;
                "ALTER TYPE"
            }
            SchemaChange::DropTypes {
                names,
                if_exists,
                cascade,
                tag,
            } => {
                self.drop_types(names, *if_exists, *cascade, tag)?;
                tag
            }
            SchemaChange::DropView {
                names,
                if_exists,
                cascade,
                materialised: true,
            } => {
                self.drop_materialised(names, *if_exists, *cascade)?;
                "DROP MATERIALIZED VIEW"
            }
            SchemaChange::CommentOnSchema { schema, comment } => {
                self.set_comment((schema.0, 0), comment.as_deref());
                "COMMENT"
            }
            SchemaChange::Remark { table, object, comment } => {
                self.remark(table, object, comment.as_deref())?;
                "COMMENT"
            }
            SchemaChange::SetViewOptions { view, options } => {
                self.set_view_options(view, *options);
                "ALTER VIEW"
            }
            SchemaChange::RenameViewColumn {
                view,
                column,
                name,
                kind,
            } => {
                self.rename_view_column(view, *column, name)?;
                kind.alter_tag()
            }
            SchemaChange::Comment {
                relation,
                column,
                comment,
            } => {
                self.comment(relation, *column, comment.as_deref())?;
                "COMMENT"
            }
            SchemaChange::CreateIndex {
                table,
                index,
                expressions,
                if_not_exists,
            } => {
                self.create_index(table, index, expressions, *if_not_exists)?;
                "CREATE INDEX"
            }
            SchemaChange::DropIndex {
                names,
                if_exists,
                cascade,
            } => {
                self.drop_indexes(names, *if_exists, *cascade)?;
                "DROP INDEX"
            }
            SchemaChange::Truncate {
                names,
                restart_identity,
                cascade,
            } => {
                self.truncate(names, *restart_identity, *cascade)?;
                "TRUNCATE TABLE"
            }
            SchemaChange::AlterTable {
                table,
                if_exists,
                actions,
                kind,
            } => {
                self.alter_table(table, *if_exists, actions)?;
                kind.alter_tag()
            }
            SchemaChange::CreateSequence {
                sequence,
                if_not_exists,
            } => {
                self.create_sequence(sequence, *if_not_exists)?;
                "CREATE SEQUENCE"
            }
            SchemaChange::AlterSequence {
                name,
                if_exists,
                sequence,
                restart,
            } => {
                match sequence {
                    Some(sequence) => self.alter_sequence(sequence, *restart),
                    None if *if_exists => self.notice(
                        SqlState::SUCCESSFUL_COMPLETION,
                        format!("relation \"{name}\" does not exist, skipping"),
                    ),
                    None => return Err(no_table(name)),
                }
                "ALTER SEQUENCE"
            }
            SchemaChange::DropSequence {
                names,
                if_exists,
                cascade,
            } => {
                self.drop_sequences(names, *if_exists, *cascade)?;
                "DROP SEQUENCE"
            }
        })
    }

    fn finish(mut self, tag: &'static str) -> Result<Applied> {
        self.verify_converted_rows();
        self.set_missing_first();
        // Where rows that move are just now is in no catalog.
        let changes = |work: &StorageWork| !matches!(work, StorageWork::Move { .. });
        let changed = self.work.iter().any(changes) || !self.touched.is_empty() || self.changed;
        self.tell_cascaded();
        self.catalog.drop_comments();
        for name in std::mem::take(&mut self.touched) {
            if let Some(table) = self.catalog.tables.get_mut(&name) {
                Arc::make_mut(table).version += 1;
            }
        }
        self.catalog.version += u64::from(changed);
        Ok(Applied {
            catalog: self.catalog,
            work: self.work,
            notices: self.notices,
            tag,
            carried: self.carried,
        })
    }

    /// Notes what goes because of CASCADE.
    pub fn cascades_to(&mut self, what: String) {
        self.cascaded.push(format!("drop cascades to {what}"));
    }

    fn tell_cascaded(&mut self) {
        let lines = std::mem::take(&mut self.cascaded);
        let notice = match &lines[..] {
            [] => return,
            [line] => Error::new(SqlState::SUCCESSFUL_COMPLETION, line.as_str()),
            lines => {
                let message = format!("drop cascades to {} other objects", lines.len());
                Error::new(SqlState::SUCCESSFUL_COMPLETION, message).with_detail(lines.join("\n"))
            }
        };
        self.notices.push(notice);
    }

    /// A relation as it is called among others: with its schema, unless it is found without.
    pub fn described(&self, name: &RelationName) -> String {
        self.path.written(name, &self.catalog)
    }

    /// A domain or enum as messages have it.
    pub fn described_type(&self, name: &RelationName) -> String {
        self.path.written_type(name, &self.catalog)
    }

    fn comment(&mut self, relation: &RelationName, column: u32, comment: Option<&str>) -> Result<()> {
        let catalog = &self.catalog;
        let table = catalog.tables.get(relation).map(|table| table.oid);
        let view = || catalog.views.get(relation).map(|view| view.oid);
        let sequence = || catalog.sequences.get(relation).map(|sequence| sequence.id);
        let domain = || catalog.domains.get(relation).map(|domain| domain.oid);
        let own_enum = || catalog.enums.get(relation).map(|own| own.oid);
        let number = table.or_else(view).or_else(sequence).or_else(domain).or_else(own_enum);
        let Some(number) = number else {
            return Err(no_table(relation));
        };
        self.set_comment((number, column), comment);
        Ok(())
    }

    fn set_comment(&mut self, place: (u32, u32), comment: Option<&str>) {
        match comment.filter(|comment| !comment.is_empty()) {
            Some(comment) => drop(self.catalog.comments.insert(place, comment.to_owned())),
            None => drop(self.catalog.comments.remove(&place)),
        }
        self.changed = true;
    }

    pub fn next_id(&mut self) -> u32 {
        let id = self.catalog.next_id.max(FIRST_ID);
        self.catalog.next_id = id + 1;
        id
    }

    pub fn new_storage(&mut self) -> TableId {
        let storage = TableId(self.next_id());
        self.work.push(StorageWork::Create { storage });
        storage
    }

    pub fn notice(&mut self, code: SqlState, message: String) {
        self.notices.push(Error::new(code, message));
    }

    /// The table of this name, for change. 42P01.
    pub fn table_mut(&mut self, name: &RelationName) -> Result<&mut Table> {
        self.touched.insert(name.clone());
        match self.catalog.tables.get_mut(name) {
            Some(table) => Ok(Arc::make_mut(table)),
            None => Err(no_table(name)),
        }
    }

    /// 42P07: tables, indexes, views, sequences and domains of a schema share one space of names.
    pub fn check_name(&self, name: &RelationName) -> Result<()> {
        if self.catalog.has_type(name) {
            let message = format!("type \"{name}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        if self.catalog.has_relation(name) {
            return Err(Error::new(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{name}\" already exists"),
            ));
        }
        Ok(())
    }

    pub fn skip_existing(&mut self, name: &RelationName) {
        self.notice(
            SqlState::DUPLICATE_TABLE,
            format!("relation \"{name}\" already exists, skipping"),
        );
    }

    fn create_table(
        &mut self,
        table: &Table,
        (sequences, comments): (&[Sequence], &[(u32, String)]),
        if_not_exists: bool,
    ) -> Result<()> {
        let name = table.key();
        if if_not_exists && self.catalog.has_relation(&name) {
            self.skip_existing(&name);
            return Ok(());
        }
        self.check_name(&name)?;
        let mut table = table.clone();
        table.oid = self.next_id();
        table.id = self.new_storage();
        table.version = 1;
        say_number(&mut table);
        let mut own_names = BTreeSet::from([table.name.clone()]);
        let table_name = &name;
        let mut claim = |change: &Change, name: &str| {
            if !own_names.insert(name.to_owned()) {
                return Err(Error::new(
                    SqlState::DUPLICATE_TABLE,
                    format!("relation \"{name}\" already exists"),
                ));
            }
            change.check_name(&table_name.sibling(name))
        };
        if !table.primary_key.is_empty() {
            claim(self, &table.primary_key_name)?;
        }
        for index in &mut table.indexes {
            claim(self, &index.name)?;
            index.id = self.new_storage();
        }
        for sequence in sequences {
            claim(self, &sequence.name)?;
            let number = self.add_sequence(sequence);
            number_new_sequence(&mut table.columns, &sequence.name, number);
        }
        for (column, comment) in comments {
            self.set_comment((table.oid, *column), Some(comment));
        }
        let keys = std::mem::take(&mut table.foreign_keys);
        self.catalog.table_names.insert(table.id, name.clone());
        self.catalog.tables.insert(name.clone(), Arc::new(table));
        for key in keys {
            self.add_foreign_key(&name, key)?;
        }
        // A new table starts with version 1, whatever was added to it.
        self.touched.remove(&name);
        Ok(())
    }

    fn drop_tables(&mut self, names: &[RelationName], if_exists: bool, cascade: bool) -> Result<()> {
        let mut found = Vec::new();
        for name in names {
            if let Some(table) = self.catalog.tables.get(name) {
                if table.materialised.is_some() {
                    let message = format!("\"{name}\" is not a table");
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message)
                        .with_hint("Use DROP MATERIALIZED VIEW to remove a materialized view."));
                }
                found.push(name.clone());
            } else if self.catalog.views.contains_key(name) {
                let message = format!("\"{name}\" is not a table");
                return Err(
                    Error::new(SqlState::WRONG_OBJECT_TYPE, message).with_hint("Use DROP VIEW to remove a view.")
                );
            } else if if_exists {
                self.notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!("table \"{name}\" does not exist, skipping"),
                );
            } else {
                return Err(Error::new(
                    SqlState::UNDEFINED_TABLE,
                    format!("table \"{name}\" does not exist"),
                ));
            }
        }
        self.release_tables(&found, cascade)?;
        for name in &found {
            self.drop_table(name);
        }
        Ok(())
    }

    /// What depends on tables, or materialised views, that go at once.
    pub fn release_tables(&mut self, names: &[RelationName], cascade: bool) -> Result<()> {
        if !cascade {
            self.refuse_several(names)?;
        }
        for name in names {
            self.release_sequences(&self.kind_and_name(name), (name, None), names, cascade)?;
            self.detach_referring(name, names, cascade)?;
            self.release_relation(&self.kind_and_name(name), name, None, names, cascade)?;
        }
        Ok(())
    }

    /// 2BP01 if others depend on what is dropped, where that is more than one thing.
    pub fn refuse_several(&self, names: &[RelationName]) -> Result<()> {
        let mut lines = Vec::new();
        for name in names {
            lines.extend(self.default_lines((name, None), names));
            lines.extend(self.referring_lines(name, names));
            self.add_dependent_lines(&self.kind_and_name(name), (name, None), names, &mut lines);
        }
        if names.len() < 2 || lines.is_empty() {
            return Ok(());
        }
        let message = "cannot drop desired object(s) because other objects depend on them";
        Err(still_needed(message, &lines))
    }

    /// Foreign keys of other tables that refer to `name` go with CASCADE, and refuse the drop without.
    pub fn detach_referring(&mut self, name: &RelationName, dropped: &[RelationName], cascade: bool) -> Result<()> {
        let Some(table) = self.catalog.tables.get(name) else {
            return Ok(());
        };
        let referring: Vec<(RelationName, String)> = table
            .referenced_by
            .iter()
            .filter(|(other, _)| !dropped.contains(other))
            .cloned()
            .collect();
        if !referring.is_empty() && !cascade {
            let what = self.kind_and_name(name);
            let mut lines = self.referring_lines(name, dropped);
            self.add_dependent_lines(&what, (name, None), dropped, &mut lines);
            let message = format!("cannot drop {what} because other objects depend on it");
            return Err(still_needed(message, &lines));
        }
        for (other, key) in referring {
            self.cascades_to(format!("constraint {key} on table {}", self.described(&other)));
            self.table_mut(&other)?.foreign_keys.retain(|own| own.name != key);
        }
        Ok(())
    }

    /// What is told of the foreign keys of other tables that refer to a table.
    pub fn referring_lines(&self, name: &RelationName, dropped: &[RelationName]) -> Vec<String> {
        let referring = self
            .catalog
            .tables
            .get(name)
            .map_or(&[][..], |table| &table.referenced_by);
        let others = referring.iter().filter(|(other, _)| !dropped.contains(other));
        let own = self.described(name);
        let line = |(other, key): &(RelationName, String)| {
            format!(
                "constraint {key} on table {} depends on table {own}",
                self.described(other)
            )
        };
        others.map(line).collect()
    }

    pub fn drop_table(&mut self, name: &RelationName) {
        let Some(table) = self.catalog.tables.remove(name) else {
            return;
        };
        self.catalog.table_names.remove(&table.id);
        self.work.push(StorageWork::Drop { storage: table.id });
        self.work.extend(
            table
                .indexes
                .iter()
                .map(|index| StorageWork::Drop { storage: index.id }),
        );
        for key in &table.foreign_keys {
            if let Ok(referred) = self.table_mut(&key.referenced_table) {
                referred.referenced_by.retain(|(other, _)| other != name);
            }
        }
        let owned = self.owned_sequences(name, None);
        owned.iter().for_each(|sequence| self.remove_sequence(sequence));
    }

    /// The sequences that belong to a table, or to one column of it.
    pub fn owned_sequences(&self, table: &RelationName, column: Option<usize>) -> Vec<RelationName> {
        let is_owned = |sequence: &&Arc<Sequence>| {
            sequence
                .owned_by
                .as_ref()
                .is_some_and(|(owner, own)| owner == table && column.is_none_or(|column| column == *own))
        };
        self.catalog
            .sequences
            .values()
            .filter(is_owned)
            .map(|sequence| sequence.key())
            .collect()
    }
}

pub(super) fn no_table(name: &RelationName) -> Error {
    Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}
