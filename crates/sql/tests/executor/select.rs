use crate::world::*;
use rubato_base::{DataType, SqlState, Value};
use rubato_formula::{Comparison, Expr, SetFunction, resolve_aggregate};
use rubato_sql::catalog::Table;
use rubato_sql::executor::Cursor;
use rubato_sql::plan::*;
use std::sync::Arc;

/// `t (id, a, b)` with an index on `a`, rows 1..=n with a = id % 3 and every fifth a NULL.
fn filled(world: &mut World, n: i32) -> Arc<Table> {
    let mut t = table("t", 1);
    t.indexes.push(index(2, "t_a", &[1], false));
    let t = world.create(t);
    let rows = (1..=n)
        .map(|id| {
            vec![
                int(id),
                if id % 5 == 0 { null() } else { int(id % 3) },
                text(&format!("row {id}")),
            ]
        })
        .collect();
    world.run(insert(&t, rows), &[]).unwrap();
    t
}

#[test]
fn a_row_is_found_by_its_key() {
    let mut world = World::new();
    let t = filled(&mut world, 10);
    let by_parameter = || select(vec![step(&t, Access::Point(vec![Expr::Parameter(0)]), 0)]);
    let answer = world.run(by_parameter(), &[Value::Int4(7)]).unwrap();
    assert_eq!(answer, (vec!["7|1|row 7".into()], "SELECT 1".into()));
    // A key of another integer type is the same key; NULL and what no key can be are no row.
    assert_eq!(world.run(by_parameter(), &[Value::Int8(7)]).unwrap().0.len(), 1);
    assert_eq!(world.run(by_parameter(), &[Value::Int8(1 << 40)]).unwrap().0.len(), 0);
    assert_eq!(world.run(by_parameter(), &[Value::Null]).unwrap().0.len(), 0);
}

#[test]
fn several_keys_count_once_each() {
    let mut world = World::new();
    let t = filled(&mut world, 10);
    let points = [3, 1, 3, 99].into_iter().map(|id| vec![int(id)]).collect();
    let answer = world
        .run(select(vec![step(&t, Access::Points(points), 0)]), &[])
        .unwrap();
    assert_eq!(answer.0, ["1|1|row 1", "3|0|row 3"]);
}

#[test]
fn ranges_have_open_and_closed_ends_and_two_directions() {
    let mut world = World::new();
    let t = filled(&mut world, 8);
    let mut ids = |low: Option<(i32, bool)>, high: Option<(i32, bool)>, reverse| {
        let bound = |bound: Option<(i32, bool)>| bound.map(|(value, inclusive)| (int(value), inclusive));
        let access = RangeAccess {
            low: bound(low),
            high: bound(high),
            reverse,
            ..range(None, vec![])
        };
        let answer = world
            .run(select(vec![step(&t, Access::Range(access), 0)]), &[])
            .unwrap();
        answer
            .0
            .iter()
            .map(|row| row.split('|').next().unwrap().parse().unwrap())
            .collect::<Vec<i32>>()
    };
    assert_eq!(ids(Some((3, true)), Some((5, true)), false), [3, 4, 5]);
    assert_eq!(ids(Some((3, false)), Some((5, false)), false), [4]);
    assert_eq!(ids(Some((6, true)), None, true), [8, 7, 6]);
    assert_eq!(ids(None, Some((2, true)), true), [2, 1]);
    assert_eq!(ids(Some((5, true)), Some((3, true)), false), [0; 0]);
}

#[test]
fn an_index_finds_rows_and_comparisons_leave_nulls_out() {
    let mut world = World::new();
    let t = filled(&mut world, 10);
    let by_prefix = select(vec![step(&t, Access::Range(range(Some(0), vec![int(0)])), 0)]);
    assert_eq!(
        world.run(by_prefix, &[]).unwrap().0,
        ["3|0|row 3", "6|0|row 6", "9|0|row 9"]
    );
    let above = RangeAccess {
        low: Some((int(0), false)),
        ..range(Some(0), vec![])
    };
    let answer = world.run(select(vec![step(&t, Access::Range(above), 0)]), &[]).unwrap();
    let a_of = |row: &String| row.split('|').nth(1).unwrap().to_owned();
    assert_eq!(answer.0.iter().map(a_of).collect::<Vec<_>>(), ["1", "1", "1", "2", "2"]);
    let nothing = select(vec![step(&t, Access::Range(range(Some(0), vec![null()])), 0)]);
    assert_eq!(world.run(nothing, &[]).unwrap().0.len(), 0);
}

