//! COPY TO: rows to data.

use super::BINARY_SIGNATURE;
use crate::client::OutputColumn;
use crate::statement::{CopyFormat, CopyStatement};
use rubato_base::binary_format::write_binary;
use rubato_base::text_format::{TextContext, write_text};
use rubato_base::{DataType, Value};

/// Writes rows in one of the formats of COPY.
#[derive(Debug)]
pub struct CopyWriter {
    format: CopyFormat,
    delimiter: u8,
    quote: u8,
    escape: u8,
    null: Vec<u8>,
    columns: Vec<OutputColumn>,
    force_quote: Vec<usize>,
    has_header: bool,
    field: Vec<u8>,
}

impl CopyWriter {
    /// A writer for a COPY TO statement.
    pub fn new(statement: &CopyStatement) -> CopyWriter {
        let force_quote = statement.force_quote.iter().map(|column| {
            // Table columns are numbered by the table, the output by place.
            statement
                .columns
                .iter()
                .position(|other| other == column)
                .unwrap_or(*column)
        });
        CopyWriter {
            format: statement.format,
            delimiter: statement.delimiter,
            quote: statement.quote,
            escape: statement.escape,
            null: statement.null.as_bytes().to_vec(),
            columns: statement.output.clone(),
            force_quote: force_quote.collect(),
            has_header: statement.header,
            field: Vec::new(),
        }
    }

    /// Appends what stands before the first row.
    pub fn write_header(&mut self, out: &mut Vec<u8>) {
        if self.format == CopyFormat::Binary {
            out.extend_from_slice(BINARY_SIGNATURE);
            out.extend_from_slice(&[0; 8]);
        } else if self.has_header {
            for place in 0..self.columns.len() {
                self.field.clear();
                self.field.extend_from_slice(self.columns[place].name.as_bytes());
                self.end_field(place, false, out);
            }
            out.push(b'\n');
        }
    }

    /// Whether the header is a message of its own; a binary one goes along with the first row.
    pub fn has_own_header(&self) -> bool {
        self.has_header && self.format != CopyFormat::Binary
    }

    /// Appends one row.
    pub fn write_row(&mut self, row: &[Value], context: &TextContext, out: &mut Vec<u8>) {
        if self.format == CopyFormat::Binary {
            return self.write_binary_row(row, context, out);
        }
        for (place, value) in row.iter().enumerate() {
            if value.is_null() {
                if place > 0 {
                    out.push(self.delimiter);
                }
                out.extend_from_slice(&self.null);
                continue;
            }
            self.field.clear();
            write_text(value, self.data_type(place), context, &mut self.field);
            self.end_field(place, self.force_quote.contains(&place), out);
        }
        out.push(b'\n');
    }

    /// Appends what stands behind the last row.
    pub fn write_trailer(&self, out: &mut Vec<u8>) {
        if self.format == CopyFormat::Binary {
            out.extend_from_slice(&(-1i16).to_be_bytes());
        }
    }

    fn data_type(&self, place: usize) -> DataType {
        self.columns
            .get(place)
            .map_or(DataType::Text, |column| column.data_type)
    }

    fn write_binary_row(&mut self, row: &[Value], context: &TextContext, out: &mut Vec<u8>) {
        out.extend_from_slice(&(row.len() as i16).to_be_bytes());
        for (place, value) in row.iter().enumerate() {
            if value.is_null() {
                out.extend_from_slice(&(-1i32).to_be_bytes());
                continue;
            }
            self.field.clear();
            write_binary(value, self.data_type(place), context, &mut self.field);
            out.extend_from_slice(&(self.field.len() as i32).to_be_bytes());
            out.extend_from_slice(&self.field);
        }
    }

    /// Appends the field's text with what it needs to be read back.
    fn end_field(&self, place: usize, force_quote: bool, out: &mut Vec<u8>) {
        if place > 0 {
            out.push(self.delimiter);
        }
        if self.format == CopyFormat::Text {
            return escape_text(&self.field, self.delimiter, out);
        }
        let special = |byte: &u8| *byte == self.delimiter || *byte == self.quote || matches!(*byte, b'\n' | b'\r');
        let is_end_marker = self.columns.len() == 1 && self.field == b"\\.";
        if !force_quote && !is_end_marker && self.field != self.null && !self.field.iter().any(special) {
            out.extend_from_slice(&self.field);
            return;
        }
        out.push(self.quote);
        for &byte in &self.field {
            if byte == self.quote || byte == self.escape {
                out.push(self.escape);
            }
            out.push(byte);
        }
        out.push(self.quote);
    }
}

fn escape_text(field: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    for &byte in field {
        let letter = match byte {
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            b'\\' => b'\\',
            other if other == delimiter => other,
            other => {
                out.push(other);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', letter]);
    }
}
