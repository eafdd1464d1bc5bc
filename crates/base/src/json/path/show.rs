//! The text of a path, as PostgreSQL writes it.

use super::{BinaryOperator, JsonPath, LEVEL_LAST, RegexFlags, Step, UnaryOperator};
use crate::json::write_string;
use ecow::EcoString;

impl JsonPath {
    /// The text form.
    pub fn to_text(&self) -> EcoString {
        let mut out = Vec::new();
        if self.strict {
            out.extend_from_slice(b"strict ");
        }
        write_chain(&self.chain, true, &mut out);
        EcoString::from(String::from_utf8_lossy(&out).as_ref())
    }
}

/// How tightly an operator binds; more for everything else.
fn priority(chain: &[Step]) -> u8 {
    use BinaryOperator as Of;
    match chain.first() {
        Some(Step::Binary(operator, ..)) => match operator {
            Of::Or => 0,
            Of::And => 1,
            Of::Add | Of::Subtract => 3,
            Of::Multiply | Of::Divide | Of::Modulo => 4,
            _ => 2,
        },
        Some(Step::Unary(UnaryOperator::Plus | UnaryOperator::Minus, _)) => 5,
        _ => 6,
    }
}

/// Appends a chain; an operator that it starts with in brackets, if asked for.
fn write_chain(chain: &[Step], brackets: bool, out: &mut Vec<u8>) {
    if let Some((start, steps)) = chain.split_first() {
        write_start(start, chain, brackets, out);
        for step in steps {
            write_step(step, out);
        }
    }
}

fn write_start(start: &Step, chain: &[Step], brackets: bool, out: &mut Vec<u8>) {
    let within = |inner: &[Step], out: &mut Vec<u8>| write_chain(inner, priority(inner) <= priority(chain), out);
    let open = |out: &mut Vec<u8>| out.extend_from_slice(if brackets { b"(" } else { b"" });
    let close = |out: &mut Vec<u8>| out.extend_from_slice(if brackets { b")" } else { b"" });
    match start {
        Step::Number(number) if chain.len() > 1 => {
            out.push(b'(');
            number.write_text(out);
            out.push(b')');
        }
        Step::Binary(operator, left, right) => {
            open(out);
            within(left, out);
            out.extend_from_slice(format!(" {} ", operator.symbol()).as_bytes());
            within(right, out);
            close(out);
        }
        Step::Unary(sign @ (UnaryOperator::Plus | UnaryOperator::Minus), operand) => {
            open(out);
            out.push(if *sign == UnaryOperator::Plus { b'+' } else { b'-' });
            within(operand, out);
            close(out);
        }
        Step::Unary(operator, operand) => {
            let (before, behind): (&[u8], &[u8]) = match operator {
                UnaryOperator::Not => (b"!(", b")"),
                UnaryOperator::IsUnknown => (b"(", b") is unknown"),
                _ => (b"exists (", b")"),
            };
            out.extend_from_slice(before);
            write_chain(operand, false, out);
            out.extend_from_slice(behind);
        }
        Step::LikeRegex {
            operand,
            pattern,
            flags,
        } => {
            open(out);
            within(operand, out);
            out.extend_from_slice(b" like_regex ");
            write_string(pattern, out);
            write_flags(*flags, out);
            close(out);
        }
        other => write_step(other, out),
    }
}

fn write_flags(flags: RegexFlags, out: &mut Vec<u8>) {
    let letters: Vec<u8> = [
        (flags.ignores_case, b'i'),
        (flags.dot_is_all, b's'),
        (flags.has_lines, b'm'),
        (flags.expanded, b'x'),
        (flags.is_quoted, b'q'),
    ]
    .into_iter()
    .filter_map(|(is_set, letter)| is_set.then_some(letter))
    .collect();
    if !letters.is_empty() {
        out.extend_from_slice(b" flag \"");
        out.extend_from_slice(&letters);
        out.push(b'"');
    }
}

fn write_step(step: &Step, out: &mut Vec<u8>) {
    match step {
        Step::Null => out.extend_from_slice(b"null"),
        Step::Bool(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
        Step::Number(number) => number.write_text(out),
        Step::String(text) => write_string(text, out),
        Step::Variable(name) => {
            out.push(b'$');
            write_string(name, out);
        }
        Step::Root => out.push(b'$'),
        Step::Current => out.push(b'@'),
        Step::Last => out.extend_from_slice(b"last"),
        Step::AnyItem => out.extend_from_slice(b"[*]"),
        Step::AnyKey => out.extend_from_slice(b".*"),
        Step::AnyLevel(first, last) => write_levels(*first, *last, out),
        Step::Key(key) => {
            out.push(b'.');
            write_string(key, out);
        }
        Step::Items(items) => {
            out.push(b'[');
            for (place, (from, until)) in items.iter().enumerate() {
                out.extend_from_slice(if place > 0 { b"," } else { b"" });
                write_chain(from, false, out);
                if let Some(until) = until {
                    out.extend_from_slice(b" to ");
                    write_chain(until, false, out);
                }
            }
            out.push(b']');
        }
        Step::Filter(condition) => {
            out.extend_from_slice(b"?(");
            write_chain(condition, false, out);
            out.push(b')');
        }
        Step::Method(method) => out.extend_from_slice(format!(".{}()", method.name()).as_bytes()),
        Step::Datetime(template) => {
            out.extend_from_slice(b".datetime(");
            if let Some(template) = template {
                write_string(template, out);
            }
            out.push(b')');
        }
        // These start chains.
        Step::Binary(..) | Step::Unary(..) | Step::LikeRegex { .. } => {}
    }
}

fn write_levels(first: u32, last: u32, out: &mut Vec<u8>) {
    let name = |level: u32| {
        if level == LEVEL_LAST {
            "last".to_owned()
        } else {
            level.to_string()
        }
    };
    let text = match (first, last) {
        (0, LEVEL_LAST) => ".**".to_owned(),
        (first, last) if first == last => format!(".**{{{}}}", name(first)),
        (first, last) => format!(".**{{{} to {}}}", name(first), name(last)),
    };
    out.extend_from_slice(text.as_bytes());
}
