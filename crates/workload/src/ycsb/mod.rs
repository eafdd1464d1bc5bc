//! YCSB: one table of 1 KB records, single-statement transactions, six standard mixes and two of the Rubato paper.
//!
//! Every operation is a statement in autocommit, as in the original client (F reads and then updates, without a
//! transaction around it). Keys are `user` and a hashed number, so that neighbours in number are not neighbours in
//! the table.

mod distribution;
mod load;
mod terminal;

pub use distribution::{Distribution, Zipfian};
pub use load::{LoadPart, count_columns, count_records, create_table, load_parts, settle};
pub use terminal::{InsertedRecords, YcsbTerminal};

/// Shares of the operations in percent; they add up to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Reads of one whole record.
    pub read: i64,
    /// Updates of one record.
    pub update: i64,
    /// New records.
    pub insert: i64,
    /// Reads of 1 to 100 records in key order.
    pub scan: i64,
    /// A read of one record followed by an update of it.
    pub read_modify_write: i64,
}

/// One of the named workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// 50 % reads, 50 % updates of one field.
    A,
    /// 95 % reads, 5 % updates of one field.
    B,
    /// Reads only.
    C,
    /// 95 % reads, most of them of new records, 5 % inserts.
    D,
    /// 95 % scans, 5 % inserts.
    E,
    /// 50 % reads, 50 % read-modify-writes.
    F,
    /// The paper's read-intensive workload: 95 % reads, 5 % updates of the whole record.
    ReadIntensive,
    /// The paper's write-intensive workload: 50 % reads, 50 % updates of the whole record.
    WriteIntensive,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Workload; 8] = [
        Workload::A,
        Workload::B,
        Workload::C,
        Workload::D,
        Workload::E,
        Workload::F,
        Workload::ReadIntensive,
        Workload::WriteIntensive,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Workload::A => "a",
            Workload::B => "b",
            Workload::C => "c",
            Workload::D => "d",
            Workload::E => "e",
            Workload::F => "f",
            Workload::ReadIntensive => "95-5",
            Workload::WriteIntensive => "50-50",
        }
    }

    /// The workload of a name, in either case.
    pub fn from_name(name: &str) -> Option<Workload> {
        Workload::ALL
            .into_iter()
            .find(|workload| workload.name().eq_ignore_ascii_case(name))
    }

    /// Its shares.
    pub fn mix(self) -> Mix {
        match self {
            Workload::A | Workload::WriteIntensive => Mix {
                read: 50,
                update: 50,
                ..Mix::default()
            },
            Workload::B | Workload::ReadIntensive => Mix {
                read: 95,
                update: 5,
                ..Mix::default()
            },
            Workload::C => Mix {
                read: 100,
                ..Mix::default()
            },
            Workload::D => Mix {
                read: 95,
                insert: 5,
                ..Mix::default()
            },
            Workload::E => Mix {
                scan: 95,
                insert: 5,
                ..Mix::default()
            },
            Workload::F => Mix {
                read: 50,
                read_modify_write: 50,
                ..Mix::default()
            },
        }
    }

    /// How keys are chosen unless told otherwise.
    pub fn distribution(self) -> Distribution {
        if self == Workload::D {
            Distribution::Latest
        } else {
            Distribution::Zipfian
        }
    }

    /// Whether an update writes every field.
    pub fn writes_all_fields(self) -> bool {
        matches!(self, Workload::ReadIntensive | Workload::WriteIntensive)
    }
}

/// Shape of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Records at the start.
    pub records: u64,
    /// Fields of a record; together they hold 1 KB.
    pub columns: usize,
}

impl Shape {
    /// Characters of one field: 100 for ten fields, 42 for twenty-four.
    pub fn field_length(self) -> usize {
        1000usize.div_ceil(self.columns.max(1))
    }
}

/// The key of a record number.
pub fn key(number: u64) -> String {
    format!("user{:019}", distribution::hash(number) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mix_adds_up_and_has_a_name() {
        for workload in Workload::ALL {
            let mix = workload.mix();
            assert_eq!(
                mix.read + mix.update + mix.insert + mix.scan + mix.read_modify_write,
                100,
                "{workload:?}"
            );
            assert_eq!(Workload::from_name(&workload.name().to_uppercase()), Some(workload));
        }
        assert_eq!(Workload::from_name("g"), None);
    }

    #[test]
    fn records_are_one_kilobyte_in_either_shape() {
        for columns in [10, 24] {
            let bytes = Shape { records: 1, columns }.field_length() * columns;
            assert!((1000..=1024).contains(&bytes), "{bytes}");
        }
    }

    #[test]
    fn keys_have_one_length_and_do_not_collide() {
        let keys: std::collections::BTreeSet<String> = (0..100_000).map(key).collect();
        assert_eq!(keys.len(), 100_000);
        assert!(keys.iter().all(|key| key.len() == 23));
    }
}
