//! TPC-C without a socket: terminals on threads of this process, transactions as plain SQL, the log forced in groups.
//!
//! ```text
//! cargo run --release -p rubato-embedded --example tpcc_in_process -- [FOLDER] [SECONDS] [TERMINALS] [WAREHOUSES]
//! ```
//!
//! Pin it to one core (`taskset -c 0`) for the figure of one core.

use rubato_base::{DataType, Numeric, Value};
use rubato_bench::tpcc;
use rubato_bench::{BenchError, RunSettings};
use rubato_embedded::{Database, Output, Session, Statement};
use rubato_workload::tpcc::{Scale, Settings};
use rubato_workload::{Batch, Client, ClientError, Decimal, Param, Rows};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Between 1970 and 2000, in microseconds.
const EPOCH_2000_US: i64 = 946_684_800_000_000;

/// A session as the workload's client.
struct InProcess {
    session: Session,
    statements: Vec<Statement>,
}

fn client_error(error: rubato_base::Error) -> ClientError {
    ClientError::server(error.code().as_str(), error.message())
}

fn value(param: &Param<'_>, data_type: DataType) -> Value {
    match (param, data_type) {
        (Param::Null, _) => Value::Null,
        (Param::Int(number), DataType::Int2) => Value::Int2(*number as i16),
        (Param::Int(number), DataType::Int4) => Value::Int4(*number as i32),
        (Param::Int(number), DataType::Numeric) => Value::Numeric(Numeric::from_i64(*number)),
        (Param::Int(number), _) => Value::Int8(*number),
        (Param::Decimal(decimal), _) => {
            let number = Numeric::from_parts(i128::from(decimal.unscaled), u32::from(decimal.scale));
            number.map_or(Value::Null, Value::Numeric)
        }
        (Param::Text(text), _) => Value::text(text),
        (Param::Timestamp(unix_us), _) => Value::Timestamp(unix_us - EPOCH_2000_US),
    }
}

fn rows(output: &Output) -> Rows {
    let mut rows = Rows::new(output.rows.first().map_or(0, Vec::len));
    for cell in output.rows.iter().flatten() {
        match cell {
            Value::Null => rows.push_null(),
            Value::Numeric(number) => match Decimal::parse(&number.to_string()) {
                Some(decimal) => rows.push_decimal(decimal),
                None => rows.push_float(number.to_f64()),
            },
            Value::Float8(number) => rows.push_float(*number),
            Value::Text(text) => rows.push_text(text),
            Value::Timestamp(us) => rows.push_timestamp(us + EPOCH_2000_US),
            other => match other.as_i64() {
                Some(number) => rows.push_int(number),
                None => rows.push_text(&format!("{other:?}")),
            },
        }
    }
    rows.set_affected(output.affected());
    rows
}

impl InProcess {
    fn values(statement: &Statement, params: &[Param<'_>]) -> Vec<Value> {
        let types = statement.parameter_types();
        params
            .iter()
            .zip(types)
            .map(|(param, data_type)| value(param, *data_type))
            .collect()
    }
}

impl Client for InProcess {
    type Statement = usize;

    fn prepare(&mut self, sql: &str) -> Result<usize, ClientError> {
        let statement = self.session.prepare(sql).map_err(client_error)?;
        self.statements.push(statement);
        Ok(self.statements.len() - 1)
    }

    fn execute(&mut self, statement: usize, params: &[Param<'_>]) -> Result<Rows, ClientError> {
        let statement = &self.statements[statement];
        let output = self
            .session
            .run(statement, &InProcess::values(statement, params))
            .map_err(client_error)?;
        Ok(rows(&output))
    }

    fn execute_batch(&mut self, batch: &Batch<'_, usize>) -> Result<Vec<Rows>, ClientError> {
        let statements = &self.statements;
        let call = |(statement, params): (usize, &[Param<'_>])| {
            let statement = &statements[statement];
            (statement, InProcess::values(statement, params))
        };
        let outputs = self.session.run_all(batch.calls().map(call)).map_err(client_error)?;
        Ok(outputs.iter().map(rows).collect())
    }

    fn simple(&mut self, sql: &str) -> Result<(), ClientError> {
        self.session.execute(sql).map(drop).map_err(client_error)
    }

    fn copy_in(&mut self, sql: &str, chunks: &mut dyn FnMut(&mut Vec<u8>) -> bool) -> Result<u64, ClientError> {
        let (mut data, mut chunk) = (Vec::new(), Vec::new());
        while chunks(&mut chunk) {
            data.append(&mut chunk);
        }
        self.session.copy_in(sql, &data).map_err(client_error)
    }

    fn in_transaction(&self) -> bool {
        self.session.in_transaction()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "rubato-tpcc".to_owned());
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (seconds, terminals, warehouses) = (number(10)?, number(16)?, number(1)?);
    let database = Database::open(&folder, Default::default())?;
    let connect = || {
        let session = database.session().map_err(client_error);
        let session = session.map_err(|error| BenchError::client("opening a session", error))?;
        Ok(InProcess {
            session,
            statements: Vec::new(),
        })
    };
    let scale = Scale::specification(warehouses as i64);
    tpcc::load(connect, scale, 1, 1, false)?;
    let run = RunSettings {
        terminals,
        warmup: Duration::from_secs(2),
        duration: Duration::from_secs(seconds),
        ..RunSettings::default()
    };
    let report = tpcc::run(connect, Settings::unpaced(scale, 1), run)?;
    let forces = database.node().figures();
    println!(
        "{:.0} transactions/s committed, {:.0} tpmC",
        report.committed() as f64 / seconds as f64,
        report.headline.value
    );
    println!(
        "{} forced writes for {} commits",
        forces.log_forces, forces.protocol.commits
    );
    let broken = tpcc::check(&mut connect()?, scale, "after the run")?
        .iter()
        .filter(|check| check.violation.is_some())
        .count();
    println!("{broken} of 12 consistency conditions broken");
    database.close()?;
    if broken > 0 {
        Err("the data are not consistent".into())
    } else {
        Ok(())
    }
}
