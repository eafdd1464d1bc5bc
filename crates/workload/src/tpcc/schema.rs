//! The nine tables (1.3), their primary keys and the two secondary indexes the transactions need.

use crate::Placement;
use crate::client::{Client, ClientError};

/// The tables in loading order.
pub const TABLES: [&str; 9] = [
    "item",
    "warehouse",
    "stock",
    "district",
    "customer",
    "history",
    "orders",
    "new_order",
    "order_line",
];

const CREATE: [&str; 9] = [
    "CREATE TABLE item (
        i_id integer NOT NULL, i_im_id integer NOT NULL, i_name varchar(24) NOT NULL, i_price numeric(5,2) NOT NULL,
        i_data varchar(50) NOT NULL, PRIMARY KEY (i_id))",
    "CREATE TABLE warehouse (
        w_id integer NOT NULL, w_name varchar(10) NOT NULL, w_street_1 varchar(20) NOT NULL,
        w_street_2 varchar(20) NOT NULL, w_city varchar(20) NOT NULL, w_state char(2) NOT NULL, w_zip char(9) NOT NULL,
        w_tax numeric(4,4) NOT NULL, w_ytd numeric(12,2) NOT NULL, PRIMARY KEY (w_id))",
    "CREATE TABLE stock (
        s_w_id integer NOT NULL, s_i_id integer NOT NULL, s_quantity integer NOT NULL,
        s_dist_01 char(24) NOT NULL, s_dist_02 char(24) NOT NULL, s_dist_03 char(24) NOT NULL,
        s_dist_04 char(24) NOT NULL, s_dist_05 char(24) NOT NULL, s_dist_06 char(24) NOT NULL,
        s_dist_07 char(24) NOT NULL, s_dist_08 char(24) NOT NULL, s_dist_09 char(24) NOT NULL,
        s_dist_10 char(24) NOT NULL, s_ytd integer NOT NULL, s_order_cnt integer NOT NULL,
        s_remote_cnt integer NOT NULL, s_data varchar(50) NOT NULL, PRIMARY KEY (s_w_id, s_i_id))",
    "CREATE TABLE district (
        d_w_id integer NOT NULL, d_id integer NOT NULL, d_name varchar(10) NOT NULL, d_street_1 varchar(20) NOT NULL,
        d_street_2 varchar(20) NOT NULL, d_city varchar(20) NOT NULL, d_state char(2) NOT NULL, d_zip char(9) NOT NULL,
        d_tax numeric(4,4) NOT NULL, d_ytd numeric(12,2) NOT NULL, d_next_o_id integer NOT NULL,
        PRIMARY KEY (d_w_id, d_id))",
    "CREATE TABLE customer (
        c_w_id integer NOT NULL, c_d_id integer NOT NULL, c_id integer NOT NULL, c_first varchar(16) NOT NULL,
        c_middle char(2) NOT NULL, c_last varchar(16) NOT NULL, c_street_1 varchar(20) NOT NULL,
        c_street_2 varchar(20) NOT NULL, c_city varchar(20) NOT NULL, c_state char(2) NOT NULL, c_zip char(9) NOT NULL,
        c_phone char(16) NOT NULL, c_since timestamp NOT NULL, c_credit char(2) NOT NULL,
        c_credit_lim numeric(12,2) NOT NULL, c_discount numeric(4,4) NOT NULL, c_balance numeric(12,2) NOT NULL,
        c_ytd_payment numeric(12,2) NOT NULL, c_payment_cnt integer NOT NULL, c_delivery_cnt integer NOT NULL,
        c_data varchar(500) NOT NULL, PRIMARY KEY (c_w_id, c_d_id, c_id))",
    "CREATE TABLE history (
        h_c_id integer NOT NULL, h_c_d_id integer NOT NULL, h_c_w_id integer NOT NULL, h_d_id integer NOT NULL,
        h_w_id integer NOT NULL, h_date timestamp NOT NULL, h_amount numeric(6,2) NOT NULL,
        h_data varchar(24) NOT NULL)",
    "CREATE TABLE orders (
        o_w_id integer NOT NULL, o_d_id integer NOT NULL, o_id integer NOT NULL, o_c_id integer NOT NULL,
        o_entry_d timestamp NOT NULL, o_carrier_id integer, o_ol_cnt integer NOT NULL, o_all_local integer NOT NULL,
        PRIMARY KEY (o_w_id, o_d_id, o_id))",
    "CREATE TABLE new_order (
        no_w_id integer NOT NULL, no_d_id integer NOT NULL, no_o_id integer NOT NULL,
        PRIMARY KEY (no_w_id, no_d_id, no_o_id))",
    "CREATE TABLE order_line (
        ol_w_id integer NOT NULL, ol_d_id integer NOT NULL, ol_o_id integer NOT NULL, ol_number integer NOT NULL,
        ol_i_id integer NOT NULL, ol_supply_w_id integer NOT NULL, ol_delivery_d timestamp,
        ol_quantity integer NOT NULL, ol_amount numeric(6,2) NOT NULL, ol_dist_info char(24) NOT NULL,
        PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))",
];

