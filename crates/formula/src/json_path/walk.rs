//! The walk along a chain of steps.

use super::Query;
use super::item::{Item, Part};
use rubato_base::json::path::{BinaryOperator, Chain, JsonPath, LEVEL_LAST, Method, Step, UnaryOperator};
use rubato_base::text_format::TextContext;
use rubato_base::{Error, Json, Numeric, SqlState};

/// Why a walk ended before its end.
pub(super) struct Failure {
    pub error: Error,
    /// Whether it concerns the document: such a failure makes a condition unknown, and a silent query keeps quiet about it.
    pub is_soft: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error, is_soft: false }
    }
}

pub(super) fn soft(state: SqlState, message: impl Into<String>) -> Failure {
    Failure {
        error: Error::new(state, message),
        is_soft: true,
    }
}

/// Whether something was found.
pub(super) type Found = std::result::Result<bool, Failure>;
/// Where results are collected; without it only whether there is one is of interest.
pub(super) type Out<'o, 'a> = Option<&'o mut Vec<Item<'a>>>;

/// What is around a step.
#[derive(Clone, Copy)]
pub(super) struct Scope<'s, 'a> {
    /// What `@` stands for.
    pub current: &'s Item<'a>,
    /// The size of the array whose subscripts are looked at.
    pub size: Option<usize>,
    /// Whether what does not fit the shape of the path is passed by.
    pub forgiving: bool,
}

/// One walk over one document.
pub(super) struct Walk<'a> {
    pub root: Item<'a>,
    pub variables: Option<&'a Json>,
    pub lax: bool,
    pub uses_time_zone: bool,
    pub text: &'a TextContext,
    /// Whether places in documents are of interest.
    pub with_places: bool,
    /// The number of the next document that is made.
    pub next_number: i64,
}

/// Whether a method that shows places is anywhere in the chain.
fn shows_places(chain: &[Step]) -> bool {
    chain.iter().any(|step| match step {
        Step::Method(method) => *method == Method::KeyValue,
        Step::Binary(_, left, right) => shows_places(left) || shows_places(right),
        Step::Unary(_, operand) | Step::Filter(operand) | Step::LikeRegex { operand, .. } => shows_places(operand),
        Step::Items(items) => items
            .iter()
            .any(|(from, until)| shows_places(from) || until.as_ref().is_some_and(|until| shows_places(until))),
        _ => false,
    })
}

