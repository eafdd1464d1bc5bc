//! The catalog as bytes, for the log and the checkpoint.
//!
//! Every encoding starts with a version. A newer version than this program knows is refused, damaged bytes are an error (XX001)
//! and never a panic, and whatever is decoded is consistent: column numbers lie within their table.

mod read;
mod write;

use crate::catalog::{Catalog, Table};
use rubato_base::codec::ByteReader;
use rubato_base::{Error, Result, SqlState};

/// The version written.
const VERSION: u8 = Format::Restarted as u8;

/// The versions that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Format {
    /// Nothing is deferrable.
    First = 1,
    /// Foreign keys and indexes say when they are checked.
    Deferrals = 2,
    /// There are views; columns may be arrays, `json` and `jsonb`.
    Views = 3,
    /// There are comments.
    Comments = 4,
    /// Relations are in schemas, and may be temporary or materialised views; defaults know sequences by number.
    Schemas = 5,
    /// There are domains; columns may be generated; indexes may hold expressions, and some rows only.
    Types = 6,
    /// Views and indexes have options; sequences have types; there are enums.
    Details = 7,
    /// Rows may lack columns that are not NULL in them, and violate what is NOT VALID; columns may be addresses of networks and cards.
    Exempt = 8,
    /// Tables may be spread over the nodes of a grid, if that was asked for.
    Spread = 9,
    /// Tables are spread, unless something else was asked for, in one of several ways.
    Ways = 10,
    /// Parts of a table may lie on nodes in other turns than one each, and be on their way there.
    Moving = 11,
    /// A table that is whole may lie on any node.
    Whole = 12,
    /// Tables may go unchecked for what refers; sequences say what was to be kept at hand.
    Unchecked = 13,
    /// There are extensions.
    Extensions = 14,
    /// Domains are over domains.
    Stacked = 15,
    /// Sequences have values that are not numbered as they are.
    Restarted = 16,
}

/// Appends a whole catalog.
pub fn encode_catalog(catalog: &Catalog, out: &mut Vec<u8>) {
    out.push(VERSION);
    write::catalog(catalog, out);
}

/// Reads what [`encode_catalog`] wrote; `bytes` is exactly that. 0A000 for a newer version, XX001 for anything else.
pub fn decode_catalog(bytes: &[u8]) -> Result<Catalog> {
    whole(bytes, read::catalog)
}

/// Appends one table.
pub fn encode_table(table: &Table, out: &mut Vec<u8>) {
    out.push(VERSION);
    write::table(table, out);
}

/// Reads what [`encode_table`] wrote; `bytes` is exactly that.
pub fn decode_table(bytes: &[u8]) -> Result<Table> {
    whole(bytes, read::table)
}

fn whole<T>(bytes: &[u8], read: fn(&mut ByteReader<'_>, Format) -> Result<T>) -> Result<T> {
    let mut reader = ByteReader::new(bytes);
    let version = reader.u8()?;
    let format = match version {
        1 => Format::First,
        2 => Format::Deferrals,
        3 => Format::Views,
        4 => Format::Comments,
        5 => Format::Schemas,
        6 => Format::Types,
        7 => Format::Details,
        8 => Format::Exempt,
        9 => Format::Spread,
        10 => Format::Ways,
        11 => Format::Moving,
        12 => Format::Whole,
        13 => Format::Unchecked,
        14 => Format::Extensions,
        15 => Format::Stacked,
        16 => Format::Restarted,
        _ => {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("the catalog has format {version}, this program reads formats up to {VERSION}"),
            ));
        }
    };
    let value = read(&mut reader, format)?;
    if reader.is_empty() {
        Ok(value)
    } else {
        Err(damaged("bytes after the catalog"))
    }
}

