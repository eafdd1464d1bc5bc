//! What the system views say: who waits for whom and where, what is hot, why transactions were refused.

use std::time::{Duration, Instant};

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::Options;
use crate::report::{Checked, Failure, check, require};
use crate::session::connect;

/// How long a view may take to show what happens.
const SHOWN_WITHIN: Duration = Duration::from_secs(10);

const TABLES: &str = "
    drop table if exists seen; create table seen (region int, name text, n int not null, primary key (region, name));
    insert into seen values (1, 'violin', 5), (1, 'bow', 5), (2, 'case', 5)";

/// Runs every check; true if all held.
pub async fn run(options: &Options) -> Result<bool, Failure> {
    let url = options.text("url")?;
    connect(url).await?.batch_execute(TABLES).await?;
    let mut held = check("a wait is shown with its place and its owner", a_wait(url)).await;
    held &= check("pending formulas make an item hot", pending(url)).await;
    held &= check("an abort is counted by its reason and place", an_abort(url)).await;
    held &= check("sessions and stages", sessions_and_stages(url)).await;
    held &= check("the server runs a block again under the same id", retried(url)).await;
    Ok(held)
}

/// The rows of a query as text, columns parted by `|`.
async fn rows(client: &Client, sql: &str) -> Result<Vec<String>, Failure> {
    let messages = client.simple_query(sql).await?;
    let row = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            let fields: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap_or("null")).collect();
            Some(fields.join("|"))
        }
        _ => None,
    };
    Ok(messages.into_iter().filter_map(row).collect())
}

