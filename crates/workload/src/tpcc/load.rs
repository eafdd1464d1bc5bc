//! The initial population (4.3.3) as independent COPY jobs: per table and warehouse, each with its own random stream.

use std::io::Write;

use super::generate::{self, NuRand, NuRandConstants, last_name};
use super::{DISTRICTS, Scale};
use crate::client::{Client, ClientError, Decimal, load_piece};
use crate::random::Random;

/// COPY data are handed over in pieces of about this many bytes: large enough that a call costs nothing, small enough
/// to stay in the processor's cache.
const CHUNK_BYTES: usize = 64 * 1024;
/// Rows after which a COPY ends and the next one begins.
const PIECE_ROWS: u64 = 10_000;

/// 2026-01-01 00:00:00 UTC: the load's "current time" is fixed so that the data depend on the seed alone.
const LOAD_TIME: &str = "2026-01-01 00:00:00";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Item,
    Warehouse,
    Stock,
    District,
    Customer,
    History,
    Orders,
    NewOrder,
    OrderLine,
}

/// One COPY: all rows of one table for one warehouse. Jobs are independent and may run in any order and in parallel.
#[derive(Clone, Copy, Debug)]
pub struct LoadJob {
    table: Table,
    /// 0 for ITEM, which belongs to no warehouse.
    warehouse: i64,
    scale: Scale,
    seed: u64,
}

/// All jobs of a population, the largest first so that parallel sessions end at about the same time.
pub fn load_jobs(scale: Scale, seed: u64) -> Vec<LoadJob> {
    use Table::{Customer, District, History, NewOrder, OrderLine, Orders, Stock, Warehouse};
    let job = |table, warehouse| LoadJob {
        table,
        warehouse,
        scale,
        seed,
    };
    let mut jobs = Vec::new();
    for table in [
        OrderLine, Stock, Customer, Orders, History, NewOrder, District, Warehouse,
    ] {
        jobs.extend((1..=scale.warehouses).map(|warehouse| job(table, warehouse)));
    }
    jobs.insert(0, job(Table::Item, 0));
    jobs
}

impl LoadJob {
    /// The warehouse that the rows belong to; none for ITEM.
    pub fn warehouse(&self) -> Option<i64> {
        (self.table != Table::Item).then_some(self.warehouse)
    }

    /// Rows this job loads; for ORDER_LINE the expected number (5 to 15 lines an order).
    pub fn rows(&self) -> u64 {
        let per_warehouse = DISTRICTS * self.scale.customers;
        let rows = match self.table {
            Table::Item | Table::Stock => self.scale.items,
            Table::Warehouse => 1,
            Table::District => DISTRICTS,
            Table::Customer | Table::History | Table::Orders => per_warehouse,
            Table::NewOrder => DISTRICTS * (self.scale.customers - self.scale.delivered_orders()),
            Table::OrderLine => per_warehouse * 10,
        };
        rows as u64
    }

    /// Runs the COPY, in pieces that each fit a server with little memory; `progress` is told the rows handed over since its last
    /// call. Returns the rows loaded.
    ///
    /// # Errors
    /// What the client reported; nothing of that piece is loaded then. Retryable errors are not reported but after many attempts.
    pub fn run<C: Client>(&self, client: &mut C, progress: &dyn Fn(u64)) -> Result<u64, ClientError> {
        let mut rows = RowWriter::new(*self);
        let mut loaded = 0;
        while !rows.is_at_end() {
            let begin = rows.clone();
            loaded += load_piece(|| {
                rows = begin.clone();
                let mut in_piece = 0;
                client.copy_in(self.table.copy(), &mut |chunk| {
                    let written = if in_piece < PIECE_ROWS { rows.fill(chunk) } else { 0 };
                    in_piece += written;
                    progress(written);
                    written > 0
                })
            })?;
        }
        Ok(loaded)
    }
}

