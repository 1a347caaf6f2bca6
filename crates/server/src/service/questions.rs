//! Guest work in sessions outside runs: expressions, variables and queries such as completion.

use std::collections::BTreeMap;

use belljar::session::{Completeness, Completion, Inspection};
use belljar::value::Value;

use super::Service;
use super::error::ServiceError;
use super::held::Held;
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
        held: &Held,
        expressions: BTreeMap<String, String>,
        with_run: bool,
    ) -> Result<Evaluated, ServiceError> {
        let work = if with_run { Work::Question } else { Work::Run };
        self.work(owner, work, "evaluate", Box::pin(held.guest().evaluate(expressions))).await
    }

    /// Returns the value of a variable.
    ///
    /// # Errors
    ///
    /// As for [`evaluate`](Self::evaluate).
    pub(crate) async fn variable(
        &self,
        owner: &Owner,
        held: &Held,
        name: &str,
    ) -> Result<Option<Value>, ServiceError> {
        self.work(owner, Work::Run, "variable", Box::pin(held.guest().get(name))).await
    }

    /// Sets a variable.
    ///
    /// # Errors
    ///
    /// As for [`evaluate`](Self::evaluate).
    pub(crate) async fn set_variable(
        &self,
        owner: &Owner,
        held: &Held,
        name: &str,
        value: Value,
    ) -> Result<(), ServiceError> {
        self.work(owner, Work::Run, "variable", Box::pin(held.guest().set(name, value))).await
    }

    /// Completes the name at a cursor.
    ///
    /// # Errors
    ///
    /// Fails if the owner has reached a limit, or as for [`belljar::Session::complete`].
    pub(crate) async fn complete(
        &self,
        owner: &Owner,
        held: &Held,
        code: &str,
        cursor: usize,
    ) -> Result<Completion, ServiceError> {
        self.work(owner, Work::Question, "question", Box::pin(held.guest().complete(code, cursor)))
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
        held: &Held,
        (code, cursor): (&str, usize),
        detail: bool,
    ) -> Result<Option<Inspection>, ServiceError> {
        let asking = Box::pin(held.guest().inspect(code, cursor, detail));
        self.work(owner, Work::Question, "question", asking).await
    }

    /// Checks whether code is complete.
    ///
    /// # Errors
    ///
    /// As for [`complete`](Self::complete).
    pub(crate) async fn is_complete(
        &self,
        owner: &Owner,
        held: &Held,
        code: &str,
    ) -> Result<Completeness, ServiceError> {
        self.work(owner, Work::Question, "question", Box::pin(held.guest().is_complete(code))).await
    }
}
