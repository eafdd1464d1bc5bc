//! Queries of views for readers that do not look where they do: what they read is named with its schema, as PostgreSQL shows it.

use crate::parser::lexer::{Lexer, Token, TokenKind};

/// The query with what `schema_of` says before the names of relations, where a relation is named without a schema.
pub(super) fn qualified(query: &str, schema_of: &dyn Fn(&str) -> Option<String>) -> String {
    let tokens: Vec<Token> = std::iter::from_fn({
        let mut lexer = Lexer::new(query);
        move || lexer.next_token().ok().flatten()
    })
    .collect();
    let mut shown = String::with_capacity(query.len() + 32);
    let mut written = 0;
    let mut places = Places::default();
    for (number, token) in tokens.iter().enumerate() {
        let names_relation = places.step(query, &tokens, number);
        let schema = names_relation.then(|| schema_of(&name_of(token, query))).flatten();
        if let Some(schema) = schema {
            shown.push_str(&query[written..token.start]);
            shown.push_str(&schema);
            written = token.start;
        }
    }
    shown.push_str(&query[written..]);
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
    use super::qualified;

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
