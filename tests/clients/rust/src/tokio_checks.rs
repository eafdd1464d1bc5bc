//! tokio-postgres: typed statements, pipelining, COPY, portals, cancel, transactions, errors.

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use futures_util::future::{join_all, try_join_all};
use futures_util::{SinkExt, StreamExt, TryStreamExt};
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{NoTls, SimpleQueryMessage};
use uuid::Uuid;

use crate::report::{Checked, Failure, check, require};
use crate::session::connect;

/// Runs every check on a session of its own; true if all held.
pub async fn run(url: &str) -> Result<bool, Failure> {
    let mut held = check("typed values there and back", typed_values(url)).await;
    held &= check("null of every type", nulls(url)).await;
    held &= check("pipelining", pipelining(url)).await;
    held &= check("copy in and out as text", copy_text(url)).await;
    held &= check("copy in and out as binary", copy_binary(url)).await;
    held &= check("copy that the client gives up", copy_given_up(url)).await;
    held &= check("portal with row limits", portal(url)).await;
    held &= check("transactions and savepoints", transactions(url)).await;
    held &= check("errors carry their fields", errors(url)).await;
    held &= check("statement inference", inference(url)).await;
    held &= check("a prepared statement after its table changed", changed_table(url)).await;
    held &= check("cancel of a statement that waits", cancel(url)).await;
    held &= check("a connection that dies lets its locks go", dropped_connection(url)).await;
    held &= check("large values and many parameters", large(url)).await;
    held &= check("simple query with several statements", simple(url)).await;
    Ok(held)
}

const ALL_TYPES: &str = "drop table if exists typed; create table typed (id int primary key, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, t text, v varchar(10), y bytea, d date, ts timestamp, tz timestamptz, u uuid)";

async fn typed_values(url: &str) -> Checked {
    let client = connect(url).await?;
    client.batch_execute(ALL_TYPES).await?;
    let date = NaiveDate::from_ymd_opt(1987, 2, 28).ok_or_else(|| Failure::new("a date"))?;
    let at: NaiveDateTime = date
        .and_hms_micro_opt(23, 59, 58, 123_456)
        .ok_or_else(|| Failure::new("a time"))?;
    let zoned: DateTime<Utc> = at.and_utc();
    let (uuid, bytes) = (
        Uuid::from_u128(0x1234_5678_9abc_def0_1122_3344_5566_7788),
        vec![0u8, 255, 10, 13],
    );
    let insert = "insert into typed values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
    let inserted = client
        .execute(
            insert,
            &[
                &1i32,
                &true,
                &i16::MIN,
                &i32::MAX,
                &i64::MIN,
                &1.5f32,
                &-0.1f64,
                &"grün ☃",
                &"ten chars!",
                &bytes,
                &date,
                &at,
                &zoned,
                &uuid,
            ],
        )
        .await?;
    require(inserted == 1, || format!("{inserted} rows inserted"))?;
    let row = client.query_one("select * from typed where id = $1", &[&1i32]).await?;
    let numbers: (bool, i16, i32, i64, f32, f64) = (
        row.get("b"),
        row.get("i2"),
        row.get("i4"),
        row.get("i8"),
        row.get("f4"),
        row.get("f8"),
    );
    require(numbers == (true, i16::MIN, i32::MAX, i64::MIN, 1.5, -0.1), || {
        format!("{numbers:?}")
    })?;
    let texts: (String, String, Vec<u8>) = (row.get("t"), row.get("v"), row.get("y"));
    require(
        texts == ("grün ☃".into(), "ten chars!".into(), bytes.clone()),
        || format!("{texts:?}"),
    )?;
    let times: (NaiveDate, NaiveDateTime, DateTime<Utc>, Uuid) =
        (row.get("d"), row.get("ts"), row.get("tz"), row.get("u"));
    require(times == (date, at, zoned, uuid), || format!("{times:?}"))?;
    let sql = "select id from typed where d = $1 and u = $2 and y = $3 and i8 < $4";
    let found = client.query(sql, &[&date, &uuid, &bytes, &0i64]).await?;
    require(found.len() == 1, || {
        "comparison with typed parameters found nothing".into()
    })
}

