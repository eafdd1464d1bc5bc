//! Input and output of every type against results recorded from PostgreSQL 15.

use super::{TextContext, parse_text, write_text};
use crate::binary_format::{parse_binary, write_binary};
use crate::datetime::TimeZone;
use crate::{DataType, Result};

struct Row {
    context: TextContext,
    data_type: DataType,
    modifier: i32,
    input: String,
    expected: String,
}

fn rows(table: &str) -> Vec<Row> {
    let unescape = |field: &str| {
        field
            .replace("\\\\", "\u{1}")
            .replace("\\t", "\t")
            .replace("\\n", "\n")
            .replace('\u{1}', "\\")
    };
    let row = |line: &str| {
        let fields: Vec<String> = line.split('\t').map(unescape).collect();
        let [zone, type_name, modifier, input, expected] = &fields[..] else {
            panic!("a row with other fields: {line}")
        };
        Row {
            context: TextContext {
                time_zone: TimeZone::from_name(zone).expect("a zone"),
                now_us: 0,
                ..TextContext::default()
            },
            data_type: (0..=20)
                .filter_map(DataType::from_tag)
                .find(|t| t.name() == type_name)
                .expect("a type"),
            modifier: modifier.parse().expect("a modifier"),
            input: input.clone(),
            expected: expected.clone(),
        }
    };
    table.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

fn compare(rows: Vec<Row>, least: usize, run: impl Fn(&Row) -> Result<String>) {
    assert!(rows.len() >= least, "the table has lost rows");
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let ours = run(row).unwrap_or_else(|error| format!("!{error}"));
            let (zone, name) = (row.context.time_zone.name(), row.data_type.name());
            (ours != row.expected).then(|| {
                format!(
                    "{zone} {name} {} {:?}: {}\n    ours {ours}",
                    row.modifier, row.input, row.expected
                )
            })
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        rows.len(),
        wrong.join("\n")
    );
}

#[test]
fn text_goes_in_and_out_as_in_postgresql() {
    compare(rows(include_str!("../../tests/recorded/text.tsv")), 1200, |row| {
        let value = parse_text(row.data_type, row.modifier, &row.input, &row.context)?;
        let mut out = Vec::new();
        write_text(&value, row.data_type, &row.context, &mut out);
        Ok(String::from_utf8(out).expect("text"))
    });
}

#[test]
fn the_binary_form_is_postgresqls_and_reads_back() {
    compare(rows(include_str!("../../tests/recorded/binary.tsv")), 200, |row| {
        let value = parse_text(row.data_type, row.modifier, &row.input, &row.context)?;
        let mut out = Vec::new();
        write_binary(&value, row.data_type, &row.context, &mut out);
        assert_eq!(parse_binary(row.data_type, row.modifier, &out, &row.context)?, value);
        Ok(out.iter().map(|byte| format!("{byte:02x}")).collect())
    });
}
