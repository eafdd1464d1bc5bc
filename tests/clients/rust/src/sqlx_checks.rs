//! sqlx: statements as `query!` describes them, migrations, pools, types, streams of rows, COPY, notifications, errors.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnection, PgDatabaseError, PgListener, PgPool, PgPoolOptions};
use sqlx::types::Json;
use sqlx::{Acquire, Column, Connection, Either, Executor, FromRow, Row, TypeInfo};
use uuid::Uuid;

use crate::report::{Checked, Failure, check, require};

/// Runs every check; true if all held.
pub async fn run(url: &str) -> Result<bool, Failure> {
    // Who sends no TLS request is not asked for one.
    let url = &format!("{url}?sslmode=disable");
    let mut held = check("statements described for query!", described(url)).await;
    held &= check("migrations", migrations(url)).await;
    held &= check("types there and back", types(url)).await;
    held &= check("rows as structures", structures(url)).await;
    held &= check("many writers of one pool", pool(url)).await;
    held &= check("transactions within transactions", transactions(url)).await;
    held &= check("a stream of rows", stream(url)).await;
    held &= check("COPY in and out", copy(url)).await;
    held &= check("listener", listener(url)).await;
    held &= check("errors and their fields", errors(url)).await;
    held &= check("a statement whose table changes", changed_table(url)).await;
    Ok(held)
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Failure {
        Failure::new(error.to_string())
    }
}

impl From<sqlx::migrate::MigrateError> for Failure {
    fn from(error: sqlx::migrate::MigrateError) -> Failure {
        Failure::new(error.to_string())
    }
}

async fn connect(url: &str) -> Result<PgConnection, Failure> {
    Ok(PgConnection::connect(url).await?)
}

fn same<T: PartialEq + std::fmt::Debug>(found: T, wanted: T) -> Checked {
    require(found == wanted, || format!("{found:?} in place of {wanted:?}"))
}

/// What the macro `query!` asks a database for when a program is compiled.
async fn described(url: &str) -> Checked {
    let mut connection = connect(url).await?;
    connection
        .execute("drop table if exists described; create table described (id int primary key, t text not null, n numeric, a bigint[])")
        .await?;
    let select = connection
        .describe("select d.id, d.t, d.n, d.a, count(*) over () as c, o.t as other from described d left join described o on o.id = d.id + $1 where d.t = $2")
        .await?;
    let columns: Vec<(String, String, Option<bool>)> = select
        .columns()
        .iter()
        .enumerate()
        .map(|(at, column)| {
            (
                column.name().into(),
                column.type_info().name().into(),
                select.nullable(at),
            )
        })
        .collect();
    let named: Vec<(&str, &str)> = columns
        .iter()
        .map(|(name, kind, _)| (name.as_str(), kind.as_str()))
        .collect();
    same(
        named,
        vec![
            ("id", "INT4"),
            ("t", "TEXT"),
            ("n", "NUMERIC"),
            ("a", "INT8[]"),
            ("c", "INT8"),
            ("other", "TEXT"),
        ],
    )?;
    same(
        (columns[0].2, columns[1].2, columns[2].2),
        (Some(false), Some(false), Some(true)),
    )?;
    let parameters: Vec<String> = match select.parameters() {
        Some(Either::Left(kinds)) => kinds.iter().map(|kind| kind.name().to_string()).collect(),
        other => return Err(Failure::new(format!("parameters: {other:?}"))),
    };
    same(parameters, vec!["INT4".to_string(), "TEXT".into()])?;
    let insert = connection
        .describe("insert into described (id, t) values ($1, $2) returning id, n")
        .await?;
    same((insert.nullable(0), insert.nullable(1)), (Some(false), Some(true)))?;
    match connection.describe("select missing from described").await {
        Err(error) => same(state_of(&error), Some("42703".into())),
        Ok(_) => Err(Failure::new("a column that is not there was described")),
    }
}

async fn migrations(url: &str) -> Checked {
    let mut connection = connect(url).await?;
    connection
        .execute("drop table if exists accounts; drop table if exists _sqlx_migrations")
        .await?;
    let migrator = sqlx::migrate!("./migrations");
    migrator.run(&mut connection).await?;
    migrator.run(&mut connection).await?;
    let versions: Vec<(i64, bool)> = sqlx::query_as("select version, success from _sqlx_migrations order by version")
        .fetch_all(&mut connection)
        .await?;
    same(versions, vec![(1, true), (2, true)])?;
    let currency: String = sqlx::query_scalar("insert into accounts (owner) values ($1) returning currency")
        .bind("Ada")
        .fetch_one(&mut connection)
        .await?;
    same(currency, "EUR".into())
}

