//! Guest work: admitted, accounted, and interrupted when its caller is dropped.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use belljar::request::{ImageChoice, Meter};
use belljar::{Interrupt, Outcome, Request};
use tracing::Instrument;

use super::error::ServiceError;
use super::metrics::kind_of;
use super::owner::{Owner, Work};
use super::{Service, Shared};
use crate::audit::{Event, Limits, Record};
use crate::lock::lock;

/// Admitted guest work. Dropping it frees its capacity. Every guest operation must run in its
/// [`scope`](Self::scope).
pub(super) struct AdmittedWork {
    shared: Arc<Shared>,
    owner: Owner,
    work: Work,
    number: u64,
    meter: Meter,
    /// The record for the audit log, if there is one. Its time is the beginning.
    record: Option<Mutex<Record>>,
}

impl AdmittedWork {
    /// Admits work. The server's shutdown triggers `interrupt`. `describe` completes the record for
    /// the audit log.
    pub(super) fn begin(
        shared: &Arc<Shared>,
        owner: &Owner,
        work: Work,
        interrupt: &Interrupt,
        describe: impl FnOnce(&mut Record),
    ) -> Result<Self, ServiceError> {
        let record = shared.audit.as_ref().map(|_| {
            let mut record = Record::of(Event::Run, owner.name(), owner.caller());
            describe(&mut record);
            record
        });
        let may_begin = if shared.is_stopping() {
            Err(ServiceError::Stopping)
        } else {
            shared.has_memory().and_then(|()| owner.begin(work))
        };
        if let Err(error) = may_begin {
            shared.metrics.refused(&error);
            if let (Some(audit), Some(mut record)) = (&shared.audit, record) {
                record.refused(error.code());
                audit.write(record);
            }
            return Err(error);
        }
        let number = shared.next_run.fetch_add(1, Ordering::Relaxed);
        shared.interrupts().insert(number, interrupt.clone());
        Ok(Self {
            shared: Arc::clone(shared),
            owner: owner.clone(),
            work,
            number,
            meter: owner.tenant().meter(Some(interrupt)),
            record: record.map(Mutex::new),
        })
    }

    /// Admits a run, and adds an interrupt to its request if missing.
    pub(super) fn of_run(
        service: &Service,
        owner: &Owner,
        session: Option<&str>,
        request: &mut Request,
    ) -> Result<Self, ServiceError> {
        let interrupt = request.interrupt.get_or_insert_default().clone();
        Self::begin(&service.shared, owner, Work::Run, &interrupt, |record| {
            record.work = Some("run".to_owned());
            record.session = session.map(str::to_owned);
            record.code(&request.code);
            record.limits = Some(Limits::from(&request.limits));
            if let ImageChoice::Named(image) = &request.image {
                record.image = Some(image.clone());
            }
        })
    }

    /// Runs guest work and charges its usage to the account.
    pub(super) async fn scope<T>(&self, work: impl Future<Output = T>) -> T {
        self.meter.scope(work).await
    }

    /// Counts the outcome of a run.
    pub(super) fn note(&self, ran: Result<&Outcome, &ServiceError>) {
        if let Some(record) = &self.record {
            let mut record = lock(record);
            match ran {
                Ok(outcome) => {
                    record.status = Some(kind_of(outcome));
                    record.wall_ms = Some(outcome.usage.wall_ms);
                    record.memory_peak_bytes = Some(outcome.usage.memory_peak_bytes);
                    record.workspace_bytes = Some(outcome.usage.workspace_bytes);
                    record.stored_bytes = self.shared.stored_bytes(&self.owner);
                }
                Err(error) => record.refused(error.code()),
            }
        }
        match ran {
            Ok(outcome) => self.shared.metrics.ran(&self.owner, outcome, self.meter.waited()),
            Err(error) => self.shared.metrics.refused(error),
        }
    }
}

impl Drop for AdmittedWork {
    fn drop(&mut self) {
        self.shared.interrupts().remove(&self.number);
        self.shared.metrics.used(&self.owner, self.meter.fuel());
        self.owner.end(self.work);
        if let (Some(audit), Some(record)) = (&self.shared.audit, &self.record) {
            let mut record = std::mem::take(&mut *lock(record));
            record.fuel = Some(self.meter.fuel());
            // The caller was dropped.
            record.status.get_or_insert_with(|| "cancelled".to_owned());
            audit.write(record);
        }
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
        self.work_on(owner, work, kind, None, entering).await
    }

    /// The same with the code, for the audit log.
    pub(super) async fn work_on<T, E: Into<ServiceError>>(
        &self,
        owner: &Owner,
        work: Work,
        kind: &'static str,
        code: Option<&str>,
        entering: impl Future<Output = Result<T, E>>,
    ) -> Result<T, ServiceError> {
        let describe = |record: &mut Record| {
            record.work = Some(kind.to_owned());
            if let Some(code) = code {
                record.code(code);
            }
        };
        let interrupt = Interrupt::new();
        let admitted = AdmittedWork::begin(&self.shared, owner, work, &interrupt, describe)?;
        self.shared.metrics.worked(kind);
        let done = admitted.scope(entering).await.map_err(E::into);
        if let Some(record) = &admitted.record {
            let mut record = lock(record);
            match &done {
                Ok(_) => record.status = Some("done".to_owned()),
                Err(error) => record.refused(error.code()),
            }
        }
        done.inspect_err(|error| self.shared.metrics.refused(error))
    }
}

/// A run of guest code. Dropping it early interrupts the run, which then finishes in the
/// background: a session keeps its state, and usage is counted.
#[must_use = "futures do nothing unless awaited"]
pub struct GuestFuture<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    interrupt: Option<Interrupt>,
    has_begun: bool,
}

impl<T: Send + 'static> GuestFuture<T> {
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

impl<T: Send + 'static> Future for GuestFuture<T> {
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

impl<T: Send + 'static> Drop for GuestFuture<T> {
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

/// Runs work on a task. Dropped half way with its request, it would leak objects.
pub(crate) async fn detached<T, E>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<ServiceError> + Send + 'static,
{
    // Of one type, so that tokio's tasks are compiled once for each kind of answer.
    let work: Pin<Box<dyn Future<Output = Result<T, E>> + Send>> = Box::pin(work);
    match tokio::spawn(work.in_current_span()).await {
        Ok(done) => done,
        Err(lost) => match lost.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ServiceError::Stopping.into()),
        },
    }
}
