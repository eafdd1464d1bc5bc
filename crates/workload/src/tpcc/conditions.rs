//! The twelve consistency conditions of clause 3.3.2, each a function from facts to the first offending row.

use std::collections::BTreeMap;

use super::Scale;
use super::facts::{DistrictFacts, Gatherer, WarehouseFacts};
use crate::client::{Client, ClientError, Decimal};

/// Number of conditions.
pub const CONDITION_COUNT: usize = 12;

const TEXTS: [&str; CONDITION_COUNT] = [
    "W_YTD = sum(D_YTD)",
    "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
    "max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW_ORDER",
    "sum(O_OL_CNT) = rows of ORDER_LINE",
    "O_CARRIER_ID is null exactly if NEW_ORDER has a row",
    "O_OL_CNT = rows of ORDER_LINE of the order",
    "OL_DELIVERY_D is null exactly if O_CARRIER_ID is null",
    "W_YTD = sum(H_AMOUNT)",
    "D_YTD = sum(H_AMOUNT)",
    "C_BALANCE = sum(delivered OL_AMOUNT) - sum(H_AMOUNT)",
    "rows of ORDERS - rows of NEW_ORDER = 2100 + sum(C_DELIVERY_CNT)",
    "C_BALANCE + C_YTD_PAYMENT = sum(delivered OL_AMOUNT)",
];

/// Whether one condition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionResult {
    /// From 1 to 12, as in the specification.
    pub number: usize,
    /// The condition in short. Number 11 is stated so that it holds after a run too: orders delivered since loading
    /// are counted by their customers.
    pub text: &'static str,
    /// The first row that breaks it.
    pub violation: Option<String>,
}

impl ConditionResult {
    /// Whether the condition holds.
    pub fn holds(&self) -> bool {
        self.violation.is_none()
    }
}

