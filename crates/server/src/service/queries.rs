//! Guest work in sessions outside runs: expressions, variables and queries such as completion.

use std::collections::BTreeMap;

use belljar::session::{Completeness, Completion, Inspection};
use belljar::value::Value;

use super::Service;
use super::error::ServiceError;
use super::owned_session::OwnedSession;
use super::owner::{Owner, Work};

/// Values of expressions by name, or `Type: message` of their exceptions.
pub(crate) type Evaluated = BTreeMap<String, Result<Value, String>>;

impl Service {
    /// Evaluates expressions. Counts as a run of the owner unless `with_run` says that they belong
    /// to a run already counted.
    ///
    /// # Errors
    ///
    /// Fails if the owner has reached a limit, or as for [`belljar::Session::evaluate`].
    pub(crate) async fn evaluate(
        &self,
        owner: &Owner,
        session: &OwnedSession,
        expressions: BTreeMap<String, String>,
        with_run: bool,
    ) -> Result<Evaluated, ServiceError> {
        let work = if with_run { Work::Query } else { Work::Run };
        let code = self
            .audit()
            .map(|_| expressions.values().map(String::as_str).collect::<Vec<_>>().join("\n"));
        let evaluating = Box::pin(session.guest().evaluate(expressions));
        self.work_on(owner, work, "evaluate", code.as_deref(), evaluating).await
    }

    /// Returns the value of a variable.
    ///
    /// # Errors
    ///
    /// As for [`evaluate`](Self::evaluate).
    pub(crate) async fn variable(
        &self,
        owner: &Owner,
        session: &OwnedSession,
        name: &str,
    ) -> Result<Option<Value>, ServiceError> {
        self.work(owner, Work::Run, "variable", Box::pin(session.guest().get(name))).await
    }

    /// Sets a variable.
    ///
    /// # Errors
    ///
    /// As for [`evaluate`](Self::evaluate).
    pub(crate) async fn set_variable(
        &self,
        owner: &Owner,
        session: &OwnedSession,
        name: &str,
        value: Value,
    ) -> Result<(), ServiceError> {
        self.work(owner, Work::Run, "variable", Box::pin(session.guest().set(name, value))).await
    }

    /// Completes the name at a cursor.
    ///
    /// # Errors
    ///
    /// Fails if the owner has reached a limit, or as for [`belljar::Session::complete`].
    pub(crate) async fn complete(
        &self,
        owner: &Owner,
        session: &OwnedSession,
        code: &str,
        cursor: usize,
    ) -> Result<Completion, ServiceError> {
        self.work(owner, Work::Query, "question", Box::pin(session.guest().complete(code, cursor)))
            .await
    }

    /// Inspects the name at a cursor.
    ///
    /// # Errors
    ///
    /// As for [`complete`](Self::complete).
    pub(crate) async fn inspect(
        &self,
        owner: &Owner,
        session: &OwnedSession,
        (code, cursor): (&str, usize),
        detail: bool,
    ) -> Result<Option<Inspection>, ServiceError> {
        let asking = Box::pin(session.guest().inspect(code, cursor, detail));
        self.work(owner, Work::Query, "question", asking).await
    }

    /// Checks whether code is complete.
    ///
    /// # Errors
    ///
    /// As for [`complete`](Self::complete).
    pub(crate) async fn is_complete(
        &self,
        owner: &Owner,
        session: &OwnedSession,
        code: &str,
    ) -> Result<Completeness, ServiceError> {
        self.work(owner, Work::Query, "question", Box::pin(session.guest().is_complete(code))).await
    }
}
