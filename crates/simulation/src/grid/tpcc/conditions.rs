//! What has to hold of TPC-C whenever everything is read: its twelve conditions (3.3.2), what they leave out, and that everything
//! acknowledged is there.
//!
//! The conditions are those of `rubato-workload`, on facts that are gathered from cells. They say nothing of the stock, which other
//! warehouses than that of the order supply, nor of the index: there are checks for these besides.

use super::tables::*;
use crate::check::Violation;
use crate::history::{Fate, History, Key, Row, Step, Table, Transaction};
use rubato_workload::tpcc::{
    CONDITION_COUNT, CustomerFacts, DistrictFacts, LineFacts, OrderFacts, WarehouseFacts, check_facts,
};
use std::collections::{BTreeMap, BTreeSet};

/// The kinds of violations, so that each condition is known by its name.
const KINDS: [&str; CONDITION_COUNT] = [
    "TPC-C condition 1",
    "TPC-C condition 2",
    "TPC-C condition 3",
    "TPC-C condition 4",
    "TPC-C condition 5",
    "TPC-C condition 6",
    "TPC-C condition 7",
    "TPC-C condition 8",
    "TPC-C condition 9",
    "TPC-C condition 10",
    "TPC-C condition 11",
    "TPC-C condition 12",
];

/// Everything that the readings of a history contradict, and how many readings there were. Each reading is of one transaction, in
/// the midst of the others or at the end: the conditions hold in all of them.
pub fn check(history: &History) -> (Vec<Violation>, u64) {
    let mut violations = Vec::new();
    let mut readings = 0;
    for reader in history.transactions.iter().filter(|one| one.fate == Fate::Committed) {
        for step in &reader.steps {
            let Step::ReadAll(Table::Cell, cells) = step else {
                continue;
            };
            readings += 1;
            let cells = Cells::of(cells);
            violations.extend(conditions(&cells));
            violations.extend(stock(&cells));
            violations.extend(index(&cells));
            violations.extend(effects(reader, &cells, history));
            violations.extend(invented(&cells, history));
        }
    }
    (violations, readings)
}

/// The cells of one reading.
struct Cells<'r>(BTreeMap<Key, &'r Row>);

