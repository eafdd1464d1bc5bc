//! Queries of views for readers that do not look where they do: what they read is named with its schema, as PostgreSQL shows it.

use super::{View, quoted};
use crate::binder::types::type_by_name;
use crate::catalog::RelationName;
use crate::parser::lexer::{Lexer, Token, TokenKind};

/// The query with what `schema_of` says before the names of relations, where a relation is named without a schema.
pub(super) fn qualified(query: &str, schema_of: &dyn Fn(&str) -> Option<String>) -> String {
    let mut places = Places::default();
    with_schemas(query, schema_of, |tokens, number| places.step(query, tokens, number))
}

/// The expression or query with what `schema_of` says before the names of types in casts, where a type is named without a schema.
pub(super) fn with_qualified_types(text: &str, schema_of: &dyn Fn(&str) -> Option<String>) -> String {
    // For each open bracket whether it is that of CAST.
    let mut brackets = vec![false];
    with_schemas(text, schema_of, |tokens, number| {
        let before = |back: usize| number.checked_sub(back).map(|number| &tokens[number]);
        match tokens[number].kind {
            TokenKind::Symbol(b'(') => brackets.push(before(1).is_some_and(|token| token.is(text, "cast"))),
            TokenKind::Symbol(b')') if brackets.len() > 1 => drop(brackets.pop()),
            TokenKind::Word | TokenKind::QuotedWord => {
                let is_colon = |token: Option<&Token>| token.is_some_and(|token| token.kind == TokenKind::Symbol(b':'));
                let is_within_cast = brackets.last() == Some(&true);
                let is_named = (is_colon(before(1)) && is_colon(before(2)))
                    || (is_within_cast && before(1).is_some_and(|token| token.is(text, "as")));
                let next = tokens.get(number + 1).map(|next| next.kind);
                return is_named && next != Some(TokenKind::Symbol(b'.'));
            }
            _ => {}
        }
        false
    })
}

/// An expression or query as the reader would have to write it: enums and domains that he does not find by their names have their
/// schemas. The text says no more than was written, so that a name means the type in `public`, or else the only one.
pub(super) fn with_types(text: &str, view: &View<'_>) -> String {
    with_qualified_types(text, &|name| {
        let types = || view.catalog.enums.keys().chain(view.catalog.domains.keys());
        let mut named = types().filter(|own| own.name == name);
        let meant = match types().find(|own| **own == RelationName::public(name)) {
            Some(meant) => meant,
            None => named.next().filter(|_| named.next().is_none())?,
        };
        let found = view.path.find_type(None, name, view.catalog).ok().flatten();
        let is_hidden = found.as_ref() != Some(meant) && type_by_name(name).is_none();
        is_hidden.then(|| format!("{}.", quoted(&view.catalog.schema_name(meant.schema))))
    })
}

/// The text with what `schema_of` says before the names that `is_meant`.
fn with_schemas(
    text: &str,
    schema_of: &dyn Fn(&str) -> Option<String>,
    mut is_meant: impl FnMut(&[Token], usize) -> bool,
) -> String {
    let tokens: Vec<Token> = std::iter::from_fn({
        let mut lexer = Lexer::new(text);
        move || lexer.next_token().ok().flatten()
    })
    .collect();
    let mut shown = String::with_capacity(text.len() + 32);
    let mut written = 0;
    for (number, token) in tokens.iter().enumerate() {
        let schema = is_meant(&tokens, number)
            .then(|| schema_of(&name_of(token, text)))
            .flatten();
        if let Some(schema) = schema {
            shown.push_str(&text[written..token.start]);
            shown.push_str(&schema);
            written = token.start;
        }
    }
    shown.push_str(&text[written..]);
    shown
}

/// The name that a token is.
fn name_of(token: &Token, query: &str) -> String {
    let text = token.text(query);
    match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => text.to_ascii_lowercase(),
    }
}