impl Table {
    fn copy(self) -> &'static str {
        match self {
            Table::Item => "COPY item FROM STDIN",
            Table::Warehouse => "COPY warehouse FROM STDIN",
            Table::Stock => "COPY stock FROM STDIN",
            Table::District => "COPY district FROM STDIN",
            Table::Customer => "COPY customer FROM STDIN",
            Table::History => {
                "COPY history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) FROM STDIN"
            }
            Table::Orders => "COPY orders FROM STDIN",
            Table::NewOrder => "COPY new_order FROM STDIN",
            Table::OrderLine => "COPY order_line FROM STDIN",
        }
    }
}

/// Writes the rows of one job in the text format of COPY, district by district, key by key.
#[derive(Clone)]
struct RowWriter {
    job: LoadJob,
    random: Random,
    constants: NuRandConstants,
    /// Position: district (from 1) and number within it (from 1).
    district: i64,
    number: i64,
    /// ORDERS: the permutation of customers of this district. ORDERS and ORDER_LINE: its line counts.
    customers: Vec<i64>,
    line_counts: Vec<i64>,
}

impl RowWriter {
    fn new(job: LoadJob) -> RowWriter {
        let random = Random::derived(job.seed, &[0x10AD, job.table as u64, job.warehouse as u64]);
        let constants = NuRandConstants::load();
        RowWriter {
            job,
            random,
            constants,
            district: 1,
            number: 1,
            customers: Vec::new(),
            line_counts: Vec::new(),
        }
    }

    /// Fills a chunk with whole rows; returns their number, 0 at the end.
    fn fill(&mut self, out: &mut Vec<u8>) -> u64 {
        let mut rows = 0;
        while out.len() < CHUNK_BYTES && self.district <= self.districts() {
            rows += self.row(out);
            self.number += 1;
            if self.number > self.numbers() {
                self.number = 1;
                self.district += 1;
            }
        }
        rows
    }

    fn is_at_end(&self) -> bool {
        self.district > self.districts()
    }

    fn districts(&self) -> i64 {
        match self.job.table {
            Table::Item | Table::Warehouse | Table::Stock => 1,
            _ => DISTRICTS,
        }
    }

    fn numbers(&self) -> i64 {
        match self.job.table {
            Table::Item | Table::Stock => self.job.scale.items,
            Table::Warehouse | Table::District => 1,
            Table::Customer | Table::History | Table::Orders | Table::OrderLine => self.job.scale.customers,
            Table::NewOrder => self.job.scale.customers - self.job.scale.delivered_orders(),
        }
    }

    fn row(&mut self, out: &mut Vec<u8>) -> u64 {
        match self.job.table {
            Table::Item => self.item(out),
            Table::Warehouse => self.warehouse(out),
            Table::Stock => self.stock(out),
            Table::District => self.district(out),
            Table::Customer => self.customer(out),
            Table::History => self.history(out),
            Table::Orders => self.order(out),
            Table::NewOrder => self.new_order(out),
            Table::OrderLine => return self.order_lines(out),
        }
        1
    }

    fn item(&mut self, out: &mut Vec<u8>) {
        let random = &mut self.random;
        put(out, format_args!("{}\t{}\t", self.number, random.uniform(1, 10_000)));
        generate::letters(random, 14, 24, out);
        put(
            out,
            format_args!("\t{}\t", Decimal::from_cents(random.uniform(100, 10_000))),
        );
        generate::data(random, out);
        out.push(b'\n');
    }

    fn address(&mut self, out: &mut Vec<u8>) {
        for _ in 0..3 {
            generate::letters(&mut self.random, 10, 20, out);
            out.push(b'\t');
        }
        generate::state(&mut self.random, out);
        out.push(b'\t');
        generate::zip(&mut self.random, out);
        out.push(b'\t');
    }

    fn rate(&mut self, high: i64) -> Decimal {
        Decimal {
            unscaled: self.random.uniform(0, high),
            scale: 4,
        }
    }

