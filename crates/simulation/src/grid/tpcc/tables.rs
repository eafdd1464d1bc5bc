//! The tables of TPC-C in a grid: their columns, and their rows as clients and checkers know them.
//!
//! Columns that nothing is decided by (names, addresses) are left out, and so is ITEM, which nobody changes: a price follows from
//! the item's number. HISTORY, which has no key, gets one; the index by which a customer's orders are found is a table of its own,
//! as an index of SQL is to the protocol.
//!
//! To the checkers each column of each row is a *cell* ([`Table::Cell`]), with a number that says which: so what clients saw is
//! judged by the same checkers as the other workloads.

use crate::history::{Key, Row, Table};
use rubato_base::{ColumnType, DataType, Key as RowKey, Numeric, Row as Packed, Value};

/// Warehouses; each with all its rows is on one node.
pub(super) const WAREHOUSES: i64 = 3;
/// Districts of each warehouse.
pub(super) const DISTRICTS: i64 = 2;
/// Customers of each district; each has one order in the beginning.
pub(super) const CUSTOMERS: i64 = 3;
/// Items, each in the stock of every warehouse.
pub(super) const ITEMS: i64 = 6;
/// Orders of each district that are delivered in the beginning.
pub(super) const DELIVERED: i64 = 1;
/// The stock of each item in the beginning.
pub(super) const QUANTITY: i64 = 40;
/// NULL, in a cell.
pub(super) const NULL: i64 = -1;
/// Keys of HISTORY below this are of rows that were there in the beginning.
pub(super) const HISTORY_FIRST: i64 = 100;

pub(super) const W_TAX: usize = 0;
pub(super) const W_YTD: usize = 1;
pub(super) const D_TAX: usize = 0;
pub(super) const D_NEXT_O_ID: usize = 1;
pub(super) const D_YTD: usize = 2;
pub(super) const C_DISCOUNT: usize = 0;
pub(super) const C_BALANCE: usize = 1;
pub(super) const C_YTD_PAYMENT: usize = 2;
pub(super) const C_PAYMENT_CNT: usize = 3;
pub(super) const C_DELIVERY_CNT: usize = 4;
pub(super) const C_DATA: usize = 5;
pub(super) const H_C_W_ID: usize = 0;
pub(super) const H_C_D_ID: usize = 1;
pub(super) const H_C_ID: usize = 2;
pub(super) const H_AMOUNT: usize = 3;
pub(super) const O_C_ID: usize = 0;
pub(super) const O_ENTRY_D: usize = 1;
pub(super) const O_CARRIER_ID: usize = 2;
pub(super) const O_OL_CNT: usize = 3;
pub(super) const OL_I_ID: usize = 0;
pub(super) const OL_SUPPLY_W_ID: usize = 1;
pub(super) const OL_DELIVERY_D: usize = 2;
pub(super) const OL_QUANTITY: usize = 3;
pub(super) const OL_AMOUNT: usize = 4;
pub(super) const S_QUANTITY: usize = 0;
pub(super) const S_YTD: usize = 1;
pub(super) const S_ORDER_CNT: usize = 2;
pub(super) const S_REMOTE_CNT: usize = 3;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Warehouse,
    District,
    Customer,
    History,
    Orders,
    OrdersByCustomer,
    NewOrder,
    OrderLine,
    Stock,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An integer.
    Integer,
    /// An integer or NULL.
    Optional,
    /// `numeric(12,2)`; a cell has cents.
    Money,
    /// Text.
    Text,
}

/// The columns of a key, then the others.
pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) keys: &'static [&'static str],
    pub(super) columns: &'static [(&'static str, Kind)],
}

