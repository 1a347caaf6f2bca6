//! Tests that compare the library with its documents and its module with CPython's.

#[cfg(feature = "compile")]
mod calls;
mod documents;
#[cfg(feature = "compile")]
mod overflows;
#[cfg(feature = "compile")]
mod replaced;
