//! Arrays: values of one element type in up to six dimensions, each of which counts from a bound of its own.

mod binary;
mod text;

use crate::{DataType, Error, Result, SqlState, Value};
use smallvec::{SmallVec, smallvec};
use std::cmp::Ordering;

/// Most dimensions of an array.
pub const DIMENSIONS_MAX: usize = 6;
/// Most elements of an array.
const ELEMENTS_MAX: usize = (1 << 27) - 1;

/// One dimension of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dimension {
    /// How many elements, or arrays of the further dimensions, it has.
    pub length: u32,
    /// The subscript of the first one.
    pub lower: i32,
}

impl Dimension {
    /// So many elements, counted from 1.
    pub fn of(length: usize) -> Dimension {
        Dimension {
            length: u32::try_from(length).unwrap_or(u32::MAX),
            lower: 1,
        }
    }

    /// The subscript of the last element.
    pub fn upper(self) -> i64 {
        i64::from(self.lower) + i64::from(self.length) - 1
    }

    /// The place of a subscript, from 0.
    fn place(self, subscript: i64) -> Option<usize> {
        let place = subscript.checked_sub(i64::from(self.lower))?;
        usize::try_from(place)
            .ok()
            .filter(|place| *place < self.length as usize)
    }
}

/// The dimensions of an array, the outermost first; most arrays have one.
pub type Dimensions = SmallVec<[Dimension; 1]>;

/// An array; each element is of the element type or NULL.
#[derive(Clone, Debug)]
pub struct Array {
    /// The type of the elements.
    pub element: DataType,
    /// The elements, the last dimension running fastest.
    pub items: Vec<Value>,
    /// As many elements as there are; none for an empty array.
    dimensions: Dimensions,
}

impl Array {
    /// An array of one dimension that counts from 1.
    pub fn new(element: DataType, items: Vec<Value>) -> Array {
        let dimensions = if items.is_empty() {
            Dimensions::new()
        } else {
            smallvec![Dimension::of(items.len())]
        };
        Array {
            element,
            items,
            dimensions,
        }
    }

