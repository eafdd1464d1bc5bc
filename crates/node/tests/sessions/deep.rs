//! Expressions as deep as they may be: what was taken is kept, and read again after a restart.

use crate::world::*;
use rubato_stages::worker::STACK_BYTES;

/// Runs on a thread like those of a server.
fn on_a_worker(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
    assert!(thread.expect("a thread").join().is_ok());
}

/// The forms of an expression over `of` that is so deep.
fn forms(of: &str, depth: usize) -> Vec<String> {
    let nested = |before: &str, after: &str| format!("{}{of}{}", before.repeat(depth), after.repeat(depth));
    vec![
        format!("{of}{}", " + 1".repeat(depth)),
        nested("abs(", ")"),
        format!("{}{of}{}", "(1 + ".repeat(depth / 2), ")".repeat(depth / 2)),
        nested("coalesce(", ", 0)"),
        nested("greatest(1, ", ")"),
        nested("nullif(", ", -7)"),
        nested("case when true then ", " end"),
        nested("case 1 when 1 then ", " end"),
    ]
}

#[test]
fn deep_expressions_of_rows_and_definitions_are_read_again() {
    on_a_worker(|| {
        let mut world = World::new(1);
        world.must(
            0,
            "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1), (2, 2)",
        );
        let depth = 850;
        for (number, form) in forms("a", depth).into_iter().enumerate() {
            world.must(0, &format!("UPDATE t SET a = {form} WHERE id = 1"));
            world.must(0, &format!("CREATE INDEX t_{number} ON t (({form}))"));
            let own = format!(
                "CREATE TABLE t_{number}_own (a int CHECK ({form} > -1), b int GENERATED ALWAYS AS ({form}) STORED, \
                 c int DEFAULT {})",
                form.replace('a', "1")
                    .replace("1bs", "abs")
                    .replace("co1lesce", "coalesce")
                    .replace("gre1test", "greatest")
                    .replace("c1se", "case")
            );
            world.must(0, &own);
            world.must(0, &format!("INSERT INTO t_{number}_own (a) VALUES (3)"));
        }
        let all = "SELECT * FROM t ORDER BY id; SELECT a, b, c FROM t_0_own; SELECT a, b, c FROM t_7_own";
        let before = world.must(0, all);
        let mut world = world.restart();
        assert_eq!(world.must(0, all), before);
        world.must(0, "UPDATE t SET a = a + 1; INSERT INTO t_3_own (a) VALUES (4)");
        let mut world = world.restart_after_power_loss(usize::MAX);
        assert_eq!(world.must(0, "SELECT count(*) FROM t_3_own")[1], "D 2");
    });
}

#[test]
fn what_is_too_deep_is_refused() {
    on_a_worker(|| {
        let mut world = World::new(1);
        world.must(
            0,
            "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1)",
        );
        let deep = 1_200;
        let words = |before: &str, last: &str| format!("{}{last}", before.repeat(deep));
        // Brackets that are long chains each.
        let mut chains = "a".to_owned();
        for _ in 0..20 {
            chains = format!("({chains}{})", " + 1".repeat(1_000));
        }
        let statements = forms("a", deep)
            .into_iter()
            .skip(1)
            .map(|form| format!("UPDATE t SET a = {form}"));
        let others = [
            words("while ", "1"),
            words("explain ", "select 1"),
            words("prepare x as ", "select 1"),
            words("declare c cursor for ", "select 1"),
            format!("UPDATE t SET a = {chains}"),
            format!("UPDATE t SET a = a{}", " + 1".repeat(100_000)),
        ];
        for statement in statements.chain(others) {
            let said = world.ask(0, &statement);
            assert!(
                ["E 54001", "E 42601", "E 0A000"]
                    .iter()
                    .any(|code| said[0].starts_with(code)),
                "{}...: {said:?}",
                &statement[..40]
            );
        }
        assert_eq!(world.must(0, "SELECT a FROM t")[1], "D 1");
    });
}

#[test]
fn grouping_sets_of_many_elements_fit() {
    on_a_worker(|| {
        let mut world = World::new(1);
        world.must(0, "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)");
        let elements: Vec<String> = (1..=12).map(|number| format!("id + {number}")).collect();
        let cube = format!(
            "SELECT count(*) FROM (SELECT count(*) FROM t GROUP BY CUBE ({})) s",
            elements.join(", ")
        );
        assert_eq!(world.must(0, &cube)[1], "D 4096");
    });
}
