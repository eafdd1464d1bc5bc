//! Several operations that were asked for together.

use super::super::message::{Answer, Operation, Request, SEVERAL_ANSWER_BYTES_MAX};
use super::{Participant, settled};
use crate::api::{CommitLog, Outcome, Savepoint, Stop};
use crate::database::FormulaDatabase;
use rubato_base::GlobalId;

impl Participant {
    /// Goes on with several operations at the first that is not done. `savepoint` is of the moment before the one that is under way.
    pub(super) fn perform_several(
        &mut self,
        database: &mut FormulaDatabase,
        global: GlobalId,
        (number, operations): (u32, &[Operation]),
        savepoint: &mut Savepoint,
    ) -> Outcome<()> {
        let Some(branch) = self.branches.get(&global) else {
            return Ok(());
        };
        let (transaction, done) = (branch.transaction, branch.so_far.len());
        let mut bytes: usize = branch.so_far.iter().map(Answer::bytes).sum();
        let (mut ends, mut is_first) = (false, true);
        for operation in &operations[done..] {
            *savepoint = database.savepoint(transaction);
            let answer = match ends {
                true => Answer::NotDone,
                false => {
                    let performed = self.run(database, transaction, operation);
                    match settled(database, transaction, performed) {
                        Err(Stop::Fail(error)) => {
                            database.undo_statement(transaction, *savepoint);
                            Answer::Failed(error)
                        }
                        performed => performed?,
                    }
                }
            };
            bytes += answer.bytes();
            ends |= matches!(answer, Answer::Failed(_)) || bytes > SEVERAL_ANSWER_BYTES_MAX;
            let Some(branch) = self.branches.get_mut(&global) else {
                return Ok(());
            };
            if !std::mem::take(&mut is_first) {
                branch.before.push(*savepoint);
            }
            branch.so_far.push(answer);
        }
        let answers = (self.branches.get_mut(&global)).map(|branch| std::mem::take(&mut branch.so_far));
        self.answer(database, global, number, Answer::Several(answers.unwrap_or_default()));
        Ok(())
    }

    /// Several operations are done, or one of them waits: those before it stay done.
    pub(super) fn on_several(
        &mut self,
        database: &mut FormulaDatabase,
        global: GlobalId,
        request: Request,
        (outcome, savepoint): (Outcome<()>, Savepoint),
        log: &mut dyn CommitLog,
    ) {
        match outcome {
            Ok(()) => {}
            Err(Stop::Wait(_)) => {
                let transaction = self.branches.get(&global).map(|branch| branch.transaction);
                if let Some(transaction) = transaction {
                    database.undo_statement(transaction, savepoint);
                    database.wait_for_coordinator(transaction, true);
                }
                if let Some(branch) = self.branches.get_mut(&global) {
                    branch.waiting = Some(request);
                }
            }
            Err(Stop::Fail(error) | Stop::Abort(error)) => self.give_up(database, global, error, log),
        }
    }
}
