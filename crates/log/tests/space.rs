//! A disk that fills up: what was promised room is always forced, and the log says in time that it cannot grow.

use rubato_log::{Error, Faults, MemoryDirectory, Options, PowerLoss, Reader, open};
use std::sync::Arc;

fn small() -> Options {
    Options {
        segment_bytes: 64 * 1024,
        segment_bytes_first: 16 * 1024,
        reserve_bytes: 4 * 1024,
        prepare_in_background: false,
        ..Options::default()
    }
}

fn with_space(directory: &MemoryDirectory, space_bytes: Option<u64>) {
    directory.set_faults(Faults {
        space_bytes,
        ..Faults::default()
    });
}

fn next_random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn what_has_reserved_its_room_is_forced_on_a_disk_of_any_size() {
    for seed in 0..200_u64 {
        let directory = MemoryDirectory::new();
        let mut random = seed;
        let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
        with_space(&directory, Some(next_random(&mut random) % 400_000));
        let mut appended = 0;
        let refused = loop {
            let payload_bytes = match next_random(&mut random) % 20 {
                0 => 20_000 + next_random(&mut random) as usize % 80_000,
                _ => next_random(&mut random) as usize % 3_000,
            };
            if let Err(error) = forcer.reserve(payload_bytes) {
                break error;
            }
            appender.append(&vec![seed as u8; payload_bytes]).expect("appends");
            appended += 1;
            if next_random(&mut random).is_multiple_of(3) {
                forcer
                    .force()
                    .unwrap_or_else(|error| panic!("seed {seed}, record {appended}: {error}"));
            }
        };
        assert!(matches!(refused, Error::NoSpace { .. }), "seed {seed}: {refused}");
        let end = forcer.force().expect("everything that was appended has room");
        assert_eq!(end, appender.next_lsn());
        directory.lose_power(PowerLoss::DropAll);
        let mut reader = Reader::open(Arc::new(directory), rubato_log::Lsn::ZERO).expect("opens");
        let mut read = 0;
        while reader.next_record().expect("reads").is_some() {
            read += 1;
        }
        assert_eq!(read, appended, "seed {seed}");
    }
}

#[test]
fn a_log_that_cannot_grow_says_so_in_time_and_recovers() {
    let directory = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
    with_space(&directory, Some(100));
    assert!(matches!(forcer.prepare_segment(), Err(Error::NoSpace { .. })));
    let mut appended = 0;
    while forcer.shortage().is_none() {
        forcer.reserve(200).expect("there is room while nothing is short");
        appender.append(&[1; 200]).expect("appends");
        forcer.force().expect("forces");
        appended += 1;
        assert!(appended < 100, "the first segment is small");
    }
    let shortage = forcer.shortage();
    assert!(matches!(shortage, Some(Error::NoSpace { .. })), "{shortage:?}");
    // The reserve is for those that have begun.
    forcer.reserve(2_000).expect("the reserve");
    appender.append(&[2; 2_000]).expect("appends");
    forcer.force().expect("forces");
    assert!(matches!(forcer.reserve(10_000), Err(Error::NoSpace { .. })));
    with_space(&directory, None);
    forcer.prepare_segment().expect("space is back");
    assert_eq!(forcer.shortage(), None);
    assert!(forcer.certain_room_bytes() > 60_000);
}

#[test]
fn a_spare_takes_no_more_than_half_of_what_the_disk_has_left() {
    let directory = MemoryDirectory::new();
    let (_appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
    with_space(&directory, Some(40_000));
    forcer.prepare_segment().expect("a smaller one");
    assert_eq!(directory.contents("spare").map(|bytes| bytes.len()), Some(20_000));
    assert_eq!(directory.faults().space_bytes, Some(20_000));
    assert_eq!((forcer.shortage(), forcer.is_tight()), (None, true));
}

#[test]
fn a_force_that_fails_is_a_shortage_until_it_succeeds() {
    let directory = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
    appender.append(b"formula").expect("appends");
    directory.set_faults(Faults {
        failing_forces: 1,
        ..Faults::default()
    });
    forcer.force().expect_err("fails");
    assert!(matches!(forcer.shortage(), Some(Error::Io { .. })));
    forcer.force().expect("a retry goes elsewhere");
    assert_eq!(forcer.shortage(), None);
}
