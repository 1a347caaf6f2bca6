//! Callbacks from a run to the caller.
#![expect(unsafe_code, reason = "functions and pointers come from C")]

use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;

use belljar::event::{Event, OutputWatcher, Stream};
use belljar::tool::ToolError;
use belljar::{Request, Tool};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::failure::{Failure, guarded};
use crate::strings::{give_text, handle, optional_text, text};

/// Callbacks and interrupt of a run. A run without either takes all zeros, or a null pointer
/// instead.
#[repr(C)]
pub struct Callbacks {
    /// Passed to every function.
    pub context: *mut c_void,
    /// Called with each event of the run, in the JSON of `docs/reference/events.md`, which is valid
    /// only during the call. Events come in order, one at a time, on the thread that runs the code;
    /// the run waits until the function returns.
    pub event: Option<unsafe extern "C" fn(context: *mut c_void, event: *const c_char)>,
    /// The tools that the code can call: a JSON array of objects with `name`, `description`,
    /// `parameters` (a JSON Schema of the arguments, which are an object), and `"deferred": true`
    /// for a tool to be answered later, possibly in another process.
    pub tools: *const c_char,
    /// Called when the code calls a tool, on the thread that runs the code. The function owns the
    /// call and answers it once, with `belljar_call_answer` or `belljar_call_fail`, before or after
    /// it returns, on any thread. The run's time limit continues.
    pub call: Option<unsafe extern "C" fn(context: *mut c_void, call: *mut Call)>,
    /// Interrupts the run, or null. It may be freed once the run has started.
    pub interrupt: *const Interrupt,
}

/// A call of a tool, to be answered.
pub struct Call {
    name: String,
    arguments: String,
    answer: oneshot::Sender<Result<Value, String>>,
}

/// A switch that interrupts all current and future runs that use it.
pub struct Interrupt(belljar::Interrupt);

/// The caller's context.
#[derive(Clone, Copy)]
struct Context(*mut c_void);

// SAFETY: the interface says on which threads it is passed back; its target belongs to the caller.
unsafe impl Send for Context {}
// SAFETY: the pointer is only copied and passed back.
unsafe impl Sync for Context {}

impl Context {
    fn pointer(self) -> *mut c_void {
        self.0
    }
}

/// The JSON description of a tool.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    name: String,
    #[serde(default)]
    description: String,
    parameters: Value,
    #[serde(default)]
    deferred: bool,
}

struct EventFunction {
    context: Context,
    function: unsafe extern "C" fn(*mut c_void, *const c_char),
}

impl OutputWatcher for EventFunction {
    fn write(&self, _: Stream, _: &[u8]) {}

    fn wants_events(&self) -> bool {
        true
    }

    fn event(&self, event: &Event) {
        // JSON contains no zero byte.
        let event =
            CString::new(serde_json::to_string(event).unwrap_or_default()).unwrap_or_default();
        // SAFETY: the caller provided the function for this, and the text ends with a zero byte.
        unsafe { (self.function)(self.context.pointer(), event.as_ptr()) };
    }
}

/// The callbacks and the interrupt of a run.
#[derive(Default)]
pub(crate) struct Heard {
    event: Option<Arc<dyn OutputWatcher>>,
    interrupt: Option<belljar::Interrupt>,
    pub tools: Vec<Tool>,
}

impl Heard {
    /// # Safety
    ///
    /// `callbacks` is null, or what it points to, and its pointers, are as [`Callbacks`] says.
    pub unsafe fn read(callbacks: *const Callbacks) -> Result<Self, Failure> {
        // SAFETY: the caller promises that it is null or readable.
        let Some(given) = (unsafe { callbacks.as_ref() }) else {
            return Ok(Self::default());
        };
        let context = Context(given.context);
        let event = given.event.map(|function| {
            Arc::new(EventFunction { context, function }) as Arc<dyn OutputWatcher>
        });
        // SAFETY: as promised, it is null or an interrupt that is not freed.
        let interrupt = unsafe { given.interrupt.as_ref() }.map(|interrupt| interrupt.0.clone());
        // SAFETY: as promised, it is null or text.
        let tools = match unsafe { optional_text("tools", given.tools) }? {
            Some(tools) => serde_json::from_str::<Vec<Described>>(tools)
                .map_err(|e| Failure::argument("tools", format!("cannot be read: {e}")))?,
            None => Vec::new(),
        };
        let tools = tools.into_iter().map(|described| tool(described, context, given.call));
        Ok(Self {
            event,
            interrupt,
            tools: tools.collect::<Result<_, _>>()?,
        })
    }

    /// Adds them to the request of a run.
    pub fn attach(self, mut request: Request) -> Request {
        if let Some(watcher) = self.event {
            request = request.watch(watcher);
        }
        if let Some(interrupt) = &self.interrupt {
            request = request.interrupt(interrupt);
        }
        self.tools.into_iter().fold(request, Request::tool)
    }
}

