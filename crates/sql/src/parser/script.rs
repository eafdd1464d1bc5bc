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
    /// Where in the script its semicolon stands, if it has one.
    pub semicolon: Option<u32>,
}

/// Cuts the text of one or more statements at its semicolons. Pieces without any token are left out; a script without any
/// statement gives no piece. 42601 if a quote or comment does not end.
pub fn split_script(sql: &str) -> Result<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut lexer = Lexer::new(sql);
    let mut positions = Positions {
        sql,
        byte: 0,
        character: 0,
    };
    let mut first: Option<usize> = None;
    let mut end = 0;
    loop {
        match lexer.next_token()? {
            Some(token) if token.kind == TokenKind::Symbol(b';') => {
                let semicolon = Some(token.start);
                pieces.extend(first.take().map(|start| piece(&mut positions, start, end, semicolon)));
            }
            Some(token) => {
                first.get_or_insert(token.start);
                end = token.end;
            }
            None => {
                pieces.extend(first.map(|start| piece(&mut positions, start, end, None)));
                return Ok(pieces);
            }
        }
    }
}

/// Counts the characters before bytes of a script that are asked for in order: once through the script, however many pieces it has.
struct Positions<'a> {
    sql: &'a str,
    byte: usize,
    character: u32,
}

impl Positions<'_> {
    /// How many characters stand before `byte`, which is not before the last one asked for.
    fn before(&mut self, byte: usize) -> u32 {
        self.character += character_position(&self.sql[self.byte..byte], byte - self.byte) - 1;
        self.byte = byte;
        self.character
    }
}

fn piece<'a>(positions: &mut Positions<'a>, start: usize, end: usize, semicolon: Option<usize>) -> Piece<'a> {
    Piece {
        text: &positions.sql[start..end],
        characters_before: positions.before(start),
        semicolon: semicolon.map(|at| positions.before(at) + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_have_their_places() {
        let places = |sql| {
            split_script(sql)
                .unwrap()
                .iter()
                .map(|p| p.semicolon)
                .collect::<Vec<_>>()
        };
        assert_eq!(places("select 1"), [None]);
        assert_eq!(places(" é ; select 'é' ;select 2"), [Some(4), Some(17), None]);
    }

    #[test]
    fn a_script_of_many_statements_is_cut_in_one_go() {
        let many = "select 'é';".repeat(400_000);
        let pieces = split_script(&many).unwrap();
        assert_eq!(pieces.len(), 400_000);
        assert_eq!(pieces[399_999].characters_before, 399_999 * 11);
    }

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