    fn warehouse(&mut self, out: &mut Vec<u8>) {
        put(out, format_args!("{}\t", self.job.warehouse));
        generate::letters(&mut self.random, 6, 10, out);
        out.push(b'\t');
        self.address(out);
        // Ten districts' worth of history: 300,000.00 at the specification's scale.
        let ytd = Decimal::from_cents(DISTRICTS * self.job.scale.customers * 1000);
        put(out, format_args!("{}\t{ytd}\n", self.rate(2000)));
    }

    fn district(&mut self, out: &mut Vec<u8>) {
        put(out, format_args!("{}\t{}\t", self.job.warehouse, self.district));
        generate::letters(&mut self.random, 6, 10, out);
        out.push(b'\t');
        self.address(out);
        let ytd = Decimal::from_cents(self.job.scale.customers * 1000);
        put(
            out,
            format_args!("{}\t{ytd}\t{}\n", self.rate(2000), self.job.scale.customers + 1),
        );
    }

    fn stock(&mut self, out: &mut Vec<u8>) {
        let random = &mut self.random;
        put(
            out,
            format_args!("{}\t{}\t{}\t", self.job.warehouse, self.number, random.uniform(10, 100)),
        );
        for _ in 0..DISTRICTS {
            generate::letters(random, 24, 24, out);
            out.push(b'\t');
        }
        out.extend_from_slice(b"0\t0\t0\t");
        generate::data(random, out);
        out.push(b'\n');
    }

    fn customer(&mut self, out: &mut Vec<u8>) {
        let last_names = self.job.scale.last_names();
        let name = if self.number <= last_names {
            self.number - 1
        } else {
            self.constants
                .draw(&mut self.random, NuRand::LastName, 0, last_names - 1)
        };
        put(
            out,
            format_args!("{}\t{}\t{}\t", self.job.warehouse, self.district, self.number),
        );
        generate::letters(&mut self.random, 8, 16, out);
        put(out, format_args!("\tOE\t{}\t", last_name(name)));
        self.address(out);
        generate::digits(&mut self.random, 16, out);
        let credit = if self.random.percent(10.0) { "BC" } else { "GC" };
        let discount = self.rate(5000);
        put(
            out,
            format_args!("\t{LOAD_TIME}\t{credit}\t50000.00\t{discount}\t-10.00\t10.00\t1\t0\t"),
        );
        generate::letters(&mut self.random, 300, 500, out);
        out.push(b'\n');
    }

    fn history(&mut self, out: &mut Vec<u8>) {
        let (warehouse, district) = (self.job.warehouse, self.district);
        put(
            out,
            format_args!("{}\t{district}\t{warehouse}\t{district}\t{warehouse}\t", self.number),
        );
        put(out, format_args!("{LOAD_TIME}\t10.00\t"));
        generate::letters(&mut self.random, 12, 24, out);
        out.push(b'\n');
    }

    /// The line counts of a district's orders come from their own stream: ORDERS and ORDER_LINE are loaded apart and
    /// must agree.
    fn enter_district_of_orders(&mut self) {
        let count = self.job.scale.customers;
        let place = [0x11E5, self.job.warehouse as u64, self.district as u64];
        let mut random = Random::derived(self.job.seed, &place);
        self.line_counts = (0..count).map(|_| random.uniform(5, 15)).collect();
        self.customers = (1..=count).collect();
        self.random.shuffle(&mut self.customers);
    }

    fn is_delivered(&self) -> bool {
        self.number <= self.job.scale.delivered_orders()
    }

    fn order(&mut self, out: &mut Vec<u8>) {
        if self.number == 1 {
            self.enter_district_of_orders();
        }
        let index = (self.number - 1) as usize;
        put(
            out,
            format_args!("{}\t{}\t{}\t", self.job.warehouse, self.district, self.number),
        );
        put(out, format_args!("{}\t{LOAD_TIME}\t", self.customers[index]));
        if self.is_delivered() {
            put(out, format_args!("{}", self.random.uniform(1, 10)));
        } else {
            out.extend_from_slice(b"\\N");
        }
        put(out, format_args!("\t{}\t1\n", self.line_counts[index]));
    }

