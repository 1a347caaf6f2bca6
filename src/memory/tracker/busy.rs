//! Which pages every run writes to.

use std::ops::Range;

use crate::memory::HOST_PAGE as PAGE;

/// Captures after which busy pages are found anew.
const BUSY_FOR: u32 = 64;
/// The most ranges that are protected one by one, rather than all that was written.
const MAX_APART: usize = 48;

/// Which pages every run writes to. Noticing a write costs a page fault, so these are left
/// unprotected, and looked at after every run.
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// The pages written before the last capture, by address, sorted.
    last: Vec<usize>,
    captures: u32,
}

impl Busy {
    /// Begins anew where all that was `written` is protected.
    pub(super) fn begin(&mut self, written: &[Range<usize>]) {
        self.last = pages(written).collect();
    }

    /// What of `written` was not written before the last capture as well, to be protected; `None`
    /// for all of it.
    pub(super) fn settled(&mut self, written: &[Range<usize>]) -> Option<Vec<Range<usize>>> {
        let mut settled: Vec<Range<usize>> = Vec::new();
        let mut now = Vec::new();
        for page in pages(written) {
            now.push(page);
            if self.last.binary_search(&page).is_err() {
                match settled.last_mut() {
                    Some(last) if last.end == page => last.end += PAGE,
                    _ => settled.push(page..page + PAGE),
                }
            }
        }
        self.captures += 1;
        if settled.len() > MAX_APART || self.captures.is_multiple_of(BUSY_FOR) {
            self.last = now;
            return None;
        }
        self.last = now;
        Some(settled)
    }
}

fn pages(ranges: &[Range<usize>]) -> impl Iterator<Item = usize> {
    ranges.iter().flat_map(|range| range.clone().step_by(PAGE))
}
