use crate::world::*;
use rubato_base::{Error, SqlState};
use rubato_formula::{Comparison, Expr};
use rubato_sql::catalog::ReferentialAction;
use rubato_sql::plan::*;

fn fields(error: &Error) -> (SqlState, &str, &str) {
    (
        error.code(),
        error.message(),
        error.fields().detail.as_deref().unwrap_or(""),
    )
}

#[test]
fn what_violates_a_constraint_is_refused_in_postgresqls_words() {
    let mut world = World::new();
    let mut t = table("t", 1);
    t.indexes.push(index(2, "t_b_key", &[2], true));
    t.checks.push(check(
        "t_a_check",
        compare(Expr::Column(1), Comparison::Greater, int(0)),
    ));
    let t = world.create(t);
    world
        .run(insert(&t, vec![vec![int(1), int(1), text("x")]]), &[])
        .unwrap();
    let mut refused = |row: Vec<Expr>| world.run(insert(&t, vec![row]), &[]).unwrap_err();

    let error = refused(vec![null(), int(1), text("y")]);
    let message = "null value in column \"id\" of relation \"t\" violates not-null constraint";
    assert_eq!(
        fields(&error),
        (
            SqlState::NOT_NULL_VIOLATION,
            message,
            "Failing row contains (null, 1, y)."
        )
    );
    let error = refused(vec![int(2), int(0), text("y")]);
    let message = "new row for relation \"t\" violates check constraint \"t_a_check\"";
    assert_eq!(
        fields(&error),
        (SqlState::CHECK_VIOLATION, message, "Failing row contains (2, 0, y).")
    );
    let error = refused(vec![int(1), null(), text("y")]);
    let message = "duplicate key value violates unique constraint \"t_pkey\"";
    assert_eq!(
        fields(&error),
        (SqlState::UNIQUE_VIOLATION, message, "Key (id)=(1) already exists.")
    );
    let error = refused(vec![int(2), int(1), text("x")]);
    assert_eq!(fields(&error).2, "Key (b)=(x) already exists.");
    assert_eq!(error.fields().constraint.as_deref(), Some("t_b_key"));
    // NULLs are not equal to each other, also in a unique index.
    for id in [3, 4] {
        world.run(insert(&t, vec![vec![int(id), int(1), null()]]), &[]).unwrap();
    }
    assert_eq!(world.rows(&t), ["1|1|x", "3|1|NULL", "4|1|NULL"]);
}

#[test]
fn a_table_without_a_primary_key_keeps_equal_rows() {
    let mut world = World::new();
    let mut t = table("t", 1);
    t.primary_key.clear();
    let t = world.create(t);
    let row = || vec![int(1), int(2), text("x")];
    world.run(insert(&t, vec![row(), row()]), &[]).unwrap();
    assert_eq!(world.rows(&t).len(), 2);
    assert_eq!(
        world.run(PlanBody::Delete(delete_plan(&t, full())), &[]).unwrap().1,
        "DELETE 2"
    );
}

#[test]
fn blind_and_ordered_updates_do_the_same() {
    for ordered in [None, Some("test".to_owned())] {
        let mut world = World::new();
        let t = world.create(table("t", 1));
        world
            .run(
                insert(
                    &t,
                    vec![vec![int(1), int(5), text("x")], vec![int(2), null(), text("y")]],
                ),
                &[],
            )
            .unwrap();
        let plan = |access, changes| {
            let plan = update_plan(&t, access, changes);
            PlanBody::Update(UpdatePlan {
                ordered_because: ordered.clone(),
                ..plan
            })
        };
        let add = || vec![(1, operator(Expr::Column(1), "+", int(10)))];
        assert_eq!(world.run(plan(point(1), add()), &[]).unwrap().1, "UPDATE 1");
        assert_eq!(world.run(plan(point(9), add()), &[]).unwrap().1, "UPDATE 0");
        assert_eq!(world.run(plan(full(), add()), &[]).unwrap().1, "UPDATE 2");
        let swap = vec![(1, operator(Expr::Column(0), "*", Expr::Column(1))), (2, text("z"))];
        assert_eq!(world.run(plan(point(1), swap), &[]).unwrap().1, "UPDATE 1");
        assert_eq!(world.rows(&t), ["1|25|z", "2|NULL|y"]);
        let statistics = world.database.statistics();
        assert_eq!(statistics.blind_updates > 0, ordered.is_none());
    }
}

