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
    /// The functions that belong to it in PostgreSQL alone.
    pub functions: &'static [&'static str],
}

/// All that may be created, by name.
pub static AVAILABLE_EXTENSIONS: [AvailableExtension; 2] = [
    AvailableExtension {
        name: "pgcrypto",
        version: "1.3",
        comment: "cryptographic functions",
        functions: &["digest", "gen_random_bytes", "hmac"],
    },
    AvailableExtension {
        name: "uuid-ossp",
        version: "1.1",
        comment: "generate universally unique identifiers (UUIDs)",
        functions: &[
            "uuid_generate_v1",
            "uuid_generate_v1mc",
            "uuid_generate_v3",
            "uuid_generate_v4",
            "uuid_generate_v5",
            "uuid_nil",
            "uuid_ns_dns",
            "uuid_ns_oid",
            "uuid_ns_url",
            "uuid_ns_x500",
        ],
    },
];

/// Extensions that are always there: the server's own, and the language of functions, of which dumps of PostgreSQL speak.
pub const BUILT_IN_EXTENSIONS: [&str; 2] = ["plpgsql", "rubato"];

/// The extension of this name, if it may be created.
pub fn available_extension(name: &str) -> Option<&'static AvailableExtension> {
    AVAILABLE_EXTENSIONS.iter().find(|own| own.name == name)
}
