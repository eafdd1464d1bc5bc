//! The names of columns without an alias, as PostgreSQL 15 gives them.

use rubato_sql::binder::{DefaultSettings, bind};
use rubato_sql::catalog::Catalog;
use rubato_sql::statement::Statement;

#[test]
fn the_outermost_type_names_what_has_no_name_of_its_own() {
    for (expression, name) in [
        ("true", "?column?"),
        ("null", "?column?"),
        ("$1::text::int", "int4"),
        ("'1'::int::text", "text"),
        ("true::text", "text"),
        ("null::bool", "bool"),
        ("cast('1' as int)", "int4"),
        ("date '2020-01-01'::text", "text"),
        ("interval '1 day'", "interval"),
        ("case when true then true end", "case"),
        ("case when true then 1 end::int8", "int8"),
        ("case when false then 1 else abs(1) end", "abs"),
        ("abs(1)::text", "abs"),
        ("now()::date", "now"),
    ] {
        let sql = format!("select {expression}");
        let bound = bind(&sql, &[], &[], &Catalog::default(), &DefaultSettings).expect(expression);
        let Statement::Planned(plan) = bound else {
            panic!("{expression}")
        };
        assert_eq!(plan.output[0].name, name, "{expression}");
    }
}
