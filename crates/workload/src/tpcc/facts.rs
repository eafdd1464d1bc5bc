//! What the consistency conditions look at, gathered with plain aggregates by key; joined here, not by the server.

use std::collections::{BTreeMap, BTreeSet};

use super::{DISTRICTS, Scale};
use crate::client::{Client, ClientError, Param};

/// Of one warehouse.
#[derive(Clone, Debug, Default)]
pub struct WarehouseFacts {
    /// Its number.
    pub warehouse: i64,
    /// W_YTD.
    pub ytd_cents: i64,
    /// Sum of D_YTD.
    pub districts_ytd_cents: i64,
    /// Sum of H_AMOUNT by H_W_ID.
    pub history_cents: i64,
}

/// Of one order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderFacts {
    /// O_C_ID.
    pub customer: i64,
    /// Whether O_CARRIER_ID is not NULL.
    pub has_carrier: bool,
    /// O_OL_CNT.
    pub line_count: i64,
}

/// Of the order lines of one order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineFacts {
    /// Rows of ORDER_LINE.
    pub count: i64,
    /// Lines with a delivery date.
    pub delivered: i64,
    /// Sum of OL_AMOUNT of the lines with a delivery date.
    pub delivered_cents: i64,
}

/// Of one customer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CustomerFacts {
    /// C_BALANCE.
    pub balance_cents: i64,
    /// C_YTD_PAYMENT.
    pub ytd_payment_cents: i64,
    /// C_DELIVERY_CNT.
    pub deliveries: i64,
    /// Sum of H_AMOUNT by customer.
    pub history_cents: i64,
}

/// Of one district.
#[derive(Clone, Debug, Default)]
pub struct DistrictFacts {
    /// Its warehouse.
    pub warehouse: i64,
    /// Its number.
    pub district: i64,
    /// D_NEXT_O_ID.
    pub next_order: i64,
    /// D_YTD.
    pub ytd_cents: i64,
    /// Sum of H_AMOUNT by H_W_ID and H_D_ID.
    pub history_cents: i64,
    /// Orders that counted as delivered when the population was loaded (2,100).
    pub delivered_at_load: i64,
    /// NO_O_ID of the rows of NEW_ORDER.
    pub new_orders: BTreeSet<i64>,
    /// By O_ID.
    pub orders: BTreeMap<i64, OrderFacts>,
    /// By OL_O_ID.
    pub lines: BTreeMap<i64, LineFacts>,
    /// By C_ID.
    pub customers: BTreeMap<i64, CustomerFacts>,
}

/// Prepared statements and the sums of HISTORY, which has no key to ask by and is read once.
pub(super) struct Gatherer<S> {
    scale: Scale,
    warehouse: S,
    district: S,
    new_orders: S,
    orders: S,
    lines: S,
    delivered_lines: S,
    customers: S,
    history_by_district: BTreeMap<(i64, i64), i64>,
    history_by_customer: BTreeMap<(i64, i64, i64), i64>,
}

impl<S: Copy> Gatherer<S> {
    /// Prepares, and reads HISTORY. The transaction of the client must give one snapshot.
    pub fn new<C: Client<Statement = S>>(client: &mut C, scale: Scale) -> Result<Gatherer<S>, ClientError> {
        let by_district =
            client.prepare("SELECT h_w_id, h_d_id, SUM(h_amount) FROM history GROUP BY h_w_id, h_d_id")?;
        let by_customer = client.prepare(
            "SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) FROM history GROUP BY h_c_w_id, h_c_d_id, h_c_id",
        )?;
        let rows = client.execute(by_district, &[])?;
        let mut history_by_district = BTreeMap::new();
        for row in 0..rows.len() {
            history_by_district.insert((rows.int(row, 0)?, rows.int(row, 1)?), rows.scaled(row, 2, 2)?);
        }
        let rows = client.execute(by_customer, &[])?;
        let mut history_by_customer = BTreeMap::new();
        for row in 0..rows.len() {
            let key = (rows.int(row, 0)?, rows.int(row, 1)?, rows.int(row, 2)?);
            history_by_customer.insert(key, rows.scaled(row, 3, 2)?);
        }
        Ok(Gatherer {
            scale,
            warehouse: client.prepare("SELECT w_ytd FROM warehouse WHERE w_id = $1")?,
            district: client.prepare("SELECT d_next_o_id, d_ytd FROM district WHERE d_w_id = $1 AND d_id = $2")?,
            new_orders: client.prepare("SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2")?,
            orders: client
                .prepare("SELECT o_id, o_c_id, o_carrier_id, o_ol_cnt FROM orders WHERE o_w_id = $1 AND o_d_id = $2")?,
            lines: client.prepare(
                "SELECT ol_o_id, COUNT(*), COUNT(ol_delivery_d) FROM order_line \
                 WHERE ol_w_id = $1 AND ol_d_id = $2 GROUP BY ol_o_id",
            )?,
            delivered_lines: client.prepare(
                "SELECT ol_o_id, SUM(ol_amount) FROM order_line \
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_delivery_d IS NOT NULL GROUP BY ol_o_id",
            )?,
            customers: client.prepare(
                "SELECT c_id, c_balance, c_ytd_payment, c_delivery_cnt FROM customer WHERE c_w_id = $1 AND c_d_id = $2",
            )?,
            history_by_district,
            history_by_customer,
        })
    }

