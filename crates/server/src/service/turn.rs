//! Guest work: admitted, accounted, and interrupted when its caller is dropped.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use belljar::request::Meter;
use belljar::{Interrupt, Outcome, Request};

use super::error::ServiceError;
use super::owner::{Owner, Work};
use super::{Service, Shared};

/// Admitted guest work. Dropping it frees its capacity. Every guest operation must run in its
/// [`scope`](Self::scope).
pub(super) struct Turn {
    shared: Arc<Shared>,
    owner: Owner,
    work: Work,
    number: u64,
    meter: Meter,
}

impl Turn {
    /// Admits work. The server's shutdown triggers `interrupt`.
    pub(super) fn begin(
        shared: &Arc<Shared>,
        owner: &Owner,
        work: Work,
        interrupt: &Interrupt,
    ) -> Result<Self, ServiceError> {
        let may_begin = if shared.is_stopping() {
            Err(ServiceError::Stopping)
        } else {
            shared.has_memory().and_then(|()| owner.begin(work))
        };
        may_begin.inspect_err(|error| shared.figures.refused(error))?;
        let number = shared.next_run.fetch_add(1, Ordering::Relaxed);
        shared.switches().insert(number, interrupt.clone());
        Ok(Self {
            shared: Arc::clone(shared),
            owner: owner.clone(),
            work,
            number,
            meter: owner.tenant().meter(Some(interrupt)),
        })
    }

    /// Admits a run, and adds an interrupt to its request if missing.
    pub(super) fn of_run(
        service: &Service,
        owner: &Owner,
        request: &mut Request,
    ) -> Result<Self, ServiceError> {
        let interrupt = request.interrupt.get_or_insert_default().clone();
        Self::begin(&service.shared, owner, Work::Run, &interrupt)
    }

    /// Runs guest work and charges its usage to the account.
    pub(super) async fn scope<T>(&self, work: impl Future<Output = T>) -> T {
        self.meter.scope(work).await
    }

    /// Counts the outcome of a run.
    pub(super) fn note(&self, ran: Result<&Outcome, &ServiceError>) {
        match ran {
            Ok(outcome) => self.shared.figures.ran(outcome),
            Err(error) => self.shared.figures.refused(error),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shared.switches().remove(&self.number);
        self.shared.figures.used(self.meter.fuel());
        self.owner.end(self.work);
    }
}

impl Service {
    /// Runs guest work that is not a run. Dropping the future cancels it.
    ///
    /// # Errors
    ///
    /// Fails if the owner has reached a limit, or as for the work.
    pub(super) async fn work<T, E: Into<ServiceError>>(
        &self,
        owner: &Owner,
        work: Work,
        kind: &'static str,
        entering: impl Future<Output = Result<T, E>>,
    ) -> Result<T, ServiceError> {
        let turn = Turn::begin(&self.shared, owner, work, &Interrupt::new())?;
        self.shared.figures.worked(kind);
        let done = turn.scope(entering).await.map_err(E::into);
        done.inspect_err(|error| self.shared.figures.refused(error))
    }
}

/// A run of guest code. Dropping it early interrupts the run, which then finishes in the
/// background: a session keeps its state, and usage is counted.
#[must_use = "futures do nothing unless awaited"]
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