const INDEXES: [&str; 2] = [
    "CREATE INDEX customer_by_last_name ON customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
];

/// Drops the tables if they are there and creates them, empty, with their primary keys.
///
/// # Errors
/// What the client reported.
pub fn create_tables<C: Client>(client: &mut C, placement: Placement) -> Result<(), ClientError> {
    for table in TABLES.iter().rev() {
        client.simple(&format!("DROP TABLE IF EXISTS {table}"))?;
    }
    let tables = TABLES.iter().zip(CREATE);
    tables
        .map(|(table, create)| placement.created(table, create))
        .try_for_each(|create| client.simple(&create))
}

/// What is said of `item` where tables are spread: nobody changes it, and every order reads it.
const ITEM_PLACEMENT: &str = " WITH (spread = everywhere)";

/// HISTORY has no key, and only rows with a key can be laid where it says: there it gets one that begins with the warehouse.
const HISTORY_KEY: (&str, &str) = (
    "h_data varchar(24) NOT NULL)",
    "h_data varchar(24) NOT NULL, h_id uuid NOT NULL DEFAULT gen_random_uuid(), PRIMARY KEY (h_w_id, h_id))",
);

impl Placement {
    /// The statement that creates a table.
    fn created(self, table: &str, create: &str) -> String {
        match (self, table) {
            (Placement::AsIs, _) => create.to_owned(),
            (Placement::Spread, "item") => format!("{create}{ITEM_PLACEMENT}"),
            (Placement::Spread, "history") => {
                format!("{}{}", create.replace(HISTORY_KEY.0, HISTORY_KEY.1), crate::SPREAD)
            }
            (Placement::Spread, _) => format!("{create}{}", crate::SPREAD),
        }
    }
}

/// Creates the secondary indexes; done after loading.
///
/// # Errors
/// What the client reported.
pub fn create_indexes<C: Client>(client: &mut C) -> Result<(), ClientError> {
    INDEXES.iter().try_for_each(|index| client.simple(index))
}

/// Gathers statistics and writes back what loading left dirty, where the server knows `VACUUM ANALYZE` and
/// `CHECKPOINT`; others need them not. Otherwise one server's clean-up would disturb the measurement of the next.
///
/// # Errors
/// A lost connection only.
pub fn settle<C: Client>(client: &mut C) -> Result<(), ClientError> {
    crate::client::settle(client, &TABLES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_tables_have_keys_that_begin_with_the_warehouse() {
        let created: Vec<String> = (TABLES.iter().zip(CREATE))
            .map(|(table, create)| Placement::Spread.created(table, create))
            .collect();
        let spread: Vec<&String> = created
            .iter()
            .filter(|create| create.contains("spread = true"))
            .collect();
        assert_eq!(spread.len(), 8);
        for create in spread {
            let key = create.split("PRIMARY KEY (").nth(1).expect("a key");
            let first = key.split([',', ')']).next().expect("a column");
            assert!(first.ends_with("w_id"), "{create}");
        }
        assert_eq!(Placement::AsIs.created(TABLES[1], CREATE[1]), CREATE[1]);
    }
}
