//! The interfaces of a kernel to its sessions and to its clients.

use std::collections::BTreeMap;
use std::pin::Pin;

use belljar::session::{Completeness, Completion, Inspection};
use belljar::value::Value;
use belljar::{Error, Outcome, Request, Session};

use crate::message::Outgoing;

/// A boxed future.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Creates the sessions of a kernel.
pub trait Backend: Send + Sync + 'static {
    /// Creates the kernel's session; after a restart, a new one.
    fn open(&self) -> Doing<'_, Result<Box<dyn Guest>, Failure>>;

    /// Describes what delays [`open`](Self::open), for people.
    fn progress(&self) -> Option<String> {
        None
    }
}

/// The session of a kernel, with everything that a kernel does in it. Implement it to account for
/// the work of a session.
pub trait Guest: Send + Sync + 'static {
    /// Runs a request.
    fn run(&self, request: Request) -> Doing<'_, Result<Outcome, Failure>>;

    /// Evaluates expressions. `is_alone` means that there is no run before.
    fn evaluate(
        &self,
        expressions: BTreeMap<String, String>,
        is_alone: bool,
    ) -> Doing<'_, Evaluated>;

    /// Completes the name at a cursor.
    fn complete(&self, code: String, cursor: usize) -> Doing<'_, Result<Completion, Failure>>;

    /// Describes the object whose name is at a cursor.
    fn inspect(
        &self,
        code: String,
        cursor: usize,
        detail: bool,
    ) -> Doing<'_, Result<Option<Inspection>, Failure>>;

    /// Checks whether code is complete.
    fn is_complete(&self, code: String) -> Doing<'_, Result<Completeness, Failure>>;

    /// Closes the session when the kernel no longer needs it.
    fn close(&self);
}

/// Values of expressions by name, or `Type: message` of the exception.
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

/// Receives a kernel's messages.
pub trait Outlet: Send + Sync + 'static {
    /// Sends a message. The code waits until this returns. Messages to a client that has
    /// disconnected are dropped.
    fn send(&self, message: Outgoing) -> Doing<'_, ()>;
}

/// Code could not be run.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
#[non_exhaustive]
pub struct Failure {
    /// The kind of failure, in the form of an exception's name.
    pub name: String,
    /// What failed.
    pub text: String,
    /// Advice.
    pub hint: Option<String>,
}

impl Failure {
    /// Creates a failure.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            hint: None,
        }
    }

    /// Adds advice.
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