/// A tool with this description, answered by the function.
fn tool(
    described: Described,
    context: Context,
    function: Option<unsafe extern "C" fn(*mut c_void, *mut Call)>,
) -> Result<Tool, Failure> {
    let Described {
        name,
        description,
        parameters,
        deferred,
    } = described;
    let tool = match function {
        _ if deferred => Tool::deferred(name, parameters),
        Some(function) => {
            let called = name.clone();
            Tool::new(name, parameters, move |arguments: Value| {
                let (answer, answered) = oneshot::channel();
                let call = Box::new(Call {
                    name: called.clone(),
                    arguments: arguments.to_string(),
                    answer,
                });
                // SAFETY: the caller provided the function for this; it now owns the call.
                unsafe { function(context.pointer(), Box::into_raw(call)) };
                async move {
                    match answered.await {
                        Ok(answer) => answer.map_err(ToolError::message),
                        Err(_) => Err(ToolError::message("the call was not answered")),
                    }
                }
            })
        }
        None => return Err(Failure::argument("call", "is null, and there are tools")),
    };
    Ok(tool.description(description))
}

/// Gets the name of the called tool. Free it with `belljar_string_free`.
///
/// # Safety
///
/// `call` was passed to the callback `call`, and is not answered yet. `name` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_call_name(
    call: *const Call,
    name: *mut *mut c_char,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised, it is an unanswered call.
        let call = unsafe { handle("call", call) }?;
        // SAFETY: as promised, a pointer may be written there.
        unsafe { crate::strings::give("name", name, give_text(call.name.as_str())) }
    })
}

/// Gets the arguments of the call: a JSON object. Free it with `belljar_string_free`.
///
/// # Safety
///
/// As for `belljar_call_name`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_call_arguments(
    call: *const Call,
    arguments: *mut *mut c_char,
) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised, it is an unanswered call.
        let call = unsafe { handle("call", call) }?;
        // SAFETY: as promised, a pointer may be written there.
        unsafe { crate::strings::give("arguments", arguments, give_text(call.arguments.as_str())) }
    })
}

/// Answers the call with a JSON value, and frees it. If the value is not JSON, the call fails.
///
/// # Safety
///
/// `call` was passed to the callback `call`, and is not answered yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_call_answer(call: *mut Call, value: *const c_char) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let call = unsafe { taken(call) }?;
        // SAFETY: as promised, it is null or text.
        let value = unsafe { text("value", value) }?;
        let value = serde_json::from_str(value)
            .map_err(|e| Failure::argument("value", format!("is not JSON: {e}")))?;
        // The run may have ended.
        let _ = call.answer.send(Ok(value));
        Ok(())
    })
}

/// Reports that the call failed, and frees it. The code sees the message.
///
/// # Safety
///
/// As for `belljar_call_answer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_call_fail(call: *mut Call, reason: *const c_char) -> *mut c_char {
    guarded(|| {
        // SAFETY: as promised.
        let call = unsafe { taken(call) }?;
        // SAFETY: as promised, it is null or text.
        let reason = unsafe { text("reason", reason) }?;
        let _ = call.answer.send(Err(reason.to_owned()));
        Ok(())
    })
}

/// # Safety
///
/// `call` is null, or was passed out and not taken back.
unsafe fn taken(call: *mut Call) -> Result<Box<Call>, Failure> {
    if call.is_null() {
        return Err(Failure::argument("call", "is null"));
    }
    // SAFETY: it was made by `Box::into_raw` when it was passed out.
    Ok(unsafe { Box::from_raw(call) })
}

/// Creates a switch.
#[unsafe(no_mangle)]
pub extern "C" fn belljar_interrupt_new() -> *mut Interrupt {
    Box::into_raw(Box::new(Interrupt(belljar::Interrupt::new())))
}

/// Interrupts the runs, like Ctrl-C: their outcomes have the kind `interrupted`. May be called on
/// any thread. Does nothing if `interrupt` is null.
///
/// # Safety
///
/// `interrupt` is null or was created by `belljar_interrupt_new`, and is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_interrupt_use(interrupt: *const Interrupt) {
    // SAFETY: as promised.
    if let Some(interrupt) = unsafe { interrupt.as_ref() } {
        interrupt.0.interrupt();
    }
}

/// Frees the switch. Runs that use it keep it alive.
///
/// # Safety
///
/// As for `belljar_interrupt_use`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn belljar_interrupt_free(interrupt: *mut Interrupt) {
    if !interrupt.is_null() {
        // SAFETY: it was made by `Box::into_raw`.
        drop(unsafe { Box::from_raw(interrupt) });
    }
}
