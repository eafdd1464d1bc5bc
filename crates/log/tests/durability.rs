//! What was forced survives everything; what was not is a prefix or gone.

use rubato_log::{
    AppendError, Error, Faults, LogDirectory, Lsn, MemoryDirectory, Options, PowerLoss, Reader, check, open, resume,
};
use std::sync::Arc;

fn small() -> Options {
    Options {
        segment_bytes: 16 * 1024,
        segment_bytes_first: 8 * 1024,
        prepare_in_background: false,
        ..Options::default()
    }
}

fn payload(number: u64) -> Vec<u8> {
    let size = (number * 37 % 900) as usize;
    (0..size).map(|index| (number as usize + index) as u8).collect()
}

fn read_all(directory: &MemoryDirectory, from: Lsn) -> Vec<(Lsn, Lsn, Vec<u8>)> {
    let mut reader = Reader::open(Arc::new(directory.clone()), from).expect("opens");
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().expect("reads") {
        records.push((record.start, record.end, record.payload.to_vec()));
    }
    records
}

fn assert_payloads(directory: &MemoryDirectory, count: u64) {
    let records = read_all(directory, Lsn::ZERO);
    assert_eq!(records.len() as u64, count);
    for (number, (_, _, bytes)) in records.iter().enumerate() {
        assert_eq!(*bytes, payload(number as u64), "record {number}");
    }
}

#[test]
fn an_empty_folder_has_an_empty_log() {
    let directory = MemoryDirectory::new();
    assert!(read_all(&directory, Lsn::ZERO).is_empty());
    let (appender, forcer, tail) = open(Arc::new(directory.clone()), small()).expect("opens");
    assert_eq!(
        (tail.end, tail.dropped_bytes, appender.next_lsn()),
        (Lsn::ZERO, 0, Lsn::ZERO)
    );
    assert_eq!(forcer.force().expect("forces"), Lsn::ZERO);
}

#[test]
fn records_come_back_in_order_with_their_positions_over_many_segments() {
    let directory = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
    let mut ends = Vec::new();
    for number in 0..300 {
        ends.push(appender.append(&payload(number)).expect("appends"));
        if number % 7 == 0 {
            assert_eq!(forcer.force().expect("forces"), ends[number as usize]);
        }
    }
    forcer.force().expect("forces");
    assert!(forcer.segment_count() > 5);
    assert_payloads(&directory, 300);
    let records = read_all(&directory, Lsn::ZERO);
    assert!(records.iter().zip(&ends).all(|((_, end, _), expected)| end == expected));
    for from in [1, 57, 150, 299] {
        let rest = read_all(&directory, ends[from - 1]);
        assert_eq!(rest, records[from..]);
    }
    let report = check(Arc::new(directory)).expect("whole");
    assert_eq!((report.records, report.tail.end), (300, ends[299]));
}

#[test]
fn one_batch_may_span_segments_and_one_record_may_exceed_a_segment() {
    let directory = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
    let large: Vec<u8> = (0..100_000_u32).map(|index| index as u8).collect();
    for number in 0..80 {
        appender.append(&payload(number)).expect("appends");
    }
    appender.append(&large).expect("appends");
    appender.append(b"after").expect("appends");
    let forces = directory.forces();
    forcer.force().expect("forces");
    assert!(directory.forces() > forces + 2);
    let records = read_all(&directory, Lsn::ZERO);
    assert_eq!(
        (records.len(), &records[80].2, &records[81].2[..]),
        (82, &large, &b"after"[..])
    );
}

#[test]
fn a_torn_last_record_is_cut_at_every_byte_and_the_log_goes_on() {
    let whole = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(whole.clone()), small()).expect("opens");
    for number in 0..5 {
        appender.append(&payload(number)).expect("appends");
        forcer.force().expect("forces");
    }
    let start = appender.next_lsn();
    let end = appender.append(&payload(5)).expect("appends");
    forcer.force().expect("forces");
    let name = format!("{}.log", Lsn::ZERO);
    for kept in 0..end.since(start) {
        let torn = whole.fork();
        torn.damage(&name, (4096 + start.0 + kept) as usize, |bytes| bytes.fill(0));
        let (mut appender, forcer, tail) = open(Arc::new(torn.clone()), small()).expect("repairs");
        // A cut that falls on zero bytes of the record itself leaves it whole.
        if tail.end == end {
            assert_payloads(&torn, 6);
            continue;
        }
        assert_eq!(tail.end, start);
        assert_eq!(tail.dropped_bytes > 0, kept > 0, "at {kept}");
        assert_eq!(tail.dropped_at.is_some(), kept > 0);
        appender.append(&payload(5)).expect("appends");
        appender.append(&payload(6)).expect("appends");
        forcer.force().expect("forces");
        assert_payloads(&torn, 7);
    }
}

