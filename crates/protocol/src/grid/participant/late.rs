//! Requests about branches that have ended, or are not known (rule P-8).

use super::{Ended, Participant};
use crate::database::FormulaDatabase;
use crate::grid::message::{Reply, Request};
use rubato_base::{GlobalId, Lsn};

impl Participant {
    /// A branch that has ended is asked again: the answer is said again if the coordinator may not have it.
    pub(super) fn on_late(&mut self, global: GlobalId, request: Request, ended: Ended) {
        self.refused += 1;
        match (ended, request) {
            (Ended::GivenUp(error), request) if !matches!(request, Request::Decide(_)) => {
                self.reply(global, Reply::Refused(error), Lsn(0));
            }
            (Ended::Committed(cts, durable_at), Request::CommitAlone { .. }) => {
                self.reply(global, Reply::Committed { cts }, durable_at);
            }
            (Ended::Committed(_, durable_at), Request::Decide(Some(_))) => {
                self.reply(global, Reply::Done, durable_at);
            }
            // One that is prepared is never given up: this one had nothing to commit. What it had read was found to hold, and then a check
            // that came late, or again, was refused. Its coordinator repeats the decision until it hears an answer.
            (Ended::GivenUp(_), Request::Decide(Some(_))) => self.reply(global, Reply::Done, Lsn(0)),
            _ => {}
        }
    }

    pub(super) fn on_unknown(&mut self, database: &FormulaDatabase, global: GlobalId, request: &Request) {
        self.refused += 1;
        match request {
            // A prepared branch is never forgotten before it is decided: so this one has been, somewhere in the log so far.
            Request::Decide(Some(_)) => self.reply(global, Reply::Done, database.log_position()),
            // Not a refusal: the request may be an old one that was repeated, and the branch may have committed alone since.
            _ if global.tick < self.birth || !database.may_come(global.tick) => {
                self.reply(global, Reply::Forgotten, Lsn(0))
            }
            // What overtook the operation that begins the branch comes again.
            _ => {}
        }
    }
}
