//! Domains: what they say of their values, and what columns check of that.

use super::{Check, Column, RelationName, SchemaId};
use rubato_base::enumeration::Marked;
use rubato_base::{ColumnType, Error};
use rubato_formula::Expr;

/// A domain: a type with constraints of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// Its number among the types.
    pub oid: u32,
    /// Another one for each definition.
    pub version: u64,
    /// Its schema.
    pub schema: SchemaId,
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub column_type: ColumnType,
    /// NOT NULL.
    pub not_null: bool,
    /// The default of columns that say nothing themselves.
    pub default: Option<Expr>,
    /// Its text.
    pub default_text: Option<String>,
    /// CHECK constraints of its own.
    pub checks: Vec<DomainCheck>,
    /// The domain that it is over, and what that one says.
    pub base: Option<DomainBase>,
}

/// What a domain takes over from the one that it is over, and that from its own.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainBase {
    /// The number of that domain.
    pub oid: u32,
    /// NOT NULL.
    pub not_null: bool,
    /// CHECK constraints, the lowest domain's first.
    pub checks: Vec<DomainCheck>,
}

/// A CHECK of a domain.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainCheck {
    /// The constraint's name.
    pub name: String,
    /// Over the value, which is column 0.
    pub condition: Expr,
    /// Whether the values that there are satisfy it.
    pub is_valid: bool,
}

impl Domain {
    /// What the catalog finds it by.
    pub fn key(&self) -> RelationName {
        RelationName::new(self.schema, self.name.as_str())
    }

    /// What its values satisfy, over column 0: NOT NULL, without a name, before the constraints; those of the domain that it is
    /// over before its own.
    pub fn rules(&self) -> impl Iterator<Item = (Option<String>, Expr)> + '_ {
        self.all_rules().map(rule)
    }

    /// The same; NOT NULL has no check.
    fn all_rules(&self) -> impl Iterator<Item = Option<&DomainCheck>> {
        let not_null = self.is_not_null().then_some(None);
        not_null.into_iter().chain(self.all_checks().map(Some))
    }

    /// Gives a column its default that says nothing itself.
    pub(crate) fn give_default(&self, column: &mut Column) {
        if column.default_text.is_none() && column.generated.is_none() {
            column.default.clone_from(&self.default);
        }
    }

    fn is_not_null(&self) -> bool {
        self.not_null || self.base.as_ref().is_some_and(|base| base.not_null)
    }

    fn all_checks(&self) -> impl Iterator<Item = &DomainCheck> {
        let taken_over = self.base.iter().flat_map(|base| &base.checks);
        taken_over.chain(&self.checks)
    }

    /// What a domain over this one takes over.
    pub(crate) fn as_base(&self) -> DomainBase {
        DomainBase {
            oid: self.oid,
            not_null: self.is_not_null(),
            checks: self.all_checks().cloned().collect(),
        }
    }

    /// Whether it is over the domain with this number, and that one over no other in between.
    pub(crate) fn is_over(&self, oid: u32) -> bool {
        self.base.as_ref().is_some_and(|base| base.oid == oid)
    }

    /// Constraints are asked in the order of their names.
    pub(crate) fn sort_checks(&mut self) {
        self.checks.sort_by(|one, other| one.name.cmp(&other.name));
    }

    /// What a table checks of a column of this domain.
    pub(crate) fn checks_of(&self, column: usize) -> impl Iterator<Item = Check> + '_ {
        let taken_over = self.base.as_ref().map_or(0, |base| base.checks.len());
        let taken_over = usize::from(self.is_not_null())..usize::from(self.is_not_null()) + taken_over;
        self.all_rules().enumerate().map(move |(place, check)| {
            let (constraint, condition) = rule(check);
            let condition = condition.remap_columns(&|_| column);
            let shown = constraint.as_deref().unwrap_or("not null");
            Check {
                // A domain, and the one that it is over, may have constraints of one name.
                name: match taken_over.contains(&place) {
                    true => format!("{}.{shown}.{column}.{place}", self.name),
                    false => format!("{}.{shown}.{column}", self.name),
                },
                columns: condition.columns(),
                condition,
                text: String::new(),
                is_valid: check.is_none_or(|check| check.is_valid),
                domain: Some(DomainRule {
                    domain: self.key(),
                    oid: self.oid,
                    constraint,
                }),
                option_of: None,
            }
        })
    }
}

/// A rule by its name and its condition.
fn rule(check: Option<&DomainCheck>) -> (Option<String>, Expr) {
    match check {
        None => (None, Expr::Not(Box::new(Expr::IsNull(Box::new(Expr::Column(0)))))),
        Some(check) => (Some(check.name.clone()), check.condition.clone()),
    }
}

/// That a check of a table is what the domain of a column says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainRule {
    /// The domain.
    pub domain: RelationName,
    /// Its number among the types.
    pub oid: u32,
    /// Its constraint; `None` is NOT NULL.
    pub constraint: Option<String>,
}

impl DomainRule {
    /// What is said of a value that violates it.
    pub(crate) fn violation(&self) -> Error {
        rubato_formula::domain_violation(&Marked::Type(self.oid).mark(), self.constraint.as_deref())
    }
}
