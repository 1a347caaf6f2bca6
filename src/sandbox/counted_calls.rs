//! Counts the calls of code that tells them, of all sandboxes together.

use std::sync::Mutex;

use belljar_passes::{COUNT, CallCounts};
use wasmtime::Linker;

use super::State;

static CALLS: Mutex<Option<CallCounts>> = Mutex::new(None);

/// Adds the function that is called before each call.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(COUNT.0, COUNT.1, |site: u32, slot: u32| {
        if let Some(calls) = &mut *CALLS.lock().unwrap() {
            calls.add(site, slot);
        }
    })?;
    Ok(())
}

/// Returns the calls that `work` makes.
pub(crate) fn counted(work: impl FnOnce()) -> CallCounts {
    *CALLS.lock().unwrap() = Some(CallCounts::default());
    work();
    CALLS.lock().unwrap().take().unwrap()
}
