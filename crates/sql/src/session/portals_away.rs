//! Portals that the client has opened on this node and that are read on the other one where its transaction runs: only here they are known
//! by the names that FETCH, MOVE and CLOSE say.

use super::away::columns_of;
use super::portals::Portal;
use super::script::parameter_types;
use super::{Current, Origin, Session};
use crate::client::Responder;
use crate::grid::{Completed, Run};
use crate::partition::Partition;
use crate::statement::{Statement, Utility};
use rubato_base::{Error, Result};

impl Session {
    /// Whether a statement is FETCH, MOVE or CLOSE of a portal that the client has opened here and that is read where the transaction
    /// runs: only this node knows its name.
    pub(super) fn is_of_portal_away(&self, current: &Current) -> bool {
        let Statement::Utility(utility) = &current.statement else {
            return false;
        };
        let is_read_there = |portal: &Portal| portal.cursor.is_none() && portal.scroll.is_none();
        match &**utility {
            Utility::Fetch { name, .. } | Utility::Close(Some(name)) => {
                self.portals.get(name).is_some_and(is_read_there)
            }
            _ => false,
        }
    }

    /// What the other node is told to run of a portal that is open here: the rows that are asked for next.
    pub(super) fn run_of_portal(&mut self, name: &str) -> Result<Run> {
        let lost = || Error::internal("a call without a portal");
        let current = self.current.as_ref().ok_or_else(lost)?;
        let max_rows = u32::try_from(current.max_rows).unwrap_or(0);
        let portal = self.portals.get_mut(name).ok_or_else(lost)?;
        if let Some(there) = &portal.name_away {
            let portal = there.clone();
            return Ok(Run::More { portal, max_rows });
        }
        // One that is read in pieces has a name that no other has while it is there.
        if max_rows > 0 {
            self.portals_away += 1;
            portal.name_away = Some(format!("read in pieces {}", self.portals_away));
        }
        Ok(Run::Prepared {
            sql: current.sql.to_string(),
            types: parameter_types(&current.statement),
            values: current.parameters.to_vec(),
            columns: columns_of(&current.statement),
            formats: current.formats.clone(),
            portal: portal.name_away.clone().unwrap_or_default(),
            max_rows,
        })
    }

    /// The rows of a FETCH or MOVE of a portal that is read there have come: as many as it has asked for, or all that were left.
    pub(super) fn end_fetch_away(
        &mut self,
        outcome: &Result<Completed>,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) {
        let Some(current) = self.current.take() else { return };
        let Some(fetch) = &current.fetch else { return };
        let mut rows = current.max_rows;
        if let Ok(Completed::Tag(tag)) = outcome {
            rows = tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
            self.end_portal(&fetch.name, "SELECT 0");
        }
        let tag = fetch.tag(rows);
        self.end_record(partition, &tag);
        responder.command_complete(&tag);
        if let Origin::Portal(name) = &current.origin {
            self.end_portal(name, &tag);
        }
    }
}
