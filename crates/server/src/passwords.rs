//! Who may log in with which password.

use crate::scram::{MockSecret, Verifier};
use rubato_base::Error;
use std::collections::BTreeMap;
use std::path::Path;

/// The users that may log in, and the verifiers of their passwords.
#[derive(Clone, Debug)]
pub struct Passwords {
    verifiers: BTreeMap<String, Verifier>,
    mock_secret: MockSecret,
}

impl Passwords {
    /// Nobody may log in yet.
    pub fn new() -> Result<Passwords, Error> {
        Ok(Passwords {
            verifiers: BTreeMap::new(),
            mock_secret: MockSecret::random()?,
        })
    }

    /// Adds or replaces a user.
    pub fn insert(&mut self, user: &str, verifier: Verifier) {
        self.verifiers.insert(user.to_owned(), verifier);
    }

    /// Adds the users of a file: lines of `user:verifier`, where the verifier is as `rubato password` prints it (PostgreSQL's
    /// form in `pg_authid`). Empty lines and lines that begin with `#` are passed over. The error names file and line.
    pub fn read_file(&mut self, path: &Path) -> Result<(), String> {
        let shown = path.display();
        let text =
            std::fs::read_to_string(path).map_err(|wrong| format!("cannot read the password file {shown}: {wrong}"))?;
        let mut lines = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let number = number + 1;
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = line
                .split_once(':')
                .and_then(|(user, text)| Some((user, Verifier::parse(text.trim())?)));
            let Some((user, verifier)) = entry.filter(|(user, _)| !user.is_empty()) else {
                let hint = "expected user:SCRAM-SHA-256$..., a line that `rubato password USER` prints";
                return Err(format!("password file {shown}, line {number}: {hint}"));
            };
            // Which of the two is meant is not known, and one may be the password that was to be changed.
            if let Some(before) = lines.insert(user, number) {
                return Err(format!(
                    "password file {shown}, line {number}: the user {user:?} has a password in line {before} already"
                ));
            }
            self.insert(user, verifier);
        }
        Ok(())
    }

    pub(crate) fn verifier(&self, user: &str) -> Option<&Verifier> {
        self.verifiers.get(user)
    }

    pub(crate) fn mock_secret(&self) -> &MockSecret {
        &self.mock_secret
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_users_or_names_the_wrong_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passwords");
        let verifier = Verifier::from_password("x").unwrap();
        std::fs::write(&path, format!("# users\n\nann:{verifier}\n")).unwrap();
        let mut passwords = Passwords::new().unwrap();
        passwords.read_file(&path).unwrap();
        assert_eq!(passwords.verifier("ann"), Some(&verifier));
        assert_eq!(passwords.verifier("bob"), None);
        std::fs::write(&path, format!("ann:{verifier}\n# again\nann:{verifier}\n")).unwrap();
        let refused = Passwords::new().unwrap().read_file(&path).unwrap_err();
        assert!(
            refused.contains("line 3") && refused.contains("line 1 already"),
            "{refused}"
        );
        std::fs::write(&path, "ann:secret\n").unwrap();
        assert!(passwords.read_file(&path).unwrap_err().contains("line 1"));
        assert!(
            passwords
                .read_file(&folder.path().join("none"))
                .unwrap_err()
                .contains("none")
        );
    }
}