impl<'r> Cells<'r> {
    fn of(read: &'r [(i64, Row)]) -> Cells<'r> {
        Cells(read.iter().map(|(id, row)| ((Table::Cell, *id), row)).collect())
    }

    fn number(&self, relation: Relation, place: Place, column: usize) -> i64 {
        let cell = self.0.get(&relation.cell(column, place));
        cell.map_or(0, |row| row.number)
    }

    /// The rows of a table.
    fn rows(&self, relation: Relation) -> impl Iterator<Item = Place> {
        let (first, last) = (relation.cell(0, [0; 4]), relation.cell(1, [0; 4]));
        self.0.range(first..last).map(|(key, _)| place_of(*key))
    }

    fn rows_of(&self, relation: Relation, warehouse: i64, district: i64) -> impl Iterator<Item = Place> {
        let own = move |place: &Place| (place[0], place[1]) == (warehouse, district);
        self.rows(relation).filter(own)
    }
}

/// The twelve conditions, each by its name.
fn conditions(cells: &Cells<'_>) -> Vec<Violation> {
    let districts: Vec<DistrictFacts> = cells
        .rows(Relation::District)
        .map(|[warehouse, district, ..]| district_facts(cells, warehouse, district))
        .collect();
    let warehouses: Vec<WarehouseFacts> = cells
        .rows(Relation::Warehouse)
        .map(|place| {
            let of = || districts.iter().filter(|district| district.warehouse == place[0]);
            WarehouseFacts {
                warehouse: place[0],
                ytd_cents: cells.number(Relation::Warehouse, place, W_YTD),
                districts_ytd_cents: of().map(|district| district.ytd_cents).sum(),
                history_cents: of().map(|district| district.history_cents).sum(),
            }
        })
        .collect();
    let broken = check_facts(&warehouses, &districts).into_iter().filter_map(|result| {
        let violation = result.violation?;
        let what = format!("{}: {violation}", result.text);
        Some(Violation::new(KINDS[result.number - 1], what))
    });
    broken.collect()
}

fn district_facts(cells: &Cells<'_>, warehouse: i64, district: i64) -> DistrictFacts {
    let place = [warehouse, district, 0, 0];
    let rows = |relation| cells.rows_of(relation, warehouse, district);
    let order = |place: Place| OrderFacts {
        customer: cells.number(Relation::Orders, place, O_C_ID),
        has_carrier: cells.number(Relation::Orders, place, O_CARRIER_ID) != NULL,
        line_count: cells.number(Relation::Orders, place, O_OL_CNT),
    };
    let paid = |place| cells.number(Relation::History, place, H_AMOUNT);
    DistrictFacts {
        warehouse,
        district,
        next_order: cells.number(Relation::District, place, D_NEXT_O_ID),
        ytd_cents: cells.number(Relation::District, place, D_YTD),
        history_cents: rows(Relation::History).map(paid).sum(),
        delivered_at_load: DELIVERED,
        new_orders: rows(Relation::NewOrder).map(|place| place[2]).collect(),
        orders: rows(Relation::Orders).map(|place| (place[2], order(place))).collect(),
        lines: line_facts(cells, rows(Relation::OrderLine)),
        customers: rows(Relation::Customer)
            .map(|place| (place[2], customer_facts(cells, place)))
            .collect(),
    }
}

fn line_facts(cells: &Cells<'_>, lines: impl Iterator<Item = Place>) -> BTreeMap<i64, LineFacts> {
    let mut facts: BTreeMap<i64, LineFacts> = BTreeMap::new();
    for place in lines {
        let order = facts.entry(place[2]).or_default();
        order.count += 1;
        if cells.number(Relation::OrderLine, place, OL_DELIVERY_D) != NULL {
            order.delivered += 1;
            order.delivered_cents += cells.number(Relation::OrderLine, place, OL_AMOUNT);
        }
    }
    facts
}

fn customer_facts(cells: &Cells<'_>, place: Place) -> CustomerFacts {
    let number = |column| cells.number(Relation::Customer, place, column);
    let own = |of: &Place| {
        let customer = [H_C_W_ID, H_C_D_ID, H_C_ID].map(|column| cells.number(Relation::History, *of, column));
        customer == place[..3]
    };
    CustomerFacts {
        balance_cents: number(C_BALANCE),
        ytd_payment_cents: number(C_YTD_PAYMENT),
        deliveries: number(C_DELIVERY_CNT),
        history_cents: (cells.rows(Relation::History).filter(own))
            .map(|of| cells.number(Relation::History, of, H_AMOUNT))
            .sum(),
    }
}

/// What was taken out of a stock is what the lines of orders say, whichever warehouse's they are.
fn stock(cells: &Cells<'_>) -> Option<Violation> {
    let line = |place, column| cells.number(Relation::OrderLine, place, column);
    let ordered_since = |place: &Place| {
        let [warehouse, district, order, _] = *place;
        cells.number(Relation::Orders, [warehouse, district, order, 0], O_ENTRY_D) > 0
    };
    cells.rows(Relation::Stock).find_map(|place| {
        let [warehouse, item, ..] = place;
        let (mut quantity, mut orders, mut remote) = (0, 0, 0);
        let lines = cells.rows(Relation::OrderLine).filter(ordered_since);
        for of in lines.filter(|of| (line(*of, OL_SUPPLY_W_ID), line(*of, OL_I_ID)) == (warehouse, item)) {
            quantity += line(of, OL_QUANTITY);
            orders += 1;
            remote += i64::from(of[0] != warehouse);
        }
        let found = [S_YTD, S_ORDER_CNT, S_REMOTE_CNT].map(|column| cells.number(Relation::Stock, place, column));
        let left = cells.number(Relation::Stock, place, S_QUANTITY);
        // It is filled up by 91 at a time, whenever less than 10 would be left.
        let fits = left >= 10 && (left + quantity - QUANTITY) % 91 == 0;
        let what = || {
            format!(
                "warehouse {warehouse} item {item}: {found:?} and {left} left, lines {quantity}, {orders}, {remote}"
            )
        };
        (found != [quantity, orders, remote] || !fits).then(|| Violation::new("TPC-C stock", what()))
    })
}

/// The index has an entry for every order, and no others.
fn index(cells: &Cells<'_>) -> Option<Violation> {
    let with_customer = |place: Place| {
        let customer = cells.number(Relation::Orders, place, O_C_ID);
        [place[0], place[1], customer, place[2]]
    };
    let mut orders: Vec<Place> = cells.rows(Relation::Orders).map(with_customer).collect();
    let mut entries: Vec<Place> = cells.rows(Relation::OrdersByCustomer).collect();
    orders.sort_unstable();
    entries.sort_unstable();
    (orders != entries).then(|| Violation::new("TPC-C index", format!("orders {orders:?}, entries {entries:?}")))
}

/// Orders and payments that were acknowledged are there for who begins later, those that were refused are not, and there are no others.
fn effects(reader: &Transaction, cells: &Cells<'_>, history: &History) -> Option<Violation> {
    history.transactions.iter().find_map(|writer| {
        let (key, row) = writer.steps.iter().find_map(named_insert)?;
        let is_there = cells.0.get(key).is_some_and(|found| *found == row);
        let kind = match writer.fate {
            Fate::Committed if writer.ended < reader.began && !is_there => "TPC-C: acknowledged and lost",
            Fate::Aborted if is_there => "TPC-C: refused and there",
            _ => return None,
        };
        Some(Violation::new(kind, format!("{writer}, for {reader}")))
    })
}

/// Every order and payment is of somebody.
fn invented(cells: &Cells<'_>, history: &History) -> Option<Violation> {
    let steps = history.transactions.iter().flat_map(|writer| &writer.steps);
    let known: BTreeSet<(&Key, i64)> = (steps.filter_map(named_insert))
        .map(|(key, row)| (key, row.number))
        .collect();
    let is_new = |key: &Key, row: &Row| match place_of(*key) {
        place if *key == Relation::History.cell(H_AMOUNT, place) => place[2] >= HISTORY_FIRST,
        place => *key == Relation::Orders.cell(O_ENTRY_D, place) && row.number > 0,
    };
    let found = (cells.0.iter()).find(|(key, row)| is_new(key, row) && !known.contains(&(*key, row.number)));
    found.map(|(key, row)| Violation::new("TPC-C: invented", format!("{key:?}, {row:?}")))
}

/// The cell that a transaction inserted which names it, and which nobody changes: H_AMOUNT, or an order's O_ENTRY_D.
fn named_insert(step: &Step) -> Option<(&Key, &Row)> {
    let Step::Insert(key, row, true) = step else {
        return None;
    };
    let of = |relation: Relation, column| relation.cell(column, place_of(*key)) == *key;
    let lasts = of(Relation::History, H_AMOUNT) || of(Relation::Orders, O_ENTRY_D);
    lasts.then_some((key, row))
}

#[cfg(test)]
mod tests {
    use super::super::population::contents;
    use super::*;