/// Checks all twelve conditions in one read-only snapshot; may run beside the workload.
///
/// # Errors
/// What the client reported; a broken condition is no error.
pub fn check_conditions<C: Client>(client: &mut C, scale: Scale) -> Result<Vec<ConditionResult>, ClientError> {
    client.simple("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    let checked = check_in_snapshot(client, scale);
    if checked.is_err() && client.in_transaction() {
        // The first error is the one to report.
        let _ = client.simple("ROLLBACK");
    } else if checked.is_ok() {
        client.simple("COMMIT")?;
    }
    checked
}

fn check_in_snapshot<C: Client>(client: &mut C, scale: Scale) -> Result<Vec<ConditionResult>, ClientError> {
    let mut violations = Violations::default();
    let gatherer = Gatherer::new(client, scale)?;
    for warehouse in 1..=scale.warehouses {
        let facts = gatherer.warehouse(client, warehouse, &mut |district| {
            note_district(&mut violations, district)
        })?;
        note_warehouse(&mut violations, &facts);
    }
    Ok(results(violations))
}

/// Checks all twelve conditions on what was gathered in another way: the warehouses, and all their districts.
pub fn check_facts(warehouses: &[WarehouseFacts], districts: &[DistrictFacts]) -> Vec<ConditionResult> {
    let mut violations = Violations::default();
    districts
        .iter()
        .for_each(|district| note_district(&mut violations, district));
    warehouses
        .iter()
        .for_each(|warehouse| note_warehouse(&mut violations, warehouse));
    results(violations)
}

/// The first offending row of each condition.
type Violations = [Option<String>; CONDITION_COUNT];

fn note_district(violations: &mut Violations, facts: &DistrictFacts) {
    for (number, condition) in OF_DISTRICTS {
        note(violations, number, || condition(facts));
    }
}

fn note_warehouse(violations: &mut Violations, facts: &WarehouseFacts) {
    note(violations, 1, || warehouse_equals_districts(facts));
    note(violations, 8, || warehouse_equals_history(facts));
}

fn results(violations: Violations) -> Vec<ConditionResult> {
    let results = violations.into_iter().enumerate();
    results
        .map(|(i, violation)| ConditionResult {
            number: i + 1,
            text: TEXTS[i],
            violation,
        })
        .collect()
}

type DistrictCondition = fn(&DistrictFacts) -> Option<String>;

const OF_DISTRICTS: [(usize, DistrictCondition); 10] = [
    (2, next_order_follows_last),
    (3, new_orders_have_no_gap),
    (4, line_counts_add_up),
    (5, undelivered_orders_are_new_orders),
    (6, every_order_has_its_lines),
    (7, lines_are_delivered_with_their_order),
    (9, district_equals_history),
    (10, balance_equals_deliveries_less_payments),
    (11, orders_less_new_orders),
    (12, balance_and_payments_equal_deliveries),
];

fn note(violations: &mut Violations, number: usize, check: impl FnOnce() -> Option<String>) {
    let slot = &mut violations[number - 1];
    if slot.is_none() {
        *slot = check();
    }
}

fn violation_if(broken: bool, text: impl FnOnce() -> String) -> Option<String> {
    broken.then(text)
}

fn money(cents: i64) -> Decimal {
    Decimal::from_cents(cents)
}

fn place(facts: &DistrictFacts) -> String {
    format!("warehouse {} district {}", facts.warehouse, facts.district)
}

fn warehouse_equals_districts(facts: &WarehouseFacts) -> Option<String> {
    violation_if(facts.ytd_cents != facts.districts_ytd_cents, || {
        let (ytd, districts) = (money(facts.ytd_cents), money(facts.districts_ytd_cents));
        format!("warehouse {}: w_ytd {ytd}, sum(d_ytd) {districts}", facts.warehouse)
    })
}

fn warehouse_equals_history(facts: &WarehouseFacts) -> Option<String> {
    violation_if(facts.ytd_cents != facts.history_cents, || {
        let (ytd, history) = (money(facts.ytd_cents), money(facts.history_cents));
        format!("warehouse {}: w_ytd {ytd}, sum(h_amount) {history}", facts.warehouse)
    })
}

fn next_order_follows_last(facts: &DistrictFacts) -> Option<String> {
    let last = facts.orders.last_key_value().map_or(0, |(&id, _)| id);
    // When everything is delivered, NEW_ORDER has no maximum.
    let last_new = facts.new_orders.last().copied().unwrap_or(last);
    violation_if(facts.next_order - 1 != last || last != last_new, || {
        let next = facts.next_order;
        format!(
            "{}: d_next_o_id {next}, max(o_id) {last}, max(no_o_id) {last_new}",
            place(facts)
        )
    })
}

fn new_orders_have_no_gap(facts: &DistrictFacts) -> Option<String> {
    let (first, last) = (facts.new_orders.first()?, facts.new_orders.last()?);
    let rows = facts.new_orders.len();
    violation_if(last - first + 1 != rows as i64, || {
        format!("{}: no_o_id from {first} to {last} in {rows} rows", place(facts))
    })
}

fn line_counts_add_up(facts: &DistrictFacts) -> Option<String> {
    let promised: i64 = facts.orders.values().map(|order| order.line_count).sum();
    let found: i64 = facts.lines.values().map(|lines| lines.count).sum();
    violation_if(promised != found, || {
        format!("{}: sum(o_ol_cnt) {promised}, order lines {found}", place(facts))
    })
}

fn undelivered_orders_are_new_orders(facts: &DistrictFacts) -> Option<String> {
    let is_wrong = |id: &i64, has_carrier: bool| has_carrier == facts.new_orders.contains(id);
    let wrong = facts
        .orders
        .iter()
        .find(|(id, order)| is_wrong(id, order.has_carrier))
        .map(|(&id, _)| id);
    let orphan = || {
        facts
            .new_orders
            .iter()
            .copied()
            .find(|id| !facts.orders.contains_key(id))
    };
    wrong
        .or_else(orphan)
        .map(|id| format!("{} order {id}: carrier and NEW_ORDER disagree", place(facts)))
}

fn every_order_has_its_lines(facts: &DistrictFacts) -> Option<String> {
    let found = |id: &i64| facts.lines.get(id).map_or(0, |lines| lines.count);
    let wrong = facts
        .orders
        .iter()
        .find(|(id, order)| order.line_count != found(id))
        .map(|(&id, _)| id);
    let orphan = || facts.lines.keys().copied().find(|id| !facts.orders.contains_key(id));
    wrong.or_else(orphan).map(|id| {
        let promised = facts.orders.get(&id).map_or(0, |order| order.line_count);
        format!(
            "{} order {id}: o_ol_cnt {promised}, order lines {}",
            place(facts),
            found(&id)
        )
    })
}

fn lines_are_delivered_with_their_order(facts: &DistrictFacts) -> Option<String> {
    facts.orders.iter().find_map(|(id, order)| {
        let lines = facts.lines.get(id).copied().unwrap_or_default();
        let expected = if order.has_carrier { lines.count } else { 0 };
        violation_if(lines.delivered != expected, || {
            let (delivered, count) = (lines.delivered, lines.count);
            let carrier = if order.has_carrier { "a carrier" } else { "no carrier" };
            format!(
                "{} order {id}: {carrier}, {delivered} of {count} lines delivered",
                place(facts)
            )
        })
    })
}

fn district_equals_history(facts: &DistrictFacts) -> Option<String> {
    violation_if(facts.ytd_cents != facts.history_cents, || {
        let (ytd, history) = (money(facts.ytd_cents), money(facts.history_cents));
        format!("{}: d_ytd {ytd}, sum(h_amount) {history}", place(facts))
    })
}

fn orders_less_new_orders(facts: &DistrictFacts) -> Option<String> {
    let (orders, new_orders) = (facts.orders.len() as i64, facts.new_orders.len() as i64);
    let deliveries: i64 = facts.customers.values().map(|customer| customer.deliveries).sum();
    let expected = facts.delivered_at_load + deliveries;
    violation_if(orders - new_orders != expected, || {
        format!(
            "{}: {orders} orders, {new_orders} new orders, {expected} delivered",
            place(facts)
        )
    })
}

/// Sum of delivered lines by customer, in cents.
fn deliveries_by_customer(facts: &DistrictFacts) -> BTreeMap<i64, i64> {
    let mut sums = BTreeMap::new();
    for (id, lines) in &facts.lines {
        if let Some(order) = facts.orders.get(id) {
            *sums.entry(order.customer).or_insert(0) += lines.delivered_cents;
        }
    }
    sums
}

fn balance_equals_deliveries_less_payments(facts: &DistrictFacts) -> Option<String> {
    let delivered = deliveries_by_customer(facts);
    facts.customers.iter().find_map(|(id, customer)| {
        let sum_cents = delivered.get(id).copied().unwrap_or(0);
        violation_if(customer.balance_cents != sum_cents - customer.history_cents, || {
            let (balance, paid) = (money(customer.balance_cents), money(customer.history_cents));
            format!(
                "{} customer {id}: c_balance {balance}, delivered {}, paid {paid}",
                place(facts),
                money(sum_cents)
            )
        })
    })
}

fn balance_and_payments_equal_deliveries(facts: &DistrictFacts) -> Option<String> {
    let delivered = deliveries_by_customer(facts);
    facts.customers.iter().find_map(|(id, customer)| {
        let sum_cents = delivered.get(id).copied().unwrap_or(0);
        violation_if(customer.balance_cents + customer.ytd_payment_cents != sum_cents, || {
            let (balance, paid) = (money(customer.balance_cents), money(customer.ytd_payment_cents));
            let delivered = money(sum_cents);
            format!(
                "{} customer {id}: c_balance {balance}, c_ytd_payment {paid}, delivered {delivered}",
                place(facts)
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::facts::{CustomerFacts, LineFacts, OrderFacts};

    /// One delivered order of customer 1, one new order of customer 2.
    fn sound() -> DistrictFacts {
        let order = |customer, has_carrier| OrderFacts {
            customer,
            has_carrier,
            line_count: 5,
        };
        let customer = |balance_cents, deliveries| CustomerFacts {
            balance_cents,
            ytd_payment_cents: 1000,
            deliveries,
            history_cents: 1000,
        };
        DistrictFacts {
            warehouse: 1,
            district: 4,
            next_order: 3,
            ytd_cents: 2000,
            history_cents: 2000,
            delivered_at_load: 0,
            new_orders: [2].into(),
            orders: [(1, order(1, true)), (2, order(2, false))].into(),
            lines: [
                (
                    1,
                    LineFacts {
                        count: 5,
                        delivered: 5,
                        delivered_cents: 700,
                    },
                ),
                (
                    2,
                    LineFacts {
                        count: 5,
                        ..LineFacts::default()
                    },
                ),
            ]
            .into(),
            customers: [(1, customer(-300, 1)), (2, customer(-1000, 0))].into(),
        }
    }

    fn broken_by(change: impl FnOnce(&mut DistrictFacts)) -> Vec<usize> {
        let mut facts = sound();
        change(&mut facts);
        OF_DISTRICTS
            .iter()
            .filter(|(_, condition)| condition(&facts).is_some())
            .map(|(number, _)| *number)
            .collect()
    }

    #[test]
    fn sound_facts_break_nothing() {
        assert_eq!(broken_by(|_| {}), Vec::<usize>::new());
    }

    #[test]
    fn each_damage_breaks_its_conditions() {
        assert_eq!(broken_by(|facts| facts.next_order = 4), [2]);
        assert_eq!(broken_by(|facts| _ = facts.new_orders.insert(0)), [3, 5, 11]);
        assert_eq!(
            broken_by(|facts| facts.lines.get_mut(&2).expect("order 2").count = 4),
            [4, 6]
        );
        assert_eq!(
            broken_by(|facts| facts.orders.get_mut(&2).expect("order 2").has_carrier = true),
            [5, 7]
        );
        assert_eq!(
            broken_by(|facts| facts.lines.get_mut(&1).expect("order 1").delivered = 4),
            [7]
        );
        assert_eq!(broken_by(|facts| facts.ytd_cents += 1), [9]);
        assert_eq!(
            broken_by(|facts| facts.customers.get_mut(&1).expect("customer 1").balance_cents += 1),
            [10, 12]
        );
        assert_eq!(
            broken_by(|facts| facts.customers.get_mut(&1).expect("customer 1").deliveries = 2),
            [11]
        );
        assert_eq!(
            broken_by(|facts| facts.customers.get_mut(&2).expect("customer 2").ytd_payment_cents = 0),
            [12]
        );
    }

    #[test]
    fn the_message_names_the_row() {
        let mut facts = sound();
        facts.orders.get_mut(&2).expect("order 2").line_count = 6;
        let violation = every_order_has_its_lines(&facts).expect("broken");
        assert_eq!(violation, "warehouse 1 district 4 order 2: o_ol_cnt 6, order lines 5");
    }

    #[test]
    fn warehouse_conditions_compare_sums() {
        let sums = WarehouseFacts {
            warehouse: 1,
            ytd_cents: 5,
            districts_ytd_cents: 5,
            history_cents: 4,
        };
        assert_eq!(warehouse_equals_districts(&sums), None);
        let violation = warehouse_equals_history(&sums).expect("broken");
        assert_eq!(violation, "warehouse 1: w_ytd 0.05, sum(h_amount) 0.04");
    }
}
