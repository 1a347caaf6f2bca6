//! In the place of `mailbox` on Windows, whose event loops watch no sockets.

use std::sync::Arc;

use pyo3::prelude::*;

use super::Letter;

/// Has no value.
pub(super) enum Mailbox {}

impl Mailbox {
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    pub(super) fn of(_event_loop: &Bound<'_, PyAny>) -> PyResult<Option<Arc<Self>>> {
        Ok(None)
    }

    pub(super) fn expect(&self) {
        match *self {}
    }

    pub(super) fn answered(&self) {
        match *self {}
    }

    pub(super) fn put(&self, _letter: Letter) {
        match *self {}
    }
}
