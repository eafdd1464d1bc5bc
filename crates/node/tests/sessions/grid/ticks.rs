//! Sessions on a node of a grid begin at its ticks, beside the transactions of the grid on the same rows.

use super::*;

fn is_row(told: &[ClientTold]) -> bool {
    let [ClientTold::Answer(_, answer)] = told else {
        return false;
    };
    matches!(answer, Answer::Row(Some(_)))
}

#[test]
fn sessions_and_transactions_of_the_grid_wake_each_other() {
    let mut site = Site::new();
    let ticket = site.begin();
    assert!(is_row(&site.lock(ticket)));
    site.send("UPDATE t SET v = v * 2 + id WHERE id = 1 RETURNING v");
    assert_eq!(site.said(), [""; 0], "it waits");
    site.node.commit(ticket);
    assert!(matches!(site.told()[..], [ClientTold::Ended(Ending::Committed(_))]));
    site.turn();
    assert_eq!(site.said()[1..3], ["D 201", "C UPDATE 1"]);
    // The other way round: the session's transaction is older.
    site.tell("BEGIN; SELECT v FROM t WHERE id = 1 FOR UPDATE");
    let ticket = site.begin();
    assert_eq!(site.lock(ticket), [], "it waits");
    site.woken.0.store(false, Ordering::Release);
    site.tell("COMMIT");
    assert!(
        site.woken.0.swap(false, Ordering::AcqRel),
        "whoever drives the grid is woken"
    );
    site.node.on_wake();
    assert!(is_row(&site.told()));
}

#[test]
fn a_session_has_its_turn_before_an_older_transaction_that_came_behind_it() {
    let mut site = Site::new();
    let older = site.begin();
    let first = site.begin();
    assert!(is_row(&site.lock(first)));
    // It waits for the row behind the first, and the oldest behind it.
    site.send("UPDATE t SET v = v * 2 + id WHERE id = 1 RETURNING v");
    assert_eq!(site.lock(older), []);
    site.node.commit(first);
    assert!(matches!(site.told()[..], [ClientTold::Ended(Ending::Committed(_))]));
    site.turn();
    assert_eq!(site.said()[1..3], ["D 201", "C UPDATE 1"]);
    site.node.on_wake();
    assert!(is_row(&site.told()));
    site.node.commit(older);
    site.told();
}

#[test]
fn while_a_node_is_busy_those_who_begin_wait_and_share_a_question() {
    let mut sites = pair();
    sites[1].node.put_off_questions(true);
    sites[1].send("CREATE TABLE t (id int PRIMARY KEY, v int)");
    assert_eq!(messages_of_work(&mut sites), 0);
    assert_eq!(sites[1].said(), [""; 0], "it has no tick");
    sites[1].node.put_off_questions(false);
    assert_ne!(messages_of_work(&mut sites), 0);
    assert_eq!(sites[1].said(), ["C CREATE TABLE", "Z I"]);
    // Nobody waits for it any more.
    sites[1].node.put_off_questions(true);
    sites[1].send("SELECT v FROM t");
    work(&mut sites);
    sites[1].node.put_off_questions(false);
    work(&mut sites);
    assert_eq!(sites[1].said()[1..], ["C SELECT 0", "Z I"]);
}

#[test]
fn away_from_the_stage_a_statement_begins_when_its_tick_has_come() {
    let mut sites = pair();
    sites[1].woken.0.store(false, Ordering::Release);
    sites[1].send("CREATE TABLE t (id int PRIMARY KEY, v int)");
    assert_eq!(sites[1].said(), [""; 0], "it has no tick");
    assert!(sites[1].woken.0.load(Ordering::Acquire), "the question has to be sent");
    sites[1].node.on_wake();
    talk(&mut sites);
    sites[1].turn();
    assert_eq!(sites[1].said(), ["C CREATE TABLE", "Z I"]);
    // What begins nothing waits for nobody, and a block has one tick.
    assert_eq!(sites[1].tell("SET search_path = public; BEGIN")[2..], ["Z T"]);
    sites[1].send("INSERT INTO t VALUES (1, 2)");
    assert_eq!(sites[1].said(), [""; 0]);
    sites[1].node.on_wake();
    talk(&mut sites);
    sites[1].turn();
    assert_eq!(sites[1].said(), ["C INSERT 0 1", "Z T"]);
    assert_eq!(sites[1].tell("SELECT v FROM t")[1], "D 2");
    assert_eq!(sites[1].tell("COMMIT"), ["C COMMIT", "Z I"]);
}

