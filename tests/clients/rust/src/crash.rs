//! The load under which a server is killed, and the check of what it still knows afterwards.
//!
//! Every client numbers its transactions. Transaction `s` of a client inserts the rows `(s, 0)` and `(s, 1)`; three of
//! four also add one to the client's counter and to a counter shared by all. What was acknowledged is written down here.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_postgres::Client;

use crate::Options;
use crate::report::{Failure, check, require};
use crate::session::{Tally, connect, connect_many, is_retryable};

const TABLES: &str = "
    create table if not exists kept (round int, client int, sequence int8, half int, primary key (round, client, sequence, half));
    create table if not exists counter (round int, client int, n int8 not null, primary key (round, client));";

/// The counter that all clients of a round share.
const SHARED: i32 = -1;

/// Transactions of this kind are one INSERT in autocommit and touch no counter.
fn is_single_statement(sequence: i64) -> bool {
    sequence % 4 == 0
}

/// Runs until the connection of every client is lost, then writes `client acknowledged` lines to the record.
pub async fn load(options: &Options) -> Result<bool, Failure> {
    let (url, round) = (options.text("url")?, options.number("round")? as i32);
    let clients = connect_many(url, options.number("clients")? as usize).await?;
    clients[0].batch_execute(TABLES).await?;
    for number in -1..clients.len() as i32 {
        clients[0]
            .execute("insert into counter values ($1, $2, 0)", &[&round, &number])
            .await?;
    }
    println!("loading");
    let tally = Arc::new(Tally::default());
    let tasks: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(i, client)| tokio::spawn(one_client(client, round, i as i32, tally.clone())))
        .collect();
    let mut record = String::new();
    for (number, task) in tasks.into_iter().enumerate() {
        record += &format!("{number} {}\n", task.await??);
    }
    std::fs::write(options.text("record")?, record)?;
    Ok(true)
}

/// Transactions one after the other; the number of the last one that was acknowledged.
async fn one_client(client: Client, round: i32, number: i32, tally: Arc<Tally>) -> Result<i64, Failure> {
    let mut acknowledged = 0;
    loop {
        let sequence = acknowledged + 1;
        match transaction(&client, round, number, sequence).await {
            Ok(()) => acknowledged = sequence,
            Err(error) if is_retryable(&error) => {
                tally.aborted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if client.batch_execute("rollback").await.is_err() {
                    return Ok(acknowledged);
                }
            }
            // An error with a SQLSTATE while the server lives is a fault of its own; a lost connection is the end.
            Err(error) if error.as_db_error().is_some_and(|e| !e.code().code().starts_with("57P")) => {
                return Err(error.into());
            }
            Err(_) => return Ok(acknowledged),
        }
    }
}

async fn transaction(client: &Client, round: i32, number: i32, sequence: i64) -> Result<(), tokio_postgres::Error> {
    let rows =
        format!("insert into kept values ({round}, {number}, {sequence}, 0), ({round}, {number}, {sequence}, 1)");
    if is_single_statement(sequence) {
        return client.batch_execute(&rows).await;
    }
    client.batch_execute("begin").await?;
    client
        .batch_execute(&format!("insert into kept values ({round}, {number}, {sequence}, 0)"))
        .await?;
    for counter in [number, SHARED] {
        client
            .batch_execute(&format!(
                "update counter set n = n + 1 where round = {round} and client = {counter}"
            ))
            .await?;
    }
    client
        .batch_execute(&format!("insert into kept values ({round}, {number}, {sequence}, 1)"))
        .await?;
    client.batch_execute("commit").await
}

/// Compares the database with the record of the round, and the shared counters of earlier rounds with the ledger.
pub async fn verify(options: &Options) -> Result<bool, Failure> {
    let (url, round) = (options.text("url")?, options.number("round")? as i32);
    let record = std::fs::read_to_string(options.text("record")?)?;
    let ledger_path = options.text("ledger")?;
    let ledger = std::fs::read_to_string(ledger_path).unwrap_or_default();
    let name = format!("round {round}");
    let held = check(&name, async {
        let client = connect(url).await?;
        let acknowledged = pairs(&record)?;
        let sum: i64 = acknowledged.values().sum();
        require(sum > 0, || {
            "nothing was acknowledged before the kill: the round shows nothing".into()
        })?;
        let shared = verify_round(&client, round, &acknowledged).await?;
        for (earlier, expected) in pairs(&ledger)? {
            let found = counter(&client, earlier, SHARED).await?;
            require(found == expected, || {
                format!("round {earlier}: the shared counter was {expected} and is {found}")
            })?;
        }
        std::fs::write(ledger_path, format!("{ledger}{round} {shared}\n"))?;
        println!("{sum} acknowledged commits are there");
        Ok(())
    });
    Ok(held.await)
}

fn pairs(text: &str) -> Result<BTreeMap<i32, i64>, Failure> {
    let pair = |line: &str| -> Option<(i32, i64)> {
        let (left, right) = line.split_once(' ')?;
        Some((left.parse().ok()?, right.parse().ok()?))
    };
    text.lines()
        .map(|line| pair(line).ok_or_else(|| Failure::new(format!("unreadable record: {line}"))))
        .collect()
}

async fn verify_round(client: &Client, round: i32, acknowledged: &BTreeMap<i32, i64>) -> Result<i64, Failure> {
    let mut counted_by_all = 0;
    for (&number, &last) in acknowledged {
        let sql =
            "select sequence, count(*) from kept where round = $1 and client = $2 group by sequence order by sequence";
        let rows = client.query(sql, &[&round, &number]).await?;
        let mut counted = 0;
        for (index, row) in rows.iter().enumerate() {
            let (sequence, halves): (i64, i64) = (row.get(0), row.get(1));
            require(sequence == index as i64 + 1, || {
                format!("client {number}: transaction {} is missing", index + 1)
            })?;
            require(halves == 2, || {
                format!("client {number}: transaction {sequence} is there by half")
            })?;
            counted += i64::from(!is_single_statement(sequence));
        }
        let found = rows.len() as i64;
        require(found >= last, || {
            format!("client {number}: {last} were acknowledged, {found} are there")
        })?;
        require(found <= last + 1, || {
            format!("client {number}: {last} were acknowledged and one in flight, {found} are there")
        })?;
        let n = counter(client, round, number).await?;
        require(n == counted, || {
            format!("client {number}: its counter is {n}, its transactions say {counted}")
        })?;
        counted_by_all += counted;
    }
    let shared = counter(client, round, SHARED).await?;
    require(shared == counted_by_all, || {
        format!("the shared counter is {shared}, the transactions say {counted_by_all}")
    })?;
    Ok(shared)
}

async fn counter(client: &Client, round: i32, number: i32) -> Result<i64, Failure> {
    Ok(client
        .query_one(
            "select n from counter where round = $1 and client = $2",
            &[&round, &number],
        )
        .await?
        .get(0))
}
