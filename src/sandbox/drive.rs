//! Runs a guest within its budget: slices of fuel, a deadline, a soft interrupt and a hard stop.
#![expect(
    unsafe_code,
    reason = "pulls the soft interrupt between two polls, while the guest is suspended"
)]

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::futures::Notified;
use wasmtime::Trap;
use wasmtime_wasi::I32Exit;

use super::control::{Control, StopReason};
use super::interrupt::Handle;
use super::missing_code::Missing;
use super::recorder::Recorder;
use super::relay::Relay;
use super::{Instance, InstanceError};
use crate::api::outcome::event::EventKind;
use crate::api::tenant::{Charge, Meter};
use crate::sandbox::calls::Calls;

/// Fuel between two checks of the clock: about 2 ms of interpreter time.
pub(super) const SLICE: u64 = 20_000_000;

/// Source code of a turn in which the guest asks the host what to run.
pub(crate) const RUN: &str = "__import__('_belljar').run()";

/// Limits of one turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub deadline: Instant,
    /// Fuel after which the guest is interrupted.
    pub fuel: Option<u64>,
    /// Time that an interrupted guest has to finish.
    pub grace: Duration,
    /// Fuel that a guest interrupted for its fuel has to finish.
    pub grace_fuel: u64,
}

/// One task of the guest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn<'a> {
    /// Run [`RUN`], whose source is prepared in the image.
    Run,
    /// Run this source.
    Source(&'a str),
}

/// Result of a turn.
#[derive(Debug)]
pub(crate) struct Driven {
    pub ended: Ended,
    /// Why the guest was told to stop, if it was.
    pub stopped: Option<StopReason>,
    /// Fuel used.
    pub fuel: u64,
}

/// How a turn ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The guest returned, with this status.
    Returned(u32),
    /// The guest exited the process.
    Exited(i32),
    /// The guest trapped.
    Trapped(Trap),
    /// The guest called code that is not in its tier.
    Missing(Missing),
    /// A host function or wasmtime failed.
    Failed(wasmtime::Error),
    /// The guest did not finish after an interrupt and was stopped.
    Stopped,
    /// A loop ran for very long without checking its fuel and was stopped.
    Overran,
}

impl Instance {
    /// Runs one turn.
    pub(crate) async fn drive(
        &mut self,
        turn: Turn<'_>,
        budget: &Budget,
    ) -> Result<Driven, InstanceError> {
        let meter = Meter::current();
        let left = meter.as_ref().and_then(|meter| meter.tenant().fuel_left());
        let budget = &Budget {
            fuel: [budget.fuel, left].into_iter().flatten().min(),
            ..*budget
        };
        let interval = slice(budget.fuel);
        self.counter.begin(&mut self.store, interval).map_err(InstanceError::start)?;
        let (control, calls) = (self.state().control.clone(), self.state().calls.clone());
        let recorder = self.state().recorder.clone();
        let mut stops = Stops::new(budget, interval, (&control, &calls), self.interrupt.take());
        stops.recorder = Some(recorder);
        stops.charge = meter.map(|meter| Charge::new(meter, interval));
        let mut ended = self.call(turn, &mut stops).await;
        let (fuel, overran) = self.counter.used(&mut self.store);
        if overran && matches!(ended, Ended::Trapped(_)) {
            ended = Ended::Overran;
            stops.look_back(fuel);
        }
        if let Some(charge) = &mut stops.charge {
            charge.settle(fuel);
        }
        let stopped = stops.reason;
        self.interrupt = stops.interrupt;
        if let (Some(_), Some(interrupt)) = (stopped, &self.interrupt) {
            // SAFETY: the call is over and the instance is borrowed, so no other code runs in it.
            unsafe { interrupt.release() };
        }
        Ok(Driven {
            ended,
            stopped,
            fuel,
        })
    }

    /// Copies bytes into memory that the guest allocates, and returns their address.
    pub(crate) async fn copy_in(&mut self, bytes: &[u8]) -> Result<u32, InstanceError> {
        let failed = |e: wasmtime::Error| InstanceError::start(e);
        let length = u32::try_from(bytes.len()).map_err(|e| failed(e.into()))?;
        let at = self.allocate.call_async(&mut self.store, length).await.map_err(failed)?;
        self.memory.write(&mut self.store, at as usize, bytes).map_err(|e| failed(e.into()))?;
        Ok(at)
    }

    async fn call(&mut self, turn: Turn<'_>, stops: &mut Stops<'_>) -> Ended {
        let call = async {
            // The guest frees the source after use.
            let (at, length) = match (turn, self.run_source.take()) {
                (Turn::Run, Some(at)) => (at, RUN.len()),
                (Turn::Run, None) => (self.copy_in(RUN.as_bytes()).await?, RUN.len()),
                (Turn::Source(source), _) => (self.copy_in(source.as_bytes()).await?, source.len()),
            };
            // The source is in the guest's memory, so its length fits.
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            let turn = self.turn.call_async(&mut self.store, (at, length));
            turn.await.map_err(InstanceError::start)
        };
        match stops.watch(call).await {
            Some(Ok(status)) => Ended::Returned(status),
            Some(Err(InstanceError::Start(cause))) => ended_by(cause.into_inner()),
            Some(Err(error)) => Ended::Failed(wasmtime::Error::new(error)),
            None => Ended::Stopped,
        }
    }
}

fn ended_by(error: wasmtime::Error) -> Ended {
    if let Some(I32Exit(status)) = error.downcast_ref() {
        return Ended::Exited(*status);
    }
    if let Some(missing) = error.downcast_ref::<Missing>() {
        return Ended::Missing(missing.clone());
    }
    match error.downcast_ref::<Trap>() {
        Some(trap) => Ended::Trapped(*trap),
        None => Ended::Failed(error),
    }
}

