//! A database made of another: the same catalog, with storage and sequences of its own.
//!
//! Tables, views, domains and schemas keep their numbers, as in PostgreSQL: those mean something within their database.

use crate::catalog::{Catalog, Column};
use crate::schema_change::{Becomes, StorageWork, without_temporary};
use rubato_base::{TableId, Value};
use rubato_formula::Expr;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a copy comes to.
pub(crate) struct Copied {
    /// The catalog of the new database.
    pub catalog: Catalog,
    /// How its rows are made of those of the other one.
    pub works: Vec<StorageWork>,
    /// The values of its sequences, there and here.
    pub values: Vec<(u32, u32)>,
}

/// Copies what is committed in a database; temporary relations are their sessions'.
pub(crate) fn copied(template: &Catalog, mut take_id: impl FnMut() -> u32) -> Copied {
    let mut catalog = without_temporary(template);
    let (mut sequences, mut values) = (BTreeMap::new(), Vec::new());
    for sequence in catalog.sequences.values_mut() {
        let sequence = Arc::make_mut(sequence);
        let from = std::mem::replace(&mut sequence.id, take_id());
        sequences.insert(from, sequence.id);
        values.push((std::mem::replace(&mut sequence.values, sequence.id), sequence.id));
    }
    let mut works = Vec::new();
    catalog.table_names.clear();
    for (name, table) in &mut catalog.tables {
        let table = Arc::make_mut(table);
        if let Some(spread) = &mut table.spread {
            // Rows that are on their way are laid where they come to be.
            spread.former.clear();
        }
        let from = std::mem::replace(&mut table.id, TableId(take_id()));
        catalog.table_names.insert(table.id, name.clone());
        works.push(StorageWork::Create { storage: table.id });
        works.push(StorageWork::Rewrite {
            table: name.clone(),
            from,
            old_key: table.primary_key.clone(),
            becomes: Becomes::Same,
        });
        for (place, index) in table.indexes.iter_mut().enumerate() {
            index.id = TableId(take_id());
            works.push(StorageWork::Create { storage: index.id });
            works.push(StorageWork::FillIndex {
                table: name.clone(),
                index: place,
            });
        }
        let defaults = table
            .columns
            .iter_mut()
            .filter_map(|column: &mut Column| column.default.as_mut());
        defaults.for_each(|default| renumber(default, &sequences));
    }
    for domain in catalog.domains.values_mut() {
        if domain.default.is_some() {
            let default = Arc::make_mut(domain).default.as_mut();
            default.into_iter().for_each(|default| renumber(default, &sequences));
        }
    }
    let comments = std::mem::take(&mut catalog.comments).into_iter();
    let place = |(number, column): (u32, u32)| (sequences.get(&number).copied().unwrap_or(number), column);
    catalog.comments = comments.map(|(own, comment)| (place(own), comment)).collect();
    let version = take_id();
    catalog.version = u64::from(version);
    catalog.next_id = version + 1;
    Copied { catalog, works, values }
}

/// Defaults know sequences by number.
fn renumber(default: &mut Expr, sequences: &BTreeMap<u32, u32>) {
    default.transform(&mut |expr| {
        if let Expr::Call { function, arguments } = expr
            && matches!(function.name(), "nextval" | "currval" | "setval")
            && let Some(Expr::Literal(Value::Text(text))) = arguments.first()
            && let Some(own) = text
                .as_str()
                .parse()
                .ok()
                .and_then(|number: u32| sequences.get(&number))
        {
            arguments[0] = Expr::Literal(Value::text(&own.to_string()));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binder::tests_support::catalog_of;
    use crate::databases::storage_of;

    #[test]
    fn a_copy_shares_no_storage_and_no_sequence() {
        let template = catalog_of(&[
            "create table t (id serial primary key, name text unique, x int)",
            "create index on t (x)",
            "create sequence s",
            "create domain d as int default nextval('s')",
            "comment on sequence s is 'numbers'",
        ]);
        let mut last = template.next_id + 100;
        let copy = copied(&template, || {
            last += 1;
            last
        });
        let (before, after) = (storage_of(&template), storage_of(&copy.catalog));
        assert_eq!((before.len(), after.len(), copy.works.len()), (3, 3, 6));
        assert!(after.iter().all(|storage| !before.contains(storage)));
        assert_eq!(copy.values.len(), 2);
        let shown = format!("{:?}", (&copy.catalog.tables, &copy.catalog.domains));
        for (from, to) in &copy.values {
            assert!(shown.contains(&format!("\"{to}\"")) && !shown.contains(&format!("\"{from}\"")));
        }
        let named: Vec<u32> = copy.catalog.comments.keys().map(|(number, _)| *number).collect();
        assert!(named.len() == 1 && copy.values.iter().any(|(_, own)| *own == named[0]));
        assert_eq!(
            (copy.catalog.next_id, copy.catalog.version),
            (last + 1, u64::from(last))
        );
        assert!(copy.catalog.table_names.keys().all(|storage| after.contains(storage)));
    }
}
