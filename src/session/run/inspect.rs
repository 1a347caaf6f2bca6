//! Queries of a session between two runs, without lasting effects.
//!
//! The session's own interpreter answers, and its memory is restored afterwards. If that is not
//! enough, because it has open host files, has grown, or has a deterministic clock, the interpreter
//! is dropped, and the next run wakes the previous state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use belljar_value::Value;

use super::{Awake, Core, Unkept, aside};
use crate::api::policy::Plan;
use crate::error::Error;
use crate::guest::interpreter::{Observed, Task};
use crate::guest::{Question, RunOrder};
use crate::limits::MAX_TYPED_BYTES;
use crate::sandbox::{Ended, StopReason};
use crate::session::context::Context;
use crate::session::{SessionError, state::State};

impl Core {
    /// Answers a query; `None` if the interpreter gave no answer.
    #[boxed]
    pub(in crate::session) async fn ask(
        &mut self,
        context: &Context,
        question: Question,
        time: Option<Duration>,
    ) -> Result<Option<Value>, Error> {
        let plan = context.plan_question(BTreeMap::new(), time)?;
        let (awake, observed, state) = self.question(context, &plan, question).await?;
        let answer = judge(&plan, observed);
        let (awake, is_as_before) = awake.put_back(&state).await?;
        if is_as_before {
            self.awake = Some(awake);
        } else {
            aside(true, move || drop(awake)).await?;
        }
        answer
    }

    /// Sets variables. This is not a run: the new state replaces the state after the last run.
    #[boxed]
    pub(in crate::session) async fn set(
        &mut self,
        context: &Context,
        variables: BTreeMap<String, Value>,
    ) -> Result<(), Error> {
        self.check_not_waiting(context)?;
        if self.pending.is_some() {
            return Err(failure("a run of the session waits for a tool"));
        }
        let plan = context.plan_question(variables, None)?;
        let (awake, observed, before) = self.question(context, &plan, Question::Set).await?;
        match judge(&plan, observed) {
            Ok(Some(_)) => {
                let storage = Arc::clone(&context.storage);
                let set = Unkept::new(awake, before.placed);
                let (awake, state) = aside(true, move || set.keep(&storage, &before)).await??;
                self.past(context).await?.state = Arc::new(state);
                self.awake = Some(awake);
                Ok(())
            }
            failed => {
                aside(true, move || drop(awake)).await?;
                Err(failed.err().unwrap_or_else(|| failure("it was not answered")))
            }
        }
    }

    /// Lets the interpreter answer. Until its memory is restored, the future owns the interpreter:
    /// if dropped, the next run wakes the previous state.
    async fn question(
        &mut self,
        context: &Context,
        plan: &Plan,
        question: Question,
    ) -> Result<(Awake, Observed, Arc<State>), Error> {
        let _turn = context.engine.turns.take().await?;
        let awake = match self.awake.take() {
            Some(awake) => awake,
            None => self.wake(context, None).await?,
        };
        let state = Arc::clone(&self.past(context).await?.state);
        let order =
            RunOrder::new(plan, self.entropy, true).asking(question, MAX_TYPED_BYTES.into());
        let (awake, observed) = awake.ask(context, plan, order).await?;
        Ok((awake, observed, state))
    }
}

impl Awake {
    async fn ask(
        mut self,
        context: &Context,
        plan: &Plan,
        order: RunOrder,
    ) -> Result<(Self, Observed), Error> {
        self.interpreter.instance().begin();
        let control = self.interpreter.control();
        control.clear();
        let running = context.run(Arc::clone(control));
        let observed = self.interpreter.run(Task::of(plan, order, Instant::now())).await?;
        drop(running);
        Ok((self, observed))
    }

    /// Undoes the effects of a query. Also returns whether everything is as before.
    async fn put_back(mut self, state: &Arc<State>) -> Result<(Self, bool), Error> {
        let state = Arc::clone(state);
        aside(true, move || {
            let instance = self.interpreter.instance();
            // wasmtime-wasi manages open host files, and their state cannot be restored.
            let is_more = instance.has_open_host_files() || instance.repeatable_clock().is_some();
            let is_as_before = !is_more
                && state.kept.hosts.is_empty()
                && self.interpreter.put_back(&state.kept)?;
            if is_as_before {
                self.interpreter.instance().put_back_files(&state.files);
            }
            Ok((self, is_as_before))
        })
        .await?
    }
}

/// Extracts the answer from the interpreter's observed output.
fn judge(plan: &Plan, observed: Observed) -> Result<Option<Value>, Error> {
    let transcript = observed.transcript;
    match observed.driven.stopped {
        None => {}
        Some(StopReason::Fuel) => return Err(failure("it used all the fuel that was left")),
        Some(StopReason::Interrupted) => return Err(failure("it was interrupted")),
        Some(_) => {
            return Err(failure(format!("it took longer than {} seconds", plan.timeout_text)));
        }
    }
    let has_ended = matches!(observed.driven.ended, Ended::Returned(_)) && transcript.ended;
    if !has_ended || transcript.forged {
        return Err(failure("the interpreter was lost, and is back as it was"));
    }
    match (transcript.typed, transcript.warnings.into_iter().next()) {
        (Some(answer), _) => Ok(Some(answer)),
        (None, None) => Ok(None),
        (None, Some(warning)) => Err(failure(warning)),
    }
}

fn failure(reason: impl Into<String>) -> Error {
    SessionError::Question {
        reason: reason.into(),
    }
    .into()
}