#[test]
fn an_addition_that_could_leave_its_type_is_ordered_and_fails_at_once() {
    let mut world = World::new();
    let t = world.create(table("t", 1));
    world
        .run(insert(&t, vec![vec![int(1), int(i32::MAX - 1), text("x")]]), &[])
        .unwrap();
    let add = || {
        PlanBody::Update(update_plan(
            &t,
            point(1),
            vec![(1, operator(Expr::Column(1), "+", int(1)))],
        ))
    };
    world.run(add(), &[]).unwrap();
    let error = world.run(add(), &[]).unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range")
    );
}

#[test]
fn a_blind_null_for_a_not_null_column_is_refused() {
    let mut world = World::new();
    let mut t = table("t", 1);
    t.columns[1].not_null = true;
    let t = world.create(t);
    world
        .run(insert(&t, vec![vec![int(1), int(1), text("x")]]), &[])
        .unwrap();
    for change in [null(), operator(Expr::Column(1), "+", null())] {
        let error = world
            .run(PlanBody::Update(update_plan(&t, point(1), vec![(1, change)])), &[])
            .unwrap_err();
        assert_eq!(
            error.fields().detail.as_deref(),
            Some("Failing row contains (1, null, x).")
        );
    }
}

#[test]
fn simple_checks_are_kept_by_escrow() {
    let mut world = World::new();
    let mut t = table("t", 1);
    t.checks.push(check(
        "t_a_check",
        compare(Expr::Column(1), Comparison::GreaterOrEqual, int(0)),
    ));
    let t = world.create(t);
    world
        .run(insert(&t, vec![vec![int(1), int(10), text("x")]]), &[])
        .unwrap();
    let take = |amount| {
        PlanBody::Update(update_plan(
            &t,
            point(1),
            vec![(1, operator(Expr::Column(1), "-", int(amount)))],
        ))
    };
    world.run(take(7), &[]).unwrap();
    assert_eq!(world.database.statistics().blind_updates, 1);
    assert_eq!(world.run(take(7), &[]).unwrap_err().code(), SqlState::CHECK_VIOLATION);
    world.run(take(3), &[]).unwrap();
    assert_eq!(world.rows(&t), ["1|0|x"]);
}

#[test]
fn indexes_follow_updates_deletes_and_new_keys() {
    let mut world = World::new();
    let mut t = table("t", 1);
    t.indexes.push(index(2, "t_a", &[1], false));
    t.indexes.push(index(3, "t_b_key", &[2], true));
    let t = world.create(t);
    let rows = (1..=4)
        .map(|id| vec![int(id), int(id % 2), text(&format!("r{id}"))])
        .collect();
    world.run(insert(&t, rows), &[]).unwrap();
    let by_a = |world: &mut World, a| {
        world
            .run(
                select(vec![step(&t, Access::Range(range(Some(0), vec![int(a)])), 0)]),
                &[],
            )
            .unwrap()
            .0
    };
    let update = |world: &mut World, access, changes| {
        world
            .run(PlanBody::Update(update_plan(&t, access, changes)), &[])
            .map(|answer| answer.1)
    };
    assert_eq!(update(&mut world, point(1), vec![(1, int(0))]).unwrap(), "UPDATE 1");
    assert_eq!(by_a(&mut world, 0), ["1|0|r1", "2|0|r2", "4|0|r4"]);
    assert_eq!(update(&mut world, point(1), vec![(0, int(11))]).unwrap(), "UPDATE 1");
    assert_eq!(by_a(&mut world, 0), ["2|0|r2", "4|0|r4", "11|0|r1"]);
    assert_eq!(
        update(&mut world, point(2), vec![(2, text("r3"))]).unwrap_err().code(),
        SqlState::UNIQUE_VIOLATION
    );
    assert_eq!(
        update(&mut world, point(2), vec![(0, int(3))]).unwrap_err().code(),
        SqlState::UNIQUE_VIOLATION
    );
    let through_index = || Access::Range(range(Some(0), vec![int(0)]));
    // Every row of the index range moves within the index: each is changed once.
    assert_eq!(
        update(
            &mut world,
            through_index(),
            vec![(1, operator(Expr::Column(1), "+", int(5)))]
        )
        .unwrap(),
        "UPDATE 3"
    );
    assert_eq!(by_a(&mut world, 5).len(), 3);
    let gone = PlanBody::Delete(delete_plan(&t, Access::Range(range(Some(0), vec![int(5)]))));
    assert_eq!(world.run(gone, &[]).unwrap().1, "DELETE 3");
    assert_eq!(by_a(&mut world, 5).len(), 0);
    world
        .run(insert(&t, vec![vec![int(2), int(5), text("r2")]]), &[])
        .unwrap();
    assert_eq!(by_a(&mut world, 5), ["2|5|r2"]);
}

