//! Counters: read then set, blind, and insert of the same key.

use std::cell::Cell;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::World;
use super::figures::Figures;
use crate::report::{Checked, Failure, require};
use crate::session::{Choices, Seat, Tally};

/// Read, then set what was read plus one: the final value is the number of commits.
pub async fn lost_update(world: &World) -> Checked {
    let admin = world.session().await?;
    admin.batch_execute("drop table if exists tally; create table tally (id int primary key, n int8); insert into tally values (1, 0)").await?;
    let tally = Tally::of("read then set");
    let attempt = async |client: &Client| {
        client.batch_execute("begin").await?;
        let n: i64 = client.query_one("select n from tally where id = 1", &[]).await?.get(0);
        client
            .execute("update tally set n = $1 where id = 1", &[&(n + 1)])
            .await?;
        client.batch_execute("commit").await
    };
    let seats = world
        .seats(world.clients)
        .await?
        .into_iter()
        .map(async |mut seat: Seat| {
            while world.goes_on() {
                seat.run(&tally, attempt).await?;
            }
            Ok(())
        });
    world.load(seats.collect()).await?;
    world.tell("lost update", &[&tally]);
    let admin = world.session().await?;
    let n = admin.query_one("select n from tally where id = 1", &[]).await?.get(0);
    tally.require_count(n, "the counter")
}

/// Two blind additions in one transaction, one on a row that all share; readers look at it all the time.
pub async fn blind(world: &World) -> Checked {
    let admin = world.session().await?;
    let tables = "drop table if exists hits; create table hits (id int primary key, n int8 not null, note text); insert into hits values (0, 0, ''), (1, 0, ''), (2, 0, ''), (3, 0, '')";
    admin.batch_execute(tables).await?;
    let (tally, reads) = (Tally::of("two blind additions"), Tally::of("read-only"));
    let mut seats = world.seats(world.clients + 1).await?;
    let mut reader = seats.pop().ok_or_else(|| Failure::new("no session"))?;
    let writers = seats.into_iter().enumerate().map(async |(number, mut seat)| {
        let mut choices = Choices::new(number as u64 + 1);
        while world.goes_on() {
            add_twice(&mut seat, &tally, 1 + choices.below(3) as i32).await?;
        }
        Ok(())
    });
    let watch = async {
        while world.goes_on() {
            watch(&mut reader, &reads).await?;
        }
        Ok(())
    };
    let writers = futures_util::future::try_join_all(writers);
    world
        .load(vec![async {
            futures_util::future::try_join(writers, watch).await.map(drop)
        }])
        .await?;
    world.tell("blind counters", &[&tally, &reads]);
    let admin = world.session().await?;
    let n = admin.query_one("select n from hits where id = 0", &[]).await?.get(0);
    tally.require_count(n, "the counter")?;
    for (kind, refused) in [("writers of blind formulas", &tally), ("readers", &reads)] {
        let refused = refused.numbers().1;
        require(world.blind_aborts_allowed || refused == 0, || {
            format!("{refused} {kind} were refused")
        })?;
    }
    Ok(())
}

async fn add_twice(seat: &mut Seat<'_>, tally: &Tally, other: i32) -> Checked {
    let attempt = async |client: &Client| {
        client.batch_execute("begin").await?;
        client.execute("update hits set n = n + 1 where id = 0", &[]).await?;
        client
            .execute("update hits set n = n + 1 where id = $1", &[&other])
            .await?;
        client.batch_execute("commit").await
    };
    seat.run(tally, attempt).await.map(drop)
}

/// One look of the reader beside the writers: the shared counter is always the sum of the others.
async fn watch(seat: &mut Seat<'_>, tally: &Tally) -> Checked {
    let attempt = async |client: &Client| {
        client.batch_execute("begin read only").await?;
        let shared: i64 = client.query_one("select n from hits where id = 0", &[]).await?.get(0);
        let others = client.query("select n from hits where id > 0", &[]).await?;
        client.batch_execute("commit").await?;
        Ok((shared, others.iter().map(|row| row.get::<_, i64>(0)).sum::<i64>()))
    };
    match seat.run(tally, attempt).await? {
        Some((shared, others)) => require(shared == others, || {
            format!("a reader saw {shared} and {others} of one set of transactions")
        }),
        None => Ok(()),
    }
}

