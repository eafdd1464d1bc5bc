//! The five transactions of TPC-C (clause 2), in operations over the nodes of a grid, and one that reads everything.
//!
//! The shares of what is remote are larger than the specification's (1 % of the lines, 15 % of the payments): transactions over
//! several nodes are what runs of a grid are for. An order has 1 to 4 lines in place of 5 to 15, and customers are found by number.

use super::super::talk::{GridTalk, Stop};
use super::rows::{Assignment, RowAt};
use super::tables::*;
use crate::programs::{Ending, Statements};
use rubato_base::{Error, SqlState};
use rubato_workload::Random;

/// Lines of an order, at most.
const LINES_MAX: i64 = 4;
/// Lines that another warehouse supplies, in percent.
const REMOTE_LINES_PERCENT: i64 = 25;
/// Payments of customers of another warehouse, in percent.
const REMOTE_PAYMENTS_PERCENT: i64 = 40;
/// New-Orders with an item that there is not, in percent (2.4.1.4).
const UNUSED_ITEM_PERCENT: i64 = 1;
/// Orders that Stock-Level looks at (2.8.2.2).
const RECENT_ORDERS: i64 = 20;
/// Where the oldest new order of a district is looked for, one range after the other: a statement with LIMIT 1 reads no further
/// than what it finds.
const NEW_ORDER_RANGES: [(i64, i64); 3] = [(0, 5), (6, 15), (16, PART_MAX)];

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::grid) enum Profile {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
    /// Reads everything: the conditions hold at any time.
    Audit,
}

impl Profile {
    /// What is drawn first of a transaction. The specification's shares are 45, 43 and 4 of each other one: a run is too short for
    /// what is that rare.
    pub(in crate::grid) fn draw(random: &mut Random) -> Profile {
        match random.uniform(1, 100) {
            1..=40 => Profile::NewOrder,
            41..=70 => Profile::Payment,
            71..=78 => Profile::OrderStatus,
            79..=90 => Profile::Delivery,
            91..=96 => Profile::StockLevel,
            _ => Profile::Audit,
        }
    }

    /// Its name, by which its commits are counted.
    pub(in crate::grid) fn name(self) -> &'static str {
        match self {
            Profile::NewOrder => "TPC-C: New-Order",
            Profile::Payment => "TPC-C: Payment",
            Profile::OrderStatus => "TPC-C: Order-Status",
            Profile::Delivery => "TPC-C: Delivery",
            Profile::StockLevel => "TPC-C: Stock-Level",
            Profile::Audit => "TPC-C: everything read",
        }
    }
}

/// Runs one transaction.
pub(in crate::grid) fn run(talk: &mut GridTalk<'_>) -> Result<Ending, Stop> {
    let profile = Profile::draw(talk.random());
    let home = Home::draw(talk);
    match profile {
        Profile::NewOrder => NewOrder::draw(talk, home).run(talk),
        Profile::Payment => payment(talk, home),
        Profile::OrderStatus => order_status(talk, home),
        Profile::Delivery => delivery(talk, home.warehouse),
        Profile::StockLevel => stock_level(talk, home),
        Profile::Audit => {
            talk.begin(true)?;
            talk.read_all_of_tpcc()?;
            talk.commit()
        }
    }
}

/// A district.
#[derive(Clone, Copy)]
struct Home {
    warehouse: i64,
    district: i64,
}

impl Home {
    fn draw(talk: &mut GridTalk<'_>) -> Home {
        let warehouse = talk.random().uniform(1, WAREHOUSES);
        Home::of(talk, warehouse)
    }

    fn of(talk: &mut GridTalk<'_>, warehouse: i64) -> Home {
        let district = talk.random().uniform(1, DISTRICTS);
        Home { warehouse, district }
    }

    fn warehouse_row(self) -> RowAt {
        RowAt(Relation::Warehouse, [self.warehouse, 0, 0, 0])
    }

    fn district_row(self) -> RowAt {
        RowAt(Relation::District, [self.warehouse, self.district, 0, 0])
    }

    fn row(self, relation: Relation, third: i64) -> RowAt {
        RowAt(relation, [self.warehouse, self.district, third, 0])
    }
}

fn other_warehouse(talk: &mut GridTalk<'_>, warehouse: i64) -> i64 {
    let steps = talk.random().uniform(1, WAREHOUSES - 1);
    (warehouse - 1 + steps) % WAREHOUSES + 1
}

fn price_cents(item: i64) -> i64 {
    100 + 37 * item
}

/// A row that every program counts upon is not there. Where that was seen in between it may be: then the transaction cannot commit,
/// and has done nothing if it does not try.
fn missing(what: &str) -> Stop {
    Stop::Failed(Error::new(
        SqlState::SERIALIZATION_FAILURE,
        format!("there is no {what}"),
    ))
}

struct Line {
    item: i64,
    supply_warehouse: i64,
    quantity: i64,
}

struct NewOrder {
    home: Home,
    customer: i64,
    /// In key order of STOCK.
    lines: Vec<Line>,
    /// An item that there is not was asked for besides: everything is done, and rolled back (2.4.2.3).
    has_unused_item: bool,
    /// The order's number is drawn before the stock, not behind it.
    draws_number_first: bool,
    /// The number is read `FOR UPDATE` and set, not added to.
    locks_number: bool,
}

