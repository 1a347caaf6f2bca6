//! The engine, and runs in fresh sandboxes.
#![expect(unsafe_code, reason = "pointers come from C")]

use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;

use belljar::lockdown::LockdownOptions;
use belljar::progress::Stage;
use belljar::request::{HostPaths, RunRequest};
use belljar::setup::RuntimeOptions;
use belljar::{Policy, Request, blocking};

use crate::callbacks::{Callbacks, Heard};
use crate::failure::{Failure, guarded};
use crate::outcome::Outcome;
use crate::strings::{give, give_text, handle, optional_text, text};

/// The engine, shared by runs and sessions.
pub struct Runtime(pub(crate) blocking::Runtime);

/// Progress of the first start. To ignore it, pass all zeros, or a null pointer instead.
#[repr(C)]
pub struct Progress {
    /// Passed to the function.
    pub context: *mut c_void,
    /// Called when a step starts, and with a null `step` when it ends. On any thread.
    pub step: Option<unsafe extern "C" fn(context: *mut c_void, step: *const c_char)>,
}

struct Told {
    context: *mut c_void,
    step: unsafe extern "C" fn(*mut c_void, *const c_char),
}

// SAFETY: the interface says that it is called on any thread; the target of the context belongs to
// the caller.
unsafe impl Send for Told {}
// SAFETY: as above.
unsafe impl Sync for Told {}

impl belljar::progress::Progress for Told {
    fn begin(&self, stage: Stage, subject: &str) {
        let step = format!("{} {subject}", stage.describe());
        let step = CString::new(step.trim_end()).unwrap_or_default();
        // SAFETY: the caller provided the function for this, and the text ends with a zero byte.
        unsafe { (self.step)(self.context, step.as_ptr()) };
    }

    fn end(&self, _: Stage) {
        // SAFETY: the caller provided the function for this, and expects null.
        unsafe { (self.step)(self.context, std::ptr::null()) };
    }
}

/// Starts the engine. Takes milliseconds, or about two minutes with an empty cache, when Python is
/// downloaded and compiled. `options` is null or a JSON object with any of the paths `cache`,
/// `wheel`, `bundle` and `temp_dir`; the SHA-256 `bundle_hash`; `file_memory` in bytes; the numbers
/// of runs `concurrency` and `queue`; and `clock_resolution` in nanoseconds.
///
/// # Safety
///
/// `options` is null or text. `progress` is null or points to a progress, whose function may be
/// called during the lifetime of the runtime and its sessions. `runtime` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_runtime_new(
    options: *const c_char,
    progress: *const Progress,
    runtime: *mut *mut Runtime,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let options = match unsafe { optional_text("options", options) }? {
            Some(options) => serde_json::from_str(options)
                .map_err(|e| Failure::argument("options", format!("cannot be read: {e}")))?,
            None => RuntimeOptions::default(),
        };
        let mut builder = belljar::Runtime::builder().environment().options(options);
        // SAFETY: as promised, it is null or readable.
        let progress = unsafe { progress.as_ref() };
        if let Some(&Progress {
            context,
            step: Some(step),
        }) = progress
        {
            builder = builder.progress(Arc::new(Told { context, step }));
        }
        let made = Runtime(builder.build()?.blocking());
        // SAFETY: as promised, it is writable.
        unsafe { give_handle("runtime", runtime, made) }
    })
}

/// Frees the runtime. Sessions and outcomes that are not freed keep what they need.
///
/// # Safety
///
/// `runtime` is null, or was returned by this library and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_runtime_free(runtime: *mut Runtime) {
    if !runtime.is_null() {
        // SAFETY: it was made by `Box::into_raw` when it was returned.
        drop(unsafe { Box::from_raw(runtime) });
    }
}

