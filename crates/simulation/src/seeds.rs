//! Seeds: each is run and judged; a failing one is made as small as it stays failing.

use crate::check::Violation;
use crate::plan::Planned;
use crate::world::Report;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Smaller plans tried for one failing seed.
const SHRINKING_MAX: usize = 400;

/// Runs a plan; a panic of the node is a violation like any other.
pub fn run<P: Planned>(plan: &P, keeps_text: bool) -> Report {
    let ran = catch_unwind(AssertUnwindSafe(|| plan.run(keeps_text)));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Report {
            violations: vec![Violation::new("panic", text.unwrap_or_default())],
            undecided: false,
            history: Default::default(),
            coverage: Default::default(),
            trace: Default::default(),
        }
    })
}

/// The smallest plan found that fails in the same way as this one, and its report.
pub fn shrink<P: Planned>(plan: &P, report: Report) -> (P, Report) {
    let kind = |report: &Report| report.violations.first().map(|violation| violation.kind);
    let wanted = kind(&report);
    let (mut plan, mut report) = (plan.clone(), report);
    let mut tried = 0;
    'smaller: loop {
        for smaller in plan.smaller() {
            tried += 1;
            if tried > SHRINKING_MAX {
                return (plan, report);
            }
            let again = run(&smaller, false);
            if kind(&again) == wanted {
                (plan, report) = (smaller, again);
                continue 'smaller;
            }
        }
        return (plan, report);
    }
}
