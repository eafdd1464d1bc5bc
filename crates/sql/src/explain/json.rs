//! EXPLAIN (FORMAT JSON).

use super::{Figures, Node, WayFigures};
use std::fmt::Write;

/// The document, line by line.
pub(super) fn lines(nodes: &[Node], figures: Option<&Figures>) -> Vec<String> {
    let mut lines = vec!["[".to_owned(), "  {".to_owned(), "    \"Stages\": [".to_owned()];
    for (index, node) in nodes.iter().enumerate() {
        let mut fields = vec![
            ("Stage".to_owned(), text(node.stage)),
            ("Plan".to_owned(), text(&node.title)),
        ];
        fields.extend(node.details.iter().map(|(key, value)| ((*key).to_owned(), text(value))));
        if let Some(figures) = node.figures {
            fields.push(("Loops".to_owned(), figures.loops.to_string()));
            fields.push(("Rows read".to_owned(), figures.rows_read.to_string()));
            fields.push(("Rows".to_owned(), figures.rows.to_string()));
            fields.push(("Time us".to_owned(), figures.time_us.to_string()));
        }
        lines.push("      {".to_owned());
        let last = fields.len() - 1;
        for (place, (key, value)) in fields.into_iter().enumerate() {
            lines.push(format!(
                "        {}: {value}{}",
                text(&key),
                if place < last { "," } else { "" }
            ));
        }
        lines.push(format!("      }}{}", if index + 1 < nodes.len() { "," } else { "" }));
    }
    lines.push(format!("    ]{}", if figures.is_some() { "," } else { "" }));
    if let Some(figures) = figures {
        lines.extend(figures.way.iter().flat_map(WayFigures::json_lines));
        lines.push(format!("    \"Rows\": {},", figures.rows));
        lines.push(format!(
            "    \"Execution Time\": {:.3}",
            figures.time_us as f64 / 1000.0
        ));
    }
    lines.extend(["  }".to_owned(), "]".to_owned()]);
    lines
}

/// A JSON string.
fn text(content: &str) -> String {
    let mut out = String::with_capacity(content.len() + 2);
    out.push('"');
    for character in content.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            control if u32::from(control) < 0x20 => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
