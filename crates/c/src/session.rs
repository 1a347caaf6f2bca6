//! Sessions: interpreters that keep their state from run to run.
#![expect(unsafe_code, reason = "pointers come from C")]

use std::ffi::c_char;
use std::io::Cursor;
use std::time::Duration;

use belljar::request::{HostPaths, RunRequest};
use belljar::session::{HistoryLimits, RestoreOptions, RestoreRequest};
use belljar::tool::ToolAnswer;
use belljar::value::Value;
use belljar::{SessionOptions, blocking};
use serde::Deserialize;

use crate::callbacks::{Callbacks, Heard};
use crate::failure::{Failure, guarded};
use crate::outcome::{Outcome, give_file};
use crate::runtime::{Runtime, give_handle, read_request};
use crate::strings::{bytes, give, give_text, handle, optional_text, text};

/// A session.
pub struct Session(blocking::Session);

/// The options of `belljar_session_new`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    /// The initial request: its code runs first.
    start: RunRequest,
    /// Maximum age in seconds.
    #[serde(default)]
    lifetime: Option<f64>,
    /// Maximum idle time in seconds.
    #[serde(default)]
    idle: Option<f64>,
    /// Fuel of all runs together.
    #[serde(default)]
    fuel: Option<u64>,
    /// Limits on the history.
    #[serde(default)]
    history: Option<HistoryLimits>,
}

/// An answer to a call of a deferred tool.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answered {
    id: u64,
    #[serde(default)]
    answer: serde_json::Value,
    #[serde(default)]
    error: Option<String>,
}

/// Starts a session. `options` is a JSON object with `start`, a request as for `belljar_run` whose
/// code runs first and whose image, limits, policy, files and environment apply to the session; and
/// any of `lifetime` and `idle` in seconds, `fuel` for all runs together, and `history` with `runs`
/// and `bytes`. The tools in `callbacks` are available to every run; its other members are ignored.
///
/// # Safety
///
/// `runtime` was returned by this library and is not freed yet; `options` is text; `callbacks` is
/// null or as its type says, during the lifetime of the session; `session` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_new(
    runtime: *const Runtime,
    options: *const c_char,
    callbacks: *const Callbacks,
    session: *mut *mut Session,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let runtime = unsafe { handle("runtime", runtime) }?;
        // SAFETY: as promised.
        let options = unsafe { text("options", options) }?;
        let options: Options = serde_json::from_str(options)
            .map_err(|e| Failure::argument("options", format!("cannot be read: {e}")))?;
        // SAFETY: as promised.
        let heard = unsafe { Heard::read(callbacks) }?;
        let made = runtime.0.session(options.with(heard)?)?;
        // SAFETY: as promised, it is writable.
        unsafe { give_handle("session", session, Session(made)) }
    })
}

impl Options {
    fn with(self, heard: Heard) -> Result<SessionOptions, Failure> {
        let start = self.start.into_request(HostPaths::Allowed)?;
        let mut options = SessionOptions::from_request(start);
        if let Some(seconds) = self.lifetime {
            options = options.lifetime(duration("lifetime", seconds)?);
        }
        if let Some(seconds) = self.idle {
            options = options.idle(duration("idle", seconds)?);
        }
        if let Some(fuel) = self.fuel {
            options = options.total_fuel(fuel);
        }
        if let Some(bounds) = self.history {
            options = options.history(bounds.runs, bounds.bytes);
        }
        Ok(heard.tools.into_iter().fold(options, SessionOptions::tool))
    }
}

fn duration(name: &'static str, seconds: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| Failure::argument(name, format!("is {seconds}, not a number of seconds")))
}

