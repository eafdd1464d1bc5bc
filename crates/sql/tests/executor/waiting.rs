use crate::world::*;
use rubato_base::SqlState;
use rubato_formula::{Comparison, Expr};
use rubato_protocol::Stop;
use rubato_sql::executor::Cursor;
use rubato_sql::plan::*;

fn locking(wait: LockWait, mut plan: SelectPlan) -> PlanBody {
    plan.lock = Some(RowLock { steps: vec![0], wait });
    PlanBody::Select(plan)
}

#[test]
fn a_statement_that_waited_runs_again_on_the_newest_row() {
    let mut world = World::new();
    let t = world.create(table("t", 1));
    world
        .run(insert(&t, vec![vec![int(1), int(5), text("x")]]), &[])
        .unwrap();
    let ordered = |amount| {
        let plan = update_plan(&t, point(1), vec![(1, operator(Expr::Column(1), "*", int(amount)))]);
        PlanBody::Update(UpdatePlan {
            ordered_because: Some("test".into()),
            ..plan
        })
    };
    let (first, second) = (world.begin(), world.begin());
    world.run_in(first, ordered(2), &[]).unwrap();
    let mut cursor = Cursor::new(plan(ordered(10)));
    let savepoint = world.database.savepoint(second);
    assert!(matches!(
        world.step(second, &mut cursor, &[], usize::MAX),
        Err(Stop::Wait(_))
    ));
    world.database.undo_statement(second, savepoint);
    world.commit(first).unwrap();
    assert_eq!(world.database.take_woken()[0].0, second);
    world.step(second, &mut cursor, &[], usize::MAX).unwrap();
    world.commit(second).unwrap();
    assert_eq!(world.rows(&t), ["1|100|x"]);
}

#[test]
fn busy_rows_are_waited_for_refused_or_skipped() {
    let mut world = World::new();
    let mut t = table("t", 1);
    t.indexes.push(index(2, "t_a", &[1], false));
    let t = world.create(t);
    world
        .run(
            insert(&t, (1..=3).map(|id| vec![int(id), int(0), text("x")]).collect()),
            &[],
        )
        .unwrap();
    let owner = world.begin();
    world
        .run_in(
            owner,
            locking(LockWait::Queue, select_plan(vec![step(&t, point(1), 0)])),
            &[],
        )
        .unwrap();
    let accesses = || {
        [
            full(),
            Access::Range(range(Some(0), vec![int(0)])),
            Access::Points((1..=3).map(|id| vec![int(id)]).collect()),
        ]
    };
    for sorted in [false, true] {
        for access in accesses() {
            let mut plan = select_plan(vec![step(&t, access, 0)]);
            plan.limit = Some(int(1));
            if sorted {
                plan.order_by = vec![SortKey {
                    column: 0,
                    descending: false,
                    nulls_first: false,
                }];
            }
            let other = world.begin();
            let (rows, _) = world.run_in(other, locking(LockWait::SkipLocked, plan), &[]).unwrap();
            assert_eq!(rows, ["2|0|x"]);
            world.database.rollback(other);
        }
        for access in accesses() {
            let other = world.begin();
            let plan = select_plan(vec![step(&t, access, 0)]);
            let Err(Stop::Fail(error)) = world.run_in(other, locking(LockWait::NoWait, plan), &[]) else {
                panic!()
            };
            assert_eq!(error.code(), SqlState::LOCK_NOT_AVAILABLE);
            assert_eq!(error.message(), "could not obtain lock on row in relation \"t\"");
            world.database.rollback(other);
        }
        for access in accesses() {
            let other = world.begin();
            let plan = select_plan(vec![step(&t, access, 0)]);
            assert!(matches!(
                world.run_in(other, locking(LockWait::Queue, plan), &[]),
                Err(Stop::Wait(_))
            ));
            world.database.rollback(other);
        }
    }
}

#[test]
fn a_locked_row_is_asked_again_by_its_newest_value() {
    let mut world = World::new();
    let t = world.create(table("t", 1));
    world
        .run(insert(&t, vec![vec![int(1), int(0), text("x")]]), &[])
        .unwrap();
    let reader = world.begin();
    world
        .run(PlanBody::Update(update_plan(&t, point(1), vec![(1, int(1))])), &[])
        .unwrap();
    let mut plan = select_plan(vec![step(&t, point(1), 0)]);
    plan.filter = Some(compare(Expr::Column(1), Comparison::Equal, int(1)));
    let (rows, _) = world.run_in(reader, locking(LockWait::Queue, plan), &[]).unwrap();
    assert_eq!(rows, ["1|1|x"]);
    world.commit(reader).unwrap();
}

#[test]
fn blind_updates_of_one_row_do_not_wait() {
    let mut world = World::new();
    let t = world.create(table("t", 1));
    world
        .run(insert(&t, vec![vec![int(1), int(0), text("x")]]), &[])
        .unwrap();
    let transactions: Vec<_> = (0..20).map(|_| world.begin()).collect();
    for transaction in &transactions {
        let add = update_plan(&t, point(1), vec![(1, operator(Expr::Column(1), "+", int(1)))]);
        assert_eq!(
            world.run_in(*transaction, PlanBody::Update(add), &[]).unwrap().1,
            "UPDATE 1"
        );
    }
    transactions
        .into_iter()
        .rev()
        .for_each(|transaction| world.commit(transaction).unwrap());
    assert_eq!(world.rows(&t), ["1|20|x"]);
}
