//! Rows and command tags of the answers.

use rubato_workload::{ClientError, Decimal, Rows};

use super::encode::{POSTGRES_EPOCH_US, oid};

/// Adds the cells of one DataRow body.
pub(super) fn data_row(body: &[u8], types: &[u32], rows: &mut Rows) -> Result<(), ClientError> {
    let (count, mut rest) = split::<2>(body)?;
    if usize::from(u16::from_be_bytes(count)) != types.len() {
        return Err(ClientError::unexpected(
            "a row with another number of columns than described",
        ));
    }
    for &type_oid in types {
        let (length, after) = split::<4>(rest)?;
        let length = i32::from_be_bytes(length);
        rest = after;
        if length < 0 {
            rows.push_null();
            continue;
        }
        let (value, after) = rest.split_at_checked(length as usize).ok_or_else(short)?;
        rest = after;
        cell(value, type_oid, rows)?;
    }
    Ok(())
}

fn cell(value: &[u8], type_oid: u32, rows: &mut Rows) -> Result<(), ClientError> {
    match type_oid {
        oid::INT4 => rows.push_int(i64::from(i32::from_be_bytes(exact(value)?))),
        oid::INT8 => rows.push_int(i64::from_be_bytes(exact(value)?)),
        oid::INT2 => rows.push_int(i64::from(i16::from_be_bytes(exact(value)?))),
        oid::BOOL => rows.push_int(i64::from(u8::from_be_bytes(exact(value)?))),
        oid::FLOAT4 => rows.push_float(f64::from(f32::from_be_bytes(exact(value)?))),
        oid::FLOAT8 => rows.push_float(f64::from_be_bytes(exact(value)?)),
        oid::TIMESTAMP | oid::TIMESTAMPTZ => {
            rows.push_timestamp(i64::from_be_bytes(exact(value)?).saturating_add(POSTGRES_EPOCH_US));
        }
        _ => {
            let text = std::str::from_utf8(value).map_err(|_| ClientError::unexpected("a value is not UTF-8"))?;
            if type_oid == oid::NUMERIC {
                let number = Decimal::parse(text);
                rows.push_decimal(number.ok_or_else(|| ClientError::unexpected(format!("`{text}` is out of range")))?);
            } else {
                rows.push_text(text);
            }
        }
    }
    Ok(())
}

/// The number at the end of a command tag, 0 if there is none.
pub(super) fn affected(body: &[u8]) -> u64 {
    let tag = body.strip_suffix(&[0]).unwrap_or(body);
    let digits = tag.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let number = &tag[tag.len() - digits..];
    number.iter().fold(0, |sum: u64, digit| {
        sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    })
}

fn split<const N: usize>(bytes: &[u8]) -> Result<([u8; N], &[u8]), ClientError> {
    bytes
        .split_first_chunk::<N>()
        .map(|(head, rest)| (*head, rest))
        .ok_or_else(short)
}

fn exact<const N: usize>(value: &[u8]) -> Result<[u8; N], ClientError> {
    value
        .try_into()
        .map_err(|_| ClientError::unexpected("a value has another length than its type"))
}

fn short() -> ClientError {
    ClientError::unexpected("a row is shorter than it says")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_all_kinds() {
        let mut body = vec![0, 4];
        for value in [
            Some(&7i32.to_be_bytes()[..]),
            None,
            Some(b"-1.50"),
            Some("grün".as_bytes()),
        ] {
            body.extend(value.map_or(-1, |value| value.len() as i32).to_be_bytes());
            body.extend(value.unwrap_or_default());
        }
        let mut rows = Rows::new(4);
        data_row(&body, &[oid::INT4, oid::INT4, oid::NUMERIC, 25], &mut rows).expect("a row");
        assert_eq!((rows.int(0, 0), rows.int_or_null(0, 1)), (Ok(7), Ok(None)));
        assert_eq!((rows.scaled(0, 2, 2), rows.text(0, 3)), (Ok(-150), Ok("grün")));
    }

    #[test]
    fn broken_rows_are_errors() {
        let types = [oid::INT4];
        for body in [
            &[][..],
            &[0, 2],
            &[0, 1],
            &[0, 1, 0, 0, 0, 9, 1],
            &[0, 1, 0, 0, 0, 1, 1],
        ] {
            assert!(data_row(body, &types, &mut Rows::new(1)).is_err(), "{body:?}");
        }
    }

    #[test]
    fn command_tags_end_in_a_count() {
        assert_eq!(affected(b"UPDATE 3\0"), 3);
        assert_eq!(affected(b"INSERT 0 12\0"), 12);
        assert_eq!(affected(b"BEGIN\0"), 0);
        assert_eq!(affected(b"\0"), 0);
    }
}
