//! The door: where requests that would begin a transaction wait to be let in (load control).

use crate::node::Shared;
use crate::relay::SessionWork;
use rubato_base::SessionId;
use rubato_protocol::{Admission, Potential};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering;

/// How often the door is looked at while somebody waits at it: that others have ended is not told to it.
const LOOK_AGAIN_US: i64 = 500;

/// One worker's door.
#[derive(Default)]
pub(crate) struct Door {
    /// Since when each waits, in the order of arrival.
    waiting: VecDeque<(i64, Box<SessionWork>)>,
    /// Sessions that were let in although they are judged, until their transaction ends.
    inside: BTreeSet<SessionId>,
}

impl Door {
    /// The wall clock was set by so much: nobody waits longer or shorter for it.
    pub(crate) fn shift_time(&mut self, by_us: i64) {
        for (since_us, work) in &mut self.waiting {
            *since_us += by_us;
            work.session.shift_time(by_us);
        }
    }

    /// Whether the work has to come through the door. Rules L-1 and L-4.
    pub(crate) fn is_for(admission: Option<Admission>, work: &SessionWork) -> bool {
        let Some(admission) = admission else { return false };
        let begins = !work.session.in_transaction() && !work.session.is_busy();
        begins && (admission.potential == Potential::Age || work.session.was_aborted_lately())
    }

    pub(crate) fn push(&mut self, now_us: i64, work: Box<SessionWork>) {
        self.waiting.push_back((now_us, work));
    }

    /// The work of a session that waits here.
    pub(crate) fn work_of(&mut self, session: SessionId) -> Option<&mut Box<SessionWork>> {
        let works = self.waiting.iter_mut().map(|(_, work)| work);
        works.into_iter().find(|work| work.session.id == session)
    }

    /// The next one that is let in, in the order of arrival. Rules L-2 and L-3.
    pub(crate) fn let_in(&mut self, shared: &Shared, now_us: i64) -> Option<Box<SessionWork>> {
        let admission = shared.settings.admission?;
        let (since_us, work) = self.waiting.pop_front()?;
        let active = shared.partition.lock().database.live_transactions();
        let older = match admission.potential {
            Potential::Age => active,
            Potential::Conflict => shared.judged_inside.load(Ordering::Acquire),
        };
        if !admission.admits(older, active, now_us - since_us) {
            self.waiting.push_front((since_us, work));
            return None;
        }
        if self.inside.insert(work.session.id) {
            shared.judged_inside.fetch_add(1, Ordering::AcqRel);
        }
        Some(work)
    }

    /// The session has answered all that it was asked.
    pub(crate) fn on_idle(&mut self, shared: &Shared, work: &SessionWork) {
        if !self.inside.is_empty() && !work.session.in_transaction() && self.inside.remove(&work.session.id) {
            shared.judged_inside.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// When it has to be looked at again.
    pub(crate) fn deadline_us(&self, admission: Option<Admission>, now_us: i64) -> Option<i64> {
        let (since_us, _) = self.waiting.front()?;
        Some((since_us + admission?.hold_us_max).min(now_us + LOOK_AGAIN_US))
    }
}
