//! What a run gave.
#![expect(unsafe_code, reason = "pointers come from C")]

use std::ffi::{CString, c_char};

use belljar::Run;
use belljar::blocking::Session;

use crate::failure::{Failure, guarded};
use crate::strings::{give, give_bytes, handle, text};

/// What a run gave: its outcome, and the files that it left.
pub struct Outcome {
    document: CString,
    files: Files,
}

/// Where a run's files are.
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

/// The outcome as JSON, as `docs/reference/outcome.md` describes it. It is the outcome's, and there
/// until that is freed. Null when `outcome` is.
///
/// # Safety
///
/// `outcome` is null, or was given by this library and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_outcome_json(outcome: *const Outcome) -> *const c_char {
    // SAFETY: as promised.
    unsafe { outcome.as_ref() }.map_or(std::ptr::null(), |outcome| outcome.document.as_ptr())
}

/// The bytes of a file that the run left, for `belljar_bytes_free`. Those of a session's run are read
/// from the session's workspace, as they are now.
///
/// # Safety
///
/// `outcome` was given by this library and is not freed yet; `path` is text; `bytes` and `length` may
/// be written to.
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
        // SAFETY: as promised, both may be written to.
        unsafe { give_file(read, bytes, length) }
    })
}

/// Gives bytes and their length.
///
/// # Safety
///
/// Both places are null or may be written to.
pub(crate) unsafe fn give_file(
    read: Vec<u8>,
    bytes: *mut *mut u8,
    length: *mut usize,
) -> Result<(), Failure> {
    if bytes.is_null() || length.is_null() {
        return Err(Failure::argument("bytes` or `length", "is null"));
    }
    let (start, count) = give_bytes(read);
    // SAFETY: neither is null, and as promised they may be written to.
    unsafe {
        give("bytes", bytes, start)?;
        give("length", length, count)
    }
}

/// Frees the outcome, with the run's files. A session keeps its own.
///
/// # Safety
///
/// `outcome` is null, or was given by this library and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_outcome_free(outcome: *mut Outcome) {
    if !outcome.is_null() {
        // SAFETY: it was made by `Box::into_raw` when it was given.
        drop(unsafe { Box::from_raw(outcome) });
    }
}
