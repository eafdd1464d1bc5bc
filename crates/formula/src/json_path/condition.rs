//! Conditions, which are true, false or unknown.

use super::compare::compare;
use super::item::Item;
use super::walk::{Failure, Scope, Walk};
use crate::functions::matches_pattern;
use rubato_base::Result;
use rubato_base::json::path::{BinaryOperator, RegexFlags, Step, UnaryOperator};

/// `None` where it is unknown.
type Truth = Option<bool>;
type Judged = std::result::Result<Truth, Failure>;

/// The flags of our own for those of `like_regex`.
fn own_flags(flags: RegexFlags) -> String {
    let letters = [
        (flags.ignores_case, 'i'),
        (flags.is_quoted, 'q'),
        (!flags.dot_is_all && !flags.is_quoted, 'p'),
        (flags.has_lines && !flags.is_quoted, 'w'),
    ];
    letters
        .into_iter()
        .filter_map(|(is_set, letter)| is_set.then_some(letter))
        .collect()
}

/// Whether every regular expression in a chain is one. 2201B.
pub(super) fn check_patterns(chain: &[Step]) -> Result<()> {
    chain.iter().try_for_each(|step| match step {
        Step::LikeRegex {
            operand,
            pattern,
            flags,
        } => {
            matches_pattern("", pattern, &own_flags(*flags))?;
            check_patterns(operand)
        }
        Step::Binary(_, left, right) => {
            check_patterns(left)?;
            check_patterns(right)
        }
        Step::Unary(_, operand) | Step::Filter(operand) => check_patterns(operand),
        Step::Items(items) => items.iter().try_for_each(|(from, until)| {
            check_patterns(from)?;
            until.as_ref().map_or(Ok(()), |until| check_patterns(until))
        }),
        _ => Ok(()),
    })
}

/// A failure that concerns the document makes unknown what depends on it.
fn known<T>(result: std::result::Result<T, Failure>) -> std::result::Result<Option<T>, Failure> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(failure) if failure.is_soft => Ok(None),
        Err(failure) => Err(failure),
    }
}

impl<'a> Walk<'a> {
    /// Judges a condition about an item.
    pub(super) fn condition(&mut self, step: &'a Step, item: &Item<'a>, scope: Scope<'_, 'a>) -> Judged {
        match step {
            Step::Binary(BinaryOperator::And, left, right) => {
                let left = self.inner(left, item, scope)?;
                if left == Some(false) {
                    return Ok(left);
                }
                let right = self.inner(right, item, scope)?;
                Ok(if right == Some(true) { left } else { right })
            }
            Step::Binary(BinaryOperator::Or, left, right) => {
                let left = self.inner(left, item, scope)?;
                if left == Some(true) {
                    return Ok(left);
                }
                let right = self.inner(right, item, scope)?;
                Ok(if right == Some(false) { left } else { right })
            }
            Step::Binary(BinaryOperator::StartsWith, left, right) => self.judge(
                left,
                Some(right),
                item,
                scope,
                (false, |_, left, right| {
                    Ok(left
                        .string()
                        .zip(right.and_then(Item::string))
                        .map(|(text, start)| text.starts_with(start)))
                }),
            ),
            Step::Binary(operator, left, right) => self.judge(
                left,
                Some(right),
                item,
                scope,
                (true, |walk, left, right| {
                    right.map_or(Ok(None), |right| compare(walk, *operator, left, right))
                }),
            ),
            Step::Unary(UnaryOperator::Not, operand) => Ok(self.inner(operand, item, scope)?.map(|truth| !truth)),
            Step::Unary(UnaryOperator::IsUnknown, operand) => Ok(Some(self.inner(operand, item, scope)?.is_none())),
            Step::Unary(UnaryOperator::Exists, operand) => self.exists(operand, item, scope),
            Step::LikeRegex {
                operand,
                pattern,
                flags,
            } => {
                let flags = own_flags(*flags);
                self.judge(
                    operand,
                    None,
                    item,
                    scope,
                    (false, |_, item, _| {
                        let found = item.string().map(|text| matches_pattern(text, pattern, &flags));
                        Ok(found.transpose()?)
                    }),
                )
            }
            _ => Ok(None),
        }
    }

    /// A condition within one.
    fn inner(&mut self, chain: &'a [Step], item: &Item<'a>, scope: Scope<'_, 'a>) -> Judged {
        chain.first().map_or(Ok(None), |step| self.condition(step, item, scope))
    }

    fn exists(&mut self, operand: &'a [Step], item: &Item<'a>, scope: Scope<'_, 'a>) -> Judged {
        if self.lax {
            return known(self.steps(operand, item, scope, None));
        }
        let found = known(self.values(operand, item, scope, false))?;
        Ok(found.map(|found| !found.is_empty()))
    }

    /// Judges each value on the left with each on the right. A lax path takes the first that holds, a strict one looks at all.
    fn judge(
        &mut self,
        left: &'a [Step],
        right: Option<&'a [Step]>,
        item: &Item<'a>,
        scope: Scope<'_, 'a>,
        (unwraps_right, judge): (bool, impl Fn(&Walk<'a>, &Item<'a>, Option<&Item<'a>>) -> Judged),
    ) -> Judged {
        let Some(left) = known(self.values(left, item, scope, true))? else {
            return Ok(None);
        };
        let right: Vec<Option<Item<'a>>> = match right {
            Some(right) => match known(self.values(right, item, scope, unwraps_right))? {
                Some(right) => right.into_iter().map(Some).collect(),
                None => return Ok(None),
            },
            None => vec![None],
        };
        let (mut is_unknown, mut is_true) = (false, false);
        for left in &left {
            for right in &right {
                match judge(self, left, right.as_ref())? {
                    Some(true) if self.lax => return Ok(Some(true)),
                    None if !self.lax => return Ok(None),
                    Some(true) => is_true = true,
                    None => is_unknown = true,
                    Some(false) => {}
                }
            }
        }
        Ok(if is_true || !is_unknown { Some(is_true) } else { None })
    }
}
