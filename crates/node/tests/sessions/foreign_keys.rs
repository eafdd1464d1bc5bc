//! Foreign keys: many rows at once, and two sessions at the two ends of one key.

use crate::world::*;

const CHILDREN: usize = 20_000;

/// A parent of 2,000 rows, with ten children each of the first half; `index` says whether the children have one.
fn family(sessions: usize, action: &str, index: bool) -> World {
    let mut world = World::new(sessions);
    world.must(0, "create table p (id int primary key)");
    world.must(
        0,
        &format!("create table c (id int primary key, p int references p on delete {action} on update {action})"),
    );
    if index {
        world.must(0, "create index on c (p)");
    }
    world.must(0, "insert into p select g from generate_series(1, 4000) g");
    world.must(
        0,
        &format!("insert into c select g, 1 + g % 2000 from generate_series(1, {CHILDREN}) g"),
    );
    world
}

/// Turns that a statement takes, and what it said.
fn turns(world: &mut World, sql: &str) -> (usize, Vec<String>) {
    world.send(0, [query(sql)]);
    let mut turns = 0;
    while !world.is_idle(0) {
        world.turn();
        turns += 1;
        assert!(turns < TURNS_MAX, "{sql} does not end");
    }
    (turns, world.said(0))
}

#[test]
fn children_without_an_index_are_looked_for_once_a_statement() {
    let mut world = family(1, "no action", false);
    let (taken, said) = turns(&mut world, "delete from p where id > 2000");
    assert!(said.contains(&"C DELETE 2000".to_owned()), "{said:?}");
    assert!(taken < 30, "the children were read for each row: {taken} turns");
    let (_, said) = turns(&mut world, "delete from p where id between 1990 and 2000");
    assert!(said[0].starts_with("E 23503"), "{said:?}");
    assert_eq!(world.rows(0, "select count(*) from p"), ["2000"]);
    let (taken, said) = turns(&mut world, "delete from p where id = 7");
    assert!(taken < 10 && said[0].starts_with("E 23503"), "{said:?}");
}

#[test]
fn many_children_follow_in_slices() {
    for index in [false, true] {
        let mut world = family(1, "cascade", index);
        let (taken, said) = turns(&mut world, "update p set id = id + 10000 where id <= 1000");
        assert!(said.contains(&"C UPDATE 1000".to_owned()), "{said:?}");
        assert!((3..60).contains(&taken), "{taken} turns");
        let kept = "select count(*), min(p), max(p) from c";
        assert_eq!(world.rows(0, kept), [format!("{CHILDREN}|1001|11000")]);
        let (taken, said) = turns(&mut world, "delete from p where id > 2000");
        assert!(said.contains(&"C DELETE 3000".to_owned()), "{said:?}");
        assert!((3..60).contains(&taken), "{taken} turns");
        assert_eq!(world.rows(0, kept), [format!("{}|1001|2000", CHILDREN / 2)]);
        let mut world = family(1, "set null", index);
        world.must(0, "delete from p where id <= 1000");
        assert_eq!(
            world.rows(0, "select count(*), count(p) from c"),
            [format!("{CHILDREN}|{}", CHILDREN / 2)]
        );
    }
}

/// One child is moved once, wherever the next parent goes.
#[test]
fn a_chain_of_keys_moves_each_child_once() {
    for index in [false, true] {
        let mut world = World::new(1);
        world.must(0, "create table p (id int primary key)");
        world.must(
            0,
            "create table c (id int primary key, p bigint references p on update cascade)",
        );
        if index {
            world.must(0, "create index on c (p, id)");
        }
        world.must(
            0,
            "insert into p values (3), (2), (1); insert into c values (1, 1), (2, 2), (3, 3)",
        );
        world.must(0, "update p set id = id + 10");
        assert_eq!(
            world.rows(0, "select id, p from c order by id"),
            ["1|11", "2|12", "3|13"]
        );
    }
}

/// Whoever ends first, no child is left without its parent, and both sessions come to an end.
#[test]
fn a_child_and_the_end_of_its_parent_do_not_pass_each_other() {
    for index in [false, true] {
        for child_first in [false, true] {
            for ends_child_first in [false, true] {
                let mut world = World::new(2);
                world.must(0, "create table p (id int primary key, note text)");
                world.must(0, "create table c (id int primary key, p int references p)");
                if index {
                    world.must(0, "create index on c (p)");
                }
                world.must(0, "insert into p values (1, ''), (2, '')");
                let insert = "begin; insert into c values (5, 1)";
                let delete = "begin; delete from p where id = 1";
                for first in [child_first, !child_first] {
                    if first {
                        world.begin(0, insert);
                    } else {
                        world.begin(1, delete);
                    }
                }
                for session in if ends_child_first { [0, 1] } else { [1, 0] } {
                    if world.is_idle(session) {
                        world.begin(session, "commit");
                    }
                }
                for session in [0, 1] {
                    world.run();
                    assert!(world.is_idle(session), "session {session} hangs");
                    world.begin(session, "commit");
                }
                let orphans = "select count(*) from c left join p on p.id = c.p where p.id is null";
                let (first, second) = (world.said(0), world.said(1));
                assert_eq!(world.rows(0, orphans), ["0"], "{first:?} {second:?}");
                let (children, parents) = (
                    world.rows(0, "select id from c"),
                    world.rows(0, "select id from p where id = 1"),
                );
                assert!(
                    children.len() == parents.len(),
                    "one of the two is done: {first:?} {second:?}"
                );
            }
        }
    }
}

#[test]
fn savepoints_take_back_what_referred_and_what_was_referred_to() {
    let mut world = World::new(2);
    world.must(
        0,
        "create table p (id int primary key); create table c (id int primary key, p int references p)",
    );
    world.must(0, "insert into p values (1), (2)");
    world.must(
        0,
        "begin; savepoint a; insert into c values (1, 1); rollback to a; delete from p where id = 1; commit",
    );
    world.must(0, "begin; insert into c values (2, 2); savepoint a");
    assert!(world.ask(0, "delete from p where id = 2")[0].starts_with("E 23503"));
    world.must(
        0,
        "rollback to a; delete from c where id = 2; delete from p where id = 2; savepoint b; insert into p values (3)",
    );
    world.must(0, "insert into c values (3, 3); rollback to b; commit");
    assert_eq!(world.rows(0, "select (id) from p"), Vec::<String>::new());
    assert_eq!(world.rows(0, "select id from c"), Vec::<String>::new());
}

/// What a row refers to by SET DEFAULT is to be there, also if it is what has just gone and the row had it before.
#[test]
fn a_default_that_is_set_refers_to_what_is_there() {
    let mut world = World::new(1);
    for made in [
        "create table p (id int primary key); insert into p values (8), (9)",
        "create table c (id int primary key, p int default 9 references p on delete set default on update set default)",
        "insert into c values (1, 9), (2, 8)",
    ] {
        world.must(0, made);
    }
    for gone in [
        "delete from p where id = 9",
        "update p set id = 10 where id = 9",
        "delete from p",
    ] {
        let told = world.ask(0, gone);
        assert!(told[0].starts_with("E 23503"), "{gone}: {told:?}");
    }
    world.must(0, "delete from p where id = 8");
    assert_eq!(world.rows(0, "select id, p from c order by id"), ["1|9", "2|9"]);
}