#[test]
fn a_statement_that_gets_no_tick_is_told_so_and_a_late_tick_is_not_used_for_the_next() {
    let mut sites = pair();
    sites[1].send("SELECT txid_current() > 0");
    assert_eq!(sites[1].said(), [""; 0]);
    sites[1].node.on_wake();
    sites[1].settle();
    let question = sites[1].node.poll_outgoing();
    assert_eq!(question.len(), 1);
    for round in 0..=i64::from(SILENT_ROUNDS_MAX) {
        sites[1].node.on_timer(clock_us() + round * 1_000_000);
    }
    sites[1].turn();
    let refused = "E 57P03 the timestamp stage of the grid does not answer";
    assert!(sites[1].said().contains(&refused.to_owned()));
    // The answer comes after all, when another statement waits: its tick was asked for before that one began.
    sites[1].send("SELECT 1 FROM generate_series(1, 1)");
    for (_, message) in question {
        sites[0].node.on_message(NodeId(1), message);
    }
    sites[0].settle();
    for (_, message) in sites[0].node.poll_outgoing() {
        sites[1].node.on_message(NodeId(0), message);
    }
    sites[1].turn();
    assert_eq!(sites[1].said(), [""; 0], "that tick is not for it");
    talk(&mut sites);
    sites[1].turn();
    assert_eq!(sites[1].said()[1], "D 1");
}

#[test]
fn an_old_version_is_kept_for_a_session_that_began_at_the_stage_itself() {
    let mut sites = pair();
    for site in &mut sites {
        site.send("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 100)");
    }
    for _ in 0..3 {
        for site in &mut sites {
            site.node.on_wake();
        }
        talk(&mut sites);
        sites.iter_mut().for_each(Site::turn);
    }
    sites.iter_mut().for_each(|site| drop(site.said()));
    assert_eq!(sites[0].tell("BEGIN")[1..], ["Z T"]);
    assert_eq!(sites[0].tell("SELECT v FROM t")[1], "D 100");
    // Others begin and end at both nodes, and the stage tells who is live.
    let mut rounds = 0..;
    let mut oldest_after = |sites: &mut [Site; 2]| {
        for round in rounds.by_ref().take(4) {
            for site in sites.iter_mut() {
                site.node.on_timer(clock_us() + round * 1_000_000);
            }
            talk(sites);
            let ticket = sites[1].node.begin(true).expect("a ticket");
            talk(sites);
            sites[1].node.roll_back(ticket);
        }
        sites[1].node.figures().oldest_live
    };
    let oldest = oldest_after(&mut sites);
    assert_eq!(oldest_after(&mut sites), oldest, "it may still come here");
    sites[0].tell("COMMIT");
    assert!(oldest_after(&mut sites) > oldest);
}

#[test]
fn what_needs_no_row_waits_for_nobody_and_moves_nothing_that_others_see() {
    let mut sites = followed();
    for _ in 0..50 {
        for site in &mut sites {
            // Without a word to the other node.
            assert_eq!(site.tell("SELECT 7")[1], "D 7");
        }
    }
    // The clocks stand at ticks that were handed out: what is defined and written now is seen by whoever begins now.
    ask_at(0, &mut sites, "CREATE TABLE t (id int PRIMARY KEY)");
    ask_at(1, &mut sites, "INSERT INTO t VALUES (1), (2)");
    for node in [0, 1] {
        assert_eq!(ask_at(node, &mut sites, "SELECT count(*) FROM t")[1], "D 2");
    }
    // And while the stage cannot be reached, what needs a row is told so at once.
    disconnect(&mut sites);
    assert_eq!(sites[1].tell("SELECT 7")[1], "D 7");
    let told = sites[1].tell("SELECT count(*) FROM t");
    assert!(told[0].starts_with("E 57P03"), "{told:?}");
}

#[test]
fn a_grid_of_one_node_asks_nobody_and_forces_nothing_but_its_commits() {
    let mut site = Site::kept_by(Some(NodeId(0)), 0, 1, Some(Arc::new(ByRows)));
    site.settle();
    site.tell("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (0, 0)");
    site.settle();
    let before = site.node.figures();
    assert!(before.leads && before.is_born);
    for round in 1..=50 {
        site.node.on_timer(clock_us() + round * 1_000_000);
        let told = site.tell(&format!("INSERT INTO t VALUES ({round}, 0)"));
        assert_eq!(told, ["C INSERT 0 1", "Z I"], "within the call");
        site.settle();
        assert_eq!(site.tell("SELECT v FROM t WHERE id = 0")[1], "D 0");
        assert!(site.node.poll_outgoing().is_empty());
    }
    let after = site.node.figures();
    assert_eq!(after.node.log_records - before.node.log_records, 50);
    assert_eq!(after.node.log_forces - before.node.log_forces, 50);
    assert_eq!(after.term, before.term);
}

