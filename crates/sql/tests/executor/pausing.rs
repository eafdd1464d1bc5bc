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
