//! From answers to bytes.

use bytes::BytesMut;
use pgwire::messages::copy::{CopyInResponse, CopyOutResponse};
use pgwire::messages::data::ParameterDescription;
use pgwire::messages::response::{ErrorResponse, NoticeResponse, NotificationResponse};
use pgwire::messages::startup::{Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey};
use pgwire::messages::{Message, response};
use rubato_base::text_format::{TextContext, write_text};
use rubato_base::{DataType, Error, RowRef, SqlState, Value, binary_format};
use rubato_sql::channels::Notification;
use rubato_sql::client::{Format, OutputColumn, Responder, RowsDigest, TransactionStatus};
use rubato_sql::session::RESULT_TYPE_CHANGED;
use std::any::Any;

/// What a message of a row begins with.
const DATA_ROW: u8 = b'D';
/// The bytes of a message before its body: what it is, and its length.
const HEAD_BYTES: usize = 5;

/// Capacity that a responder keeps when it rests; a larger buffer is given back.
const KEPT_CAPACITY_BYTES: usize = 32 << 10;

/// Writes answers into a buffer in PostgreSQL's protocol. The owner of the connection sends the buffer.
#[derive(Debug, Default)]
pub struct PgResponder {
    out: Vec<u8>,
}

impl PgResponder {
    /// With an empty buffer.
    pub fn new() -> PgResponder {
        PgResponder::default()
    }

    /// The bytes written since the last [`PgResponder::clear`].
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Empties the buffer and keeps a modest part of its memory.
    pub fn clear(&mut self) {
        self.out.clear();
        self.out.shrink_to(KEPT_CAPACITY_BYTES);
    }

    /// Writes bytes that are no message (the answer to an SSL request).
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub(crate) fn authentication_ok(&mut self) {
        self.rare(&Authentication::Ok);
    }

    pub(crate) fn authentication_sasl(&mut self, mechanisms: &[&str]) {
        let mechanisms = mechanisms.iter().copied().map(str::to_owned).collect();
        self.rare(&Authentication::SASL(mechanisms));
    }

    pub(crate) fn authentication_sasl_continue(&mut self, data: String) {
        self.rare(&Authentication::SASLContinue(data.into()));
    }

    pub(crate) fn authentication_sasl_final(&mut self, data: String) {
        self.rare(&Authentication::SASLFinal(data.into()));
    }

    pub(crate) fn backend_key_data(&mut self, process_id: i32, secret_key: i32) {
        self.rare(&BackendKeyData::new(process_id, SecretKey::I32(secret_key)));
    }

    pub(crate) fn negotiate_protocol_version(&mut self, newest: i32, unknown_options: Vec<String>) {
        self.rare(&NegotiateProtocolVersion::new(newest, unknown_options));
    }

    fn rare<M: Message>(&mut self, message: &M) {
        let mut bytes = BytesMut::new();
        match message.encode(&mut bytes) {
            Ok(()) => self.out.extend_from_slice(&bytes),
            Err(wrong) => tracing::error!(%wrong, "an answer could not be encoded and was left out"),
        }
    }

    fn begin(&mut self, tag: u8) -> usize {
        self.out.extend_from_slice(&[tag, 0, 0, 0, 0]);
        self.out.len()
    }

