//! TPC-H: questions over many rows. The tables are loaded anew by COPY, the 22 queries run with the parameters of the validation, and where
//! there are several servers their answers are compared, line by line.

use std::fmt::Display;
use std::io::Write;
use std::time::Instant;

use rubato_workload::{Client, ClientError};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

use crate::arguments::TpchArguments;
use crate::error::BenchError;
use crate::url::Target;
use crate::wire::Connection;

/// Each query under a line that names its columns.
const QUERIES: &str = include_str!("tpch.sql");

/// Tables in an order in which none is before those that it refers to.
const TABLES: &[(&str, &str)] = &[
    ("region", "r_regionkey int primary key, r_name char(25) not null, r_comment varchar(152)"),
    (
        "nation",
        "n_nationkey int primary key, n_name char(25) not null, n_regionkey int not null, n_comment varchar(152)",
    ),
    (
        "supplier",
        "s_suppkey int primary key, s_name char(25) not null, s_address varchar(40) not null, s_nationkey int not null,
         s_phone char(15) not null, s_acctbal numeric(15,2) not null, s_comment varchar(101) not null",
    ),
    (
        "customer",
        "c_custkey int primary key, c_name varchar(25) not null, c_address varchar(40) not null, c_nationkey int not null,
         c_phone char(15) not null, c_acctbal numeric(15,2) not null, c_mktsegment char(10) not null, c_comment varchar(117) not null",
    ),
    (
        "part",
        "p_partkey int primary key, p_name varchar(55) not null, p_mfgr char(25) not null, p_brand char(10) not null,
         p_type varchar(25) not null, p_size int not null, p_container char(10) not null, p_retailprice numeric(15,2) not null,
         p_comment varchar(23) not null",
    ),
    (
        "partsupp",
        "ps_partkey int, ps_suppkey int, ps_availqty int not null, ps_supplycost numeric(15,2) not null, ps_comment varchar(199) not null,
         primary key (ps_partkey, ps_suppkey)",
    ),
    (
        "orders",
        "o_orderkey int primary key, o_custkey int not null, o_orderstatus char(1) not null, o_totalprice numeric(15,2) not null,
         o_orderdate date not null, o_orderpriority char(15) not null, o_clerk char(15) not null, o_shippriority int not null,
         o_comment varchar(79) not null",
    ),
    (
        "lineitem",
        "l_orderkey int, l_partkey int not null, l_suppkey int not null, l_linenumber int, l_quantity numeric(15,2) not null,
         l_extendedprice numeric(15,2) not null, l_discount numeric(15,2) not null, l_tax numeric(15,2) not null,
         l_returnflag char(1) not null, l_linestatus char(1) not null, l_shipdate date not null, l_commitdate date not null,
         l_receiptdate date not null, l_shipinstruct char(25) not null, l_shipmode char(10) not null, l_comment varchar(44) not null,
         primary key (l_orderkey, l_linenumber)",
    ),
];

/// SQLSTATE of a statement that took too long.
const QUERY_CANCELED: &str = "57014";

/// SQLSTATE of a setting that there is not.
const UNDEFINED_OBJECT: &str = "42704";

/// Bytes of a message of COPY.
const CHUNK_BYTES: usize = 64 << 10;

