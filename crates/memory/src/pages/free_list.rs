//! Free places in the file of a page store.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Maximum number of free pages kept for the next capture: their memory is already allocated.
pub(super) const MAX_FREED: u64 = 1024;
/// Number of pages released at once when there are more: several hundred together form fewer and
/// longer ranges of the file.
const SURPLUS: u64 = MAX_FREED / 2;
/// Minimum number of consecutive pages worth a block of their own.
const MIN_REUSED: u64 = 4;
/// Minimum number of consecutive pages reused for an import: each range is another mapping for a
/// guest.
const MIN_LONG: u64 = 256;
/// Maximum number of pages kept for the next import after a large import.
const MAX_LONG: u64 = 16_384;
/// How long pages are kept for the next import.
const LONG_FOR: Duration = Duration::from_secs(10);

/// Free pages of the file, each once, by their places.
#[derive(Debug, Default)]
pub(super) struct Freed {
    /// End of each range by its start; ranges do not touch.
    ends: BTreeMap<u64, u64>,
    count: u64,
    /// Size of the largest recent import, and the time of the last import.
    long: Option<(u64, Instant)>,
}

impl Freed {
    /// Adds free pages.
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

    /// Takes up to `wanted` pages, in ranges that are long enough.
    pub(super) fn take(&mut self, wanted: u64) -> Vec<Range<u64>> {
        self.take_from(wanted, MIN_REUSED)
    }

    /// Takes up to `wanted` pages for an import. As many are kept afterwards for the next import.
    pub(super) fn take_long(&mut self, wanted: u64) -> Vec<Range<u64>> {
        let most = self.long.map_or(0, |(most, _)| most).max(wanted.min(MAX_LONG));
        self.long = Some((most, Instant::now()));
        self.take_from(wanted, MIN_LONG)
    }

    fn take_from(&mut self, wanted: u64, worth: u64) -> Vec<Range<u64>> {
        let mut left = wanted;
        let mut taken = Vec::new();
        let worth = worth.min(wanted);
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

    /// Takes the pages to release to the system.
    pub(super) fn surplus(&mut self) -> Vec<Range<u64>> {
        let mut surplus = Vec::new();
        let most = MAX_FREED + self.long.map_or(0, |(most, _)| most);
        if self.count > most {
            let kept = most - SURPLUS;
            while self.count > kept
                && let Some((mut start, end)) = self.ends.pop_last()
            {
                if end - start > MAX_FREED {
                    // Cuts a long range, because the next import can use the rest.
                    let cut = end - (self.count - kept).min(end - start);
                    if start < cut {
                        self.ends.insert(start, cut);
                    }
                    start = cut;
                }
                self.count -= end - start;
                surplus.push(start..end);
            }
        }
        surplus
    }

    /// Takes the pages to release when there was no import for a while.
    pub(super) fn trim(&mut self) -> Vec<Range<u64>> {
        match self.long {
            Some((_, last)) if last.elapsed() >= LONG_FOR => {
                self.long = None;
                self.surplus()
            }
            _ => Vec::new(),
        }
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

    #[test]
    fn as_much_is_kept_as_came_in_of_late() {
        const MUCH: u64 = 5 * MAX_FREED;
        let mut freed = Freed::default();
        assert!(freed.take_long(MUCH).is_empty());
        freed.add(&(0..MUCH));
        assert!(freed.surplus().is_empty());
        assert_eq!(freed.take_long(10), vec![0..10], "it is less, and no reason to keep less");
        freed.add(&(0..10));
        let too_much = MUCH + MAX_FREED + 10;
        freed.add(&(MUCH..too_much));
        let kept = MUCH + MAX_FREED - SURPLUS;
        assert_eq!(freed.surplus(), vec![kept..too_much]);
        assert!(freed.trim().is_empty(), "it was just now");
        freed.long = freed.long.map(|(most, last)| (most, last.checked_sub(LONG_FOR).unwrap()));
        assert_eq!(freed.trim(), vec![MAX_FREED - SURPLUS..kept]);
        assert_eq!(freed.take_all(), vec![0..MAX_FREED - SURPLUS]);
        freed.add(&(0..MIN_LONG - 1));
        assert!(freed.take_long(MUCH).is_empty(), "too short a row");
        assert!(freed.take_long(u64::from(u32::MAX)).is_empty());
        freed.add(&(MUCH..MUCH + MAX_LONG + MAX_FREED + 1));
        assert!(!freed.surplus().is_empty(), "it has an end");
    }
}
