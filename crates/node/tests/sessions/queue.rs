//! A table as a queue of jobs, emptied by many sessions with SKIP LOCKED.

use crate::world::*;

const WORKERS: usize = 16;
const JOBS: usize = 64;

/// Every job is taken once, and nobody is ever refused: what a session skips does not concern it.
#[test]
fn every_job_is_done_once_and_nobody_runs_again() {
    let choices = [
        "select id from job where state = 'ready' order by id limit 1 for update skip locked",
        "select id from job where state = 'ready' order by made, id limit 1 for update skip locked",
        "select id from job where kind = 1 and state = 'ready' limit 1 for update skip locked",
        "select job.id from job join kind on kind.id = job.kind where state = 'ready' order by job.id limit 1
            for update of job skip locked",
    ];
    for choice in choices {
        let mut world = World::new(WORKERS);
        world.must(0, "create table kind (id int primary key); insert into kind values (1)");
        world.must(
            0,
            "create table job (id int primary key, kind int not null, made int not null, state text not null, done int);
             create index on job (kind, id)",
        );
        world.must(
            0,
            &format!("insert into job select g, 1, g % 7, 'ready', 0 from generate_series(1, {JOBS}) g"),
        );
        let before = world.node.figures().protocol.aborts;
        for _ in 0..JOBS / WORKERS {
            let mut taken = Vec::new();
            for worker in 0..WORKERS {
                world.must(worker, "begin");
                let rows = world.rows(worker, choice);
                assert_eq!(rows.len(), 1, "{choice}");
                taken.push(rows[0].clone());
            }
            for (worker, id) in taken.iter().enumerate().rev() {
                world.must(
                    worker,
                    &format!("update job set state = 'done', done = done + 1 where id = {id}"),
                );
                world.must(worker, "commit");
            }
        }
        assert_eq!(
            world.rows(0, "select count(*), sum(done) from job where state = 'done'"),
            [format!("{JOBS}|{JOBS}")]
        );
        assert_eq!(world.node.figures().protocol.aborts, before, "{choice}");
        assert!(world.rows(0, choice).is_empty());
    }
}

/// A row that nobody has locked but that no longer is as the snapshot has it is not taken.
#[test]
fn a_job_that_was_done_since_the_snapshot_is_not_taken() {
    let mut world = World::new(2);
    world.must(
        0,
        "create table other (id int primary key); create table job (id int primary key, state text not null)",
    );
    world.must(
        0,
        "insert into other values (1); insert into job values (1, 'ready'), (2, 'ready')",
    );
    world.must(1, "begin; select * from other");
    world.must(0, "update job set state = 'done' where id = 1");
    let taken = world.rows(
        1,
        "select id from job where state = 'ready' order by id limit 1 for update skip locked",
    );
    assert_eq!(taken, ["2"]);
    world.must(1, "delete from job where id = 2; commit");
    assert_eq!(world.rows(0, "select id from job"), ["1"]);
}

/// What was given is protected: the job's row is the newest, and whoever wants it waits.
#[test]
fn a_job_that_was_taken_is_held() {
    let mut world = World::new(2);
    world.must(
        0,
        "create table job (id int primary key, n int not null); insert into job values (1, 0)",
    );
    world.must(0, "begin; select id from job limit 1 for update skip locked");
    world.begin(1, "update job set n = n + 1 where id = 1 and n = 0");
    assert!(!world.is_idle(1));
    world.must(0, "update job set n = 5 where id = 1; commit");
    world.run();
    assert!(world.said(1).contains(&"C UPDATE 0".to_owned()));
}

#[test]
fn a_number_is_shown_when_the_record_that_others_wrote_of_it_is_forced() {
    let mut world = World::new(3);
    world.must(0, "create sequence s");
    world.node.force().expect("forced");
    assert_eq!(world.rows(0, "select nextval('s')"), ["1"]);
    let recorded_at = world.durable_at(0);
    assert_eq!(world.rows(1, "select nextval('s')"), ["2"]);
    assert_eq!(world.durable_at(1), recorded_at, "it is given again after a crash");
    world.must(2, "select 1");
    assert!(
        world.durable_at(2) < recorded_at,
        "who takes no number waits for nobody's"
    );
}
