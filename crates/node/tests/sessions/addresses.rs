//! Addresses of the internet in keys and indexes, from clients in both formats, by COPY, and after a restart.

use crate::world::*;
use rubato_sql::client::{Bind, BoundValues, Format, Request};

const HOSTS: &str =
    "create table hosts (a inet primary key, n cidr, m macaddr, m8 macaddr8, more inet[]); create index on hosts (n)";

#[test]
fn parameters_come_as_text_and_in_binary() {
    let mut world = World::new(1);
    world.must(0, HOSTS);
    let insert = "insert into hosts values ($1, $2, $3, $4) returning n";
    let texts = ["10.1.2.3/9", "10/8", "8:0:2b:1:2:3", "08:00:2b:01:02:03"];
    let told = [
        parse("i", insert),
        bind_to("", "i", &texts),
        execute("", 0),
        Request::Sync,
    ];
    let said = world.tell(0, told);
    assert!(said.contains(&"C INSERT 0 1".to_owned()), "{said:?}");
    let bind = |network: &[u8]| {
        let mut parameters = BoundValues::default();
        let mut address = vec![3, 64, 0, 16];
        address.extend_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        for value in [&address[..], network, &[1, 2, 3, 4, 5, 6], &[1, 2, 3, 4, 5, 6, 7, 8]] {
            parameters.push(Some(value));
        }
        Request::Bind(Box::new(Bind {
            statement: "i".into(),
            parameters,
            parameter_formats: [Format::Binary].into_iter().collect(),
            ..Bind::default()
        }))
    };
    let said = world.tell(0, [bind(&[2, 8, 1, 4, 10, 1, 0, 0]), Request::Sync]);
    assert!(said.join("").contains("invalid external \"cidr\" value"), "{said:?}");
    let said = world.tell(0, [bind(&[2, 16, 1, 4, 10, 1, 0, 0]), execute("", 0), Request::Sync]);
    assert!(said.contains(&"C INSERT 0 1".to_owned()), "{said:?}");
    assert_eq!(
        world.rows(0, "select a, n, m, m8 from hosts order by a"),
        [
            "10.1.2.3/9|10.0.0.0/8|08:00:2b:01:02:03|08:00:2b:ff:fe:01:02:03",
            "fe80::9/64|10.1.0.0/16|01:02:03:04:05:06|01:02:03:04:05:06:07:08",
        ]
    );
    world.must(0, "prepare p as select m from hosts where n = $1 and a > $2");
    assert_eq!(world.rows(0, "execute p ('10/8', '1.1.1.1')"), ["08:00:2b:01:02:03"]);
    let said = world.ask(0, "execute p ('10.1/8.', '1.1.1.1')");
    assert!(said.join("").contains("invalid input syntax for type inet"), "{said:?}");
}

#[test]
fn what_is_copied_and_changed_is_there_after_a_restart() {
    let mut world = World::new(1);
    world.must(0, HOSTS);
    let data = b"::1\t::/0\t1:2:3:4:5:6\t\\N\t{10.1.1.1,::2/3}\n10.1.2.3\t10.1.2.0/24\t\\N\t01:02:03:04:05:06\t{}\n";
    let said = world.copy(0, "copy hosts from stdin", data);
    assert!(said.contains(&"C COPY 2".to_owned()), "{said:?}");
    world.must(
        0,
        "update hosts set a = a + 7, n = set_masklen(n, 16) where n = '10.1.2.0/24'",
    );
    let expected = [
        "10.1.2.10|10.1.0.0/16||01:02:03:ff:fe:04:05:06|{}",
        "::1|::/0|01:02:03:04:05:06||{10.1.1.1,::2/3}",
    ];
    for checkpoint in [false, true] {
        if checkpoint {
            world.must(0, "checkpoint");
        }
        world = world.restart();
        assert_eq!(world.rows(0, "select * from hosts order by a"), expected);
        assert_eq!(
            world.rows(0, "select a from hosts where n = '10.1.0.0/16'"),
            ["10.1.2.10"]
        );
        assert_eq!(world.rows(0, "select n from hosts where a = '::1'"), ["::/0"]);
    }
    let plan = world
        .rows(0, "explain select a from hosts where n = '10.1.0.0/16'")
        .join("\n");
    assert!(plan.contains("hosts_n_idx"), "{plan}");
}

/// What is kept as text is read again: a type stands in front of a literal there, too.
#[test]
fn literals_are_kept_as_they_were_written() {
    let mut world = World::new(1);
    world.must(
        0,
        "create table t (id int primary key, a inet default inet '::1' + 1, check (a <> inet '10.0.0.1'));
         create view v as select id, a from t where a >> inet E'::2/128' or family(a) = family(inet   '::1');
         insert into t (id) values (1); insert into t values (2, '1.2.3.4')",
    );
    let refused = world.ask(0, "insert into t values (3, '10.0.0.1')");
    assert!(refused.join("").contains("E 23514"), "{refused:?}");
    let mut world = world.restart();
    assert_eq!(world.rows(0, "select * from v"), ["1|::2"]);
    world.must(0, "insert into t (id) values (4)");
    assert_eq!(world.rows(0, "select a from v order by id"), ["::2", "::2"]);
    let shown = world.rows(
        0,
        "select column_default from information_schema.columns where table_name = 't' and column_name = 'a'",
    );
    assert_eq!(shown, ["'::1'::inet + 1"]);
    let shown = world.rows(0, "select pg_get_viewdef('v'::regclass)").join("\n");
    assert!(shown.contains("family('::1'::inet)"), "{shown}");
    world.must(0, "alter table t rename column a to address");
    assert_eq!(world.rows(0, "select a from v order by id"), ["::2", "::2"]);
    let shown = world.rows(0, "select pg_get_viewdef('v'::regclass)").join("\n");
    assert!(shown.contains("address >> E'::2/128'::inet"), "{shown}");
}
