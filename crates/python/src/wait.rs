//! Threads that wait for a future, without the GIL and responding to Ctrl-C.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use belljar::Interrupt;
use pyo3::prelude::*;

use crate::error::Failure;
use crate::reactor::Reactor;

/// Interval between checks for signals.
const TICK: Duration = Duration::from_millis(50);

/// Waits for `future`. If a signal handler raises, as the one for Ctrl-C does, this triggers
/// `switch`, waits for the future to end, and raises the exception. Without a switch, or the second
/// time, the future is dropped.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    reactor: &Arc<Reactor>,
    switch: Option<&Interrupt>,
    future: impl Future<Output = Result<T, Failure>> + Send,
) -> PyResult<T> {
    let _call = reactor.enter()?;
    if tokio::runtime::Handle::try_current().is_ok() {
        return Err(Failure::from(belljar::Error::NotBlocking).into());
    }
    let mut future = pin!(future);
    let mut signalled = None;
    loop {
        let step = py.detach(|| {
            reactor.handle().block_on(async {
                tokio::select! {
                    biased;
                    result = future.as_mut() => Step::Ended(result),
                    () = reactor.closed() => Step::Ended(Err(Failure::Closed)),
                    () = tokio::time::sleep(TICK) => Step::Tick,
                }
            })
        });
        match (step, signalled.take()) {
            (Step::Ended(_), Some(error)) => return Err(error),
            (Step::Ended(result), None) => return Ok(result?),
            (Step::Tick, before) => signalled = before,
        }
        // Checked here, outside of any runtime, because a handler may call anything.
        if let Err(error) = py.check_signals() {
            match switch {
                Some(switch) if signalled.is_none() => switch.interrupt(),
                _ => return Err(error),
            }
            signalled = Some(error);
        }
    }
}

enum Step<T> {
    Ended(T),
    Tick,
}
