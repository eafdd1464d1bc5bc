//! What goes with a type of the users, and what keeps it: columns, domains, defaults, constraints and views.

use super::apply::Change;
use super::domains::columns_of;
use super::still_needed;
use crate::binder::{no_domain, no_type};
use crate::catalog::{RelationName, Table};
use rubato_base::{DataType, Error, Result, SqlState};
use rubato_formula::Expr;

/// Something of a table that there would not be without a type.
struct Dependent {
    table: RelationName,
    part: Part,
    /// The type or, for arrays of it, `mood[]`.
    on: String,
}

enum Part {
    Column(String),
    /// The default of a column of another type.
    Default(usize, String),
    Check(String),
    Index(String),
}

impl Change {
    /// 42710: types and relations of a schema share one space of names.
    pub(super) fn check_type_name(&self, name: &RelationName) -> Result<()> {
        if !self.catalog.name_is_taken(name) {
            return Ok(());
        }
        let message = format!("type \"{name}\" already exists");
        Err(Error::new(SqlState::DUPLICATE_OBJECT, message))
    }

    pub(super) fn drop_types(
        &mut self,
        names: &[RelationName],
        if_exists: bool,
        cascade: bool,
        tag: &str,
    ) -> Result<()> {
        let mut going = Vec::new();
        for name in names {
            if self.catalog.enums.contains_key(name) && tag == "DROP DOMAIN" {
                return Err(no_domain(&name.name));
            }
            if self.catalog.has_type(name) {
                going.push(name.clone());
                continue;
            }
            if !if_exists {
                return Err(no_type(&name.name));
            }
            let message = format!("type \"{name}\" does not exist, skipping");
            self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
        }
        if !cascade {
            self.refuse_used_types(&going)?;
        }
        for name in &going {
            // It may have gone with another one of these.
            if self.catalog.has_type(name) {
                self.drop_type(name, &going)?;
            }
        }
        Ok(())
    }

    /// 2BP01 if others depend on types that are dropped.
    fn refuse_used_types(&self, names: &[RelationName]) -> Result<()> {
        let mut lines = Vec::new();
        for name in names.iter().rev() {
            lines.extend(self.lines_of_type(name, names));
            let written = format!("type {}", self.described_type(name));
            self.add_dependent_lines(&written, (name, None), &[], &mut lines);
        }
        if lines.is_empty() {
            return Ok(());
        }
        let message = match names {
            [name] => {
                let written = self.described_type(name);
                format!("cannot drop type {written} because other objects depend on it")
            }
            _ => "cannot drop desired object(s) because other objects depend on them".to_owned(),
        };
        Err(still_needed(message, &lines))
    }

    /// Drops a type and what depends on it, and tells of that, but for the types `besides`, which go anyway.
    pub(super) fn drop_type(&mut self, name: &RelationName, besides: &[RelationName]) -> Result<()> {
        let written = format!("type {}", self.described_type(name));
        for dependent in self.dependents_of_type(name) {
            // It may have gone with another one.
            if self.catalog.tables.contains_key(&dependent.table) {
                self.drop_dependent(&dependent)?;
            }
        }
        for domain in self.domains_of(name) {
            if !besides.contains(&domain) {
                self.cascades_to(format!("type {}", self.described_type(&domain)));
            }
            self.drop_type(&domain, besides)?;
        }
        self.release_relation(&written, name, None, &[], true)?;
        self.catalog.domains.remove(name);
        self.catalog.enums.remove(name);
        self.catalog.collect_enum_labels();
        self.changed = true;
        Ok(())
    }

    fn drop_dependent(&mut self, Dependent { table, part, .. }: &Dependent) -> Result<()> {
        let own = self.kind_and_name(table);
        match part {
            // A generated column may have gone with one that it was made of.
            Part::Column(column) if !self.has_column(table, column) => Ok(()),
            Part::Column(column) => {
                self.cascades_to(format!("column {column} of {own}"));
                self.release_key(table, column)?;
                self.drop_column(table, column, false, true)
            }
            Part::Default(place, column) => {
                self.cascades_to(format!("default value for column {column} of {own}"));
                let column = self.column_mut(table, *place)?;
                (column.default, column.default_text) = (None, None);
                Ok(())
            }
            Part::Check(name) => {
                self.cascades_to(format!("constraint {name} on {own}"));
                self.table_mut(table)?.checks.retain(|check| check.name != *name);
                Ok(())
            }
            Part::Index(name) => Err(Error::unsupported(format!(
                "dropping a type that the expressions of index {name} use"
            ))
            .with_hint("Drop the index first.")),
        }
    }

    fn has_column(&self, table: &RelationName, name: &str) -> bool {
        let table = self.catalog.tables.get(table);
        table.is_some_and(|table| table.columns.iter().any(|own| !own.dropped && own.name == name))
    }

    /// A primary key goes before a column of it does.
    fn release_key(&mut self, table: &RelationName, column: &str) -> Result<()> {
        let own = self.table_mut(table)?;
        let is_key = |place: &usize| own.columns[*place].name == column;
        if !own.primary_key.iter().any(is_key) {
            return Ok(());
        }
        let key = own.primary_key_name.clone();
        self.drop_constraint(table, &key, false, true)
    }

