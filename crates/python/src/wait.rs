//! Threads that wait for a future: without the GIL, and with an ear for Ctrl-C.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use belljar::Interrupt;
use pyo3::prelude::*;

use crate::error::Failure;
use crate::reactor::Reactor;

/// How often a thread that waits looks for signals.
const TICK: Duration = Duration::from_millis(50);

/// Waits until `future` has ended. A signal handler that raises, as that of Ctrl-C does, pulls `switch`
/// and has its exception raised when the future has ended after that; without a switch, and the second
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
        // Here, where no runtime is entered: a handler may call anything.
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