/// Restores a session from a checkpoint, the file `path`. The tools in `callbacks` replace those of
/// the session. `options` is null, or a JSON object with any of `id` and `client`; `mounts`, an
/// object from guest paths to host directories; `lifetime` and `idle` in seconds and `fuel`, which
/// cap the checkpoint's limits; `policy`, which replaces the checkpoint's; and `lease`, an object
/// with `seconds` and optionally `"then": "suspend"` instead of closing the session. The author of
/// the checkpoint has chosen its limits and its policy.
///
/// # Safety
///
/// As for `belljar_session_new`; `path` is text, and `options` null or text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_restore(
    runtime: *const Runtime,
    path: *const c_char,
    options: *const c_char,
    callbacks: *const Callbacks,
    session: *mut *mut Session,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let runtime = unsafe { handle("runtime", runtime) }?;
        // SAFETY: as promised.
        let path = unsafe { text("path", path) }?;
        // SAFETY: as promised.
        let options = match unsafe { optional_text("options", options) }? {
            Some(options) => serde_json::from_str(options)
                .map_err(|e| Failure::argument("options", format!("cannot be read: {e}")))?,
            None => RestoreRequest::default(),
        };
        // SAFETY: as promised.
        let heard = unsafe { Heard::read(callbacks) }?;
        let options = options.into_options(RestoreOptions::file(path));
        let options = heard.tools.into_iter().fold(options, RestoreOptions::tool);
        let made = runtime.0.restore(options)?;
        // SAFETY: as promised, it is writable.
        unsafe { give_handle("session", session, Session(made)) }
    })
}

/// Frees the handle. The session continues until it is closed, or until the runtime ends with its
/// last handle.
///
/// # Safety
///
/// `session` is null, or was returned by this library and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_free(session: *mut Session) {
    if !session.is_null() {
        // SAFETY: it was made by `Box::into_raw` when it was returned.
        drop(unsafe { Box::from_raw(session) });
    }
}

/// Closes the session, and stops its run. Its handles must still be freed.
///
/// # Safety
///
/// `session` was returned by this library and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_close(session: *const Session) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        unsafe { handle("session", session) }?.0.close();
        Ok(())
    })
}

/// Gets the session's id. Free it with `belljar_string_free`.
///
/// # Safety
///
/// `session` was returned by this library and is not freed yet; `id` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_id(
    session: *const Session,
    id: *mut *mut c_char,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let session = unsafe { handle("session", session) }?;
        // SAFETY: as promised, it is writable.
        unsafe { give("id", id, give_text(session.0.id())) }
    })
}

/// Runs a request after all earlier calls, and waits for it.
///
/// # Safety
///
/// As for `belljar_run`, with a session in place of the runtime.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_run(
    session: *const Session,
    request: *const c_char,
    callbacks: *const Callbacks,
    outcome: *mut *mut Outcome,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let session = unsafe { handle("session", session) }?;
        // SAFETY: as promised.
        let request = unsafe { read_request(request, callbacks) }?;
        let done = session.0.run(request)?;
        let done = Outcome::of_session(&done, session.0.clone())?;
        // SAFETY: as promised, it is writable.
        unsafe { give_handle("outcome", outcome, done) }
    })
}

/// Answers the calls of deferred tools that a run waits for, and resumes the run. `answers` is a
/// JSON array of objects with `id`, and either `answer`, a value, or `error`, a message for the
/// code.
///
/// # Safety
///
/// `session` was returned by this library and is not freed yet; `answers` is text; `outcome` must
/// be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_answer(
    session: *const Session,
    answers: *const c_char,
    outcome: *mut *mut Outcome,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let session = unsafe { handle("session", session) }?;
        // SAFETY: as promised.
        let answers = unsafe { text("answers", answers) }?;
        let answers: Vec<Answered> = serde_json::from_str(answers)
            .map_err(|e| Failure::argument("answers", format!("cannot be read: {e}")))?;
        let answers = answers.into_iter().map(|given| match given.error {
            Some(error) => ToolAnswer::failed(given.id, error),
            None => ToolAnswer::new(given.id, given.answer),
        });
        let done = session.0.answer(answers.collect())?;
        let done = Outcome::of_session(&done, session.0.clone())?;
        // SAFETY: as promised, it is writable.
        unsafe { give_handle("outcome", outcome, done) }
    })
}