/// Returns a slice size that divides the fuel evenly, so that the guest always stops at the same
/// instruction.
fn slice(fuel: Option<u64>) -> u64 {
    match fuel {
        Some(fuel) => fuel.div_ceil(fuel.div_ceil(SLICE).max(1)).max(1),
        None => SLICE,
    }
}

/// Watches one call, and stops it when a limit is reached.
struct Stops<'a> {
    budget: &'a Budget,
    control: &'a Control,
    calls: &'a Calls,
    interrupt: Option<Handle>,
    recorder: Option<Arc<Recorder>>,
    /// Charges the tenant of the run.
    charge: Option<Charge>,
    /// Number of slices until the fuel is used up, and until its grace is over too.
    slices: Option<(u64, u64)>,
    used_before: u64,
    reason: Option<StopReason>,
    /// Time at which an interrupted guest is stopped.
    last: Instant,
}

impl<'a> Stops<'a> {
    fn new(
        budget: &'a Budget,
        interval: u64,
        (control, calls): (&'a Control, &'a Calls),
        interrupt: Option<Handle>,
    ) -> Self {
        let slices = budget.fuel.map(|fuel| {
            let soft = fuel.div_ceil(interval);
            (soft, soft + budget.grace_fuel.div_ceil(interval))
        });
        Self {
            budget,
            control,
            calls,
            interrupt,
            recorder: None,
            charge: None,
            slices,
            used_before: control.slices(),
            reason: None,
            last: budget.deadline,
        }
    }

    /// Polls `call` to its end; `None` if it was stopped.
    async fn watch<T>(&mut self, call: impl Future<Output = T>) -> Option<T> {
        let mut call = pin!(call);
        let mut timer = pin!(tokio::time::sleep_until(self.budget.deadline.into()));
        let relay = Arc::new(Relay::default());
        let control = self.control;
        let mut asked = pin!(control.asked_for());
        poll_fn(|context| {
            self.control.let_run();
            loop {
                self.poll_calls(context);
                let (polled, gave_way) = relay.poll(context, |inner| call.as_mut().poll(inner));
                if let Poll::Ready(value) = polled {
                    return Poll::Ready(Some(value));
                }
                if self.is_over() {
                    return Poll::Ready(None);
                }
                if self.reason.is_none() && self.is_spent(&mut asked, context) {
                    self.soft_stop();
                    timer.as_mut().reset(self.last.into());
                }
                // Calls that the guest has started are processed at once, unless its slice is over:
                // a guest that starts one in every slice would never let others run.
                if self.calls.has_fresh() && !gave_way {
                    continue;
                }
                if self.reason.is_none() && self.calls.is_stuck() {
                    self.reason = Some(StopReason::Waiting);
                    return Poll::Ready(None);
                }
                // An expired timer is checked again at once; otherwise it wakes the task.
                if timer.as_mut().poll(context).is_pending() {
                    control.suspended(!gave_way);
                    if gave_way {
                        // Returns after the timers and the other tasks.
                        let _ = pin!(tokio::task::yield_now()).poll(context);
                    }
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Polls the guest's tool calls.
    fn poll_calls(&self, context: &mut Context<'_>) {
        let takes_events = self.recorder.as_ref().is_some_and(|recorder| recorder.is_on());
        for event in self.calls.poll(context, takes_events) {
            if let Some(recorder) = &self.recorder {
                recorder.note(event);
            }
        }
    }

    /// Returns the number of slices used.
    fn used(&self) -> u64 {
        self.control.slices().saturating_sub(self.used_before)
    }

    /// Finds the reason for which a guest should have been interrupted that ended before the next
    /// check.
    fn look_back(&mut self, fuel: u64) {
        self.reason = self.reason.or_else(|| {
            if self.budget.fuel.is_some_and(|limit| fuel >= limit) {
                Some(StopReason::Fuel)
            } else if Instant::now() >= self.budget.deadline {
                Some(StopReason::Timeout)
            } else {
                self.control.asked()
            }
        });
    }

    /// Whether the time after an interrupt is over.
    fn is_over(&self) -> bool {
        match self.reason {
            None => false,
            Some(StopReason::Fuel) if self.slices.is_some_and(|(_, last)| self.used() >= last) => {
                true
            }
            Some(_) => Instant::now() >= self.last,
        }
    }

    /// Whether the guest must be interrupted. Records the reason.
    fn is_spent(&mut self, asked: &mut Pin<&mut Notified<'a>>, context: &mut Context<'_>) -> bool {
        let used = self.used();
        let is_broke = self.charge.as_mut().is_some_and(|charge| charge.note(used));
        if is_broke || self.slices.is_some_and(|(soft, _)| used >= soft) {
            self.reason = Some(StopReason::Fuel);
        } else if Instant::now() >= self.budget.deadline {
            self.reason = Some(StopReason::Timeout);
        } else if let Some(reason) = self.control.asked() {
            self.reason = Some(reason);
        } else {
            // Register for a wake-up. An earlier notification may be left from a previous run.
            while self.reason.is_none() && asked.as_mut().poll(context).is_ready() {
                asked.set(self.control.asked_for());
                self.reason = self.control.asked();
            }
        }
        self.reason.is_some()
    }

    fn soft_stop(&mut self) {
        if let (Some(recorder), Some(reason)) = (&self.recorder, self.reason) {
            let reason = reason.into();
            recorder.note(EventKind::Interrupted { reason });
        }
        self.last = Instant::now() + self.budget.grace;
        if let Some(interrupt) = &self.interrupt {
            // SAFETY: this runs between two polls of the guest's call, which is borrowed here, so
            // the instance is alive and no thread is inside it.
            unsafe { interrupt.pull() };
        }
        self.control.interrupt();
    }
}
