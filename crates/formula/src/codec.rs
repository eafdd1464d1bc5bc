//! Expressions and formulas as bytes, for the log and the catalog.
//!
//! A function is written by name and argument types, a value by the row codec, so that the bytes mean the same in every version
//! that knows the function. Reading checks everything it builds, and nests at most [`DEPTH_MAX`] deep.

use crate::change::{Change, ColumnChange, Computation, Formula};
use crate::expr::{Comparison, Expr};
use crate::functions::{ArgumentType, Function};
use rubato_base::codec::{ByteReader, put_bytes, put_data_type, put_length, put_value};
use rubato_base::{ColumnType, DataType, Error, Result, SqlState};
use std::sync::Arc;

/// Deepest nesting that is read: more than is ever bound (a text may nest 2,500 deep, and some of its words are several levels of an
/// expression), and what an own stack has room for, several times over.
const DEPTH_MAX: usize = 20_000;
/// How much stack is left when another is taken to read on.
const STACK_LEFT_BYTES: usize = 64 << 10;
/// How large that one is.
const STACK_MORE_BYTES: usize = 4 << 20;

const LITERAL: u8 = 1;
const COLUMN: u8 = 2;
const PARAMETER: u8 = 3;
const CALL: u8 = 4;
const AND: u8 = 5;
const OR: u8 = 6;
const NOT: u8 = 7;
const COMPARE: u8 = 8;
const IS_NULL: u8 = 9;
const IS_DISTINCT: u8 = 10;
const CASE: u8 = 11;
const IN_LIST: u8 = 12;
const COALESCE: u8 = 13;
const CAST: u8 = 14;
const COMPARE_ELEMENTS: u8 = 15;
/// Nothing that is kept holds a query: read again, this is refused as damage.
const SUBQUERY: u8 = 16;
const SWITCH: u8 = 17;

const SET: u8 = 1;
const ADD: u8 = 2;
const EVALUATE: u8 = 3;

const SAME_ARRAY: u8 = 0xfc;
const ARRAY: u8 = 0xfd;
const ANY: u8 = 0xfe;
const ELEMENT: u8 = 0xff;

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

fn damaged(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("damaged data: {what}"))
}

impl Expr {
    /// Appends the expression.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Expr::Literal(value) => {
                out.push(LITERAL);
                put_value(out, value);
            }
            Expr::Column(index) => put_indexed(out, COLUMN, *index),
            Expr::Parameter(index) => put_indexed(out, PARAMETER, *index),
            Expr::Call { function, arguments } => {
                out.push(CALL);
                put_function(out, *function);
                put_list(out, arguments);
            }
            Expr::Subquery { arguments, .. } => put_tagged_list(out, SUBQUERY, arguments),
            Expr::And(terms) => put_tagged_list(out, AND, terms),
            Expr::Or(terms) => put_tagged_list(out, OR, terms),
            Expr::Coalesce(arguments) => put_tagged_list(out, COALESCE, arguments),
            Expr::Not(operand) => put_operands(out, NOT, &[operand]),
            Expr::IsNull(operand) => put_operands(out, IS_NULL, &[operand]),
            Expr::IsDistinct(left, right) => put_operands(out, IS_DISTINCT, &[left, right]),
            Expr::Compare(comparison, left, right) => {
                out.push(COMPARE);
                put_comparison(out, *comparison);
                left.encode(out);
                right.encode(out);
            }
            Expr::Case { branches, otherwise } => {
                out.push(CASE);
                put_branches(out, branches, otherwise);
            }
            Expr::Switch {
                operand,
                branches,
                otherwise,
            } => {
                put_operands(out, SWITCH, &[operand]);
                put_branches(out, branches, otherwise);
            }
            Expr::InList(operand, list) => {
                put_operands(out, IN_LIST, &[operand]);
                put_list(out, list);
            }
            Expr::CompareElements {
                operand,
                comparison,
                array,
                all,
            } => {
                out.push(COMPARE_ELEMENTS);
                put_comparison(out, *comparison);
                out.push(u8::from(*all));
                operand.encode(out);
                array.encode(out);
            }
            Expr::Cast {
                operand,
                from,
                to,
                explicit,
            } => {
                out.push(CAST);
                put_data_type(out, *from);
                put_column_type(out, *to);
                out.push(u8::from(*explicit));
                operand.encode(out);
            }
        }
    }

    /// Reads what [`Expr::encode`] wrote. XX001 for anything else, also for functions that this version does not know.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Expr> {
        read_expr(reader, DEPTH_MAX)
    }
}

