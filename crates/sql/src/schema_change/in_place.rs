//! Which tables a schema change is about.

use crate::catalog::{Catalog, RelationName, SchemaId};
use crate::statement::SchemaChange;

/// The tables whose own definition or storage a schema change is about, and what it is called.
pub(crate) fn changed_in_place<'a>(
    change: &'a SchemaChange,
    catalog: &'a Catalog,
) -> (&'static str, Vec<&'a RelationName>) {
    let all = |names: &'a [RelationName]| names.iter().collect();
    match change {
        SchemaChange::DropTable { names, .. } => ("DROP TABLE", all(names)),
        SchemaChange::Truncate { names, cascade, .. } => {
            let mut tables: Vec<&RelationName> = all(names);
            let mut next = 0;
            while let Some(table) = tables
                .get(next)
                .and_then(|name| catalog.tables.get(*name))
                .filter(|_| *cascade)
            {
                next += 1;
                for (child, _) in &table.referenced_by {
                    if !tables.contains(&child) {
                        tables.push(child);
                    }
                }
            }
            ("TRUNCATE", tables)
        }
        SchemaChange::EmptyTemporary { names } => ("TRUNCATE", all(names)),
        SchemaChange::Refresh { name, .. } => ("REFRESH MATERIALIZED VIEW", vec![name]),
        SchemaChange::MoveRelation { relation, kind, .. } => (kind.alter_tag(), vec![relation]),
        SchemaChange::DropSchema { names, .. } => {
            let schemas: Vec<SchemaId> = names.iter().filter_map(|name| catalog.schema_id(name)).collect();
            let inside = catalog.tables.keys().filter(|table| schemas.contains(&table.schema));
            ("DROP SCHEMA", inside.collect())
        }
        SchemaChange::DropTemporary { schema } => {
            let inside = catalog.tables.keys().filter(|table| table.schema == *schema);
            ("DISCARD TEMP", inside.collect())
        }
        SchemaChange::AlterTable { table, .. } => ("ALTER TABLE", vec![table]),
        SchemaChange::CreateIndex { table, .. } => ("CREATE INDEX", vec![table]),
        // The definitions within a block are asked one by one. The storage of an index goes when the transaction has ended, and its portals with it.
        SchemaChange::DropIndex { .. }
        | SchemaChange::CreateTable { .. }
        | SchemaChange::CreateDomain { .. }
        | SchemaChange::AlterDomain { .. }
        | SchemaChange::CreateEnum { .. }
        | SchemaChange::AlterEnum { .. }
        | SchemaChange::Do(_)
        | SchemaChange::DropTypes { .. }
        | SchemaChange::CreateSchema { .. }
        | SchemaChange::Extension(_)
        | SchemaChange::DropAbsent { .. }
        | SchemaChange::RenameSchema { .. }
        | SchemaChange::CommentOnSchema { .. }
        | SchemaChange::CreateView { .. }
        | SchemaChange::Comment { .. }
        | SchemaChange::Remark { .. }
        | SchemaChange::SetViewOptions { .. }
        | SchemaChange::RenameViewColumn { .. }
        | SchemaChange::DropView { .. }
        | SchemaChange::CreateSequence { .. }
        | SchemaChange::AlterSequence { .. }
        | SchemaChange::DropSequence { .. } => ("", Vec::new()),
    }
}
