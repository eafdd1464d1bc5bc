//! What the options of a column may not say together.

use rubato_base::{Error, Result, SqlState};
use sqlparser::ast;

/// What has been said of a column so far.
#[derive(Default)]
struct Said {
    null: bool,
    not_null: bool,
    default: bool,
    identity: bool,
    generated: bool,
}

impl Said {
    /// What is wrong with one option more; nothing if it goes with the others.
    fn add(&mut self, option: &ast::ColumnOption) -> Option<&'static str> {
        let twice = match option {
            ast::ColumnOption::Null => return self.add_nullability(false),
            ast::ColumnOption::NotNull => return self.add_nullability(true),
            ast::ColumnOption::Default(_) => {
                let twice = std::mem::replace(&mut self.default, true);
                twice.then_some("multiple default values specified")
            }
            ast::ColumnOption::Generated {
                generation_expr: None, ..
            } => {
                let twice = std::mem::replace(&mut self.identity, true);
                let twice = twice.then_some("multiple identity specifications");
                twice.or_else(|| self.add_nullability(true))
            }
            ast::ColumnOption::Generated { .. } => {
                let twice = std::mem::replace(&mut self.generated, true);
                twice.then_some("multiple generation clauses specified")
            }
            _ => return None,
        };
        twice.or(match (self.default, self.identity, self.generated) {
            (true, true, _) => Some("both default and identity specified"),
            (true, _, true) => Some("both default and generation expression specified"),
            (_, true, true) => Some("both identity and generation expression specified"),
            _ => None,
        })
    }

    fn add_nullability(&mut self, not_null: bool) -> Option<&'static str> {
        self.null |= !not_null;
        self.not_null |= not_null;
        (self.null && self.not_null).then_some("conflicting NULL/NOT NULL declarations")
    }
}

/// 42601 where something is said twice of a column, or the opposite of it.
pub(super) fn refuse_contradictions(
    options: &[ast::ColumnOptionDef],
    (column, table): (&str, &str),
    is_serial: bool,
) -> Result<()> {
    let mut said = Said {
        not_null: is_serial,
        default: is_serial,
        ..Said::default()
    };
    match options.iter().find_map(|own| said.add(&own.option)) {
        None => Ok(()),
        Some(wrong) => {
            let message = format!("{wrong} for column \"{column}\" of table \"{table}\"");
            Err(Error::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}