async fn types(url: &str) -> Checked {
    let mut connection = connect(url).await?;
    connection
        .execute(
            "drop table if exists typed; create table typed (b bool, i2 int2, i4 int4, i8 int8, f4 real, f8 float8, t text, y bytea, d date, tz timestamptz,
             u uuid, j jsonb, ai int[], at text[])",
        )
        .await?;
    let date = NaiveDate::from_ymd_opt(2024, 2, 29).ok_or_else(|| Failure::new("a date"))?;
    let at: DateTime<Utc> = date
        .and_hms_micro_opt(23, 59, 59, 123_456)
        .ok_or_else(|| Failure::new("a time"))?
        .and_utc();
    let identity = Uuid::from_u128(0x1234_5678_9abc_def0_1122_3344_5566_7788);
    let document = Json(BTreeMap::from([("a".to_string(), vec![1, 2])]));
    let insert = "insert into typed values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
    for _ in 0..3 {
        sqlx::query(insert)
            .bind(true)
            .bind(i16::MIN)
            .bind(i32::MAX)
            .bind(i64::MIN)
            .bind(1.5f32)
            .bind(-0.1f64)
            .bind("grün ☃")
            .bind(vec![0u8, 255])
            .bind(date)
            .bind(at)
            .bind(identity)
            .bind(&document)
            .bind(vec![Some(1), None, Some(-3)])
            .bind(vec!["x".to_string(), "y,\"z\"".into()])
            .execute(&mut connection)
            .await?;
    }
    let row = sqlx::query("select * from typed where u = $1 limit 1")
        .bind(identity)
        .fetch_one(&mut connection)
        .await?;
    same(
        (
            row.get::<bool, _>("b"),
            row.get::<i16, _>("i2"),
            row.get::<i32, _>("i4"),
            row.get::<i64, _>("i8"),
        ),
        (true, i16::MIN, i32::MAX, i64::MIN),
    )?;
    same(
        (
            row.get::<f32, _>("f4"),
            row.get::<f64, _>("f8"),
            row.get::<String, _>("t"),
        ),
        (1.5, -0.1, "grün ☃".into()),
    )?;
    same(
        (
            row.get::<Vec<u8>, _>("y"),
            row.get::<NaiveDate, _>("d"),
            row.get::<DateTime<Utc>, _>("tz"),
        ),
        (vec![0, 255], date, at),
    )?;
    same(row.get::<Json<BTreeMap<String, Vec<i32>>>, _>("j").0, document.0)?;
    same(row.get::<Vec<Option<i32>>, _>("ai"), vec![Some(1), None, Some(-3)])?;
    same(row.get::<Vec<String>, _>("at"), vec!["x".to_string(), "y,\"z\"".into()])
}

#[derive(Debug, FromRow, PartialEq)]
struct Person {
    id: i32,
    name: String,
    mail: Option<String>,
}

async fn structures(url: &str) -> Checked {
    let mut connection = connect(url).await?;
    connection
        .execute(
            "drop table if exists people; create table people (id serial primary key, name text not null, mail text)",
        )
        .await?;
    for (name, mail) in [("Ada", Some("a@b.example")), ("Bob", None)] {
        let done = sqlx::query("insert into people (name, mail) values ($1, $2)")
            .bind(name)
            .bind(mail)
            .execute(&mut connection)
            .await?;
        same(done.rows_affected(), 1)?;
    }
    let found: Vec<Person> = sqlx::query_as("select * from people where id = any($1) order by id")
        .bind(vec![2, 9])
        .fetch_all(&mut connection)
        .await?;
    let bob = Person {
        id: 2,
        name: "Bob".into(),
        mail: None,
    };
    same(found, vec![bob])?;
    let nobody: Option<Person> = sqlx::query_as("select * from people where name = $1")
        .bind("Eve")
        .fetch_optional(&mut connection)
        .await?;
    same(nobody, None)
}

async fn pool(url: &str) -> Checked {
    let pool: PgPool = PgPoolOptions::new().max_connections(6).connect(url).await?;
    pool.execute("drop table if exists hot; create table hot (id int primary key, n int not null); insert into hot values (1, 0)")
        .await?;
    let writers = (0..300).map(|_| {
        let pool = pool.clone();
        tokio::spawn(async move {
            // As any client of a serializable database does, it tries again what was refused with 40001.
            loop {
                let add = sqlx::query("update hot set n = n + $1 where id = 1").bind(2);
                match add.execute(&pool).await {
                    Err(error) if state_of(&error).as_deref() == Some("40001") => {}
                    other => break other,
                }
            }
        })
    });
    for written in writers.collect::<Vec<_>>() {
        written.await??;
    }
    let n: i32 = sqlx::query_scalar("select n from hot").fetch_one(&pool).await?;
    pool.close().await;
    same(n, 600)
}

