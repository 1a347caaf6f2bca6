//! Tracks which pages of a live memory may have been written.

use std::ops::Range;

use crate::{HOST_PAGE as PAGE, sys};

/// The state of write tracking for one guest's memory.
///
/// Detecting a write costs a page fault, and a guest writes to the same pages in run after run. So
/// written pages stay unprotected and are compared after every run, until too many comparisons find
/// no change.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// Number of bytes from the memory's start that are watched.
    watched: usize,
    /// Whether all watched pages, including absent ones, were protected once: the page table alone
    /// then tells which are not protected now.
    is_exact: bool,
    /// Whether all pages were just protected.
    is_fresh: bool,
    /// Number of comparisons since then that found no change.
    in_vain: usize,
    /// Limit on such comparisons before all pages are protected again.
    patience: Patience,
}

/// Decides how many comparisons without change are accepted before all pages are protected again.
/// Protecting costs a fault for each page that the next runs write to, several hundred. It is
/// worthwhile if there are fewer of them than before.
#[derive(Debug)]
struct Patience {
    pages: usize,
    /// Number of compared pages when all pages were last protected.
    before: usize,
}

/// Number of comparisons that cost as much as protecting.
const MIN_PATIENCE: usize = 4096;
const MAX_PATIENCE: usize = 1 << 16;

impl Writes {
    /// Stops watching.
    pub(super) fn forget(&mut self) {
        self.watched = 0;
    }

    /// Returns the ranges that may have been written since the last call, as offsets; on the first
    /// call, all pages that are no longer the file's. Returns `None` if the kernel does not report
    /// writes.
    pub(super) fn find(&mut self, memory: &[u8]) -> Option<Vec<Range<usize>>> {
        let all = addresses(memory);
        if self.watched > memory.len() || !self.is_exact && self.watched < memory.len() {
            self.watched = 0;
        }
        let new = all.start + self.watched..all.end;
        let known = all.start..new.start;
        let mut found = if known.is_empty() {
            Vec::new()
        } else if self.is_exact {
            sys::unprotected_pages(known.clone(), false)?
        } else {
            sys::written_pages(known.clone(), false)?
        };
        if !new.is_empty() {
            self.is_fresh = known.is_empty();
            self.watched = 0;
            if !sys::watch(new.clone()) {
                return None;
            }
            found.extend(sys::written_pages(new.clone(), false)?);
            let is_exact = protect(new.clone());
            if !is_exact {
                // From here on, the kernel reports all pages in the same way.
                sys::written_pages(all.clone(), true)?;
            }
            self.is_exact = is_exact;
            self.watched = memory.len();
        }
        Some(offsets(&found, all.start))
    }

    /// Records that `looked_at` pages were compared and `changed` of them differed. Their current
    /// contents are now known, so only later writes matter.
    pub(super) fn settle(&mut self, memory: &[u8], (looked_at, changed): (usize, usize)) {
        if std::mem::take(&mut self.is_fresh) {
            self.in_vain = 0;
            return;
        }
        self.in_vain += looked_at.saturating_sub(changed);
        if self.watched == 0 || self.in_vain < self.patience.pages {
            return;
        }
        self.in_vain = 0;
        self.patience.learn(looked_at);
        let all = addresses(memory);
        let is_done = if self.is_exact {
            sys::protect(all)
        } else {
            sys::written_pages(all, true).is_some()
        };
        if !is_done {
            self.forget();
        }
    }

    /// Records that `range` of the memory was mapped again, and has known contents.
    pub(super) fn remapped(&mut self, memory: &[u8], range: &Range<usize>) {
        if self.watched == 0 {
            return;
        }
        let start = addresses(memory).start;
        let range = start + range.start..start + range.end;
        // A new mapping is not watched.
        let is_done = sys::watch(range.clone()) && (!self.is_exact || protect(range));
        if !is_done {
            self.forget();
        }
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            pages: MIN_PATIENCE,
            before: usize::MAX,
        }
    }
}

impl Patience {
    /// Records that `looked_at` pages were compared before all pages are protected. If the last
    /// protection gained little, because the guest writes to the same pages in run after run, the
    /// limit increases.
    fn learn(&mut self, looked_at: usize) {
        let has_gained = looked_at < self.before / 4 * 3;
        self.pages = if has_gained {
            MIN_PATIENCE
        } else {
            (2 * self.pages).min(MAX_PATIENCE)
        };
        self.before = looked_at;
    }
}

/// Protects all of `range`. Returns whether the page table now reports all of it as protected:
/// kernels before 6.18 may report absent pages as written.
fn protect(range: Range<usize>) -> bool {
    sys::protect(range.clone())
        && sys::unprotected_pages(range, false).is_some_and(|found| found.is_empty())
}

/// Returns the ranges that were written since the image was mapped, as offsets; `None` if the
/// kernel cannot tell.
pub(super) fn private(memory: &[u8]) -> Option<Vec<Range<usize>>> {
    let all = addresses(memory);
    Some(offsets(&sys::private_pages(all.clone(), usize::MAX)?, all.start))
}

fn addresses(memory: &[u8]) -> Range<usize> {
    let all = memory.as_ptr_range();
    all.start as usize..all.end as usize
}

/// Converts addresses to offsets from `start`.
fn offsets(addresses: &[Range<usize>], start: usize) -> Vec<Range<usize>> {
    addresses.iter().map(|range| range.start - start..range.end - start).collect()
}

/// Returns the number of pages in `ranges`.
pub(super) fn count(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum::<usize>() / PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gains_nothing_is_done_less_and_less_often() {
        let mut patience = Patience::default();
        patience.learn(380);
        assert_eq!(patience.pages, MIN_PATIENCE, "nothing is known yet");
        for times in 1..4 {
            patience.learn(380);
            assert_eq!(patience.pages, MIN_PATIENCE << times);
        }
        // A single run with many writes must not cause many comparisons.
        patience.learn(25_000);
        patience.learn(400);
        assert_eq!(patience.pages, MIN_PATIENCE);
        for _ in 0..100 {
            patience.learn(400);
        }
        assert_eq!(patience.pages, MAX_PATIENCE);
    }
}
