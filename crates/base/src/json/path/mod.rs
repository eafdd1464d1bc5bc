//! The path language of SQL/JSON: the type `jsonpath`. Here are its texts; what a path finds in a document is evaluated with the functions.
//!
//! A path is a *chain*: what it starts from, then step by step where it goes. Operators are such starts, of chains of their own.

mod lexer;
mod parser;
mod show;

use crate::{Error, Numeric, Result, SqlState};
use ecow::EcoString;

/// How deep a path may be: the steps of its chains and the chains within them.
pub const PATH_DEPTH_MAX: usize = 400;
/// The level that `last` means in `.**{2 to last}`.
pub const LEVEL_LAST: u32 = u32::MAX;

/// A path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    /// Whether what does not fit the path's shape is an error.
    pub strict: bool,
    /// What it says.
    pub chain: Chain,
}

/// A start and the steps from there. Never empty.
pub type Chain = Vec<Step>;

/// A start or a step of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Numeric),
    /// A string.
    String(EcoString),
    /// `$name`
    Variable(EcoString),
    /// `$`
    Root,
    /// `@`
    Current,
    /// `last`
    Last,
    /// An operator of two operands.
    Binary(BinaryOperator, Chain, Chain),
    /// An operator of one operand.
    Unary(UnaryOperator, Chain),
    /// `like_regex`
    LikeRegex {
        /// What is matched.
        operand: Chain,
        /// The regular expression.
        pattern: EcoString,
        /// Its flags.
        flags: RegexFlags,
    },
    /// `[*]`
    AnyItem,
    /// `.*`
    AnyKey,
    /// `.**{first to last}`
    AnyLevel(u32, u32),
    /// `.key`
    Key(EcoString),
    /// `[from, from to until]`
    Items(Vec<(Chain, Option<Chain>)>),
    /// `?(condition)`
    Filter(Chain),
    /// `.method()`
    Method(Method),
    /// `.datetime()` with its template.
    Datetime(Option<EcoString>),
}

/// An operator of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names say it")]
pub enum BinaryOperator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    StartsWith,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl BinaryOperator {
    /// How it is written.
    pub fn symbol(self) -> &'static str {
        use BinaryOperator as Of;
        match self {
            Of::Or => "||",
            Of::And => "&&",
            Of::Equal => "==",
            Of::NotEqual => "!=",
            Of::Less => "<",
            Of::LessOrEqual => "<=",
            Of::Greater => ">",
            Of::GreaterOrEqual => ">=",
            Of::StartsWith => "starts with",
            Of::Add => "+",
            Of::Subtract => "-",
            Of::Multiply => "*",
            Of::Divide => "/",
            Of::Modulo => "%",
        }
    }
}

/// An operator of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOperator {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `!`
    Not,
    /// `is unknown`
    IsUnknown,
    /// `exists`
    Exists,
}

/// A method without arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names say it")]
pub enum Method {
    Type,
    Size,
    Double,
    Ceiling,
    Floor,
    Abs,
    KeyValue,
}

impl Method {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Method::Type => "type",
            Method::Size => "size",
            Method::Double => "double",
            Method::Ceiling => "ceiling",
            Method::Floor => "floor",
            Method::Abs => "abs",
            Method::KeyValue => "keyvalue",
        }
    }
}

/// The flags of `like_regex`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegexFlags {
    /// `i`
    pub ignores_case: bool,
    /// `s`: a dot matches a line end too.
    pub dot_is_all: bool,
    /// `m`: lines begin and end within the string.
    pub has_lines: bool,
    /// `x`
    pub expanded: bool,
    /// `q`: no character means more than itself.
    pub is_quoted: bool,
}

impl JsonPath {
    /// Reads a path. 42601 for text that is none, 22P02 for an empty one, 54001 for one that is too deep.
    pub fn parse(text: &str) -> Result<JsonPath> {
        parser::parse(text)
    }
}

/// Reads the binary form: a version and the text.
pub(crate) fn parse_binary(bytes: &[u8], utf8: fn(&[u8]) -> Result<&str>) -> Result<JsonPath> {
    match bytes.split_first() {
        Some((&super::BINARY_VERSION, text)) => JsonPath::parse(utf8(text)?),
        Some((version, _)) => {
            let message = format!("unsupported jsonpath version number: {version}");
            Err(Error::new(SqlState::INTERNAL_ERROR, message))
        }
        None => Err(Error::new(SqlState::PROTOCOL_VIOLATION, "no data left in message")),
    }
}
