//! Learning the outcome of a COMMIT whose answer never came (`pg_current_xact_id`, `pg_xact_status`).
//!
//! Each client asks for the id of its transaction, inserts a row that bears it, and commits. The server is killed meanwhile and
//! started again. What it then says of an id must be what the table says, and what the client was told.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::{join, try_join_all};
use tokio_postgres::{Client, Error};

use crate::Options;
use crate::report::{Checked, Failure, check, require};
use crate::session::{connect_many, connect_patiently, is_lost, is_retryable};

const TABLES: &str = "
    drop table if exists outcome; drop table if exists outcomes;
    create table outcome (id text primary key, client int not null);
    create table outcomes (one int primary key, n int8 not null); insert into outcomes values (1, 0)";
const LOAD: Duration = Duration::from_millis(400);

/// What a client knows of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Committed,
    RolledBack,
    Nothing,
}

/// Rounds of load, kill and comparison. Of a server that gives ids again after a crash (PostgreSQL does, if their transactions left
/// nothing in its log) only those that were acknowledged are compared.
pub async fn run(options: &Options) -> Result<bool, Failure> {
    let (url, clients) = (options.text("url")?, options.number("clients")? as usize);
    let ids_return = options.text("ids-may-return")? == "yes";
    let mut known = BTreeMap::new();
    let mut held = check("the outcome while the server runs", at_rest(url)).await;
    connect_patiently(url).await?.batch_execute(TABLES).await?;
    for round in 1..=options.number("rounds")? {
        let name = format!("the outcome after kill -9, round {round}");
        held &= check(&name, one_round(url, clients, ids_return, &mut known)).await;
    }
    if !ids_return {
        let lost = known.values().any(|told| *told == Told::Nothing);
        let shows = async { require(lost, || "no answer was lost: the rounds show nothing".into()) };
        held &= check("answers were lost", shows).await;
    }
    Ok(held)
}

async fn one_round(url: &str, clients: usize, ids_return: bool, known: &mut BTreeMap<String, Told>) -> Checked {
    let sessions = connect_many(url, clients).await?;
    let load = sessions
        .into_iter()
        .enumerate()
        .map(|(number, client)| load(client, number as i32));
    let kill = async {
        tokio::time::sleep(LOAD).await;
        println!("{}", crate::isolation::KILL_REQUEST);
    };
    for (id, told) in join(try_join_all(load), kill).await.0?.into_iter().flatten() {
        if ids_return && told != Told::Committed {
            continue;
        }
        let before = known.insert(id.clone(), told);
        require(before.is_none(), || format!("id {id} was given twice"))?;
    }
    let client = connect_patiently(url).await?;
    let (mut committed, mut learnt) = (0, 0);
    for (id, told) in known.iter() {
        let status = status(&client, id).await?;
        let count = "select count(*) from outcome where id = $1";
        let is_there = client.query_one(count, &[id]).await?.get::<_, i64>(0) == 1;
        let expected = if is_there { "committed" } else { "aborted" };
        require(status.as_deref() == Some(expected), || {
            format!("the table says that {id} is {expected}, the server says {status:?}")
        })?;
        let fits = match told {
            Told::Committed => is_there,
            Told::RolledBack => !is_there,
            Told::Nothing => true,
        };
        require(fits, || {
            format!("the client was told {told:?} of {id}, it is {expected}")
        })?;
        committed += i64::from(is_there);
        learnt += usize::from(*told == Told::Nothing);
    }
    let n: i64 = client
        .query_one("select n from outcomes where one = 1", &[])
        .await?
        .get(0);
    require(n == committed || ids_return, || {
        format!("{committed} transactions are there, their formula was applied {n} times")
    })?;
    println!(
        "{} transactions, {committed} committed, {learnt} whose client learnt it afterwards",
        known.len()
    );
    Ok(())
}

/// Transactions one after the other until the server is gone.
async fn load(client: Client, number: i32) -> Result<Vec<(String, Told)>, Failure> {
    let mut told = Vec::new();
    loop {
        let turn = told.len();
        let id = Cell::new(None);
        let outcome = transaction(&client, number, turn, &id).await;
        let Some(id) = id.take() else {
            match outcome {
                Err(error) if !is_lost(&error) => return Err(error.into()),
                _ => return Ok(told),
            }
        };
        match outcome {
            Ok(true) => told.push((id, Told::Committed)),
            Ok(false) => told.push((id, Told::RolledBack)),
            Err(error) if is_retryable(&error) => {
                told.push((id, Told::RolledBack));
                if client.batch_execute("rollback").await.is_err() {
                    return Ok(told);
                }
            }
            Err(error) if is_lost(&error) => {
                told.push((id, Told::Nothing));
                return Ok(told);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether it was committed (one in eight is rolled back).
async fn transaction(client: &Client, number: i32, turn: usize, id: &Cell<Option<String>>) -> Result<bool, Error> {
    client.batch_execute("begin").await?;
    let row = client.query_one("select pg_current_xact_id()::text", &[]).await?;
    let own: String = row.get(0);
    id.set(Some(own.clone()));
    client
        .batch_execute("update outcomes set n = n + 1 where one = 1")
        .await?;
    client
        .execute("insert into outcome values ($1, $2)", &[&own, &number])
        .await?;
    if turn % 8 == 7 {
        client.batch_execute("rollback").await?;
        return Ok(false);
    }
    client.batch_execute("commit").await?;
    Ok(true)
}

/// What the server says of a transaction; nothing if it is too old.
async fn status(client: &Client, id: &str) -> Result<Option<String>, Failure> {
    let row = client
        .query_one("select pg_xact_status(($1::text)::xid8)", &[&id])
        .await?;
    Ok(row.get(0))
}

/// Without any kill: in progress, committed, aborted, in the future.
async fn at_rest(url: &str) -> Checked {
    let sessions = connect_many(url, 2).await?;
    let [own, other] = &sessions[..] else {
        return Err(Failure::new("two sessions are needed"));
    };
    let ask = async |sql: &str| -> Result<Option<String>, Failure> { Ok(own.query_one(sql, &[]).await?.get(0)) };
    own.batch_execute("begin").await?;
    let none = ask("select pg_current_xact_id_if_assigned()::text").await?;
    require(none.is_none(), || format!("{none:?} was assigned before anybody asked"))?;
    let id = ask("select pg_current_xact_id()::text").await?.unwrap_or_default();
    for again in [
        "pg_current_xact_id()",
        "txid_current()",
        "pg_current_xact_id_if_assigned()",
    ] {
        let same = ask(&format!("select {again}::text")).await?;
        require(same.as_ref() == Some(&id), || format!("{again} is {same:?} after {id}"))?;
    }
    let expect = async |id: &str, expected: &str| {
        let found = status(other, id).await?;
        require(found.as_deref() == Some(expected), || {
            format!("{id} is {found:?}, not {expected}")
        })
    };
    expect(&id, "in progress").await?;
    own.batch_execute("commit").await?;
    expect(&id, "committed").await?;
    own.batch_execute("begin").await?;
    let next = ask("select txid_current()::text").await?.unwrap_or_default();
    require(next != id, || format!("id {id} came back"))?;
    own.batch_execute("rollback").await?;
    expect(&next, "aborted").await?;
    let alone = ask("select pg_current_xact_id()::text").await?.unwrap_or_default();
    expect(&alone, "committed").await?;
    let future = status(other, "4000000000000").await;
    let told = future.err().map(|failure| failure.to_string()).unwrap_or_default();
    require(told.starts_with("22023"), || {
        format!("an id that is in the future: {told}")
    })
}