    /// An array of these dimensions. 54000 for too many of them or of elements, 2202E where they do not hold as many elements as there are.
    pub fn shaped(element: DataType, items: Vec<Value>, dimensions: Dimensions) -> Result<Array> {
        if dimensions.len() > DIMENSIONS_MAX {
            return Err(too_many_dimensions(dimensions.len()));
        }
        let elements = dimensions
            .iter()
            .try_fold(1_usize, |count, dimension| count.checked_mul(dimension.length as usize));
        let elements = elements.filter(|count| *count <= ELEMENTS_MAX).ok_or_else(too_large)?;
        if items.is_empty() && (dimensions.is_empty() || elements == 0) {
            return Ok(Array::new(element, items));
        }
        if elements != items.len() || dimensions.is_empty() {
            let message = "the dimensions of an array do not match its elements";
            return Err(Error::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
        }
        if dimensions
            .iter()
            .any(|dimension| dimension.upper() > i64::from(i32::MAX))
        {
            let message = "array lower bound is too large";
            return Err(Error::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
        }
        Ok(Array {
            element,
            items,
            dimensions,
        })
    }

    /// One of the catalog's vectors, which count from 0.
    pub fn vector(element: DataType, items: Vec<Value>) -> Array {
        let mut array = Array::new(element, items);
        array.dimensions.iter_mut().for_each(|dimension| dimension.lower = 0);
        array
    }

    /// Its dimensions, the outermost first; none for an empty array.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// Whether it has one dimension that counts from 1, or no elements.
    pub fn is_plain(&self) -> bool {
        matches!(self.dimensions.as_slice(), [] | [Dimension { lower: 1, .. }])
    }

    /// The array of the same shape with other elements, one for one.
    pub fn with_items(&self, element: DataType, items: Vec<Value>) -> Array {
        debug_assert_eq!(items.len(), self.items.len(), "the shape stays");
        Array {
            element,
            items,
            dimensions: self.dimensions.clone(),
        }
    }

    /// The type of the array itself.
    pub fn data_type(&self) -> DataType {
        self.element.array().unwrap_or(DataType::Unknown)
    }

    /// Bytes of memory held.
    pub fn heap_bytes(&self) -> usize {
        let items = self.items.iter().map(Value::heap_bytes).sum::<usize>();
        size_of::<Array>() + self.items.len() * size_of::<Value>() + items
    }

    /// PostgreSQL's order: element by element, then the shorter one first, then by dimensions and their bounds.
    pub fn order(&self, other: &Array) -> Ordering {
        let pairs = self.items.iter().zip(&other.items);
        let differing = pairs.map(|(own, other)| own.order(other)).find(|order| order.is_ne());
        differing.unwrap_or_else(|| {
            let lengths = |array: &Array| {
                array
                    .dimensions
                    .iter()
                    .map(|one| one.length)
                    .collect::<SmallVec<[u32; 2]>>()
            };
            let lowers = |array: &Array| {
                array
                    .dimensions
                    .iter()
                    .map(|one| one.lower)
                    .collect::<SmallVec<[i32; 2]>>()
            };
            (self.items.len().cmp(&other.items.len()))
                .then(self.dimensions.len().cmp(&other.dimensions.len()))
                .then_with(|| lengths(self).cmp(&lengths(other)))
                .then_with(|| lowers(self).cmp(&lowers(other)))
        })
    }

    /// The element at these subscripts, one for each dimension; `None` outside of the array.
    pub fn get(&self, subscripts: &[i64]) -> Option<&Value> {
        if subscripts.len() != self.dimensions.len() {
            return None;
        }
        self.items.get(self.place(subscripts)?)
    }

    /// The place among the elements of these subscripts, one for each dimension.
    fn place(&self, subscripts: &[i64]) -> Option<usize> {
        let mut place = 0;
        for (dimension, subscript) in self.dimensions.iter().zip(subscripts) {
            place = place * dimension.length as usize + dimension.place(*subscript)?;
        }
        Some(place)
    }

    /// The part within bounds (from, to) of the first dimensions, and all of the others; it counts from 1. Empty where nothing is within.
    #[must_use]
    pub fn slice(&self, bounds: &[(Option<i64>, Option<i64>)]) -> Array {
        let nothing = || Array::new(self.element, Vec::new());
        if bounds.len() > self.dimensions.len() {
            return nothing();
        }
        let mut ranges: SmallVec<[(usize, usize); 2]> = SmallVec::new();
        for (index, dimension) in self.dimensions.iter().enumerate() {
            let (from, to) = bounds.get(index).copied().unwrap_or((None, None));
            let lower = i64::from(dimension.lower);
            let from = from.unwrap_or(lower).max(lower);
            let to = to.unwrap_or(dimension.upper()).min(dimension.upper());
            if from > to {
                return nothing();
            }
            ranges.push(((from - lower) as usize, (to - from + 1) as usize));
        }
        let mut items = Vec::new();
        self.copy_part(0, 0, &ranges, &mut items);
        let dimensions = ranges.iter().map(|(_, length)| Dimension::of(*length)).collect();
        Array {
            element: self.element,
            items,
            dimensions,
        }
    }

    fn copy_part(&self, base: usize, level: usize, ranges: &[(usize, usize)], items: &mut Vec<Value>) {
        let Some((from, length)) = ranges.get(level) else {
            items.extend(self.items.get(base).cloned());
            return;
        };
        let width = self.dimensions[level].length as usize;
        for place in *from..from + length {
            self.copy_part(base * width + place, level + 1, ranges, items);
        }
    }

    /// The array with one element set, as `UPDATE ... SET a[1] = value` does: an array of one dimension grows, with NULLs between. 2202E outside
    /// of an array of several dimensions, or with another number of subscripts than it has.
    pub fn with_element(&self, subscripts: &[i64], value: Value) -> Result<Array> {
        let outside = || Error::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "array subscript out of range");
        let mut changed = self.clone();
        if self.dimensions.is_empty() {
            let dimension = |subscript: &i64| {
                let lower = i32::try_from(*subscript).map_err(|_| outside())?;
                Ok(Dimension { length: 1, lower })
            };
            let dimensions = subscripts.iter().map(dimension).collect::<Result<_>>()?;
            return Array::shaped(self.element, vec![value], dimensions);
        }
        if subscripts.len() != self.dimensions.len() {
            return Err(Error::new(
                SqlState::ARRAY_SUBSCRIPT_ERROR,
                "wrong number of array subscripts",
            ));
        }
        if let Some(place) = self.place(subscripts) {
            changed.items[place] = value;
            return Ok(changed);
        }
        let ([dimension], [subscript]) = (self.dimensions.as_slice(), subscripts) else {
            return Err(outside());
        };
        let lower = i32::try_from((*subscript).min(dimension.lower.into())).map_err(|_| outside())?;
        let length = (*subscript).max(dimension.upper()) - i64::from(lower) + 1;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > ELEMENTS_MAX {
            return Err(too_large());
        }
        let before = (i64::from(dimension.lower) - i64::from(lower)) as usize;
        let mut items = vec![Value::Null; length];
        for (place, item) in std::mem::take(&mut changed.items).into_iter().enumerate() {
            items[before + place] = item;
        }
        items[(*subscript - i64::from(lower)) as usize] = value;
        let dimension = Dimension {
            length: length as u32,
            lower,
        };
        Array::shaped(self.element, items, smallvec![dimension])
    }
}

fn too_large() -> Error {
    let message = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

fn too_many_dimensions(count: usize) -> Error {
    let message = format!("number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ColumnType;
    use crate::text_format::TextContext;

    fn there_and_back(element: DataType, text: &str) -> String {
        let context = TextContext::default();
        let array = Array::parse(ColumnType::plain(element), text, &context).unwrap();
        let mut binary = Vec::new();
        array.write_binary(element, &context, &mut binary);
        let again = Array::parse_binary(ColumnType::plain(element), &binary, &context).unwrap();
        assert_eq!(again.order(&array), Ordering::Equal);
        let mut shown = Vec::new();
        again.write(&context, &mut shown);
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn arrays_go_there_and_back() {
        for (element, text, shown) in [
            (DataType::Int4, "{}", "{}"),
            (DataType::Int4, " { 1, -2 ,NULL,null } ", "{1,-2,NULL,NULL}"),
            (
                DataType::Text,
                r#"{a, b c ,"",  "null","x\"y\\z",\ ,gr ü n}"#,
                r#"{a,"b c","","null","x\"y\\z"," ","gr ü n"}"#,
            ),
            (DataType::Text, "{nul, \"{\",\"a,b\"}", "{nul,\"{\",\"a,b\"}"),
            (DataType::Bool, "{t,false}", "{t,f}"),
            (DataType::Int4, "{{1,2},{3, NULL}}", "{{1,2},{3,NULL}}"),
            (DataType::Int4, " [0:1] = {1,2}", "[0:1]={1,2}"),
            (DataType::Int4, "[1:2][-1:0]={{1,2},{3,4}}", "[1:2][-1:0]={{1,2},{3,4}}"),
            (DataType::Int4, "[1:2]={1,2}", "{1,2}"),
        ] {
            assert_eq!(there_and_back(element, text), shown, "{text}");
        }
    }

    /// Messages and details as PostgreSQL 15 gives them.
    #[test]
    fn malformed_literals_are_refused() {
        for (text, detail) in [
            ("", "Array value must start with \"{\" or dimension information."),
            ("1,2", "Array value must start with \"{\" or dimension information."),
            ("{1,2", "Unexpected end of input."),
            ("{1,\"2}", "Unexpected end of input."),
            ("{1,}", "Unexpected \"}\" character."),
            ("{,1}", "Unexpected \",\" character."),
            ("{1}2", "Junk after closing right brace."),
            ("{{1},2}", "Unexpected array element."),
            ("{1,{2}}", "Unexpected \"{\" character."),
            (
                "{{1,2},{3}}",
                "Multidimensional arrays must have sub-arrays with matching dimensions.",
            ),
            ("[1:2]={1}", "Specified array dimensions do not match array contents."),
            ("[1:2]{1,2}", "Missing \"=\" after array dimensions."),
        ] {
            let error = Array::parse(ColumnType::plain(DataType::Int4), text, &TextContext::default()).unwrap_err();
            assert_eq!(error.code(), SqlState::INVALID_TEXT_REPRESENTATION, "{text}");
            assert_eq!(error.message(), format!("malformed array literal: \"{text}\""));
            assert_eq!(error.fields().detail.as_deref(), Some(detail), "{text}");
        }
        let error = Array::parse(ColumnType::plain(DataType::Int4), "{1,x}", &TextContext::default()).unwrap_err();
        assert_eq!(error.message(), "invalid input syntax for type integer: \"x\"");
    }

    #[test]
    fn binary_forms_that_lie_are_refused() {
        let mut binary = Vec::new();
        let array = Array::new(DataType::Int4, vec![Value::Int4(1), Value::Null]);
        let context = TextContext::default();
        array.write_binary(DataType::Int4, &context, &mut binary);
        for end in 0..binary.len() {
            assert!(Array::parse_binary(ColumnType::plain(DataType::Int4), &binary[..end], &context).is_err());
        }
        let error = Array::parse_binary(ColumnType::plain(DataType::Int8), &binary, &context).unwrap_err();
        assert_eq!(error.code(), SqlState::DATATYPE_MISMATCH);
        binary[12..16].copy_from_slice(&i32::MAX.to_be_bytes());
        assert!(Array::parse_binary(ColumnType::plain(DataType::Int4), &binary, &context).is_err());
    }
}