/// A segment is filled to its end before it is used: one that is shorter is no torn write.
#[test]
fn a_segment_that_became_shorter_is_refused_at_every_length() {
    let whole = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(whole.clone()), small()).expect("opens");
    for number in 0..5 {
        appender.append(&payload(number)).expect("appends");
    }
    forcer.force().expect("forces");
    let name = format!("{}.log", Lsn::ZERO);
    let size_bytes = whole.contents(&name).expect("a segment").len();
    for kept in (0..4200).step_by(7).chain([size_bytes - 1]) {
        let cut = whole.fork();
        cut.cut(&name, kept);
        let directory: Arc<dyn LogDirectory> = Arc::new(cut.clone());
        for error in [check(Arc::clone(&directory)).err(), open(directory, small()).err()] {
            let Some(Error::Corrupt { file, offset, .. }) = error else {
                panic!("{kept}: {error:?}");
            };
            assert!(
                file.ends_with(&name) && offset <= kept as u64,
                "{kept}: {file} {offset}"
            );
        }
        assert_eq!(cut.contents(&name).expect("a segment").len(), kept);
    }
}

#[test]
fn damage_before_forced_records_is_refused_at_every_byte() {
    let whole = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(whole.clone()), small()).expect("opens");
    let mut ends = vec![Lsn::ZERO];
    for number in 1..8 {
        ends.push(appender.append(&payload(number)).expect("appends"));
        forcer.force().expect("forces");
    }
    let name = format!("{}.log", Lsn::ZERO);
    for at in ends[2].0..ends[3].0 {
        let damaged = whole.fork();
        damaged.damage(&name, 4096 + at as usize, |bytes| bytes[0] ^= 0x40);
        let expected_offset = 4096 + ends[2].0;
        let error = open(Arc::new(damaged.clone()), small()).err().expect("refused");
        assert!(
            matches!(&error, Error::Corrupt { file, offset, .. } if file.contains(&name) && *offset == expected_offset),
            "{error}"
        );
        assert_eq!(check(Arc::new(damaged)).err(), Some(error));
    }
}

#[test]
fn damage_in_an_earlier_segment_is_refused_even_at_its_end() {
    let directory = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
    while forcer.segment_count() < 3 {
        appender.append(&[7; 500]).expect("appends");
        forcer.force().expect("forces");
    }
    let mut names = directory.list().expect("lists");
    names.sort();
    let second = u64::from_str_radix(names[1].trim_end_matches(".log"), 16).expect("a position");
    let (start, end, _) = read_all(&directory, Lsn::ZERO)
        .into_iter()
        .rfind(|(start, ..)| start.0 < second)
        .expect("one");
    assert_eq!(end, Lsn(second));
    let name = format!("{}.log", Lsn::ZERO);
    directory.damage(&name, (4096 + start.0) as usize, |bytes| bytes[..100].fill(0));
    assert!(matches!(check(Arc::new(directory)), Err(Error::Corrupt { offset, .. }) if offset == 4096 + start.0));
}

#[test]
fn a_missing_newest_segment_is_refused_by_name() {
    let directory = MemoryDirectory::new();
    let count = 400;
    let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
    for number in 0..count {
        appender.append(&payload(number)).expect("appends");
        forcer.force().expect("forces");
    }
    drop((appender, forcer));
    let mut names = directory.list().expect("lists");
    names.retain(|name| name.ends_with(".log"));
    names.sort();
    assert!(names.len() > 2, "{names:?}");
    let newest = names.pop().expect("a segment");
    directory.remove(&newest).expect("removes");
    let wrong = open(Arc::new(directory.clone()), small())
        .map(|_| ())
        .expect_err("is refused");
    assert!(
        matches!(&wrong, Error::Corrupt { reason, .. } if reason.contains(&newest)),
        "{wrong}"
    );
    assert!(matches!(check(Arc::new(directory)), Err(Error::Corrupt { .. })));
}

