//! Which pages of a live memory may have been written.

use std::ops::Range;

use crate::memory::{HOST_PAGE as PAGE, sys};

/// What the kernel is asked to note of one guest's memory.
///
/// Noticing a write costs a page fault, and a guest writes to the same pages in run after run. So what
/// was written stays unprotected, and is looked at after every run, until too much is looked at in vain.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// How many bytes from the memory's start are watched.
    watched: usize,
    /// All of that was protected once, also where nothing was yet: the page table alone tells what is
    /// not any more.
    is_exact: bool,
    /// All has just been protected.
    is_fresh: bool,
    /// Pages that were looked at since, and had not changed.
    in_vain: usize,
    /// How many of these are borne before all is protected again.
    patience: Patience,
}

/// How often pages are looked at in vain before all are protected again. That costs a fault for each
/// page that the next runs write to, some hundred; it is worth it where these are fewer than before.
#[derive(Debug)]
struct Patience {
    pages: usize,
    /// How many pages were looked at when all were last protected.
    before: usize,
}

/// As many as cost what protecting costs.
const MIN_PATIENCE: usize = 4096;
const MAX_PATIENCE: usize = 1 << 16;

impl Writes {
    /// Nothing is watched any more.
    pub(super) fn forget(&mut self) {
        self.watched = 0;
    }

    /// What may have been written since it was last asked for, as offsets: at first everything that is
    /// not the file's any more. `None` where the kernel does not tell.
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
                // All of it is to be told in one way.
                sys::written_pages(all.clone(), true)?;
            }
            self.is_exact = is_exact;
            self.watched = memory.len();
        }
        Some(offsets(&found, all.start))
    }

    /// Notes that of so many pages that may have been written so many had changed. What they are now is
    /// known: from here on it is writes after this that matter.
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

    /// Notes that `range` of the memory was mapped anew, and is what is known of it.
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
    /// Notes that so many pages are looked at, and all will be protected. Where that gained little the
    /// last time, because the guest writes to the same pages in run after run, it waits longer.
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

/// Protects all of `range`, and says whether the page table then tells so: kernels before 6.18 may
/// take for written what is merely not there.
fn protect(range: Range<usize>) -> bool {
    sys::protect(range.clone())
        && sys::unprotected_pages(range, false).is_some_and(|found| found.is_empty())
}

/// What was ever written to since the image was mapped, as offsets; `None` when the kernel cannot tell.
pub(super) fn private(memory: &[u8]) -> Option<Vec<Range<usize>>> {
    let all = addresses(memory);
    Some(offsets(&sys::private_pages(all.clone(), usize::MAX)?, all.start))
}

fn addresses(memory: &[u8]) -> Range<usize> {
    let all = memory.as_ptr_range();
    all.start as usize..all.end as usize
}

/// Addresses as offsets from `start`.
fn offsets(addresses: &[Range<usize>], start: usize) -> Vec<Range<usize>> {
    addresses.iter().map(|range| range.start - start..range.end - start).collect()
}

/// How many pages there are in `ranges`.
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
        // A run that wrote to much comes once: that is not looked at again and again.
        patience.learn(25_000);
        patience.learn(400);
        assert_eq!(patience.pages, MIN_PATIENCE);
        for _ in 0..100 {
            patience.learn(400);
        }
        assert_eq!(patience.pages, MAX_PATIENCE);
    }
}
