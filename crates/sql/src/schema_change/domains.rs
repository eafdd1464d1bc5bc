//! Domains: columns of a domain keep what it says as checks of their own.

use super::StorageWork;
use super::apply::Change;
use crate::binder::no_type;
use crate::catalog::{Domain, RelationName, Table};
use crate::statement::{DomainChange, MovedTo};
use rubato_base::{Error, Result, SqlState};
use rubato_formula::Expr;
use std::sync::Arc;

impl Change {
    pub fn create_domain(&mut self, domain: &Domain) -> Result<()> {
        let name = domain.key();
        self.check_type_name(&name)?;
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
            DomainChange::ValidateConstraint(own) => {
                let Some(check) = domain.checks.iter_mut().find(|check| check.name == *own) else {
                    let message = format!("constraint \"{own}\" of domain \"{name}\" does not exist");
                    return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
                };
                check.is_valid = true;
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
            DomainChange::RenameConstraint { from, to } => rename_check(&mut domain, from, to)?,
            DomainChange::Move(to) => return self.move_domain(name, to),
            DomainChange::Owner => return Ok(()),
        }
        let verifies = match change {
            DomainChange::AddCheck(check) => check.is_valid,
            DomainChange::SetNotNull(not_null) => *not_null,
            DomainChange::ValidateConstraint(_) => true,
            DomainChange::SetDefault(..)
            | DomainChange::DropConstraint { .. }
            | DomainChange::RenameConstraint { .. }
            | DomainChange::Move(_)
            | DomainChange::Owner => false,
        };
        self.tell_domain(domain, verifies)
    }

    /// Puts what a domain says by now into the catalog, into the columns of it, and into the domains over it.
    fn tell_domain(&mut self, domain: Domain, verifies: bool) -> Result<()> {
        for table in self.tables_of_domain(&domain.key()) {
            self.take_over_domain(&table, &domain, verifies)?;
        }
        for name in self.domains_over(domain.oid) {
            let above = (*self.catalog.domains[&name]).clone();
            let base = Some(domain.as_base());
            self.tell_domain(Domain { base, ..above }, verifies)?;
        }
        self.put_domain(domain);
        Ok(())
    }

    /// The domains that are over this one, and over no other in between.
    pub(super) fn domains_over(&self, oid: u32) -> Vec<RelationName> {
        let domains = self.catalog.domains.values();
        let over = domains.filter(|domain| domain.is_over(oid));
        over.map(|domain| domain.key()).collect()
    }

    /// Gives a domain another name, or puts it into another schema.
    pub(super) fn move_domain(&mut self, old: &RelationName, to: &MovedTo) -> Result<()> {
        let Some(domain) = self.catalog.domains.get(old).cloned() else {
            return Err(no_type(&old.name));
        };
        let Some(new) = self.moved_type(old, to)? else {
            return Ok(());
        };
        for table in self.tables_of_domain(old) {
            let table = self.table_mut(&table)?;
            let columns: Vec<usize> = columns_of(table, old).collect();
            for column in columns {
                table.columns[column].domain = Some(new.clone());
            }
            let rules = table.checks.iter_mut().filter_map(|check| check.domain.as_mut());
            for rule in rules.filter(|rule| rule.domain == *old) {
                rule.domain = new.clone();
            }
        }
        self.catalog.domains.remove(old);
        self.put_domain(Domain {
            schema: new.schema,
            name: new.name.to_string(),
            ..(*domain).clone()
        });
        Ok(())
    }

    /// Gives a column what its domain says.
    pub(super) fn follow_domain(&mut self, table: &RelationName, column: usize, domain: &RelationName) -> Result<()> {
        let Some(domain) = self.catalog.domains.get(domain).cloned() else {
            return Err(no_type(&domain.name));
        };
        let own = self.table_mut(table)?;
        own.checks.extend(domain.checks_of(column));
        domain.give_default(&mut own.columns[column]);
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
            domain.give_default(&mut table.columns[column]);
        }
        let checks = own_count..table.checks.len();
        let verified: Vec<usize> = checks
            .filter(|place| verifies && table.checks[*place].is_valid)
            .collect();
        self.work
            .extend(verified.into_iter().map(|check| StorageWork::VerifyCheck {
                table: name.clone(),
                check,
            }));
        Ok(())
    }
}

/// 42704 for a check that there is not, 42710 if there is one of the new name.
fn rename_check(domain: &mut Domain, from: &str, to: &str) -> Result<()> {
    let wrong = |name: &str, code: SqlState, what: &str| {
        let message = format!("constraint \"{name}\" for domain {} {what}", domain.key());
        Error::new(code, message)
    };
    let Some(place) = domain.checks.iter().position(|check| check.name == from) else {
        return Err(wrong(from, SqlState::UNDEFINED_OBJECT, "does not exist"));
    };
    if domain.checks.iter().any(|check| check.name == to) {
        return Err(wrong(to, SqlState::DUPLICATE_OBJECT, "already exists"));
    }
    to.clone_into(&mut domain.checks[place].name);
    domain.sort_checks();
    Ok(())
}

pub(super) fn columns_of<'a>(table: &'a Table, domain: &'a RelationName) -> impl Iterator<Item = usize> + 'a {
    let columns = table.columns.iter().enumerate();
    let own = columns.filter(move |(_, column)| column.domain.as_ref() == Some(domain) && !column.dropped);
    own.map(|(number, _)| number)
}
