//! The TPC-C terminal against a client that answers from canned rows and writes down what it was asked.

use rubato_workload::tpcc::{Scale, Settings, TpccTerminal};
use rubato_workload::{Batch, Client, ClientError, Decimal, Ending, Outcome, Param, Rows, run_transaction};

/// Answers every statement with one plausible row; notes texts, parameters and round trips.
#[derive(Default)]
struct Notebook {
    texts: Vec<String>,
    trace: Vec<String>,
    round_trips: usize,
}

impl Notebook {
    fn answer(&mut self, statement: usize, params: &[Param<'_>]) -> Rows {
        self.trace.push(format!("{} {params:?}", self.texts[statement]));
        match self.texts[statement].as_str() {
            text if text.contains("FROM item") => items(params),
            text => one_row(text),
        }
    }
}

/// All items asked for, except the unused one.
fn items(params: &[Param<'_>]) -> Rows {
    let mut rows = Rows::new(4);
    for param in params {
        if let Param::Int(id) = *param
            && id <= Scale::quick(1).items
        {
            rows.push_int(id);
            rows.push_decimal(Decimal::from_cents(150));
            rows.push_text("name");
            rows.push_text("ORIGINAL");
        }
    }
    rows
}

/// One row of the columns in the text; what a column is can be told from its name.
fn one_row(text: &str) -> Rows {
    let list = match text.split_once("RETURNING ") {
        Some((_, list)) => list,
        None => text
            .strip_prefix("SELECT ")
            .and_then(|rest| rest.split(" FROM ").next())
            .unwrap_or(""),
    };
    let columns: Vec<&str> = list.split(", ").filter(|column| !column.is_empty()).collect();
    let mut rows = Rows::new(columns.len());
    for column in &columns {
        match *column {
            "w_tax" | "d_tax" | "c_discount" => rows.push_decimal(Decimal {
                unscaled: 1000,
                scale: 4,
            }),
            "c_balance" | "ol_amount" => rows.push_decimal(Decimal::from_cents(-1000)),
            "d_next_o_id" => rows.push_int(3001),
            "c_credit" => rows.push_text("BC"),
            name if name.ends_with("_id") || name.starts_with("COUNT") || name == "s_quantity" => rows.push_int(1),
            _ => rows.push_text("text"),
        }
    }
    rows.set_affected(1);
    rows
}

impl Client for Notebook {
    type Statement = usize;

    fn prepare(&mut self, sql: &str) -> Result<usize, ClientError> {
        self.texts.push(sql.to_owned());
        Ok(self.texts.len() - 1)
    }

    fn execute(&mut self, statement: usize, params: &[Param<'_>]) -> Result<Rows, ClientError> {
        self.round_trips += 1;
        Ok(self.answer(statement, params))
    }

    fn execute_batch(&mut self, batch: &Batch<'_, usize>) -> Result<Vec<Rows>, ClientError> {
        self.round_trips += 1;
        Ok(batch
            .calls()
            .map(|(statement, params)| self.answer(statement, params))
            .collect())
    }

    fn simple(&mut self, sql: &str) -> Result<(), ClientError> {
        panic!("no plain text belongs into a transaction: {sql}")
    }

    fn copy_in(&mut self, _: &str, _: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> Result<u64, ClientError> {
        Ok(0)
    }
}

struct Ran {
    kind: usize,
    outcome: Outcome,
    trace: Vec<String>,
    round_trips: usize,
}

fn run(seed: u64, transactions: usize) -> Vec<Ran> {
    let mut client = Notebook::default();
    let settings = Settings::unpaced(Scale::quick(1), seed);
    let mut terminal = TpccTerminal::new(&mut client, settings, 0).expect("prepared");
    (0..transactions)
        .map(|_| {
            let drawn = rubato_workload::Terminal::<Notebook>::draw(&mut terminal);
            client.round_trips = 0;
            let outcome = run_transaction(&mut terminal, &mut client, 1, 0, &mut |_| {});
            let (trace, round_trips) = (std::mem::take(&mut client.trace), client.round_trips);
            Ran {
                kind: drawn.kind,
                outcome,
                trace,
                round_trips,
            }
        })
        .collect()
}

#[test]
fn the_same_seed_asks_the_same() {
    let trace = |seed| run(seed, 50).into_iter().flat_map(|ran| ran.trace).collect::<Vec<_>>();
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

#[test]
fn each_kind_takes_its_round_trips_and_begins_and_ends_once() {
    for ran in run(1, 500) {
        assert!(ran.outcome.result.is_ok(), "{:?}", ran.outcome);
        let allowed: &[usize] = [&[3][..], &[2], &[2, 3], &[3], &[2]][ran.kind];
        assert!(
            allowed.contains(&ran.round_trips),
            "kind {} took {}",
            ran.kind,
            ran.round_trips
        );
        let begins = ran.trace.iter().filter(|line| line.starts_with("BEGIN")).count();
        let ends = ran
            .trace
            .iter()
            .filter(|line| line.starts_with("COMMIT") || line.starts_with("ROLLBACK"))
            .count();
        assert_eq!((begins, ends), (1, 1));
        assert!(ran.trace[0].starts_with("BEGIN"));
    }
}

#[test]
fn one_percent_of_new_orders_names_an_unused_item_and_rolls_back_at_the_end() {
    let new_orders: Vec<Ran> = run(7, 20_000).into_iter().filter(|ran| ran.kind == 0).collect();
    let rolled_back = |ran: &&Ran| ran.outcome.result == Ok(Ending::RolledBack);
    let count = new_orders.iter().filter(rolled_back).count();
    assert_eq!(new_orders.len(), 9_000);
    assert!((50..140).contains(&count), "{count}");
    for ran in &new_orders {
        let unused = format!("Int({})", Scale::quick(1).items + 1);
        let names_unused = ran
            .trace
            .iter()
            .any(|line| line.contains("FROM item") && line.contains(&unused));
        let last = ran.trace.last().expect("a statement");
        assert_eq!(last.starts_with("ROLLBACK"), names_unused);
        let stock_updates = ran.trace.iter().filter(|line| line.starts_with("UPDATE stock")).count();
        assert!((4..=15).contains(&stock_updates) && ran.trace.iter().any(|line| line.contains("INTO order_line")));
    }
}

#[test]
fn stock_rows_are_updated_in_key_order() {
    for ran in run(3, 300).iter().filter(|ran| ran.kind == 0) {
        let item = |line: &str| {
            line.rsplit("Int(")
                .next()
                .and_then(|rest| rest.split(')').next()?.parse::<i64>().ok())
        };
        let items: Vec<Option<i64>> = ran
            .trace
            .iter()
            .filter(|line| line.starts_with("UPDATE stock"))
            .map(|line| item(line))
            .collect();
        assert!(items.iter().all(Option::is_some) && items.is_sorted(), "{items:?}");
    }
}