async fn transactions(url: &str) -> Checked {
    let mut connection = connect(url).await?;
    connection
        .execute("drop table if exists x; create table x (id int primary key)")
        .await?;
    let mut outer = Connection::begin(&mut connection).await?;
    sqlx::query("insert into x values (1)").execute(&mut *outer).await?;
    let mut inner = outer.begin().await?;
    let twice = sqlx::query("insert into x values (1)").execute(&mut *inner).await;
    same(twice.err().and_then(|error| state_of(&error)), Some("23505".into()))?;
    inner.rollback().await?;
    sqlx::query("insert into x values (2)").execute(&mut *outer).await?;
    outer.commit().await?;
    // Dropped without commit: rolled back.
    let mut dropped = Connection::begin(&mut connection).await?;
    sqlx::query("delete from x").execute(&mut *dropped).await?;
    drop(dropped);
    let sum: i64 = sqlx::query_scalar("select sum(id) from x")
        .fetch_one(&mut connection)
        .await?;
    same(sum, 3)
}

async fn stream(url: &str) -> Checked {
    let mut connection = connect(url).await?;
    let mut rows = sqlx::query_scalar::<_, i32>("select n from generate_series(1, $1) n")
        .bind(5000)
        .fetch(&mut connection);
    let mut sum = 0i64;
    while let Some(n) = rows.try_next().await? {
        sum += i64::from(n);
    }
    drop(rows);
    same(sum, 5000 * 5001 / 2)?;
    // A stream that is given up midway leaves the connection usable.
    let mut rows = sqlx::query_scalar::<_, i32>("select n from generate_series(1, 100000) n").fetch(&mut connection);
    same(rows.try_next().await?, Some(1))?;
    drop(rows);
    let one: i32 = sqlx::query_scalar("select 1").fetch_one(&mut connection).await?;
    same(one, 1)
}

async fn copy(url: &str) -> Checked {
    let mut connection = connect(url).await?;
    connection
        .execute("drop table if exists c; create table c (id int primary key, t text)")
        .await?;
    let mut into = connection.copy_in_raw("copy c from stdin (format csv)").await?;
    into.send("1,one\n2,\"two, more\"\n".as_bytes()).await?;
    same(into.finish().await?, 2)?;
    let out: Vec<u8> = connection
        .copy_out_raw("copy c to stdout")
        .await?
        .try_fold(Vec::new(), |mut all, piece| async move {
            all.extend_from_slice(&piece);
            Ok(all)
        })
        .await?;
    same(
        String::from_utf8_lossy(&out).into_owned(),
        "1\tone\n2\ttwo, more\n".into(),
    )?;
    let into = connection.copy_in_raw("copy c from stdin").await?;
    into.abort("given up").await?;
    let count: i64 = sqlx::query_scalar("select count(*) from c")
        .fetch_one(&mut connection)
        .await?;
    same(count, 2)
}

async fn listener(url: &str) -> Checked {
    let mut listener = PgListener::connect(url).await?;
    listener.listen_all(["news", "Other news"]).await?;
    let mut teller = connect(url).await?;
    sqlx::query("select pg_notify($1, $2)")
        .bind("Other news")
        .bind("told")
        .execute(&mut teller)
        .await?;
    let heard = listener.recv().await?;
    same((heard.channel(), heard.payload()), ("Other news", "told"))
}

fn state_of(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(|code| code.into_owned())
}

async fn errors(url: &str) -> Checked {
    let mut connection = connect(url).await?;
    connection
        .execute("drop table if exists e; create table e (id int constraint e_key primary key, n int not null constraint positive check (n > 0)); insert into e values (1, 1)")
        .await?;
    for (n, state, constraint) in [
        (Some(1), "23505", "e_key"),
        (Some(0), "23514", "positive"),
        (None, "23502", ""),
    ] {
        let refused = sqlx::query("insert into e values (1, $1)")
            .bind(n)
            .execute(&mut connection)
            .await;
        let Err(sqlx::Error::Database(error)) = refused else {
            return Err(Failure::new(format!("no error {state}")));
        };
        same(error.code().as_deref(), Some(state))?;
        same(error.constraint().unwrap_or_default(), constraint)?;
        same(error.downcast_ref::<PgDatabaseError>().table(), Some("e"))?;
    }
    Ok(())
}

async fn changed_table(url: &str) -> Checked {
    let mut connection = connect(url).await?;
    connection
        .execute(
            "drop table if exists changed; create table changed (id int primary key); insert into changed values (1)",
        )
        .await?;
    let read = "select * from changed where id = $1";
    sqlx::query(read).bind(1).fetch_one(&mut connection).await?;
    connection.execute("alter table changed add column t text").await?;
    let refused = sqlx::query(read).bind(1).fetch_one(&mut connection).await;
    same(refused.err().and_then(|error| state_of(&error)), Some("0A000".into()))?;
    connection.clear_cached_statements().await?;
    let row = sqlx::query(read).bind(1).fetch_one(&mut connection).await?;
    same(row.columns().len(), 2)
}
