//! Overload: many times the clients that a server admits, each without pause.
//!
//! A server of this very program is started that admits so many sessions. First fewer clients than that measure its peak; then the
//! factor's multiple of them ask for sessions all the time. Who is refused (53300) tries again; who is admitted runs some
//! transactions and leaves, so that all have their turn. What counts is that the transactions of those inside go on as before.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rubato_workload::{Client, ClientError, Param, Random};

use super::processes::{Grid, NodeSettings, Stopper};
use crate::arguments::OverloadArguments;
use crate::error::BenchError;
use crate::wire::Connection;

/// Rows that clients change at random.
const ROWS: i64 = 10_000;
/// Rows of one statement of the load: a server with little memory takes them.
const PORTION_ROWS: usize = 500;
/// Transactions of a client before it leaves its session to others.
const TURN_TRANSACTIONS: u32 = 200;
/// How often the server's memory is looked at.
const MEMORY_LOOK: Duration = Duration::from_millis(100);
/// How long sessions that are left may take to be gone.
const ADMISSION_TIME_MAX: Duration = Duration::from_secs(10);
/// What the throughput may fall to below the peak.
const THROUGHPUT_SHARE_MIN: f64 = 0.8;
/// By how much the 99th percentile may grow over that of as many clients as sessions.
const P99_FACTOR_MAX: f64 = 2.0;
/// By how much the memory may grow over that of as many clients as sessions.
const MEMORY_GROWTH_BYTES_MAX: u64 = 16 << 20;
/// What the server says to whom it does not admit.
const TOO_MANY: &str = "53300";

/// What one number of clients came to.
#[derive(Clone, Debug)]
struct Step {
    clients: u64,
    seconds: f64,
    committed: u64,
    refused: u64,
    /// Connections that ended without a word while they were made: more than the server has to tell.
    reset: u64,
    latency_us: Histogram<u64>,
    /// From when a client wanted a session until it had one.
    admission_us: Histogram<u64>,
    memory_bytes_max: u64,
    errors: Vec<String>,
}

impl Step {
    fn new(clients: u64) -> Step {
        // Three digits; within what the crate allows.
        let empty = || Histogram::new(3).expect("three significant digits are allowed");
        Step {
            clients,
            seconds: 0.0,
            committed: 0,
            refused: 0,
            reset: 0,
            latency_us: empty(),
            admission_us: empty(),
            memory_bytes_max: 0,
            errors: Vec::new(),
        }
    }

    fn merge(&mut self, other: Step) {
        self.committed += other.committed;
        self.refused += other.refused;
        self.reset += other.reset;
        self.errors.extend(other.errors);
        // Both grow as far as they need.
        let _ = self.latency_us.add(other.latency_us);
        let _ = self.admission_us.add(other.admission_us);
    }

    fn per_second(&self) -> f64 {
        self.committed as f64 / self.seconds
    }

    fn p99_us(&self) -> u64 {
        self.latency_us.value_at_quantile(0.99)
    }

    fn line(&self) -> String {
        format!(
            "| {} | {:.0} | {} | {} | {} | {:.0} | {:.0} | {} | {:.1} |",
            self.clients,
            self.per_second(),
            self.latency_us.value_at_quantile(0.5),
            self.p99_us(),
            self.latency_us.max(),
            self.refused as f64 / self.seconds,
            self.reset as f64 / self.seconds,
            self.admission_us.value_at_quantile(0.99) / 1000,
            self.memory_bytes_max as f64 / f64::from(1 << 20)
        )
    }
}

/// Measures, and writes a table and what held.
///
/// # Errors
/// [`BenchError::ChecksFailed`] if something was lost or failed, or, if that is asked for, if a bound did not hold.
pub fn run(arguments: &OverloadArguments, stopper: &Stopper, out: &mut dyn Write) -> Result<(), BenchError> {
    if arguments.sessions < 4 || arguments.factor < 2 || arguments.seconds <= 0.0 {
        let message = "there are at least 4 sessions, twice as many clients, and some time";
        return Err(BenchError::Arguments(message.to_owned()));
    }
    let settings = NodeSettings {
        are_apart: false,
        memory: arguments.memory.clone(),
        more: vec!["--max-connections".to_owned(), arguments.sessions.to_string()],
    };
    let grid = Grid::start(1, &settings, stopper)?;
    load(&grid)?;
    let sessions = arguments.sessions;
    let mut steps = Vec::new();
    for clients in [sessions / 4, sessions / 2, sessions, sessions * arguments.factor] {
        steps.push(measure(&grid, clients, arguments)?);
    }
    let committed: u64 = steps.iter().map(|step| step.committed).sum();
    let mut failures = report(&steps, sessions, out)?;
    if !arguments.check {
        failures = 0;
    }
    let errors: Vec<&String> = steps.iter().flat_map(|step| &step.errors).collect();
    if let Some(error) = errors.first() {
        writeln!(out, "{} errors other than refusals, the first: {error}", errors.len())?;
        failures += 1;
    }
    let sum = sum(&grid)?;
    if sum != committed as i64 {
        writeln!(out, "the rows say {sum} where clients were told of {committed} commits")?;
        failures += 1;
    }
    match failures {
        0 => Ok(()),
        count => Err(BenchError::ChecksFailed(count)),
    }
}

