//! The types of parameters, inferred while binding.

use crate::parser::Literal;
use rubato_base::text_format::{TextContext, parse_text};
use rubato_base::{DataType, Error, Result, SqlState, Value};
use std::collections::BTreeSet;

/// PostgreSQL's largest parameter number.
const PARAMETERS_MAX: usize = 65_535;

/// The types of the user's parameters, then of the literals. By default there are none, and none may be named.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    types: Vec<DataType>,
    referenced: Vec<bool>,
    literals: Vec<Literal>,
    /// Places of literals whose values the plan depends on.
    pinned: BTreeSet<usize>,
    /// Whether the user may name parameters at all: a simple query comes without values.
    open: bool,
}

impl Parameters {
    /// Parameters with declared types; the types of literals follow the highest parameter of the user.
    /// Unless they are `open`, the user has none.
    pub fn new(highest: usize, literals: &[Literal], declared: &[DataType], open: bool) -> Parameters {
        let literal_types: Vec<DataType> = literals.iter().map(Literal::data_type).collect();
        let users = highest.saturating_sub(literals.len()).max(declared.len());
        let mut types = declared.to_vec();
        types.resize(users, DataType::Unknown);
        types.extend(&literal_types);
        let referenced = vec![false; types.len()];
        Parameters {
            types,
            referenced,
            literals: literals.to_vec(),
            pinned: BTreeSet::new(),
            open,
        }
    }

    /// The index and type of `$number`.
    pub fn refer(&mut self, text: &str) -> Result<(usize, DataType)> {
        let number: usize = text.trim_start_matches('$').parse().unwrap_or(0);
        let is_literal = number > self.types.len() - self.literals.len() && number <= self.types.len();
        if number == 0 || number > PARAMETERS_MAX || !(self.open || is_literal) {
            return Err(Error::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter {text}"),
            ));
        }
        if number > self.types.len() {
            self.types.resize(number, DataType::Unknown);
            self.referenced.resize(number, false);
        }
        self.referenced[number - 1] = true;
        Ok((number - 1, self.types[number - 1]))
    }

    /// The type of parameter `index` so far.
    pub fn get(&self, index: usize) -> DataType {
        self.types.get(index).copied().unwrap_or(DataType::Unknown)
    }

    /// The value of a parameter that was a literal, if its type reads it the same at any time and place: from now on the statement
    /// depends on it.
    pub fn known_value(&mut self, index: usize) -> Option<Value> {
        let users = self.types.len() - self.literals.len();
        let place = index.checked_sub(users)?;
        let literal = self.literals.get(place)?;
        let value = match (literal.value(), self.types[index]) {
            (Value::Text(text), DataType::Text | DataType::Varchar | DataType::Unknown) => Value::Text(text),
            (Value::Text(text), data_type) if is_plain(data_type) => {
                parse_text(data_type, -1, &text, &TextContext::default()).ok()?
            }
            (Value::Text(_), _) => return None,
            (value, _) => value,
        };
        self.pinned.insert(place);
        Some(value)
    }

    /// Whether a parameter stands for a literal.
    pub fn is_literal(&self, index: usize) -> bool {
        index >= self.types.len() - self.literals.len() && index < self.types.len()
    }

    /// The literals that the statement depends on.
    pub fn pinned(&self) -> Vec<usize> {
        self.pinned.iter().copied().collect()
    }

    /// Gives a parameter of unknown type its type.
    pub fn infer(&mut self, index: usize, data_type: DataType) {
        if let Some(slot) = self.types.get_mut(index) {
            *slot = data_type;
        }
    }

    /// All types. 42P18 if the statement leaves one open.
    pub fn finish(self) -> Result<Vec<DataType>> {
        let users = self.types.len() - self.literals.len();
        match self.types.iter().position(|data_type| *data_type == DataType::Unknown) {
            Some(open) if open < users => Err(Error::new(
                SqlState::INDETERMINATE_DATATYPE,
                format!("could not determine data type of parameter ${}", open + 1),
            )),
            // A string literal whose place says nothing is text.
            _ => Ok(self.types.into_iter().map(settled).collect()),
        }
    }
}

/// Whether a text of this type has one meaning, whatever the session's settings are.
fn is_plain(data_type: DataType) -> bool {
    use DataType::{Bool, Cidr, Float4, Float8, Inet, Int2, Int4, Int8, Jsonb, MacAddr, MacAddr8, Numeric, Uuid};
    matches!(
        data_type,
        Bool | Float4 | Float8 | Int2 | Int4 | Int8 | Jsonb | Numeric | Uuid | Inet | Cidr | MacAddr | MacAddr8
    )
}

fn settled(data_type: DataType) -> DataType {
    if data_type == DataType::Unknown {
        DataType::Text
    } else {
        data_type
    }
}