    const WAREHOUSE: Place = [1, 0, 0, 0];
    const DISTRICT: Place = [1, 2, 0, 0];
    const CUSTOMER: Place = [1, 2, 1, 0];
    /// The newest order in the beginning, and the one that was delivered.
    const NEWEST: Place = [1, 2, 3, 0];
    const DELIVERED_ORDER: Place = [1, 2, 1, 0];

    /// What the checks say of the rows of the beginning, with some damage.
    fn kinds(damage: impl FnOnce(&mut BTreeMap<Key, Row>)) -> Vec<&'static str> {
        let mut cells = contents();
        damage(&mut cells);
        let cells = cells.into_iter().map(|((_, id), row)| (id, row)).collect();
        let steps = vec![Step::ReadAll(Table::Cell, cells)];
        let history = History {
            transactions: vec![committed(1, steps)],
        };
        check(&history).0.iter().map(|violation| violation.kind).collect()
    }

    fn committed(began: u64, steps: Vec<Step>) -> Transaction {
        Transaction {
            name: "by hand",
            client: 0,
            began,
            ended: began + 1,
            fate: Fate::Committed,
            steps,
        }
    }

    fn add(relation: Relation, place: Place, column: usize, amount: i64) -> Vec<&'static str> {
        kinds(|cells| {
            let cell = cells.get_mut(&relation.cell(column, place)).expect("the cell");
            cell.number += amount;
        })
    }

    fn without(relation: Relation, place: Place) -> Vec<&'static str> {
        kinds(|cells| {
            for column in 0..relation.cells() {
                cells.remove(&relation.cell(column, place)).expect("the cell");
            }
        })
    }

    fn of(numbers: &[usize]) -> Vec<&'static str> {
        numbers.iter().map(|number| KINDS[number - 1]).collect()
    }

    #[test]
    fn the_beginning_breaks_nothing() {
        assert!(kinds(|_| {}).is_empty());
    }

    #[test]
    fn each_damage_breaks_its_conditions() {
        assert_eq!(add(Relation::Warehouse, WAREHOUSE, W_YTD, 1), of(&[1, 8]));
        assert_eq!(add(Relation::District, DISTRICT, D_NEXT_O_ID, 1), of(&[2]));
        assert_eq!(add(Relation::District, DISTRICT, D_YTD, 1), of(&[1, 9]));
        assert_eq!(without(Relation::NewOrder, NEWEST), of(&[2, 5, 11]));
        let gap = kinds(|cells| {
            let beyond = Relation::NewOrder.cell(0, [1, 2, 5, 0]);
            cells.insert(beyond, Row::default());
        });
        assert_eq!(gap, of(&[2, 3, 5, 11]));
        assert_eq!(add(Relation::Orders, NEWEST, O_OL_CNT, 1), of(&[4, 6]));
        assert_eq!(add(Relation::Orders, NEWEST, O_CARRIER_ID, 9), of(&[5, 7]));
        let line = [1, 2, 1, 1];
        assert_eq!(without(Relation::OrderLine, line), of(&[4, 6]));
        assert_eq!(add(Relation::OrderLine, line, OL_DELIVERY_D, NULL - 1), of(&[7]));
        assert_eq!(add(Relation::OrderLine, line, OL_AMOUNT, 1), of(&[10, 12]));
        assert_eq!(add(Relation::History, CUSTOMER, H_AMOUNT, 1), of(&[8, 9, 10]));
        assert_eq!(add(Relation::Customer, CUSTOMER, C_BALANCE, 1), of(&[10, 12]));
        assert_eq!(add(Relation::Customer, CUSTOMER, C_YTD_PAYMENT, 1), of(&[12]));
        assert_eq!(add(Relation::Customer, CUSTOMER, C_DELIVERY_CNT, 1), of(&[11]));
        assert_eq!(add(Relation::Stock, [2, 3, 0, 0], S_YTD, 1), ["TPC-C stock"]);
        assert_eq!(add(Relation::Stock, [2, 3, 0, 0], S_QUANTITY, -1), ["TPC-C stock"]);
        let entry = [1, 2, 1, 1];
        assert_eq!(without(Relation::OrdersByCustomer, entry), ["TPC-C index"]);
        let of_another = add(Relation::Orders, DELIVERED_ORDER, O_C_ID, 1);
        assert_eq!(of_another, ["TPC-C index"], "its lines were delivered for nothing");
    }

    #[test]
    fn what_was_acknowledged_is_there_and_nothing_else() {
        let payment = |fate| Transaction {
            fate,
            ..committed(
                1,
                vec![Step::Insert(
                    Relation::History.cell(H_AMOUNT, [1, 2, HISTORY_FIRST + 7, 0]),
                    Kind::Money.new_cell(500),
                    true,
                )],
            )
        };
        let judged = |fate, began, is_there: bool, is_known: bool| {
            let mut cells = contents();
            if is_there {
                let place = [1, 2, HISTORY_FIRST + 7, 0];
                let numbers = [1, 2, 1, 500];
                for (column, number) in numbers.into_iter().enumerate() {
                    let cell = Relation::History.cell(column, place);
                    cells.insert(cell, Kind::Money.new_cell(number));
                }
            }
            let cells = cells.into_iter().map(|((_, id), row)| (id, row)).collect();
            let reader = committed(began, vec![Step::ReadAll(Table::Cell, cells)]);
            let writer = is_known.then(|| payment(fate));
            let history = History {
                transactions: writer.into_iter().chain([reader]).collect(),
            };
            let found = check(&history).0.into_iter().map(|violation| violation.kind);
            found.filter(|kind| kind.starts_with("TPC-C:")).collect::<Vec<_>>()
        };
        assert_eq!(
            judged(Fate::Committed, 3, false, true),
            ["TPC-C: acknowledged and lost"]
        );
        assert_eq!(judged(Fate::Aborted, 3, true, true), ["TPC-C: refused and there"]);
        assert_eq!(judged(Fate::Unknown, 3, true, false), ["TPC-C: invented"]);
        for (fate, began, is_there) in [
            (Fate::Committed, 3, true),
            (Fate::Committed, 2, false),
            (Fate::Aborted, 3, false),
            (Fate::Unknown, 3, true),
            (Fate::Unknown, 3, false),
        ] {
            assert!(judged(fate, began, is_there, true).is_empty(), "{fate:?} {is_there}");
        }
    }
}