#[test]
fn a_missing_segment_is_refused() {
    let directory = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
    while forcer.segment_count() < 4 {
        appender.append(&[7; 500]).expect("appends");
        forcer.force().expect("forces");
    }
    let mut names = directory.list().expect("lists");
    names.sort();
    directory.remove(&names[1]).expect("removes");
    assert!(matches!(check(Arc::new(directory.clone())), Err(Error::Corrupt { .. })));
    directory.remove(&names[0]).expect("removes");
    assert!(matches!(
        Reader::open(Arc::new(directory), Lsn::ZERO),
        Err(Error::Corrupt { .. })
    ));
}

#[test]
fn a_clean_close_makes_damage_in_the_last_record_visible() {
    let directory = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
    appender.append(&payload(0)).expect("appends");
    let start = appender.append(&payload(1)).expect("appends");
    appender.append(&payload(2)).expect("appends");
    let end = appender.close().expect("closes");
    assert_eq!(forcer.forced_lsn(), end);
    assert_payloads(&directory, 3);
    let name = format!("{}.log", Lsn::ZERO);
    directory.damage(&name, (4096 + start.0) as usize, |bytes| bytes[1] ^= 1);
    assert!(matches!(check(Arc::new(directory)), Err(Error::Corrupt { offset, .. }) if offset == 4096 + start.0));
}

#[test]
fn power_loss_keeps_everything_forced_and_a_prefix_of_the_rest() {
    let (mut torn_runs, mut partial_runs) = (0, 0);
    for seed in 0..300_u64 {
        let directory = MemoryDirectory::new();
        let (mut number, mut forced) = (0, 0);
        // Several lives: what a repair leaves must serve the next life as well.
        for life in 0..4 {
            let mut reader = Reader::open(Arc::new(directory.clone()), Lsn::ZERO).expect("opens");
            let mut survived = 0;
            while let Some(record) = reader
                .next_record()
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"))
            {
                assert_eq!(
                    record.payload,
                    payload(survived),
                    "seed {seed}, life {life}, record {survived}"
                );
                survived += 1;
            }
            assert!(
                forced <= survived && survived <= number,
                "seed {seed}: {forced} <= {survived} <= {number}"
            );
            let tail = reader.into_tail().expect("ends");
            torn_runs += u64::from(tail.dropped_bytes > 0);
            partial_runs += u64::from(survived > forced && survived < number);
            let (mut appender, forcer) = resume(Arc::new(directory.clone()), small(), &tail).expect("resumes");
            number = survived;
            for step in 0..30 + seed % 17 {
                appender.append(&payload(number)).expect("appends");
                number += 1;
                if (step + seed) % 5 == 0 {
                    forcer.force().expect("forces");
                }
            }
            forced = number;
            forcer.force().expect("forces");
            // Now a batch that is written but whose fdatasync never returns.
            for _ in 0..8 {
                appender.append(&payload(number)).expect("appends");
                number += 1;
            }
            let failing_writes = u32::from(seed % 3 == 0);
            let hanging_forces = failing_writes ^ 1;
            directory.set_faults(Faults {
                failing_writes,
                hanging_forces,
                ..Faults::default()
            });
            forcer.force().expect_err("the power goes");
            directory.set_faults(Faults::default());
            drop((appender, forcer));
            directory.lose_power(if seed % 10 == 0 {
                PowerLoss::DropAll
            } else {
                PowerLoss::Torn(seed + life)
            });
        }
    }
    assert!(
        torn_runs > 100 && partial_runs > 20,
        "the runs prove little: {torn_runs} torn, {partial_runs} partial"
    );
}

#[test]
fn a_full_disk_loses_nothing_and_the_log_recovers() {
    let directory = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
    directory.set_faults(Faults {
        space_bytes: Some(20_000),
        ..Faults::default()
    });
    let mut number = 0;
    let error = loop {
        appender.append(&payload(number)).expect("appends");
        number += 1;
        if let Err(error) = forcer.force() {
            break error;
        }
    };
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    let forced = forcer.forced_lsn();
    for _ in 0..3 {
        appender.append(&payload(number)).expect("appends");
        number += 1;
        assert!(matches!(forcer.force(), Err(Error::NoSpace { .. })));
        assert_eq!(forcer.forced_lsn(), forced);
    }
    directory.set_faults(Faults::default());
    assert_eq!(forcer.force().expect("space is back"), appender.next_lsn());
    directory.lose_power(PowerLoss::DropAll);
    assert_payloads(&directory, number);
}

