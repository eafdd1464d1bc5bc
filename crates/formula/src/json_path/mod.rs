//! What a path of SQL/JSON finds in a document, by PostgreSQL's rules.
//!
//! A chain of steps is walked depth first. Where only the existence of a result is asked for, the walk ends at the first one, so that an
//! error behind it is not met: as in PostgreSQL.

mod compare;
mod condition;
mod item;
mod method;
mod moment;
mod walk;

use crate::context::EvalContext;
use item::Item;
use rubato_base::json::path::JsonPath;
use rubato_base::{Error, Json, Result, SqlState};
use walk::Walk;

/// Checks what the reading of a path does not: its regular expressions. 2201B.
pub(crate) fn check(text: &str) -> Result<()> {
    condition::check_patterns(&JsonPath::parse(text)?.chain)
}

/// A question to a document.
pub(crate) struct Query<'a> {
    /// The document.
    pub document: &'a Json,
    /// The path's text.
    pub path: &'a str,
    /// The object that has the path's variables.
    pub variables: Option<&'a Json>,
    /// Whether what does not fit the path is no error.
    pub silent: bool,
    /// Whether times with and without a zone may be compared.
    pub uses_time_zone: bool,
}

impl Query<'_> {
    /// Whether there is a result; `None` if a silent query failed.
    pub fn exists(&self, context: &EvalContext<'_>) -> Result<Option<bool>> {
        let path = JsonPath::parse(self.path)?;
        let mut walk = self.walk(&path, context)?;
        let found = if path.strict {
            // An error behind the first result counts.
            let mut items = Vec::new();
            walk.whole(&path.chain, Some(&mut items)).map(|_| !items.is_empty())
        } else {
            walk.whole(&path.chain, None)
        };
        match found {
            Ok(found) => Ok(Some(found)),
            Err(failure) => self.quietly(failure.is_soft, failure.error).map(|()| None),
        }
    }

    /// All results; of a silent query that failed those before the failure.
    pub fn results(&self, context: &EvalContext<'_>) -> Result<Vec<Json>> {
        let path = JsonPath::parse(self.path)?;
        let mut items = Vec::new();
        self.collect(&path, context, &mut items)?;
        Ok(items.into_iter().map(Item::into_json).collect())
    }

    /// The one truth value that is the result. 22038 for anything else, NULL if silent.
    pub fn matches(&self, context: &EvalContext<'_>) -> Result<Option<bool>> {
        match self.results(context)?.as_slice() {
            [Json::Bool(truth)] => Ok(Some(*truth)),
            [Json::Null] => Ok(None),
            _ if self.silent => Ok(None),
            _ => {
                let state = SqlState::SINGLETON_JSON_ITEM_REQUIRED;
                Err(Error::new(state, "single boolean result is expected"))
            }
        }
    }

    fn collect<'p>(
        &'p self,
        path: &'p JsonPath,
        context: &'p EvalContext<'_>,
        items: &mut Vec<Item<'p>>,
    ) -> Result<()> {
        match self.walk(path, context)?.whole(&path.chain, Some(items)) {
            Ok(_) => Ok(()),
            Err(failure) => self.quietly(failure.is_soft, failure.error),
        }
    }

    fn quietly(&self, is_soft: bool, error: Error) -> Result<()> {
        if self.silent && is_soft { Ok(()) } else { Err(error) }
    }

    fn walk<'p>(&'p self, path: &'p JsonPath, context: &'p EvalContext<'_>) -> Result<Walk<'p>> {
        if self
            .variables
            .is_some_and(|variables| !matches!(variables, Json::Object(_)))
        {
            let error = Error::new(SqlState::INVALID_PARAMETER_VALUE, "\"vars\" argument is not an object");
            return Err(
                error.with_detail("Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.")
            );
        }
        Ok(Walk::new(self, path, context.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(document: &str, path: &str) -> Result<usize> {
        let document = Json::parse(document)?;
        let query = Query {
            document: &document,
            path,
            variables: None,
            silent: false,
            uses_time_zone: false,
        };
        Ok(query.results(&EvalContext::constant())?.len())
    }

    /// Nothing that a client sends may take more stack than there is: what is just allowed is walked, what is deeper is refused.
    #[test]
    fn depth_is_bounded() {
        let document = format!("{}1{}", "[".repeat(900), "]".repeat(900));
        type Deep = fn(usize) -> String;
        let paths: [Deep; 7] = [
            |depth| format!("${}", "[0]".repeat(depth)),
            |depth| format!("{}1{}", "(".repeat(depth), ")".repeat(depth)),
            |depth| format!("{}$.size()", "-".repeat(depth)),
            |depth| format!("1{}", "+1".repeat(depth)),
            |depth| format!("{}1 == 1{}", "!(".repeat(depth), ")".repeat(depth)),
            |depth| format!("${}1{}", "[$".repeat(depth), "]".repeat(depth)),
            |depth| format!("${}@ == 1{}", " ? (exists(@".repeat(depth), "))".repeat(depth)),
        ];
        for path in paths {
            let refused = found(&document, &path(20_000)).map_err(|error| error.code());
            assert!(
                matches!(refused, Err(SqlState::STATEMENT_TOO_COMPLEX | SqlState::SYNTAX_ERROR)),
                "{:.20} {refused:?}",
                path(3)
            );
            for depth in [10, 100, 190, 390] {
                let _ = found(&document, &path(depth));
            }
        }
        assert_eq!(found(&document, &format!("${}", "[0]".repeat(390))), Ok(1));
        assert_eq!(found(&document, "$.**"), Ok(901));
    }
}