fn damaged(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("damaged catalog: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binder::tests_support::catalog_of;
    use crate::catalog::{Materialised, OnCommit, RelationName, SchemaId, Spread, SpreadWay};
    use rubato_base::NodeId;
    use rubato_base::Value;
    use std::sync::Arc;

    fn sample() -> Catalog {
        catalog_of(&[
            "create table parent (id bigserial primary key, name varchar(10) not null unique default 'x', at timestamptz default now())",
            "create table child (a int, b numeric(12,2) check (b > 0 and a is not null), p int references parent on delete cascade on update set null, primary key (b, a))",
            "create index child_p on child (p)",
            "create table plain (x text, y int generated always as identity)",
            "alter table plain drop column x",
            "create table later (x int unique deferrable, p int references parent on delete restrict deferrable initially deferred)",
            "create view v (a, b) as select *, (select count(*) from plain) from child",
            "create view checked with (security_barrier) as select a from child where a > 1 with local check option",
            "create table documents (x int[] default '{{1,2},{3,4}}', v varchar(3)[], j json, d jsonb default '{\"a\": [1]}' check (d ? 'a' and x[1] > 0))",
            "create sequence s start 5 increment -2 minvalue -100 maxvalue 10 cycle",
            "comment on table plain is 'all of it'",
            "comment on column child.b is 'an amount'",
            "create table made (a int, name text, twice int generated always as (a * 2) stored, x int)",
            "create domain amount as numeric(8,2) default 1.5 not null constraint positive check (value > 0) check (value < 1000)",
            "create table spent (id int, a amount)",
            "create table hosts (a inet primary key default '::1', n cidr[], m macaddr check (m < '0:0:0:0:0:9'), m8 macaddr8)",
            "alter table made add constraint later check (a < 9) not valid",
            "alter table spent add constraint refers foreign key (id) references parent not valid",
            "alter domain amount add constraint small check (value < 100) not valid",
            "create extension pgcrypto with schema public",
            "create unique index made_some on made (lower(name), a, (a + x)) where x > 5 and name is not null",
        ])
    }

    fn bytes_of(catalog: &Catalog) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_catalog(catalog, &mut bytes);
        bytes
    }

    #[test]
    fn a_catalog_survives_the_round_trip() {
        let catalog = sample();
        let decoded = decode_catalog(&bytes_of(&catalog)).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{catalog:?}"));
        for table in catalog.tables.values() {
            let mut bytes = Vec::new();
            encode_table(table, &mut bytes);
            assert_eq!(format!("{:?}", decode_table(&bytes).unwrap()), format!("{table:?}"));
        }
    }

    /// What the version before deferrable constraints wrote of the tables below.
    const FIRST_FORMAT: &str = "010300000000000000074000000204400000054000000200000000000000056368696c6403016103ffffffff01000001620706000c00010000017003\
        ffffffff0000000201000a6368696c645f706b65790106400000076368696c645f70010200010d6368696c645f625f636865636b0562203e20300b08\
        04020101050300000000010c6368696c645f705f666b657906706172656e74010201000102000040000001400000020000000000000006706172656e\
        740202696404ffffffff01011c04076e65787476616c010801010e08706172656e745f69645f73657101226e65787476616c2827706172656e745f69\
        645f736571273a3a726567636c61737329046e616d65090e00000001010401020878010327782701000b706172656e745f706b657901024000000f70\
        6172656e745f6e616d655f6b6579010103000001056368696c640c6368696c645f705f666b657901034000000d706172656e745f69645f7365710100\
        00000000000001000000000000000100000000000000ffffffffffffff7f000106706172656e7400";

    /// What the version before generated columns wrote of the statements below.
    const COMMENTS_FORMAT: &str = "04040000000000000005400000010040000001400000020000000000000001740302696403ffffffff010000046e616d65090e00000000000001\
        6e03ffffffff000000010006745f706b657902024000000a745f6e616d655f6b6579010103000340000003745f6e010200000109745f6e5f6368\
        65636b056e203e20300b08040202010503000000000000000104400000010000000000000001760102696403ffffffff1053454c454354206964\
        2046524f4d2074010174010001004000000000000003616c6c";

    fn bytes_of_digits(digits: &str) -> Vec<u8> {
        let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    /// The path of a view is what it was before there were schemas, and sequences do not say their types.
    fn as_formerly(catalog: &Catalog) -> String {
        let shown = format!("{catalog:?}").replace("path: [SchemaId(11), ", "path: [");
        shown.replace("data_type: Some(Int8) }", "data_type: None }")
    }

    #[test]
    fn what_was_written_before_generated_columns_is_read() {
        let bytes = bytes_of_digits(COMMENTS_FORMAT);
        let expected = catalog_of(&[
            "create table t (id int primary key, name varchar(10) unique, n int check (n > 0))",
            "create index t_n on t (n)",
            "create view v as select id from t",
            "comment on table t is 'all'",
        ]);
        let decoded = decode_catalog(&bytes).unwrap();
        assert_eq!(as_formerly(&decoded), as_formerly(&expected));
        assert_eq!(bytes_of(&expected)[0], VERSION);
    }

    #[test]
    fn what_earlier_versions_wrote_is_read() {
        let bytes = bytes_of_digits(FIRST_FORMAT);
        assert_eq!(bytes[0], 1);
        let expected = catalog_of(&[
            "create table parent (id bigserial primary key, name varchar(10) not null unique default 'x')",
            "create table child (a int, b numeric(12,2) check (b > 0), p int references parent on delete cascade on update set null, primary key (b, a))",
            "create index child_p on child (p)",
        ]);
        assert_eq!(as_formerly(&decode_catalog(&bytes).unwrap()), as_formerly(&expected));
        for cut in 0..bytes.len() {
            assert!(decode_catalog(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    /// What the version before schemas wrote of the relations below.
    const BEFORE_SCHEMAS: &str = "0406000000000000000a4000000304400000054000000100000000000000056368696c6402016103ffffffff010000017003ffffffff0000000100\
        0a6368696c645f706b65790000010c6368696c645f705f666b657906706172656e7401010100010000000040000001400000020000000000000006\
        706172656e740202696404ffffffff01011c04076e65787476616c010801010e08706172656e745f69645f73657101226e65787476616c28277061\
        72656e745f69645f736571273a3a726567636c61737329046e616d65090e00000001010401020878010327782701000b706172656e745f706b6579\
        01024000000f706172656e745f6e616d655f6b657901010300000001056368696c640c6368696c645f705f666b6579074000000840000001000000\
        00000000047573657302017803ffffffff00012a0e0403ffffffff0004012b0204030204076e65787476616c010801010608224f64642201050301\
        00000001146e65787476616c2827224f6464222729202b2031017904ffffffff00011b04076e65787476616c010801010d087075626c69632e224f\
        64642201176e65787476616c28277075626c69632e224f64642227290000000000000206400000034f646405000000000000000100000000000000\
        0100000000000000ffffffffffffff7f0000034000000d706172656e745f69645f7365710100000000000000010000000000000001000000000000\
        00ffffffffffffff7f000106706172656e740001094000000100000000000000017603016103ffffffff016203ffffffff05636f756e7404ffffff\
        ff4953454c45435420226368696c64222e2261222c20226368696c64222e2270222c202853454c45435420636f756e74282a292046524f4d207061\
        72656e74292046524f4d206368696c6402056368696c6402000106706172656e740001044000000000000009616c6c206f66206974";

    #[test]
    fn what_was_written_before_schemas_is_in_public() {
        let bytes = bytes_of_digits(BEFORE_SCHEMAS);
        assert_eq!(bytes[0], Format::Comments as u8);
        let decoded = decode_catalog(&bytes).unwrap();
        assert_eq!(decoded.schemas.get("public"), Some(&SchemaId::PUBLIC));
        assert!(decoded.relations().all(|name| name.schema == SchemaId::PUBLIC));
        let expected = catalog_of(&[
            "create table parent (id bigserial primary key, name varchar(10) not null unique default 'x')",
            "create table child (a int, p int references parent on delete cascade, primary key (a))",
            "create sequence \"Odd\" start 5",
            "create table uses (x int default nextval('\"Odd\"') + 1, y bigint default nextval('public.\"Odd\"'))",
            "create view v (a, b) as select *, (select count(*) from parent) from child",
            "comment on table child is 'all of it'",
        ]);
        assert_eq!(as_formerly(&decoded), as_formerly(&expected));
        for cut in 0..bytes.len() {
            assert!(decode_catalog(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn schemas_temporary_tables_and_materialised_views_survive_the_round_trip() {
        let mut catalog = catalog_of(&[
            "create schema s",
            "create domain s.small as int check (value < 10)",
            "create domain tiny as s.small not null check (value < 5)",
            "create domain less as tiny",
            "create table s.t (id serial primary key, x s.small unique)",
            "create table public.t (y int references s.t)",
            "create view s.v as select t.id, u.y from s.t, public.t u",
        ]);
        let mut own = (*catalog.tables[&RelationName::public("t")]).clone();
        (own.schema, own.foreign_keys) = (SchemaId::temporary(7), Vec::new());
        own.on_commit = OnCommit::Delete;
        own.spread = Some(Spread {
            way: SpreadWay::Range {
                column: Some(0),
                bounds: vec![Value::Int4(5), Value::Int4(9)],
            },
            nodes: vec![NodeId(0), NodeId(3)],
            turns: vec![NodeId(3), NodeId(0), NodeId(3)],
            former: vec![NodeId(0), NodeId(2)],
            takes_new: true,
        });
        own.materialised = Some(Arc::new(Materialised {
            query: catalog.views.values().next().unwrap().query.clone(),
            is_populated: false,
        }));
        catalog.table_names.insert(own.id, own.key());
        catalog.tables.insert(own.key(), Arc::new(own));
        let decoded = decode_catalog(&bytes_of(&catalog)).unwrap();
        assert_eq!(decoded.schemas, catalog.schemas);
        assert_eq!(format!("{:?}", decoded.tables), format!("{:?}", catalog.tables));
        assert_eq!(decoded.domains, catalog.domains);
        assert_eq!(format!("{:?}", decoded.views), format!("{:?}", catalog.views));
        assert_eq!(format!("{:?}", decoded.sequences), format!("{:?}", catalog.sequences));
    }

    #[test]
    fn enums_survive_the_round_trip() {
        let catalog = catalog_of(&[
            "create type mood as enum ('sad', 'happy')",
            "create type empty as enum ()",
            "alter type mood add value 'ok' before 'happy'",
            "create domain calm as mood check (value < 'happy')",
            "create table t (m mood default 'ok' check (m > 'sad'), l mood[], c calm)",
            "create view v as select m from t where m = 'ok'",
        ]);
        let bytes = bytes_of(&catalog);
        assert_eq!(format!("{:?}", decode_catalog(&bytes).unwrap()), format!("{catalog:?}"));
        for index in 0..bytes.len() {
            assert!(decode_catalog(&bytes[..index]).is_err(), "cut at {index}");
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[index] ^= 1 << bit;
                if let Ok(catalog) = decode_catalog(&flipped) {
                    let again = decode_catalog(&bytes_of(&catalog)).unwrap();
                    assert_eq!(format!("{again:?}"), format!("{catalog:?}"));
                }
            }
        }
    }

    #[test]
    fn identities_that_have_the_name_of_their_sequence_get_its_number() {
        let mut catalog = catalog_of(&["create table t (x int, id int generated always as identity)"]);
        let expected = bytes_of(&catalog);
        let table = catalog.tables.get_mut(&RelationName::public("t")).unwrap();
        let column = &mut Arc::make_mut(table).columns[1];
        let name = rubato_formula::Expr::Literal(Value::text("t_id_seq"));
        column.default.as_mut().unwrap().transform(&mut |expr| {
            if let rubato_formula::Expr::Call { arguments, .. } = expr {
                *arguments = vec![name.clone()];
            }
        });
        let written = bytes_of(&catalog);
        assert_ne!(written, expected);
        assert_eq!(bytes_of(&decode_catalog(&written).unwrap()), expected);
    }

    #[test]
    fn what_rows_lack_survives_the_round_trip() {
        let mut catalog = sample();
        let table = catalog.tables.get_mut(&RelationName::public("made")).unwrap();
        let columns = &mut Arc::make_mut(table).columns;
        columns[1].missing = Some(Value::text("some"));
        columns[3].missing = Some(Value::Int4(7));
        let table = Arc::clone(table);
        let bytes = bytes_of(&catalog);
        assert_eq!(format!("{:?}", decode_catalog(&bytes).unwrap()), format!("{catalog:?}"));
        let mut bytes = Vec::new();
        encode_table(&table, &mut bytes);
        assert_eq!(format!("{:?}", decode_table(&bytes).unwrap()), format!("{table:?}"));
        for cut in 0..bytes.len() {
            assert!(decode_table(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for index in 1..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[index] ^= 1 << bit;
                if let Ok(table) = decode_table(&flipped) {
                    let mut again = Vec::new();
                    encode_table(&table, &mut again);
                    assert_eq!(format!("{:?}", decode_table(&again).unwrap()), format!("{table:?}"));
                }
            }
        }
    }

    #[test]
    fn damage_is_an_error_or_another_consistent_catalog() {
        let bytes = bytes_of(&sample());
        for cut in 0..bytes.len() {
            assert!(decode_catalog(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for index in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[index] ^= 1 << bit;
                if let Ok(catalog) = decode_catalog(&flipped) {
                    let again = decode_catalog(&bytes_of(&catalog)).unwrap();
                    assert_eq!(format!("{again:?}"), format!("{catalog:?}"));
                }
            }
        }
    }

    #[test]
    fn random_bytes_and_newer_versions_are_refused() {
        let mut state = 7u64;
        for length in 0..300 {
            let bytes: Vec<u8> = (0..length)
                .map(|index| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    if index == 0 { VERSION } else { (state >> 33) as u8 % 12 }
                })
                .collect();
            if let Ok(catalog) = decode_catalog(&bytes) {
                assert!(bytes.len() < 64, "{catalog:?}");
            }
        }
        let mut newer = bytes_of(&sample());
        newer[0] = VERSION + 1;
        assert_eq!(
            decode_catalog(&newer).unwrap_err().code(),
            SqlState::FEATURE_NOT_SUPPORTED
        );
    }
}
