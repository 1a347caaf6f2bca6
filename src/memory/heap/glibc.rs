//! The heap of the GNU C library, from which everything small comes.
#![expect(
    unsafe_code,
    reason = "calls the C library, which has no safe wrapper for this"
)]

use std::ffi::c_int;

unsafe extern "C" {
    fn malloc_trim(pad: usize) -> c_int;
}

/// Gives free memory of the heap back to the system, also what lies between memory that is in use.
pub(super) fn trim() {
    // SAFETY: it may be called at any time from any thread, and touches only memory that is free. Where
    // the program has another allocator the C library's own heap is trimmed, which changes nothing.
    unsafe { malloc_trim(0) };
}
