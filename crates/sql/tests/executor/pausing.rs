use crate::world::*;
use rubato_sql::executor::{Cursor, Progress};
use rubato_sql::plan::*;

#[test]
fn a_cursor_goes_on_where_it_paused() {
    let mut world = World::new();
    let t = world.create(table("t", 1));
    world
        .run(
            insert(&t, (0..600).map(|id| vec![int(id), int(0), text("x")]).collect()),
            &[],
        )
        .unwrap();
    let by_join = || {
        select(vec![
            step(&t, full(), 0),
            step(&t, Access::Point(vec![rubato_formula::Expr::Column(0)]), 3),
        ])
    };
    let sorted = || {
        let mut plan = select_plan(vec![step(&t, full(), 0)]);
        plan.order_by = vec![SortKey {
            column: 0,
            descending: true,
            nulls_first: false,
        }];
        PlanBody::Select(plan)
    };
    for body in [by_join(), sorted(), select(vec![step(&t, full(), 0)])] {
        let transaction = world.begin();
        let mut cursor = Cursor::new(plan(body));
        let mut rows = Vec::new();
        loop {
            let (more, progress) = world.step(transaction, &mut cursor, &[], 7).unwrap();
            assert!(more.len() <= 7);
            rows.extend(more);
            if let Progress::Complete(completion) = progress {
                assert_eq!(completion.rows, 600);
                break;
            }
        }
        assert_eq!(rows.len(), 600);
        rows.sort();
        rows.dedup();
        assert_eq!(rows.len(), 600);
        world.commit(transaction).unwrap();
    }
}

#[test]
fn ranges_go_on_where_they_paused() {
    let mut world = World::new();
    let mut t = table("t", 1);
    t.indexes.push(index(2, "t_a", &[1], false));
    let t = world.create(t);
    let rows = (0..60).map(|id| vec![int(id), int(id % 6), text("x")]).collect();
    world.run(insert(&t, rows), &[]).unwrap();
    let part = |number| Alternative {
        prefix: vec![KeyPart::Any(vec![int(number), int(number + 2), null(), int(99)])],
        bounds: Bounds::All,
    };
    let access = |index, reverse| {
        let alternatives = vec![part(3), part(1)];
        Access::Ranges(RangesAccess {
            index,
            alternatives,
            reverse,
        })
    };
    for (index, count) in [(None, 3), (Some(0), 30)] {
        for reverse in [false, true] {
            let body = || select(vec![step(&t, access(index, reverse), 0)]);
            world.rows_left = usize::MAX;
            let (whole, _) = world.run(body(), &[]).unwrap();
            assert_eq!(whole.len(), count);
            for rows_left in 1..9 {
                world.rows_left = rows_left;
                for max_rows in [1, 3, 100] {
                    let transaction = world.begin();
                    let mut cursor = Cursor::new(plan(body()));
                    let mut rows = Vec::new();
                    loop {
                        let (more, progress) = world.step(transaction, &mut cursor, &[], max_rows).unwrap();
                        rows.extend(more);
                        if let Progress::Complete(_) = progress {
                            break;
                        }
                    }
                    assert_eq!(rows, whole, "{index:?}, {reverse}, {rows_left}, {max_rows}");
                    world.commit(transaction).unwrap();
                }
                let gone = PlanBody::Delete(delete_plan(&t, access(index, false)));
                let transaction = world.begin();
                let mut cursor = Cursor::new(plan(gone));
                let completion = loop {
                    let (_, progress) = world.step(transaction, &mut cursor, &[], 100).unwrap();
                    if let Progress::Complete(completion) = progress {
                        break completion;
                    }
                };
                assert_eq!(completion.rows, count as u64);
                world.database.rollback(transaction);
            }
        }
    }
}

#[test]
fn a_sink_that_says_stop_is_not_given_more() {
    let mut world = World::new();
    let t = world.create(table("t", 1));
    world
        .run(
            insert(&t, (0..10).map(|id| vec![int(id), int(0), text("x")]).collect()),
            &[],
        )
        .unwrap();
    let transaction = world.begin();
    let mut cursor = Cursor::new(plan(select(vec![step(&t, full(), 0)])));
    let mut given = 0;
    let progress = world.with_context(transaction, &[], |context| {
        cursor.run(context, usize::MAX, &mut |_| {
            given += 1;
            given < 4
        })
    });
    assert_eq!((given, progress.unwrap()), (4, Progress::Suspended));
    let (rest, _) = world.step(transaction, &mut cursor, &[], usize::MAX).unwrap();
    assert_eq!(rest.len(), 6);
}

#[test]
fn a_portal_of_one_row_is_suspended_at_its_limit_as_in_postgresql() {
    let mut world = World::new();
    let t = world.create(table("t", 1));
    world
        .run(insert(&t, vec![vec![int(1), int(0), text("x")]]), &[])
        .unwrap();
    let transaction = world.begin();
    let mut cursor = Cursor::new(plan(select(vec![step(&t, point(1), 0)])));
    assert_eq!(
        world.step(transaction, &mut cursor, &[], 1).unwrap().1,
        Progress::Suspended
    );
    let (rows, progress) = world.step(transaction, &mut cursor, &[], 1).unwrap();
    assert_eq!((rows.len(), completion(progress).rows), (0, 1));
}

#[test]
fn a_limit_reads_no_further_than_it_must() {
    let mut world = World::new();
    let t = world.create(table("t", 1));
    world
        .run(
            insert(&t, (0..500).map(|id| vec![int(id), int(0), text("x")]).collect()),
            &[],
        )
        .unwrap();
    let mut first = select_plan(vec![step(&t, full(), 0)]);
    first.limit = Some(int(1));
    let transaction = world.begin();
    let mut cursor = Cursor::new(plan(PlanBody::Select(first)));
    world.step(transaction, &mut cursor, &[], usize::MAX).unwrap();
    assert_eq!(cursor.step_counters()[0].lookups, 1);
    // Others may change what was not visited, also before this reader commits a write of its own.
    let elsewhere = update_plan(&t, point(400), vec![(1, int(9))]);
    world.run(PlanBody::Update(elsewhere), &[]).unwrap();
    let own = update_plan(&t, point(300), vec![(1, int(9))]);
    world.run_in(transaction, PlanBody::Update(own), &[]).unwrap();
    world.commit(transaction).unwrap();
}