/// A hot row of a node that is alone is kept as it was for those only who have begun, or may.
#[test]
fn a_node_that_is_alone_keeps_no_version_that_nobody_reads() {
    let mut site = Site::new();
    site.settle();
    let update = |site: &mut Site| {
        for _ in 0..300 {
            assert_eq!(site.tell("UPDATE t SET v = v + 1")[0], "C UPDATE 1");
            site.settle();
        }
        site.node.figures().node.memory_bytes
    };
    let (none, no_more) = (update(&mut site), update(&mut site));
    assert!(no_more < none + 2_000, "{none} and {no_more} bytes");
    // One of the grid's clients reads what was there when it began, as does a session.
    let reader = site.begin();
    let kept = update(&mut site);
    let read = Operation::Read {
        table: site.table,
        key: Key::of(&[Value::Int4(1)]),
        columns: ColumnSet::ALL,
    };
    assert!(site.node.operate(reader, NodeId(0), read));
    let told = site.told();
    let [ClientTold::Answer(_, Answer::Row(Some(row)))] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(row.get(1), Value::Int4(700));
    assert!(kept > no_more, "{no_more} and {kept} bytes");
    site.node.commit(reader);
    site.told();
}

/// Another node may read what was there when it began, from when it is a member.
#[test]
fn a_node_that_is_joined_keeps_versions_for_others() {
    let mut sites = [Site::new(), Site::of(1, 2, None)];
    assert_eq!(sites[0].tell("UPDATE t SET v = 200")[0], "C UPDATE 1");
    sites[0].settle();
    sites[0].node.set_members(vec![NodeId(0), NodeId(1)], NodeId(1));
    connect(&mut sites);
    let ticket = sites[1].node.begin(false).expect("a ticket");
    talk(&mut sites);
    assert!(matches!(sites[1].told()[..], [ClientTold::Began(_)]));
    assert_eq!(ask_at(0, &mut sites, "UPDATE t SET v = 300")[0], "C UPDATE 1");
    let read = Operation::Read {
        table: sites[0].table,
        key: Key::of(&[Value::Int4(1)]),
        columns: ColumnSet::ALL,
    };
    assert!(sites[1].node.operate(ticket, NodeId(0), read));
    talk(&mut sites);
    let told = sites[1].told();
    let [ClientTold::Answer(_, Answer::Row(Some(row)))] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(row.get(1), Value::Int4(200));
}

#[test]
fn who_has_got_an_advisory_lock_sees_what_was_done_under_it() {
    let mut sites = followed();
    let made = "CREATE TABLE h (n int PRIMARY KEY); INSERT INTO h VALUES (1), (2)";
    assert_eq!(ask_at(0, &mut sites, made)[1], "C INSERT 0 2");
    for (node, first) in [(0, "BEGIN"), (1, "BEGIN"), (0, "BEGIN ISOLATION LEVEL SERIALIZABLE")] {
        assert_eq!(ask_at(1 - node, &mut sites, "SELECT pg_advisory_lock(7)")[1], "D ");
        ask_at(node, &mut sites, first);
        let asked = ask_at(node, &mut sites, "SELECT now(); SELECT pg_try_advisory_xact_lock(7)");
        assert!(asked.contains(&"D f".to_owned()), "{asked:?}");
        let newest = [
            "INSERT INTO h SELECT max(n) + 1 FROM h",
            "SELECT pg_advisory_unlock(7)",
            "SELECT max(n) FROM h",
        ]
        .map(|sql| ask_at(1 - node, &mut sites, sql))[2][1]
            .clone();
        let asked = ask_at(
            node,
            &mut sites,
            "SELECT pg_try_advisory_xact_lock(7); SELECT max(n) FROM h",
        );
        assert!(asked.contains(&"D t".to_owned()), "{asked:?}");
        assert!(asked.contains(&newest), "at {node}: {asked:?}, and not {newest}");
        let told = ask_at(node, &mut sites, "INSERT INTO h SELECT max(n) + 1 FROM h; COMMIT");
        assert_eq!(told, ["C INSERT 0 1", "C COMMIT", "Z I"]);
        // The lock has gone with the block.
        assert_eq!(ask_at(1 - node, &mut sites, "SELECT pg_try_advisory_lock(7)")[1], "D t");
        assert_eq!(ask_at(1 - node, &mut sites, "SELECT pg_advisory_unlock(7)")[1], "D t");
    }
    // The time stays that of the block's beginning, also where its transaction begins later.
    ask_at(0, &mut sites, "CREATE TABLE at (t timestamptz); BEGIN");
    let begun = ask_at(0, &mut sites, "SELECT now()");
    std::thread::sleep(std::time::Duration::from_millis(2));
    let told = ask_at(0, &mut sites, "INSERT INTO at SELECT now() FROM h LIMIT 1 RETURNING t");
    assert_eq!(told[1], begun[1]);
    ask_at(0, &mut sites, "COMMIT");
}
