//! Queries Linux for the written pages of a private mapping.
#![expect(unsafe_code, reason = "the PAGEMAP_SCAN ioctl has no safe wrapper")]

use std::fs::File;
use std::ops::Range;

use rustix::ioctl;

use super::process::PerProcess;

/// The page was written since it was last write-protected ([`written_pages`]).
const PAGE_IS_WRITTEN: u64 = 1 << 1;
/// The page is still backed by the file; the private copy of a written page is not.
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
/// The page is the shared zero page: it was only read.
const PAGE_IS_ZERO: u64 = 1 << 5;

/// Write-protects the pages found, so that the next write is recorded.
const PROTECT_MATCHING: u64 = 1 << 0;
/// Fails for memory that is not watched.
const CHECK_WATCHED: u64 = 1 << 1;

/// Number of ranges per system call: the kernel's own buffer size.
const MAX_RANGES: usize = 512;

/// Argument of the ioctl, as in `linux/fs.h` (Linux 6.7 and later).
#[repr(C)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    ranges: u64,
    ranges_length: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any_of_mask: u64,
    return_mask: u64,
}

impl ScanArguments {
    /// A scan of `range`, without conditions or an output buffer yet.
    fn over(range: Range<usize>) -> Self {
        Self {
            size: size_of::<Self>() as u64,
            flags: 0,
            start: range.start as u64,
            end: range.end as u64,
            walk_end: 0,
            ranges: 0,
            ranges_length: MAX_RANGES as u64,
            max_pages: 0,
            category_inverted: 0,
            category_mask: 0,
            category_any_of_mask: 0,
            return_mask: PAGE_IS_PRESENT,
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct PageRange {
    start: u64,
    end: u64,
    categories: u64,
}

/// Returns the address ranges within `range`, a private file mapping, that were written since it
/// was mapped. Returns `None` if they exceed `max_bytes`, or if the kernel does not support this.
pub(crate) fn private_pages(range: Range<usize>, max_bytes: usize) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    let looking_for = ScanArguments {
        category_inverted: PAGE_IS_FILE,
        category_mask: PAGE_IS_FILE,
        category_any_of_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
        ..ScanArguments::over(range)
    };
    scan(looking_for, &mut found)?;
    (found.iter().map(ExactSizeIterator::len).sum::<usize>() <= max_bytes).then_some(found)
}

/// Returns the address ranges within `range`, private anonymous memory, that may not be zero.
/// Returns `None` if the kernel does not support this.
pub(super) fn touched_pages(range: Range<usize>) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    let looking_for = ScanArguments {
        category_inverted: PAGE_IS_ZERO,
        category_mask: PAGE_IS_ZERO,
        category_any_of_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
        ..ScanArguments::over(range)
    };
    scan(looking_for, &mut found)?;
    Some(found)
}

/// Returns the address ranges within `range` that were written since they were mapped or last
/// write-protected; with `protect`, write-protects them again. `range` must be watched
/// ([`super::watch`]). Returns `None` if the kernel does not support this.
pub(crate) fn written_pages(range: Range<usize>, protect: bool) -> Option<Vec<Range<usize>>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let looking_for = ScanArguments {
        flags: CHECK_WATCHED | if protect { PROTECT_MATCHING } else { 0 },
        category_inverted: PAGE_IS_FILE | PAGE_IS_ZERO,
        category_mask: PAGE_IS_FILE | PAGE_IS_ZERO | PAGE_IS_WRITTEN,
        category_any_of_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
        ..ScanArguments::over(range)
    };
    scan(looking_for, &mut found)?;
    Some(found)
}

/// Returns the address ranges within `range` that are not write-protected; with `protect`,
/// write-protects them again. All of `range` must be watched and have been protected once. Returns
/// `None` if the kernel does not support this.
///
/// This queries only the protection bit, which is in the page table itself. For any other category
/// the kernel reads each page's metadata, which is ten times as slow.
pub(crate) fn unprotected_pages(range: Range<usize>, protect: bool) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    let looking_for = ScanArguments {
        flags: CHECK_WATCHED | if protect { PROTECT_MATCHING } else { 0 },
        category_mask: PAGE_IS_WRITTEN,
        return_mask: PAGE_IS_WRITTEN,
        ..ScanArguments::over(range)
    };
    scan(looking_for, &mut found)?;
    Some(found)
}