/// Loads, runs and compares.
///
/// # Errors
/// A server refuses something, or answers differ.
pub(crate) fn run(arguments: &TpchArguments, out: &mut dyn Write) -> Result<(), BenchError> {
    let targets = arguments.urls.iter().map(|url| Target::parse(url));
    let targets = targets.collect::<Result<Vec<_>, _>>()?;
    let mut sessions = Vec::with_capacity(targets.len());
    for target in &targets {
        let mut session = Connection::open(target)?;
        if !arguments.no_load {
            let started = Instant::now();
            load(&mut session, arguments.scale).map_err(|error| BenchError::client("loading TPC-H", error))?;
            writeln!(
                out,
                "{}: loaded in {:.1} s",
                target.name,
                started.elapsed().as_secs_f64()
            )?;
        }
        prepare(&mut session, arguments).map_err(|error| BenchError::client("setting up a session", error))?;
        sessions.push(session);
    }
    let mut different = 0;
    let mut medians: Vec<Vec<f64>> = vec![Vec::new(); targets.len()];
    for (place, query) in queries().enumerate() {
        write!(out, "Q{:<3}", place + 1)?;
        let mut known: Option<Measured> = None;
        for (session, medians) in sessions.iter_mut().zip(&mut medians) {
            let measured = measure(session, query, arguments);
            let measured = measured.map_err(|error| BenchError::client(format!("query {}", place + 1), error))?;
            medians.push(measured.median_ms);
            let sign = if measured.answer.is_none() { '>' } else { ' ' };
            write!(out, " {sign}{:>8.1} ms", measured.median_ms)?;
            match &known {
                None => known = Some(measured),
                Some(first) => {
                    let words = measured.beside(first);
                    different += usize::from(words.is_none());
                    write!(out, "  {}", words.unwrap_or_else(|| "answers differ".to_owned()))?;
                }
            }
        }
        writeln!(out)?;
    }
    for (target, medians) in targets.iter().zip(&medians) {
        writeln!(out, "{}: {:.1} ms in all", target.name, medians.iter().sum::<f64>())?;
    }
    if let [own, others @ ..] = medians.as_slice() {
        for (other, target) in others.iter().zip(targets.iter().skip(1)) {
            let ratios = other.iter().zip(own).map(|(other, own)| other / own);
            writeln!(
                out,
                "{} takes {:.2} times as long (median of the queries)",
                target.name,
                median(ratios.collect())
            )?;
        }
    }
    match different {
        0 => Ok(()),
        count => Err(BenchError::ChecksFailed(count)),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Columns and text of each query.
fn queries() -> impl Iterator<Item = (&'static str, &'static str)> {
    QUERIES.split("-- ").filter_map(|part| part.split_once('\n'))
}

/// The settings of a session. A server that has no such setting goes on without it.
fn prepare(session: &mut Connection, arguments: &TpchArguments) -> Result<(), ClientError> {
    session.simple(&format!("SET statement_timeout = '{}s'", arguments.seconds_max))?;
    for setting in &arguments.settings {
        match session.simple(&format!("SET {setting}")) {
            Err(error) if error.sqlstate() != UNDEFINED_OBJECT => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// What one server made of a query.
struct Measured {
    /// The rows as text, in the query's own order; `None` if it took too long.
    answer: Option<Vec<String>>,
    /// The median of its runs, or the longest time allowed.
    median_ms: f64,
}

impl Measured {
    /// In words how it compares with another server's; `None` if the answers differ.
    fn beside(&self, first: &Measured) -> Option<String> {
        let ratio = self.median_ms / first.median_ms;
        match (&self.answer, &first.answer) {
            (Some(own), Some(others)) => {
                (own == others).then(|| format!("{ratio:>6.2} times, {} rows agree", own.len()))
            }
            _ => Some(format!("{ratio:>6.2} times, nothing to compare")),
        }
    }
}

/// Asks for the answer, then for the median of the runs in milliseconds, behind one that does not count.
fn measure(
    session: &mut Connection,
    (columns, query): (&str, &str),
    arguments: &TpchArguments,
) -> Result<Measured, ClientError> {
    let times = |session: &mut Connection| -> Result<Measured, ClientError> {
        let answer = answer(session, columns, query)?;
        session.simple(query)?;
        let mut times = Vec::new();
        for _ in 0..arguments.runs.max(1) {
            let started = Instant::now();
            session.simple(query)?;
            times.push(started.elapsed().as_secs_f64() * 1000.0);
        }
        Ok(Measured {
            answer: Some(answer),
            median_ms: median(times),
        })
    };
    match times(session) {
        Err(error) if error.sqlstate() == QUERY_CANCELED => Ok(Measured {
            answer: None,
            median_ms: f64::from(arguments.seconds_max) * 1000.0,
        }),
        measured => measured,
    }
}

fn answer(session: &mut Connection, columns: &str, query: &str) -> Result<Vec<String>, ClientError> {
    let lines = format!("select concat_ws('|', {columns}) from ({query}) as answered");
    let statement = session.prepare(&lines)?;
    let rows = session.execute(statement, &[])?;
    (0..rows.len())
        .map(|row| rows.text(row, 0).map(str::to_owned))
        .collect()
}

fn load(session: &mut Connection, scale: f64) -> Result<(), ClientError> {
    for (table, _) in TABLES.iter().rev() {
        session.simple(&format!("DROP TABLE IF EXISTS {table}"))?;
    }
    for (table, columns) in TABLES {
        session.simple(&format!("CREATE TABLE {table} ({columns})"))?;
    }
    copy(session, "region", RegionGenerator::new(scale, 1, 1))?;
    copy(session, "nation", NationGenerator::new(scale, 1, 1))?;
    copy(session, "supplier", SupplierGenerator::new(scale, 1, 1))?;
    copy(session, "customer", CustomerGenerator::new(scale, 1, 1))?;
    copy(session, "part", PartGenerator::new(scale, 1, 1))?;
    copy(session, "partsupp", PartSuppGenerator::new(scale, 1, 1))?;
    copy(session, "orders", OrderGenerator::new(scale, 1, 1))?;
    copy(session, "lineitem", LineItemGenerator::new(scale, 1, 1))?;
    session.simple("ANALYZE")
}

/// The generator's lines end with a delimiter, which COPY would take for one more column.
fn copy(
    session: &mut Connection,
    table: &str,
    rows: impl IntoIterator<Item = impl Display>,
) -> Result<(), ClientError> {
    let mut rows = rows.into_iter();
    let mut chunk = |bytes: &mut Vec<u8>| {
        while bytes.len() < CHUNK_BYTES {
            let Some(row) = rows.next() else {
                return !bytes.is_empty();
            };
            let line = row.to_string();
            bytes.extend_from_slice(line.trim_end_matches('|').as_bytes());
            bytes.push(b'\n');
        }
        true
    };
    let sql = format!("COPY {table} FROM STDIN (DELIMITER '|')");
    session.copy_in(&sql, &mut chunk).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_the_22_queries_each_with_its_columns() {
        let all: Vec<(&str, &str)> = queries().collect();
        assert_eq!(all.len(), 22);
        for (columns, query) in all {
            assert!(!columns.is_empty() && query.contains("select"), "{columns}: {query}");
        }
    }
}