    /// The facts of all districts of a warehouse, handed over one by one, then those of the warehouse.
    pub fn warehouse<C: Client<Statement = S>>(
        &self,
        client: &mut C,
        warehouse: i64,
        on_district: &mut dyn FnMut(&DistrictFacts),
    ) -> Result<WarehouseFacts, ClientError> {
        let ytd_cents = client
            .execute(self.warehouse, &[Param::Int(warehouse)])?
            .scaled(0, 0, 2)?;
        let mut facts = WarehouseFacts {
            warehouse,
            ytd_cents,
            ..WarehouseFacts::default()
        };
        for district in 1..=DISTRICTS {
            let district = self.district(client, warehouse, district)?;
            facts.districts_ytd_cents += district.ytd_cents;
            facts.history_cents += district.history_cents;
            on_district(&district);
        }
        Ok(facts)
    }

    fn district<C: Client<Statement = S>>(
        &self,
        client: &mut C,
        warehouse: i64,
        district: i64,
    ) -> Result<DistrictFacts, ClientError> {
        let key = [Param::Int(warehouse), Param::Int(district)];
        let row = client.execute(self.district, &key)?;
        let mut facts = DistrictFacts {
            warehouse,
            district,
            next_order: row.int(0, 0)?,
            ytd_cents: row.scaled(0, 1, 2)?,
            history_cents: self
                .history_by_district
                .get(&(warehouse, district))
                .copied()
                .unwrap_or(0),
            delivered_at_load: self.scale.delivered_orders(),
            ..DistrictFacts::default()
        };
        let rows = client.execute(self.new_orders, &key)?;
        for row in 0..rows.len() {
            facts.new_orders.insert(rows.int(row, 0)?);
        }
        let rows = client.execute(self.orders, &key)?;
        for row in 0..rows.len() {
            let has_carrier = !rows.is_null(row, 2)?;
            let order = OrderFacts {
                customer: rows.int(row, 1)?,
                has_carrier,
                line_count: rows.int(row, 3)?,
            };
            facts.orders.insert(rows.int(row, 0)?, order);
        }
        self.order_lines(client, &key, &mut facts)?;
        self.customers(client, &key, &mut facts)?;
        Ok(facts)
    }

    fn order_lines<C: Client<Statement = S>>(
        &self,
        client: &mut C,
        key: &[Param<'_>],
        facts: &mut DistrictFacts,
    ) -> Result<(), ClientError> {
        let rows = client.execute(self.lines, key)?;
        for row in 0..rows.len() {
            let lines = LineFacts {
                count: rows.int(row, 1)?,
                delivered: rows.int(row, 2)?,
                delivered_cents: 0,
            };
            facts.lines.insert(rows.int(row, 0)?, lines);
        }
        let rows = client.execute(self.delivered_lines, key)?;
        for row in 0..rows.len() {
            facts.lines.entry(rows.int(row, 0)?).or_default().delivered_cents = rows.scaled(row, 1, 2)?;
        }
        Ok(())
    }

    fn customers<C: Client<Statement = S>>(
        &self,
        client: &mut C,
        key: &[Param<'_>],
        facts: &mut DistrictFacts,
    ) -> Result<(), ClientError> {
        let rows = client.execute(self.customers, key)?;
        for row in 0..rows.len() {
            let id = rows.int(row, 0)?;
            let paid = self.history_by_customer.get(&(facts.warehouse, facts.district, id));
            let customer = CustomerFacts {
                balance_cents: rows.scaled(row, 1, 2)?,
                ytd_payment_cents: rows.scaled(row, 2, 2)?,
                deliveries: rows.int(row, 3)?,
                history_cents: paid.copied().unwrap_or(0),
            };
            facts.customers.insert(id, customer);
        }
        Ok(())
    }
}
