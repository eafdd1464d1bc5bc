//! Advisory locks and `pg_sleep`: functions that may make their statement wait.

use super::FunctionEntry;
use super::Implementation;
use super::argument::{entry, typed};
use crate::context::{AdvisoryKey, AdvisoryRequest, AdvisoryScope, EvalContext};
use rubato_base::{Result, Value};

/// What a function of type `void` gives: the empty text, as PostgreSQL sends it.
pub(super) fn nothing() -> Value {
    Value::text("")
}

fn lock(context: &EvalContext<'_>, key: AdvisoryKey, shared: bool, scope: AdvisoryScope, waits: bool) -> Result<bool> {
    context.environment.advisory_lock(AdvisoryRequest {
        key,
        shared,
        scope,
        waits,
    })
}

fn unlock(context: &EvalContext<'_>, key: AdvisoryKey, shared: bool) -> Result<bool> {
    context.environment.advisory_unlock(key, shared)
}

/// A function with its two forms of the key.
macro_rules! keyed {
    ($($name:literal -> $result:ident, |$context:ident, $key:ident| $call:expr;)*) => {
        &[$(
            entry!($name (Int8) -> $result, typed!(with $context |number: i64| {
                let $key = AdvisoryKey::One(number);
                $call
            })).volatile(),
            entry!($name (Int4, Int4) -> $result, typed!(with $context |class: i32, object: i32| {
                let $key = AdvisoryKey::Two(class, object);
                $call
            })).volatile(),
        )*]
    };
}

pub(super) static ADVISORY: &[FunctionEntry] = keyed! {
    "pg_advisory_lock" -> Void, |c, key| lock(c, key, false, AdvisoryScope::Session, true).map(|_| nothing());
    "pg_advisory_lock_shared" -> Void, |c, key| lock(c, key, true, AdvisoryScope::Session, true).map(|_| nothing());
    "pg_advisory_xact_lock" -> Void, |c, key| lock(c, key, false, AdvisoryScope::Transaction, true).map(|_| nothing());
    "pg_advisory_xact_lock_shared" -> Void, |c, key| {
        lock(c, key, true, AdvisoryScope::Transaction, true).map(|_| nothing())
    };
    "pg_try_advisory_lock" -> Bool, |c, key| lock(c, key, false, AdvisoryScope::Session, false);
    "pg_try_advisory_lock_shared" -> Bool, |c, key| lock(c, key, true, AdvisoryScope::Session, false);
    "pg_try_advisory_xact_lock" -> Bool, |c, key| lock(c, key, false, AdvisoryScope::Transaction, false);
    "pg_try_advisory_xact_lock_shared" -> Bool, |c, key| lock(c, key, true, AdvisoryScope::Transaction, false);
    "pg_advisory_unlock" -> Bool, |c, key| unlock(c, key, false);
    "pg_advisory_unlock_shared" -> Bool, |c, key| unlock(c, key, true);
};

fn notify(arguments: &[Value], context: &EvalContext<'_>) -> Result<Value> {
    let text = |value: Option<&Value>| match value {
        Some(Value::Text(text)) => text.to_string(),
        _ => String::new(),
    };
    let (channel, payload) = (text(arguments.first()), text(arguments.get(1)));
    context.environment.notify(&channel, &payload).map(|()| nothing())
}

pub(super) static PAUSES: &[FunctionEntry] = &[
    entry!("pg_advisory_unlock_all" () -> Void, typed!(with c || {
        c.environment.advisory_unlock_all().map(|()| nothing())
    }))
    .volatile(),
    // NULL is as good as nothing for the payload, and no channel.
    entry!("pg_notify" (Text, Text) -> Void, Implementation::Context(notify))
        .lenient()
        .volatile(),
    entry!("pg_sleep" (Float8) -> Void, typed!(with c |seconds: f64| {
        c.environment.sleep(seconds).map(|()| nothing())
    }))
    .volatile(),
];
