//! Write skew over rows that exist, and over rows that do not exist yet.

use std::cell::Cell;

use tokio_postgres::{Client, Error};

use super::World;
use crate::report::{Checked, require};
use crate::session::{Choices, Tally};

/// Seats of a room.
const SEATS: i64 = 5;

/// Two doctors per ward, at least one on call: each leaves only if it sees the other on call.
pub async fn write_skew(world: &World) -> Checked {
    let admin = world.session().await?;
    let wards = (world.clients / 4).max(1) as i32;
    admin.batch_execute("drop table if exists duty; create table duty (ward int, doctor int, on_call int not null, primary key (ward, doctor))").await?;
    for ward in 0..wards {
        admin
            .execute("insert into duty values ($1, 0, 1), ($1, 1, 1)", &[&ward])
            .await?;
    }
    let tally = Tally::of("leave or come");
    let seats = world.seats(world.clients).await?.into_iter().enumerate();
    let tasks = seats.map(async |(number, mut seat)| {
        let (ward, doctor) = (number as i32 / 2 % wards, number as i32 % 2);
        while world.goes_on() {
            let changed = seat
                .run(&tally, async |client| change(client, ward, doctor).await)
                .await?;
            let Some((mine, other)) = changed else { continue };
            require(mine + other > 0, || format!("ward {ward} has nobody on call"))?;
        }
        Ok(())
    });
    world.load(tasks.collect()).await?;
    world.tell("write skew", &[&tally]);
    let admin = world.session().await?;
    let rows = admin
        .query("select ward from duty group by ward having sum(on_call) = 0", &[])
        .await?;
    require(rows.is_empty(), || {
        format!("{} wards have nobody on call at the end", rows.len())
    })
}

/// What a doctor saw of the ward before leaving or coming.
async fn change(client: &Client, ward: i32, doctor: i32) -> Result<(i32, i32), Error> {
    client.batch_execute("begin").await?;
    let read = "select on_call from duty where ward = $1 and doctor = $2";
    let mine: i32 = client.query_one(read, &[&ward, &doctor]).await?.get(0);
    let other: i32 = client.query_one(read, &[&ward, &(1 - doctor)]).await?.get(0);
    let next = i32::from(mine == 0 || other == 0);
    let write = "update duty set on_call = $3 where ward = $1 and doctor = $2";
    client.execute(write, &[&ward, &doctor, &next]).await?;
    client.batch_execute("commit").await?;
    Ok((mine, other))
}

/// Count the seats taken, then take one: the rows of a room stand together under the primary key.
pub async fn phantom_by_key(world: &World) -> Checked {
    let table = "drop table if exists seat; create table seat (room int, who int, primary key (room, who))";
    phantom(world, table, "phantom by key range").await
}

/// The same where only a secondary index finds the rows of a room.
pub async fn phantom_by_index(world: &World) -> Checked {
    let table = "drop table if exists seat; create table seat (who int, room int not null, at serial primary key); create index seat_room on seat (room)";
    phantom(world, table, "phantom by index").await
}

async fn phantom(world: &World, table: &str, name: &str) -> Checked {
    let admin = world.session().await?;
    admin.batch_execute(table).await?;
    let (tally, filled) = (Tally::of("count and take a seat"), Cell::new(false));
    let seats = world.seats(world.clients).await?.into_iter().enumerate();
    let tasks = seats.map(async |(number, mut seat)| {
        let (mut room, mut turn) = (0i32, 0i32);
        let mut choices = Choices::new(number as u64 + 3);
        // However slow the machine: until some room was full.
        while world.goes_on() || !filled.get() {
            // Clients stay close together: the race for the last seat is what counts.
            turn += 1;
            let (here, who) = (room + choices.below(2) as i32, turn * 1000 + number as i32);
            let taken = seat
                .run(&tally, async |client| take_seat(client, here, who).await)
                .await?;
            let is_full = taken.is_some_and(|taken| taken >= SEATS);
            filled.set(filled.get() || is_full);
            room += i32::from(here == room && is_full);
        }
        Ok(())
    });
    world.load(tasks.collect()).await?;
    world.tell(name, &[&tally]);
    let admin = world.session().await?;
    let rows = admin
        .query("select room, count(*) from seat group by room", &[])
        .await?;
    let worst = rows.iter().map(|row| row.get::<_, i64>(1)).max().unwrap_or(0);
    require(worst <= SEATS, || format!("a room of {SEATS} seats has {worst} guests"))?;
    require(worst == SEATS, || {
        "no room was filled: the history shows nothing".into()
    })
}

/// Takes a seat if there is one; how many were taken before.
async fn take_seat(client: &Client, room: i32, who: i32) -> Result<i64, Error> {
    client.batch_execute("begin").await?;
    let taken: i64 = client
        .query_one("select count(*) from seat where room = $1", &[&room])
        .await?
        .get(0);
    if taken < SEATS {
        client
            .execute("insert into seat (room, who) values ($1, $2)", &[&room, &who])
            .await?;
    }
    client.batch_execute("commit").await?;
    Ok(taken)
}