#[test]
fn conflicts_are_left_out_or_updated() {
    let mut world = World::new();
    let mut t = table("t", 1);
    t.indexes.push(index(2, "t_b_key", &[2], true));
    let t = world.create(t);
    world
        .run(insert(&t, vec![vec![int(1), int(1), text("x")]]), &[])
        .unwrap();
    let nothing = |arbiter, rows| {
        let on_conflict = Some(OnConflict {
            arbiter,
            action: ConflictAction::Nothing,
        });
        PlanBody::Insert(InsertPlan {
            on_conflict,
            ..insert_plan(&t, rows)
        })
    };
    let rows = || {
        vec![
            vec![int(1), int(2), text("y")],
            vec![int(2), int(2), text("x")],
            vec![int(3), int(3), text("z")],
        ]
    };
    assert_eq!(world.run(nothing(None, rows()), &[]).unwrap().1, "INSERT 0 1");
    assert_eq!(world.rows(&t), ["1|1|x", "3|3|z"]);
    assert_eq!(
        world.run(nothing(Some(None), rows()), &[]).unwrap_err().code(),
        SqlState::UNIQUE_VIOLATION
    );

    // a = t.a + excluded.a, where t.a < 10
    let update = |arbiter, rows| {
        let action = ConflictAction::Update {
            assignments: vec![(1, operator(Expr::Column(1), "+", Expr::Column(4)))],
            filter: Some(compare(Expr::Column(1), Comparison::Less, int(10))),
        };
        let returning = Some(vec![Expr::Column(0), Expr::Column(1)]);
        let on_conflict = Some(OnConflict { arbiter, action });
        PlanBody::Insert(InsertPlan {
            on_conflict,
            returning,
            ..insert_plan(&t, rows)
        })
    };
    let answer = world.run(
        update(
            Some(None),
            vec![vec![int(1), int(20), text("n")], vec![int(5), int(5), text("v")]],
        ),
        &[],
    );
    assert_eq!(
        answer.unwrap(),
        (vec!["1|21".into(), "5|5".into()], "INSERT 0 2".into())
    );
    let answer = world
        .run(update(Some(Some(0)), vec![vec![int(9), int(1), text("x")]]), &[])
        .unwrap();
    assert_eq!(answer.1, "INSERT 0 0");
    let twice = world.run(
        update(
            Some(None),
            vec![vec![int(3), int(1), null()], vec![int(3), int(1), null()]],
        ),
        &[],
    );
    assert_eq!(twice.unwrap_err().code(), SqlState::CARDINALITY_VIOLATION);
    assert_eq!(world.rows(&t), ["1|21|x", "3|3|z", "5|5|v"]);
}

#[test]
fn rows_come_back_with_returning() {
    let mut world = World::new();
    let t = world.create(table("t", 1));
    let returning = || Some(vec![Expr::Column(0), Expr::Column(1)]);
    let inserting = InsertPlan {
        returning: returning(),
        ..insert_plan(&t, vec![vec![int(1), int(5), text("x")]])
    };
    assert_eq!(world.run(PlanBody::Insert(inserting), &[]).unwrap().0, ["1|5"]);
    let mut updating = update_plan(&t, point(1), vec![(1, operator(Expr::Column(1), "+", int(1)))]);
    updating.ordered_because = Some("RETURNING".into());
    updating.returning = returning();
    assert_eq!(world.run(PlanBody::Update(updating), &[]).unwrap().0, ["1|6"]);
    let deleting = DeletePlan {
        returning: returning(),
        ..delete_plan(&t, point(1))
    };
    assert_eq!(world.run(PlanBody::Delete(deleting), &[]).unwrap().0, ["1|6"]);
}

#[test]
fn an_insert_from_its_own_table_ends() {
    let mut world = World::new();
    let t = world.create(table("t", 1));
    world
        .run(
            insert(&t, (0..300).map(|id| vec![int(id), int(0), text("x")]).collect()),
            &[],
        )
        .unwrap();
    let row = vec![
        operator(Expr::Column(0), "+", int(1000)),
        Expr::Column(1),
        Expr::Column(2),
    ];
    let source = InsertSource::Select(Box::new(select_plan(vec![step(&t, full(), 0)])), row);
    let answer = world
        .run(
            PlanBody::Insert(InsertPlan {
                source,
                ..insert_plan(&t, vec![])
            }),
            &[],
        )
        .unwrap();
    assert_eq!(answer.1, "INSERT 0 300");
    assert_eq!(world.rows(&t).len(), 600);
}

