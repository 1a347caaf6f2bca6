//! What a kernel stands between: the sessions that it runs code in, and its clients.

use std::collections::BTreeMap;
use std::pin::Pin;

use belljar::value::Value;
use belljar::{Completeness, Completion, Error, Inspection, Outcome, Request, Session};

use crate::message::Outgoing;

/// A future of either.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where a kernel gets its session from.
pub trait Backend: Send + Sync + 'static {
    /// A session of the kernel's own; another one after a restart.
    fn open(&self) -> Doing<'_, Result<Box<dyn Guest>, Failure>>;

    /// What keeps [`open`](Self::open) busy, for people.
    fn progress(&self) -> Option<String> {
        None
    }
}

/// The session of a kernel: everything that a kernel has its code do. Whoever has to count what a
/// session does implements it around one.
pub trait Guest: Send + Sync + 'static {
    /// Runs a request.
    fn run(&self, request: Request) -> Doing<'_, Result<Outcome, Failure>>;

    /// The values of expressions, or what they raised. `is_alone` says that they come without a run.
    fn evaluate(
        &self,
        expressions: BTreeMap<String, String>,
        is_alone: bool,
    ) -> Doing<'_, Evaluated>;

    /// What the name at a cursor may become.
    fn complete(&self, code: String, cursor: usize) -> Doing<'_, Result<Completion, Failure>>;

    /// What is known of the name at a cursor.
    fn inspect(
        &self,
        code: String,
        cursor: usize,
        detail: bool,
    ) -> Doing<'_, Result<Option<Inspection>, Failure>>;

    /// Whether code is ready to be run.
    fn is_complete(&self, code: String) -> Doing<'_, Result<Completeness, Failure>>;

    /// Ends the session, which the kernel needs no more.
    fn close(&self);
}

/// Values of expressions, each under its name, or `Type: message` of what it raised.
pub type Evaluated = Result<BTreeMap<String, Result<Value, String>>, Failure>;

impl Guest for Session {
    fn run(&self, request: Request) -> Doing<'_, Result<Outcome, Failure>> {
        Box::pin(async move { Ok(Session::run(self, request).await?) })
    }

    fn evaluate(&self, expressions: BTreeMap<String, String>, _: bool) -> Doing<'_, Evaluated> {
        Box::pin(async move { Ok(Session::evaluate(self, expressions).await?) })
    }

    fn complete(&self, code: String, cursor: usize) -> Doing<'_, Result<Completion, Failure>> {
        Box::pin(async move { Ok(Session::complete(self, &code, cursor).await?) })
    }

    fn inspect(
        &self,
        code: String,
        cursor: usize,
        detail: bool,
    ) -> Doing<'_, Result<Option<Inspection>, Failure>> {
        Box::pin(async move { Ok(Session::inspect(self, &code, cursor, detail).await?) })
    }

    fn is_complete(&self, code: String) -> Doing<'_, Result<Completeness, Failure>> {
        Box::pin(async move { Ok(Session::is_complete(self, &code).await?) })
    }

    fn close(&self) {
        Session::close(self);
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
