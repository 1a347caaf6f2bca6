//! What a kernel stands between: the sessions that it runs code in, and its clients.

use std::pin::Pin;

use belljar::{Error, Outcome, Request, Session};

use crate::message::Outgoing;

/// A future of either.
pub(crate) type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where a kernel gets its session from.
pub trait Backend: Send + Sync + 'static {
    /// A session of the kernel's own; another one after a restart.
    fn open(&self) -> Doing<'_, Result<Session, Failure>>;

    /// Runs a request in that session.
    fn run<'a>(
        &'a self,
        session: &'a Session,
        request: Request,
    ) -> Doing<'a, Result<Outcome, Failure>> {
        Box::pin(async move { session.run(request).await.map_err(Failure::from) })
    }

    /// Ends a session that the kernel needs no more.
    fn close(&self, session: &Session) {
        session.close();
    }

    /// What keeps [`open`](Self::open) busy, for people.
    fn progress(&self) -> Option<String> {
        None
    }
}

/// Where a kernel's messages go.
pub trait Outlet: Send + Sync + 'static {
    /// Sends a message. It may take its time, for which the code waits; a client that is gone gets
    /// nothing.
    fn send(&self, message: Outgoing) -> Doing<'_, ()>;
}

/// Code could not be run.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
#[non_exhaustive]
pub struct Failure {
    /// What kind of failure, as a name such as an exception has.
    pub name: String,
    /// What was attempted on what.
    pub text: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            hint: None,
        }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new("BelljarError", error.with_causes()).hint(error.hint())
    }
}
