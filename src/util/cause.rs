//! Errors of underlying libraries, without their types.

use std::error::Error;
use std::fmt;

use crate::util::hint;

/// The error of an underlying library. The API promises only that it is an error; library and
/// version may change.
pub struct Cause(wasmtime::Error);

impl Cause {
    pub(crate) fn new(error: impl Into<wasmtime::Error>) -> Self {
        Self(error.into())
    }

    /// Returns advice if the process has reached its limit on open files.
    pub(crate) fn lacks_descriptors(&self) -> Option<String> {
        self.0.downcast_ref().and_then(hint::lacks_descriptors)
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

/// Returns an error and its causes on one line, without repetitions.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_was_said_already_is_not_repeated() {
        let cause = wasmtime::Error::msg("no disk").context("cannot write: no disk");
        assert_eq!(
            with_causes(&Cause(cause.context("no result"))),
            "no result: cannot write: no disk"
        );
    }
}
