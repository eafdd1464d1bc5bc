//! Counters: read then set, blind, and insert of the same key.

use std::sync::Arc;
use std::time::Instant;

use super::World;
use crate::report::{Checked, Failure, require};
use crate::session::{Choices, Tally, connect_many, retrying};

/// Read, then set what was read plus one: the final value is the number of commits.
pub async fn lost_update(world: &World) -> Checked {
    let admin = world.session().await?;
    admin.batch_execute("drop table if exists tally; create table tally (id int primary key, n int8); insert into tally values (1, 0)").await?;
    let (tally, end) = (Arc::new(Tally::default()), world.end());
    let mut tasks = Vec::new();
    for client in connect_many(&world.url, world.clients).await? {
        let tally = tally.clone();
        tasks.push(tokio::spawn(async move {
            while Instant::now() < end {
                let attempt = || async {
                    client.batch_execute("begin").await?;
                    let n: i64 = client.query_one("select n from tally where id = 1", &[]).await?.get(0);
                    client
                        .execute("update tally set n = $1 where id = 1", &[&(n + 1)])
                        .await?;
                    client.batch_execute("commit").await
                };
                retrying(&client, &tally, attempt).await?;
            }
            Ok::<(), Failure>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    world.tell("lost update", &tally);
    let n: i64 = admin.query_one("select n from tally where id = 1", &[]).await?.get(0);
    let committed = tally.numbers().0 as i64;
    require(n == committed, || format!("{committed} commits, the counter is {n}"))
}

/// Two blind additions in one transaction, one on a row that all share; readers look at it all the time.
pub async fn blind(world: &World) -> Checked {
    let admin = world.session().await?;
    let tables = "drop table if exists hits; create table hits (id int primary key, n int8 not null, note text); insert into hits values (0, 0, ''), (1, 0, ''), (2, 0, ''), (3, 0, '')";
    admin.batch_execute(tables).await?;
    let (tally, end) = (Arc::new(Tally::default()), world.end());
    let mut tasks = Vec::new();
    for (number, client) in connect_many(&world.url, world.clients).await?.into_iter().enumerate() {
        let tally = tally.clone();
        tasks.push(tokio::spawn(async move {
            let mut choices = Choices::new(number as u64 + 1);
            while Instant::now() < end {
                let other = 1 + choices.below(3) as i32;
                let attempt = || async {
                    client.batch_execute("begin").await?;
                    client.execute("update hits set n = n + 1 where id = 0", &[]).await?;
                    client
                        .execute("update hits set n = n + 1 where id = $1", &[&other])
                        .await?;
                    client.batch_execute("commit").await
                };
                retrying(&client, &tally, attempt).await?;
            }
            Ok::<(), Failure>(())
        }));
    }
    let reads = watch(world, end).await;
    for task in tasks {
        task.await??;
    }
    world.tell("blind counters", &tally);
    let (reads, refused) = reads?;
    println!("blind counters: {reads} read-only transactions beside them");
    let (committed, aborted) = tally.numbers();
    let row = admin.query_one("select n from hits where id = 0", &[]).await?;
    require(row.get::<_, i64>(0) == committed as i64, || {
        format!("{committed} commits, the counter is {}", row.get::<_, i64>(0))
    })?;
    require(world.blind_aborts_allowed || aborted == 0, || {
        format!("{aborted} writers of blind formulas were refused")
    })?;
    require(world.blind_aborts_allowed || refused == 0, || {
        format!("{refused} read-only transactions were refused")
    })
}

/// One reader beside the writers: the shared counter is always the sum of the others. (transactions, refusals)
async fn watch(world: &World, end: Instant) -> Result<(u64, u64), Failure> {
    let client = world.session().await?;
    let tally = Tally::default();
    while Instant::now() < end {
        let attempt = || async {
            client.batch_execute("begin read only").await?;
            let shared: i64 = client.query_one("select n from hits where id = 0", &[]).await?.get(0);
            let others = client.query("select n from hits where id > 0", &[]).await?;
            client.batch_execute("commit").await?;
            Ok((shared, others.iter().map(|row| row.get::<_, i64>(0)).sum::<i64>()))
        };
        let (shared, others) = retrying(&client, &tally, attempt).await?;
        require(shared == others, || {
            format!("a reader saw {shared} and {others} of one set of transactions")
        })?;
    }
    Ok(tally.numbers())
}

/// All clients insert the same keys: each key has exactly one winner, and the others are told 23505.
pub async fn one_winner(world: &World) -> Checked {
    let admin = world.session().await?;
    admin
        .batch_execute("drop table if exists claim; create table claim (k int primary key, owner int not null)")
        .await?;
    let (tally, end) = (Arc::new(Tally::default()), world.end());
    let mut tasks = Vec::new();
    for (number, client) in connect_many(&world.url, world.clients).await?.into_iter().enumerate() {
        let tally = tally.clone();
        tasks.push(tokio::spawn(async move {
            let (mut won, mut key) = (0i64, 0i32);
            while Instant::now() < end {
                key += 1;
                let attempt = || async {
                    client
                        .execute("insert into claim values ($1, $2)", &[&key, &(number as i32)])
                        .await
                };
                match retrying(&client, &tally, attempt).await {
                    Ok(_) => won += 1,
                    Err(failure) if failure.to_string().starts_with("23505") => {}
                    Err(failure) => return Err(failure),
                }
            }
            Ok::<(usize, i64), Failure>((number, won))
        }));
    }
    for task in tasks {
        let (number, won) = task.await??;
        let owned: i64 = admin
            .query_one("select count(*) from claim where owner = $1", &[&(number as i32)])
            .await?
            .get(0);
        require(owned == won, || {
            format!("client {number} was told that it won {won} keys, and owns {owned}")
        })?;
    }
    world.tell("one winner per key", &tally);
    Ok(())
}
