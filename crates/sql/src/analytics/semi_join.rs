//! Semi-joins: the left input of a join is read first. Where other nodes have rows of the right one, the values that its rows must
//! be equal to go along with what is asked of these nodes, and rows without a partner stay where they are.
//!
//! Which values go along to which leaf is decided here; whether they are few enough is known when they have been read.

use super::leaf::is_sieved;
use super::tree::{Join, JoinMode, Leaf, Tree};
use crate::executor::ExecutionContext;
use crate::executor::sieving::is_sent;
use rubato_base::DataType;
use rubato_formula::{Expr, Volatility};
use rubato_protocol::grid::Sieve;

/// A tree with marks of what goes along.
pub(super) fn marked(mut tree: Tree, context: &ExecutionContext<'_>) -> Tree {
    Marking { context, next: 0 }.mark(&mut tree);
    tree
}

struct Marking<'a, 'c> {
    context: &'a ExecutionContext<'c>,
    /// The number of the next values.
    next: usize,
}

impl Marking<'_, '_> {
    fn mark(&mut self, tree: &mut Tree) {
        match tree {
            Tree::Leaf(_) => {}
            Tree::Filter { input, .. }
            | Tree::Project { input, .. }
            | Tree::Aggregate { input, .. }
            | Tree::Distinct { input }
            | Tree::Sort { input, .. }
            | Tree::Limit { input, .. }
            | Tree::Window { input, .. } => self.mark(input),
            Tree::Append { inputs } => inputs.iter_mut().for_each(|input| self.mark(input)),
            Tree::Join(join) => {
                self.mark(&mut join.left);
                self.mark(&mut join.right);
                self.mark_join(join);
            }
        }
    }

    fn mark_join(&mut self, join: &mut Join) {
        // What is equal is looked at in all rows: where that can fail for one of them, it does so wherever that row is.
        let can_fail = join.equal.iter().any(|(_, other)| other.can_fail());
        if !drops_right_rows(join.kind) || join.null_equals_null || can_fail {
            return;
        }
        for (own, other) in &join.equal {
            if own.volatility() == Volatility::Volatile {
                continue;
            }
            let found = leaf_of(&mut join.right, other.clone());
            if let Some(found) = found.filter(|found| self.serves(found)) {
                found.leaf.partners.push((self.next, found.own));
                join.gathers.push((self.next, own.clone()));
                self.next += 1;
            }
        }
    }

    /// Whether the leaf's rows are best asked for with the values that the expression is to have.
    fn serves(&self, found: &Found<'_>) -> bool {
        let Found { leaf, terms, own } = found;
        if !is_sieved(&leaf.select, self.context) {
            return false;
        }
        let of_column = |place: usize| leaf.types.get(place).map_or(DataType::Unknown, |own| own.data_type);
        let data_type = own.data_type(&of_column, &|_| DataType::Unknown);
        // They are equal with rounding.
        let is_float = matches!(data_type, DataType::Float4 | DataType::Float8);
        // A term that fails for a row does so whether the row has a partner or not.
        let tells_errors = terms.iter().all(|term| is_sent(term) || !term.can_fail());
        !is_float && tells_errors && Sieve::can_have(own)
    }
}

/// A leaf that an expression speaks of.
struct Found<'t> {
    leaf: &'t mut Leaf,
    /// What must be true of its rows besides.
    terms: &'t [Expr],
    /// The expression over the leaf's columns.
    own: Expr,
}

/// Whether right rows without a partner make no row of a join.
fn drops_right_rows(kind: JoinMode) -> bool {
    match kind {
        JoinMode::Inner | JoinMode::Left | JoinMode::LeftSemi | JoinMode::LeftAnti | JoinMode::RightSemi => true,
        JoinMode::Right | JoinMode::RightAnti => false,
    }
}

/// The leaf whose rows an expression over what a tree gives speaks of, if nothing else comes of leaving out rows there than that those rows
/// are missed that would be made of them: also no error that is not told.
fn leaf_of(tree: &mut Tree, own: Expr) -> Option<Found<'_>> {
    match tree {
        Tree::Leaf(leaf) => Some(Found { leaf, terms: &[], own }),
        Tree::Filter { input, terms } => match &mut **input {
            Tree::Leaf(leaf) => Some(Found { leaf, terms, own }),
            input if can_all(&*terms) => leaf_of(input, own),
            _ => None,
        },
        Tree::Project { input, exprs } => {
            let own = replaced(own, exprs).filter(|_| can_all(&*exprs))?;
            leaf_of(input, own)
        }
        Tree::Join(join) => {
            let (input, own) = side_of(join, own)?;
            leaf_of(input, own)
        }
        // Which rows these give, or what they make of them, depends on others.
        Tree::Aggregate { .. }
        | Tree::Distinct { .. }
        | Tree::Sort { .. }
        | Tree::Limit { .. }
        | Tree::Window { .. }
        | Tree::Append { .. } => None,
    }
}

/// Whether none of them can fail.
fn can_all<'e>(exprs: impl IntoIterator<Item = &'e Expr>) -> bool {
    !exprs.into_iter().any(Expr::can_fail)
}

/// An expression with what columns are in place of them; `None` if that is not known of all.
fn replaced(mut own: Expr, columns: &[Expr]) -> Option<Expr> {
    let mut is_known = true;
    own.transform(&mut |node| {
        if let Expr::Column(column) = node {
            match columns.get(*column) {
                Some(known) => *node = known.clone(),
                None => is_known = false,
            }
        }
    });
    is_known.then_some(own)
}

/// The input of a join that an expression over what it gives speaks of, if each of the join's rows is one of that input's.
fn side_of(join: &mut Join, own: Expr) -> Option<(&mut Tree, Expr)> {
    let pairs = join.equal.iter().flat_map(|(left, right)| [left, right]);
    if !can_all(pairs.chain(&join.terms)) {
        return None;
    }
    let given: Vec<Expr> = join.output.iter().copied().map(Expr::Column).collect();
    let own = replaced(own, &given)?;
    let left_width = width(&join.left);
    let (mut all_left, mut all_right) = (true, true);
    own.for_each_column(&mut |column| {
        all_left &= column < left_width;
        all_right &= column >= left_width;
    });
    match join.kind {
        JoinMode::LeftSemi | JoinMode::LeftAnti => Some((&mut join.left, own)),
        JoinMode::RightSemi | JoinMode::RightAnti => Some((&mut join.right, own)),
        JoinMode::Inner | JoinMode::Left if all_left => Some((&mut join.left, own)),
        JoinMode::Inner | JoinMode::Right if all_right => {
            let own = own.remap_columns(&|column| column - left_width);
            Some((&mut join.right, own))
        }
        JoinMode::Inner | JoinMode::Left | JoinMode::Right => None,
    }
}

/// How many columns a tree gives.
fn width(tree: &Tree) -> usize {
    match tree {
        Tree::Leaf(leaf) => leaf.types.len(),
        Tree::Filter { input, .. }
        | Tree::Distinct { input }
        | Tree::Sort { input, .. }
        | Tree::Limit { input, .. } => width(input),
        Tree::Join(join) => join.output.len(),
        Tree::Project { exprs, .. } => exprs.len(),
        Tree::Aggregate { keys, calls, .. } => keys.len() + calls.len(),
        Tree::Window { input, calls } => width(input) + calls.len(),
        Tree::Append { inputs } => inputs.first().map_or(0, width),
    }
}
