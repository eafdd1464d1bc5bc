//! Cutting a script into statements.

use super::lexer::{Lexer, TokenKind, character_position};
use rubato_base::Result;

/// One statement of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Its text without the semicolon.
    pub text: &'a str,
    /// How many characters of the script stand before it: what error positions must be moved by.
    pub characters_before: u32,
}

/// Cuts the text of one or more statements at its semicolons. Pieces without any token are left out; a script without any
/// statement gives no piece. 42601 if a quote or comment does not end.
pub fn split_script(sql: &str) -> Result<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut lexer = Lexer::new(sql);
    let mut first: Option<usize> = None;
    let mut end = 0;
    loop {
        match lexer.next_token()? {
            Some(token) if token.kind == TokenKind::Symbol(b';') => {
                pieces.extend(first.take().map(|start| piece(sql, start, end)));
            }
            Some(token) => {
                first.get_or_insert(token.start);
                end = token.end;
            }
            None => {
                pieces.extend(first.map(|start| piece(sql, start, end)));
                return Ok(pieces);
            }
        }
    }
}

fn piece(sql: &str, start: usize, end: usize) -> Piece<'_> {
    Piece {
        text: &sql[start..end],
        characters_before: character_position(sql, start) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_and_where_they_start() {
        let texts = |sql| {
            split_script(sql)
                .unwrap()
                .into_iter()
                .map(|p| (p.text, p.characters_before))
                .collect::<Vec<_>>()
        };
        assert_eq!(texts("select 1"), [("select 1", 0)]);
        assert_eq!(
            texts(" é ; select ';' -- ;\n ; ; select $$;$$ "),
            [("é", 1), ("select ';'", 5), ("select $$;$$", 26)]
        );
        assert_eq!(texts(" ; -- nothing"), []);
        assert!(split_script("select 'a").is_err());
    }
}
