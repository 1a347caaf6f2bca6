//! Text and bytes passed between C and Rust.
#![expect(unsafe_code, reason = "pointers come from C")]

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::slice;

use crate::failure::Failure;

/// Version of the library's interface: compare it with `BELLJAR_ABI_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn belljar_abi_version() -> u32 {
    crate::BELLJAR_ABI_VERSION
}

/// Version of belljar. Must not be freed.
#[unsafe(no_mangle)]
pub extern "C" fn belljar_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Frees text returned by this library.
///
/// # Safety
///
/// `text` is null, or was returned by this library and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the caller promises that it was made by `give_text`.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Frees bytes returned by this library.
///
/// # Safety
///
/// `bytes` and `length` are null and 0, or were returned together by this library and are not freed
/// yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_bytes_free(bytes: *mut u8, length: usize) {
    if !bytes.is_null() {
        // SAFETY: the caller promises that they were made by `give_bytes`.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(bytes, length)) });
    }
}

/// Text from the caller.
///
/// # Safety
///
/// `text` is null, or ends with a zero byte and does not change during the lifetime of the result.
pub(crate) unsafe fn text<'a>(name: &'static str, text: *const c_char) -> Result<&'a str, Failure> {
    // SAFETY: the caller of this function promises it.
    let text = unsafe { optional_text(name, text) }?;
    text.ok_or_else(|| Failure::argument(name, "is null"))
}

/// Text from the caller, or `None` for null.
///
/// # Safety
///
/// As for [`text`].
pub(crate) unsafe fn optional_text<'a>(
    name: &'static str,
    text: *const c_char,
) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: it is not null, so the caller says that it ends with a zero byte.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Failure::argument(name, "is not UTF-8"))
}

/// Bytes from the caller.
///
/// # Safety
///
/// `bytes` points to `length` bytes that do not change during the lifetime of the result; it may be
/// null if `length` is 0.
pub(crate) unsafe fn bytes<'a>(
    name: &'static str,
    bytes: *const u8,
    length: usize,
) -> Result<&'a [u8], Failure> {
    match (bytes.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::argument(name, "is null")),
        // SAFETY: the caller of this function promises it.
        (false, _) => Ok(unsafe { slice::from_raw_parts(bytes, length) }),
    }
}

/// A handle from the caller.
///
/// # Safety
///
/// `handle` is null, or points to a `T` during the lifetime of the result.
pub(crate) unsafe fn handle<'a, T>(name: &'static str, handle: *const T) -> Result<&'a T, Failure> {
    // SAFETY: the caller of this function promises it.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::argument(name, "is null"))
}

/// Writes a result to the caller's place.
///
/// # Safety
///
/// `place` is null, or a `T` may be written there.
pub(crate) unsafe fn give<T>(name: &'static str, place: *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::argument(name, "is null"));
    }
    // SAFETY: the caller of this function promises that it is writable.
    unsafe { place.write(value) };
    Ok(())
}

/// Text for the caller. Neither JSON nor text named by guests contains a zero byte.
pub(crate) fn give_text(text: impl Into<String>) -> *mut c_char {
    let mut text = text.into();
    text.retain(|c| c != '\0');
    CString::new(text).unwrap_or_default().into_raw()
}

/// Bytes for the caller.
pub(crate) fn give_bytes(bytes: Vec<u8>) -> (*mut u8, usize) {
    let length = bytes.len();
    (Box::into_raw(bytes.into_boxed_slice()).cast(), length)
}
