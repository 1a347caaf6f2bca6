//! Errors of the libraries underneath, without their types.

use std::error::Error;
use std::fmt;

/// What a library underneath said. Only that it is an error is promised, not of which library or
/// version.
pub struct Cause(wasmtime::Error);

impl Cause {
    pub(crate) fn new(error: impl Into<wasmtime::Error>) -> Self {
        Self(error.into())
    }

    pub(crate) fn into_inner(self) -> wasmtime::Error {
        self.0
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
