//! The heap of the GNU C library, which serves small allocations.
#![expect(
    unsafe_code,
    reason = "calls the C library, which has no safe wrapper for this"
)]

use std::ffi::c_int;

unsafe extern "C" {
    fn malloc_trim(pad: usize) -> c_int;
}

/// Returns free memory of the heap to the system, including memory between pieces in use.
pub(super) fn trim() {
    // SAFETY: it may be called at any time from any thread, and accesses only free memory. If the
    // program uses another allocator, this trims the C library's own heap, which has no effect.
    unsafe { malloc_trim(0) };
}
