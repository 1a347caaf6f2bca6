//! Sessions: interpreters that are kept from run to run.
#![expect(unsafe_code, reason = "pointers come from C")]

use std::ffi::c_char;
use std::io::Cursor;
use std::time::Duration;

use belljar::ToolAnswer;
use belljar::value::Value;
use belljar::{
    HistoryBounds, HostPaths, RestoreOptions, RestoreRequest, RunRequest, SessionOptions, blocking,
};
use serde::Deserialize;

use crate::callbacks::{Callbacks, Heard};
use crate::failure::{Failure, guarded};
use crate::outcome::{Outcome, give_file};
use crate::runtime::{Runtime, give_handle, read_request};
use crate::strings::{bytes, give, give_text, handle, optional_text, text};

/// A session.
pub struct Session(blocking::Session);

/// What `belljar_session_new` is told.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    /// What the session begins with: its code runs first.
    start: RunRequest,
    /// Seconds since it was made.
    #[serde(default)]
    lifetime: Option<f64>,
    /// Seconds since its last run ended.
    #[serde(default)]
    idle: Option<f64>,
    /// Fuel of all its runs together.
    #[serde(default)]
    fuel: Option<u64>,
    /// How much of its past is kept.
    #[serde(default)]
    history: Option<HistoryBounds>,
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
/// code runs first and whose image, limits, policy, files and environment are the session's, and any
/// of `lifetime` and `idle` in seconds, `fuel` for all runs together, and `history` with `runs` and
/// `bytes`. The callbacks' tools are those of every run; its other members are not looked at.
///
/// # Safety
///
/// `runtime` was given by this library and is not freed yet; `options` is text; `callbacks` is null or
/// as its type says, for as long as the session lives; `session` may be written to.
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
        // SAFETY: as promised, it may be written to.
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

/// Starts a session from a checkpoint, the file `path`. The tools of the callbacks take the place of
/// those that it had. `options` is null, or a JSON object with any of `id` and `client`; `mounts`, an
/// object with a directory of the host for each place where the session sees one; `lifetime` and `idle`
/// in seconds and `fuel`, of each of which the smaller of this and the checkpoint's counts; `policy`, in
/// the place of the checkpoint's; and `lease`, an object with `seconds` and, if it is not to be closed,
/// `"then": "suspend"`. Whoever wrote a checkpoint chose its limits and its policy.
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
        // SAFETY: as promised, it may be written to.
        unsafe { give_handle("session", session, Session(made)) }
    })
}

/// Frees the handle. The session itself goes on until it is closed, or its runtime ends with the last
/// of its handles.
///
/// # Safety
///
/// `session` is null, or was given by this library and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_free(session: *mut Session) {
    if !session.is_null() {
        // SAFETY: it was made by `Box::into_raw` when it was given.
        drop(unsafe { Box::from_raw(session) });
    }
}

/// Ends the session, and what it runs. Its handles are still to be freed.
///
/// # Safety
///
/// `session` was given by this library and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_close(session: *const Session) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        unsafe { handle("session", session) }?.0.close();
        Ok(())
    })
}

/// The session's id, for `belljar_string_free`.
///
/// # Safety
///
/// `session` was given by this library and is not freed yet; `id` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_id(
    session: *const Session,
    id: *mut *mut c_char,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let session = unsafe { handle("session", session) }?;
        // SAFETY: as promised, it may be written to.
        unsafe { give("id", id, give_text(session.0.id())) }
    })
}

/// Runs a request after those that were asked for before it, and waits for it.
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
        // SAFETY: as promised, it may be written to.
        unsafe { give_handle("outcome", outcome, done) }
    })
}

/// Answers the calls of deferred tools for which a run waits, and goes on with it. `answers` is a JSON
/// array of objects with `id`, and `answer`, a value, or `error`, a text that the code is told.
///
/// # Safety
///
/// `session` was given by this library and is not freed yet; `answers` is text; `outcome` may be
/// written to.
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
        // SAFETY: as promised, it may be written to.
        unsafe { give_handle("outcome", outcome, done) }
    })
}

/// Interrupts the run that goes on on another thread, if there is one.
///
/// # Safety
///
/// `session` was given by this library and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_interrupt(session: *const Session) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        unsafe { handle("session", session) }?.0.interrupt();
        Ok(())
    })
}

/// Starts another session from this one's state and history.
///
/// # Safety
///
/// `session` was given by this library and is not freed yet; `fork` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_session_fork(
    session: *const Session,
    fork: *mut *mut Session,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let session = unsafe { handle("session", session) }?;
        let forked = session.0.fork()?;
        // SAFETY: as promised, it may be written to.
        unsafe { give_handle("fork", fork, Session(forked)) }
    })
}

/// Goes back to the state after run `execution`; the beginning is 0.
///
/// # Safety
///
/// `session` was given by this library and is not freed yet.
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

/// Writes the session to the file `path`, from which any process restores it.
///
/// # Safety
///
/// `session` was given by this library and is not freed yet; `path` is text.
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

/// The value of a global variable in the JSON of `docs/reference/values.md`, for
/// `belljar_string_free`; null when there is no such variable.
///
/// # Safety
///
/// `session` was given by this library and is not freed yet; `name` is text; `value` may be written to.
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
        // SAFETY: as promised, it may be written to.
        unsafe { give("value", value, found) }
    })
}

/// Sets a global variable to a value in the JSON of `docs/reference/values.md`.
///
/// # Safety
///
/// `session` was given by this library and is not freed yet; `name` and `value` are text.
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

/// The bytes of a file in the session's workspace, for `belljar_bytes_free`.
///
/// # Safety
///
/// `session` was given by this library and is not freed yet; `path` is text; `data` and `length` may
/// be written to.
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
        // SAFETY: as promised, both may be written to.
        unsafe { give_file(read, data, length) }
    })
}

/// Writes a file into the session's workspace, without a run.
///
/// # Safety
///
/// `session` was given by this library and is not freed yet; `path` is text; `data` points to `length`
/// bytes, or is null when there are none.
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
