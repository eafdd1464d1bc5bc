//! The methods of items.

use super::item::{Item, Part};
use super::moment::Moment;
use super::walk::{Failure, Found, Out, Scope, Walk, misfit, soft};
use ecow::EcoString;
use rubato_base::json::path::{Method, Step};
use rubato_base::text_format::parse_text;
use rubato_base::{DataType, Json, Numeric, SqlState, Value};

fn misapplied(state: SqlState, method: Method, to: &str) -> Failure {
    let message = format!("jsonpath item method .{}() can only be applied to {to}", method.name());
    soft(state, message)
}

impl<'a> Walk<'a> {
    pub(super) fn method(
        &mut self,
        steps: &'a [Step],
        method: Method,
        item: &Item<'a>,
        scope: Scope<'_, 'a>,
        out: Out<'_, 'a>,
    ) -> Found {
        let result = match method {
            Method::Type => Json::String(EcoString::from(item.type_name())),
            Method::Size => {
                let size = match item.part().map(|part| &**part) {
                    Some(Json::Array(items)) => items.len(),
                    _ if self.lax => 1,
                    _ => {
                        return misfit(scope, SqlState::JSON_ARRAY_NOT_FOUND, || {
                            "jsonpath item method .size() can only be applied to an array".to_owned()
                        });
                    }
                };
                Json::Number(Numeric::from_i64(size as i64))
            }
            Method::Double => Json::Number(self.double(item)?),
            Method::KeyValue => return self.key_values(steps, item, scope, out),
            Method::Ceiling | Method::Floor | Method::Abs => {
                let number = item
                    .number()
                    .ok_or_else(|| misapplied(SqlState::NON_NUMERIC_JSON_ITEM, method, "a numeric value"))?;
                Json::Number(match method {
                    Method::Ceiling => number.ceil(),
                    Method::Floor => number.floor(),
                    _ => number.abs(),
                })
            }
        };
        self.next(steps, Item::scalar(result), scope, out)
    }

    /// The number, or the number that a string says, within the range of floats.
    fn double(&self, item: &Item<'a>) -> std::result::Result<Numeric, Failure> {
        let state = SqlState::NON_NUMERIC_JSON_ITEM;
        let float = |text: &str| match parse_text(DataType::Float8, -1, text, self.text) {
            Ok(Value::Float8(float)) => Some(float),
            _ => None,
        };
        if let Some(number) = item.number() {
            let mut text = Vec::new();
            number.write_text(&mut text);
            let message =
                "numeric argument of jsonpath item method .double() is out of range for type double precision";
            float(&String::from_utf8_lossy(&text)).ok_or_else(|| soft(state, message))?;
            return Ok(number.clone());
        }
        let text = item
            .string()
            .ok_or_else(|| misapplied(state, Method::Double, "a string or numeric value"))?;
        let message = "string argument of jsonpath item method .double() is not a valid representation of a double precision number";
        let value = float(text).filter(|value| value.is_finite());
        Ok(Numeric::from_f64(value.ok_or_else(|| soft(state, message))?))
    }

    /// An object for each pair of an object.
    fn key_values(&mut self, steps: &'a [Step], item: &Item<'a>, scope: Scope<'_, 'a>, mut out: Out<'_, 'a>) -> Found {
        let object = item.part().and_then(|part| match &**part {
            Json::Object(pairs) => Some((pairs, part.place)),
            _ => None,
        });
        let (pairs, place) =
            object.ok_or_else(|| misapplied(SqlState::JSON_OBJECT_NOT_FOUND, Method::KeyValue, "an object"))?;
        let mut found = false;
        for (key, value) in pairs {
            if Self::is_enough(steps, &out) {
                return Ok(true);
            }
            let number = self.next_number;
            self.next_number += 1;
            let pair = Json::Object(vec![
                (EcoString::from("id"), Json::Number(Numeric::from_i64(place))),
                (EcoString::from("key"), Json::String(key.clone())),
                (EcoString::from("value"), value.clone()),
            ]);
            let here = self.next(steps, Item::Part(Part::made(pair, number)), scope, out.as_deref_mut())?;
            if here && out.is_none() {
                return Ok(true);
            }
            found |= here;
        }
        Ok(found)
    }

    pub(super) fn datetime(
        &mut self,
        steps: &'a [Step],
        template: Option<&str>,
        item: &Item<'a>,
        scope: Scope<'_, 'a>,
        out: Out<'_, 'a>,
    ) -> Found {
        let state = SqlState::INVALID_ARGUMENT_FOR_JSON_DATETIME_FUNCTION;
        let text = item.string().ok_or_else(|| {
            soft(
                state,
                "jsonpath item method .datetime() can only be applied to a string",
            )
        })?;
        let moment = match template {
            Some(template) => Moment::read(text, template).map_err(|error| Failure { error, is_soft: true })?,
            None => Moment::read_standard(text).ok_or_else(|| {
                let message = format!("datetime format is not recognized: \"{text}\"");
                let mut failure = soft(state, message);
                let hint = "Use a datetime template argument to specify the input data format.";
                failure.error = failure.error.with_hint(hint);
                failure
            })?,
        };
        self.next(steps, Item::Moment(moment), scope, out)
    }
}