async fn nulls(url: &str) -> Checked {
    let client = connect(url).await?;
    client.batch_execute(ALL_TYPES).await?;
    client
        .execute(
            "insert into typed (id, b, i8, t, y, d) values ($1, $2, $3, $4, $5, $6)",
            &[
                &2i32,
                &None::<bool>,
                &None::<i64>,
                &None::<String>,
                &None::<Vec<u8>>,
                &None::<NaiveDate>,
            ],
        )
        .await?;
    let row = client.query_one("select * from typed where id = 2", &[]).await?;
    let all_null = row.get::<_, Option<bool>>(1).is_none()
        && row.get::<_, Option<i64>>("i8").is_none()
        && row.get::<_, Option<String>>("t").is_none()
        && row.get::<_, Option<Vec<u8>>>("y").is_none()
        && row.get::<_, Option<Uuid>>("u").is_none();
    require(all_null, || "a null came back as a value".into())
}

async fn pipelining(url: &str) -> Checked {
    let client = connect(url).await?;
    client
        .batch_execute("drop table if exists pipe; create table pipe (id int primary key, n int)")
        .await?;
    let insert = client.prepare("insert into pipe values ($1, $2)").await?;
    let keys: Vec<i32> = (0..500).collect();
    try_join_all(keys.iter().map(|key| {
        let (client, insert) = (&client, &insert);
        async move { client.execute(insert, &[key, key]).await }
    }))
    .await?;
    let select = client.prepare("select n from pipe where id = $1").await?;
    let rows = try_join_all(keys.iter().map(|key| {
        let (client, select) = (&client, &select);
        async move { client.query_one(select, &[key]).await }
    }))
    .await?;
    for (key, row) in keys.iter().zip(rows) {
        require(row.get::<_, i32>(0) == *key, || {
            format!("answers are out of order at {key}")
        })?;
    }
    // An error in the middle of a pipeline belongs to its own statement only.
    let mixed = [1000, 7, 1001, 7, 1002];
    let outcomes = join_all(mixed.iter().map(|key| {
        let (client, insert) = (&client, &insert);
        async move { client.execute(insert, &[key, key]).await.is_ok() }
    }))
    .await;
    require(outcomes == [true, false, true, false, true], || format!("{outcomes:?}"))
}

async fn copy_text(url: &str) -> Checked {
    let client = connect(url).await?;
    client
        .batch_execute("drop table if exists copied; create table copied (id int primary key, t text)")
        .await?;
    let sink = client.copy_in::<_, Bytes>("copy copied from stdin").await?;
    let mut sink = std::pin::pin!(sink);
    for chunk in ["1\ton", "e\n2\t\\N\n", "3\tthree\\nlines\n"] {
        sink.send(Bytes::from(chunk)).await?;
    }
    require(sink.finish().await? == 3, || "COPY counted other than 3".into())?;
    let out: Vec<Bytes> = client.copy_out("copy copied to stdout").await?.try_collect().await?;
    let text = String::from_utf8_lossy(&out.concat()).into_owned();
    require(text == "1\tone\n2\t\\N\n3\tthree\\nlines\n", || format!("{text:?}"))
}

async fn copy_binary(url: &str) -> Checked {
    let client = connect(url).await?;
    client
        .batch_execute(
            "drop table if exists copied; create table copied (id int8 primary key, t text, f float8, u uuid)",
        )
        .await?;
    let types = [Type::INT8, Type::TEXT, Type::FLOAT8, Type::UUID];
    let sink = client.copy_in("copy copied from stdin (format binary)").await?;
    let writer = BinaryCopyInWriter::new(sink, &types);
    let mut writer = std::pin::pin!(writer);
    for id in 0..1000i64 {
        let text = (id % 3 > 0).then(|| format!("row {id}"));
        writer
            .as_mut()
            .write(&[&id, &text, &(id as f64 / 4.0), &Uuid::from_u128(id as u128)])
            .await?;
    }
    require(writer.finish().await? == 1000, || "COPY counted other than 1000".into())?;
    let stream = BinaryCopyOutStream::new(client.copy_out("copy copied to stdout (format binary)").await?, &types);
    let mut stream = std::pin::pin!(stream);
    let (mut rows, mut sum) = (0, 0);
    while let Some(row) = stream.next().await {
        let row = row?;
        let (id, text): (i64, Option<&str>) = (row.get(0), row.get(1));
        require(
            text.is_some() == (id % 3 > 0) && row.get::<f64>(2) == id as f64 / 4.0,
            || format!("row {id} came back changed"),
        )?;
        rows += 1;
        sum += id;
    }
    require((rows, sum) == (1000, 499_500), || format!("{rows} rows, sum {sum}"))
}

