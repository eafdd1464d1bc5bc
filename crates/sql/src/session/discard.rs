//! DISCARD: what a session has kept for itself goes.

use super::Session;
use crate::client::Responder;
use crate::partition::Partition;
use crate::statement::Discarded;
use rubato_protocol::Outcome;

impl Session {
    pub(super) fn discard(
        &mut self,
        what: Discarded,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Outcome<String> {
        match what {
            // Plans look after themselves.
            Discarded::Plans => return Ok("DISCARD PLANS".into()),
            Discarded::Sequences => {
                self.taken = Default::default();
                return Ok("DISCARD SEQUENCES".into());
            }
            Discarded::All | Discarded::Temporary => {}
        }
        self.check_alone("DISCARD ALL")?;
        let has_own = self.has_own(partition);
        if has_own {
            self.ensure_transaction(partition, false, self.now_us)?;
        }
        self.prepared.clear();
        self.close_cursor(None, partition)?;
        partition.advisory.unlock_all(self.id);
        partition.channels.unlisten(self.id, None);
        self.channels.forget();
        self.reset("all", responder)?;
        self.taken = Default::default();
        if let Some(desk) = &partition.grid {
            desk.leave(self.id);
        }
        self.know_temporary(None);
        if has_own {
            self.drop_own(partition)?;
        }
        Ok("DISCARD ALL".into())
    }
}
