//! EXPLAIN: the relay in words.
//!
//! One line for each stage that works on the statement, in the order in which the instruction travels: how it reaches its rows,
//! what it checks, and for an update what its formula is and whether it is blind, or why it must be ordered.

mod escrow;
mod json;
mod show;
mod stages;
mod way;

pub use show::show_expr;
pub use stages::relation_title;
pub use way::{NodeFigures, SliceFigures, WayFigures};

use crate::plan::Plan;

/// What one step of the pipeline did, for EXPLAIN ANALYZE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepFigures {
    /// How often the step was entered: once for the first, once a tuple of the steps before for the others.
    pub loops: u64,
    /// Rows read.
    pub rows_read: u64,
    /// Tuples that left the step.
    pub rows: u64,
    /// Time spent in it, without the other steps.
    pub time_us: u64,
}

/// What a statement did, for EXPLAIN ANALYZE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The steps of the pipeline in their order (of the target for UPDATE and DELETE). Shorter or empty where not counted.
    pub steps: Vec<StepFigures>,
    /// How an UPDATE whose plan is blind changed its rows: by blind formulas, and read to write because what was pending could have
    /// left a limit.
    pub placed: Option<(u64, u64)>,
    /// Rows returned or changed.
    pub rows: u64,
    /// The time of the whole statement.
    pub time_us: u64,
    /// Its way through stages and nodes, if that was recorded.
    pub way: Option<WayFigures>,
}

/// One stage's line and what hangs below it.
pub(crate) struct Node {
    pub stage: &'static str,
    pub title: String,
    pub details: Vec<(&'static str, String)>,
    pub figures: Option<StepFigures>,
}

/// The lines of EXPLAIN: text, or one JSON document. `named` puts the names of the users' types and labels where marks stand for them.
pub fn explain(plan: &Plan, json: bool, figures: Option<&Figures>, named: &dyn Fn(String) -> String) -> Vec<String> {
    let mut nodes = stages::nodes(plan, figures);
    for node in &mut nodes {
        node.title = named(std::mem::take(&mut node.title));
        for (_, detail) in &mut node.details {
            *detail = named(std::mem::take(detail));
        }
    }
    if json {
        json::lines(&nodes, figures)
    } else {
        text_lines(&nodes, figures)
    }
}

fn text_lines(nodes: &[Node], figures: Option<&Figures>) -> Vec<String> {
    let mut lines = Vec::new();
    for node in nodes {
        let measured = node.figures.map_or_else(String::new, |figures| {
            format!(
                " (loops {}, rows read {}, rows {}, {} us)",
                figures.loops, figures.rows_read, figures.rows, figures.time_us
            )
        });
        lines.push(format!("{}{measured}", node.title));
        lines.extend(node.details.iter().map(|(key, value)| format!("  {key}: {value}")));
    }
    if let Some(figures) = figures {
        lines.extend(figures.way.iter().flat_map(WayFigures::text_lines));
        lines.push(format!("Rows: {}", figures.rows));
        lines.push(format!("Execution Time: {:.3} ms", figures.time_us as f64 / 1000.0));
    }
    lines
}