async fn copy_given_up(url: &str) -> Checked {
    let client = connect(url).await?;
    client
        .batch_execute("drop table if exists copied; create table copied (id int primary key, t text)")
        .await?;
    {
        let sink = client.copy_in::<_, Bytes>("copy copied from stdin").await?;
        let mut sink = std::pin::pin!(sink);
        sink.send(Bytes::from_static(b"1\tone\n")).await?;
        // Dropped without finish: tokio-postgres sends CopyFail.
    }
    let n: i64 = client.query_one("select count(*) from copied", &[]).await?.get(0);
    require(n == 0, || format!("{n} rows of an abandoned COPY were loaded"))
}

async fn portal(url: &str) -> Checked {
    let mut client = connect(url).await?;
    client
        .batch_execute("drop table if exists many; create table many (id int primary key)")
        .await?;
    let sink = client.copy_in::<_, Bytes>("copy many from stdin").await?;
    let mut sink = std::pin::pin!(sink);
    sink.send(Bytes::from((0..1000).map(|id| format!("{id}\n")).collect::<String>()))
        .await?;
    sink.finish().await?;
    let transaction = client.transaction().await?;
    let portal = transaction
        .bind("select id from many where id >= $1 order by id", &[&100i32])
        .await?;
    let mut next = 100;
    loop {
        let rows = transaction.query_portal(&portal, 77).await?;
        if rows.is_empty() {
            break;
        }
        require(rows.len() <= 77, || {
            format!("{} rows where 77 were asked for", rows.len())
        })?;
        for row in &rows {
            require(row.get::<_, i32>(0) == next, || format!("row {next} is missing"))?;
            next += 1;
        }
        // Other work between two batches of the same portal.
        transaction
            .query_one("select count(*) from many where id = 5", &[])
            .await?;
        transaction
            .execute("insert into many values ($1)", &[&(10_000 + next)])
            .await?;
    }
    require(next == 1000, || format!("the portal ended at {next}"))?;
    transaction.commit().await?;
    Ok(())
}

async fn transactions(url: &str) -> Checked {
    let mut client = connect(url).await?;
    client
        .batch_execute("drop table if exists steps; create table steps (id int primary key)")
        .await?;
    let mut transaction = client.transaction().await?;
    transaction.execute("insert into steps values (1)", &[]).await?;
    let inner = transaction.transaction().await?;
    inner.execute("insert into steps values (2)", &[]).await?;
    inner.rollback().await?;
    let inner = transaction.savepoint("kept").await?;
    inner.execute("insert into steps values (3)", &[]).await?;
    let refused = inner.execute("insert into steps values (3)", &[]).await;
    require(refused.is_err(), || "a key was inserted twice".into())?;
    inner.rollback().await?;
    transaction.execute("insert into steps values (4)", &[]).await?;
    transaction.commit().await?;
    let dropped = client.transaction().await?;
    dropped.execute("insert into steps values (5)", &[]).await?;
    drop(dropped);
    let ids: Vec<i32> = client
        .query("select id from steps order by id", &[])
        .await?
        .iter()
        .map(|row| row.get(0))
        .collect();
    require(ids == [1, 4], || format!("{ids:?}"))?;
    let read_only = client.build_transaction().read_only(true).start().await?;
    let state = read_only
        .execute("insert into steps values (6)", &[])
        .await
        .err()
        .and_then(|error| error.code().cloned());
    require(state == Some(SqlState::READ_ONLY_SQL_TRANSACTION), || {
        format!("{state:?}")
    })
}

