//! Text and bytes that cross the border.
#![expect(unsafe_code, reason = "pointers come from C")]

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::slice;

use crate::failure::Failure;

/// The version of this interface that the library has: compare it with `BELLJAR_ABI_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn belljar_abi_version() -> u32 {
    crate::BELLJAR_ABI_VERSION
}

/// The version of belljar. It is not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn belljar_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Frees text that a function of this library gave.
///
/// # Safety
///
/// `text` is null, or was given by this library and not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the caller says that it is what `give_text` made.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Frees bytes that a function of this library gave.
///
/// # Safety
///
/// `bytes` and `length` are null and 0, or were given together by this library and not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_bytes_free(bytes: *mut u8, length: usize) {
    if !bytes.is_null() {
        // SAFETY: the caller says that it is what `give_bytes` made.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(bytes, length)) });
    }
}

/// Text of the caller.
///
/// # Safety
///
/// `text` is null, or ends with a zero byte and stays as it is for the life of what is returned.
pub(crate) unsafe fn text<'a>(name: &'static str, text: *const c_char) -> Result<&'a str, Failure> {
    // SAFETY: the caller of this function promises it.
    let text = unsafe { optional_text(name, text) }?;
    text.ok_or_else(|| Failure::argument(name, "is null"))
}

/// Text of the caller, who may have none.
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

/// Bytes of the caller.
///
/// # Safety
///
/// `bytes` points to `length` bytes that stay as they are for the life of what is returned; it may
/// be null when there are none.
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

/// A handle of the caller.
///
/// # Safety
///
/// `handle` is null, or points to a `T` for the life of what is returned.
pub(crate) unsafe fn handle<'a, T>(name: &'static str, handle: *const T) -> Result<&'a T, Failure> {
    // SAFETY: the caller of this function promises it.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::argument(name, "is null"))
}

/// Writes what a function gives to where the caller wants it.
///
/// # Safety
///
/// `place` is null, or a `T` may be written there.
pub(crate) unsafe fn give<T>(name: &'static str, place: *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::argument(name, "is null"));
    }
    // SAFETY: the caller of this function promises that it may be written.
    unsafe { place.write(value) };
    Ok(())
}

/// Text for the caller. JSON holds no zero byte, and neither does text that guests name.
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
