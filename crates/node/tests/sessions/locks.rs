//! Rows that are locked, and have to be waited for.

use crate::world::World;

/// A row that others have is waited for wherever it comes among those that are locked, and each is told once.
#[test]
fn a_row_that_others_have_is_waited_for_wherever_it_comes() {
    let ways = [
        ("id in (4, 5, 6)", "4 5 6"),
        ("id in (4, 5, 6) order by id", "4 5 6"),
        ("id in (4, 5, 6) order by id desc", "6 5 4"),
        ("id = any(array[4, 5, 6])", "4 5 6"),
        ("id between 4 and 6", "4 5 6"),
        ("id = 4 or id = 5 or who = 106", "4 5 6"),
        ("grp = 2 and id < 9", "2 5 8"),
        ("grp = 2 and id < 9 order by who", "2 5 8"),
        ("grp in (1, 2) and id < 6", "1 2 4 5"),
        ("who in (104, 105, 106)", "4 5 6"),
        ("(id, who) in ((4, 104), (5, 105), (6, 106))", "4 5 6"),
        ("id in (select id from t where who in (104, 105))", "4 5"),
    ];
    for (condition, ids) in ways {
        for form in [
            "select id from t where # for update",
            "select id from t where # for share",
            "with x as (select id from t where # for update) select id from x",
            "select s.id from (select id from t where # for update) s join t o on o.id = s.id",
        ] {
            let mut world = World::new(2);
            world.must(
                0,
                "create table t (id int primary key, who int, grp int); create index on t (grp)",
            );
            world.must(
                0,
                "insert into t select n, n + 100, n % 3 from generate_series(1, 40) n",
            );
            world.must(0, "begin; select id from t where id = 5 for update");
            let query = form.replace('#', condition);
            world.begin(1, &query);
            assert!(!world.is_idle(1), "{query}: it waits");
            world.must(0, "commit");
            let said = world.said(1);
            let rows = said.iter().filter_map(|line| line.strip_prefix("D "));
            let mut rows: Vec<&str> = rows.collect();
            let mut wanted: Vec<&str> = ids.split(' ').collect();
            if !(condition.contains("order by") && form.starts_with("select id")) {
                rows.sort_unstable();
                wanted.sort_unstable();
            }
            assert_eq!(rows, wanted, "{query}: {said:?}");
        }
    }
}
