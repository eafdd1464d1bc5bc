//! The two transactions that find a customer by number or by last name: Payment (2.5) and Order-Status (2.6).

use super::HotRows;
use super::generate::last_name;
use super::statements::Statements;
use super::terminal::Choices;
use crate::client::{Batch, Client, ClientError, Decimal, Param, Rows};

enum Customer {
    Number(i64),
    LastName(String),
}

impl Customer {
    /// By last name in 60 % of all cases.
    fn draw(choices: &mut Choices) -> Customer {
        if choices.random.percent(60.0) {
            Customer::LastName(last_name(choices.last_name()))
        } else {
            Customer::Number(choices.customer())
        }
    }
}

/// Row of the customer meant: the only one by number, the middle one (rounded up) by last name.
fn meant_row(customers: &Rows) -> Result<usize, ClientError> {
    match customers.len() {
        0 => Err(ClientError::unexpected("the customer was not found")),
        count => Ok(count.div_ceil(2) - 1),
    }
}

/// The input of one Payment.
pub(super) struct PaymentInput {
    warehouse: i64,
    district: i64,
    customer_warehouse: i64,
    customer_district: i64,
    customer: Customer,
    amount_cents: i64,
    hot_rows: HotRows,
}

impl PaymentInput {
    pub fn draw(choices: &mut Choices) -> PaymentInput {
        let (warehouse, district) = (choices.home_warehouse, choices.district());
        let remote_percent = choices.settings.remote_payment_percent;
        let is_remote = choices.settings.scale.warehouses > 1 && choices.random.percent(remote_percent);
        let (customer_warehouse, customer_district) = if is_remote {
            (choices.remote_warehouse(), choices.district())
        } else {
            (warehouse, district)
        };
        PaymentInput {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: Customer::draw(choices),
            amount_cents: choices.random.uniform(100, 500_000),
            hot_rows: choices.settings.hot_rows,
        }
    }

    /// Two round trips: what is only read; then the customer, the history, and the hot rows just before the commit.
    pub fn run<C: Client>(
        &self,
        client: &mut C,
        statements: &Statements<C::Statement>,
        now_us: i64,
    ) -> Result<(), ClientError> {
        let (warehouse, district) = (Param::Int(self.warehouse), Param::Int(self.district));
        let place = [Param::Int(self.customer_warehouse), Param::Int(self.customer_district)];
        let payment = &statements.payment;
        let mut batch = Batch::with_capacity(4);
        batch.push(statements.begin, &[]);
        batch.push(payment.warehouse, &[warehouse]);
        batch.push(payment.district, &[warehouse, district]);
        match &self.customer {
            Customer::Number(id) => batch.push(payment.customer_by_id, &[place[0], place[1], Param::Int(*id)]),
            Customer::LastName(name) => batch.push(payment.customers_by_name, &[place[0], place[1], Param::Text(name)]),
        };
        if self.hot_rows == HotRows::First {
            self.add_to_hot_rows(&mut batch, statements);
        }
        let read = client.execute_batch(&batch)?;
        let customers = &read[3];
        let row = meant_row(customers)?;
        let id = customers.int(row, 0)?;
        let history_data = format!("{}    {}", read[1].text(0, 0)?, read[2].text(0, 0)?);
        let bad_credit = if customers.text(row, 11)? == "BC" {
            Some(self.credit_note(id))
        } else {
            None
        };
        self.write(client, statements, now_us, id, &history_data, bad_credit.as_deref())
    }

    /// What is put in front of C_DATA of a customer with bad credit.
    fn credit_note(&self, id: i64) -> String {
        let amount = Decimal::from_cents(self.amount_cents);
        let (customer_district, customer_warehouse) = (self.customer_district, self.customer_warehouse);
        format!(
            "{id} {customer_district} {customer_warehouse} {} {} {amount} | ",
            self.district, self.warehouse
        )
    }

