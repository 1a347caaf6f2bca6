//! Tests that compare the library with its documents and its module with CPython's.

mod documents;
#[cfg(feature = "compile")]
mod overflows;
