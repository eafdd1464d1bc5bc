//! Every statement of the five transactions, prepared once per session.

use std::ops::RangeInclusive;

use super::{DISTRICTS, Settings};
use crate::client::{Client, ClientError};

/// Lines of an order.
pub(super) const ORDER_LINES: RangeInclusive<usize> = 5..=15;

/// Lines that are inserted: one fewer if the last item is unused.
const INSERTED_LINES: RangeInclusive<usize> = 4..=15;

/// The prepared statements of one session.
pub(super) struct Statements<S> {
    pub begin: S,
    pub begin_read_only: S,
    pub commit: S,
    pub rollback: S,
    pub new_order: NewOrderStatements<S>,
    pub payment: PaymentStatements<S>,
    pub order_status: OrderStatusStatements<S>,
    pub delivery: DeliveryStatements<S>,
    pub stock_level: StockLevelStatements<S>,
}

pub(super) struct NewOrderStatements<S> {
    pub warehouse_tax: S,
    pub customer_terms: S,
    pub next_order_id: S,
    pub insert_order: S,
    pub insert_new_order: S,
    /// By number of items.
    items: Vec<S>,
    /// By district, because each has its own S_DIST column.
    stock: Vec<S>,
    /// By number of lines.
    insert_lines: Vec<S>,
}

impl<S: Copy> NewOrderStatements<S> {
    pub fn items(&self, count: usize) -> S {
        self.items[count - ORDER_LINES.start()]
    }

    pub fn stock(&self, district: i64) -> S {
        self.stock[(district - 1) as usize]
    }

    pub fn insert_lines(&self, count: usize) -> S {
        self.insert_lines[count - INSERTED_LINES.start()]
    }
}

pub(super) struct PaymentStatements<S> {
    pub warehouse: S,
    pub district: S,
    pub customer_by_id: S,
    pub customers_by_name: S,
    pub pay: S,
    pub pay_bad_credit: S,
    pub insert_history: S,
    pub add_to_district: S,
    pub add_to_warehouse: S,
}

pub(super) struct OrderStatusStatements<S> {
    pub customer_by_id: S,
    pub customers_by_name: S,
    pub last_order: S,
    pub lines: S,
}

pub(super) struct DeliveryStatements<S> {
    pub oldest: S,
    pub remove_new_order: S,
    pub set_carrier: S,
    pub set_delivered: S,
    pub credit_customer: S,
}

pub(super) struct StockLevelStatements<S> {
    pub next_order_id: S,
    pub count_low: S,
}

impl<S: Copy> Statements<S> {
    /// Prepares all of them.
    pub fn prepare<C: Client<Statement = S>>(client: &mut C, settings: Settings) -> Result<Statements<S>, ClientError> {
        Ok(Statements {
            begin: client.prepare("BEGIN")?,
            begin_read_only: client.prepare("BEGIN READ ONLY")?,
            commit: client.prepare("COMMIT")?,
            rollback: client.prepare("ROLLBACK")?,
            new_order: prepare_new_order(client)?,
            payment: prepare_payment(client)?,
            order_status: prepare_order_status(client)?,
            delivery: prepare_delivery(client, settings.delivery_locks)?,
            stock_level: prepare_stock_level(client)?,
        })
    }
}

fn prepare_new_order<C: Client>(client: &mut C) -> Result<NewOrderStatements<C::Statement>, ClientError> {
    Ok(NewOrderStatements {
        warehouse_tax: client.prepare("SELECT w_tax FROM warehouse WHERE w_id = $1")?,
        customer_terms: client.prepare(
            "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
        )?,
        next_order_id: client.prepare(
            "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 \
             RETURNING d_next_o_id, d_tax",
        )?,
        insert_order: client.prepare(
            "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) \
             VALUES ($1, $2, $3, $4, $5, NULL, $6, $7)",
        )?,
        insert_new_order: client.prepare("INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)")?,
        items: ORDER_LINES
            .map(|count| client.prepare(&items_sql(count)))
            .collect::<Result<_, _>>()?,
        stock: (1..=DISTRICTS)
            .map(|district| client.prepare(&stock_sql(district)))
            .collect::<Result<_, _>>()?,
        insert_lines: INSERTED_LINES
            .map(|count| client.prepare(&lines_sql(count)))
            .collect::<Result<_, _>>()?,
    })
}

fn items_sql(count: usize) -> String {
    let places: Vec<String> = (1..=count).map(|place| format!("${place}")).collect();
    format!(
        "SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id IN ({})",
        places.join(", ")
    )
}