async fn errors(url: &str) -> Checked {
    let client = connect(url).await?;
    client.batch_execute("drop table if exists strict; create table strict (id int primary key, n int not null constraint n_small check (n < 10))").await?;
    client.execute("insert into strict values (1, 1)", &[]).await?;
    for (sql, state, constraint) in [
        ("insert into strict values (1, 2)", "23505", Some("strict_pkey")),
        ("insert into strict values (2, 20)", "23514", Some("n_small")),
        ("insert into strict values (2, null)", "23502", None),
        ("select * from nowhere", "42P01", None),
        ("select nothing from strict", "42703", None),
        ("selec 1", "42601", None),
        ("select 1/0", "22012", None),
        ("select 'x'::int", "22P02", None),
        ("update strict set n = n + 2147483647", "22003", None),
    ] {
        let error = client
            .query(sql, &[])
            .await
            .err()
            .ok_or_else(|| Failure::new(format!("no error: {sql}")))?;
        let db = error
            .as_db_error()
            .ok_or_else(|| Failure::new(format!("{sql}: {error}")))?;
        require(db.code().code() == state, || {
            format!("{sql}: {} {}", db.code().code(), db.message())
        })?;
        require(db.constraint() == constraint, || {
            format!("{sql}: constraint {:?}", db.constraint())
        })?;
        require(db.severity() == "ERROR", || {
            format!("{sql}: severity {}", db.severity())
        })?;
    }
    let error = client
        .query("select nothing from strict", &[])
        .await
        .err()
        .ok_or_else(|| Failure::new("no error"))?;
    let position = error.as_db_error().and_then(|db| db.position().cloned());
    require(
        position == Some(tokio_postgres::error::ErrorPosition::Original(8)),
        || format!("position {position:?}"),
    )?;
    let n: i64 = client.query_one("select count(*) from strict", &[]).await?.get(0);
    require(n == 1, || format!("{n} rows after the errors"))
}

async fn inference(url: &str) -> Checked {
    let client = connect(url).await?;
    client.batch_execute(ALL_TYPES).await?;
    let statement = client
        .prepare("insert into typed (id, i8, t, d) values ($1, $2, $3, $4) returning i8 + $2, t")
        .await?;
    require(
        statement.params() == [Type::INT4, Type::INT8, Type::TEXT, Type::DATE],
        || format!("{:?}", statement.params()),
    )?;
    let columns: Vec<&Type> = statement.columns().iter().map(|column| column.type_()).collect();
    require(columns == [&Type::INT8, &Type::TEXT], || format!("{columns:?}"))?;
    let statement = client
        .prepare_typed("select $1 + 1, count(*), sum(i4), max(v) from typed", &[Type::INT8])
        .await?;
    let columns: Vec<&Type> = statement.columns().iter().map(|column| column.type_()).collect();
    require(
        columns == [&Type::INT8, &Type::INT8, &Type::INT8, &Type::TEXT] || columns[3] == &Type::VARCHAR,
        || format!("{columns:?}"),
    )
}

async fn changed_table(url: &str) -> Checked {
    let client = connect(url).await?;
    client.batch_execute("drop table if exists moved; create table moved (a int primary key, b int); insert into moved values (1, 2)").await?;
    let statement = client.prepare("select b from moved where a = $1").await?;
    require(
        client.query_one(&statement, &[&1i32]).await?.get::<_, i32>(0) == 2,
        || "first".into(),
    )?;
    client
        .batch_execute(
            "drop table moved; create table moved (b int, a int primary key); insert into moved values (3, 1)",
        )
        .await?;
    require(
        client.query_one(&statement, &[&1i32]).await?.get::<_, i32>(0) == 3,
        || "the old plan read the new table".into(),
    )?;
    let all = client.prepare("select * from moved where a = $1").await?;
    client.batch_execute("alter table moved drop b").await?;
    let changed = client.query(&all, &[&1i32]).await.err();
    let state = changed.and_then(|error| error.code().cloned());
    require(state == Some(SqlState::FEATURE_NOT_SUPPORTED), || format!("{state:?}"))?;
    client.batch_execute("drop table moved").await?;
    let state = client
        .query(&statement, &[&1i32])
        .await
        .err()
        .and_then(|error| error.code().cloned());
    require(state == Some(SqlState::UNDEFINED_TABLE), || format!("{state:?}"))
}

