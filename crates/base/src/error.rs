//! The error that a user sees.

use crate::enumeration::{Marked, with_names};
use std::fmt;

/// A five-character SQLSTATE of PostgreSQL's appendix A.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub [u8; 5]);

macro_rules! states {
    ($($(#[$meta:meta])* $name:ident = $code:literal;)*) => {
        impl SqlState {
            $($(#[$meta])* #[doc = concat!("SQLSTATE ", stringify!($code), ".")] pub const $name: SqlState = SqlState(*$code);)*
        }
    };
}

states! {
    SUCCESSFUL_COMPLETION = b"00000";
    WARNING = b"01000";
    PROTOCOL_VIOLATION = b"08P01";
    FEATURE_NOT_SUPPORTED = b"0A000";
    CARDINALITY_VIOLATION = b"21000";
    STRING_DATA_RIGHT_TRUNCATION = b"22001";
    NUMERIC_VALUE_OUT_OF_RANGE = b"22003";
    NULL_VALUE_NOT_ALLOWED = b"22004";
    INVALID_DATETIME_FORMAT = b"22007";
    DATETIME_FIELD_OVERFLOW = b"22008";
    INVALID_TIME_ZONE_DISPLACEMENT_VALUE = b"22009";
    SUBSTRING_ERROR = b"22011";
    ARRAY_SUBSCRIPT_ERROR = b"2202E";
    DIVISION_BY_ZERO = b"22012";
    INVALID_ARGUMENT_FOR_LOGARITHM = b"2201E";
    INVALID_ARGUMENT_FOR_POWER_FUNCTION = b"2201F";
    INVALID_REGULAR_EXPRESSION = b"2201B";
    INVALID_ROW_COUNT_IN_LIMIT_CLAUSE = b"2201W";
    INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE = b"2201X";
    CHARACTER_NOT_IN_REPERTOIRE = b"22021";
    INVALID_PARAMETER_VALUE = b"22023";
    DUPLICATE_JSON_OBJECT_KEY_VALUE = b"22030";
    INVALID_ARGUMENT_FOR_JSON_DATETIME_FUNCTION = b"22031";
    INVALID_JSON_SUBSCRIPT = b"22033";
    NON_NUMERIC_JSON_ITEM = b"22036";
    SINGLETON_JSON_ITEM_REQUIRED = b"22038";
    JSON_ARRAY_NOT_FOUND = b"22039";
    JSON_MEMBER_NOT_FOUND = b"2203A";
    JSON_NUMBER_NOT_FOUND = b"2203B";
    JSON_OBJECT_NOT_FOUND = b"2203C";
    INVALID_ESCAPE_SEQUENCE = b"22025";
    INVALID_TEXT_REPRESENTATION = b"22P02";
    INVALID_BINARY_REPRESENTATION = b"22P03";
    BAD_COPY_FILE_FORMAT = b"22P04";
    UNTRANSLATABLE_CHARACTER = b"22P05";
    NOT_NULL_VIOLATION = b"23502";
    FOREIGN_KEY_VIOLATION = b"23503";
    UNIQUE_VIOLATION = b"23505";
    CHECK_VIOLATION = b"23514";
    INVALID_CURSOR_STATE = b"24000";
    ACTIVE_SQL_TRANSACTION = b"25001";
    NO_ACTIVE_SQL_TRANSACTION = b"25P01";
    READ_ONLY_SQL_TRANSACTION = b"25006";
    IN_FAILED_SQL_TRANSACTION = b"25P02";
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = b"25P03";
    INVALID_SQL_STATEMENT_NAME = b"26000";
    INVALID_AUTHORIZATION_SPECIFICATION = b"28000";
    INVALID_PASSWORD = b"28P01";
    DEPENDENT_OBJECTS_STILL_EXIST = b"2BP01";
    INVALID_CURSOR_NAME = b"34000";
    INVALID_SAVEPOINT_SPECIFICATION = b"3B001";
    INVALID_CATALOG_NAME = b"3D000";
    INVALID_SCHEMA_NAME = b"3F000";
    DUPLICATE_SCHEMA = b"42P06";
    AMBIGUOUS_ALIAS = b"42P09";
    RESERVED_NAME = b"42939";
    SERIALIZATION_FAILURE = b"40001";
    DEADLOCK_DETECTED = b"40P01";
    SYNTAX_ERROR = b"42601";
    INSUFFICIENT_PRIVILEGE = b"42501";
    CANNOT_COERCE = b"42846";
    INVALID_PRECEDING_OR_FOLLOWING_SIZE = b"22013";
    INVALID_ARGUMENT_FOR_NTILE = b"22014";
    INVALID_ARGUMENT_FOR_NTH_VALUE = b"22016";
    TOO_MANY_ARGUMENTS = b"54023";
    GROUPING_ERROR = b"42803";
    WINDOWING_ERROR = b"42P20";
    INVALID_FOREIGN_KEY = b"42830";
    INVALID_NAME = b"42602";
    NAME_TOO_LONG = b"42622";
    DATATYPE_MISMATCH = b"42804";
    INDETERMINATE_DATATYPE = b"42P18";
    UNDEFINED_COLUMN = b"42703";
    UNDEFINED_FUNCTION = b"42883";
    UNDEFINED_TABLE = b"42P01";
    UNDEFINED_PARAMETER = b"42P02";
    UNDEFINED_OBJECT = b"42704";
    DUPLICATE_COLUMN = b"42701";
    DUPLICATE_CURSOR = b"42P03";
    INVALID_CURSOR_DEFINITION = b"42P11";
    DUPLICATE_PREPARED_STATEMENT = b"42P05";
    DUPLICATE_TABLE = b"42P07";
    DUPLICATE_ALIAS = b"42712";
    DUPLICATE_OBJECT = b"42710";
    AMBIGUOUS_COLUMN = b"42702";
    AMBIGUOUS_FUNCTION = b"42725";
    INVALID_COLUMN_REFERENCE = b"42P10";
    INVALID_TABLE_DEFINITION = b"42P16";
    INVALID_COLUMN_DEFINITION = b"42611";
    WRONG_OBJECT_TYPE = b"42809";
    DISK_FULL = b"53100";
    OUT_OF_MEMORY = b"53200";
    TOO_MANY_CONNECTIONS = b"53300";
    CONFIGURATION_LIMIT_EXCEEDED = b"53400";
    PROGRAM_LIMIT_EXCEEDED = b"54000";
    STATEMENT_TOO_COMPLEX = b"54001";
    TOO_MANY_COLUMNS = b"54011";
    OBJECT_NOT_IN_PREREQUISITE_STATE = b"55000";
    OBJECT_IN_USE = b"55006";
    LOCK_NOT_AVAILABLE = b"55P03";
    WITH_CHECK_OPTION_VIOLATION = b"44000";
    UNSAFE_NEW_ENUM_VALUE_USAGE = b"55P04";
    QUERY_CANCELED = b"57014";
    ADMIN_SHUTDOWN = b"57P01";
    CANNOT_CONNECT_NOW = b"57P03";
    IDLE_SESSION_TIMEOUT = b"57P05";
    CONNECTION_FAILURE = b"08006";
    TRANSACTION_RESOLUTION_UNKNOWN = b"08007";
    IO_ERROR = b"58030";
    INTERNAL_ERROR = b"XX000";
    DATA_CORRUPTED = b"XX001";
}

impl SqlState {
    /// The five characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What went wrong, as PostgreSQL's error fields say it. Cheap to move: one pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Fields>);

/// The fields of an [`Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// SQLSTATE.
    pub code: SqlState,
    /// What was wrong, in one sentence without a final stop.
    pub message: String,
    /// More about this case.
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<String>,
    /// Character position in the statement text, from 1.
    pub position: Option<u32>,
    /// The schema of the table or type concerned.
    pub schema: Option<String>,
    /// The table concerned.
    pub table: Option<String>,
    /// The column concerned.
    pub column: Option<String>,
    /// The data type concerned, a domain.
    pub data_type: Option<String>,
    /// The constraint concerned.
    pub constraint: Option<String>,
    /// Where in the data it happened (COPY line and column, statement of a function).
    pub context: Option<String>,
}

impl Error {
    /// An error with a SQLSTATE and a message.
    pub fn new(code: SqlState, message: impl Into<String>) -> Error {
        Error(Box::new(Fields {
            code,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            schema: None,
            table: None,
            column: None,
            data_type: None,
            constraint: None,
            context: None,
        }))
    }

    /// 0A000: something PostgreSQL has and this version has not.
    pub fn unsupported(what: impl fmt::Display) -> Error {
        Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// XX000: a state that should not be reachable; reported, never a panic.
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(SqlState::INTERNAL_ERROR, message)
    }

    /// 40001 with the reason and, as detail, the item (promise 7).
    pub fn serialization(reason: impl Into<String>, item: impl Into<String>) -> Error {
        Error::new(
            SqlState::SERIALIZATION_FAILURE,
            format!("could not serialize access: {}", reason.into()),
        )
        .with_detail(item.into())
        .with_hint("The transaction might succeed if retried.")
    }

    /// Adds the detail field.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Error {
        self.0.detail = Some(detail.into());
        self
    }

    /// Adds the hint field.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Error {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the character position (from 1), unless one is already there.
    #[must_use]
    pub fn with_position(mut self, position: Option<u32>) -> Error {
        self.0.position = self.0.position.or(position);
        self
    }

    /// The error of a text that `characters` others stand before.
    #[must_use]
    pub fn moved(mut self, characters: u32) -> Error {
        self.0.position = self.0.position.map(|position| position.saturating_add(characters));
        self
    }

    /// Takes away the position: it was that of another text.
    #[must_use]
    pub fn without_position(mut self) -> Error {
        self.0.position = None;
        self
    }

    /// Adds table, column and constraint names where given.
    #[must_use]
    pub fn with_names(mut self, table: Option<&str>, column: Option<&str>, constraint: Option<&str>) -> Error {
        self.0.table = table.map(str::to_owned).or(self.0.table);
        self.0.column = column.map(str::to_owned).or(self.0.column);
        self.0.constraint = constraint.map(str::to_owned).or(self.0.constraint);
        self
    }

    /// Adds the name of the schema that the table is in.
    #[must_use]
    pub fn with_schema(mut self, schema: impl Into<String>) -> Error {
        self.0.schema = Some(schema.into());
        self
    }

    /// Adds the domain concerned, by name or as [`Marked::Type`]'s mark, which gets the schema too where names are put for marks.
    #[must_use]
    pub fn with_data_type(mut self, data_type: impl Into<String>) -> Error {
        self.0.data_type = Some(data_type.into());
        self
    }

    /// Adds the context field.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<String>) -> Error {
        self.0.context = Some(context.into());
        self
    }

    /// Puts the names of the users' types and labels where messages have marks for them: `name` knows them.
    #[must_use]
    pub fn with_type_names(mut self, name: &dyn Fn(Marked) -> Option<String>) -> Error {
        let named = |text: &str| with_names(text, name);
        if let Some(message) = named(&self.0.message) {
            self.0.message = message;
        }
        if let Some(Marked::Type(number)) = self.0.data_type.as_deref().and_then(Marked::of_mark) {
            self.0.data_type = name(Marked::BareType(number));
            self.0.schema = name(Marked::SchemaOfType(number));
        }
        let fields = [
            &mut self.0.detail,
            &mut self.0.hint,
            &mut self.0.context,
            &mut self.0.schema,
        ];
        for field in fields {
            if let Some(text) = field.as_deref().and_then(named) {
                *field = Some(text);
            }
        }
        self
    }

    /// All fields.
    pub fn fields(&self) -> &Fields {
        &self.0
    }

    /// The SQLSTATE.
    pub fn code(&self) -> SqlState {
        self.0.code
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether a retry of the whole transaction may succeed (40001, 40P01).
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.0.code,
            SqlState::SERIALIZATION_FAILURE | SqlState::DEADLOCK_DETECTED
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.message, self.0.code.as_str())?;
        self.0.detail.iter().try_for_each(|detail| write!(f, "; {detail}"))
    }
}

impl std::error::Error for Error {}

/// A result whose error a user may see.
pub type Result<T> = std::result::Result<T, Error>;
