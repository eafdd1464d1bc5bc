//! Literals that name relations, in the texts of views and defaults: `nextval('s')`, `'t'::regclass`.

use super::name_of_text;
use super::renaming::{Place, Renaming};
use crate::catalog::{Catalog, RelationName, Sequence, ViewQuery};
use crate::parser::lexer::{Lexer, Token, TokenKind};
use crate::schema_change::sequences_read;
use crate::system_tables::quoted;
use rubato_formula::Expr;
use std::cell::RefCell;

/// The functions whose first argument names a sequence.
pub(crate) const OF_SEQUENCES: [&str; 3] = ["nextval", "currval", "setval"];

/// A literal that is read as the name of a relation.
pub(crate) struct NamedLiteral {
    /// Its bytes, quotes included.
    pub place: Place,
    /// The name's parts.
    pub path: Vec<String>,
    /// Whether it is the argument of a function of sequences.
    pub is_of_sequence: bool,
}

/// Such literals of a text, from its beginning on.
pub(crate) fn named_literals(text: &str) -> Vec<NamedLiteral> {
    let mut lexer = Lexer::new(text);
    let tokens: Vec<Token> = std::iter::from_fn(|| lexer.next_token().ok().flatten()).collect();
    let literals = tokens.iter().enumerate();
    let literals = literals.filter(|(_, token)| token.kind == TokenKind::Text);
    literals
        .filter_map(|(number, token)| {
            let at = |number: usize| tokens.get(number);
            let before = |back: usize| at(number.checked_sub(back)?);
            let is_symbol =
                |token: Option<&Token>, symbol| token.is_some_and(|own| own.kind == TokenKind::Symbol(symbol));
            let is_word = |token: Option<&Token>, word: &str| token.is_some_and(|own| own.is(text, word));
            let is_regclass = (is_symbol(at(number + 1), b':') && is_word(at(number + 3), "regclass"))
                || (is_word(at(number + 1), "as") && is_word(at(number + 2), "regclass"));
            let is_of_sequence =
                is_symbol(before(1), b'(') && OF_SEQUENCES.iter().any(|function| is_word(before(2), function));
            let inner = token.text(text).strip_prefix('\'')?.strip_suffix('\'')?;
            let path = name_of_text(&inner.replace("''", "'")).ok()?;
            (is_regclass || is_of_sequence).then_some(NamedLiteral {
                place: (token.start, token.end),
                path,
                is_of_sequence,
            })
        })
        .collect()
}

/// The text with what `name_of` gives for such literals as their names.
pub(crate) fn with_named_literals(text: &str, name_of: &dyn Fn(&NamedLiteral) -> Option<String>) -> String {
    let mut written = String::with_capacity(text.len() + 32);
    let mut end = 0;
    for literal in named_literals(text) {
        if let Some(name) = name_of(&literal) {
            written.push_str(&text[end..literal.place.0]);
            written.push_str(&as_literal(&name));
            end = literal.place.1;
        }
    }
    written.push_str(&text[end..]);
    written
}

/// The text of a default, which knows its sequences by number, with their names as `written` says them.
pub(crate) fn with_sequences(
    text: &str,
    default: &Expr,
    catalog: &Catalog,
    written: &dyn Fn(&Sequence) -> String,
) -> String {
    let numbers = sequences_read(default);
    let named = named_literals(text);
    if named.iter().filter(|literal| literal.is_of_sequence).count() != numbers.len() {
        return text.to_owned();
    }
    let by_number = |number: u32| catalog.sequences.values().find(|sequence| sequence.id == number);
    // Both are in the order of the text; names may have changed since it was written.
    let numbers = RefCell::new(numbers.into_iter());
    with_named_literals(text, &|literal| {
        let number = literal.is_of_sequence.then(|| numbers.borrow_mut().next()).flatten()?;
        by_number(number).map(|own| written(own))
    })
}

/// What a literal of a view's text names; `None` if the view does not read it.
fn meant(query: &ViewQuery, catalog: &Catalog, path: &[String]) -> Option<RelationName> {
    match path {
        [name] => query.meant(name).cloned(),
        [.., schema, name] => {
            let named = RelationName::new(catalog.schema_id(schema)?, name.as_str());
            query.reads(&named, None).then_some(named)
        }
        [] => None,
    }
}

/// How the literals of a view's text change with a renaming.
pub(super) fn renamed_literals(
    query: &ViewQuery,
    (before, after): (&Catalog, &Catalog),
    renaming: &Renaming<'_>,
) -> Vec<(Place, String)> {
    let change = |literal: NamedLiteral| {
        let own = meant(query, before, &literal.path)?;
        let (schema, name) = match renaming {
            // With its schema, so that nothing else is found.
            Renaming::Relation { from, to } if own == **from => (after.schema_name(to.schema), &to.name),
            Renaming::Schema { schema, to } if own.schema == *schema && literal.path.len() > 1 => {
                ((*to).into(), &own.name)
            }
            _ => return None,
        };
        let name = format!("{}.{}", quoted(&schema), quoted(name));
        Some((literal.place, as_literal(&name)))
    };
    named_literals(&query.text).into_iter().filter_map(change).collect()
}

fn as_literal(name: &str) -> String {
    format!("'{}'", name.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::with_named_literals;

    #[test]
    fn literals_that_name_relations_are_found_and_no_others() {
        let name_of = |literal: &super::NamedLiteral| Some(format!("w.{}", literal.path.join(".")));
        for (text, wanted) in [
            ("nextval('s') + 1", "nextval('w.s') + 1"),
            ("setval('s'::regclass, 5)", "setval('w.s'::regclass, 5)"),
            (
                "CAST('t' AS REGCLASS)::TEXT || 't'",
                "CAST('w.t' AS REGCLASS)::TEXT || 't'",
            ),
            ("upper('nextval(''s'')')", "upper('nextval(''s'')')"),
            ("'\"T\"'::REGCLASS::TEXT", "'w.T'::REGCLASS::TEXT"),
        ] {
            assert_eq!(with_named_literals(text, &name_of), wanted);
        }
    }
}
