//! One run of somebody: let in, counted, and interrupted when nobody waits for it any more.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use belljar::{Interrupt, Outcome, Request};

use super::Shared;
use super::error::ServiceError;
use super::owner::Owner;

/// A run that was let in; dropped, it makes room for another.
pub(super) struct Turn {
    shared: Arc<Shared>,
    owner: Owner,
    number: u64,
}

impl Turn {
    /// Lets a run in, and gives it a switch unless it has one.
    pub(super) fn begin(
        shared: &Arc<Shared>,
        owner: &Owner,
        request: &mut Request,
    ) -> Result<Self, ServiceError> {
        let may_begin = if shared.is_stopping() {
            Err(ServiceError::Stopping)
        } else {
            owner.begin_run()
        };
        may_begin.inspect_err(|error| shared.figures.refused(error))?;
        if let Some(left) = owner.fuel_left() {
            let asked = &mut request.limits.fuel;
            *asked = Some(asked.map_or(left, |asked| asked.min(left)));
        }
        let switch = request.interrupt.get_or_insert_default().clone();
        let number = shared.next_run.fetch_add(1, Ordering::Relaxed);
        shared.switches().insert(number, switch);
        let turn = Self {
            shared: Arc::clone(shared),
            owner: owner.clone(),
            number,
        };
        Ok(turn)
    }

    /// Counts how a run ended, and what it used.
    pub(super) fn note(&self, ran: Result<&Outcome, &ServiceError>) {
        match ran {
            Ok(outcome) => {
                self.owner.spend(outcome.usage.fuel);
                self.shared.figures.ran(outcome);
            }
            Err(error) => self.shared.figures.refused(error),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shared.switches().remove(&self.number);
        self.owner.end_run();
    }
}

/// Work that somebody waits for. Dropped before its end, its run is interrupted and goes to its end
/// without them: a session keeps its state, and what was used is counted.
#[must_use = "nothing happens before it is awaited"]
pub struct Attended<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    interrupt: Option<Interrupt>,
    has_begun: bool,
}

impl<T: Send + 'static> Attended<T> {
    pub(super) fn new(
        interrupt: Option<Interrupt>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        Self {
            work: Some(Box::pin(work)),
            interrupt,
            has_begun: false,
        }
    }
}

impl<T: Send + 'static> Future for Attended<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.has_begun = true;
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        let ready = work.as_mut().poll(context);
        if ready.is_ready() {
            self.work = None;
        }
        ready
    }
}

impl<T: Send + 'static> Drop for Attended<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else {
            return;
        };
        if let Some(interrupt) = &self.interrupt {
            interrupt.interrupt();
        }
        if let (true, Ok(runtime)) = (self.has_begun, tokio::runtime::Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}
