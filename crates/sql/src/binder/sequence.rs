//! CREATE and ALTER SEQUENCE, and the sequences that columns own.

use super::Context;
use super::dml::find_column;
use super::types::{TypeName, type_by_name};
use crate::catalog::{RelationName, Sequence, limits_of};
use crate::parser::identity::BESIDE_NAME;
use crate::parser::utility::{AlterSequenceSyntax, Altered, SequenceOptions, SequenceSyntax};
use crate::statement::SchemaChange;
use rubato_base::{ColumnType, DataType, Error, Result, SqlState, Value};
use rubato_formula::{Expr, resolve_function};
use sqlparser::ast;

impl Context<'_> {
    pub(super) fn create_sequence(&self, syntax: &SequenceSyntax) -> Result<SchemaChange> {
        let data_type = self.sequence_type(syntax.data_type)?.unwrap_or(DataType::Int8);
        let name = self.new_name(&syntax.name, syntax.temporary)?;
        let mut sequence = new_sequence(&name, data_type, &syntax.options)?;
        sequence.owned_by = self.sequence_owner(syntax.owned_by.as_deref())?;
        Ok(SchemaChange::CreateSequence {
            sequence,
            if_not_exists: syntax.if_not_exists,
        })
    }

    pub(super) fn alter_sequence(&self, syntax: &AlterSequenceSyntax) -> Result<SchemaChange> {
        let name = self.old_name(&syntax.name)?;
        let Some(before) = self.catalog.sequences.get(&name) else {
            return Ok(SchemaChange::AlterSequence {
                name,
                if_exists: syntax.if_exists,
                sequence: None,
                restart: None,
            });
        };
        let (sequence, restart) = self.altered_sequence(before, &syntax.altered)?;
        Ok(SchemaChange::AlterSequence {
            name,
            if_exists: syntax.if_exists,
            sequence: Some(sequence),
            restart,
        })
    }

    /// The type that AS names. 22023 if no sequence has it.
    fn sequence_type(&self, named: Option<(usize, usize)>) -> Result<Option<DataType>> {
        let Some((start, end)) = named else { return Ok(None) };
        match type_by_name(&self.source.text[start..end].to_ascii_lowercase()) {
            Some(TypeName::Plain(column_type)) if column_type.data_type.is_integer() => Ok(Some(column_type.data_type)),
            _ => {
                let message = "sequence type must be smallint, integer, or bigint";
                Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
        }
    }

    /// A sequence with what is said anew, and its next number if that is.
    pub(super) fn altered_sequence(&self, before: &Sequence, syntax: &Altered) -> Result<(Sequence, Option<i64>)> {
        let mut before = before.clone();
        let given_type = self.sequence_type(syntax.data_type)?;
        let data_type = given_type.or(before.data_type).unwrap_or(DataType::Int8);
        before.retype(data_type);
        let given = &syntax.options;
        let without = |what: &str| syntax.without.contains(&what);
        let bound = |given: Option<i64>, what: &str, before: i64| match given {
            None if without(what) => None,
            given => given.or(Some(before)),
        };
        // As if it were made with what it has and what is said now.
        let options = SequenceOptions {
            start: given.start.or(Some(before.start)),
            increment: given.increment.or(Some(before.increment)),
            minimum: bound(given.minimum, "minvalue", before.minimum),
            maximum: bound(given.maximum, "maxvalue", before.maximum),
            cycle: given.cycle || (before.cycle && !without("cycle")),
            cache: given.cache.or(Some(before.cache)),
        };
        let mut sequence = new_sequence(&before.key(), data_type, &options)?;
        (sequence.id, sequence.values) = (before.id, before.values);
        sequence.owned_by = match &syntax.owned_by {
            None => before.owned_by.clone(),
            Some(owner) => {
                self.refuse_if_of_identity(&before)?;
                self.sequence_owner(owner.as_deref())?
            }
        };
        let restart = syntax.restart.map(|with| with.unwrap_or(sequence.start));
        for (is_beyond, side, bound) in [
            (restart < Some(sequence.minimum), "less than MINVALUE", sequence.minimum),
            (
                restart > Some(sequence.maximum),
                "greater than MAXVALUE",
                sequence.maximum,
            ),
        ] {
            if let Some(restart) = restart.filter(|_| is_beyond) {
                let message = format!("RESTART value ({restart}) cannot be {side} ({bound})");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        }
        Ok((sequence, restart))
    }

    /// 0A000 for the sequence of an identity column, which stays its column's.
    fn refuse_if_of_identity(&self, sequence: &Sequence) -> Result<()> {
        let owner = sequence.owned_by.as_ref();
        let table = owner.and_then(|(table, column)| Some((self.catalog.tables.get(table)?, column)));
        let identity = table.filter(|(table, column)| table.columns[**column].identity_always.is_some());
        identity.map_or(Ok(()), |(table, _)| {
            let message = "cannot change ownership of identity sequence";
            let detail = format!("Sequence \"{}\" is linked to table \"{}\".", sequence.name, table.name);
            Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_detail(detail))
        })
    }

    fn sequence_owner(&self, owner: Option<&[String]>) -> Result<Option<(RelationName, usize)>> {
        let Some([table @ .., column]) = owner else {
            return Ok(None);
        };
        let found = self.catalog.tables.get(&self.old_name(table)?);
        let found = found.ok_or_else(|| super::no_relation(&table.join(".")))?;
        Ok(Some((found.key(), find_column(found, column)?)))
    }
}

