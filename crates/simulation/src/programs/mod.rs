//! What clients do: one transaction each time, drawn from the workloads of the run.

mod conversation;
mod statements;
mod tables;
pub mod tpcc;

pub use conversation::{Ending, Statements};
pub use tables::{TWIN, contents, schema, schema_of};

pub(crate) use tables::COUNTERS;
use tables::{
    ACCOUNT_BALANCE, ACCOUNTS, BOARD, GROUPS, Keys, LIST_FIRST, LISTS, MEMBERS, REGISTER_FIRST, REGISTERS, STOCK,
};

/// A workload over the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// Money moves between accounts, and is added up.
    Bank,
    /// Values that are unique are read and set.
    Register,
    /// Elements are appended to lists, and lists are read.
    ListAppend,
    /// Rows are inserted once, and the set is read.
    Set,
    /// Each reads one and writes the next of a ring.
    Cycle,
    /// Two are read, one is written.
    WriteSkew,
    /// Formulas on few rows.
    HotCounters,
    /// Ranges and groups are counted, and rows put into them and taken out.
    RangeCounts,
    /// Stock that must not become negative.
    Escrow,
    /// Changes that are taken back to savepoints.
    Savepoints,
    /// Any statements in any order.
    Anything,
    /// A table is emptied and filled anew in one transaction, and read. Over SQL only.
    Refill,
    /// A table and another one change their names in one transaction. Over SQL only.
    Swap,
}

impl Workload {
    /// Those that change definitions too.
    pub const DEFINING: [Workload; 2] = [Workload::Refill, Workload::Swap];

    /// All that change rows and no definitions.
    pub const ALL: [Workload; 11] = [
        Workload::Bank,
        Workload::Register,
        Workload::ListAppend,
        Workload::Set,
        Workload::Cycle,
        Workload::WriteSkew,
        Workload::HotCounters,
        Workload::RangeCounts,
        Workload::Escrow,
        Workload::Savepoints,
        Workload::Anything,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Bank => "bank",
            Workload::Register => "register",
            Workload::ListAppend => "list-append",
            Workload::Set => "set",
            Workload::Cycle => "cycle",
            Workload::WriteSkew => "write-skew",
            Workload::HotCounters => "hot-counters",
            Workload::RangeCounts => "range-counts",
            Workload::Escrow => "escrow",
            Workload::Savepoints => "savepoints",
            Workload::Anything => "anything",
            Workload::Refill => "refill",
            Workload::Swap => "swap",
        }
    }

    /// Runs one transaction of it.
    ///
    /// # Errors
    /// The question under way, or why the transaction failed.
    pub fn run<S: Statements>(self, talk: &mut S) -> Result<Ending, S::Stop> {
        match self {
            Workload::Bank => bank(talk),
            Workload::Register => register(talk),
            Workload::ListAppend => list_append(talk),
            Workload::Set => set(talk),
            Workload::Cycle => cycle(talk),
            Workload::WriteSkew => write_skew(talk),
            Workload::HotCounters => hot_counters(talk),
            Workload::RangeCounts => range_counts(talk),
            Workload::Escrow => escrow(talk),
            Workload::Savepoints => savepoints(talk),
            Workload::Anything => anything(talk),
            Workload::Refill => replace(talk, S::refill),
            Workload::Swap => replace(talk, S::swap),
        }
    }
}

fn bank<S: Statements>(talk: &mut S) -> Result<Ending, S::Stop> {
    let from = ACCOUNTS.draw(talk);
    let to = ACCOUNTS.draw_other(talk, from);
    let amount = talk.random().uniform(1, 9);
    match talk.random().uniform(0, 5) {
        0 => {
            talk.alone()?;
            talk.total(ACCOUNTS.table, ACCOUNTS.first, ACCOUNTS.last())?;
            talk.done()
        }
        1 => {
            talk.begin(true)?;
            talk.range(ACCOUNTS.table, ACCOUNTS.first, ACCOUNTS.last())?;
            talk.think()?;
            talk.read_number(to, false)?;
            talk.commit()
        }
        2 => talk.script(&[(from, -amount), (to, amount)]),
        3 => {
            talk.begin(false)?;
            let balance = talk.read_number(from, true)?.unwrap_or(0);
            talk.think()?;
            if balance < amount - ACCOUNT_BALANCE {
                return talk.roll_back();
            }
            talk.add(from, -amount)?;
            talk.add(to, amount)?;
            talk.commit()
        }
        _ => {
            talk.begin(false)?;
            talk.add(from, -amount)?;
            talk.think()?;
            talk.add(to, amount)?;
            if talk.chance(10) {
                talk.roll_back()
            } else {
                talk.commit()
            }
        }
    }
}

