//! One suite that every store passes.

use crate::batch::Batch;
use crate::error::Error;
use crate::store::{KEY_BYTES_MAX, Store};
use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

/// Opens the store at a place. The same place is opened again only after the store that had it was dropped, and then
/// holds what that one had forced (and, as no power is lost, what it had applied).
pub type Open<'a> = &'a mut dyn FnMut(&str) -> Box<dyn Store>;

/// Runs the whole suite.
///
/// # Panics
/// Where the store does not do what [`Store`] promises.
pub fn run(open: Open<'_>) {
    an_unknown_table_is_empty(&*open("empty"));
    keys_are_found_ordered_and_bounded(&*open("order"));
    large_values_come_some_at_a_time(&*open("large"));
    batches_replace_and_delete(&*open("replace"));
    odd_sizes_are_kept(&*open("sizes"));
    tables_are_apart_and_can_be_dropped(&*open("tables"));
    what_was_forced_is_there_after_reopening(open);
    random_calls_agree_with_a_model(open);
    readers_never_see_half_a_batch(&*open("atomic"));
}

fn put(store: &dyn Store, table: u32, key: &[u8], value: &[u8]) {
    let mut batch = Batch::new();
    batch.put(table, key, value);
    store.apply(batch).expect("applies");
}

fn keys(
    store: &dyn Store,
    table: u32,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
    reverse: bool,
    limit: usize,
) -> Vec<Vec<u8>> {
    let rows = store.scan(table, from, to, reverse, limit).expect("scans");
    rows.into_iter().map(|(key, _)| key).collect()
}

fn count(store: &dyn Store, table: u32) -> usize {
    keys(store, table, Unbounded, Unbounded, false, usize::MAX).len()
}

fn an_unknown_table_is_empty(store: &dyn Store) {
    assert_eq!(store.get(7, b"key"), Ok(None));
    assert_eq!(count(store, 7), 0);
    store.drop_table(7).expect("an unknown table can be dropped");
    store.apply(Batch::new()).expect("an empty batch");
    store.force().expect("nothing to force");
    assert_eq!(store.check().expect("whole").rows, 0);
}

fn large_values_come_some_at_a_time(store: &dyn Store) {
    for key in 0..10 {
        put(store, 1, &[key], &vec![key; 1_000]);
    }
    put(store, 2, b"other", b"");
    for reverse in [false, true] {
        let mut expected: Vec<u8> = (0..10).collect();
        expected.sort_by_key(|key| if reverse { 9 - key } else { *key });
        for (limits, at_once) in [((3, usize::MAX), 3), ((100, 2_500), 3), ((100, 1), 1), ((2, 2_500), 2)] {
            let (mut seen, mut last, mut goes_on) = (Vec::new(), None::<Vec<u8>>, true);
            while goes_on {
                let bound = last.as_deref().map_or(Unbounded, Excluded);
                let (from, to) = if reverse {
                    (Unbounded, bound)
                } else {
                    (bound, Unbounded)
                };
                let (rows, may_be_more) = store.scan_some(1, from, to, reverse, limits).expect("scans");
                assert!(rows.len() == at_once || !may_be_more, "{limits:?}: {}", rows.len());
                assert!(rows.len() <= at_once, "{limits:?}: {}", rows.len());
                seen.extend(rows.iter().map(|row| row.0[0]));
                last = rows.into_iter().next_back().map(|row| row.0);
                goes_on = may_be_more;
            }
            assert_eq!(seen, expected, "{limits:?}");
        }
    }
}