fn stock_sql(district: i64) -> String {
    format!(
        "UPDATE stock SET \
         s_quantity = CASE WHEN s_quantity - $1 >= 10 THEN s_quantity - $1 ELSE s_quantity - $1 + 91 END, \
         s_ytd = s_ytd + $1, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $2 \
         WHERE s_w_id = $3 AND s_i_id = $4 RETURNING s_quantity, s_dist_{district:02}, s_data"
    )
}

/// `$1`, `$2`, `$3` are warehouse, district and order; then six parameters a line. OL_DELIVERY_D stays NULL.
fn lines_sql(count: usize) -> String {
    let line = |index: usize| {
        let first = 4 + index * 6;
        let places: Vec<String> = (first..first + 6).map(|place| format!("${place}")).collect();
        format!("($1, $2, $3, {})", places.join(", "))
    };
    let lines: Vec<String> = (0..count).map(line).collect();
    format!(
        "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, \
         ol_amount, ol_dist_info) VALUES {}",
        lines.join(", ")
    )
}

fn prepare_payment<C: Client>(client: &mut C) -> Result<PaymentStatements<C::Statement>, ClientError> {
    const CUSTOMER: &str = "c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, \
                            c_since, c_credit, c_credit_lim, c_discount";
    Ok(PaymentStatements {
        warehouse: client
            .prepare("SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = $1")?,
        district: client.prepare(
            "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district \
             WHERE d_w_id = $1 AND d_id = $2",
        )?,
        customer_by_id: client.prepare(&format!(
            "SELECT {CUSTOMER} FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"
        ))?,
        customers_by_name: client.prepare(&format!(
            "SELECT {CUSTOMER} FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first"
        ))?,
        pay: client.prepare(
            "UPDATE customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $1, \
             c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4 RETURNING c_balance",
        )?,
        pay_bad_credit: client.prepare(
            "UPDATE customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $1, \
             c_payment_cnt = c_payment_cnt + 1, c_data = substr($5 || c_data, 1, 500) \
             WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4 RETURNING c_balance, c_data",
        )?,
        insert_history: client.prepare(
            "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )?,
        add_to_district: client.prepare("UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3")?,
        add_to_warehouse: client.prepare("UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2")?,
    })
}

fn prepare_order_status<C: Client>(client: &mut C) -> Result<OrderStatusStatements<C::Statement>, ClientError> {
    const CUSTOMER: &str = "c_id, c_balance, c_first, c_middle, c_last";
    Ok(OrderStatusStatements {
        customer_by_id: client.prepare(&format!(
            "SELECT {CUSTOMER} FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"
        ))?,
        customers_by_name: client.prepare(&format!(
            "SELECT {CUSTOMER} FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first"
        ))?,
        last_order: client.prepare(
            "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 \
             ORDER BY o_id DESC LIMIT 1",
        )?,
        lines: client.prepare(
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
             WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
        )?,
    })
}

fn prepare_delivery<C: Client>(client: &mut C, locks: bool) -> Result<DeliveryStatements<C::Statement>, ClientError> {
    let lock = if locks { " FOR UPDATE" } else { "" };
    let oldest =
        format!("SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1{lock}");
    Ok(DeliveryStatements {
        oldest: client.prepare(&oldest)?,
        remove_new_order: client
            .prepare("DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3")?,
        set_carrier: client.prepare(
            "UPDATE orders SET o_carrier_id = $1 WHERE o_w_id = $2 AND o_d_id = $3 AND o_id = $4 RETURNING o_c_id",
        )?,
        set_delivered: client.prepare(
            "UPDATE order_line SET ol_delivery_d = $1 WHERE ol_w_id = $2 AND ol_d_id = $3 AND ol_o_id = $4 \
             RETURNING ol_amount",
        )?,
        credit_customer: client.prepare(
            "UPDATE customer SET c_balance = c_balance + $1, c_delivery_cnt = c_delivery_cnt + 1 \
             WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4",
        )?,
    })
}

fn prepare_stock_level<C: Client>(client: &mut C) -> Result<StockLevelStatements<C::Statement>, ClientError> {
    Ok(StockLevelStatements {
        next_order_id: client.prepare("SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2")?,
        count_low: client.prepare(
            "SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock ON s_i_id = ol_i_id AND s_w_id = ol_w_id \
             WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4 AND s_quantity < $5",
        )?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_sql_numbers_its_parameters() {
        assert!(items_sql(5).ends_with("IN ($1, $2, $3, $4, $5)"));
        assert!(
            lines_sql(2).ends_with("($1, $2, $3, $4, $5, $6, $7, $8, $9), ($1, $2, $3, $10, $11, $12, $13, $14, $15)")
        );
        assert!(stock_sql(7).contains("s_dist_07") && stock_sql(10).contains("s_dist_10"));
    }
}