fn register<S: Statements>(talk: &mut S) -> Result<Ending, S::Stop> {
    let key = REGISTERS.draw(talk);
    match talk.random().uniform(0, 4) {
        0 => {
            talk.alone()?;
            talk.read_number(key, false)?;
            talk.done()
        }
        1 => {
            talk.alone()?;
            talk.set(key, talk.number() * 10)?;
            talk.done()
        }
        _ => {
            talk.begin(false)?;
            let lock = talk.chance(40);
            talk.read_number(key, lock)?;
            talk.think()?;
            talk.set(key, talk.number() * 10)?;
            if talk.chance(30) {
                let other = REGISTERS.draw_other(talk, key);
                talk.read_number(other, false)?;
                talk.set(other, talk.number() * 10 + 1)?;
            }
            talk.commit()
        }
    }
}

fn list_append<S: Statements>(talk: &mut S) -> Result<Ending, S::Stop> {
    let steps = talk.random().uniform(1, 4);
    if steps == 1 && talk.chance(50) {
        talk.alone()?;
        let key = LISTS.draw(talk);
        if talk.chance(50) {
            talk.read_text(key)?;
        } else {
            talk.append(key, talk.number() * 10)?;
        }
        return talk.done();
    }
    talk.begin(false)?;
    for step in 0..steps {
        let key = LISTS.draw(talk);
        match talk.chance(45) {
            true => drop(talk.read_text(key)?),
            false => talk.append(key, talk.number() * 10 + step)?,
        }
        talk.think()?;
    }
    if talk.chance(8) {
        talk.roll_back()
    } else {
        talk.commit()
    }
}

fn set<S: Statements>(talk: &mut S) -> Result<Ending, S::Stop> {
    if talk.chance(35) {
        talk.alone()?;
        talk.range(MEMBERS.table, MEMBERS.first, MEMBERS.last())?;
        return talk.done();
    }
    let (key, group) = (MEMBERS.draw(talk), talk.random().uniform(0, GROUPS - 1));
    talk.alone()?;
    talk.insert(key, group, talk.number())?;
    talk.done()
}

fn cycle<S: Statements>(talk: &mut S) -> Result<Ending, S::Stop> {
    let at = talk.random().uniform(0, REGISTERS.count - 1);
    let next = (REGISTERS.table, REGISTER_FIRST + (at + 1) % REGISTERS.count);
    let list = (LISTS.table, LIST_FIRST + at % LISTS.count);
    talk.begin(false)?;
    talk.read_number((REGISTERS.table, REGISTER_FIRST + at), false)?;
    talk.read_text(list)?;
    talk.think()?;
    talk.set(next, talk.number() * 10)?;
    talk.append((LISTS.table, LIST_FIRST + (at + 1) % LISTS.count), talk.number() * 10)?;
    talk.commit()
}

fn write_skew<S: Statements>(talk: &mut S) -> Result<Ending, S::Stop> {
    let one = STOCK.draw(talk);
    let other = STOCK.draw_other(talk, one);
    talk.begin(false)?;
    let sum = talk.read_number(one, false)?.unwrap_or(0) + talk.read_number(other, false)?.unwrap_or(0);
    talk.think()?;
    if sum < 2 {
        talk.add(one, 5)?;
    } else {
        talk.set(one, 0)?;
    }
    talk.commit()
}

fn hot_counters<S: Statements>(talk: &mut S) -> Result<Ending, S::Stop> {
    let key = COUNTERS.draw(talk);
    match talk.random().uniform(0, 6) {
        0 => {
            talk.alone()?;
            talk.read_number(key, false)?;
            talk.done()
        }
        1 => {
            talk.alone()?;
            talk.negate(key)?;
            talk.done()
        }
        2 => {
            talk.alone()?;
            talk.add_returning(key, 1)?;
            talk.done()
        }
        3 => {
            let other = COUNTERS.draw_other(talk, key);
            talk.script(&[(key, 2), (other, 3), (key, 1)])
        }
        4 => {
            talk.begin(false)?;
            talk.add(key, 1)?;
            talk.think()?;
            talk.read_number(key, false)?;
            talk.commit()
        }
        _ => {
            talk.alone()?;
            talk.add(key, talk.number() % 7)?;
            talk.done()
        }
    }
}

fn range_counts<S: Statements>(talk: &mut S) -> Result<Ending, S::Stop> {
    let group = talk.random().uniform(0, GROUPS - 1);
    let key = MEMBERS.draw(talk);
    talk.begin(false)?;
    let count = if talk.chance(50) {
        talk.group(MEMBERS.table, group)?.len() as i64
    } else {
        let from = key.1 - talk.random().uniform(0, 4);
        talk.total(MEMBERS.table, from, from + 6)?.0
    };
    talk.think()?;
    if count < 4 {
        talk.insert(key, group, count)?;
    } else {
        talk.delete(key)?;
    }
    if talk.chance(20) {
        let moved = MEMBERS.draw(talk);
        talk.regroup(moved, group)?;
    }
    talk.commit()
}

