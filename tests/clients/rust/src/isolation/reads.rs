//! What read-only transactions see: whole states, in an order that agrees with real time.

use std::cell::Cell;

use futures_util::future::{try_join, try_join_all};
use tokio_postgres::{Client, Error};

use super::World;
use crate::report::{Checked, Failure, require};
use crate::session::{Choices, Seat, Tally};

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
    let (transfers, totals) = (Tally::of("transfer"), Tally::of("read-only total"));
    let seats = world.seats(world.clients).await?.into_iter().enumerate();
    let writers = seats.map(async |(number, mut seat)| {
        let mut choices = Choices::new(number as u64 + 1);
        while world.goes_on() {
            transfer(&mut seat, &transfers, &mut choices).await?;
        }
        Ok(())
    });
    let readers = world.seats(2).await?.into_iter().map(async |mut seat| {
        while world.goes_on() {
            total(&mut seat, &totals).await?;
        }
        Ok(())
    });
    let (writers, readers) = (try_join_all(writers), try_join_all(readers));
    world
        .load(vec![async { try_join(writers, readers).await.map(drop) }])
        .await?;
    world.tell("bank", &[&transfers, &totals]);
    let admin = world.session().await?;
    let row = admin
        .query_one("select sum(balance)::int8, min(balance) from bank", &[])
        .await?;
    require(row.get::<_, i64>(0) == i64::from(ACCOUNTS) * OPENING, || {
        format!("the final total is {}", row.get::<_, i64>(0))
    })?;
    require(row.get::<_, i64>(1) >= 0, || {
        format!("an account was overdrawn to {}", row.get::<_, i64>(1))
    })?;
    let refused = totals.numbers().1;
    require(world.blind_aborts_allowed || refused == 0, || {
        format!("{refused} read-only transactions were refused")
    })
}

async fn transfer(seat: &mut Seat<'_>, tally: &Tally, choices: &mut Choices) -> Checked {
    let from = choices.below(ACCOUNTS as u64) as i32;
    let to = (from + 1 + choices.below(ACCOUNTS as u64 - 1) as i32) % ACCOUNTS;
    let amount = 1 + choices.below(30) as i64;
    let attempt = async |client: &Client| {
        client.batch_execute("begin").await?;
        let balance: i64 = client
            .query_one("select balance from bank where id = $1", &[&from])
            .await?
            .get(0);
        if balance >= amount {
            let (take, give) = (
                "update bank set balance = balance - $2 where id = $1",
                "update bank set balance = balance + $2 where id = $1",
            );
            client.execute(take, &[&from, &amount]).await?;
            client.execute(give, &[&to, &amount]).await?;
        }
        client.batch_execute("commit").await
    };
    seat.run(tally, attempt).await.map(drop)
}

async fn total(seat: &mut Seat<'_>, tally: &Tally) -> Checked {
    let expected = i64::from(ACCOUNTS) * OPENING;
    let attempt = async |client: &Client| {
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
    let Some((row_by_row, at_once)) = seat.run(tally, attempt).await? else {
        return Ok(());
    };
    require(row_by_row == expected && at_once == expected, || {
        format!("a reader found {row_by_row} row by row and {at_once} by an aggregate in place of {expected}")
    })
}

/// The bank of the read-only anomaly: a deposit, a withdrawal with a penalty, and a report that must fit between them.
pub async fn read_only_anomaly(world: &World) -> Checked {
    let admin = world.session().await?;
    admin
        .batch_execute("drop table if exists pair; create table pair (id int primary key, x int8 not null)")
        .await?;
    let groups = world.clients.div_ceil(3) as i32;
    for id in 0..groups * 2 {
        admin.execute("insert into pair values ($1, 0)", &[&id]).await?;
    }
    let tallies = ["set-up", "deposit", "withdrawal", "read-only report"].map(Tally::of);
    let mut tasks = Vec::new();
    for number in 0..groups {
        let group = Group {
            first: number * 2,
            second: number * 2 + 1,
            tallies: &tallies,
        };
        let seats = world.seats(3).await?;
        tasks.push(async move {
            let mut choices = Choices::new(number as u64 + 7);
            let mut seats = seats;
            while world.goes_on() {
                group.round(&mut seats, &mut choices).await?;
            }
            Ok(())
        });
    }
    world.load(tasks).await?;
    world.tell("read-only anomaly", &tallies.each_ref());
    Ok(())
}

/// Two rows of the three clients of one round, so that column granularity alone does not decide.
struct Group<'t> {
    first: i32,
    second: i32,
    tallies: &'t [Tally; 4],
}