    fn new_order(&mut self, out: &mut Vec<u8>) {
        let number = self.job.scale.delivered_orders() + self.number;
        put(
            out,
            format_args!("{}\t{}\t{number}\n", self.job.warehouse, self.district),
        );
    }

    fn order_lines(&mut self, out: &mut Vec<u8>) -> u64 {
        if self.number == 1 {
            self.enter_district_of_orders();
        }
        let lines = self.line_counts[(self.number - 1) as usize];
        let warehouse = self.job.warehouse;
        for line in 1..=lines {
            let item = self.random.uniform(1, self.job.scale.items);
            put(
                out,
                format_args!(
                    "{warehouse}\t{}\t{}\t{line}\t{item}\t{warehouse}\t",
                    self.district, self.number
                ),
            );
            if self.is_delivered() {
                put(out, format_args!("{LOAD_TIME}\t5\t0.00\t"));
            } else {
                put(
                    out,
                    format_args!("\\N\t5\t{}\t", Decimal::from_cents(self.random.uniform(1, 999_999))),
                );
            }
            generate::letters(&mut self.random, 24, 24, out);
            out.push(b'\n');
        }
        lines as u64
    }
}

fn put(out: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    // Writing into a vector cannot fail.
    let _ = out.write_fmt(arguments);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(table: Table, seed: u64) -> Vec<String> {
        let job = LoadJob {
            table,
            warehouse: 2,
            scale: Scale::quick(2),
            seed,
        };
        let (mut writer, mut all, mut rows) = (RowWriter::new(job), Vec::new(), 0);
        loop {
            let mut chunk = Vec::new();
            match writer.fill(&mut chunk) {
                0 => break,
                count => rows += count,
            }
            all.append(&mut chunk);
        }
        let text = String::from_utf8(all).expect("ASCII");
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.len() as u64, rows);
        lines
    }

    #[test]
    fn every_table_has_its_rows_and_columns() {
        let expect = [
            (Table::Item, 1000, 5),
            (Table::Warehouse, 1, 9),
            (Table::Stock, 1000, 17),
            (Table::District, 10, 11),
            (Table::Customer, 600, 21),
            (Table::History, 600, 8),
            (Table::Orders, 600, 8),
            (Table::NewOrder, 180, 3),
        ];
        for (table, rows, columns) in expect {
            let lines = lines(table, 1);
            assert_eq!(lines.len(), rows, "{table:?}");
            assert!(
                lines.iter().all(|line| line.split('\t').count() == columns),
                "{table:?}"
            );
        }
    }

    #[test]
    fn the_data_depend_on_the_seed_alone() {
        assert_eq!(lines(Table::Customer, 3), lines(Table::Customer, 3));
        assert_ne!(lines(Table::Customer, 3), lines(Table::Customer, 4));
    }

    #[test]
    fn orders_and_order_lines_agree_on_the_number_of_lines() {
        let field = |line: &str, index: usize| line.split('\t').nth(index).expect("a field").to_owned();
        let mut counts = std::collections::BTreeMap::new();
        for line in lines(Table::OrderLine, 1) {
            *counts.entry((field(&line, 1), field(&line, 2))).or_insert(0) += 1;
        }
        let orders = lines(Table::Orders, 1);
        assert_eq!(counts.len(), orders.len());
        for line in orders {
            assert_eq!(field(&line, 6), counts[&(field(&line, 1), field(&line, 2))].to_string());
        }
    }

    #[test]
    fn each_customer_of_a_district_has_one_order() {
        let mut customers: Vec<i64> = lines(Table::Orders, 1)[..60]
            .iter()
            .map(|line| {
                line.split('\t')
                    .nth(3)
                    .and_then(|field| field.parse().ok())
                    .expect("a number")
            })
            .collect();
        customers.sort_unstable();
        assert_eq!(customers, (1..=60).collect::<Vec<i64>>());
    }
}