#[test]
fn a_failed_fdatasync_or_write_is_never_acknowledged_and_a_retry_is_safe() {
    for (failing_writes, failing_forces) in [(1, 0), (0, 1), (0, 2), (2, 1), (3, 3)] {
        let directory = MemoryDirectory::new();
        let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
        for number in 0..10 {
            appender.append(&payload(number)).expect("appends");
        }
        let forced = forcer.force().expect("forces");
        directory.set_faults(Faults {
            failing_writes,
            failing_forces,
            ..Faults::default()
        });
        let mut number = 10;
        let mut failures = 0;
        loop {
            appender.append(&payload(number)).expect("appends");
            number += 1;
            match forcer.force() {
                Ok(end) => {
                    assert_eq!(end, appender.next_lsn());
                    break;
                }
                Err(error) => {
                    assert!(matches!(error, Error::Io { .. }));
                    assert_eq!(forcer.forced_lsn(), forced);
                    failures += 1;
                }
            }
        }
        assert_eq!(failures, failing_writes + failing_forces);
        appender.append(&payload(number)).expect("appends");
        forcer.force().expect("forces");
        drop((appender, forcer));
        directory.lose_power(PowerLoss::DropAll);
        assert_payloads(&directory, number + 1);
        let (_, forcer, tail) = open(Arc::new(directory.clone()), small()).expect("opens");
        assert_eq!((tail.end, tail.dropped_bytes), (forcer.forced_lsn(), 0));
    }
}

/// A large record needs a segment of its own, which the folder cannot be told of for certain: smaller ones go on, and are read.
#[test]
fn a_segment_that_was_begun_in_vain_hides_nothing() {
    for (failing_directory_forces, written_before) in [(1, 1), (2, 1), (3, 1), (4, 1), (1, 0), (2, 0)] {
        for loss in [PowerLoss::KeepAll, PowerLoss::DropAll, PowerLoss::Torn(7)] {
            let directory = MemoryDirectory::new();
            let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
            for number in 0..written_before {
                appender.append(&payload(number)).expect("appends");
            }
            forcer.force().expect("forces");
            directory.set_faults(Faults {
                failing_directory_forces,
                ..Faults::default()
            });
            assert!(matches!(forcer.reserve(100_000), Err(Error::Io { .. })));
            for number in written_before..30 {
                let bytes = payload(number);
                let is_reserved = (0..5).any(|_| forcer.reserve(bytes.len()).is_ok());
                assert!(is_reserved);
                appender.append(&bytes).expect("appends");
                assert!((0..5).any(|_| forcer.force().is_ok()));
            }
            directory.lose_power(loss);
            assert_payloads(&directory, 30);
            let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
            appender.append(&payload(30)).expect("appends");
            forcer.force().expect("forces");
            assert_payloads(&directory, 31);
        }
    }
}

#[test]
fn what_a_failed_fdatasync_left_in_the_cache_is_made_durable_before_it_counts() {
    let directory = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
    appender.append(&payload(0)).expect("appends");
    forcer.force().expect("forces");
    appender.append(&payload(1)).expect("appends");
    directory.set_faults(Faults {
        failing_forces: 1,
        ..Faults::default()
    });
    forcer.force().expect_err("fails");
    // The process dies; the next one reads the record from the cache and counts on it.
    drop((appender, forcer));
    let (_appender, forcer, tail) = open(Arc::new(directory.clone()), small()).expect("opens");
    assert_eq!(forcer.forced_lsn(), tail.end);
    assert_payloads(&directory, 2);
    directory.lose_power(PowerLoss::DropAll);
    assert_payloads(&directory, 2);
}