/// Asks until the answer is as expected.
async fn shown(client: &Client, sql: &str, expected: &[&str]) -> Checked {
    let begun = Instant::now();
    loop {
        let found = rows(client, sql).await?;
        if found == expected {
            return Ok(());
        }
        require(begun.elapsed() < SHOWN_WITHIN, || {
            format!("{sql} gave {found:?} in place of {expected:?}")
        })?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn own_pid(client: &Client) -> Result<String, Failure> {
    Ok(rows(client, "select pg_backend_pid()").await?.concat())
}

async fn a_wait(url: &str) -> Checked {
    let (owner, waiter, looker) = (connect(url).await?, connect(url).await?, connect(url).await?);
    let (owner_pid, waiter_pid) = (own_pid(&owner).await?, own_pid(&waiter).await?);
    waiter.batch_execute("set application_name = 'the waiter'").await?;
    let take = "select n from seen where region = 1 and name = 'violin' for update";
    owner.batch_execute("begin").await?;
    owner.batch_execute(take).await?;
    let task = tokio::spawn(async move { waiter.batch_execute(take).await.map(|()| waiter) });
    let waits = "select pid, application_name, waits_for_pid, waits_for_state, reason, table_name, key, query from rubato.waits";
    let expected = format!("{waiter_pid}|the waiter|{owner_pid}|idle in transaction|queue|seen|(1, violin)|{take}");
    shown(&looker, waits, &[&expected]).await?;
    shown(
        &looker,
        "select count(*) from rubato.waits where waiting_ms >= 0",
        &["1"],
    )
    .await?;
    let hot = "select key, queue_length, waiting from rubato.hot_items where table_name = 'seen' and waiting > 0";
    shown(&looker, hot, &["(1, violin)|2|1"]).await?;
    let activity = format!("select state, wait_event_type, wait_event from pg_stat_activity where pid = {waiter_pid}");
    shown(&looker, &activity, &["active|Lock|queue"]).await?;
    let blocking = "select b.pid, w.pid from pg_locks w join pg_locks b on b.locktype = w.locktype and b.transactionid = w.transactionid and b.pid <> w.pid where not w.granted and b.granted";
    shown(&looker, blocking, &[&format!("{owner_pid}|{waiter_pid}")]).await?;
    owner.batch_execute("rollback").await?;
    let waiter = task.await??;
    shown(&looker, waits, &[]).await?;
    shown(
        &looker,
        &format!("select state from pg_stat_activity where pid = {waiter_pid}"),
        &["idle"],
    )
    .await?;
    drop(waiter);
    shown(
        &looker,
        &format!("select pid from pg_stat_activity where pid = {waiter_pid}"),
        &[],
    )
    .await
}

async fn pending(url: &str) -> Checked {
    let (first, second, looker) = (connect(url).await?, connect(url).await?, connect(url).await?);
    for writer in [&first, &second] {
        writer.batch_execute("begin").await?;
        let add = "update seen set n = n + 1 where region = 1 and name = 'bow'";
        writer.batch_execute(add).await?;
        writer.batch_execute(add).await?;
    }
    let hot = "select table_name, key, transactions, pending_formulas, queue_length, waiting from rubato.hot_items where pending_formulas > 0";
    shown(&looker, hot, &["seen|(1, bow)|2|4|0|0"]).await?;
    first.batch_execute("commit").await?;
    second.batch_execute("rollback").await?;
    shown(&looker, hot, &[]).await
}

async fn an_abort(url: &str) -> Checked {
    let (reader, writer) = (connect(url).await?, connect(url).await?);
    let count = "select count from rubato.aborts where reason = 'read_changed'";
    let before: i64 = rows(&writer, count).await?.concat().parse().unwrap_or(-1);
    reader.batch_execute("begin").await?;
    rows(&reader, "select n from seen where region = 2 and name = 'case'").await?;
    writer
        .batch_execute("update seen set n = 7 where region = 2 and name = 'case'")
        .await?;
    let write = "update seen set n = 8 where region = 2 and name = 'case'; commit";
    let refused = reader
        .batch_execute(write)
        .await
        .err()
        .and_then(|error| error.code().cloned());
    require(refused.is_some_and(|code| code.code() == "40001"), || {
        "the reader was not refused".into()
    })?;
    reader.batch_execute("rollback").await?;
    shown(&writer, count, &[&(before + 1).to_string()]).await?;
    let place = "select table_name, key, aborts, aborts_read_changed from rubato.hot_items where aborts > 0";
    shown(&writer, place, &["seen|(2, case)|1|1"]).await
}

async fn sessions_and_stages(url: &str) -> Checked {
    let client = connect(url).await?;
    let own = "select state, datname, usename is not null, query_start is not null, backend_start <= now(), query from pg_stat_activity where pid = pg_backend_pid()";
    shown(&client, own, &[&format!("active|rubato|t|t|t|{own}")]).await?;
    let stages = "select count(distinct stage), min(worker) from rubato.stages where handled >= 0";
    let found = rows(&client, stages).await?;
    require(found.len() == 1 && found[0].ends_with("|0"), || format!("{found:?}"))?;
    let figures = "select count(*) from rubato.statistics where name in ('commits', 'aborts.deadlock', 'waits.queue', 'log_forces', 'statements') and value >= 0";
    shown(&client, figures, &["5"]).await
}

/// The id was shown and a row count; then the transaction is refused inside the server. It keeps its id and is applied once.
async fn retried(url: &str) -> Checked {
    let (own, other) = (connect(url).await?, connect(url).await?);
    let aborts = "select sum(count)::int8 from rubato.aborts";
    let before: i64 = rows(&own, aborts).await?.concat().parse().unwrap_or(-1);
    own.batch_execute("begin").await?;
    let id = rows(&own, "select pg_current_xact_id()").await?.concat();
    // Ordered by its condition on another column, and then overwritten: it must be run again where it stands now.
    own.batch_execute("update seen set n = n + 100 where region = 2 and n < 1000")
        .await?;
    other.batch_execute("insert into seen values (2, 'rosin', 1)").await?;
    let again = own.batch_execute("commit").await;
    let after: i64 = rows(&other, aborts).await?.concat().parse().unwrap_or(-1);
    let status = rows(&other, &format!("select pg_xact_status({id})")).await?.concat();
    let applied = rows(&other, "select n from seen where region = 2 order by name").await?;
    let expected = if again.is_ok() { "committed" } else { "aborted" };
    require(status == expected, || {
        format!("{id} is {status}, its client was told {again:?}")
    })?;
    println!(
        "{} aborts in the server, then {status}; the rows are {applied:?}",
        after - before
    );
    let times = applied.first().is_some_and(|n| n == "107");
    require(again.is_err() || times, || {
        format!("it was applied otherwise than once: {applied:?}")
    })
}
