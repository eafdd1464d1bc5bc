//! A batch of changes.

/// One change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The table.
    pub table: u32,
    /// The key.
    pub key: Vec<u8>,
    /// The new value; `None` deletes the key.
    pub value: Option<Vec<u8>>,
}

/// Changes that take effect together. A store sees them sorted by table and key, each key once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    changes: Vec<Change>,
    unsorted: bool,
    bytes: usize,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Makes room for so many more changes.
    pub fn reserve(&mut self, changes: usize) {
        self.changes.reserve(changes);
    }

    /// Sets a key to a value. Of several changes of one key the last one counts.
    pub fn put(&mut self, table: u32, key: Vec<u8>, value: Vec<u8>) {
        self.push(Change {
            table,
            key,
            value: Some(value),
        });
    }

    /// Deletes a key, which need not exist.
    pub fn delete(&mut self, table: u32, key: Vec<u8>) {
        self.push(Change {
            table,
            key,
            value: None,
        });
    }

    /// Number of changes added.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Keys and values added, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The length of the longest key.
    pub fn key_bytes_max(&self) -> usize {
        self.changes.iter().map(|change| change.key.len()).max().unwrap_or(0)
    }

    /// The changes by table and key, each key once.
    pub fn into_sorted(mut self) -> Vec<Change> {
        if self.unsorted {
            // A stable sort keeps the changes of one key in the order they were made; the last one is to stay.
            self.changes
                .sort_by(|left, right| (left.table, &left.key).cmp(&(right.table, &right.key)));
            self.changes.reverse();
            self.changes
                .dedup_by(|later, kept| later.table == kept.table && later.key == kept.key);
            self.changes.reverse();
        }
        self.changes
    }

    fn push(&mut self, change: Change) {
        self.bytes += change.key.len() + change.value.as_ref().map_or(0, Vec::len);
        if let Some(last) = self.changes.last() {
            self.unsorted |= (last.table, &last.key) >= (change.table, &change.key);
        }
        self.changes.push(change);
    }
}

#[cfg(test)]
mod tests {
    use super::Batch;

    #[test]
    fn the_last_change_of_a_key_counts_and_keys_are_sorted() {
        let mut batch = Batch::new();
        batch.put(2, vec![1], vec![1]);
        batch.put(1, vec![5], vec![2]);
        batch.delete(2, vec![1]);
        batch.put(1, vec![5], vec![3]);
        batch.put(1, vec![4], vec![4]);
        let sorted: Vec<_> = batch
            .into_sorted()
            .into_iter()
            .map(|change| (change.table, change.key, change.value))
            .collect();
        let expected = vec![
            (1, vec![4], Some(vec![4])),
            (1, vec![5], Some(vec![3])),
            (2, vec![1], None),
        ];
        assert_eq!(sorted, expected);
    }
}