fn report(steps: &[Step], sessions: u64, out: &mut dyn Write) -> Result<usize, BenchError> {
    writeln!(
        out,
        "One server that admits {sessions} sessions; transactions of one row; a session is left after {TURN_TRANSACTIONS} of them.\n\n\
         | clients | transactions/s | p50 us | p99 us | max us | refused/s | reset/s | p99 of admission ms | memory MiB |\n\
         |---|---|---|---|---|---|---|---|---|"
    )?;
    for step in steps {
        writeln!(out, "{}", step.line())?;
    }
    writeln!(out)?;
    let ([.., full, over], Some(peak)) = (
        steps,
        steps[..steps.len() - 1]
            .iter()
            .map(Step::per_second)
            .max_by(f64::total_cmp),
    ) else {
        return Ok(0);
    };
    let share = over.per_second() / peak;
    let factor = over.p99_us() as f64 / full.p99_us().max(1) as f64;
    let growth = over.memory_bytes_max.saturating_sub(full.memory_bytes_max);
    let bounds = [
        (
            share >= THROUGHPUT_SHARE_MIN,
            format!("throughput under overload is {:.0} % of the peak", 100.0 * share),
        ),
        (
            factor <= P99_FACTOR_MAX,
            format!("p99 is {factor:.2} times that of as many clients as sessions"),
        ),
        (
            growth <= MEMORY_GROWTH_BYTES_MAX,
            format!("memory grew by {:.1} MiB", growth as f64 / f64::from(1 << 20)),
        ),
    ];
    for (holds, what) in &bounds {
        writeln!(out, "{}: {what}", if *holds { "held" } else { "not held" })?;
    }
    Ok(bounds.iter().filter(|(holds, _)| !holds).count())
}

fn load(grid: &Grid<'_>) -> Result<(), BenchError> {
    let mut connection = grid.connect(0)?;
    let mut made = vec!["CREATE TABLE overload (id int PRIMARY KEY, v bigint NOT NULL)".to_owned()];
    made.extend((0..ROWS).step_by(PORTION_ROWS).map(|from| {
        let to = (from + PORTION_ROWS as i64).min(ROWS);
        format!(
            "INSERT INTO overload SELECT n, 0 FROM generate_series({}, {to}) n",
            from + 1
        )
    }));
    let mut made = made.iter().map(|sql| connection.simple(sql));
    let made = made.find(Result::is_err).unwrap_or(Ok(()));
    made.map_err(|error| BenchError::client("making the rows", error))
}

/// A session at the server, when those that are being left make room for it.
fn admitted(grid: &Grid<'_>) -> Result<Connection, BenchError> {
    let until = Instant::now() + ADMISSION_TIME_MAX;
    loop {
        match grid.connect(0) {
            Err(BenchError::Client { error, .. }) if error.sqlstate() == TOO_MANY && Instant::now() < until => {
                thread::sleep(MEMORY_LOOK);
            }
            other => return other,
        }
    }
}

fn sum(grid: &Grid<'_>) -> Result<i64, BenchError> {
    let mut connection = admitted(grid)?;
    let asked = connection.prepare("SELECT sum(v)::bigint FROM overload");
    let sum = asked.and_then(|asked| connection.execute(asked, &[])?.int(0, 0));
    sum.map_err(|error| BenchError::client("adding up the rows", error))
}

fn measure(grid: &Grid<'_>, clients: u64, arguments: &OverloadArguments) -> Result<Step, BenchError> {
    let began = Instant::now();
    let until = began + Duration::from_secs_f64(arguments.seconds);
    let mut total = Step::new(clients);
    let pause = Duration::from_millis(arguments.refused_pause_ms);
    let memory = thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || client(grid, (clients, number), pause, until)))
            .collect();
        let mut memory_bytes_max = 0;
        while Instant::now() < until {
            memory_bytes_max = memory_bytes_max.max(grid.memory_bytes(0)?);
            thread::sleep(MEMORY_LOOK);
        }
        for thread in threads {
            // A panic of a client is a bug of this program: it goes on as one.
            let step = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            total.merge(step);
        }
        Ok::<_, BenchError>(memory_bytes_max)
    });
    total.memory_bytes_max = memory?;
    total.seconds = began.elapsed().as_secs_f64();
    Ok(total)
}

/// One client until the time is over.
fn client(grid: &Grid<'_>, (clients, number): (u64, u64), pause: Duration, until: Instant) -> Step {
    let mut step = Step::new(clients);
    let mut random = Random::derived(number, &[clients]);
    let mut wanted_since = Instant::now();
    while Instant::now() < until {
        match grid.connect(0) {
            Ok(mut connection) => {
                record(&mut step.admission_us, wanted_since.elapsed());
                if let Err(error) = turn(&mut connection, &mut random, until, &mut step) {
                    step.errors.push(error.to_string());
                }
                wanted_since = Instant::now();
            }
            Err(BenchError::Client { error, .. }) if error.sqlstate() == TOO_MANY => {
                step.refused += 1;
                thread::sleep(pause);
            }
            Err(BenchError::Client { error, .. }) if error.is_connection_lost() => {
                step.reset += 1;
                thread::sleep(pause);
            }
            Err(error) => {
                step.errors.push(error.to_string());
                thread::sleep(pause);
            }
        }
    }
    step
}

fn turn(connection: &mut Connection, random: &mut Random, until: Instant, step: &mut Step) -> Result<(), ClientError> {
    let update = connection.prepare("UPDATE overload SET v = v + 1 WHERE id = $1")?;
    for _ in 0..TURN_TRANSACTIONS {
        let began = Instant::now();
        if began >= until {
            break;
        }
        connection.execute(update, &[Param::Int(random.uniform(1, ROWS))])?;
        record(&mut step.latency_us, began.elapsed());
        step.committed += 1;
    }
    Ok(())
}

fn record(histogram: &mut Histogram<u64>, time: Duration) {
    // It grows as far as it has to.
    let _ = histogram.record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
}
