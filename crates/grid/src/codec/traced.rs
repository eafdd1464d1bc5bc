//! Messages of traced statements as bytes.

use super::{damaged, put_message, put_u64, read_message};
use crate::traced::TracedMessage;
use rubato_base::Result;
use rubato_base::codec::ByteReader;
use rubato_base::trace::{Effort, SpanId, TraceContext, TraceId};

const HAS_CONTEXT: u8 = 1;
const HAS_EFFORT: u8 = 2;

pub(super) fn put_context(out: &mut Vec<u8>, context: &TraceContext) {
    out.extend_from_slice(&context.trace.0.to_le_bytes());
    put_u64(out, context.parent.0);
}

pub(super) fn read_context(reader: &mut ByteReader<'_>) -> Result<TraceContext> {
    let (low, high) = (reader.u64()?, reader.u64()?);
    Ok(TraceContext {
        trace: TraceId(u128::from(high) << u64::BITS | u128::from(low)),
        parent: SpanId(reader.u64()?),
    })
}

pub(super) fn put_traced(out: &mut Vec<u8>, traced: &TracedMessage) {
    let has_context = if traced.context.is_some() { HAS_CONTEXT } else { 0 };
    let has_effort = if traced.effort.is_some() { HAS_EFFORT } else { 0 };
    out.push(has_context | has_effort);
    if let Some(context) = &traced.context {
        put_context(out, context);
    }
    if let Some(effort) = traced.effort {
        [effort.queued_us, effort.worked_us, effort.waited_us]
            .into_iter()
            .for_each(|time_us| put_u64(out, time_us));
    }
    put_message(out, &traced.message);
}

pub(super) fn read_traced(reader: &mut ByteReader<'_>) -> Result<TracedMessage> {
    let parts = reader.u8()?;
    if parts & !(HAS_CONTEXT | HAS_EFFORT) != 0 {
        return Err(damaged("unknown parts of a traced message"));
    }
    let context = match parts & HAS_CONTEXT {
        0 => None,
        _ => Some(read_context(reader)?),
    };
    let effort = match parts & HAS_EFFORT {
        0 => None,
        _ => Some(Effort {
            queued_us: reader.u64()?,
            worked_us: reader.u64()?,
            waited_us: reader.u64()?,
        }),
    };
    Ok(TracedMessage {
        context,
        effort,
        message: read_message(reader)?,
    })
}