impl Group<'_> {
    async fn round(&self, seats: &mut [Seat<'_>], choices: &mut Choices) -> Checked {
        let [deposit, withdraw, report] = seats else {
            return Err(Failure::new("three sessions are needed"));
        };
        let [set_up, deposits, withdrawals, reports] = self.tallies;
        let (first, second) = (&self.first, &self.second);
        let empty = async |client: &Client| {
            client
                .execute("update pair set x = 0 where id in ($1, $2)", &[first, second])
                .await
        };
        report.insist(set_up, empty).await?;
        let delays = [choices.below(4), choices.below(4), choices.below(4)];
        let (put, took, saw) = tokio::join!(
            deposit.run(deposits, async |client| {
                pause(delays[0]).await;
                client
                    .execute("update pair set x = x + 20 where id = $1", &[second])
                    .await
            }),
            withdraw.run(withdrawals, async |client| {
                pause(delays[1]).await;
                self.withdraw(client).await
            }),
            report.run(reports, async |client| {
                pause(delays[2]).await;
                client.batch_execute("begin read only").await?;
                let seen = self.look(client).await?;
                client.batch_execute("commit").await?;
                Ok(seen)
            }),
        );
        let (Some(_), Some(_), Some((x, y))) = (put?, took?, saw?) else {
            // The server was killed: who knows what of this round has happened.
            return Ok(());
        };
        let (last, _) = report.insist(set_up, async |client| self.look(client).await).await?;
        let between = x == 0 && y == 20 && last == -11;
        let torn = x == -10 && y == 0;
        require(!between && !torn, || {
            format!("a report saw x = {x}, y = {y}, and the withdrawal took {last}")
        })
    }

    async fn withdraw(&self, client: &Client) -> Result<(), Error> {
        client.batch_execute("begin").await?;
        let (x, y) = self.look(client).await?;
        let taken = if x + y < 10 { 11i64 } else { 10 };
        client
            .execute("update pair set x = x - $2 where id = $1", &[&self.first, &taken])
            .await?;
        client.batch_execute("commit").await
    }

    async fn look(&self, client: &Client) -> Result<(i64, i64), Error> {
        let read = "select x from pair where id = $1";
        let x = client.query_one(read, &[&self.first]).await?.get(0);
        let y = client.query_one(read, &[&self.second]).await?.get(0);
        Ok((x, y))
    }
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
    let (writes, reads) = (Tally::of("addition"), Tally::of("read"));
    let known = Cell::new(0i64);
    let seats = world.seats(world.clients.max(2)).await?;
    let tasks = seats.into_iter().enumerate().map(async |(number, mut seat)| {
        while world.goes_on() {
            if number == 0 {
                let add = async |client: &Client| client.execute("update clock set n = n + 1 where id = 1", &[]).await;
                let added = seat.run(&writes, add).await?;
                known.set(known.get() + i64::from(added.is_some()));
                continue;
            }
            let before = known.get();
            let read = async |client: &Client| client.query_one("select n from clock where id = 1", &[]).await;
            let Some(row) = seat.run(&reads, read).await? else {
                continue;
            };
            require(row.get::<_, i64>(0) >= before, || {
                let n: i64 = row.get(0);
                format!("{before} commits were acknowledged before the read began, it saw {n}")
            })?;
        }
        Ok(())
    });
    world.load(tasks.collect()).await?;
    world.tell("real time", &[&writes, &reads]);
    Ok(())
}
