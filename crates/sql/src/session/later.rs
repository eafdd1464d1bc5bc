//! While a statement waits for another node: what those behind it, which the client has sent already, will ask of others.

use super::execute::is_current;
use super::running::Part;
use super::{Origin, Session, SessionContext};
use crate::client::Request;
use crate::executor::{ExecutionContext, GivenChange, changes_later};
use crate::partition::Partition;
use crate::plan::PlanBody;
use crate::statement::Statement;
use std::collections::VecDeque;
use std::sync::Arc;

/// Requests that are looked at.
const LOOKED_AT_MAX: usize = 256;

impl Session {
    /// Has other nodes make the changes of the next statements as well, as far as each is an UPDATE or DELETE of one row named by its key or an
    /// INSERT of one; what comes behind any other waits for its turn. See [`crate::far`].
    pub(super) fn ask_for_later(
        &mut self,
        requests: &VecDeque<Request>,
        partition: &mut Partition,
        context: &SessionContext<'_>,
    ) {
        let Some(current) = self.current.as_ref().filter(|_| !self.is_read_only()) else {
            return;
        };
        let is_of_a_portal = matches!(current.origin, Origin::Portal(_));
        let times_us = (current.started_us, current.started_us);
        let Statement::Planned(plan) = &current.statement else {
            return;
        };
        let (may_be_asked, waits) = (
            is_asked_ahead(&plan.body),
            (Arc::clone(plan), Arc::clone(&current.parameters)),
        );
        let may_ask = self.transaction.as_ref().filter(|open| {
            let far = open.far.as_ref();
            far.is_some_and(|far| far.may_ask_for_later())
        });
        let Some(transaction) = may_ask.map(|open| open.id).filter(|_| is_of_a_portal && may_be_asked) else {
            return;
        };
        let later = self.later_changes(requests, partition);
        if later.is_empty() {
            return;
        }
        let catalog = self.catalog(partition);
        let part = Part {
            transaction,
            catalog: &catalog,
            parameters: &[],
            times_us,
            limits: context.limits,
            analytics: None,
        };
        self.run_part(partition, part, ExecutionContext::UNBOUNDED, |execution| {
            changes_later(&waits, &later, execution);
        });
    }

    /// The changes that come next, with their parameters.
    fn later_changes(&mut self, requests: &VecDeque<Request>, partition: &Partition) -> Vec<GivenChange> {
        let catalog = self.catalog(partition);
        let path = self.path_in(&catalog);
        let mut later = Vec::new();
        for request in requests.iter().take(LOOKED_AT_MAX) {
            let (name, values) = match request {
                Request::Bind(bind) => (bind.statement.as_str(), Err(bind)),
                Request::BindValues { statement, values, .. } => (statement.as_str(), Ok(values)),
                Request::DescribePortal(_) | Request::Execute { .. } => continue,
                _ => break,
            };
            let Ok(prepared) = self.prepared(name) else { break };
            let Statement::Planned(plan) = &prepared.statement else {
                break;
            };
            if !is_asked_ahead(&plan.body) || !is_current(plan, &catalog, &path.searched) {
                break;
            }
            let parameters = match values {
                Ok(values) if values.len() == prepared.types.len() => Arc::from(values.as_slice()),
                Err(bind) if bind.parameters.len() == prepared.types.len() => {
                    match self.parameters_of(bind, prepared) {
                        Ok(parameters) => parameters,
                        Err(_) => break,
                    }
                }
                _ => break,
            };
            later.push((Arc::clone(plan), parameters));
        }
        later
    }
}

fn is_asked_ahead(plan: &PlanBody) -> bool {
    matches!(plan, PlanBody::Update(_) | PlanBody::Insert(_) | PlanBody::Delete(_))
}