#[test]
fn joins_find_partners_by_key_and_left_joins_keep_the_lonely() {
    let mut world = World::new();
    let t = filled(&mut world, 4);
    let u = world.create(table("u", 5));
    world
        .run(
            insert(
                &u,
                vec![vec![int(1), int(10), text("one")], vec![int(0), int(0), text("zero")]],
            ),
            &[],
        )
        .unwrap();
    let joined = |join| {
        let mut partner = step(&u, Access::Point(vec![Expr::Column(1)]), 3);
        partner.join = join;
        select(vec![step(&t, full(), 0), partner])
    };
    let inner = world.run(joined(JoinKind::Inner), &[]).unwrap().0;
    assert_eq!(
        inner,
        ["1|1|row 1|1|10|one", "3|0|row 3|0|0|zero", "4|1|row 4|1|10|one"]
    );
    let left = world.run(joined(JoinKind::Left), &[]).unwrap().0;
    assert_eq!(left[1], "2|2|row 2|NULL|NULL|NULL");
    assert_eq!(left.len(), 4);
}

#[test]
fn a_left_join_tests_its_condition_before_and_its_filter_after_the_nulls() {
    let mut world = World::new();
    let t = filled(&mut world, 3);
    let u = world.create(table("u", 5));
    world
        .run(insert(&u, vec![vec![int(1), int(10), text("one")]]), &[])
        .unwrap();
    let mut partner = step(&u, full(), 3);
    partner.join = JoinKind::Left;
    partner.condition = Some(compare(Expr::Column(3), Comparison::Equal, Expr::Column(0)));
    partner.filter_after = Some(Expr::IsNull(Box::new(Expr::Column(3))));
    let rows = world.run(select(vec![step(&t, full(), 0), partner]), &[]).unwrap().0;
    assert_eq!(rows, ["2|2|row 2|NULL|NULL|NULL", "3|0|row 3|NULL|NULL|NULL"]);
}

#[test]
fn a_large_join_comes_through_in_batches() {
    let mut world = World::new();
    let t = filled(&mut world, 700);
    let rows = world
        .run(select(vec![step(&t, full(), 0), step(&t, full(), 3)]), &[])
        .unwrap()
        .0;
    assert_eq!(rows.len(), 490_000);
    assert_eq!(rows[700 * 3 + 4], "4|1|row 4|5|NULL|row 5");
}

#[test]
fn groups_come_with_their_aggregates() {
    let mut world = World::new();
    let t = filled(&mut world, 10);
    let call = |name: &str, argument: Option<Expr>, distinct| AggregateCall {
        aggregate: resolve_aggregate(
            name,
            &argument.iter().map(|_| DataType::Int4).collect::<Vec<_>>(),
            distinct,
        )
        .unwrap()
        .unwrap(),
        arguments: argument.into_iter().collect(),
        distinct,
        filter: None,
        order_by: Vec::new(),
    };
    let mut plan = select_plan(vec![step(&t, full(), 0)]);
    plan.aggregate = Some(AggregatePlan {
        keys: vec![Expr::Column(1)],
        calls: vec![call("count", None, false), call("sum", Some(Expr::Column(0)), false)],
        having: None,
    });
    plan.projection = (0..3).map(Expr::Column).collect();
    plan.visible = 3;
    plan.order_by = vec![SortKey {
        column: 0,
        descending: true,
        nulls_first: true,
    }];
    let rows = world.run(PlanBody::Select(plan), &[]).unwrap().0;
    assert_eq!(rows, ["NULL|2|15", "2|2|10", "1|3|12", "0|3|18"]);

    let mut plan = select_plan(vec![step(&t, point(99), 0)]);
    plan.aggregate = Some(AggregatePlan {
        keys: vec![],
        calls: vec![
            call("count", Some(Expr::Column(1)), true),
            call("max", Some(Expr::Column(1)), false),
        ],
        having: None,
    });
    plan.projection = (0..2).map(Expr::Column).collect();
    plan.visible = 2;
    assert_eq!(world.run(PlanBody::Select(plan), &[]).unwrap().0, ["0|NULL"]);
}

