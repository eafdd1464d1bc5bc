//! Bind and Execute of one call. Numbers and times travel in binary, exact numbers and text as text.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use rubato_workload::{ClientError, Decimal, Param};

use super::Prepared;

/// Type numbers of PostgreSQL.
pub(super) mod oid {
    pub const BOOL: u32 = 16;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT4: u32 = 23;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const TIMESTAMP: u32 = 1114;
    pub const TIMESTAMPTZ: u32 = 1184;
    pub const NUMERIC: u32 = 1700;
}

/// 2000-01-01, from which PostgreSQL counts, in microseconds since the Unix epoch.
pub(super) const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

/// The format in which a type travels: 1 binary, 0 text.
pub(super) fn format(type_oid: u32) -> i16 {
    use oid::{BOOL, FLOAT4, FLOAT8, INT2, INT4, INT8, TIMESTAMP, TIMESTAMPTZ};
    i16::from(matches!(
        type_oid,
        BOOL | INT2 | INT4 | INT8 | FLOAT4 | FLOAT8 | TIMESTAMP | TIMESTAMPTZ
    ))
}

/// Appends Bind and Execute, without a sync.
pub(super) fn put_call(prepared: &Prepared, params: &[Param<'_>], out: &mut BytesMut) -> Result<(), ClientError> {
    if params.len() != prepared.param_types.len() {
        let (given, wanted) = (params.len(), prepared.param_types.len());
        return Err(ClientError::unexpected(format!(
            "{given} parameters for a statement with {wanted}"
        )));
    }
    let bound = frontend::bind(
        "",
        &prepared.name,
        prepared.param_formats.iter().copied(),
        params.iter().zip(&prepared.param_types),
        |(param, &type_oid), out| Ok(put_param(*param, type_oid, out)?),
        prepared.column_formats.iter().copied(),
        out,
    );
    bound.map_err(|error| match error {
        frontend::BindError::Conversion(error) => ClientError::unexpected(error.to_string()),
        frontend::BindError::Serialization(error) => ClientError::unexpected(error.to_string()),
    })?;
    frontend::execute("", 0, out).map_err(|error| ClientError::unexpected(error.to_string()))
}

fn put_param(param: Param<'_>, type_oid: u32, out: &mut BytesMut) -> Result<IsNull, ClientError> {
    match param {
        Param::Null => return Ok(IsNull::Yes),
        Param::Int(value) => put_int(value, type_oid, out)?,
        Param::Decimal(value) if format(type_oid) == 1 => {
            let whole = value
                .at_scale(0)
                .ok_or_else(|| mismatch("a number with a fraction", type_oid))?;
            put_int(whole, type_oid, out)?;
        }
        Param::Decimal(value) => put_text(value, out),
        Param::Text(value) if format(type_oid) == 0 => out.extend_from_slice(value.as_bytes()),
        Param::Timestamp(value) if matches!(type_oid, oid::TIMESTAMP | oid::TIMESTAMPTZ) => {
            out.put_i64(value.saturating_sub(POSTGRES_EPOCH_US));
        }
        Param::Text(_) => return Err(mismatch("text", type_oid)),
        Param::Timestamp(_) => return Err(mismatch("a timestamp", type_oid)),
    }
    Ok(IsNull::No)
}

fn put_int(value: i64, type_oid: u32, out: &mut BytesMut) -> Result<(), ClientError> {
    let too_large = || mismatch("a number of that size", type_oid);
    match type_oid {
        oid::INT2 => out.put_i16(value.try_into().map_err(|_| too_large())?),
        oid::INT4 => out.put_i32(value.try_into().map_err(|_| too_large())?),
        oid::INT8 => out.put_i64(value),
        oid::BOOL => out.put_u8(u8::from(value != 0)),
        oid::FLOAT4 => out.put_f32(value as f32),
        oid::FLOAT8 => out.put_f64(value as f64),
        oid::TIMESTAMP | oid::TIMESTAMPTZ => return Err(mismatch("an integer", type_oid)),
        _ => put_text(
            Decimal {
                unscaled: value,
                scale: 0,
            },
            out,
        ),
    }
    Ok(())
}

fn put_text(value: Decimal, out: &mut BytesMut) {
    out.reserve(24);
    // Twenty digits, a sign and a point at most, or leading zeros of the scale: the buffer grows if it must.
    let _ = write!(out, "{value}");
}

fn mismatch(what: &str, type_oid: u32) -> ClientError {
    ClientError::unexpected(format!("{what} for a parameter of type {type_oid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(param: Param<'_>, type_oid: u32) -> Option<Vec<u8>> {
        let mut out = BytesMut::new();
        put_param(param, type_oid, &mut out).ok().map(|_| out.to_vec())
    }

    #[test]
    fn a_parameter_takes_the_type_the_server_wants() {
        assert_eq!(encoded(Param::Int(-2), oid::INT2), Some(vec![0xFF, 0xFE]));
        assert_eq!(encoded(Param::Int(7), oid::INT4), Some(vec![0, 0, 0, 7]));
        assert_eq!(encoded(Param::Int(7), oid::NUMERIC), Some(b"7".to_vec()));
        assert_eq!(
            encoded(Param::Decimal(Decimal::from_cents(-5)), oid::NUMERIC),
            Some(b"-0.05".to_vec())
        );
        assert_eq!(
            encoded(Param::Decimal(Decimal::from_cents(500)), oid::INT4),
            Some(vec![0, 0, 0, 5])
        );
        assert_eq!(
            encoded(Param::Timestamp(POSTGRES_EPOCH_US + 1), oid::TIMESTAMP),
            Some(vec![0, 0, 0, 0, 0, 0, 0, 1])
        );
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(encoded(Param::Int(1 << 40), oid::INT4), None);
        assert_eq!(encoded(Param::Text("x"), oid::INT4), None);
        assert_eq!(encoded(Param::Decimal(Decimal::from_cents(5)), oid::INT4), None);
        assert_eq!(encoded(Param::Timestamp(0), oid::INT8), None);
    }
}