impl NewOrder {
    fn draw(talk: &mut GridTalk<'_>, home: Home) -> NewOrder {
        let count = talk.random().uniform(1, LINES_MAX);
        let mut lines: Vec<Line> = (0..count).map(|_| Line::draw(talk, home.warehouse)).collect();
        lines.sort_by_key(|line| (line.supply_warehouse, line.item));
        NewOrder {
            home,
            customer: talk.random().uniform(1, CUSTOMERS),
            lines,
            has_unused_item: talk.chance(UNUSED_ITEM_PERCENT),
            draws_number_first: talk.chance(50),
            locks_number: talk.chance(30),
        }
    }

    fn run(&self, talk: &mut GridTalk<'_>) -> Result<Ending, Stop> {
        talk.begin(false)?;
        talk.look(self.home.warehouse_row(), &[W_TAX])?;
        talk.look(self.home.row(Relation::Customer, self.customer), &[C_DISCOUNT])?;
        let first = match self.draws_number_first {
            true => Some(self.draw_number(talk)?),
            false => None,
        };
        talk.think()?;
        self.take_stock(talk)?;
        let order = match first {
            Some(order) => order,
            None => self.draw_number(talk)?,
        };
        self.insert(talk, order)?;
        match self.has_unused_item {
            true => talk.roll_back(),
            false => talk.commit(),
        }
    }

    fn draw_number(&self, talk: &mut GridTalk<'_>) -> Result<i64, Stop> {
        let district = self.home.district_row();
        let row = if self.locks_number {
            let row = talk.lock(district, &[D_NEXT_O_ID, D_TAX])?;
            talk.think()?;
            row
        } else {
            talk.update(district, &[D_NEXT_O_ID, D_TAX], &[Assignment::Add(D_NEXT_O_ID, 1)])?
        };
        let number = row.and_then(|row| row.first().copied()).ok_or(missing("district"))?;
        if self.locks_number {
            talk.update(district, &[], &[Assignment::Computed(D_NEXT_O_ID, number, number + 1)])?;
        }
        Ok(number)
    }

    fn take_stock(&self, talk: &mut GridTalk<'_>) -> Result<(), Stop> {
        for line in &self.lines {
            let stock = RowAt(Relation::Stock, [line.supply_warehouse, line.item, 0, 0]);
            let is_remote = line.supply_warehouse != self.home.warehouse;
            let taken = [
                Assignment::Take(S_QUANTITY, line.quantity),
                Assignment::Add(S_YTD, line.quantity),
                Assignment::Add(S_ORDER_CNT, 1),
                Assignment::Add(S_REMOTE_CNT, i64::from(is_remote)),
            ];
            talk.update(stock, &[S_QUANTITY], &taken)?.ok_or(missing("stock"))?;
        }
        Ok(())
    }

    fn insert(&self, talk: &mut GridTalk<'_>, order: i64) -> Result<(), Stop> {
        let Home { warehouse, district } = self.home;
        let numbers = [self.customer, talk.number(), NULL, self.lines.len() as i64];
        talk.put(self.home.row(Relation::Orders, order), &numbers)?;
        let entry = [warehouse, district, self.customer, order];
        talk.put(RowAt(Relation::OrdersByCustomer, entry), &[])?;
        talk.put(self.home.row(Relation::NewOrder, order), &[])?;
        for (at, line) in self.lines.iter().enumerate() {
            let amount_cents = line.quantity * price_cents(line.item);
            let numbers = [line.item, line.supply_warehouse, NULL, line.quantity, amount_cents];
            let place = [warehouse, district, order, at as i64 + 1];
            talk.put(RowAt(Relation::OrderLine, place), &numbers)?;
        }
        Ok(())
    }
}

impl Line {
    fn draw(talk: &mut GridTalk<'_>, home: i64) -> Line {
        let supply_warehouse = match talk.chance(REMOTE_LINES_PERCENT) {
            true => other_warehouse(talk, home),
            false => home,
        };
        Line {
            item: talk.random().uniform(1, ITEMS),
            supply_warehouse,
            quantity: talk.random().uniform(1, 10),
        }
    }
}