/// Nothing but formulas, all on one row, in blocks and alone: the server's own counters know of no abort and no wait.
pub async fn one_row(world: &World) -> Checked {
    let admin = world.session().await?;
    let table = "drop table if exists hot; create table hot (id int primary key, n int8 not null, m numeric(30,2) not null, note text); insert into hot values (1, 0, 0, '')";
    admin.batch_execute(table).await?;
    let before = Figures::read(world).await;
    let (tally, added) = (Tally::of("formulas"), Cell::new(0));
    let seats = world.seats(world.clients).await?;
    let seats = seats.into_iter().enumerate().map(async |(number, mut seat)| {
        let mut turn = number;
        while world.goes_on() {
            turn += 1;
            let by = 1 + (turn % 3) as i64;
            if seat
                .run(&tally, async |client| add_in_form(client, turn, by).await)
                .await?
                .is_some()
            {
                added.set(added.get() + by);
            }
        }
        Ok(())
    });
    world.load(seats.collect()).await?;
    world.tell("formulas on one row", &[&tally]);
    let admin = world.session().await?;
    let row = admin.query_one("select n, m::int8 from hot where id = 1", &[]).await?;
    let (n, m): (i64, i64) = (row.get(0), row.get(1));
    require(n == m, || format!("one formula added {n} and {m} to two columns"))?;
    let most = added.get() + 3 * tally.unknown() as i64;
    require((added.get()..=most).contains(&n), || {
        format!("{} were added and acknowledged, the row has {n}", added.get())
    })?;
    require(world.blind_aborts_allowed || tally.numbers().1 == 0, || {
        format!("{} writers of blind formulas were refused", tally.numbers().1)
    })?;
    let (Some(before), Some(now), false) = (before, Figures::read(world).await, world.is_killed) else {
        return require(world.blind_aborts_allowed || world.is_killed, || {
            "the server does not tell its counters".into()
        });
    };
    for counter in ["aborts.", "waits."] {
        let number = now.since(&before, counter);
        require(number == 0, || format!("the server has counted {number} {counter}"))?;
    }
    Ok(())
}

/// The same formula in one of the forms in which clients send it.
async fn add_in_form(client: &Client, turn: usize, by: i64) -> Result<(), tokio_postgres::Error> {
    let literal = format!("update hot set n = n + {by}, m = m + {by} where id = 1");
    match turn % 4 {
        0 => client.batch_execute(&literal).await,
        1 => client.batch_execute(&format!("begin; {literal}; commit")).await,
        2 => {
            let text = "update hot set n = n + $1, m = m + $1 where id = 1";
            client.execute(text, &[&by]).await.map(drop)
        }
        _ => {
            client.batch_execute("begin").await?;
            client.batch_execute(&literal).await?;
            client.batch_execute("commit").await
        }
    }
}

/// All clients insert the same keys: each key has exactly one winner, and the others are told 23505.
pub async fn one_winner(world: &World) -> Checked {
    let admin = world.session().await?;
    admin
        .batch_execute("drop table if exists claim; create table claim (k int primary key, owner int not null)")
        .await?;
    let seats = world.seats(world.clients).await?;
    let seats = seats.into_iter().enumerate().map(async |(number, mut seat)| {
        let (tally, mut key, mut won) = (Tally::of("insert"), 0i32, 0u64);
        while world.goes_on() {
            key += 1;
            won += u64::from(claim(&mut seat, &tally, key, number as i32).await?);
        }
        Ok((number, tally, won))
    });
    let all = Tally::of("insert");
    let outcomes = world.load(seats.collect()).await?;
    let admin = world.session().await?;
    for (number, tally, won) in outcomes {
        let owned: i64 = admin
            .query_one("select count(*) from claim where owner = $1", &[&(number as i32)])
            .await?
            .get(0);
        let fits = (won..=won + tally.unknown()).contains(&(owned as u64));
        require(fits, || {
            format!("client {number} was told that it won {won} keys, and owns {owned}")
        })?;
        all.add(&tally);
    }
    world.tell("one winner per key", &[&all]);
    Ok(())
}

/// Whether the client was told that it has the key.
async fn claim(seat: &mut Seat<'_>, tally: &Tally, key: i32, number: i32) -> Result<bool, Failure> {
    let attempt = async |client: &Client| {
        let inserted = client
            .execute("insert into claim values ($1, $2)", &[&key, &number])
            .await;
        match inserted {
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(false),
            inserted => inserted.map(|_| true),
        }
    };
    Ok(seat.run(tally, attempt).await?.unwrap_or(false))
}
