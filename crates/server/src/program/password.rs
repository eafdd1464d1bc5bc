//! `rubato password`: from a password to a line of the password file.

use crate::scram::Verifier;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use std::io::{BufRead, IsTerminal, stdin};
use std::process::ExitCode;

pub(super) fn print_line(user: &str) -> Result<ExitCode, String> {
    if user.is_empty() || user.contains([':', '\n', '#']) {
        return Err(format!("\"{user}\" cannot stand in a password file"));
    }
    let password = read_password().map_err(|wrong| format!("cannot read the password: {wrong}"))?;
    if password.is_empty() {
        return Err("the password is empty".to_owned());
    }
    let verifier = Verifier::from_password(&password).map_err(|error| error.to_string())?;
    println!("{user}:{verifier}");
    Ok(ExitCode::SUCCESS)
}

fn read_password() -> std::io::Result<String> {
    let input = stdin();
    let mut line = String::new();
    if !input.is_terminal() {
        input.lock().read_line(&mut line)?;
        return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
    }
    eprint!("Password: ");
    let shown = tcgetattr(&input)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&input, OptionalActions::Flush, &hidden)?;
    let read = input.lock().read_line(&mut line);
    tcsetattr(&input, OptionalActions::Flush, &shown)?;
    eprintln!();
    read?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