#[test]
fn order_distinct_limit_and_offset() {
    let mut world = World::new();
    let t = filled(&mut world, 3000);
    let sorted = |limit: Option<i32>, offset: Option<i32>| {
        let mut plan = select_plan(vec![step(&t, full(), 0)]);
        plan.projection = vec![Expr::Column(1), Expr::Column(0)];
        plan.visible = 2;
        let key = |column, descending| SortKey {
            column,
            descending,
            nulls_first: false,
        };
        plan.order_by = vec![key(0, false), key(1, true)];
        plan.limit = limit.map(int);
        plan.offset = offset.map(int);
        PlanBody::Select(plan)
    };
    assert_eq!(
        world.run(sorted(Some(3), None), &[]).unwrap().0,
        ["0|2997", "0|2994", "0|2991"]
    );
    assert_eq!(
        world.run(sorted(Some(2), Some(1)), &[]).unwrap().0,
        ["0|2994", "0|2991"]
    );
    assert_eq!(world.run(sorted(None, Some(2999)), &[]).unwrap().0, ["NULL|5"]);
    assert_eq!(world.run(sorted(Some(0), None), &[]).unwrap().0.len(), 0);
    let negative = world.run(sorted(Some(-1), None), &[]).unwrap_err();
    assert_eq!(
        (negative.code(), negative.message()),
        (
            SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE,
            "LIMIT must not be negative"
        )
    );
    let negative = world.run(sorted(None, Some(-1)), &[]).unwrap_err();
    assert_eq!(negative.code(), SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE);

    let mut distinct = select_plan(vec![step(&t, full(), 0)]);
    distinct.projection = vec![Expr::Column(1)];
    distinct.visible = 1;
    distinct.distinct = true;
    assert_eq!(
        world.run(PlanBody::Select(distinct), &[]).unwrap().0,
        ["1", "2", "0", "NULL"]
    );
}

#[test]
fn rows_without_a_table() {
    let mut world = World::new();
    let mut plan = select_plan(vec![]);
    plan.projection = vec![int(1), Expr::Parameter(0)];
    plan.visible = 2;
    assert_eq!(
        world.run(PlanBody::Select(plan), &[Value::text("x")]).unwrap().0,
        ["1|x"]
    );
    let values = Step {
        relation: Relation::Values(vec![vec![int(1), text("a")], vec![int(2), text("b")]]),
        ..step(&Arc::new(table("v", 9)), full(), 0)
    };
    let values = Step {
        columns: vec![1, 0],
        ..values
    };
    assert_eq!(world.run(select(vec![values]), &[]).unwrap().0, ["a|1", "b|2"]);
    let series = Step {
        relation: Relation::Functions(RowsFrom {
            calls: vec![RowsCall {
                name: "generate_series".to_owned(),
                function: Some(SetFunction::Series),
                arguments: vec![int(5), int(1), int(-2)],
                types: vec![rubato_base::ColumnType::plain(DataType::Int4)],
            }],
            ordinality: false,
            is_last: false,
        }),
        columns: vec![0],
        ..step(&Arc::new(table("s", 9)), full(), 0)
    };
    assert_eq!(world.run(select(vec![series]), &[]).unwrap().0, ["5", "3", "1"]);
}

#[test]
fn what_a_statement_may_hold_is_limited() {
    let mut world = World::new();
    let t = filled(&mut world, 100);
    world.limits.rows_max = 50;
    let mut plan = select_plan(vec![step(&t, full(), 0)]);
    plan.order_by = vec![SortKey {
        column: 1,
        descending: false,
        nulls_first: false,
    }];
    let error = world.run(PlanBody::Select(plan), &[]).unwrap_err();
    assert_eq!(error.code(), SqlState::OUT_OF_MEMORY);
    // What streams is not held.
    assert_eq!(world.rows(&t).len(), 100);
}

#[test]
fn a_join_by_equality_without_a_key_reads_each_relation_about_once() {
    let mut world = World::new();
    let t = filled(&mut world, 600);
    for join in [JoinKind::Inner, JoinKind::Left] {
        // t.id = other.a * 1: neither side is a key that the join could use.
        let mut partner = step(&t, full(), 3);
        partner.join = join;
        partner.condition = Some(compare(
            Expr::Column(0),
            Comparison::Equal,
            operator(Expr::Column(4), "+", int(300)),
        ));
        let transaction = world.begin();
        let mut cursor = Cursor::new(plan(select(vec![step(&t, full(), 0), partner])));
        let (rows, _) = world.step(transaction, &mut cursor, &[], usize::MAX).unwrap();
        world.commit(transaction).unwrap();
        // a is 0, 1 or 2 for the 480 ids that are no multiple of five.
        let partners = rows.iter().filter(|row| !row.ends_with("NULL")).count();
        assert_eq!(
            (partners, rows.len()),
            (480, if join == JoinKind::Left { 480 + 597 } else { 480 })
        );
        assert!(cursor.step_counters()[1].lookups < 1200);
        assert!(rows.iter().any(|row| row == "301|1|row 301|1|1|row 1"));
    }
}
