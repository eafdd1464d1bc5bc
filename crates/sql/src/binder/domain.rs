//! Domains: their definitions, and casts to them.

use super::Context;
use super::create::Definition;
use super::expression::ExpressionBinder;
use super::generated_names::{free_name, has_constraint};
use super::scope::Scope;
use super::typed::Typed;
use super::types::{TypeName, no_domain, no_type, type_by_name};
use crate::catalog::{Column, Domain, DomainBase, DomainCheck, RelationName, SchemaId, no_schema};
use crate::parser::syntax::{parse_expression, parse_type};
use crate::parser::utility::{AlterDomainAction, DomainStatement, DomainSyntax, Part};
use crate::statement::{DomainChange, SchemaChange};
use rubato_base::enumeration::Marked;
use rubato_base::{DataType, Error, Result, SqlState, Value};
use rubato_formula::{Expr, Volatility, resolve_function};
use sqlparser::ast;
use std::sync::Arc;

impl Context<'_> {
    pub(super) fn domain_statement(&self, statement: DomainStatement) -> Result<SchemaChange> {
        self.fixes_literals.set(true);
        match statement {
            DomainStatement::Create(syntax) => self.create_domain(&syntax),
            DomainStatement::Alter(path, action) => self.alter_domain(&path, action),
            DomainStatement::Drop {
                names,
                if_exists,
                cascade,
                tag,
            } => Ok(SchemaChange::DropTypes {
                names: names
                    .iter()
                    .map(|name| self.old_type(name, if_exists))
                    .collect::<Result<_>>()?,
                if_exists,
                cascade,
                tag,
            }),
        }
    }

    /// The domain that a type's name stands for, if it is one.
    pub(super) fn domain(&self, name: &ast::DataType) -> Result<Option<Arc<Domain>>> {
        let found = self.named_type(name)?;
        Ok(found.and_then(|found| self.catalog.domains.get(&found)).cloned())
    }

    /// A domain or enum that is to be dropped or changed; what is not there is nowhere. 3F000.
    pub(super) fn old_type(&self, path: &[String], if_exists: bool) -> Result<RelationName> {
        let (schema, name) = self.split_path(path)?;
        if let Some(found) = self.path.find_type(schema, name, self.catalog)? {
            return Ok(found);
        }
        match schema {
            Some(schema) if !if_exists && self.path.schema(schema, self.catalog)?.is_none() => Err(no_schema(schema)),
            _ => Ok(RelationName::new(SchemaId::NOWHERE, path.join("."))),
        }
    }

    /// A value of a domain's type, once it satisfies what the domain says. 23502, 23514.
    pub(super) fn checked_by_domain(&self, typed: Typed, domain: &Domain) -> Result<Typed> {
        if domain.rules().next().is_some() && typed.expr.volatility() == Volatility::Volatile {
            return Err(Error::unsupported(
                "a cast of a volatile expression to a domain with constraints",
            ));
        }
        let data_type = typed.data_type;
        let value = typed.expr;
        let mut checked = value.clone();
        let written = Marked::Type(domain.oid).mark();
        for (constraint, condition) in domain.rules() {
            let mut holds = condition;
            holds.transform(&mut |node| {
                if matches!(node, Expr::Column(_)) {
                    *node = value.clone();
                }
            });
            let name = |name: &str| Expr::Literal(Value::text(name));
            let resolved = resolve_function(
                "rubato_check_domain",
                &[data_type, DataType::Bool, DataType::Text, DataType::Text],
            )?;
            checked = Expr::Call {
                function: resolved.function,
                arguments: vec![
                    checked,
                    holds,
                    name(&written),
                    constraint.map_or(Expr::Literal(Value::Null), |own| name(&own)),
                ],
            };
        }
        Ok(Typed { expr: checked, ..typed })
    }

    fn create_domain(&self, syntax: &DomainSyntax) -> Result<SchemaChange> {
        let RelationName { schema, name } = self.new_name(&syntax.name, false)?;
        if schema.is_temporary() {
            return Err(Error::unsupported("a temporary domain"));
        }
        if let Some(TypeName::Plain(_)) = type_by_name(&name) {
            return Err(Error::unsupported("a domain with the name of a built-in type"));
        }
        let base_name = parse_type(self.part(syntax.base).source)?;
        let base = self.domain(&base_name)?;
        let mut domain = Domain {
            oid: 0,
            version: 0,
            schema,
            name,
            column_type: match &base {
                Some(base) => base.column_type,
                None => self.bind_type(&base_name)?,
            },
            not_null: syntax.not_null,
            // As in PostgreSQL: the default is that of this moment, what else the other one says holds for this one as it changes.
            default: base.as_ref().and_then(|base| base.default.clone()),
            default_text: base.as_ref().and_then(|base| base.default_text.clone()),
            checks: Vec::new(),
            base: base.map(|base| of_no_values(base.as_base())),
        };
        if let Some(part) = syntax.default {
            (domain.default, domain.default_text) = self.domain_default(part, &domain)?;
        }
        for (constraint, part) in &syntax.checks {
            let check = self.domain_check(constraint.as_deref(), *part, &domain)?;
            domain.checks.push(check);
        }
        domain.sort_checks();
        Ok(SchemaChange::CreateDomain { domain })
    }

    fn domain_default(&self, part: Part, domain: &Domain) -> Result<(Option<Expr>, Option<String>)> {
        let context = self.part(part);
        let expr = parse_expression(context.source)?;
        let (default, text) = context.column_default(&expr, &domain.name, domain.column_type)?;
        let text = default.is_some().then_some(text);
        Ok((default, text))
    }

    /// A CHECK of a domain, whose column 0 is VALUE.
    fn domain_check(&self, name: Option<&str>, part: Part, domain: &Domain) -> Result<DomainCheck> {
        let context = self.part(part);
        let scope = Scope::of_value("value", domain.column_type);
        let binder = ExpressionBinder::new(&context, &scope, "CHECK");
        let condition = binder.condition(&parse_expression(context.source)?)?.fold_constants();
        let is_taken = |name: &str| domain.checks.iter().any(|check| check.name == name);
        let is_taken_at_all = |name: &str| is_taken(name) || has_constraint(self.catalog, domain.schema, name, None);
        let name = match name {
            Some(name) if is_taken(name) => {
                let message = format!("constraint \"{name}\" for domain \"{}\" already exists", domain.name);
                return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
            }
            Some(name) => name.to_owned(),
            None => free_name(&domain.name, None, "check", is_taken_at_all),
        };
        Ok(DomainCheck {
            name,
            condition,
            is_valid: true,
        })
    }

    fn alter_domain(&self, path: &[String], action: AlterDomainAction) -> Result<SchemaChange> {
        let name = self.old_type(path, false)?;
        let Some(domain) = self.catalog.domains.get(&name) else {
            return Err(match self.catalog.enums.contains_key(&name) {
                true if matches!(action, AlterDomainAction::Move(_)) => {
                    let message = format!("{} is not a domain", self.path.written_type(&name, self.catalog));
                    Error::new(SqlState::WRONG_OBJECT_TYPE, message)
                }
                true => no_domain(&name.name),
                false => no_type(&name.name),
            });
        };
        let change = match action {
            AlterDomainAction::SetDefault(None) => DomainChange::SetDefault(None, None),
            AlterDomainAction::SetDefault(Some(part)) => {
                let (default, text) = self.domain_default(part, domain)?;
                DomainChange::SetDefault(default, text)
            }
            AlterDomainAction::SetNotNull(not_null) => DomainChange::SetNotNull(not_null),
            AlterDomainAction::AddCheck {
                name: constraint,
                condition,
                is_valid,
            } => {
                let mut check = self.domain_check(constraint.as_deref(), condition, domain)?;
                check.is_valid = is_valid;
                DomainChange::AddCheck(check)
            }
            AlterDomainAction::ValidateConstraint(name) => DomainChange::ValidateConstraint(name),
            AlterDomainAction::DropConstraint { name, if_exists } => DomainChange::DropConstraint { name, if_exists },
            AlterDomainAction::RenameConstraint { from, to } => DomainChange::RenameConstraint { from, to },
            AlterDomainAction::Move(moved) => DomainChange::Move(self.type_moved_to(moved, &name)?),
            AlterDomainAction::Owner => DomainChange::Owner,
        };
        Ok(SchemaChange::AlterDomain { name, change })
    }
}

/// A new domain has no values yet that could violate anything.
fn of_no_values(mut base: DomainBase) -> DomainBase {
    base.checks.iter_mut().for_each(|check| check.is_valid = true);
    base
}

impl Definition<'_, '_> {
    /// Gives a new column what its domain says.
    pub fn follow_domain(&mut self, column: &mut Column, place: usize, domain: &Domain) {
        domain.give_default(column);
        self.table.checks.extend(domain.checks_of(place));
    }
}

impl ExpressionBinder<'_> {
    /// A cast to a domain.
    pub(super) fn cast_to_domain(&self, operand: &ast::Expr, domain: &Domain) -> Result<Typed> {
        let typed = self.bind(operand)?;
        let cast = self.context.cast(typed, domain.column_type)?;
        self.context.checked_by_domain(cast, domain)
    }
}