fn escrow<S: Statements>(talk: &mut S) -> Result<Ending, S::Stop> {
    let key = STOCK.draw(talk);
    let amount = talk.random().uniform(1, 6);
    match talk.random().uniform(0, 5) {
        0 => {
            talk.alone()?;
            talk.add(key, amount * 3)?;
            talk.done()
        }
        1 => {
            talk.alone()?;
            talk.read_number(key, false)?;
            talk.done()
        }
        2 => {
            talk.begin(false)?;
            talk.add(key, -amount)?;
            talk.think()?;
            let other = STOCK.draw_other(talk, key);
            talk.add(other, -1)?;
            talk.commit()
        }
        3 => {
            // Whether it was refused is known, and the rest goes on.
            talk.begin(false)?;
            talk.save()?;
            if !talk.try_add(key, -amount * 4)? {
                talk.back()?;
            }
            let counter = COUNTERS.draw(talk);
            talk.add(counter, 1)?;
            talk.commit()
        }
        _ => {
            talk.alone()?;
            talk.add(key, -amount)?;
            talk.done()
        }
    }
}

fn savepoints<S: Statements>(talk: &mut S) -> Result<Ending, S::Stop> {
    talk.begin(false)?;
    let list = LISTS.draw(talk);
    let key = COUNTERS.draw(talk);
    let member = MEMBERS.draw(talk);
    talk.append(list, talk.number() * 10)?;
    talk.save()?;
    talk.add(key, 5)?;
    talk.append(list, talk.number() * 10 + 1)?;
    talk.insert(member, 1, talk.number())?;
    talk.think()?;
    if talk.chance(60) {
        talk.back()?;
    }
    talk.add(key, 1)?;
    if talk.chance(40) {
        talk.read_number(key, false)?;
        talk.read_text(list)?;
    }
    talk.append(list, talk.number() * 10 + 2)?;
    if talk.chance(10) {
        talk.roll_back()
    } else {
        talk.commit()
    }
}

fn anything<S: Statements>(talk: &mut S) -> Result<Ending, S::Stop> {
    let steps = talk.random().uniform(1, 6);
    talk.begin(false)?;
    let mut saved = false;
    for step in 0..steps {
        let (stock, counter, member) = (STOCK.draw(talk), COUNTERS.draw(talk), MEMBERS.draw(talk));
        let (list, register) = (LISTS.draw(talk), REGISTERS.draw(talk));
        match talk.random().uniform(0, 17) {
            0 => drop(talk.read_number(stock, false)?),
            1 => drop(talk.read_number(counter, true)?),
            2 => drop(talk.read_text(list)?),
            3 => drop(talk.group(MEMBERS.table, step % GROUPS)?),
            4 => drop(talk.total(MEMBERS.table, MEMBERS.first, MEMBERS.last())?),
            5 => drop(talk.range(ACCOUNTS.table, ACCOUNTS.first, ACCOUNTS.last())?),
            6 => talk.add(counter, 1)?,
            7 => talk.negate(counter)?,
            8 => talk.append(list, talk.number() * 10 + step)?,
            9 => talk.set(register, talk.number() * 10 + step)?,
            10 => talk.insert(member, step % GROUPS, talk.number())?,
            11 => talk.delete(member)?,
            12 => talk.regroup(member, step % GROUPS)?,
            13 => talk.add_returning(counter, 3)?,
            14 => talk.add(stock, 2)?,
            15 => {
                talk.save()?;
                saved = true;
            }
            16 if saved => talk.back()?,
            _ => talk.add_where_positive(counter, 4)?,
        }
        talk.think()?;
    }
    if talk.chance(10) {
        talk.roll_back()
    } else {
        talk.commit()
    }
}

/// All rows of a table become others at once.
fn replace<S: Statements>(
    talk: &mut S,
    how: impl Fn(&mut S, Keys, i64) -> Result<(), S::Stop>,
) -> Result<Ending, S::Stop> {
    match talk.random().uniform(0, 9) {
        0..=2 => {
            talk.begin(false)?;
            if talk.chance(30) {
                let counter = COUNTERS.draw(talk);
                talk.add(counter, 1)?;
            }
            let number = talk.number();
            how(talk, BOARD, number)?;
            talk.think()?;
            talk.commit()
        }
        3 => {
            let key = BOARD.draw(talk);
            talk.alone()?;
            talk.add(key, 1)?;
            talk.done()
        }
        4 | 5 => {
            talk.begin(false)?;
            let counter = COUNTERS.draw(talk);
            talk.read_number(counter, false)?;
            talk.think()?;
            talk.total(BOARD.table, BOARD.first, BOARD.last())?;
            talk.commit()
        }
        6 => {
            let key = BOARD.draw(talk);
            talk.alone()?;
            talk.read_number(key, false)?;
            talk.done()
        }
        7 => {
            talk.alone()?;
            talk.total(BOARD.table, BOARD.first, BOARD.last())?;
            talk.done()
        }
        _ => {
            talk.alone()?;
            talk.range(BOARD.table, BOARD.first, BOARD.last())?;
            talk.done()
        }
    }
}
