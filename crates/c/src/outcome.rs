//! The outcome of a run.
#![expect(unsafe_code, reason = "pointers come from C")]

use std::ffi::{CString, c_char};

use belljar::Run;
use belljar::blocking::Session;

use crate::failure::{Failure, guarded};
use crate::strings::{give, give_bytes, handle, text};

/// The result of a run: its outcome and its files.
pub struct Outcome {
    document: CString,
    files: Files,
}

/// The place of a run's files.
enum Files {
    Run(Box<Run>),
    Session(Session),
}

impl Outcome {
    pub(crate) fn of_run(run: Run) -> Result<Self, Failure> {
        Ok(Self {
            document: document(&run.outcome)?,
            files: Files::Run(Box::new(run)),
        })
    }

    pub(crate) fn of_session(
        outcome: &belljar::Outcome,
        session: Session,
    ) -> Result<Self, Failure> {
        Ok(Self {
            document: document(outcome)?,
            files: Files::Session(session),
        })
    }
}

fn document(outcome: &belljar::Outcome) -> Result<CString, Failure> {
    let problem = |e: &dyn std::fmt::Display| Failure::argument("outcome", format!("is lost: {e}"));
    let text = serde_json::to_string(outcome).map_err(|e| problem(&e))?;
    CString::new(text).map_err(|e| problem(&e))
}

/// Returns the outcome as JSON, as described in `docs/reference/outcome.md`. The text belongs to
/// the outcome and is freed with it. Returns null if `outcome` is null.
///
/// # Safety
///
/// `outcome` is null, or was returned by this library and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_outcome_json(outcome: *const Outcome) -> *const c_char {
    // SAFETY: as promised.
    unsafe { outcome.as_ref() }.map_or(std::ptr::null(), |outcome| outcome.document.as_ptr())
}

/// Reads a file of the run. Free it with `belljar_bytes_free`. Files of a session's run are read
/// from the session's workspace, in their current state.
///
/// # Safety
///
/// `outcome` was returned by this library and is not freed yet; `path` is text; `bytes` and
/// `length` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_outcome_read(
    outcome: *const Outcome,
    path: *const c_char,
    bytes: *mut *mut u8,
    length: *mut usize,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let outcome = unsafe { handle("outcome", outcome) }?;
        // SAFETY: as promised.
        let path = unsafe { text("path", path) }?;
        let read = match &outcome.files {
            Files::Run(run) => run.read(path)?,
            Files::Session(session) => session.read(path)?,
        };
        // SAFETY: as promised, both are writable.
        unsafe { give_file(read, bytes, length) }
    })
}

/// Returns bytes and their length.
///
/// # Safety
///
/// Both places are null or writable.
pub(crate) unsafe fn give_file(
    read: Vec<u8>,
    bytes: *mut *mut u8,
    length: *mut usize,
) -> Result<(), Failure> {
    if bytes.is_null() || length.is_null() {
        return Err(Failure::argument("bytes` or `length", "is null"));
    }
    let (start, count) = give_bytes(read);
    // SAFETY: neither is null, and as promised both are writable.
    unsafe {
        give("bytes", bytes, start)?;
        give("length", length, count)
    }
}

/// Frees the outcome, with the run's files. Files of a session are kept.
///
/// # Safety
///
/// `outcome` is null, or was returned by this library and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_outcome_free(outcome: *mut Outcome) {
    if !outcome.is_null() {
        // SAFETY: it was made by `Box::into_raw` when it was returned.
        drop(unsafe { Box::from_raw(outcome) });
    }
}
