//! The tables of the workloads and what they begin with.

use super::conversation::Statements;
use crate::check::Contents;
use crate::history::{Key, Row, Table};

/// Keys that one workload works on.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Their table.
    pub table: Table,
    /// The first.
    pub first: i64,
    /// How many.
    pub count: i64,
}

impl Keys {
    /// The last.
    pub fn last(self) -> i64 {
        self.first + self.count - 1
    }

    /// Any of them.
    pub fn draw(self, talk: &mut impl Statements) -> Key {
        (self.table, talk.random().uniform(self.first, self.last()))
    }

    /// Any but this one.
    pub fn draw_other(self, talk: &mut impl Statements, not: Key) -> Key {
        let steps = talk.random().uniform(1, self.count - 1);
        (self.table, self.first + (not.1 - self.first + steps) % self.count)
    }

    /// All of them.
    pub fn all(self) -> impl Iterator<Item = Key> {
        (self.first..=self.last()).map(move |id| (self.table, id))
    }
}

const fn keys(table: Table, first: i64, count: i64) -> Keys {
    Keys { table, first, count }
}

/// Accounts of the bank.
pub const ACCOUNTS: Keys = keys(Table::Plain, 100, 6);
/// What each account begins with.
pub const ACCOUNT_BALANCE: i64 = 100;
/// The first register.
pub const REGISTER_FIRST: i64 = 200;
/// Registers, whose values are unique.
pub const REGISTERS: Keys = keys(Table::Plain, REGISTER_FIRST, 4);
/// The first list.
pub const LIST_FIRST: i64 = 300;
/// Lists, whose elements are unique.
pub const LISTS: Keys = keys(Table::Plain, LIST_FIRST, 5);
/// Rows that everybody updates.
pub const COUNTERS: Keys = keys(Table::Plain, 400, 2);
/// Stock that must not become negative.
pub const STOCK: Keys = keys(Table::Bounded, 0, 3);
/// Rows that come and go.
pub const MEMBERS: Keys = keys(Table::Member, 0, 16);
/// Rows that are replaced all at once.
pub const BOARD: Keys = keys(Table::Board, 0, 8);
/// The table that takes turns with `board`.
pub const TWIN: &str = "board_twin";
/// Groups of members.
pub const GROUPS: i64 = 3;

/// What the tables begin with.
pub fn contents() -> Contents {
    let mut contents = Contents::new();
    let mut put = |keys: Keys, number: i64| {
        let row = Row {
            number,
            ..Row::default()
        };
        contents.extend(keys.all().map(|key| (key, row.clone())));
    };
    put(ACCOUNTS, ACCOUNT_BALANCE);
    put(REGISTERS, 0);
    put(LISTS, 0);
    put(COUNTERS, 0);
    put(STOCK, 12);
    put(BOARD, 0);
    contents
}

/// The script that makes them.
pub fn schema() -> String {
    schema_of(&contents(), true)
}

/// The script that makes the tables with these rows, with or without the index.
pub fn schema_of(contents: &Contents, has_index: bool) -> String {
    let mut script = String::new();
    for table in Table::ALL {
        let check = if table == Table::Bounded { " check (n >= 0)" } else { "" };
        script.push_str(&format!(
            "create table {} (id int primary key, grp int not null, n bigint not null{check}, t text not null); ",
            table.name()
        ));
    }
    if has_index {
        script.push_str("create index member_by_group on member (grp, id); ");
    }
    for table in Table::ALL {
        let rows: Vec<String> = (contents.iter().filter(|((of, _), _)| *of == table))
            .map(|((_, id), row)| format!("({id}, {}, {}, '{}')", row.group, row.number, row.text))
            .collect();
        if !rows.is_empty() {
            script.push_str(&format!("insert into {} values {}; ", table.name(), rows.join(", ")));
        }
    }
    script
}