fn family(
    action: ReferentialAction,
    indexed: bool,
) -> (
    World,
    std::sync::Arc<rubato_sql::catalog::Table>,
    std::sync::Arc<rubato_sql::catalog::Table>,
) {
    let mut world = World::new();
    let (mut parent, mut child) = (table("parent", 1), table("child", 2));
    refer(&mut parent, &mut child, action);
    child.columns[1].default = Some(int(7));
    if indexed {
        child.indexes.push(index(3, "child_a", &[1], false));
    }
    let (parent, child) = (world.create(parent), world.create(child));
    world
        .run(
            insert(&parent, [1, 2, 7].map(|id| vec![int(id), int(0), text("p")]).to_vec()),
            &[],
        )
        .unwrap();
    let children = [(10, int(1)), (11, int(2)), (12, int(1)), (13, null())];
    world
        .run(
            insert(&child, children.map(|(id, a)| vec![int(id), a, text("c")]).to_vec()),
            &[],
        )
        .unwrap();
    (world, parent, child)
}

#[test]
fn a_row_must_find_what_it_refers_to() {
    let (mut world, _, child) = family(ReferentialAction::Refuse, true);
    let error = world
        .run(insert(&child, vec![vec![int(20), int(5), text("c")]]), &[])
        .unwrap_err();
    let message = "insert or update on table \"child\" violates foreign key constraint \"child_a_fkey\"";
    assert_eq!(
        fields(&error),
        (
            SqlState::FOREIGN_KEY_VIOLATION,
            message,
            "Key (a)=(5) is not present in table \"parent\"."
        )
    );
    let update = PlanBody::Update(UpdatePlan {
        ordered_because: Some("foreign key".into()),
        ..update_plan(&child, point(10), vec![(1, int(5))])
    });
    assert_eq!(
        world.run(update, &[]).unwrap_err().code(),
        SqlState::FOREIGN_KEY_VIOLATION
    );
}

#[test]
fn a_row_that_is_referred_to_stays_or_takes_the_others_along() {
    for indexed in [false, true] {
        let delete = |parent: &_| PlanBody::Delete(delete_plan(parent, point(1)));
        let (mut world, parent, child) = family(ReferentialAction::Refuse, indexed);
        let error = world.run(delete(&parent), &[]).unwrap_err();
        let message =
            "update or delete on table \"parent\" violates foreign key constraint \"child_a_fkey\" on table \"child\"";
        assert_eq!(
            fields(&error),
            (
                SqlState::FOREIGN_KEY_VIOLATION,
                message,
                "Key (id)=(1) is still referenced from table \"child\"."
            )
        );
        assert_eq!(world.rows(&child).len(), 4);

        let (mut world, parent, child) = family(ReferentialAction::Cascade, indexed);
        assert_eq!(world.run(delete(&parent), &[]).unwrap().1, "DELETE 1");
        assert_eq!(world.rows(&child), ["11|2|c", "13|NULL|c"]);
        let rename = PlanBody::Update(update_plan(&parent, point(2), vec![(0, int(22))]));
        world.run(rename, &[]).unwrap();
        assert_eq!(world.rows(&child), ["11|22|c", "13|NULL|c"]);

        let (mut world, parent, child) = family(ReferentialAction::SetNull, indexed);
        world.run(delete(&parent), &[]).unwrap();
        assert_eq!(world.rows(&child), ["10|NULL|c", "11|2|c", "12|NULL|c", "13|NULL|c"]);

        let (mut world, parent, child) = family(ReferentialAction::SetDefault, indexed);
        world.run(delete(&parent), &[]).unwrap();
        assert_eq!(world.rows(&child), ["10|7|c", "11|2|c", "12|7|c", "13|NULL|c"]);
    }
}

#[test]
fn rows_of_one_statement_may_refer_to_each_other() {
    let mut world = World::new();
    let mut t = table("t", 1);
    let mut copy = table("t", 1);
    refer(&mut copy, &mut t, ReferentialAction::Refuse);
    t.referenced_by = copy.referenced_by;
    let t = world.create(t);
    world
        .run(
            insert(
                &t,
                vec![vec![int(1), int(2), text("x")], vec![int(2), int(1), text("y")]],
            ),
            &[],
        )
        .unwrap();
    assert_eq!(
        world
            .run(PlanBody::Delete(delete_plan(&t, point(1))), &[])
            .unwrap_err()
            .code(),
        SqlState::FOREIGN_KEY_VIOLATION
    );
    assert_eq!(
        world.run(PlanBody::Delete(delete_plan(&t, full())), &[]).unwrap().1,
        "DELETE 2"
    );
}
