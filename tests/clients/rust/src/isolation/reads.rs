//! What read-only transactions see: whole states, in an order that agrees with real time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use tokio_postgres::Client;

use super::World;
use crate::report::{Checked, Failure, require};
use crate::session::{Choices, Tally, connect_many, retrying};

const ACCOUNTS: i32 = 10;
const OPENING: i64 = 100;

/// Transfers that refuse to overdraw; readers add up all accounts, row by row and by an aggregate.
pub async fn bank(world: &World) -> Checked {
    let admin = world.session().await?;
    admin
        .batch_execute("drop table if exists bank; create table bank (id int primary key, balance int8 not null)")
        .await?;
    for id in 0..ACCOUNTS {
        admin
            .execute("insert into bank values ($1, $2)", &[&id, &OPENING])
            .await?;
    }
    let (tally, reads, end) = (Arc::new(Tally::default()), Arc::new(Tally::default()), world.end());
    let mut tasks = Vec::new();
    for (number, client) in connect_many(&world.url, world.clients).await?.into_iter().enumerate() {
        tasks.push(tokio::spawn(transfers(client, number as u64, tally.clone(), end)));
    }
    for client in connect_many(&world.url, 2).await? {
        tasks.push(tokio::spawn(totals(client, reads.clone(), end)));
    }
    for task in tasks {
        task.await??;
    }
    world.tell("bank", &tally);
    world.tell("bank, readers", &reads);
    let row = admin
        .query_one("select sum(balance)::int8, min(balance) from bank", &[])
        .await?;
    require(row.get::<_, i64>(0) == i64::from(ACCOUNTS) * OPENING, || {
        format!("the final total is {}", row.get::<_, i64>(0))
    })?;
    require(row.get::<_, i64>(1) >= 0, || {
        format!("an account was overdrawn to {}", row.get::<_, i64>(1))
    })?;
    let refused = reads.numbers().1;
    require(world.blind_aborts_allowed || refused == 0, || {
        format!("{refused} read-only transactions were refused")
    })
}

async fn transfers(client: Client, number: u64, tally: Arc<Tally>, end: Instant) -> Checked {
    let mut choices = Choices::new(number + 1);
    while Instant::now() < end {
        let from = choices.below(ACCOUNTS as u64) as i32;
        let to = (from + 1 + choices.below(ACCOUNTS as u64 - 1) as i32) % ACCOUNTS;
        let amount = 1 + choices.below(30) as i64;
        let attempt = || async {
            client.batch_execute("begin").await?;
            let balance: i64 = client
                .query_one("select balance from bank where id = $1", &[&from])
                .await?
                .get(0);
            if balance >= amount {
                client
                    .execute(
                        "update bank set balance = balance - $2 where id = $1",
                        &[&from, &amount],
                    )
                    .await?;
                client
                    .execute("update bank set balance = balance + $2 where id = $1", &[&to, &amount])
                    .await?;
            }
            client.batch_execute("commit").await
        };
        retrying(&client, &tally, attempt).await?;
    }
    Ok(())
}

async fn totals(client: Client, tally: Arc<Tally>, end: Instant) -> Checked {
    let expected = i64::from(ACCOUNTS) * OPENING;
    while Instant::now() < end {
        let attempt = || async {
            client.batch_execute("begin read only").await?;
            let mut row_by_row = 0;
            for id in 0..ACCOUNTS {
                row_by_row += client
                    .query_one("select balance from bank where id = $1", &[&id])
                    .await?
                    .get::<_, i64>(0);
            }
            let at_once: i64 = client
                .query_one("select sum(balance)::int8 from bank", &[])
                .await?
                .get(0);
            client.batch_execute("commit").await?;
            Ok((row_by_row, at_once))
        };
        let (row_by_row, at_once) = retrying(&client, &tally, attempt).await?;
        require(row_by_row == expected, || {
            format!("row by row a reader found {row_by_row} in place of {expected}")
        })?;
        require(at_once == expected, || {
            format!("an aggregate found {at_once} in place of {expected}")
        })?;
    }
    Ok(())
}

/// The bank of the read-only anomaly: a deposit, a withdrawal with a penalty, and a report that must fit between them.
pub async fn read_only_anomaly(world: &World) -> Checked {
    let admin = world.session().await?;
    admin
        .batch_execute(
            "drop table if exists pair; create table pair (id int primary key, x int8 not null, y int8 not null)",
        )
        .await?;
    let (tally, end) = (Arc::new(Tally::default()), world.end());
    let mut tasks = Vec::new();
    for number in 0..world.clients.div_ceil(3) as i32 {
        let clients = connect_many(&world.url, 3).await?;
        tasks.push(tokio::spawn(anomaly_rounds(clients, number * 2, tally.clone(), end)));
    }
    for task in tasks {
        task.await??;
    }
    world.tell("read-only anomaly", &tally);
    Ok(())
}