    fn end(&mut self, body_start: usize) {
        let length = self.out.len() - body_start + 4;
        if let Ok(length) = i32::try_from(length) {
            self.out[body_start - 4..body_start].copy_from_slice(&length.to_be_bytes());
            return;
        }
        self.out.truncate(body_start - 5);
        let message = format!("an answer of {length} bytes is above what the protocol can carry");
        self.error(&Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }

    fn put_u16(&mut self, value: usize) {
        self.out.extend_from_slice(&(value as u16).to_be_bytes());
    }

    fn put_i32(&mut self, value: i32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    fn put_value(&mut self, value: &Value, data_type: DataType, format: Format, context: &TextContext) {
        if value.is_null() {
            return self.put_i32(-1);
        }
        self.put_i32(0);
        let value_start = self.out.len();
        match format {
            Format::Text => write_text(value, data_type, context, &mut self.out),
            Format::Binary => binary_format::write_binary(value, data_type, context, &mut self.out),
        }
        let length = (self.out.len() - value_start) as u32;
        self.out[value_start - 4..value_start].copy_from_slice(&length.to_be_bytes());
    }

    /// An empty `"char"` in binary.
    fn put_no_character(&mut self) {
        self.put_i32(1);
        self.out.push(0);
    }

    fn put_text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(0);
    }

    fn put_column(&mut self, column: &OutputColumn, format: Format) {
        // A name cannot hold a zero byte: SQL text cannot.
        self.put_text(&column.name);
        self.put_i32(column.table.map_or(0, |table| table.0 as i32));
        self.put_u16(column.column_number as usize);
        self.put_i32(column.told_type.unwrap_or(column.data_type.oid()) as i32);
        self.put_u16(column.data_type.length() as usize);
        self.put_i32(column.modifier);
        self.put_u16(usize::from(format == Format::Binary));
    }
}

fn type_of(columns: &[OutputColumn], index: usize) -> DataType {
    columns.get(index).map_or(DataType::Text, |column| column.data_type)
}

/// Whether the values of a column are one byte each, which is zero for the empty one: those of `"char"` in binary.
fn is_byte(columns: &[OutputColumn], formats: &[Format], column: usize) -> bool {
    let told = columns.get(column).and_then(|column| column.told_type);
    told == Some(OutputColumn::CHARACTER) && format_of(formats, column) == Format::Binary
}

fn format_of(formats: &[Format], column: usize) -> Format {
    match formats {
        [] => Format::Text,
        [one] => *one,
        several => several.get(column).copied().unwrap_or_default(),
    }
}

// The fields in PostgreSQL's order. A zero byte would end a field early, so it is shown as a replacement character.
fn error_fields(severity: &str, error: &Error) -> Vec<(u8, String)> {
    let fields = error.fields();
    let position = fields.position.map(|position| position.to_string());
    let optional = [
        (b'D', &fields.detail),
        (b'H', &fields.hint),
        (b'P', &position),
        (b'W', &fields.context),
        (b's', &fields.schema),
        (b't', &fields.table),
        (b'c', &fields.column),
        (b'd', &fields.data_type),
        (b'n', &fields.constraint),
    ];
    let mut shown = vec![
        (b'S', severity.to_owned()),
        (b'V', severity.to_owned()),
        (b'C', fields.code.as_str().to_owned()),
        (b'M', without_zero(&fields.message)),
    ];
    shown.extend(
        optional
            .into_iter()
            .filter_map(|(tag, text)| Some((tag, without_zero(text.as_deref()?)))),
    );
    // pgjdbc prepares a statement anew only where it finds this name.
    if fields.message == RESULT_TYPE_CHANGED {
        shown.push((b'R', "RevalidateCachedQuery".to_owned()));
    }
    shown
}

fn without_zero(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

impl Responder for PgResponder {
    fn parse_complete(&mut self) {
        self.out.extend_from_slice(b"1\0\0\0\x04");
    }

    fn bind_complete(&mut self) {
        self.out.extend_from_slice(b"2\0\0\0\x04");
    }

    fn close_complete(&mut self) {
        self.out.extend_from_slice(b"3\0\0\0\x04");
    }

    fn no_data(&mut self) {
        self.out.extend_from_slice(b"n\0\0\0\x04");
    }

    fn parameter_description(&mut self, types: &[DataType]) {
        self.rare(&ParameterDescription::new(
            types.iter().map(|data_type| data_type.oid()).collect(),
        ));
    }

    fn row_description(&mut self, columns: &[OutputColumn], formats: &[Format]) {
        let start = self.begin(b'T');
        self.put_u16(columns.len());
        for (index, column) in columns.iter().enumerate() {
            self.put_column(column, format_of(formats, index));
        }
        self.end(start);
    }

    fn data_row(&mut self, values: &[Value], columns: &[OutputColumn], formats: &[Format], context: &TextContext) {
        let start = self.begin(DATA_ROW);
        self.put_u16(values.len());
        for (index, value) in values.iter().enumerate() {
            match value {
                Value::Text(text) if text.is_empty() && is_byte(columns, formats, index) => self.put_no_character(),
                _ => self.put_value(value, type_of(columns, index), format_of(formats, index), context),
            }
        }
        self.end(start);
    }

    fn packed_row(
        &mut self,
        row: RowRef<'_>,
        places: &[usize],
        columns: &[OutputColumn],
        formats: &[Format],
        context: &TextContext,
    ) {
        let start = self.begin(DATA_ROW);
        self.put_u16(places.len());
        for (index, &place) in places.iter().enumerate() {
            let data_type = type_of(columns, index);
            match row.text(place) {
                Some([]) if is_byte(columns, formats, index) => self.put_no_character(),
                // Text is the same in both formats, and the same as it is kept.
                Some(text) if data_type.is_text() => {
                    self.put_i32(text.len() as i32);
                    self.out.extend_from_slice(text);
                }
                _ => self.put_value(&row.get(place), data_type, format_of(formats, index), context),
            }
        }
        self.end(start);
    }

    fn command_complete(&mut self, tag: &str) {
        let start = self.begin(b'C');
        self.put_text(tag);
        self.end(start);
    }

    fn empty_query(&mut self) {
        self.out.extend_from_slice(b"I\0\0\0\x04");
    }

    fn portal_suspended(&mut self) {
        self.out.extend_from_slice(b"s\0\0\0\x04");
    }

    fn fatal(&mut self, error: &Error) {
        self.rare(&ErrorResponse::new(error_fields("FATAL", error)));
    }

    fn error(&mut self, error: &Error) {
        self.rare(&ErrorResponse::new(error_fields("ERROR", error)));
    }

    fn notice(&mut self, severity: &'static str, notice: &Error) {
        self.rare(&NoticeResponse::new(error_fields(severity, notice)));
    }

    fn notification(&mut self, notification: &Notification) {
        self.rare(&NotificationResponse::new(
            notification.backend_id,
            notification.channel.to_string(),
            notification.payload.to_string(),
        ));
    }

    fn ready_for_query(&mut self, status: TransactionStatus) {
        let status = match status {
            TransactionStatus::Idle => response::READY_STATUS_IDLE,
            TransactionStatus::InTransaction => response::READY_STATUS_TRANSACTION_BLOCK,
            TransactionStatus::Failed => response::READY_STATUS_FAILED_TRANSACTION_BLOCK,
        };
        self.out.extend_from_slice(&[b'Z', 0, 0, 0, 5, status]);
    }

    fn parameter_status(&mut self, name: &str, value: &str) {
        self.rare(&ParameterStatus::new(without_zero(name), without_zero(value)));
    }

    fn copy_in(&mut self, format: Format, columns: usize) {
        let code = i8::from(format == Format::Binary);
        self.rare(&CopyInResponse::new(
            code,
            columns as i16,
            vec![i16::from(code); columns],
        ));
    }

    fn copy_out(&mut self, format: Format, columns: usize) {
        let code = i8::from(format == Format::Binary);
        self.rare(&CopyOutResponse::new(
            code,
            columns as i16,
            vec![i16::from(code); columns],
        ));
    }

    fn copy_data(&mut self, data: &[u8]) {
        let start = self.begin(b'd');
        self.out.extend_from_slice(data);
        self.end(start);
    }

    fn copy_done(&mut self) {
        self.out.extend_from_slice(b"c\0\0\0\x04");
    }

    fn buffered_bytes(&self) -> usize {
        self.out.len()
    }

    fn rows_digest(&self, bytes: usize) -> Option<u64> {
        let mut rest = self.out.get(bytes..)?;
        let mut digest = RowsDigest::default();
        while let Some((head, _)) = rest.split_first_chunk::<HEAD_BYTES>() {
            let [tag, length @ ..] = *head;
            // The length counts itself.
            let end = 1 + u32::from_be_bytes(length) as usize;
            let body = rest.get(HEAD_BYTES..end)?;
            if tag == DATA_ROW {
                digest.add(body);
            }
            rest = &rest[end..];
        }
        Some(digest.sum())
    }

    fn truncate(&mut self, bytes: usize) {
        self.out.truncate(bytes);
    }

    fn take_answer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    fn put_answer(&mut self, answer: &[u8]) {
        self.out.extend_from_slice(answer);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fallible_iterator::FallibleIterator;
    use postgres_protocol::message::backend;

    fn parse(responder: &PgResponder) -> Vec<backend::Message> {
        let mut bytes = BytesMut::from(responder.bytes());
        let messages = std::iter::from_fn(|| backend::Message::parse(&mut bytes).unwrap()).collect();
        assert!(bytes.is_empty());
        messages
    }

    fn column(name: &str, data_type: DataType) -> OutputColumn {
        OutputColumn {
            name: name.to_owned(),
            data_type,
            modifier: -1,
            table: None,
            column_number: 0,
            told_type: None,
        }
    }

    /// SQLAlchemy's reflection over asyncpg took every column for a generated one.
    #[test]
    fn an_empty_character_is_a_zero_byte_in_binary() {
        let character = OutputColumn {
            told_type: Some(OutputColumn::CHARACTER),
            ..column("attgenerated", DataType::Text)
        };
        for (format, told) in [(Format::Text, &b""[..]), (Format::Binary, &b"\0"[..])] {
            for (value, told) in [("", told), ("s", &b"s"[..])] {
                let mut responder = PgResponder::new();
                let columns = [character.clone(), column("a", DataType::Text)];
                let values = [Value::text(value), Value::text("")];
                responder.data_row(&values, &columns, &[format], &TextContext::default());
                let [backend::Message::DataRow(row)] = &parse(&responder)[..] else {
                    panic!("a row")
                };
                let ranges: Vec<_> = row.ranges().collect().unwrap();
                let shown: Vec<_> = ranges.into_iter().map(|range| &row.buffer()[range.unwrap()]).collect();
                assert_eq!(shown, [told, b""], "{format:?} {value}");
            }
        }
    }

    #[test]
    fn rows_are_read_by_a_client_library() {
        let mut responder = PgResponder::new();
        let columns = [
            column("a", DataType::Text),
            column("b", DataType::Text),
            column("c", DataType::Text),
        ];
        let values = [Value::text("x"), Value::Null, Value::text("")];
        responder.row_description(&columns, &[]);
        responder.data_row(&values, &columns, &[], &TextContext::default());
        responder.command_complete("SELECT 1");
        responder.ready_for_query(TransactionStatus::InTransaction);
        let messages = parse(&responder);
        let [
            backend::Message::RowDescription(description),
            backend::Message::DataRow(row),
            backend::Message::CommandComplete(done),
            backend::Message::ReadyForQuery(ready),
        ] = &messages[..]
        else {
            panic!("{} messages", messages.len())
        };
        let names = description
            .fields()
            .map(|field| Ok(format!("{} {}", field.name(), field.type_oid())));
        assert_eq!(names.collect::<Vec<_>>().unwrap(), ["a 25", "b 25", "c 25"]);
        let ranges: Vec<_> = row.ranges().collect().unwrap();
        let shown: Vec<_> = ranges
            .into_iter()
            .map(|range| range.map(|range| &row.buffer()[range]))
            .collect();
        assert_eq!(shown, [Some(&b"x"[..]), None, Some(b"")]);
        assert_eq!((done.tag().unwrap(), ready.status()), ("SELECT 1", b'T'));
    }

    #[test]
    fn a_packed_row_is_sent_as_its_values_are() {
        let values = [
            (Value::Int4(-7), DataType::Int4),
            (Value::Null, DataType::Text),
            (Value::text("a text that is longer than fits inline"), DataType::Varchar),
            (Value::text(""), DataType::Text),
            (Value::text("x  "), DataType::Char),
            (Value::bytea(&[0, 255]), DataType::Bytea),
            (Value::Numeric(rubato_base::Numeric::from_i64(12)), DataType::Numeric),
            (Value::Int8(5), DataType::Oid),
            (Value::Timestamp(1), DataType::Timestamp),
            (Value::Bool(true), DataType::Bool),
        ];
        let kept: Vec<Value> = values.iter().map(|(value, _)| value.clone()).collect();
        let row = rubato_base::Row::from_values(&kept);
        // In another order than they are kept, one of them twice, and one that the row has not.
        let places = [9, 0, 2, 2, 1, 3, 4, 5, 6, 7, 8, 12];
        let type_at = |place: usize| values.get(place).map_or(DataType::Text, |(_, data_type)| *data_type);
        let columns: Vec<_> = places.iter().map(|place| column("c", type_at(*place))).collect();
        let wanted: Vec<Value> = places.iter().map(|place| row.get(*place)).collect();
        for formats in [&[][..], &[Format::Binary], &[Format::Binary, Format::Text]] {
            let (mut packed, mut plain) = (PgResponder::new(), PgResponder::new());
            packed.packed_row(row.as_ref(), &places, &columns, formats, &TextContext::default());
            plain.data_row(&wanted, &columns, formats, &TextContext::default());
            assert_eq!(packed.bytes(), plain.bytes());
            assert_eq!(parse(&packed).len(), 1);
        }
    }

    #[test]
    fn every_error_field_is_sent() {
        let error = Error::new(SqlState::UNIQUE_VIOLATION, "it is \0 there")
            .with_detail("d")
            .with_hint("h")
            .with_position(Some(7))
            .with_schema("s")
            .with_names(Some("t"), Some("c"), Some("n"))
            .with_data_type("d")
            .with_context("COPY t, line 3");
        let mut responder = PgResponder::new();
        responder.error(&error);
        responder.notice("WARNING", &error);
        let messages = parse(&responder);
        let [
            backend::Message::ErrorResponse(error),
            backend::Message::NoticeResponse(_),
        ] = &messages[..]
        else {
            panic!("{} messages", messages.len())
        };
        let fields = error.fields().map(|field| {
            Ok(format!(
                "{}={}",
                field.type_() as char,
                String::from_utf8_lossy(field.value_bytes())
            ))
        });
        assert_eq!(
            fields.collect::<Vec<_>>().unwrap().join("|"),
            "S=ERROR|V=ERROR|C=23505|M=it is \u{fffd} there|D=d|H=h|P=7|W=COPY t, line 3|s=s|t=t|c=c|d=d|n=n"
        );
    }

    #[test]
    fn pgjdbc_is_told_to_prepare_anew() {
        let mut responder = PgResponder::new();
        responder.error(&Error::new(SqlState::FEATURE_NOT_SUPPORTED, RESULT_TYPE_CHANGED));
        let messages = parse(&responder);
        let [backend::Message::ErrorResponse(error)] = &messages[..] else {
            panic!("{} messages", messages.len())
        };
        let routine = error.fields().filter(|field| Ok(field.type_() == b'R'));
        let routine = routine.map(|field| Ok(field.value_bytes().to_vec()));
        assert_eq!(routine.collect::<Vec<_>>().unwrap(), [b"RevalidateCachedQuery"]);
    }

    #[test]
    fn the_other_answers_are_read_by_a_client_library() {
        let mut responder = PgResponder::new();
        responder.parse_complete();
        responder.bind_complete();
        responder.close_complete();
        responder.no_data();
        responder.empty_query();
        responder.portal_suspended();
        responder.parameter_description(&[DataType::Int4, DataType::Text]);
        responder.parameter_status("TimeZone", "UTC");
        responder.copy_in(Format::Text, 2);
        responder.copy_out(Format::Binary, 2);
        responder.copy_data(b"abc");
        responder.copy_done();
        responder.authentication_ok();
        responder.backend_key_data(1, 2);
        assert_eq!(parse(&responder).len(), 14);
        responder.clear();
        assert_eq!(responder.buffered_bytes(), 0);
    }
}
