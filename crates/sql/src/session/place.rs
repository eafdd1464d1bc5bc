//! Which node a statement is to run on.

use super::environment::handed_over;
use super::finish::reads_no_row;
use super::replay::sets_only;
use super::{Block, Current, Origin, Session};
use crate::grid::Home;
use crate::partition::Partition;
use crate::plan::Plan;
use crate::route::{needs_rows_alone, numbers_called, shows_own_session};
use crate::statement::{Statement, Utility};
use rubato_base::{Error, NodeId, Result};

/// Where a planned statement runs.
pub(super) enum Place {
    /// Here.
    Here,
    /// Here, and it needs nothing of any node: nor a tick.
    Nowhere,
    /// On another node.
    At(NodeId),
    /// On the node that keeps what there is once, together with what its block has done so far.
    Moves(NodeId),
}

impl Session {
    /// Where the statement is at home that EXPLAIN ANALYZE is to run: it runs there, as it would without EXPLAIN.
    pub(super) fn home_of_explained(&self, partition: &Partition) -> Option<Home> {
        let (desk, current) = (partition.grid.as_ref()?, self.current.as_ref()?);
        let Statement::Utility(utility) = &current.statement else {
            return None;
        };
        match &**utility {
            Utility::Explain {
                analyze: true,
                statement: Statement::Planned(plan),
                ..
            } if !self.is_of_this_node() => desk.home_of(plan, &current.parameters).ok(),
            _ => None,
        }
    }

    /// Whether what begins here would rather be on the keeper: temporary relations are there, which are emptied and dropped there
    /// with the transaction, or the session has needed what there is once.
    fn is_better_at_keeper(&self, home: Home, (plan, alone): (&Plan, bool), partition: &Partition) -> bool {
        let has_own = || self.has_own(partition) || self.has_own_elsewhere(&self.catalog(partition));
        match alone {
            true => matches!(home, Home::OverSeveral | Home::Catalogs) && has_own() && !shows_own_session(plan),
            false => self.begins_at_keeper || has_own(),
        }
    }

    /// Whether a statement is about portals of this node, which have outlasted their transactions. Of others it knows where they are.
    pub(super) fn has_its_portal(&self, current: &Current) -> bool {
        let Statement::Utility(utility) = &current.statement else {
            return false;
        };
        match &**utility {
            Utility::Fetch { name, .. } | Utility::Close(Some(name)) => self.portals.get(name).is_some(),
            Utility::Close(None) => true,
            _ => false,
        }
    }

    /// Whether a statement declares a cursor that outlasts its transaction, outside of a block, over rows that can be read from here: where
    /// it runs it is asked for its rows.
    pub(super) fn holds_rows_here(&self, current: &Current, partition: &Partition) -> bool {
        let (Some(desk), Statement::Utility(utility)) = (&partition.grid, &current.statement) else {
            return false;
        };
        match &**utility {
            Utility::Declare {
                options,
                statement: Statement::Planned(plan),
                ..
            } if options.hold && self.transaction.is_none() && self.block == Block::None => {
                let home = desk.home_of(plan, &current.parameters);
                home.is_ok_and(|home| !matches!(home, Home::AtKeeper(_)))
            }
            _ => false,
        }
    }

    /// Where the current statement runs, if it begins a transaction. One that has begun here cannot reach what is elsewhere.
    pub(super) fn place_of(&self, plan: &Plan, partition: &Partition) -> Result<Place> {
        let (Some(desk), Some(current)) = (&partition.grid, &self.current) else {
            return Ok(Place::Here);
        };
        // What has begun here goes on here.
        if current.cursor.is_some() {
            return Ok(Place::Here);
        }
        if self.away.is_some() {
            return Ok(Place::Nowhere);
        }
        if self.fills_until_commit(plan) {
            return self.place_of_laying(partition);
        }
        let reaches_rows = self.transaction.as_ref().is_some_and(|open| open.far.is_some());
        if reaches_rows && needs_rows_alone(plan) {
            // From here, wherever they are: finding out where took 1 % of a transaction of TPC-C.
            return Ok(Place::Here);
        }
        let home = desk.home_of(plan, &current.parameters)?;
        if self.transaction.is_none() && self.is_of_this_node() {
            return match home {
                Home::AtKeeper(_) if self.is_hosted => Err(handed_over()),
                Home::AtKeeper(node) => Ok(Place::Moves(node)),
                _ => Ok(Place::Here),
            };
        }
        // Settings are the session's, wherever its block goes on.
        let begins_block = self.transaction.is_none() && !current.alone;
        if begins_block && home == Home::Anywhere && sets_only(&current.statement) {
            return Ok(Place::Here);
        }
        if self.transaction.is_none() && self.is_better_at_keeper(home, (plan, current.alone), partition) {
            return Ok(desk.keeper().map_or(Place::Here, Place::At));
        }
        // Who has sent it here knew why, or knew other catalogs: it is not sent on, and rows of other nodes can be reached.
        if self.is_hosted && self.transaction.is_none() && matches!(home, Home::At(_)) {
            return Ok(Place::Here);
        }
        if self.is_batched && matches!((home, &current.origin), (Home::At(_), Origin::Portal(_))) {
            return Ok(Place::Here);
        }
        Ok(match (home, &self.transaction) {
            (Home::Anywhere, None) if current.alone => Place::Nowhere,
            // Whoever looks at the catalogs first is about to change them more often than others; what has shown nothing can move later.
            (Home::Anywhere, None) if reads_no_row(&current.statement) => Place::Here,
            (Home::Anywhere | Home::Catalogs, None) if !current.alone => match desk.keeper() {
                Some(keeper) if desk.is_up(keeper) => Place::At(keeper),
                _ => Place::Here,
            },
            // Not on the keeper, although what comes next in the block may need what is there once: all blocks would meet there.
            (Home::Here | Home::Anywhere | Home::Catalogs | Home::OverSeveral, _) => Place::Here,
            // Whoever sent it here did not know yet that this node has handed over; the other one may not know of it either.
            (Home::AtKeeper(_), None) if self.is_hosted => return Err(handed_over()),
            (Home::At(node) | Home::AtKeeper(node), None) => Place::At(node),
            // Rows can be reached from here.
            (Home::At(_), Some(transaction)) if transaction.far.is_some() => Place::Here,
            (Home::AtKeeper(_), Some(transaction))
                if transaction.far.is_some() && numbers_called(plan, &current.parameters).is_some() =>
            {
                Place::Here
            }
            (Home::AtKeeper(node), Some(transaction)) if transaction.far.is_some() => Place::Moves(node),
            (Home::At(node) | Home::AtKeeper(node), Some(_)) => return Err(over_several_nodes(node)),
        })
    }
}

fn over_several_nodes(node: NodeId) -> Error {
    let detail = format!(
        "It has begun on this node, and this statement needs what is on node {}.",
        node.0
    );
    Error::unsupported("a transaction over the rows of several nodes").with_detail(detail)
}