impl<'a> Walk<'a> {
    pub fn new(query: &'a Query<'_>, path: &'a JsonPath, text: &'a TextContext) -> Walk<'a> {
        Walk {
            root: Item::Part(Part::whole(query.document, 0)),
            variables: query.variables,
            lax: !path.strict,
            uses_time_zone: query.uses_time_zone,
            text,
            with_places: shows_places(&path.chain),
            next_number: if query.variables.is_some() { 2 } else { 1 },
        }
    }

    /// Walks from the document.
    pub fn whole(&mut self, chain: &'a [Step], out: Out<'_, 'a>) -> Found {
        let root = self.root.clone();
        let scope = Scope {
            current: &root,
            size: None,
            forgiving: self.lax,
        };
        self.steps(chain, &root, scope, out)
    }

    /// Takes the first of these steps, and goes on.
    pub fn steps(&mut self, steps: &'a [Step], item: &Item<'a>, scope: Scope<'_, 'a>, out: Out<'_, 'a>) -> Found {
        self.step(steps, item, scope, out, self.lax)
    }

    /// What is behind the first of these steps; if nothing is, this is a result.
    pub fn next(&mut self, steps: &'a [Step], item: Item<'a>, scope: Scope<'_, 'a>, out: Out<'_, 'a>) -> Found {
        match steps.get(1..) {
            Some(rest) if !rest.is_empty() => self.steps(rest, &item, scope, out),
            _ => {
                if let Some(out) = out {
                    out.push(item);
                }
                Ok(true)
            }
        }
    }

    /// Whether nobody wants to know the value that comes of the first of these steps.
    pub fn is_enough(steps: &[Step], out: &Out<'_, 'a>) -> bool {
        steps.len() <= 1 && out.is_none()
    }

    /// The first step, within the elements of an array if `unwraps`.
    fn step(
        &mut self,
        steps: &'a [Step],
        item: &Item<'a>,
        scope: Scope<'_, 'a>,
        out: Out<'_, 'a>,
        unwraps: bool,
    ) -> Found {
        let Some(first) = steps.first() else { return Ok(false) };
        let unwraps = unwraps && item.is_array();
        match first {
            Step::Null => self.constant(Json::Null, steps, scope, out),
            Step::Bool(truth) => self.constant(Json::Bool(*truth), steps, scope, out),
            Step::Number(number) => self.constant(Json::Number(number.clone()), steps, scope, out),
            Step::String(text) => self.constant(Json::String(text.clone()), steps, scope, out),
            Step::Variable(name) => {
                let variable = self.variable(name)?;
                self.next(steps, variable, scope, out)
            }
            Step::Root => {
                let root = self.root.clone();
                self.next(steps, root, scope, out)
            }
            Step::Current => self.next(steps, scope.current.clone(), scope, out),
            Step::Last => match scope.size {
                Some(size) => self.constant(Json::Number(Numeric::from_i64(size as i64 - 1)), steps, scope, out),
                None => Err(Error::internal("evaluating jsonpath LAST outside of array subscript").into()),
            },
            Step::Binary(operator, left, right) if is_arithmetic(*operator) => {
                self.arithmetic(steps, (*operator, left, right), item, scope, out)
            }
            Step::Unary(UnaryOperator::Plus | UnaryOperator::Minus, operand) => {
                self.sign(steps, operand, item, scope, out)
            }
            Step::Binary(..) | Step::Unary(..) | Step::LikeRegex { .. } => {
                let truth = self.condition(first, item, scope)?;
                let json = truth.map_or(Json::Null, Json::Bool);
                self.constant(json, steps, scope, out)
            }
            Step::AnyItem => self.any_item(steps, item, scope, out),
            Step::AnyKey => match item.part() {
                Some(part) if matches!(**part, Json::Object(_)) => {
                    self.descend(&steps[1..], part, scope, out, (1, 1), self.lax)
                }
                _ if unwraps => self.within(steps, item, scope, out),
                _ => misfit(scope, SqlState::JSON_OBJECT_NOT_FOUND, || {
                    "jsonpath wildcard member accessor can only be applied to an object".to_owned()
                }),
            },
            Step::AnyLevel(first, last) => self.any_level(steps, item, scope, out, (*first, *last)),
            Step::Items(subscripts) => self.items(steps, subscripts, item, scope, out),
            Step::Key(key) => self.key(steps, key, item, scope, (out, unwraps)),
            _ if unwraps && !matches!(first, Step::Method(Method::Type | Method::Size)) => {
                self.within(steps, item, scope, out)
            }
            Step::Filter(condition) => {
                let inner = Scope { current: item, ..scope };
                match condition.first() {
                    Some(condition) if self.condition(condition, item, inner)? == Some(true) => {
                        self.next(steps, item.clone(), scope, out)
                    }
                    _ => Ok(false),
                }
            }
            Step::Method(method) => self.method(steps, *method, item, scope, out),
            Step::Datetime(template) => self.datetime(steps, template.as_deref(), item, scope, out),
        }
    }

    /// A value that the step has by itself.
    fn constant(&mut self, json: Json, steps: &'a [Step], scope: Scope<'_, 'a>, out: Out<'_, 'a>) -> Found {
        if Self::is_enough(steps, &out) {
            return Ok(true);
        }
        self.next(steps, Item::scalar(json), scope, out)
    }

    fn variable(&self, name: &str) -> std::result::Result<Item<'a>, Failure> {
        let found = self
            .variables
            .and_then(|variables| Part::whole(variables, 1).field(name, self.with_places));
        found.map(Item::Part).ok_or_else(|| {
            let message = format!("could not find jsonpath variable \"{name}\"");
            Error::new(SqlState::UNDEFINED_OBJECT, message).into()
        })
    }

    /// The first step for each element of the array.
    pub fn within(&mut self, steps: &'a [Step], item: &Item<'a>, scope: Scope<'_, 'a>, out: Out<'_, 'a>) -> Found {
        match item.part() {
            Some(part) => self.descend(steps, part, scope, out, (1, 1), false),
            None => Ok(false),
        }
    }

    fn any_item(&mut self, steps: &'a [Step], item: &Item<'a>, scope: Scope<'_, 'a>, out: Out<'_, 'a>) -> Found {
        match item.part() {
            Some(part) if item.is_array() => self.descend(&steps[1..], part, scope, out, (1, 1), self.lax),
            // A single value is taken for an array of it.
            _ if self.lax => self.next(steps, item.clone(), scope, out),
            _ => misfit(scope, SqlState::JSON_ARRAY_NOT_FOUND, || {
                "jsonpath wildcard array accessor can only be applied to an array".to_owned()
            }),
        }
    }

    fn any_level(
        &mut self,
        steps: &'a [Step],
        item: &Item<'a>,
        scope: Scope<'_, 'a>,
        mut out: Out<'_, 'a>,
        levels: (u32, u32),
    ) -> Found {
        let forgiving = Scope {
            forgiving: true,
            ..scope
        };
        let mut found = false;
        if levels.0 == 0 {
            found = self.next(steps, item.clone(), forgiving, out.as_deref_mut())?;
            if found && out.is_none() {
                return Ok(true);
            }
        }
        match item.part() {
            Some(part) => Ok(self.descend(&steps[1..], part, forgiving, out, levels, self.lax)? || found),
            None => Ok(found),
        }
    }

    /// Takes these steps from what is so many levels below, in the document's order; without steps what is there is a result.
    fn descend(
        &mut self,
        steps: &'a [Step],
        part: &Part<'a>,
        scope: Scope<'_, 'a>,
        mut out: Out<'_, 'a>,
        (first, last): (u32, u32),
        unwraps: bool,
    ) -> Found {
        let leaves_only = (first, last) == (LEVEL_LAST, LEVEL_LAST);
        let mut open = vec![part.children(self.with_places).into_iter()];
        let mut found = false;
        while let Some(level) = open.last_mut() {
            let Some(child) = level.next() else {
                open.pop();
                continue;
            };
            let depth = open.len() as u32;
            if depth > last {
                break;
            }
            let item = Item::Part(child.clone());
            if depth >= first || (leaves_only && child.is_scalar()) {
                let here = if steps.is_empty() {
                    if let Some(out) = out.as_deref_mut() {
                        out.push(item);
                    }
                    true
                } else {
                    self.step(steps, &item, scope, out.as_deref_mut(), unwraps)?
                };
                if here && out.is_none() {
                    return Ok(true);
                }
                found |= here;
            }
            if depth < last && !child.is_scalar() {
                open.push(child.children(self.with_places).into_iter());
            }
        }
        Ok(found)
    }

    fn key(
        &mut self,
        steps: &'a [Step],
        key: &str,
        item: &Item<'a>,
        scope: Scope<'_, 'a>,
        (out, unwraps): (Out<'_, 'a>, bool),
    ) -> Found {
        match item.part() {
            Some(part) if matches!(**part, Json::Object(_)) => match part.field(key, self.with_places) {
                Some(value) => self.next(steps, Item::Part(value), scope, out),
                None => misfit(scope, SqlState::JSON_MEMBER_NOT_FOUND, || {
                    format!("JSON object does not contain key \"{key}\"")
                }),
            },
            _ if unwraps => self.within(steps, item, scope, out),
            _ => misfit(scope, SqlState::JSON_MEMBER_NOT_FOUND, || {
                "jsonpath member accessor can only be applied to an object".to_owned()
            }),
        }
    }

    fn items(
        &mut self,
        steps: &'a [Step],
        subscripts: &'a [(Chain, Option<Chain>)],
        item: &Item<'a>,
        scope: Scope<'_, 'a>,
        mut out: Out<'_, 'a>,
    ) -> Found {
        let array = item.part().filter(|_| item.is_array());
        if array.is_none() && !self.lax {
            return misfit(scope, SqlState::JSON_ARRAY_NOT_FOUND, || {
                "jsonpath array accessor can only be applied to an array".to_owned()
            });
        }
        let size = match array.map(|part| &**part) {
            Some(Json::Array(items)) => items.len(),
            _ => 1,
        };
        let inner = Scope {
            size: Some(size),
            ..scope
        };
        let mut found = false;
        for (from, until) in subscripts {
            let from = self.subscript(from, item, inner)?;
            let until = match until {
                Some(until) => self.subscript(until, item, inner)?,
                None => from,
            };
            if !scope.forgiving && (from < 0 || from > until || until >= size as i64) {
                let message = "jsonpath array subscript is out of bounds";
                return Err(soft(SqlState::INVALID_JSON_SUBSCRIPT, message));
            }
            for index in from.max(0)..=until.min(size as i64 - 1) {
                if Self::is_enough(steps, &out) {
                    return Ok(true);
                }
                let element = match array {
                    Some(part) => part.item(index as usize, self.with_places).map(Item::Part),
                    None => Some(item.clone()),
                };
                let Some(element) = element else { continue };
                let here = self.next(steps, element, inner, out.as_deref_mut())?;
                if here && out.is_none() {
                    return Ok(true);
                }
                found |= here;
            }
        }
        Ok(found)
    }

    fn subscript(
        &mut self,
        chain: &'a [Step],
        item: &Item<'a>,
        scope: Scope<'_, 'a>,
    ) -> std::result::Result<i64, Failure> {
        let mut found = Vec::new();
        self.steps(chain, item, scope, Some(&mut found))?;
        let number = match found.as_slice() {
            [one] => one.number(),
            _ => None,
        };
        let invalid = |what: &str| {
            soft(
                SqlState::INVALID_JSON_SUBSCRIPT,
                format!("jsonpath array subscript is {what}"),
            )
        };
        let number = number.ok_or_else(|| invalid("not a single numeric value"))?;
        let whole = number
            .trunc(0)
            .to_i64()
            .ok()
            .filter(|whole| i32::try_from(*whole).is_ok());
        whole.ok_or_else(|| invalid("out of integer range"))
    }

    /// What a chain finds, the elements of arrays one by one if asked for and the path is lax.
    pub fn values(
        &mut self,
        chain: &'a [Step],
        item: &Item<'a>,
        scope: Scope<'_, 'a>,
        unwraps: bool,
    ) -> std::result::Result<Vec<Item<'a>>, Failure> {
        let mut found = Vec::new();
        self.steps(chain, item, scope, Some(&mut found))?;
        if !unwraps || !self.lax || !found.iter().any(Item::is_array) {
            return Ok(found);
        }
        let mut values = Vec::with_capacity(found.len());
        for item in found {
            match item.part().filter(|_| item.is_array()) {
                Some(array) => values.extend(array.children(self.with_places).into_iter().map(Item::Part)),
                None => values.push(item),
            }
        }
        Ok(values)
    }

    fn arithmetic(
        &mut self,
        steps: &'a [Step],
        (operator, left, right): (BinaryOperator, &'a [Step], &'a [Step]),
        item: &Item<'a>,
        scope: Scope<'_, 'a>,
        out: Out<'_, 'a>,
    ) -> Found {
        let left = self.values(left, item, scope, true)?;
        let right = self.values(right, item, scope, true)?;
        let single = |items: &[Item<'a>], side: &str| {
            match items {
                [item] => item.number().cloned(),
                _ => None,
            }
            .ok_or_else(|| {
                let symbol = operator.symbol();
                let message = format!("{side} operand of jsonpath operator {symbol} is not a single numeric value");
                soft(SqlState::SINGLETON_JSON_ITEM_REQUIRED, message)
            })
        };
        let (left, right) = (single(&left, "left")?, single(&right, "right")?);
        let result = match operator {
            BinaryOperator::Add => left.checked_add(&right),
            BinaryOperator::Subtract => left.checked_sub(&right),
            BinaryOperator::Multiply => left.checked_mul(&right),
            BinaryOperator::Divide => left.checked_div(&right),
            _ => left.checked_rem(&right),
        };
        let number = result.map_err(|error| Failure { error, is_soft: true })?;
        self.constant(Json::Number(number), steps, scope, out)
    }

    fn sign(
        &mut self,
        steps: &'a [Step],
        operand: &'a [Step],
        item: &Item<'a>,
        scope: Scope<'_, 'a>,
        mut out: Out<'_, 'a>,
    ) -> Found {
        let is_minus = matches!(steps.first(), Some(Step::Unary(UnaryOperator::Minus, _)));
        let mut found = false;
        for value in self.values(operand, item, scope, true)? {
            let is_enough = Self::is_enough(steps, &out);
            let Some(number) = value.number() else {
                if is_enough {
                    continue;
                }
                let symbol = if is_minus { "-" } else { "+" };
                let message = format!("operand of unary jsonpath operator {symbol} is not a numeric value");
                return Err(soft(SqlState::JSON_NUMBER_NOT_FOUND, message));
            };
            let number = if is_minus { number.neg() } else { number.clone() };
            let here = is_enough || self.next(steps, Item::scalar(Json::Number(number)), scope, out.as_deref_mut())?;
            if here && out.is_none() {
                return Ok(true);
            }
            found |= here;
        }
        Ok(found)
    }
}

/// Whether it makes a number of two.
fn is_arithmetic(operator: BinaryOperator) -> bool {
    use BinaryOperator::{Add, Divide, Modulo, Multiply, Subtract};
    matches!(operator, Add | Subtract | Multiply | Divide | Modulo)
}

/// What does not fit the path is passed by, or is an error.
pub(super) fn misfit(scope: Scope<'_, '_>, state: SqlState, message: impl FnOnce() -> String) -> Found {
    if scope.forgiving {
        Ok(false)
    } else {
        Err(soft(state, message()))
    }
}
