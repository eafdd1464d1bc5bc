//! Extensions: names under which programs ask for functions. The functions are built in, whether somebody has created their extension or not.

use super::SchemaId;

/// An extension that was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Its number.
    pub oid: u32,
    /// Where its functions are looked for, beside `public`.
    pub schema: SchemaId,
}

/// An extension that may be created.
pub struct AvailableExtension {
    /// Its name.
    pub name: &'static str,
    /// The version of PostgreSQL's extension of which it has functions.
    pub version: &'static str,
    /// What it is for.
    pub comment: &'static str,
}

/// All that may be created, by name.
pub static AVAILABLE_EXTENSIONS: [AvailableExtension; 2] = [
    AvailableExtension {
        name: "pgcrypto",
        version: "1.3",
        comment: "cryptographic functions",
    },
    AvailableExtension {
        name: "uuid-ossp",
        version: "1.1",
        comment: "generate universally unique identifiers (UUIDs)",
    },
];

/// Extensions that are always there: the server's own, and the language of functions, of which dumps of PostgreSQL speak.
pub const BUILT_IN_EXTENSIONS: [&str; 2] = ["plpgsql", "rubato"];

/// The extension of this name, if it may be created.
pub fn available_extension(name: &str) -> Option<&'static AvailableExtension> {
    AVAILABLE_EXTENSIONS.iter().find(|own| own.name == name)
}