fn put_indexed(out: &mut Vec<u8>, tag: u8, index: usize) {
    out.push(tag);
    put_length(out, index);
}

fn put_comparison(out: &mut Vec<u8>, comparison: Comparison) {
    out.push(COMPARISONS.iter().position(|other| *other == comparison).unwrap_or(0) as u8);
}

fn put_operands(out: &mut Vec<u8>, tag: u8, operands: &[&Expr]) {
    out.push(tag);
    operands.iter().for_each(|operand| operand.encode(out));
}

fn put_list(out: &mut Vec<u8>, list: &[Expr]) {
    put_length(out, list.len());
    list.iter().for_each(|expr| expr.encode(out));
}

fn put_branches(out: &mut Vec<u8>, branches: &[(Expr, Expr)], otherwise: &Expr) {
    put_length(out, branches.len());
    for (condition, result) in branches {
        condition.encode(out);
        result.encode(out);
    }
    otherwise.encode(out);
}

fn put_tagged_list(out: &mut Vec<u8>, tag: u8, list: &[Expr]) {
    out.push(tag);
    put_list(out, list);
}

fn put_column_type(out: &mut Vec<u8>, column_type: ColumnType) {
    put_data_type(out, column_type.data_type);
    out.extend_from_slice(&column_type.modifier.to_le_bytes());
}

fn put_function(out: &mut Vec<u8>, function: Function) {
    let entry = function.entry();
    put_bytes(out, entry.name.as_bytes());
    put_length(out, entry.arguments.len());
    out.extend(entry.arguments.iter().map(|argument| match argument {
        ArgumentType::Exact(data_type) => data_type.tag(),
        ArgumentType::Any => ANY,
        ArgumentType::Element => ELEMENT,
        ArgumentType::Array => ARRAY,
        ArgumentType::SameArray => SAME_ARRAY,
    }));
}

fn read_expr(reader: &mut ByteReader<'_>, depth: usize) -> Result<Expr> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(damaged("an expression is nested too deeply"));
    };
    stacker::maybe_grow(STACK_LEFT_BYTES, STACK_MORE_BYTES, || read_node(reader, depth))
}

fn read_node(reader: &mut ByteReader<'_>, depth: usize) -> Result<Expr> {
    let boxed = |reader: &mut ByteReader<'_>| read_expr(reader, depth).map(Box::new);
    Ok(match reader.u8()? {
        LITERAL => Expr::Literal(reader.value()?),
        COLUMN => Expr::Column(reader.length()?),
        PARAMETER => Expr::Parameter(reader.length()?),
        CALL => {
            let function = read_function(reader)?;
            let arguments = read_list(reader, depth)?;
            if !function.entry().takes(arguments.len()) {
                return Err(damaged("a function has the wrong number of arguments"));
            }
            Expr::Call { function, arguments }
        }
        AND => Expr::And(read_list(reader, depth)?),
        OR => Expr::Or(read_list(reader, depth)?),
        COALESCE => Expr::Coalesce(read_list(reader, depth)?),
        NOT => Expr::Not(boxed(reader)?),
        IS_NULL => Expr::IsNull(boxed(reader)?),
        IS_DISTINCT => Expr::IsDistinct(boxed(reader)?, boxed(reader)?),
        COMPARE => {
            let comparison = read_comparison(reader)?;
            Expr::Compare(comparison, boxed(reader)?, boxed(reader)?)
        }
        CASE => Expr::Case {
            branches: read_branches(reader, depth)?,
            otherwise: boxed(reader)?,
        },
        SWITCH => Expr::Switch {
            operand: boxed(reader)?,
            branches: read_branches(reader, depth)?,
            otherwise: boxed(reader)?,
        },
        IN_LIST => Expr::InList(boxed(reader)?, Arc::new(read_list(reader, depth)?)),
        COMPARE_ELEMENTS => {
            let comparison = read_comparison(reader)?;
            let all = reader.u8()? != 0;
            Expr::CompareElements {
                operand: boxed(reader)?,
                comparison,
                array: Arc::new(*boxed(reader)?),
                all,
            }
        }
        CAST => {
            let from = reader.data_type()?;
            let to = read_column_type(reader)?;
            let explicit = reader.u8()? != 0;
            Expr::Cast {
                operand: boxed(reader)?,
                from,
                to,
                explicit,
            }
        }
        _ => return Err(damaged("an unknown kind of expression")),
    })
}