    /// What depends on a type, however far, but for what belongs to the relations in `besides`; views not.
    pub(super) fn lines_of_type(&self, name: &RelationName, besides: &[RelationName]) -> Vec<String> {
        let mut dependents = self.dependents_of_type(name);
        dependents.retain(|dependent| !besides.contains(&dependent.table));
        let mut found: Vec<(u32, Vec<String>)> = Vec::new();
        for Dependent { table, part, on } in &dependents {
            let number = self.catalog.tables.get(table).map_or(0, |table| table.oid);
            let table = self.kind_and_name(table);
            let line = match part {
                Part::Column(column) => format!("column {column} of {table} depends on type {on}"),
                Part::Default(_, column) => {
                    format!("default value for column {column} of {table} depends on type {on}")
                }
                Part::Check(name) => format!("constraint {name} on {table} depends on type {on}"),
                Part::Index(name) => format!("index {name} depends on type {on}"),
            };
            found.push((number, vec![line]));
        }
        let written = self.described_type(name);
        for domain in self.domains_of(name) {
            if besides.contains(&domain) {
                continue;
            }
            let number = self.catalog.domains.get(&domain).map_or(0, |domain| domain.oid);
            let mut lines = vec![format!(
                "type {} depends on type {written}",
                self.described_type(&domain)
            )];
            lines.extend(self.lines_of_type(&domain, besides));
            found.push((number, lines));
        }
        // As PostgreSQL tells it: what is older first, and then what depends on that.
        found.sort_by_key(|(number, _)| *number);
        found.into_iter().flat_map(|(_, lines)| lines).collect()
    }

    /// The domains of an enum, and those over a domain.
    fn domains_of(&self, name: &RelationName) -> Vec<RelationName> {
        if let Some(own) = self.catalog.domains.get(name) {
            return self.domains_over(own.oid);
        }
        let Some(own) = self.catalog.enums.get(name) else {
            return Vec::new();
        };
        let is_of = |data_type: DataType| data_type.enum_number() == Some(own.oid);
        let domains = self.catalog.domains.values();
        let of_it = domains.filter(|domain| domain.base.is_none() && is_of(domain.column_type.data_type));
        of_it.map(|domain| domain.key()).collect()
    }

    fn dependents_of_type(&self, name: &RelationName) -> Vec<Dependent> {
        let on = self.described_type(name);
        let mut found = Vec::new();
        // A materialised view goes as a whole, like other views.
        for table in self
            .catalog
            .tables
            .values()
            .filter(|table| table.materialised.is_none())
        {
            match self.catalog.enums.get(name) {
                Some(own) => of_enum(table, own.oid, &on, &mut found),
                None => found.extend(columns_of(table, name).map(|place| column(table, place, &on))),
            }
        }
        found
    }
}

fn column(table: &Table, place: usize, on: &str) -> Dependent {
    Dependent {
        table: table.key(),
        part: Part::Column(table.columns[place].name.clone()),
        on: on.to_owned(),
    }
}

/// What of a table depends on an enum: what belongs to one of its columns goes with that.
fn of_enum(table: &Table, oid: u32, on: &str, found: &mut Vec<Dependent>) {
    let uses = |expr: &Expr| expr.uses_enum(oid);
    let mut gone = Vec::new();
    for (place, own) in table.columns.iter().enumerate().filter(|(_, own)| !own.dropped) {
        let is_generated = own.generated.as_ref().is_some_and(|own| uses(&own.expr));
        match own.column_type.data_type {
            // The domain takes it along.
            _ if own.domain.is_some() => {}
            DataType::Enum(number) if number == oid => {
                gone.push(place);
                found.push(column(table, place, on));
            }
            DataType::EnumArray(number) if number == oid => {
                gone.push(place);
                found.push(column(table, place, &format!("{on}[]")));
            }
            _ if is_generated => {
                gone.push(place);
                found.push(column(table, place, on));
            }
            _ if own.default.as_ref().is_some_and(uses) => found.push(Dependent {
                part: Part::Default(place, own.name.clone()),
                ..column(table, place, on)
            }),
            _ => {}
        }
    }
    let stays = |expr: &Expr| {
        let mut stays = true;
        expr.for_each_column(&mut |column| stays &= !gone.contains(&column));
        stays && uses(expr)
    };
    let named = |part| Dependent {
        table: table.key(),
        part,
        on: on.to_owned(),
    };
    let checks = table
        .checks
        .iter()
        .filter(|check| check.domain.is_none() && stays(&check.condition));
    found.extend(checks.map(|check| named(Part::Check(check.name.clone()))));
    let indexes = table.indexes.iter().filter(|index| {
        let keys = index.columns.iter().filter_map(|number| table.key_expression(*number));
        let predicate = index.predicate.iter().map(|own| &own.expr);
        keys.map(|own| &own.value.expr).chain(predicate).any(stays)
    });
    found.extend(indexes.map(|index| named(Part::Index(index.name.clone()))));
}