/// Appends the ranges found. Returns `None` if the kernel does not support the scan.
fn scan(mut arguments: ScanArguments, found: &mut Vec<Range<usize>>) -> Option<()> {
    let mut ranges: Vec<PageRange> = Vec::with_capacity(MAX_RANGES);
    loop {
        ranges.clear();
        arguments.ranges = ranges.spare_capacity_mut().as_mut_ptr() as u64;
        // SAFETY: the opcode matches the argument's layout, and the kernel writes at most
        // `ranges_length` entries, for which `ranges` has capacity.
        let count = unsafe { ioctl::ioctl(pagemap()?, Scan(&mut arguments)) }.ok()?;
        // SAFETY: the kernel reports that it wrote `count` entries, at most the requested number.
        unsafe { ranges.set_len(count.min(MAX_RANGES)) };
        for PageRange { start, end, .. } in &ranges {
            match found.last_mut() {
                Some(last) if last.end == *start as usize => last.end = *end as usize,
                _ => found.push(*start as usize..*end as usize),
            }
        }
        // The kernel stops early only if the buffer is full. (Its `walk_end` does not tell: after
        // more ranges than the kernel's own buffer holds, it keeps an earlier address.)
        match ranges.last() {
            Some(last) if count >= MAX_RANGES && last.end < arguments.end => {
                arguments.start = last.end;
            }
            _ => return Some(()),
        }
    }
}

/// Opens the page map, for a process that will not be able to later.
pub(crate) fn open_what_is_read() {
    let _ = pagemap();
}

/// Returns this process's page map, opened once; `None` without `/proc`. An inherited descriptor
/// would describe the parent's pages.
fn pagemap() -> Option<&'static File> {
    static PAGEMAP: PerProcess<Option<File>> = PerProcess::new();
    PAGEMAP.get_or_init(|| File::open("/proc/self/pagemap").ok()).as_ref()
}

/// `PAGEMAP_SCAN`, which returns the number of ranges written.
struct Scan<'a>(&'a mut ScanArguments);