fn keys_are_found_ordered_and_bounded(store: &dyn Store) {
    let sorted: Vec<&[u8]> = vec![b"", b"\0", b"\0\0", b"a", b"a\0", b"aa", b"b", b"\xff", b"\xff\xff"];
    let mut batch = Batch::new();
    for key in sorted.iter().rev() {
        batch.put(1, key, [key, &b"!"[..]].concat());
    }
    // Neighbouring tables must not leak into the scans.
    batch.put(0, b"\xff\xff\xff", vec![]);
    batch.put(2, b"", vec![]);
    store.apply(batch).expect("applies");
    for key in &sorted {
        assert_eq!(store.get(1, key), Ok(Some([key, &b"!"[..]].concat())));
    }
    assert_eq!(store.get(1, b"ab"), Ok(None));
    let mut bounds = vec![Unbounded];
    for key in sorted.iter().chain(&[&b"ab"[..], &b"c"[..]]) {
        bounds.extend([Included(*key), Excluded(*key)]);
    }
    for from in &bounds {
        for to in &bounds {
            let above = |key: &[u8]| match from {
                Included(from) => key >= *from,
                Excluded(from) => key > *from,
                Unbounded => true,
            };
            let below = |key: &[u8]| match to {
                Included(to) => key <= *to,
                Excluded(to) => key < *to,
                Unbounded => true,
            };
            let expected: Vec<&[u8]> = sorted.iter().copied().filter(|key| above(key) && below(key)).collect();
            let backwards: Vec<&[u8]> = expected.iter().copied().rev().collect();
            for limit in [0, 1, 3, usize::MAX] {
                let shown = limit.min(expected.len());
                assert_eq!(
                    keys(store, 1, *from, *to, false, limit),
                    expected[..shown],
                    "{from:?} to {to:?}"
                );
                assert_eq!(
                    keys(store, 1, *from, *to, true, limit),
                    backwards[..shown],
                    "{to:?} back to {from:?}"
                );
            }
        }
    }
}

fn batches_replace_and_delete(store: &dyn Store) {
    put(store, 1, b"a", b"1");
    put(store, 1, b"b", b"1");
    let mut batch = Batch::new();
    batch.put(1, b"b", b"2");
    batch.put(1, b"b", b"3");
    batch.delete(1, b"a");
    batch.delete(1, b"never");
    batch.put(3, b"a", b"4");
    store.apply(batch).expect("applies");
    assert_eq!(store.get(1, b"a"), Ok(None));
    assert_eq!(store.get(1, b"b"), Ok(Some(b"3".to_vec())));
    assert_eq!(store.get(3, b"a"), Ok(Some(b"4".to_vec())));
    assert_eq!(count(store, 1), 1);
    let mut batch = Batch::new();
    batch.put(1, b"c", vec![]);
    batch.put(1, vec![1; KEY_BYTES_MAX + 1], vec![]);
    assert_eq!(
        store.apply(batch),
        Err(Error::KeyTooLong {
            key_bytes: KEY_BYTES_MAX + 1
        })
    );
    assert_eq!(store.get(1, b"c"), Ok(None), "a refused batch changes nothing");
}

fn odd_sizes_are_kept(store: &dyn Store) {
    let large: Vec<u8> = (0..1024 * 1024_u32).map(|index| (index * 7 % 251) as u8).collect();
    put(store, 1, b"large", &large);
    put(store, 1, b"", b"");
    put(store, 1, &vec![9; KEY_BYTES_MAX], b"long key");
    store.force().expect("forces");
    assert_eq!(store.get(1, b"large"), Ok(Some(large)));
    assert_eq!(store.get(1, b""), Ok(Some(vec![])));
    assert_eq!(store.get(1, &vec![9; KEY_BYTES_MAX]), Ok(Some(b"long key".to_vec())));
    assert!(store.bytes_used().expect("known") > 0);
}

fn tables_are_apart_and_can_be_dropped(store: &dyn Store) {
    let tables: Vec<u32> = (0..200).chain([u32::MAX - 1, u32::MAX]).collect();
    for table in &tables {
        put(store, *table, b"key", &table.to_be_bytes());
    }
    store.drop_table(5).expect("drops");
    store.drop_table(u32::MAX).expect("drops");
    for table in &tables {
        let expected = (![5, u32::MAX].contains(table)).then(|| table.to_be_bytes().to_vec());
        assert_eq!(store.get(*table, b"key"), Ok(expected));
        assert_eq!(count(store, *table), usize::from(![5, u32::MAX].contains(table)));
    }
    // A table may come again, empty.
    put(store, 5, b"other", b"1");
    store.force().expect("forces");
    let left: Vec<u32> = tables.iter().copied().filter(|table| *table != u32::MAX).collect();
    assert_eq!(store.tables(), Ok(left));
    assert_eq!(store.get(5, b"key"), Ok(None));
    assert_eq!(count(store, 5), 1);
    let report = store.check().expect("whole");
    assert_eq!((report.tables, report.rows), (201, 201));
}

