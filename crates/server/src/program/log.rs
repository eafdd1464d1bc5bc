//! The log on standard error: one line for each event, whatever somebody outside has put into it.

use super::arguments::{LogFormat, StartArguments};
use std::fmt::{self, Debug, Write};
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{FormatFields, Writer, debug_fn};

/// Sends events of all crates to standard error.
pub(super) fn start_log(arguments: &StartArguments, default_filter: &str) -> Result<(), String> {
    let filter = arguments.log.as_deref().unwrap_or(default_filter);
    let filter = tracing_subscriber::EnvFilter::try_new(filter).map_err(|wrong| format!("--log {filter}: {wrong}"))?;
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Or it says there that it cannot say anything there, and ends the process: where a disk is full, what has the log is often that.
        .log_internal_errors(false)
        .with_ansi(is_terminal);
    let started = match arguments.log_format {
        // Strings of JSON have no control characters.
        Some(LogFormat::Json) => builder.json().try_init(),
        _ => builder.fmt_fields(fields()).try_init(),
    };
    started.map_err(|wrong| wrong.to_string())
}

/// How what an event says is written. Names of users and databases, and much else that a stranger has said before he has logged in, stand in it:
/// none may look like another event, or move the cursor of whoever reads it.
fn fields() -> impl for<'a> FormatFields<'a> + 'static {
    debug_fn(put_field).delimited(" ")
}

fn put_field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    match (field.name(), writer.has_ansi_escapes()) {
        ("message", _) => {}
        (name, false) => write!(writer, "{name}=")?,
        // Italic, and an equals sign that is dim.
        (name, true) => write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?,
    }
    write!(OneLine(writer), "{value:?}")
}

/// Writes `\n` and the like in place of control characters.
struct OneLine<'a, 'b>(&'a mut Writer<'b>);

impl Write for OneLine<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !text.contains(char::is_control) {
            return self.0.write_str(text);
        }
        text.chars().try_for_each(|c| match c.is_control() {
            true => write!(self.0, "{}", c.escape_default()),
            false => self.0.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written of an event with a name that somebody has thought of, and of one behind it.
    fn said(is_colored: bool, name: &str) -> String {
        let kept = Kept::default();
        let out = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || out.clone())
            .with_ansi(is_colored)
            .without_time()
            .fmt_fields(fields())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(number = 7, quoted = "a b", error = %name, "refused {name}");
            tracing::info!("ends é");
        });
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// Anybody could write events into the log by the name of a database.
    #[test]
    fn an_event_is_one_line_whatever_stands_in_it() {
        let target = module_path!();
        assert_eq!(
            said(false, "x\r\n2026 ERROR y\u{9b}2J\u{1b}[2J\t\u{7f}"),
            format!(
                " INFO {target}: refused x\\r\\n2026 ERROR y\\u{{9b}}2J\\u{{1b}}[2J\\t\\u{{7f}} number=7 quoted=\"a b\" \
                 error=x\\r\\n2026 ERROR y\\u{{9b}}2J\\u{{1b}}[2J\\t\\u{{7f}}\n INFO {target}: ends é\n"
            )
        );
        let colored = said(true, "x\n\u{1b}[2J");
        assert!(
            colored.contains("\u{1b}[3mnumber\u{1b}[0m") && !colored.contains("\u{1b}[2J"),
            "{colored:?}"
        );
        assert_eq!(colored.lines().count(), 2, "{colored:?}");
    }
}
