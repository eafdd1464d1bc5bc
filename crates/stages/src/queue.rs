//! The bounded queue in front of a stage.

use std::collections::VecDeque;

/// How many instructions a stage's queue holds unless told otherwise.
pub const QUEUE_CAPACITY_DEFAULT: usize = 4096;

/// A first-in first-out queue that never holds more than its capacity.
#[derive(Debug)]
pub struct BoundedQueue<T> {
    items: VecDeque<T>,
    capacity: usize,
}

impl<T> BoundedQueue<T> {
    /// An empty queue for at most `capacity` items, at least one. Memory is taken as it is needed.
    pub fn new(capacity: usize) -> BoundedQueue<T> {
        BoundedQueue {
            items: VecDeque::new(),
            capacity: capacity.max(1),
        }
    }

    /// Appends, or gives the item back when the queue is full: that is the backpressure.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.is_full() {
            return Err(item);
        }
        self.items.push_back(item);
        Ok(())
    }

    /// The oldest item.
    pub fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    /// All items, from the oldest on.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut()
    }

    /// How many items wait.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether a push would be refused.
    pub fn is_full(&self) -> bool {
        self.items.len() >= self.capacity
    }

    /// The most it ever holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_gives_the_item_back() {
        let mut queue = BoundedQueue::new(2);
        assert_eq!((queue.push(1), queue.push(2), queue.push(3)), (Ok(()), Ok(()), Err(3)));
        assert_eq!(
            (queue.pop(), queue.push(4), queue.pop(), queue.pop(), queue.pop()),
            (Some(1), Ok(()), Some(2), Some(4), None)
        );
    }
}
