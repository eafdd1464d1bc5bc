//! The text form of `jsonb`.

use super::Json;

impl Json {
    /// Appends the text form, with a blank behind each colon and comma.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Json::Null => out.extend_from_slice(b"null"),
            Json::Bool(true) => out.extend_from_slice(b"true"),
            Json::Bool(false) => out.extend_from_slice(b"false"),
            Json::Number(number) => number.write_text(out),
            Json::String(string) => write_string(string, out),
            Json::Array(items) => {
                out.push(b'[');
                for (place, item) in items.iter().enumerate() {
                    if place > 0 {
                        out.extend_from_slice(b", ");
                    }
                    item.write(out);
                }
                out.push(b']');
            }
            Json::Object(pairs) => {
                out.push(b'{');
                for (place, (key, value)) in pairs.iter().enumerate() {
                    if place > 0 {
                        out.extend_from_slice(b", ");
                    }
                    write_string(key, out);
                    out.extend_from_slice(b": ");
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }

    /// Appends what `jsonb_pretty` gives: one element a line.
    pub fn write_pretty(&self, indent: usize, out: &mut Vec<u8>) {
        let line = |out: &mut Vec<u8>, place: usize, indent: usize| {
            out.extend_from_slice(if place > 0 { b",\n" } else { b"\n" });
            out.resize(out.len() + 4 * indent, b' ');
        };
        let close = |out: &mut Vec<u8>, bracket: u8| {
            out.push(b'\n');
            out.resize(out.len() + 4 * indent, b' ');
            out.push(bracket);
        };
        match self {
            Json::Array(items) => {
                out.push(b'[');
                for (place, item) in items.iter().enumerate() {
                    line(out, place, indent + 1);
                    item.write_pretty(indent + 1, out);
                }
                close(out, b']');
            }
            Json::Object(pairs) => {
                out.push(b'{');
                for (place, (key, value)) in pairs.iter().enumerate() {
                    line(out, place, indent + 1);
                    write_string(key, out);
                    out.extend_from_slice(b": ");
                    value.write_pretty(indent + 1, out);
                }
                close(out, b'}');
            }
            scalar => scalar.write(out),
        }
    }
}

/// Appends a string in quotes, with the escapes that it needs.
pub fn write_string(string: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in string.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..32 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            plain => out.push(plain),
        }
    }
    out.push(b'"');
}
