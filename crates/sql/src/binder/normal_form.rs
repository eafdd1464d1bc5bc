//! `normalize(text, form)` and `text IS form NORMALIZED`, whose form is a word.

use super::expression::{ExpressionBinder, boolean, not_if};
use super::typed::Typed;
use crate::parser::syntax::fold;
use rubato_base::{DataType, Result, Value};
use rubato_formula::Expr;
use sqlparser::ast;

/// Unicode's normal forms.
const FORMS: [&str; 4] = ["nfc", "nfd", "nfkc", "nfkd"];

fn form_named(name: &str) -> Typed {
    Typed::new(Expr::Literal(Value::text(name)), DataType::Text)
}

impl ExpressionBinder<'_> {
    /// A call of `normalize`.
    pub(super) fn normalised(&self, arguments: &[&ast::Expr]) -> Result<Typed> {
        let bind = |(place, argument): (usize, &&ast::Expr)| match argument {
            ast::Expr::Identifier(word) if place == 1 && FORMS.contains(&fold(word).as_str()) => {
                Ok(form_named(&fold(word)))
            }
            argument => self.bind(argument),
        };
        let arguments = arguments.iter().enumerate().map(bind).collect::<Result<_>>()?;
        self.function_call("normalize", arguments)
    }

    /// `operand IS [NOT] form NORMALIZED`
    pub(super) fn is_normalised(
        &self,
        operand: &ast::Expr,
        form: Option<ast::NormalizationForm>,
        negated: bool,
    ) -> Result<Typed> {
        let form = form.map_or_else(|| FORMS[0].to_owned(), |form| form.to_string());
        let holds = self.function_call("is_normalized", vec![self.bind(operand)?, form_named(&form)])?;
        Ok(boolean(not_if(negated, holds.expr)))
    }
}