    fn add_to_hot_rows<S: Copy>(&self, batch: &mut Batch<'_, S>, statements: &Statements<S>) {
        let (warehouse, district) = (Param::Int(self.warehouse), Param::Int(self.district));
        let amount = Param::Decimal(Decimal::from_cents(self.amount_cents));
        batch.push(statements.payment.add_to_district, &[amount, warehouse, district]);
        batch.push(statements.payment.add_to_warehouse, &[amount, warehouse]);
    }

    fn write<C: Client>(
        &self,
        client: &mut C,
        statements: &Statements<C::Statement>,
        now_us: i64,
        id: i64,
        history_data: &str,
        bad_credit: Option<&str>,
    ) -> Result<(), ClientError> {
        let (warehouse, district) = (Param::Int(self.warehouse), Param::Int(self.district));
        let place = [Param::Int(self.customer_warehouse), Param::Int(self.customer_district)];
        let amount = Param::Decimal(Decimal::from_cents(self.amount_cents));
        let payment = &statements.payment;
        let key = [amount, place[0], place[1], Param::Int(id)];
        let mut batch = Batch::with_capacity(5);
        match bad_credit {
            None => batch.push(payment.pay, &key),
            Some(note) => batch.push(
                payment.pay_bad_credit,
                &[key[0], key[1], key[2], key[3], Param::Text(note)],
            ),
        };
        let when = Param::Timestamp(now_us);
        let history = [
            Param::Int(id),
            place[1],
            place[0],
            district,
            warehouse,
            when,
            amount,
            Param::Text(history_data),
        ];
        batch.push(payment.insert_history, &history);
        if self.hot_rows == HotRows::Last {
            self.add_to_hot_rows(&mut batch, statements);
        }
        batch.push(statements.commit, &[]);
        let results = client.execute_batch(&batch)?;
        results[0].scaled(0, 0, 2).map(drop)
    }
}

/// The input of one Order-Status.
pub(super) struct OrderStatusInput {
    warehouse: i64,
    district: i64,
    customer: Customer,
}

impl OrderStatusInput {
    pub fn draw(choices: &mut Choices) -> OrderStatusInput {
        let district = choices.district();
        OrderStatusInput {
            warehouse: choices.home_warehouse,
            district,
            customer: Customer::draw(choices),
        }
    }

    /// Two round trips by number, three by last name; read only.
    pub fn run<C: Client>(&self, client: &mut C, statements: &Statements<C::Statement>) -> Result<(), ClientError> {
        let place = [Param::Int(self.warehouse), Param::Int(self.district)];
        let status = &statements.order_status;
        let mut batch = Batch::with_capacity(3);
        batch.push(statements.begin_read_only, &[]);
        let order = match &self.customer {
            Customer::Number(id) => {
                let key = [place[0], place[1], Param::Int(*id)];
                batch.push(status.customer_by_id, &key);
                batch.push(status.last_order, &key);
                let mut results = client.execute_batch(&batch)?;
                meant_row(&results[1])?;
                results.swap_remove(2)
            }
            Customer::LastName(name) => {
                batch.push(status.customers_by_name, &[place[0], place[1], Param::Text(name)]);
                let results = client.execute_batch(&batch)?;
                let id = results[1].int(meant_row(&results[1])?, 0)?;
                client.execute(status.last_order, &[place[0], place[1], Param::Int(id)])?
            }
        };
        let mut batch = Batch::with_capacity(2);
        batch.push(status.lines, &[place[0], place[1], Param::Int(order.int(0, 0)?)]);
        batch.push(statements.commit, &[]);
        let results = client.execute_batch(&batch)?;
        if results[0].is_empty() {
            return Err(ClientError::unexpected(format!(
                "order {} has no lines",
                order.int(0, 0)?
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_customer_is_meant_rounded_up() {
        for (count, expect) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)] {
            let mut rows = Rows::new(1);
            (0..count).for_each(|id| rows.push_int(id));
            assert_eq!(meant_row(&rows), Ok(expect), "{count}");
        }
        assert!(meant_row(&Rows::new(1)).is_err());
    }
}