/// `nextval('name')` cast to a column's type, and its text.
pub(super) fn next_value(name: &str, column_type: ColumnType) -> Result<(Expr, String)> {
    let resolved = resolve_function("nextval", &[DataType::Text])?;
    // The text is read as an identifier.
    let name = crate::system_tables::quoted(name);
    let call = Expr::Call {
        function: resolved.function,
        arguments: vec![Expr::Literal(Value::text(&name))],
    };
    let cast = rubato_formula::cast_expr(
        call,
        resolved.result_type,
        column_type,
        rubato_formula::CastContext::Assignment,
    )?;
    Ok((cast, format!("nextval('{}'::regclass)", name.replace('\'', "''"))))
}

/// A sequence with PostgreSQL's defaults for its type. 22023 where the options contradict each other.
pub(super) fn new_sequence(name: &RelationName, data_type: DataType, options: &SequenceOptions) -> Result<Sequence> {
    let (type_minimum, type_maximum) = limits_of(data_type);
    let invalid = |message: String| Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
    let increment = options.increment.unwrap_or(1);
    if increment == 0 {
        return invalid("INCREMENT must not be zero".to_owned());
    }
    let (minimum, maximum) = if increment > 0 {
        (options.minimum.unwrap_or(1), options.maximum.unwrap_or(type_maximum))
    } else {
        (options.minimum.unwrap_or(type_minimum), options.maximum.unwrap_or(-1))
    };
    if maximum < type_minimum || maximum > type_maximum {
        return invalid(format!(
            "MAXVALUE ({maximum}) is out of range for sequence data type {data_type}"
        ));
    }
    if minimum < type_minimum || minimum > type_maximum {
        return invalid(format!(
            "MINVALUE ({minimum}) is out of range for sequence data type {data_type}"
        ));
    }
    if minimum >= maximum {
        return invalid(format!("MINVALUE ({minimum}) must be less than MAXVALUE ({maximum})"));
    }
    let start = options.start.unwrap_or(if increment > 0 { minimum } else { maximum });
    if start < minimum {
        return invalid(format!(
            "START value ({start}) cannot be less than MINVALUE ({minimum})"
        ));
    }
    if start > maximum {
        return invalid(format!(
            "START value ({start}) cannot be greater than MAXVALUE ({maximum})"
        ));
    }
    let cache = options.cache.unwrap_or(1);
    if cache < 1 {
        return invalid(format!("CACHE ({cache}) must be greater than zero"));
    }
    let cycle = options.cycle;
    Ok(Sequence {
        id: 0,
        values: 0,
        schema: name.schema,
        name: name.name.clone(),
        start,
        increment,
        minimum,
        maximum,
        cycle,
        cache,
        owned_by: None,
        data_type: Some(data_type),
    })
}

/// The options of an identity column's sequence.
pub(super) fn sequence_options(options: &[ast::SequenceOptions]) -> Result<SequenceOptions> {
    let mut found = SequenceOptions::default();
    for option in options {
        match option {
            ast::SequenceOptions::IncrementBy(value, _) => found.increment = Some(sequence_number(value)?),
            ast::SequenceOptions::MinValue(value) => found.minimum = value.as_ref().map(sequence_number).transpose()?,
            ast::SequenceOptions::MaxValue(value) => found.maximum = value.as_ref().map(sequence_number).transpose()?,
            ast::SequenceOptions::StartWith(value, _) => found.start = Some(sequence_number(value)?),
            ast::SequenceOptions::Cache(value) => found.cache = cache_beside_name(value)?,
            // The flag is of NO CYCLE.
            ast::SequenceOptions::Cycle(no) => found.cycle = !no,
        }
    }
    Ok(found)
}

/// The number of CACHE, which stands behind the name of the sequence if that is given.
fn cache_beside_name(expr: &ast::Expr) -> Result<Option<i64>> {
    let ast::Expr::Value(value) = expr else {
        return sequence_number(expr).map(Some);
    };
    match &value.value {
        ast::Value::Placeholder(given) => Ok(given.split_once(BESIDE_NAME).and_then(|(_, cache)| cache.parse().ok())),
        _ => sequence_number(expr).map(Some),
    }
}

fn sequence_number(expr: &ast::Expr) -> Result<i64> {
    expr.to_string().replace(['(', ')', ' '], "").parse().map_err(|_| {
        Error::new(
            SqlState::SYNTAX_ERROR,
            format!("syntax error: a sequence takes whole numbers, not {expr}"),
        )
    })
}