// SAFETY: opcode, direction and argument type are those of `linux/fs.h`; the kernel reads the
// argument and writes its `walk_end`.
unsafe impl ioctl::Ioctl for Scan<'_> {
    type Output = usize;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> ioctl::Opcode {
        ioctl::opcode::read_write::<ScanArguments>(b'f', 16)
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(
        out: ioctl::IoctlOutput,
        _: *mut std::ffi::c_void,
    ) -> rustix::io::Result<usize> {
        usize::try_from(out).map_err(|_| rustix::io::Errno::INVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{WATCHED, skip};
    use super::super::{Backing, Region};
    use super::*;
    use std::io::Write;
    use std::sync::Arc;

    const PAGE: usize = 4096;

    fn region_with(bytes: &[u8]) -> Region {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let backing = Arc::new(Backing::new(file, 0, bytes.len()).unwrap());
        let mut region = Region::reserve().unwrap();
        region.map(&backing).unwrap();
        region
    }

    fn write(region: &mut Region, at: usize, byte: u8) {
        assert!(at < region.len());
        // SAFETY: in bounds (asserted), and this test owns the region.
        unsafe { region.base().add(at).write_volatile(byte) };
    }

    fn read(region: &Region, at: usize) -> u8 {
        assert!(at < region.len());
        // SAFETY: in bounds (asserted), and this test owns the region.
        unsafe { region.base().add(at).read_volatile() }
    }

    #[test]
    fn a_reset_puts_back_what_was_written_and_only_that() {
        let mut region = region_with(&vec![7; 64 * PAGE]);
        for page in [3, 4, 40] {
            write(&mut region, page * PAGE + 9, 1);
        }
        let base = region.base() as usize;
        if let Some(ranges) = private_pages(base..base + region.len(), usize::MAX) {
            let pages: Vec<_> =
                ranges.iter().map(|r| (r.start - base) / PAGE..(r.end - base) / PAGE).collect();
            assert_eq!(pages, [3..5, 40..41]);
        }
        region.grow(80 * PAGE).unwrap();
        write(&mut region, 70 * PAGE, 5);
        region.reset().unwrap();
        assert_eq!(region.len(), 64 * PAGE);
        for page in 0..64 {
            assert_eq!(read(&region, page * PAGE + 9), 7, "page {page}");
        }
        region.grow(80 * PAGE).unwrap();
        assert_eq!(read(&region, 70 * PAGE), 0, "grown pages come back zeroed");
    }

    #[test]
    fn many_scattered_pages_are_all_put_back() {
        let pages = 4_000;
        let mut region = region_with(&vec![7; pages * PAGE]);
        for page in (0..pages).step_by(2) {
            write(&mut region, page * PAGE, 1);
        }
        let base = region.base() as usize;
        if let Some(ranges) = private_pages(base..base + region.len(), usize::MAX) {
            assert_eq!(ranges.len(), pages / 2);
        }
        region.reset().unwrap();
        assert!((0..pages).all(|page| read(&region, page * PAGE) == 7));
    }

    #[test]
    fn much_written_memory_is_dropped_instead_and_reads_as_the_image() {
        let pages = 6000;
        let mut region = region_with(&vec![7; pages * PAGE]);
        for page in 0..pages {
            write(&mut region, page * PAGE, 1);
        }
        region.reset().unwrap();
        assert!((0..pages).all(|page| read(&region, page * PAGE) == 7));
    }

    /// Whether this kernel tells cheaply what was written.
    fn is_watched(region: &Region) -> bool {
        let base = region.base() as usize;
        unprotected_pages(base..base + region.len(), false).is_some()
    }

    #[test]
    fn every_reset_finds_what_was_written_since_the_last() {
        let pages = 700;
        let mut region = region_with(&vec![7; pages * PAGE]);
        let mut random = 1_u64;
        for round in 0..60 {
            // Rarely write so much that the reset drops pages instead of copying them.
            let count = if round % 20 == 19 {
                pages
            } else {
                9 * round % 200
            };
            for _ in 0..count {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (random >> 33) as usize % (pages * PAGE);
                read(&region, at / 2);
                write(&mut region, at, round as u8);
            }
            region.reset().unwrap();
            assert!(region.bytes().iter().all(|byte| *byte == 7), "round {round}");
            assert!(round == 0 || is_watched(&region) == watch_works());
        }
    }

    fn watch_works() -> bool {
        let mut region = region_with(&[7; PAGE]);
        write(&mut region, 0, 1);
        let base = region.base() as usize;
        super::super::watch(base..base + PAGE)
    }

    /// On older kernels, all other tests of page tracking pass through the fallback. This test
    /// detects that.
    #[test]
    fn this_kernel_notes_what_is_written() {
        let region = region_with(&[7; PAGE]);
        let base = region.base() as usize;
        if private_pages(base..base + PAGE, usize::MAX).is_none() {
            skip("a kernel that lists private pages (PAGEMAP_SCAN, Linux 6.7)");
        }
        if !watch_works() {
            skip(WATCHED);
        }
    }

    #[test]
    fn what_is_not_written_any_more_is_protected_again() {
        let pages = 2_000;
        let mut region = region_with(&vec![7; pages * PAGE]);
        let unprotected = |region: &Region| {
            let base = region.base() as usize;
            unprotected_pages(base..base + region.len(), false)
                .map(|found| found.iter().map(ExactSizeIterator::len).sum::<usize>() / PAGE)
        };
        for page in 0..pages {
            write(&mut region, page * PAGE, 1);
        }
        region.reset().unwrap();
        if !is_watched(&region) {
            return skip(WATCHED);
        }
        assert_eq!(unprotected(&region), Some(pages));
        for _ in 0..20 {
            write(&mut region, 5 * PAGE, 1);
            region.reset().unwrap();
            assert!(region.bytes().iter().all(|byte| *byte == 7));
        }
        assert_eq!(unprotected(&region), Some(1));
    }

    #[test]
    fn another_image_is_watched_anew() {
        let mut region = region_with(&vec![7; 64 * PAGE]);
        for byte in 8..12 {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![byte; 32 * PAGE]).unwrap();
            let other = Arc::new(Backing::new(file, 0, 32 * PAGE).unwrap());
            region.map(&other).unwrap();
            for page in [1, 2, 30] {
                for _ in 0..3 {
                    write(&mut region, page * PAGE, 1);
                    region.reset().unwrap();
                    assert!(region.bytes().iter().all(|is| *is == byte));
                }
            }
        }
    }
}