/// `x` and `y` are rows of their own, so that column granularity alone does not decide.
async fn anomaly_rounds(clients: Vec<Client>, id: i32, tally: Arc<Tally>, end: Instant) -> Checked {
    let [deposit, withdraw, report] = &clients[..] else {
        return Err(Failure::new("three sessions are needed"));
    };
    let (first, second) = (id, id + 1);
    let fill = "insert into pair values ($1, 0, 0), ($2, 0, 0)";
    let empty = "update pair set x = 0, y = 0 where id in ($1, $2)";
    retrying(report, &tally, || async {
        report.execute(fill, &[&first, &second]).await
    })
    .await?;
    let mut choices = Choices::new(id as u64 + 7);
    while Instant::now() < end {
        retrying(report, &tally, || async {
            report.execute(empty, &[&first, &second]).await
        })
        .await?;
        let delays = [choices.below(4), choices.below(4), choices.below(4)];
        let (put, took, saw) = tokio::join!(
            retrying(deposit, &tally, || async {
                pause(delays[0]).await;
                deposit
                    .execute("update pair set y = y + 20 where id = $1", &[&second])
                    .await
            }),
            retrying(withdraw, &tally, || async {
                pause(delays[1]).await;
                withdraw.batch_execute("begin").await?;
                let x: i64 = withdraw
                    .query_one("select x from pair where id = $1", &[&first])
                    .await?
                    .get(0);
                let y: i64 = withdraw
                    .query_one("select y from pair where id = $1", &[&second])
                    .await?
                    .get(0);
                let taken = if x + y < 10 { 11i64 } else { 10 };
                withdraw
                    .execute("update pair set x = x - $2 where id = $1", &[&first, &taken])
                    .await?;
                withdraw.batch_execute("commit").await
            }),
            retrying(report, &tally, || async {
                pause(delays[2]).await;
                report.batch_execute("begin read only").await?;
                let x: i64 = report
                    .query_one("select x from pair where id = $1", &[&first])
                    .await?
                    .get(0);
                let y: i64 = report
                    .query_one("select y from pair where id = $1", &[&second])
                    .await?
                    .get(0);
                report.batch_execute("commit").await?;
                Ok((x, y))
            }),
        );
        put?;
        took?;
        let (x, y) = saw?;
        let read = || async { report.query_one("select x from pair where id = $1", &[&first]).await };
        let last: i64 = retrying(report, &tally, read).await?.get(0);
        let between = x == 0 && y == 20 && last == -11;
        let torn = x == -10 && y == 0;
        require(!between && !torn, || {
            format!("a report saw x = {x}, y = {y}, and the withdrawal took {last}")
        })?;
    }
    Ok(())
}

async fn pause(steps: u64) {
    for _ in 0..steps * 3 {
        tokio::task::yield_now().await;
    }
}

/// Whoever begins after a commit was acknowledged sees it, on every session.
pub async fn real_time(world: &World) -> Checked {
    let admin = world.session().await?;
    admin.batch_execute("drop table if exists clock; create table clock (id int primary key, n int8 not null); insert into clock values (1, 0)").await?;
    let (tally, known, end) = (Arc::new(Tally::default()), Arc::new(AtomicI64::new(0)), world.end());
    let mut tasks = Vec::new();
    for (number, client) in connect_many(&world.url, world.clients.max(2))
        .await?
        .into_iter()
        .enumerate()
    {
        let (tally, known) = (tally.clone(), known.clone());
        tasks.push(tokio::spawn(async move {
            while Instant::now() < end {
                if number == 0 {
                    retrying(&client, &tally, || {
                        client.execute("update clock set n = n + 1 where id = 1", &[])
                    })
                    .await?;
                    known.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                let before = known.load(Ordering::SeqCst);
                let read = || client.query_one("select n from clock where id = 1", &[]);
                let n: i64 = retrying(&client, &tally, read).await?.get(0);
                require(n >= before, || {
                    format!("{before} commits were acknowledged before the read began, it saw {n}")
                })?;
            }
            Ok::<(), Failure>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    world.tell("real time", &tally);
    Ok(())
}
