//! What SHOW and `current_setting` tell of the transaction under way rather than of the session.

use super::Session;
use super::settings::Settings;
use crate::plan::Plan;
use crate::route::writes_temporary;
use crate::statement::TransactionModes;

/// How the transaction under way runs.
#[derive(Clone, Copy)]
pub(super) struct ShownModes<'a> {
    modes: &'a TransactionModes,
    is_read_only: bool,
}

impl<'a> ShownModes<'a> {
    pub(super) fn new(modes: &'a TransactionModes, settings: &Settings) -> Self {
        let default = || settings.flag("default_transaction_read_only");
        ShownModes {
            modes,
            is_read_only: modes.read_only.unwrap_or_else(default),
        }
    }

    /// A setting that says how the transaction runs; `None` if it says something else.
    pub(super) fn shown(&self, name: &str, settings: &Settings) -> Option<String> {
        let is = |own: &str| name.eq_ignore_ascii_case(own);
        let flag = |is_on: bool| Some(if is_on { "on" } else { "off" }.to_owned());
        if is("transaction_read_only") {
            return flag(self.is_read_only);
        }
        if is("transaction_isolation") {
            let own = self.modes.isolation.clone();
            return own.or_else(|| settings.get("default_transaction_isolation"));
        }
        if is("transaction_deferrable") {
            let is_default = || settings.flag("default_transaction_deferrable");
            return flag(self.modes.deferrable.unwrap_or_else(is_default));
        }
        None
    }
}

impl Session {
    pub(super) fn shown_modes(&self) -> ShownModes<'_> {
        ShownModes::new(&self.modes, &self.settings)
    }

    /// Whether the transaction under way, or one that begins now, may change nothing.
    pub(super) fn is_read_only(&self) -> bool {
        self.shown_modes().is_read_only
    }

    /// Whether a statement would change what the transaction may not change. Temporary tables it may.
    pub(super) fn may_not_run(&self, plan: &Plan) -> bool {
        !plan.read_only && self.is_read_only() && !writes_temporary(plan)
    }
}
