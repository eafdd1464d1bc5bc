//! Statements about extensions.

/// What is done with extensions.
#[derive(Debug)]
pub enum ExtensionChange {
    /// CREATE EXTENSION.
    Create {
        /// Its name.
        name: String,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// Where its functions are looked for; the first schema of the search path if it is not said.
        schema: Option<String>,
    },
    /// DROP EXTENSION.
    Drop {
        /// Names.
        names: Vec<String>,
        /// IF EXISTS.
        if_exists: bool,
    },
}
