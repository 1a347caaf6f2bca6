//! Places in the file of pages that nobody holds any more.

use std::collections::BTreeMap;
use std::ops::Range;

/// The most pages that are kept for what is set aside next: their memory is there already.
pub(super) const MAX_FREED: u64 = 1024;
/// Pages that are given back to the system when there are more: some hundred at once, which
/// together are fewer and longer stretches of the file.
const SURPLUS: u64 = MAX_FREED / 2;
/// The fewest pages in a row that are worth a block of their own.
const MIN_REUSED: u64 = 4;

/// Pages of the file, none of them twice, by their places.
#[derive(Debug, Default)]
pub(super) struct Freed {
    /// Where each range ends, by where it begins; no two touch each other.
    ends: BTreeMap<u64, u64>,
    count: u64,
}

impl Freed {
    /// Adds pages that nobody holds.
    pub(super) fn add(&mut self, pages: &Range<u64>) {
        if pages.is_empty() {
            return;
        }
        self.count += pages.end - pages.start;
        let (mut start, mut end) = (pages.start, pages.end);
        if let Some((before, reaches)) = self.ends.range(..start).next_back()
            && *reaches == start
        {
            start = *before;
        }
        if let Some(reaches) = self.ends.remove(&end) {
            end = reaches;
        }
        self.ends.insert(start, end);
    }

    /// Takes so many pages at most, in ranges that are worth it.
    pub(super) fn take(&mut self, wanted: u64) -> Vec<Range<u64>> {
        let mut left = wanted;
        let mut taken = Vec::new();
        let worth = MIN_REUSED.min(wanted);
        for (start, end) in &self.ends {
            if left == 0 {
                break;
            }
            if end - start >= worth {
                let count = left.min(end - start);
                taken.push(*start..start + count);
                left -= count;
            }
        }
        for part in &taken {
            if let Some(end) = self.ends.remove(&part.start)
                && part.end < end
            {
                self.ends.insert(part.end, end);
            }
        }
        self.count -= wanted - left;
        taken
    }

    /// What is to be given back to the system.
    pub(super) fn surplus(&mut self) -> Vec<Range<u64>> {
        let mut surplus = Vec::new();
        if self.count > MAX_FREED {
            while self.count > MAX_FREED - SURPLUS
                && let Some((start, end)) = self.ends.pop_last()
            {
                self.count -= end - start;
                surplus.push(start..end);
            }
        }
        surplus
    }
}

#[cfg(test)]
impl Freed {
    pub(super) fn take_all(&mut self) -> Vec<Range<u64>> {
        self.count = 0;
        std::mem::take(&mut self.ends).into_iter().map(|(start, end)| start..end).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn each_page_is_there_once(
            steps in prop::collection::vec((0u64..400, 1u64..60, any::<bool>()), 1..80)
        ) {
            let (mut freed, mut expected) = (Freed::default(), BTreeSet::new());
            for (start, count, takes) in steps {
                if takes {
                    let taken = freed.take(count);
                    let pages: Vec<u64> = taken.into_iter().flatten().collect();
                    prop_assert!(pages.len() as u64 <= count);
                    for page in pages {
                        prop_assert!(expected.remove(&page));
                    }
                } else {
                    for page in start..start + count {
                        if expected.insert(page) {
                            freed.add(&(page..page + 1));
                        }
                    }
                }
                prop_assert_eq!(freed.count, expected.len() as u64);
                let ends: Vec<_> = freed.ends.iter().collect();
                prop_assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
            let left: Vec<u64> = freed.take_all().into_iter().flatten().collect();
            prop_assert_eq!(left, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_too_much_goes_from_the_end() {
        let mut freed = Freed::default();
        freed.add(&(0..MAX_FREED));
        assert!(freed.surplus().is_empty());
        freed.add(&(2 * MAX_FREED..2 * MAX_FREED + 1));
        freed.add(&(3 * MAX_FREED..4 * MAX_FREED));
        assert_eq!(freed.surplus().len(), 3);
        assert_eq!(freed.count, 0);
        let few = 0..MIN_REUSED - 1;
        freed.add(&few);
        assert!(freed.take(MIN_REUSED).is_empty(), "not worth it");
        assert_eq!(freed.take(few.end), vec![few]);
    }
}
