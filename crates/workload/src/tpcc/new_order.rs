//! The New-Order transaction (2.4).

use std::hint::black_box;

use super::HotRows;
use super::statements::{ORDER_LINES, Statements};
use super::terminal::Choices;
use crate::client::{Batch, Client, ClientError, Decimal, Param, Rows};
use crate::terminal::Ending;

struct Line {
    item: i64,
    supply_warehouse: i64,
    quantity: i64,
}

/// The input of one New-Order.
pub(super) struct NewOrderInput {
    warehouse: i64,
    district: i64,
    customer: i64,
    /// In key order of STOCK, so that no two New-Orders lock stock rows crosswise. The unused item, if any, is last.
    lines: Vec<Line>,
    /// Whether the last line names an item that does not exist.
    has_unused_item: bool,
    hot_rows: HotRows,
}

impl NewOrderInput {
    pub fn draw(choices: &mut Choices) -> NewOrderInput {
        let count = choices
            .random
            .uniform(*ORDER_LINES.start() as i64, *ORDER_LINES.end() as i64);
        let has_unused_item = choices.random.percent(1.0);
        let mut lines: Vec<Line> = (0..count).map(|_| draw_line(choices)).collect();
        if has_unused_item && let Some(last) = lines.last_mut() {
            last.item = choices.settings.scale.items + 1;
        }
        let used = lines.len() - usize::from(has_unused_item);
        lines[..used].sort_by_key(|line| (line.supply_warehouse, line.item));
        NewOrderInput {
            warehouse: choices.home_warehouse,
            district: choices.district(),
            customer: choices.customer(),
            lines,
            has_unused_item,
            hot_rows: choices.settings.hot_rows,
        }
    }

    /// The lines whose items exist.
    fn used_lines(&self) -> &[Line] {
        &self.lines[..self.lines.len() - usize::from(self.has_unused_item)]
    }

    fn is_all_local(&self) -> bool {
        self.lines.iter().all(|line| line.supply_warehouse == self.warehouse)
    }

    /// Three round trips: what is only read; stock and order number; the inserts with the commit.
    pub fn run<C: Client>(
        &self,
        client: &mut C,
        statements: &Statements<C::Statement>,
        now_us: i64,
    ) -> Result<Ending, ClientError> {
        let read = self.read(client, statements)?;
        let items = &read[3];
        if items.is_empty() {
            return Err(ClientError::unexpected("no item of the order was found"));
        }
        let stock = self.take_stock(client, statements)?;
        let Some(order) = read.get(4).or(stock.last()) else {
            return Err(ClientError::unexpected("the district gave no order number"));
        };
        let order_id = order.int(0, 0)? - 1;
        let amounts = self.amounts(items)?;
        self.insert(client, statements, now_us, order_id, &amounts, &stock)?;
        let terms = Terms {
            discount: read[2].scaled(0, 0, 4)?,
            warehouse_tax: read[1].scaled(0, 0, 4)?,
            district_tax: order.scaled(0, 1, 4)?,
        };
        // The emulated screen shows these; nothing else is done with them.
        black_box((total_cents(amounts.iter().sum(), terms), self.brands(items, &stock)?));
        Ok(if self.has_unused_item {
            Ending::RolledBack
        } else {
            Ending::Committed
        })
    }

    fn read<C: Client>(&self, client: &mut C, statements: &Statements<C::Statement>) -> Result<Vec<Rows>, ClientError> {
        let (warehouse, district) = (Param::Int(self.warehouse), Param::Int(self.district));
        let item_ids: Vec<Param<'_>> = self.lines.iter().map(|line| Param::Int(line.item)).collect();
        let mut batch = Batch::with_capacity(5);
        batch.push(statements.begin, &[]);
        batch.push(statements.new_order.warehouse_tax, &[warehouse]);
        batch.push(
            statements.new_order.customer_terms,
            &[warehouse, district, Param::Int(self.customer)],
        );
        batch.push(statements.new_order.items(item_ids.len()), &item_ids);
        if self.hot_rows == HotRows::First {
            batch.push(statements.new_order.next_order_id, &[warehouse, district]);
        }
        client.execute_batch(&batch)
    }

