//! What the tables of TPC-C begin with in a grid, small and with the specification's proportions where they decide anything.

use super::tables::{CUSTOMERS, DELIVERED, DISTRICTS, Definition, ITEMS, NULL, Place, QUANTITY, Relation, WAREHOUSES};
use crate::check::Contents;

/// Lines of an order in the beginning.
const LINES: i64 = 2;
/// Cents that each customer has paid in the beginning.
const PAID_CENTS: i64 = 1_000;

/// Every row in the beginning, with the numbers of its columns.
fn rows() -> Vec<(Relation, Place, Vec<i64>)> {
    let mut rows = Vec::new();
    for warehouse in 1..=WAREHOUSES {
        let paid_cents = DISTRICTS * CUSTOMERS * PAID_CENTS;
        rows.push((Relation::Warehouse, [warehouse, 0, 0, 0], vec![7, paid_cents]));
        for item in 1..=ITEMS {
            rows.push((Relation::Stock, [warehouse, item, 0, 0], vec![QUANTITY, 0, 0, 0]));
        }
        for district in 1..=DISTRICTS {
            rows.extend(district_rows(warehouse, district));
        }
    }
    rows
}

fn district_rows(warehouse: i64, district: i64) -> Vec<(Relation, Place, Vec<i64>)> {
    let at = |third, fourth| [warehouse, district, third, fourth];
    let numbers = vec![8, CUSTOMERS + 1, CUSTOMERS * PAID_CENTS];
    let mut rows = vec![(Relation::District, at(0, 0), numbers)];
    // Each customer has paid once, and has the order of its own number.
    for id in 1..=CUSTOMERS {
        rows.push((Relation::Customer, at(id, 0), vec![5, -PAID_CENTS, PAID_CENTS, 1, 0, 0]));
        rows.push((Relation::History, at(id, 0), vec![warehouse, district, id, PAID_CENTS]));
        let is_delivered = id <= DELIVERED;
        let (carrier, amount_cents) = if is_delivered { (1, 0) } else { (NULL, 100 * id) };
        rows.push((Relation::Orders, at(id, 0), vec![id, 0, carrier, LINES]));
        rows.push((Relation::OrdersByCustomer, at(id, id), Vec::new()));
        if !is_delivered {
            rows.push((Relation::NewOrder, at(id, 0), Vec::new()));
        }
        for line in 1..=LINES {
            rows.push((
                Relation::OrderLine,
                at(id, line),
                vec![line, warehouse, carrier, 5, amount_cents],
            ));
        }
    }
    rows
}

/// The cells in the beginning.
pub(in crate::grid) fn contents() -> Contents {
    let cells = |(relation, place, numbers): (Relation, Place, Vec<i64>)| {
        (0..relation.cells()).map(move |column| {
            let number = numbers.get(column).copied().unwrap_or(0);
            (relation.cell(column, place), relation.kind(column).new_cell(number))
        })
    };
    rows().into_iter().flat_map(cells).collect()
}

/// The script that makes the tables, with the rows of some warehouses.
pub(in crate::grid) fn schema_of(has_warehouse: impl Fn(i64) -> bool) -> String {
    let rows = rows();
    let mut script = String::new();
    for relation in Relation::ALL {
        let Definition { name, keys, columns } = relation.definition();
        let all = (keys.iter().map(|key| format!("{key} int")))
            .chain(columns.iter().map(|(column, kind)| format!("{column} {}", kind.sql())));
        let all: Vec<String> = all.collect();
        script.push_str(&format!(
            "create table {name} ({}, primary key ({})); ",
            all.join(", "),
            keys.join(", ")
        ));
        let own = rows
            .iter()
            .filter(|(of, place, _)| *of == relation && has_warehouse(place[0]));
        let tuples: Vec<String> = own
            .map(|(_, place, numbers)| {
                let keys = place[..keys.len()].iter().map(i64::to_string);
                let columns = relation
                    .kinds()
                    .zip(numbers)
                    .map(|(kind, number)| kind.literal(*number));
                let values: Vec<String> = keys.chain(columns).collect();
                format!("({})", values.join(", "))
            })
            .collect();
        if !tuples.is_empty() {
            script.push_str(&format!("insert into {name} values {}; ", tuples.join(", ")));
        }
    }
    script
}
