//! Every function against results recorded from PostgreSQL 15.

use super::Numeric;
use crate::{Error, Result};

/// The text of a result, and of an error, as the recording has it.
fn shown(result: Result<String>) -> String {
    result.unwrap_or_else(|error: Error| format!("!{error}"))
}

fn evaluate(function: &str, operands: &[String]) -> Result<String> {
    let number = |at: usize| Numeric::parse(&operands[at]);
    let whole = |at: usize| operands[at].parse::<i32>().expect("a whole number in the table");
    let text = |result: Result<Numeric>| result.map(|number| number.to_string());
    match function {
        "add" => text(number(0)?.checked_add(&number(1)?)),
        "sub" => text(number(0)?.checked_sub(&number(1)?)),
        "mul" => text(number(0)?.checked_mul(&number(1)?)),
        "div" => text(number(0)?.checked_div(&number(1)?)),
        "rem" => text(number(0)?.checked_rem(&number(1)?)),
        "div_integer" => text(number(0)?.checked_div_integer(&number(1)?)),
        "cmp" => Ok((number(0)?.cmp(&number(1)?) as i8).to_string()),
        "sqrt" => text(number(0)?.sqrt()),
        "exp" => text(number(0)?.exp()),
        "ln" => text(number(0)?.ln()),
        "log10" => text(number(0)?.log10()),
        "log" => text(number(0)?.log_of(&number(1)?)),
        "power" => text(number(0)?.power(&number(1)?)),
        "round" => Ok(number(0)?.round(whole(1)).to_string()),
        "trunc" => Ok(number(0)?.trunc(whole(1)).to_string()),
        "ceil" => Ok(number(0)?.ceil().to_string()),
        "floor" => Ok(number(0)?.floor().to_string()),
        "abs" => Ok(number(0)?.abs().to_string()),
        "sign" => Ok(number(0)?.sign().to_string()),
        "neg" => Ok(number(0)?.neg().to_string()),
        "scale" => Ok(number(0)?.scale().to_string()),
        "to_i64" => number(0)?.to_i64().map(|value| value.to_string()),
        "from_f64" => Ok(Numeric::from_f64(operands[0].parse().expect("a float in the table")).to_string()),
        "from_f32" => Ok(Numeric::from_f32(operands[0].parse().expect("a float in the table")).to_string()),
        "with_modifier" => text(number(0)?.with_modifier(whole(1) as u32, whole(2))),
        "parse" => text(number(0)),
        "parse_length" => Ok(number(0)?.to_string().len().to_string()),
        "wire" => {
            let mut bytes = Vec::new();
            number(0)?.to_wire(&mut bytes);
            let back = Numeric::from_wire(&bytes)?;
            assert_eq!(
                (back.to_string(), back.scale()),
                (number(0)?.to_string(), number(0)?.scale())
            );
            Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
        }
        _ => panic!("the table has an unknown function {function}"),
    }
}

#[test]
fn results_are_those_of_postgresql() {
    let table = include_str!("../../tests/recorded/numeric.tsv");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let mut fields: Vec<String> = line
            .split('\t')
            .map(|field| field.replace("\\t", "\t").replace("\\n", "\n").replace("\\\\", "\\"))
            .collect();
        let expected = fields.pop().expect("a result in the table");
        let function = fields.remove(0);
        // The text of a float is the business of another table; its value is compared here.
        let same = if function == "to_f64" {
            let value = Numeric::parse(&fields[0]).expect("a number in the table").to_f64();
            expected
                .parse::<f64>()
                .is_ok_and(|expected| expected == value || (expected.is_nan() && value.is_nan()))
        } else {
            shown(evaluate(&function, &fields)) == expected
        };
        seen += 1;
        if !same {
            let ours = if function == "to_f64" {
                String::new()
            } else {
                shown(evaluate(&function, &fields))
            };
            wrong.push(format!(
                "{function}({}) = {expected}\n    ours {ours}",
                fields.join(", ")
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {seen} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(seen > 2000, "the table has lost rows");
}