    /// One result per used line, then, if hot rows come last, the order number and tax of the district.
    fn take_stock<C: Client>(
        &self,
        client: &mut C,
        statements: &Statements<C::Statement>,
    ) -> Result<Vec<Rows>, ClientError> {
        let stock = statements.new_order.stock(self.district);
        let mut batch = Batch::with_capacity(self.lines.len() + 1);
        for line in self.used_lines() {
            let remote = i64::from(line.supply_warehouse != self.warehouse);
            let key = [Param::Int(line.supply_warehouse), Param::Int(line.item)];
            batch.push(stock, &[Param::Int(line.quantity), Param::Int(remote), key[0], key[1]]);
        }
        if self.hot_rows == HotRows::Last {
            batch.push(
                statements.new_order.next_order_id,
                &[Param::Int(self.warehouse), Param::Int(self.district)],
            );
        }
        client.execute_batch(&batch)
    }

    /// OL_AMOUNT of each used line in cents.
    fn amounts(&self, items: &Rows) -> Result<Vec<i64>, ClientError> {
        let amount = |line: &Line| Ok(line.quantity * items.scaled(find_item(items, line.item)?, 1, 2)?);
        self.used_lines().iter().map(amount).collect()
    }

    fn insert<C: Client>(
        &self,
        client: &mut C,
        statements: &Statements<C::Statement>,
        now_us: i64,
        order_id: i64,
        amounts: &[i64],
        stock: &[Rows],
    ) -> Result<(), ClientError> {
        let key = [
            Param::Int(self.warehouse),
            Param::Int(self.district),
            Param::Int(order_id),
        ];
        let mut line_params = Vec::with_capacity(3 + amounts.len() * 6);
        line_params.extend(key);
        for (index, (line, &amount)) in self.used_lines().iter().zip(amounts).enumerate() {
            line_params.extend([
                Param::Int(index as i64 + 1),
                Param::Int(line.item),
                Param::Int(line.supply_warehouse),
                Param::Int(line.quantity),
                Param::Decimal(Decimal::from_cents(amount)),
                Param::Text(stock[index].text(0, 1)?),
            ]);
        }
        let order = [
            key[0],
            key[1],
            key[2],
            Param::Int(self.customer),
            Param::Timestamp(now_us),
            Param::Int(self.lines.len() as i64),
            Param::Int(i64::from(self.is_all_local())),
        ];
        let mut batch = Batch::with_capacity(4);
        batch.push(statements.new_order.insert_order, &order);
        batch.push(statements.new_order.insert_new_order, &key);
        batch.push(statements.new_order.insert_lines(amounts.len()), &line_params);
        batch.push(
            if self.has_unused_item {
                statements.rollback
            } else {
                statements.commit
            },
            &[],
        );
        client.execute_batch(&batch).map(drop)
    }

    /// Lines whose item and stock are both marked original: `B` on the screen (2.4.2.2).
    fn brands(&self, items: &Rows, stock: &[Rows]) -> Result<usize, ClientError> {
        let mut brands = 0;
        for (line, stock) in self.used_lines().iter().zip(stock) {
            let item_data = items.text(find_item(items, line.item)?, 3)?;
            brands += usize::from(item_data.contains("ORIGINAL") && stock.text(0, 2)?.contains("ORIGINAL"));
        }
        Ok(brands)
    }
}

fn draw_line(choices: &mut Choices) -> Line {
    let remote_percent = choices.settings.remote_item_percent;
    let is_remote = choices.random.percent(remote_percent);
    Line {
        item: choices.item(),
        supply_warehouse: if is_remote {
            choices.remote_warehouse()
        } else {
            choices.home_warehouse
        },
        quantity: choices.random.uniform(1, 10),
    }
}

fn find_item(items: &Rows, item: i64) -> Result<usize, ClientError> {
    for row in 0..items.len() {
        if items.int(row, 0)? == item {
            return Ok(row);
        }
    }
    Err(ClientError::unexpected(format!("item {item} was not found")))
}

/// Rates in ten-thousandths.
#[derive(Clone, Copy)]
struct Terms {
    discount: i64,
    warehouse_tax: i64,
    district_tax: i64,
}

/// Sum of the lines, less discount, plus taxes, rounded to cents.
fn total_cents(sum_cents: i64, terms: Terms) -> i64 {
    let exact = i128::from(sum_cents)
        * i128::from(10_000 - terms.discount)
        * i128::from(10_000 + terms.warehouse_tax + terms.district_tax);
    ((exact + 50_000_000) / 100_000_000) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_takes_discount_and_both_taxes() {
        let terms = Terms {
            discount: 5000,
            warehouse_tax: 1000,
            district_tax: 2000,
        };
        assert_eq!(total_cents(10_000, terms), 6_500);
        assert_eq!(total_cents(0, terms), 0);
    }
}