/// Runs a request in a fresh sandbox, and waits for it. `request` is a JSON object with the schema
/// `docs/schema/request.schema.json`; it may name files of the host.
///
/// # Safety
///
/// `runtime` was returned by this library and is not freed yet; `request` is text; `callbacks` is
/// null or as its type says until this returns; `outcome` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_run(
    runtime: *const Runtime,
    request: *const c_char,
    callbacks: *const Callbacks,
    outcome: *mut *mut Outcome,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let runtime = unsafe { handle("runtime", runtime) }?;
        // SAFETY: as promised.
        let request = unsafe { read_request(request, callbacks) }?;
        let run = runtime.0.run(request)?;
        // SAFETY: as promised, it is writable.
        unsafe { give_handle("outcome", outcome, Outcome::of_run(run)?) }
    })
}

/// Checks code without running it. Returns a JSON object with `clean`, the `violations` of the
/// policy, and the `missing_imports`. `policy` is null, `"open"`, `"strict"` (with the quotes) or
/// an object as in a request.
///
/// # Safety
///
/// `runtime` was returned by this library and is not freed yet; `code` is text, `policy` null or
/// text; `report` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_check(
    runtime: *const Runtime,
    code: *const c_char,
    policy: *const c_char,
    report: *mut *mut c_char,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let runtime = unsafe { handle("runtime", runtime) }?;
        // SAFETY: as promised.
        let code = unsafe { text("code", code) }?;
        // SAFETY: as promised.
        let policy = match unsafe { optional_text("policy", policy) }? {
            Some(policy) => serde_json::from_str(policy)
                .map_err(|e| Failure::argument("policy", format!("cannot be read: {e}")))?,
            None => Policy::default(),
        };
        let found = runtime.0.check(code, &policy)?;
        let found = serde_json::json!({
            "clean": found.is_clean(),
            "violations": found.violations,
            "missing_imports": found.missing_imports,
        });
        // SAFETY: as promised, it is writable.
        unsafe { give("report", report, give_text(found.to_string())) }
    })
}

/// Locks this process down: takes from it what runs do not need, for good. `options` is null or a
/// JSON object with what it keeps: the lists of paths `read` and `write`, the list of TCP ports
/// `connect`, and the booleans `resolve_names` and `end_children`. Returns a JSON object with
/// `landlock` (its ABI, or null), `seccomp`, `whole`, and `failures`: a kernel may enforce nothing.
/// On macOS and Windows, `other` tells what holds instead of both.
///
/// # Safety
///
/// `runtime` was returned by this library and is not freed yet; `options` is null or text; `report`
/// must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_lockdown(
    runtime: *const Runtime,
    options: *const c_char,
    report: *mut *mut c_char,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let runtime = unsafe { handle("runtime", runtime) }?;
        // SAFETY: as promised.
        let options = match unsafe { optional_text("options", options) }? {
            Some(options) => serde_json::from_str(options)
                .map_err(|e| Failure::argument("options", format!("cannot be read: {e}")))?,
            None => LockdownOptions::default(),
        };
        let held = runtime.0.asynchronous().apply_lockdown(&options);
        let held = serde_json::json!(held).to_string();
        // SAFETY: as promised, it is writable.
        unsafe { give("report", report, give_text(held)) }
    })
}

/// Parses a request and adds its callbacks.
///
/// # Safety
///
/// `request` is text, `callbacks` null or as its type says.
pub(crate) unsafe fn read_request(
    request: *const c_char,
    callbacks: *const Callbacks,
) -> Result<Request, Failure> {
    // SAFETY: as promised.
    let asked = unsafe { text("request", request) }?;
    let asked: RunRequest = serde_json::from_str(asked)
        .map_err(|e| Failure::argument("request", format!("cannot be read: {e}")))?;
    // SAFETY: as promised.
    let heard = unsafe { Heard::read(callbacks) }?;
    Ok(heard.attach(asked.into_request(HostPaths::Allowed)?))
}

/// Returns a handle.
///
/// # Safety
///
/// `place` is null or writable.
pub(crate) unsafe fn give_handle<T>(
    name: &'static str,
    place: *mut *mut T,
    value: T,
) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::argument(name, "is null"));
    }
    // SAFETY: it is not null, and as promised it is writable.
    unsafe { place.write(Box::into_raw(Box::new(value))) };
    Ok(())
}