fn read_comparison(reader: &mut ByteReader<'_>) -> Result<Comparison> {
    let comparison = COMPARISONS.get(usize::from(reader.u8()?));
    comparison.copied().ok_or_else(|| damaged("an unknown comparison"))
}

fn read_branches(reader: &mut ByteReader<'_>, depth: usize) -> Result<Vec<(Expr, Expr)>> {
    let count = reader.length()?;
    let mut branches = Vec::with_capacity(count.min(reader.rest().len() / 2));
    for _ in 0..count {
        branches.push((read_expr(reader, depth)?, read_expr(reader, depth)?));
    }
    Ok(branches)
}

fn read_list(reader: &mut ByteReader<'_>, depth: usize) -> Result<Vec<Expr>> {
    let count = reader.length()?;
    // An expression is at least two bytes: a false count must not reserve memory.
    let mut list = Vec::with_capacity(count.min(reader.rest().len() / 2));
    for _ in 0..count {
        list.push(read_expr(reader, depth)?);
    }
    Ok(list)
}

fn read_column_type(reader: &mut ByteReader<'_>) -> Result<ColumnType> {
    let data_type = reader.data_type()?;
    Ok(ColumnType {
        data_type,
        modifier: reader.u32()? as i32,
    })
}

fn read_function(reader: &mut ByteReader<'_>) -> Result<Function> {
    let name = std::str::from_utf8(reader.bytes()?).map_err(|_| damaged("a function's name is not UTF-8"))?;
    let count = reader.length()?;
    let mut arguments = Vec::with_capacity(count.min(16));
    for tag in reader.take(count)? {
        arguments.push(match *tag {
            ANY => ArgumentType::Any,
            ELEMENT => ArgumentType::Element,
            ARRAY => ArgumentType::Array,
            SAME_ARRAY => ArgumentType::SameArray,
            tag => ArgumentType::Exact(DataType::from_tag(tag).ok_or_else(|| damaged("an unknown type"))?),
        });
    }
    Function::find(name, &arguments).ok_or_else(|| damaged(&format!("this version has no function {name}")))
}

impl Formula {
    /// Appends the formula.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_length(out, self.changes().len());
        for change in self.changes() {
            put_length(out, usize::from(change.column));
            put_column_type(out, change.column_type);
            match &change.change {
                ColumnChange::Set(value) => {
                    out.push(SET);
                    put_value(out, value);
                }
                ColumnChange::Add(value) => {
                    out.push(ADD);
                    put_value(out, value);
                }
                ColumnChange::Evaluate(computed) => {
                    out.push(EVALUATE);
                    computed.encode(out);
                }
            }
        }
    }

    /// Reads what [`Formula::encode`] wrote. XX001 for anything else.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Formula> {
        let count = reader.length()?;
        let mut changes = Vec::with_capacity(count.min(reader.rest().len() / 8));
        for _ in 0..count {
            changes.push(read_change(reader)?);
        }
        Formula::new(changes).map_err(|error| damaged(error.message()))
    }
}

fn read_change(reader: &mut ByteReader<'_>) -> Result<Change> {
    let column = u16::try_from(reader.length()?).map_err(|_| damaged("a formula names a column that cannot be"))?;
    let column_type = read_column_type(reader)?;
    Ok(match reader.u8()? {
        SET => Change::set(column, column_type, reader.value()?),
        ADD => Change::add(column, column_type, reader.value()?),
        EVALUATE => {
            let written = reader.rest();
            let expr = Expr::decode(reader)?;
            let encoded = &written[..written.len() - reader.rest().len()];
            let computed = Computation::read_from(expr, encoded);
            Change {
                column,
                column_type,
                change: ColumnChange::Evaluate(Arc::new(computed)),
            }
        }
        _ => return Err(damaged("an unknown kind of change")),
    })
}
