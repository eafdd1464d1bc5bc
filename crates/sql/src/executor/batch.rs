//! Tuples side by side in one allocation.

use rubato_base::Value;

/// A list of tuples of equal width.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    width: usize,
    count: usize,
    values: Vec<Value>,
}

impl Batch {
    /// An empty batch of tuples of `width` slots (which may be none).
    pub(crate) fn new(width: usize) -> Batch {
        Batch {
            width,
            count: 0,
            values: Vec::new(),
        }
    }

    /// How many slots each tuple has.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// About how many bytes the tuples take.
    pub(crate) fn heap_bytes(&self) -> usize {
        let heap: usize = self.values.iter().map(Value::heap_bytes).sum();
        heap + size_of_val(&self.values[..])
    }

    /// Appends all tuples of another of the same width.
    pub(crate) fn append(&mut self, mut other: Batch) {
        self.count += other.count;
        self.values.append(&mut other.values);
    }

    /// How many tuples there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no tuple.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Forgets all tuples and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.count = 0;
    }

    /// Tuple `index`.
    pub(crate) fn tuple(&self, index: usize) -> &[Value] {
        &self.values[index * self.width..(index + 1) * self.width]
    }

    /// Tuple `index`, to change it.
    pub(crate) fn tuple_mut(&mut self, index: usize) -> &mut [Value] {
        &mut self.values[index * self.width..(index + 1) * self.width]
    }

    /// Appends a tuple of NULLs.
    pub(crate) fn push_nulls(&mut self) {
        self.values.resize(self.values.len() + self.width, Value::Null);
        self.count += 1;
    }

    /// Appends a copy of `tuple` and gives it to be filled further.
    pub(crate) fn push_copy(&mut self, tuple: &[Value]) -> &mut [Value] {
        let start = self.values.len();
        self.values.extend_from_slice(tuple);
        self.count += 1;
        &mut self.values[start..]
    }

    /// The tuple that was appended last.
    pub(crate) fn last(&self) -> &[Value] {
        &self.values[self.values.len() - self.width..]
    }

    /// The same, to change it.
    pub(crate) fn last_mut(&mut self) -> &mut [Value] {
        let start = self.values.len() - self.width;
        &mut self.values[start..]
    }

    /// Takes back all tuples but the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.values.truncate(count * self.width);
        self.count = self.count.min(count);
    }

    /// Takes back the tuple that was appended last.
    pub(crate) fn drop_last(&mut self) {
        self.values.truncate(self.values.len() - self.width);
        self.count -= 1;
    }
}