/// Where in nested queries a reader stands.
struct Places {
    /// For each open bracket: the clause, outermost first.
    clauses: Vec<Clause>,
    /// Whether a relation is named next.
    expects: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Clause {
    /// No query: a list of arguments, an expression.
    None,
    /// A query outside of FROM.
    Query,
    /// FROM, in which commas and JOIN stand before relations.
    From,
}

impl Default for Places {
    fn default() -> Places {
        Places {
            clauses: vec![Clause::None],
            expects: false,
        }
    }
}

impl Places {
    /// Takes the next token: whether it is the name of a relation that has no schema yet.
    fn step(&mut self, query: &str, tokens: &[Token], number: usize) -> bool {
        let token = &tokens[number];
        let expected = std::mem::take(&mut self.expects);
        let clause = self.clauses.last().copied().unwrap_or(Clause::None);
        match token.kind {
            TokenKind::Symbol(b'(') => {
                // Joins in brackets go on naming relations.
                self.clauses.push(if expected { Clause::From } else { Clause::None });
                self.expects = expected;
            }
            TokenKind::Symbol(b')') if self.clauses.len() > 1 => {
                self.clauses.pop();
            }
            TokenKind::Symbol(b',') => self.expects = clause == Clause::From,
            TokenKind::Word if self.keyword(query, tokens, number, clause) => {}
            TokenKind::Word | TokenKind::QuotedWord => {
                let next = tokens.get(number + 1).map(|next| next.kind);
                return expected && !matches!(next, Some(TokenKind::Symbol(b'.' | b'(')));
            }
            _ => {}
        }
        false
    }

    /// Whether it is a word that begins a clause or goes before a relation.
    fn keyword(&mut self, query: &str, tokens: &[Token], number: usize, clause: Clause) -> bool {
        let is = |keyword: &str| tokens[number].is(query, keyword);
        let behind = |keyword: &str| number > 0 && tokens[number - 1].is(query, keyword);
        let next = if is("select") {
            Clause::Query
        } else if is("from") && clause == Clause::Query && !behind("distinct") || is("join") && clause == Clause::From {
            self.expects = true;
            Clause::From
        } else if ["lateral", "only"].into_iter().any(is) && clause == Clause::From {
            self.expects = true;
            clause
        } else if ENDS.into_iter().any(is) && clause == Clause::From {
            Clause::Query
        } else {
            return false;
        };
        if let Some(last) = self.clauses.last_mut() {
            *last = next;
        }
        true
    }
}

/// What may follow FROM.
const ENDS: [&str; 11] = [
    "where",
    "group",
    "having",
    "window",
    "union",
    "intersect",
    "except",
    "order",
    "limit",
    "offset",
    "fetch",
];

#[cfg(test)]
mod tests {
    use super::{qualified, with_qualified_types};

    #[test]
    fn types_of_casts_are_qualified_and_nothing_else() {
        for (text, wanted) in [
            ("m = 'ok'::mood", "m = 'ok'::public.mood"),
            ("m = ANY('{ok}'::mood[])", "m = ANY('{ok}'::public.mood[])"),
            (
                "CAST(f(m) AS \"Mood\") AS mood",
                "CAST(f(m) AS public.\"Mood\") AS mood",
            ),
            (
                "mood::text || 'x'::s.mood || '::mood'",
                "mood::text || 'x'::s.mood || '::mood'",
            ),
        ] {
            let schema_of = |name: &str| ["mood", "Mood"].contains(&name).then(|| "public.".to_owned());
            assert_eq!(with_qualified_types(text, &schema_of), wanted);
        }
    }

    #[test]
    fn relations_are_qualified_and_nothing_else() {
        for (query, wanted) in [
            (
                "SELECT a, b FROM A, \"b\" AS x",
                "SELECT a, b FROM public.A, public.\"b\" AS x",
            ),
            (
                "SELECT a.x FROM (a LEFT JOIN \"B c\" ON a.x = \"B c\".x, b) WHERE a IN (SELECT b FROM b)",
                "SELECT a.x FROM (public.a LEFT JOIN public.\"B c\" ON a.x = \"B c\".x, public.b) WHERE a IN (SELECT b FROM public.b)",
            ),
            (
                "SELECT EXTRACT(year FROM a), b IS DISTINCT FROM b FROM public.a JOIN c ON f(a, b)",
                "SELECT EXTRACT(year FROM a), b IS DISTINCT FROM b FROM public.a JOIN c ON f(a, b)",
            ),
            (
                "SELECT 'from a' FROM b GROUP BY a, b ORDER BY a, b",
                "SELECT 'from a' FROM public.b GROUP BY a, b ORDER BY a, b",
            ),
            (
                "SELECT 1 FROM a(1), (SELECT x FROM a) a, b",
                "SELECT 1 FROM a(1), (SELECT x FROM public.a) a, public.b",
            ),
        ] {
            let schema_of = |name: &str| ["a", "b", "B c"].contains(&name).then(|| "public.".to_owned());
            assert_eq!(qualified(query, &schema_of), wanted);
        }
    }
}
