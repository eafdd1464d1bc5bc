//! A batch of changes.

/// One change of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    /// The table.
    pub table: u32,
    /// The key.
    pub key: &'a [u8],
    /// The new value; `None` deletes the key.
    pub value: Option<&'a [u8]>,
}

/// Changes that take effect together. A store sees them sorted by table and key, each key once.
///
/// Keys and values lie one behind the other in one piece of memory: a batch of a load has as many as a hundred thousand.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    content: Vec<u8>,
    places: Vec<Place>,
    is_unsorted: bool,
    key_bytes_max: usize,
}

/// Where a change lies in the content: the key, and behind it the value.
#[derive(Debug, Clone, Copy)]
struct Place {
    table: u32,
    begin: usize,
    key_end: usize,
    /// `None` deletes the key.
    value_end: Option<usize>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// An empty batch with room for so many changes, their keys and values.
    pub fn with_capacity(changes: usize, bytes: usize) -> Batch {
        Batch {
            content: Vec::with_capacity(bytes),
            places: Vec::with_capacity(changes),
            ..Batch::default()
        }
    }

    /// Sets a key to a value. Of several changes of one key the last one counts.
    pub fn put(&mut self, table: u32, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.put_parts(table, key.as_ref(), &[value.as_ref()]);
    }

    /// Sets a key to a value that is given in parts.
    pub fn put_parts(&mut self, table: u32, key: &[u8], value: &[&[u8]]) {
        let begin = self.content.len();
        self.content.extend_from_slice(key);
        value.iter().for_each(|part| self.content.extend_from_slice(part));
        self.push(Place {
            table,
            begin,
            key_end: begin + key.len(),
            value_end: Some(self.content.len()),
        });
    }

    /// Deletes a key, which need not exist.
    pub fn delete(&mut self, table: u32, key: impl AsRef<[u8]>) {
        let begin = self.content.len();
        self.content.extend_from_slice(key.as_ref());
        self.push(Place {
            table,
            begin,
            key_end: self.content.len(),
            value_end: None,
        });
    }

    /// Number of changes added.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Keys and values added, in bytes.
    pub fn bytes(&self) -> usize {
        self.content.len()
    }

    /// The length of the longest key.
    pub fn key_bytes_max(&self) -> usize {
        self.key_bytes_max
    }

    /// The changes by table and key, each key once.
    pub fn sorted(&mut self) -> Sorted<'_> {
        if std::mem::take(&mut self.is_unsorted) {
            let content = &self.content;
            let name = |place: &Place| (place.table, &content[place.begin..place.key_end]);
            // A stable sort keeps the changes of one key in the order they were made; the last one is to stay.
            self.places.sort_by(|left, right| name(left).cmp(&name(right)));
            self.places.reverse();
            self.places.dedup_by(|later, kept| name(later) == name(kept));
            self.places.reverse();
        }
        Sorted {
            content: &self.content,
            places: &self.places,
        }
    }

    fn push(&mut self, place: Place) {
        self.key_bytes_max = self.key_bytes_max.max(place.key_end - place.begin);
        if let Some(last) = self.places.last() {
            let name = |place: &Place| (place.table, &self.content[place.begin..place.key_end]);
            self.is_unsorted |= name(last) >= name(&place);
        }
        self.places.push(place);
    }
}

/// The changes of a batch by table and key.
#[derive(Debug, Clone, Copy)]
pub struct Sorted<'a> {
    content: &'a [u8],
    places: &'a [Place],
}

impl<'a> Sorted<'a> {
    /// The changes in order.
    pub fn changes(self) -> impl Iterator<Item = Change<'a>> + Clone {
        let change = move |place: &Place| Change {
            table: place.table,
            key: &self.content[place.begin..place.key_end],
            value: place.value_end.map(|end| &self.content[place.key_end..end]),
        };
        self.places.iter().map(change)
    }

    /// The tables that are changed, in ascending order, each with its changes.
    pub fn by_table(self) -> impl Iterator<Item = (u32, Sorted<'a>)> + Clone {
        let runs = self.places.chunk_by(|left, right| left.table == right.table);
        runs.map(move |places| (places[0].table, Sorted { places, ..self }))
    }
}

#[cfg(test)]
mod tests {
    use super::Batch;

    #[test]
    fn the_last_change_of_a_key_counts_and_keys_are_sorted() {
        let mut batch = Batch::new();
        batch.put(2, [1], [1]);
        batch.put(1, [5], [2]);
        batch.delete(2, [1]);
        batch.put_parts(1, &[5], &[&[3], &[], &[4, 5]]);
        batch.put(1, [4], [4]);
        assert_eq!((batch.len(), batch.bytes(), batch.key_bytes_max()), (5, 11, 1));
        let expected: Vec<(u32, &[u8], Option<&[u8]>)> =
            vec![(1, &[4], Some(&[4])), (1, &[5], Some(&[3, 4, 5])), (2, &[1], None)];
        for _again in 0..2 {
            let sorted: Vec<_> = batch
                .sorted()
                .changes()
                .map(|change| (change.table, change.key, change.value))
                .collect();
            assert_eq!(sorted, expected);
            let tables: Vec<_> = batch
                .sorted()
                .by_table()
                .map(|(table, rows)| (table, rows.changes().count()))
                .collect();
            assert_eq!(tables, [(1, 2), (2, 1)]);
        }
    }
}
