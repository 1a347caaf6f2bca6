//! Guest work of somebody: let in, counted, and interrupted when nobody waits for it any more.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use belljar::request::Meter;
use belljar::{Interrupt, Outcome, Request};

use super::error::ServiceError;
use super::owner::{Owner, Work};
use super::{Service, Shared};

/// Guest work that was let in; dropped, it makes room for other. Whatever enters a guest is awaited
/// in its [`scope`](Self::scope).
pub(super) struct Turn {
    shared: Arc<Shared>,
    owner: Owner,
    work: Work,
    number: u64,
    meter: Meter,
}

impl Turn {
    /// Lets work in. `interrupt` is what stops it when the server does.
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

    /// Lets a run in, and gives it a switch unless it has one.
    pub(super) fn of_run(
        service: &Service,
        owner: &Owner,
        request: &mut Request,
    ) -> Result<Self, ServiceError> {
        let interrupt = request.interrupt.get_or_insert_default().clone();
        Self::begin(&service.shared, owner, Work::Run, &interrupt)
    }

    /// Awaits guest work, and charges what it uses to the account.
    pub(super) async fn scope<T>(&self, work: impl Future<Output = T>) -> T {
        self.meter.scope(work).await
    }

    /// Counts how a run ended.
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
    /// Does guest work of somebody that is no run of a request. Dropped, it is cancelled.
    ///
    /// # Errors
    ///
    /// When the owner may do nothing now, or as for the work.
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