fn what_was_forced_is_there_after_reopening(open: Open<'_>) {
    for life in 0..4_u8 {
        let store = open("reopen");
        for earlier in 0..life {
            assert_eq!(store.get(1, &[earlier]), Ok(Some(vec![earlier; 100])), "life {life}");
        }
        assert_eq!(count(&*store, 1), usize::from(life));
        assert_eq!(count(&*store, 2), 0, "dropped in the life before");
        put(&*store, 1, &[life], &[life; 100]);
        put(&*store, 2, b"gone", b"soon");
        store.drop_table(2).expect("drops");
        store.force().expect("forces");
    }
}

fn random_calls_agree_with_a_model(open: Open<'_>) {
    for seed in 1..=6_u64 {
        let place = format!("random-{seed}");
        let mut random = seed;
        let mut model: BTreeMap<(u32, Vec<u8>), Vec<u8>> = BTreeMap::new();
        for _life in 0..3 {
            let store = open(&place);
            for _ in 0..40 {
                change_at_random(&*store, &mut model, &mut random);
            }
            for table in 0..4 {
                let rows = model.range((table, vec![])..(table + 1, vec![]));
                let expected: Vec<_> = rows.map(|((_, key), value)| (key.clone(), value.clone())).collect();
                assert_eq!(
                    store.scan(table, Unbounded, Unbounded, false, usize::MAX),
                    Ok(expected),
                    "seed {seed}"
                );
            }
            assert_eq!(store.check().expect("whole").rows, model.len() as u64, "seed {seed}");
            store.force().expect("forces");
        }
    }
}

fn change_at_random(store: &dyn Store, model: &mut BTreeMap<(u32, Vec<u8>), Vec<u8>>, random: &mut u64) {
    match next_random(random) % 20 {
        0 => {
            let table = (next_random(random) % 4) as u32;
            store.drop_table(table).expect("drops");
            model.retain(|(other, _), _| *other != table);
        }
        1 => store.force().expect("forces"),
        2..=4 => put_many(store, model, random),
        _ => {
            let mut batch = Batch::new();
            for _ in 0..next_random(random) % 60 {
                let table = (next_random(random) % 4) as u32;
                let key = (next_random(random) % 300).to_be_bytes()[6..].to_vec();
                if next_random(random) & 3 == 0 {
                    batch.delete(table, key.clone());
                    model.remove(&(table, key));
                } else {
                    let value = vec![next_random(random) as u8; (next_random(random) % 500) as usize];
                    batch.put(table, key.clone(), value.clone());
                    model.insert((table, key), value);
                }
            }
            store.apply(batch).expect("applies");
        }
    }
}

/// A batch of more than a megabyte without deletions, as loads bring them. Its keys are those that others delete.
fn put_many(store: &dyn Store, model: &mut BTreeMap<(u32, Vec<u8>), Vec<u8>>, random: &mut u64) {
    let mut batch = Batch::new();
    let tables = 1 + next_random(random) % 3;
    for table in 0..tables as u32 {
        let step = 1 + next_random(random) % 3;
        for key in (0..300_u64).rev().filter(|key| key % step == 0) {
            let key = key.to_be_bytes()[6..].to_vec();
            let value = vec![next_random(random) as u8; 5_000 + (next_random(random) % 6_000) as usize];
            batch.put(table, &key, &value);
            model.insert((table, key), value);
        }
    }
    store.apply(batch).expect("applies");
}

fn readers_never_see_half_a_batch(store: &dyn Store) {
    let write = |round: u32| {
        let mut batch = Batch::new();
        for key in 0..100_u32 {
            // Some of them are large.
            let mut value = round.to_be_bytes().to_vec();
            value.resize(if round.is_multiple_of(20) { 12_000 } else { 4 }, 0);
            batch.put(1, key.to_be_bytes(), value);
        }
        store.apply(batch).expect("applies");
    };
    write(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (1..200).for_each(write));
        while !writer.is_finished() {
            let rows = store.scan(1, Unbounded, Unbounded, false, usize::MAX).expect("scans");
            assert_eq!(rows.len(), 100);
            assert!(
                rows.iter().all(|(_, value)| *value == rows[0].1),
                "one scan shows one batch"
            );
        }
    });
    assert_eq!(
        store.get(1, &7_u32.to_be_bytes()),
        Ok(Some(199_u32.to_be_bytes().to_vec()))
    );
}

/// splitmix64.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
