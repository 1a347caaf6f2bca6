//! Output order: that of the input, or as answers finish.

use std::collections::BTreeMap;

/// Holds answers back until their turn.
#[derive(Debug)]
pub(super) struct Order<T> {
    ordered: bool,
    next: u64,
    waiting: BTreeMap<u64, T>,
}

impl<T> Order<T> {
    pub(super) fn new(ordered: bool) -> Self {
        Self {
            ordered,
            next: 0,
            waiting: BTreeMap::new(),
        }
    }

    /// Takes the answer to line `sequence`, and returns all answers that are now due.
    pub(super) fn push(&mut self, sequence: u64, answer: T) -> Vec<T> {
        if !self.ordered {
            return vec![answer];
        }
        self.waiting.insert(sequence, answer);
        let mut ready = Vec::new();
        while let Some(answer) = self.waiting.remove(&self.next) {
            self.next += 1;
            ready.push(answer);
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_the_order_of_the_questions() {
        let mut order = Order::new(true);
        assert!(order.push(2, 'c').is_empty());
        assert!(order.push(1, 'b').is_empty());
        assert_eq!(order.push(0, 'a'), ['a', 'b', 'c']);
    }

    #[test]
    fn without_an_order_they_come_at_once() {
        let mut order = Order::new(false);
        assert_eq!(order.push(2, 'c'), ['c']);
        assert_eq!(order.push(0, 'a'), ['a']);
    }
}