async fn cancel(url: &str) -> Checked {
    let (holder, waiter) = (connect(url).await?, connect(url).await?);
    holder
        .batch_execute(
            "drop table if exists held; create table held (id int primary key, n int); insert into held values (1, 0)",
        )
        .await?;
    holder
        .batch_execute("begin; select * from held where id = 1 for update")
        .await?;
    let token = waiter.cancel_token();
    let waiting = tokio::spawn(async move {
        waiter
            .query("select n from held where id = 1 for update", &[])
            .await
            .map(|_| waiter_done())
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    require(!waiting.is_finished(), || "FOR UPDATE did not wait for the row".into())?;
    token.cancel_query(NoTls).await?;
    let outcome = tokio::time::timeout(Duration::from_secs(5), waiting).await;
    let state = outcome
        .map_err(|_| Failure::new("the cancelled statement did not end"))??
        .err()
        .and_then(|error| error.code().cloned());
    require(state == Some(SqlState::QUERY_CANCELED), || format!("{state:?}"))?;
    holder.batch_execute("commit").await?;
    Ok(())
}

fn waiter_done() {}

async fn dropped_connection(url: &str) -> Checked {
    let (holder, other) = (connect(url).await?, connect(url).await?);
    other
        .batch_execute(
            "drop table if exists held; create table held (id int primary key, n int); insert into held values (1, 0)",
        )
        .await?;
    holder
        .batch_execute("begin; update held set n = 5 where id = 1; select * from held where id = 1 for update")
        .await?;
    drop(holder);
    let wait = tokio::time::timeout(
        Duration::from_secs(5),
        other.query_one("select n from held where id = 1 for update", &[]),
    );
    let row = wait.await.map_err(|_| Failure::new("the row stayed locked"))??;
    require(row.get::<_, i32>(0) == 0, || "an uncommitted update was seen".into())
}

async fn large(url: &str) -> Checked {
    let client = connect(url).await?;
    client
        .batch_execute("drop table if exists big; create table big (id int primary key, t text)")
        .await?;
    let megabyte: String = "0123456789abcdef".repeat(65536);
    client.execute("insert into big values (1, $1)", &[&megabyte]).await?;
    let row = client
        .query_one("select t, length(t) from big where id = 1", &[])
        .await?;
    require(
        row.get::<_, &str>(0) == megabyte && row.get::<_, i32>(1) == 1 << 20,
        || "a megabyte came back changed".into(),
    )?;
    let keys: Vec<i32> = (2..1002).collect();
    let places: Vec<String> = (1..=keys.len()).map(|n| format!("(${n}, 'x')")).collect();
    let parameters: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = keys.iter().map(|key| key as _).collect();
    let inserted = client
        .execute(&format!("insert into big values {}", places.join(", ")), &parameters)
        .await?;
    require(inserted == 1000, || format!("{inserted} rows by 1000 parameters"))
}

async fn simple(url: &str) -> Checked {
    let client = connect(url).await?;
    let script = "drop table if exists s; create table s (id int primary key); insert into s values (1), (2); select id from s order by id; update s set id = id + 10 where id = 1";
    let messages = client.simple_query(script).await?;
    let rows: Vec<&str> = messages
        .iter()
        .filter_map(|m| {
            if let SimpleQueryMessage::Row(row) = m {
                row.get(0)
            } else {
                None
            }
        })
        .collect();
    let counts: Vec<u64> = messages
        .iter()
        .filter_map(|m| {
            if let SimpleQueryMessage::CommandComplete(n) = m {
                Some(*n)
            } else {
                None
            }
        })
        .collect();
    require(rows == ["1", "2"] && counts == [0, 0, 2, 2, 1], || {
        format!("{rows:?} {counts:?}")
    })?;
    // Several statements of one message are one transaction.
    let failed = client
        .simple_query("insert into s values (50); insert into s values (2)")
        .await;
    require(failed.is_err(), || "a duplicate key was accepted".into())?;
    let n: i64 = client
        .query_one("select count(*) from s where id = 50", &[])
        .await?
        .get(0);
    require(n == 0, || "half of a failed script stayed".into())
}