const DEFINITIONS: [Definition; 9] = [
    Definition {
        name: "warehouse",
        keys: &["w_id"],
        columns: &[("w_tax", Kind::Integer), ("w_ytd", Kind::Money)],
    },
    Definition {
        name: "district",
        keys: &["d_w_id", "d_id"],
        columns: &[
            ("d_tax", Kind::Integer),
            ("d_next_o_id", Kind::Integer),
            ("d_ytd", Kind::Money),
        ],
    },
    Definition {
        name: "customer",
        keys: &["c_w_id", "c_d_id", "c_id"],
        columns: &[
            ("c_discount", Kind::Integer),
            ("c_balance", Kind::Money),
            ("c_ytd_payment", Kind::Money),
            ("c_payment_cnt", Kind::Integer),
            ("c_delivery_cnt", Kind::Integer),
            ("c_data", Kind::Text),
        ],
    },
    Definition {
        name: "history",
        keys: &["h_w_id", "h_d_id", "h_id"],
        columns: &[
            ("h_c_w_id", Kind::Integer),
            ("h_c_d_id", Kind::Integer),
            ("h_c_id", Kind::Integer),
            ("h_amount", Kind::Money),
        ],
    },
    Definition {
        name: "orders",
        keys: &["o_w_id", "o_d_id", "o_id"],
        columns: &[
            ("o_c_id", Kind::Integer),
            ("o_entry_d", Kind::Integer),
            ("o_carrier_id", Kind::Optional),
            ("o_ol_cnt", Kind::Integer),
        ],
    },
    Definition {
        name: "orders_by_customer",
        keys: &["o_w_id", "o_d_id", "o_c_id", "o_id"],
        columns: &[],
    },
    Definition {
        name: "new_order",
        keys: &["no_w_id", "no_d_id", "no_o_id"],
        columns: &[],
    },
    Definition {
        name: "order_line",
        keys: &["ol_w_id", "ol_d_id", "ol_o_id", "ol_number"],
        columns: &[
            ("ol_i_id", Kind::Integer),
            ("ol_supply_w_id", Kind::Integer),
            ("ol_delivery_d", Kind::Optional),
            ("ol_quantity", Kind::Integer),
            ("ol_amount", Kind::Money),
        ],
    },
    Definition {
        name: "stock",
        keys: &["s_w_id", "s_i_id"],
        columns: &[
            ("s_quantity", Kind::Integer),
            ("s_ytd", Kind::Integer),
            ("s_order_cnt", Kind::Integer),
            ("s_remote_cnt", Kind::Integer),
        ],
    },
];

/// The parts of a row's key, from the warehouse on; those that its table has not are 0.
pub(super) type Place = [i64; 4];

/// Decimal places in a cell's number, which is read from the left: the table (1 for WAREHOUSE), the column, the warehouse, two digits
/// for the district or item, and six for each part of the key behind that.
const PART: i64 = 1_000_000;
const DISTRICT: i64 = PART * PART;
const WAREHOUSE: i64 = DISTRICT * 100;
const COLUMN: i64 = WAREHOUSE * 10;
const RELATION: i64 = COLUMN * 10;
/// The largest number of an order, a line and a row of HISTORY that a cell's number has room for.
pub(super) const PART_MAX: i64 = PART - 1;

impl Relation {
    pub(super) const ALL: [Relation; 9] = [
        Relation::Warehouse,
        Relation::District,
        Relation::Customer,
        Relation::History,
        Relation::Orders,
        Relation::OrdersByCustomer,
        Relation::NewOrder,
        Relation::OrderLine,
        Relation::Stock,
    ];

