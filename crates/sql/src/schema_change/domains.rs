//! Domains: columns of a domain keep what it says as checks of their own.

use super::StorageWork;
use super::apply::Change;
use crate::binder::no_type;
use crate::catalog::{Domain, RelationName, Table};
use crate::statement::DomainChange;
use rubato_base::{Error, Result, SqlState};
use rubato_formula::Expr;
use std::sync::Arc;

impl Change {
    pub fn create_domain(&mut self, domain: &Domain) -> Result<()> {
        let name = domain.key();
        if self.catalog.relation_version(&name).is_some() {
            let message = format!("type \"{name}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let oid = self.next_id();
        self.put_domain(Domain { oid, ..domain.clone() });
        Ok(())
    }

    /// Puts a version of a domain that no plan knows yet into the catalog.
    fn put_domain(&mut self, domain: Domain) {
        let version = u64::from(self.next_id());
        let domain = Domain { version, ..domain };
        self.catalog.domains.insert(domain.key(), Arc::new(domain));
        self.changed = true;
    }

    pub fn alter_domain(&mut self, name: &RelationName, change: &DomainChange) -> Result<()> {
        let Some(known) = self.catalog.domains.get(name) else {
            return Err(no_type(&name.name));
        };
        let mut domain = (**known).clone();
        match change {
            DomainChange::SetDefault(default, text) => {
                domain.default.clone_from(default);
                domain.default_text.clone_from(text);
            }
            DomainChange::SetNotNull(not_null) => domain.not_null = *not_null,
            DomainChange::AddCheck(check) => {
                domain.checks.push(check.clone());
                domain.sort_checks();
            }
            DomainChange::DropConstraint { name: own, if_exists } => {
                let count = domain.checks.len();
                domain.checks.retain(|check| check.name != *own);
                if domain.checks.len() == count {
                    let message = format!("constraint \"{own}\" of domain \"{name}\" does not exist");
                    if *if_exists {
                        self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"));
                        return Ok(());
                    }
                    return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
                }
            }
        }
        let verifies = matches!(change, DomainChange::AddCheck(_) | DomainChange::SetNotNull(true));
        for table in self.tables_of_domain(name) {
            self.take_over_domain(&table, &domain, verifies)?;
        }
        self.put_domain(domain);
        Ok(())
    }

    /// What a column of a domain defaults to that says nothing itself.
    pub fn domain_default(&self, table: &RelationName, column: usize) -> Option<Expr> {
        let column = self.catalog.tables.get(table)?.columns.get(column)?;
        self.catalog.domains.get(column.domain.as_ref()?)?.default.clone()
    }

    fn tables_of_domain(&self, name: &RelationName) -> Vec<RelationName> {
        let has_it = |table: &&Arc<Table>| columns_of(table, name).next().is_some();
        let tables = self.catalog.tables.values().filter(has_it);
        tables.map(|table| table.key()).collect()
    }

    /// Gives a table's columns what their domain says by now.
    fn take_over_domain(&mut self, name: &RelationName, domain: &Domain, verifies: bool) -> Result<()> {
        let key = domain.key();
        let table = self.table_mut(name)?;
        let columns: Vec<usize> = columns_of(table, &key).collect();
        table
            .checks
            .retain(|check| check.domain.as_ref().is_none_or(|rule| rule.domain != key));
        let own_count = table.checks.len();
        for column in columns {
            table.checks.extend(domain.checks_of(column));
            if table.columns[column].default_text.is_none() && table.columns[column].generated.is_none() {
                table.columns[column].default.clone_from(&domain.default);
            }
        }
        let checks = own_count..table.checks.len();
        let table = name.clone();
        self.work
            .extend(checks.filter(|_| verifies).map(|check| StorageWork::VerifyCheck {
                table: table.clone(),
                check,
            }));
        Ok(())
    }

    pub fn drop_domains(&mut self, names: &[RelationName], if_exists: bool, cascade: bool) -> Result<()> {
        for name in names {
            if !self.catalog.domains.contains_key(name) {
                if !if_exists {
                    return Err(no_type(&name.name));
                }
                let message = format!("type \"{name}\" does not exist, skipping");
                self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
                continue;
            }
            self.drop_domain(name, cascade)?;
        }
        Ok(())
    }

    /// Columns of the domain go too with CASCADE, and refuse it without.
    pub(super) fn drop_domain(&mut self, domain: &RelationName, cascade: bool) -> Result<()> {
        let lines = self.lines_of_domain(domain, &[]);
        if !lines.is_empty() && !cascade {
            let written = self.described_domain(domain);
            let message = format!("cannot drop type {written} because other objects depend on it");
            return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .with_detail(lines.join("\n"))
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for (table, column) in self.columns_of_domain(domain) {
            self.cascades_to(format!("column {column} of table {}", self.described(&table)));
            self.drop_column(&table, &column, false, true)?;
        }
        self.catalog.domains.remove(domain);
        self.changed = true;
        Ok(())
    }

    fn columns_of_domain(&self, domain: &RelationName) -> Vec<(RelationName, String)> {
        let tables = self.catalog.tables.values();
        let named = tables.flat_map(|table| {
            let columns = columns_of(table, domain);
            columns.map(|column| (table.key(), table.columns[column].name.clone()))
        });
        named.collect()
    }

    /// What depends on a domain, but for what belongs to the tables in `besides`.
    pub(super) fn lines_of_domain(&self, domain: &RelationName, besides: &[RelationName]) -> Vec<String> {
        let written = self.described_domain(domain);
        let mut columns = self.columns_of_domain(domain);
        columns.retain(|(table, _)| !besides.contains(table));
        let lines = columns.iter().map(|(table, column)| {
            let table = self.described(table);
            format!("column {column} of table {table} depends on type {written}")
        });
        lines.collect()
    }
}

fn columns_of<'a>(table: &'a Table, domain: &'a RelationName) -> impl Iterator<Item = usize> + 'a {
    let columns = table.columns.iter().enumerate();
    let own = columns.filter(move |(_, column)| column.domain.as_ref() == Some(domain) && !column.dropped);
    own.map(|(number, _)| number)
}
