//! The two transactions without a customer in their input: Delivery (2.7) and Stock-Level (2.8).

use super::DISTRICTS;
use super::statements::Statements;
use super::terminal::Choices;
use crate::client::{Batch, Client, ClientError, Decimal, Param, Rows};

/// The input of one Delivery.
pub(super) struct DeliveryInput {
    warehouse: i64,
    carrier: i64,
}

/// The oldest new order of one district.
struct Due {
    district: i64,
    order: i64,
}

impl DeliveryInput {
    pub fn draw(choices: &mut Choices) -> DeliveryInput {
        DeliveryInput {
            warehouse: choices.home_warehouse,
            carrier: choices.random.uniform(1, 10),
        }
    }

    /// Three round trips for all districts together. Returns the number of districts without a new order.
    pub fn run<C: Client>(
        &self,
        client: &mut C,
        statements: &Statements<C::Statement>,
        now_us: i64,
    ) -> Result<u64, ClientError> {
        let due = self.find_due(client, statements)?;
        let delivered = self.deliver(client, statements, now_us, &due)?;
        let mut batch = Batch::with_capacity(due.len() + 1);
        for (due, results) in due.iter().zip(delivered.chunks_exact(3)) {
            let (customer, amount_cents) = delivered_order(due, results)?;
            let amount = Param::Decimal(Decimal::from_cents(amount_cents));
            let place = [Param::Int(self.warehouse), Param::Int(due.district)];
            batch.push(
                statements.delivery.credit_customer,
                &[amount, place[0], place[1], Param::Int(customer)],
            );
        }
        batch.push(statements.commit, &[]);
        client.execute_batch(&batch)?;
        Ok((DISTRICTS as u64).saturating_sub(due.len() as u64))
    }

    fn find_due<C: Client>(
        &self,
        client: &mut C,
        statements: &Statements<C::Statement>,
    ) -> Result<Vec<Due>, ClientError> {
        let mut batch = Batch::with_capacity(11);
        batch.push(statements.begin, &[]);
        for district in 1..=DISTRICTS {
            batch.push(
                statements.delivery.oldest,
                &[Param::Int(self.warehouse), Param::Int(district)],
            );
        }
        let oldest = client.execute_batch(&batch)?;
        let with_order = (1..=DISTRICTS).zip(&oldest[1..]).filter(|(_, rows)| !rows.is_empty());
        with_order
            .map(|(district, rows)| {
                Ok(Due {
                    district,
                    order: rows.int(0, 0)?,
                })
            })
            .collect()
    }

    /// Three results for each order that is due.
    fn deliver<C: Client>(
        &self,
        client: &mut C,
        statements: &Statements<C::Statement>,
        now_us: i64,
        due: &[Due],
    ) -> Result<Vec<Rows>, ClientError> {
        let mut batch = Batch::with_capacity(due.len() * 3);
        for due in due {
            let key = [
                Param::Int(self.warehouse),
                Param::Int(due.district),
                Param::Int(due.order),
            ];
            batch.push(statements.delivery.remove_new_order, &key);
            batch.push(
                statements.delivery.set_carrier,
                &[Param::Int(self.carrier), key[0], key[1], key[2]],
            );
            batch.push(
                statements.delivery.set_delivered,
                &[Param::Timestamp(now_us), key[0], key[1], key[2]],
            );
        }
        if batch.is_empty() {
            Ok(Vec::new())
        } else {
            client.execute_batch(&batch)
        }
    }
}

/// Customer and sum of the lines in cents of a delivered order.
fn delivered_order(due: &Due, results: &[Rows]) -> Result<(i64, i64), ClientError> {
    let [removed, order, lines] = results else {
        return Err(ClientError::unexpected("a delivery has three results"));
    };
    if removed.affected() == 0 {
        let (order, district) = (due.order, due.district);
        return Err(ClientError::overtaken(format!(
            "order {order} of district {district} was delivered by another"
        )));
    }
    let mut sum_cents = 0;
    for row in 0..lines.len() {
        sum_cents += lines.scaled(row, 0, 2)?;
    }
    Ok((order.int(0, 0)?, sum_cents))
}

/// The input of one Stock-Level.
pub(super) struct StockLevelInput {
    warehouse: i64,
    district: i64,
    threshold: i64,
}

impl StockLevelInput {
    pub fn draw(choices: &mut Choices) -> StockLevelInput {
        let threshold = choices.random.uniform(10, 20);
        StockLevelInput {
            warehouse: choices.home_warehouse,
            district: choices.home_district,
            threshold,
        }
    }

    /// Two round trips; read only. Looks at the last twenty orders of the district.
    pub fn run<C: Client>(&self, client: &mut C, statements: &Statements<C::Statement>) -> Result<(), ClientError> {
        let place = [Param::Int(self.warehouse), Param::Int(self.district)];
        let mut batch = Batch::with_capacity(2);
        batch.push(statements.begin_read_only, &[]);
        batch.push(statements.stock_level.next_order_id, &place);
        let next = client.execute_batch(&batch)?[1].int(0, 0)?;
        let range = [Param::Int(next - 20), Param::Int(next)];
        let mut batch = Batch::with_capacity(2);
        let params = [place[0], place[1], range[0], range[1], Param::Int(self.threshold)];
        batch.push(statements.stock_level.count_low, &params);
        batch.push(statements.commit, &[]);
        client.execute_batch(&batch)?[0].int(0, 0).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(removed: u64) -> Vec<Rows> {
        let (mut deleted, mut order, mut lines) = (Rows::new(0), Rows::new(1), Rows::new(1));
        deleted.set_affected(removed);
        order.push_int(17);
        for cents in [100, 250] {
            lines.push_decimal(Decimal::from_cents(cents));
        }
        vec![deleted, order, lines]
    }

    #[test]
    fn an_order_that_another_delivery_took_runs_again() {
        let due = Due {
            district: 3,
            order: 2101,
        };
        assert_eq!(delivered_order(&due, &results(1)), Ok((17, 350)));
        assert!(delivered_order(&due, &results(0)).is_err_and(|error| error.is_retryable()));
    }
}
