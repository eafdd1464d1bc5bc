//! What is known of one statement's way through stages and nodes, where somebody has asked for it.

use std::borrow::Cow;
use std::fmt;

/// What all parts of one statement's way, on all nodes, have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub u128);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// One part of a way. 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub u64);

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Where a part of a way belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// The way.
    pub trace: TraceId,
    /// The part that this one is a part of.
    pub parent: SpanId,
}

/// How long a node took for what it was asked, as it says itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// From when it came until its turn.
    pub queued_us: u64,
    /// Time in which it was worked on.
    pub worked_us: u64,
    /// Time in which it waited for transactions of others.
    pub waited_us: u64,
}

impl Effort {
    /// Adds that of something else.
    pub fn add(&mut self, other: Effort) {
        self.queued_us += other.queued_us;
        self.worked_us += other.worked_us;
        self.waited_us += other.waited_us;
    }
}

/// From which end of a call a part of a way is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpanKind {
    /// It is no call.
    #[default]
    Internal,
    /// From that of whoever is asked.
    Server,
    /// From that of whoever asks.
    Client,
}

/// Something that is known of a part of a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpanValue {
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
}

/// A part of a way, when it has ended. Times are in microseconds since 2000-01-01 UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Where it belongs; a parent of 0: it is the whole way, or all of it that is known.
    pub context: TraceContext,
    /// What it is called itself.
    pub id: SpanId,
    /// What it is.
    pub name: Cow<'static, str>,
    /// From which end of a call it is seen.
    pub kind: SpanKind,
    /// When it began.
    pub began_us: i64,
    /// When it ended.
    pub ended_us: i64,
    /// The SQLSTATE that it failed with.
    pub failed: Option<String>,
    /// What else is known, by name.
    pub attributes: Vec<(&'static str, SpanValue)>,
}

impl Span {
    /// Adds a number.
    pub fn with(mut self, name: &'static str, number: u64) -> Span {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.attributes.push((name, SpanValue::Number(number)));
        self
    }
}

/// Says what is traced, and takes what is known of it. Whoever calls waits for nothing.
pub trait Tracer: fmt::Debug + Send + Sync {
    /// Random bits, for ids.
    fn random(&self) -> u64;

    /// Whether a statement is traced though nobody has asked for it.
    fn chooses(&self) -> bool;

    /// Takes a part of a way that has ended.
    fn take(&self, span: Span);
}

impl dyn Tracer + '_ {
    /// An id for a part of a way.
    pub fn span_id(&self) -> SpanId {
        SpanId(self.random().max(1))
    }

    /// An id for a way.
    pub fn trace_id(&self) -> TraceId {
        TraceId((u128::from(self.random()) << u64::BITS | u128::from(self.random())).max(1))
    }
}

/// How a statement says which way it is a part of, in a comment as other programs write it (sqlcommenter).
const TRACE_PARENT: &str = "traceparent='";

/// Where a statement's text says that it belongs. The inner `None`: its program does not want it to be traced.
pub fn context_in(sql: &str) -> Option<Option<TraceContext>> {
    let start = sql.rfind(TRACE_PARENT)? + TRACE_PARENT.len();
    // Anywhere but in a comment the word is somebody's value.
    let comment = sql.get(..start)?.rfind("/*")?;
    if sql.get(comment..start)?.contains("*/") {
        return None;
    }
    context_of(sql.get(start..)?.split('\'').next()?)
}

/// Reads what the W3C calls a trace parent: version, trace, parent and flags.
fn context_of(text: &str) -> Option<Option<TraceContext>> {
    let mut parts = text.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |part: &str, digits: usize| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex(version, 2) || !is_hex(trace, 32) || !is_hex(parent, 16) || !is_hex(flags, 2) {
        return None;
    }
    let context = TraceContext {
        trace: TraceId(u128::from_str_radix(trace, 16).ok()?),
        parent: SpanId(u64::from_str_radix(parent, 16).ok()?),
    };
    if context.trace == TraceId(0) || context.parent == SpanId(0) {
        return None;
    }
    let is_wanted = u8::from_str_radix(flags, 16).ok()? & 1 != 0;
    Some(is_wanted.then_some(context))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_of_a_statement_is_read_from_its_comment_alone() {
        let parent = "00-5bd66ef5095369c7b0d1f8f4bd33716a-c532cb4098ac3dd2-01";
        let context = TraceContext {
            trace: TraceId(0x5bd6_6ef5_0953_69c7_b0d1_f8f4_bd33_716a),
            parent: SpanId(0xc532_cb40_98ac_3dd2),
        };
        let sql = format!("SELECT 1 /*action='run',traceparent='{parent}',tracestate='a%3D1'*/");
        assert_eq!(context_in(&sql), Some(Some(context)));
        let unwanted = sql.replace("-01'", "-00'");
        assert_eq!(context_in(&unwanted), Some(None));
        let others = [
            "SELECT 1".to_owned(),
            format!("SELECT 'traceparent=''{parent}'"),
            format!("SELECT /* a */ \"traceparent='{parent}'\""),
            sql.replace("5bd66ef5095369c7b0d1f8f4bd33716a", "00000000000000000000000000000000"),
            sql.replace("c532", "x532"),
            sql.replace("-c532", "-é532"),
            "/*traceparent='".to_owned(),
            "/*traceparent='00-1-1".to_owned(),
        ];
        for other in others {
            assert_eq!(context_in(&other), None, "{other}");
        }
    }

    #[test]
    fn ids_are_shown_as_other_programs_write_them() {
        assert_eq!(TraceId(0xab).to_string(), "000000000000000000000000000000ab");
        assert_eq!(SpanId(1).to_string(), "0000000000000001");
    }
}
