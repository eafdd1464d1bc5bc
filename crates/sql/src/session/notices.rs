//! What a client is told beside its answers: notices and warnings, as far as `client_min_messages` wants them.

use super::Session;
use crate::client::Responder;
use crate::parser::lexer::{Lexer, TokenKind};
use rubato_base::{Error, NAME_BYTES_MAX, SqlState, name_up_to};

impl Session {
    /// Tells the client something, unless it wants to hear of graver things only.
    pub(super) fn tell(&self, severity: &'static str, what: &Error, responder: &mut dyn Responder) {
        let wanted = self.settings.get("client_min_messages");
        let is_wanted = match wanted.as_deref() {
            Some("error") => false,
            Some("warning") => severity != "NOTICE",
            _ => true,
        };
        if is_wanted {
            responder.notice(severity, what);
        }
    }

    pub(super) fn warn_without_block(&self, command: &str, responder: &mut dyn Responder) {
        let message = format!("{command} can only be used in transaction blocks");
        let warning = Error::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message);
        self.tell("WARNING", &warning, responder);
    }

    /// Tells of the names in a text that are longer than names are: they are cut. The node of the client does.
    pub(super) fn tell_long_names(&self, sql: &str, responder: &mut dyn Responder) {
        if self.is_hosted || !may_have_long_name(sql) {
            return;
        }
        for name in long_names(sql) {
            let kept = name_up_to(&name, NAME_BYTES_MAX);
            let message = format!("identifier \"{name}\" will be truncated to \"{kept}\"");
            self.tell("NOTICE", &Error::new(SqlState::NAME_TOO_LONG, message), responder);
        }
    }
}

/// Whether some word, or what stands between two quotes, is longer than a name: seldom, and found out without taking the text apart.
fn may_have_long_name(sql: &str) -> bool {
    let (mut word, mut quoted) = (0, None);
    sql.len() > NAME_BYTES_MAX
        && sql.bytes().any(|byte| {
            let is_of_word = byte.is_ascii_alphanumeric() || byte >= 0x80 || matches!(byte, b'_' | b'$');
            word = if is_of_word { word + 1 } else { 0 };
            quoted = match byte {
                b'"' => Some(0),
                _ => quoted.map(|since| since + 1),
            };
            word > NAME_BYTES_MAX || quoted.is_some_and(|since| since > NAME_BYTES_MAX)
        })
}

fn long_names(sql: &str) -> Vec<String> {
    let mut lexer = Lexer::new(sql);
    let mut names = Vec::new();
    while let Ok(Some(token)) = lexer.next_token() {
        let text = token.text(sql);
        let name = match token.kind {
            TokenKind::Word if text.len() > NAME_BYTES_MAX => text.to_ascii_lowercase(),
            TokenKind::QuotedWord if text.len() > NAME_BYTES_MAX => text[1..text.len() - 1].replace("\"\"", "\""),
            _ => continue,
        };
        if name.len() > NAME_BYTES_MAX {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_found_wherever_they_stand() {
        let (long, fits) = ("Ab".repeat(32), "Ab".repeat(31));
        let found = |sql: &str| match may_have_long_name(sql) {
            true => long_names(sql),
            false => Vec::new(),
        };
        assert_eq!(found(&format!("select 1 as {fits}")), [""; 0]);
        assert_eq!(found(&format!("select '{long}', \"{fits}\" -- {long}")), [""; 0]);
        assert_eq!(found(&format!("select 1 as {long}")), ["ab".repeat(32)]);
        assert_eq!(found(&format!("select 1 as \"{long} \"\"\"")), [format!("{long} \"")]);
        assert_eq!(
            found(&format!("select 1 as \"{}\"", "a b ".repeat(17))),
            ["a b ".repeat(17)]
        );
    }
}