/// Interrupts the current run, if any, from another thread.
///
/// # Safety
///
/// `session` was returned by this library and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_interrupt(session: *const Session) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        unsafe { handle("session", session) }?.0.interrupt();
        Ok(())
    })
}

/// Creates another session with this one's state and history.
///
/// # Safety
///
/// `session` was returned by this library and is not freed yet; `fork` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_fork(
    session: *const Session,
    fork: *mut *mut Session,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let session = unsafe { handle("session", session) }?;
        let forked = session.0.fork()?;
        // SAFETY: as promised, it is writable.
        unsafe { give_handle("fork", fork, Session(forked)) }
    })
}

/// Goes back to the state after run `execution`, or to the beginning with 0.
///
/// # Safety
///
/// `session` was returned by this library and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_rewind(
    session: *const Session,
    execution: u64,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        Ok(unsafe { handle("session", session) }?.0.rewind(execution)?)
    })
}

/// Writes the session to the file `path`, for restoring it in any process.
///
/// # Safety
///
/// `session` was returned by this library and is not freed yet; `path` is text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_checkpoint(
    session: *const Session,
    path: *const c_char,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let session = unsafe { handle("session", session) }?;
        // SAFETY: as promised.
        let path = unsafe { text("path", path) }?;
        Ok(session.0.checkpoint(path)?)
    })
}

/// Reads a global variable, as JSON in the form of `docs/reference/values.md`. Free it with
/// `belljar_string_free`. Returns null if there is no such variable.
///
/// # Safety
///
/// `session` was returned by this library and is not freed yet; `name` is text; `value` must be
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_get(
    session: *const Session,
    name: *const c_char,
    value: *mut *mut c_char,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let session = unsafe { handle("session", session) }?;
        // SAFETY: as promised.
        let name = unsafe { text("name", name) }?;
        let found = match session.0.get(name)? {
            Some(found) => give_text(serde_json::to_string(&found).map_err(|e| {
                Failure::argument("name", format!("has a value without JSON: {e}"))
            })?),
            None => std::ptr::null_mut(),
        };
        // SAFETY: as promised, it is writable.
        unsafe { give("value", value, found) }
    })
}

/// Sets a global variable, from JSON in the form of `docs/reference/values.md`.
///
/// # Safety
///
/// `session` was returned by this library and is not freed yet; `name` and `value` are text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_set(
    session: *const Session,
    name: *const c_char,
    value: *const c_char,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let session = unsafe { handle("session", session) }?;
        // SAFETY: as promised.
        let (name, value) = unsafe { (text("name", name)?, text("value", value)?) };
        let value: Value = serde_json::from_str(value)
            .map_err(|e| Failure::argument("value", format!("cannot be read: {e}")))?;
        Ok(session.0.set(name, value)?)
    })
}

/// Reads a file in the session's workspace. Free it with `belljar_bytes_free`.
///
/// # Safety
///
/// `session` was returned by this library and is not freed yet; `path` is text; `data` and `length`
/// must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_read(
    session: *const Session,
    path: *const c_char,
    data: *mut *mut u8,
    length: *mut usize,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let session = unsafe { handle("session", session) }?;
        // SAFETY: as promised.
        let path = unsafe { text("path", path) }?;
        let read = session.0.read(path)?;
        // SAFETY: as promised, both are writable.
        unsafe { give_file(read, data, length) }
    })
}

/// Writes a file in the session's workspace, without a run.
///
/// # Safety
///
/// `session` was returned by this library and is not freed yet; `path` is text; `data` points to
/// `length` bytes, or is null if `length` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_write(
    session: *const Session,
    path: *const c_char,
    data: *const u8,
    length: usize,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let session = unsafe { handle("session", session) }?;
        // SAFETY: as promised.
        let path = unsafe { text("path", path) }?;
        // SAFETY: as promised.
        let data = unsafe { bytes("data", data, length) }?;
        session.0.workspace().write(path, Cursor::new(data.to_vec()))?;
        Ok(())
    })
}