    pub(super) fn definition(self) -> &'static Definition {
        &DEFINITIONS[self as usize]
    }

    pub(super) fn name(self) -> &'static str {
        self.definition().name
    }

    /// How many columns the key has.
    pub(super) fn key_columns(self) -> usize {
        self.definition().keys.len()
    }

    /// What the columns behind the key hold.
    pub(super) fn kinds(self) -> impl Iterator<Item = Kind> {
        self.definition().columns.iter().map(|(_, kind)| *kind)
    }

    pub(super) fn kind(self, column: usize) -> Kind {
        self.definition()
            .columns
            .get(column)
            .map_or(Kind::Integer, |(_, kind)| *kind)
    }

    /// Whether there is such a column. (A row without columns has a cell nevertheless.)
    pub(super) fn has_column(self, column: usize) -> bool {
        column < self.definition().columns.len()
    }

    /// The cells of a row: its columns, or one that says that it is there.
    pub(super) fn cells(self) -> usize {
        self.definition().columns.len().max(1)
    }

    pub(super) fn cell(self, column: usize, place: Place) -> Key {
        let [warehouse, second, third, fourth] = place;
        let relation = (self as i64 + 1) * RELATION + column as i64 * COLUMN;
        (
            Table::Cell,
            relation + warehouse * WAREHOUSE + second * DISTRICT + third * PART + fourth,
        )
    }

    /// The key of a row, or, of fewer parts, what all keys of several rows begin with.
    pub(super) fn key(parts: &[i64]) -> RowKey {
        let values: Vec<Value> = parts.iter().map(|part| Value::Int4(*part as i32)).collect();
        RowKey::of(&values)
    }

    pub(super) fn row_key(self, place: Place) -> RowKey {
        Relation::key(&place[..self.key_columns()])
    }

    /// Where a row is that was read.
    pub(super) fn place_of(self, row: &Packed) -> Place {
        let mut place = Place::default();
        for (at, part) in place.iter_mut().enumerate().take(self.key_columns()) {
            *part = row.get(at).as_i64().unwrap_or(NULL);
        }
        place
    }

    pub(super) fn packed(self, place: Place, numbers: &[i64]) -> Packed {
        let keys = place[..self.key_columns()].iter().map(|part| Value::Int4(*part as i32));
        let columns = self.kinds().zip(numbers).map(|(kind, number)| kind.value(*number));
        let values: Vec<Value> = keys.chain(columns).collect();
        Packed::from_values(&values)
    }

    /// What a column of a row that was read holds, as its cell.
    pub(super) fn unpacked(self, row: &Packed, column: usize) -> Row {
        if !self.has_column(column) {
            return Row::default();
        }
        let value = row.get(self.key_columns() + column);
        let number = match &value {
            Value::Numeric(number) => cents(number),
            other => other.as_i64().unwrap_or(NULL),
        };
        match self.kind(column) {
            Kind::Text => text_cell(value.as_str().unwrap_or_default()),
            _ => number_cell(number),
        }
    }
}

impl Kind {
    pub(super) fn column_type(self) -> ColumnType {
        match self {
            Kind::Integer | Kind::Optional => ColumnType::plain(DataType::Int4),
            Kind::Money => ColumnType::numeric(12, 2),
            Kind::Text => ColumnType::plain(DataType::Text),
        }
    }

    pub(super) fn value(self, number: i64) -> Value {
        match self {
            Kind::Optional if number == NULL => Value::Null,
            Kind::Integer | Kind::Optional => Value::Int4(number as i32),
            Kind::Money => Numeric::from_parts(i128::from(number), 2).map_or(Value::Null, Value::Numeric),
            Kind::Text => Value::text(""),
        }
    }

    /// A row's cell in the beginning, or when it is inserted.
    pub(super) fn new_cell(self, number: i64) -> Row {
        match self {
            Kind::Text => text_cell(""),
            _ => number_cell(number),
        }
    }

    pub(super) fn sql(self) -> String {
        let null = if self == Kind::Optional { "" } else { " not null" };
        format!("{}{null}", self.column_type())
    }

    pub(super) fn literal(self, number: i64) -> String {
        match self {
            Kind::Optional if number == NULL => "null".into(),
            Kind::Integer | Kind::Optional => number.to_string(),
            Kind::Money => format!("{number}e-2"),
            Kind::Text => "''".into(),
        }
    }
}

/// Where the row of a cell is.
pub(super) fn place_of((_, id): Key) -> Place {
    [id / WAREHOUSE % 10, id / DISTRICT % 100, id / PART % PART, id % PART]
}

/// The cell of a number.
fn number_cell(number: i64) -> Row {
    Row {
        number,
        ..Row::default()
    }
}

fn text_cell(text: &str) -> Row {
    Row {
        text: text.to_owned(),
        ..Row::default()
    }
}

/// Cents; a number that money cannot be stays recognisable as none.
fn cents(number: &Numeric) -> i64 {
    let rounded = number.round(2);
    let found = rounded.to_parts().and_then(|(mantissa, scale)| {
        let factor = 10_i64.checked_pow(2_u32.checked_sub(scale)?)?;
        mantissa.checked_mul(factor)
    });
    found.unwrap_or(i64::MIN)
}

/// The tables' names.
pub(in crate::grid) fn names() -> impl Iterator<Item = &'static str> {
    Relation::ALL.into_iter().map(Relation::name)
}
