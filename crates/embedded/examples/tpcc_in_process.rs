//! TPC-C without a socket: terminals on threads of this process, transactions as plain SQL, the log forced in groups.
//!
//! ```text
//! cargo run --release -p rubato-embedded --example tpcc_in_process -- [FOLDER] [SECONDS] [TERMINALS] [WAREHOUSES] [MEMORY_MIB] [THREADS]
//! ```
//!
//! With as many threads as terminals (the default) each transaction's thread waits until its commit is on the disk. With fewer, a
//! thread serves several terminals: while the commits of some are on their way to the disk it runs the transactions of others,
//! and no terminal is given its next transaction before its last one is durable.
//!
//! Pin it to one core (`taskset -c 0`) for the figure of one core.

use rubato_base::Lsn;
use rubato_bench::tpcc;
use rubato_bench::{BenchError, RunSettings};
use rubato_embedded::{Database, Options, Output, Session, Statement};
use rubato_workload::tpcc::{Scale, Settings};
use rubato_workload::{Batch, Client, ClientError, Param, Rows, values};
use std::collections::VecDeque;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A session as the workload's client: of one terminal, or of several that take turns.
struct InProcess {
    database: Database,
    session: Session,
    statements: Vec<Statement>,
    /// Terminals of this thread beside the one whose turn it is: so many may wait for the disk.
    waiting_max: usize,
    /// How far the log has to be on the disk for each of those that wait.
    waiting: VecDeque<Lsn>,
}

impl InProcess {
    /// After a call: if it has ended a transaction, its terminal waits for the disk, and it is another one's turn.
    fn next_turn(&mut self) {
        if self.waiting_max == 0 || self.session.in_transaction() {
            return;
        }
        self.waiting.push_back(self.session.durable_at());
        while self
            .waiting
            .front()
            .is_some_and(|first| self.database.is_durable(*first))
        {
            self.waiting.pop_front();
        }
        while self.waiting.len() > self.waiting_max {
            self.database
                .wait_until_durable(self.waiting.pop_front().unwrap_or_default());
        }
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.database.wait_until_durable(self.session.durable_at());
    }
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
        self.next_turn();
        Ok(rows(&output))
    }

    fn execute_batch(&mut self, batch: &Batch<'_, usize>) -> Result<Vec<Rows>, ClientError> {
        let statements = &self.statements;
        let call = |(statement, params): (usize, &[Param<'_>])| {
            let statement = &statements[statement];
            (statement, values::values(params, statement.parameter_types()))
        };
        let outputs = self.session.run_all(batch.calls().map(call)).map_err(client_error)?;
        self.next_turn();
        Ok(outputs.iter().map(rows).collect())
    }

    fn simple(&mut self, sql: &str) -> Result<(), ClientError> {
        self.session.execute(sql).map_err(client_error)?;
        self.next_turn();
        Ok(())
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
    let mut options = Options::default();
    options.node.memory_bytes = number(options.node.memory_bytes as u64 >> 20)? as usize * (1 << 20);
    let threads = number(terminals)?.clamp(1, terminals);
    let waiting_max = (terminals / threads - 1) as usize;
    let database = Database::open(&folder, options)?;
    let connect = || {
        let session = database.session().map_err(client_error);
        let mut session = session.map_err(|error| BenchError::client("opening a session", error))?;
        session.set_waits_for_disk(waiting_max == 0);
        Ok(InProcess {
            database: database.clone(),
            session,
            statements: Vec::new(),
            waiting_max,
            waiting: VecDeque::new(),
        })
    };
    let scale = Scale::specification(warehouses as i64);
    tpcc::load(connect, scale, 1, 1, false)?;
    let run = RunSettings {
        terminals: threads,
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