fn payment(talk: &mut GridTalk<'_>, home: Home) -> Result<Ending, Stop> {
    let of = match talk.chance(REMOTE_PAYMENTS_PERCENT) {
        true => {
            let warehouse = other_warehouse(talk, home.warehouse);
            Home::of(talk, warehouse)
        }
        false => home,
    };
    let id = talk.random().uniform(1, CUSTOMERS);
    let amount_cents = talk.random().uniform(100, 500_000);
    let (customer, number) = (of.row(Relation::Customer, id), talk.number());
    talk.begin(false)?;
    talk.look(home.warehouse_row(), &[W_TAX])?;
    talk.look(home.district_row(), &[D_TAX])?;
    let mut paid = vec![
        Assignment::Add(C_BALANCE, -amount_cents),
        Assignment::Add(C_YTD_PAYMENT, amount_cents),
        Assignment::Add(C_PAYMENT_CNT, 1),
    ];
    let mut returning = vec![C_BALANCE];
    // Of a customer with bad credit more is written down (2.5.2.2), behind what is there: a list to the checkers.
    if id % 2 == 0 {
        paid.push(Assignment::Append(C_DATA, number * 10));
        returning.push(C_DATA);
    }
    talk.update(customer, &returning, &paid)?.ok_or(missing("customer"))?;
    let history = home.row(Relation::History, HISTORY_FIRST + number);
    talk.put(history, &[of.warehouse, of.district, id, amount_cents])?;
    talk.think()?;
    talk.update_blind(home.district_row(), &[Assignment::Add(D_YTD, amount_cents)])?;
    talk.update_blind(home.warehouse_row(), &[Assignment::Add(W_YTD, amount_cents)])?;
    talk.commit()
}

fn order_status(talk: &mut GridTalk<'_>, home: Home) -> Result<Ending, Stop> {
    let Home { warehouse, district } = home;
    let id = talk.random().uniform(1, CUSTOMERS);
    talk.begin(true)?;
    talk.look(home.row(Relation::Customer, id), &[C_BALANCE, C_DATA])?;
    let parts = [warehouse, district, id];
    let orders = talk.rows_between(Relation::OrdersByCustomer, &parts, (0, PART_MAX), &[])?;
    talk.think()?;
    if let Some(([.., last], _)) = orders.last() {
        talk.look(home.row(Relation::Orders, *last), &[O_ENTRY_D, O_CARRIER_ID])?;
        let columns = [OL_I_ID, OL_SUPPLY_W_ID, OL_DELIVERY_D, OL_QUANTITY, OL_AMOUNT];
        talk.rows_between(
            Relation::OrderLine,
            &[warehouse, district, *last],
            (0, PART_MAX),
            &columns,
        )?;
    }
    talk.commit()
}

fn delivery(talk: &mut GridTalk<'_>, warehouse: i64) -> Result<Ending, Stop> {
    talk.begin(false)?;
    let mut due = Vec::new();
    for district in 1..=DISTRICTS {
        let home = Home { warehouse, district };
        if let Some(order) = oldest_new_order(talk, home)? {
            due.push((home, order));
        }
    }
    talk.think()?;
    for (home, order) in due {
        deliver(talk, home, order)?;
    }
    talk.commit()
}

/// The oldest new order of a district, `FOR UPDATE`.
fn oldest_new_order(talk: &mut GridTalk<'_>, home: Home) -> Result<Option<i64>, Stop> {
    for between in NEW_ORDER_RANGES {
        let parts = [home.warehouse, home.district];
        let found = talk.rows_between(Relation::NewOrder, &parts, between, &[])?;
        if let Some(([_, _, order, _], _)) = found.first() {
            let is_there = talk.lock(home.row(Relation::NewOrder, *order), &[0])?.is_some();
            return Ok(is_there.then_some(*order));
        }
    }
    Ok(None)
}

fn deliver(talk: &mut GridTalk<'_>, home: Home, order: i64) -> Result<(), Stop> {
    let number = talk.number();
    let orders = home.row(Relation::Orders, order);
    talk.take_out(home.row(Relation::NewOrder, order))?;
    // (The carrier is the transaction, so that no two write the same.)
    let row = talk.update(orders, &[O_C_ID], &[Assignment::Set(O_CARRIER_ID, number)])?;
    let customer = row.and_then(|row| row.first().copied()).ok_or(missing("order"))?;
    let parts = [home.warehouse, home.district, order];
    let mut sum_cents = 0;
    for (place, _) in talk.rows_between(Relation::OrderLine, &parts, (0, PART_MAX), &[])? {
        let line = RowAt(Relation::OrderLine, place);
        let row = talk.update(line, &[OL_AMOUNT], &[Assignment::Set(OL_DELIVERY_D, number)])?;
        sum_cents += row.and_then(|row| row.first().copied()).unwrap_or(0);
    }
    let credited = [
        Assignment::Add(C_BALANCE, sum_cents),
        Assignment::Add(C_DELIVERY_CNT, 1),
    ];
    talk.update_blind(home.row(Relation::Customer, customer), &credited)
}

fn stock_level(talk: &mut GridTalk<'_>, home: Home) -> Result<Ending, Stop> {
    let Home { warehouse, district } = home;
    talk.begin(true)?;
    let row = talk.look(home.district_row(), &[D_NEXT_O_ID])?;
    let next = row.and_then(|row| row.first().copied()).ok_or(missing("district"))?;
    let recent = ((next - RECENT_ORDERS).max(0), next - 1);
    let lines = talk.rows_between(Relation::OrderLine, &[warehouse, district], recent, &[OL_I_ID])?;
    let mut items: Vec<i64> = lines.iter().filter_map(|(_, row)| row.first().copied()).collect();
    items.sort_unstable();
    items.dedup();
    talk.think()?;
    for item in items {
        talk.look(RowAt(Relation::Stock, [warehouse, item, 0, 0]), &[S_QUANTITY])?;
    }
    talk.commit()
}