#[test]
fn a_read_only_folder_can_be_read_and_is_named_when_written() {
    let directory = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
    appender.append(&payload(0)).expect("appends");
    forcer.force().expect("forces");
    drop((appender, forcer));
    directory.set_faults(Faults {
        read_only: true,
        ..Faults::default()
    });
    assert_payloads(&directory, 1);
    assert!(matches!(open(Arc::new(directory), small()), Err(Error::ReadOnly { file }) if file.starts_with("memory/")));
}

#[test]
fn a_read_error_is_reported_and_the_reader_can_go_on() {
    let directory = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
    appender.append(&payload(3)).expect("appends");
    forcer.force().expect("forces");
    let mut reader = Reader::open(Arc::new(directory.clone()), Lsn::ZERO).expect("opens");
    directory.set_faults(Faults {
        failing_reads: 2,
        ..Faults::default()
    });
    assert!(matches!(reader.next_record(), Err(Error::Io { .. })));
    assert!(matches!(reader.next_record(), Err(Error::Io { .. })));
    assert_eq!(
        reader.next_record().expect("reads").expect("a record").payload,
        payload(3)
    );
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let directory = MemoryDirectory::new();
    drop(open(Arc::new(directory.clone()), small()).expect("opens"));
    let name = format!("{}.log", Lsn::ZERO);
    directory.damage(&name, 8, |bytes| bytes[0] = 2);
    let expected = Error::NewerVersion {
        file: format!("memory/{name}"),
        found: 2,
        supported: 1,
    };
    assert_eq!(open(Arc::new(directory), small()).err(), Some(expected));
}

#[test]
fn a_full_buffer_pushes_back_and_a_huge_record_passes_when_alone() {
    let directory = MemoryDirectory::new();
    let options = Options {
        buffer_bytes_max: 1000,
        ..small()
    };
    let (mut appender, forcer, _) = open(Arc::new(directory), options).expect("opens");
    appender.append(&[1; 5000]).expect("alone");
    assert_eq!(
        appender.append(&[2; 10]),
        Err(AppendError::Full { pending_bytes: 5016 })
    );
    forcer.force().expect("forces");
    assert_eq!(forcer.waiting_bytes(), 0);
    appender.append(&[2; 10]).expect("fits again");
    let too_large = vec![0; rubato_log::PAYLOAD_BYTES_MAX + 1];
    assert!(matches!(appender.append(&too_large), Err(AppendError::TooLarge { .. })));
}

#[test]
fn truncation_removes_whole_segments_and_reuses_one() {
    let directory = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
    let mut positions = Vec::new();
    for number in 0..400 {
        positions.push(appender.next_lsn());
        appender.append(&payload(number)).expect("appends");
        forcer.force().expect("forces");
        // A checkpoint follows behind, so that used segments come round again and again.
        if number % 20 == 19 {
            forcer
                .truncate_before(positions[number as usize - 10])
                .expect("truncates");
        }
    }
    assert!(forcer.start_lsn() > Lsn::ZERO && forcer.start_lsn() <= positions[389]);
    assert!(forcer.segment_count() < 4);
    let records = read_all(&directory, positions[389]);
    assert_eq!(records.len(), 11);
    assert_eq!(records[0].2, payload(389));
    assert!(matches!(
        Reader::open(Arc::new(directory.clone()), Lsn::ZERO),
        Err(Error::Corrupt { .. })
    ));
    drop((appender, forcer));
    // Old bytes behind the end of a reused segment are neither records nor a torn tail.
    let (_, _, tail) = open(Arc::new(directory.clone()), small()).expect("opens");
    assert_eq!(tail.dropped_bytes, 0);
    assert_eq!(read_all(&directory, positions[389]).len(), 11);
}

#[test]
fn replay_from_a_position_the_log_never_returned_is_refused() {
    let directory = MemoryDirectory::new();
    let (mut appender, forcer, _) = open(Arc::new(directory.clone()), small()).expect("opens");
    let end = appender.append(&payload(9)).expect("appends");
    forcer.force().expect("forces");
    for from in [Lsn(3), end.plus(1)] {
        let mut reader = Reader::open(Arc::new(directory.clone()), from).expect("opens");
        assert!(matches!(reader.next_record(), Err(Error::Corrupt { .. })), "{from}");
    }
    assert!(matches!(
        Reader::open(Arc::new(MemoryDirectory::new()), end),
        Err(Error::Corrupt { .. })
    ));
}
