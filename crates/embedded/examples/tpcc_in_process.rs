//! TPC-C without a socket: terminals on threads of this process, transactions as plain SQL, the log forced in groups.
//!
//! ```text
//! cargo run --release -p rubato-embedded --example tpcc_in_process -- [FOLDER] [SECONDS] [TERMINALS] [WAREHOUSES]
//! ```
//!
//! Pin it to one core (`taskset -c 0`) for the figure of one core.

use rubato_bench::tpcc;
use rubato_bench::{BenchError, RunSettings};
use rubato_embedded::{Database, Output, Session, Statement};
use rubato_workload::tpcc::{Scale, Settings};
use rubato_workload::{Batch, Client, ClientError, Param, Rows, values};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A session as the workload's client.
struct InProcess {
    session: Session,
    statements: Vec<Statement>,
}

fn client_error(error: rubato_base::Error) -> ClientError {
    ClientError::server(error.code().as_str(), error.message())
}

fn rows(output: &Output) -> Rows {
    values::rows(&output.rows, output.affected())
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
            .run(statement, &values::values(params, statement.parameter_types()))
            .map_err(client_error)?;
        Ok(rows(&output))
    }

    fn execute_batch(&mut self, batch: &Batch<'_, usize>) -> Result<Vec<Rows>, ClientError> {
        let statements = &self.statements;
        let call = |(statement, params): (usize, &[Param<'_>])| {
            let statement = &statements[statement];
            (statement, values::values(params, statement.parameter_types()))
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
