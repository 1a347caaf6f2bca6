//! Queries of a session without a run.

use std::collections::BTreeMap;
use std::time::Duration;

use belljar_value::{Omission, Value};
use serde::{Deserialize, Serialize};

use super::{Session, SessionError};
use crate::error::Error;
use crate::guest::Question;
use crate::limits::QUESTION_TIME;

/// Completions of a name in code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// Offset at which the name begins, in characters. The name ends at the cursor.
    pub start: usize,
    /// The completions, sorted, at most 1,000.
    pub matches: Vec<String>,
}

/// Properties of an object. All texts are untrusted guest data, at most 10,000 characters each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Inspection {
    /// The requested name.
    pub name: String,
    /// Class of the object.
    pub class: String,
    /// `repr` of the object.
    pub text: String,
    /// Signature, if the object is callable.
    pub signature: Option<String>,
    /// Docstring.
    pub doc: Option<String>,
    /// Source code, if requested and available.
    pub source: Option<String>,
}

/// Whether code is ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completeness {
    /// The code is complete.
    Complete,
    /// The code continues, and the next line begins with `indent`.
    Incomplete {
        /// Indentation: spaces.
        indent: String,
    },
    /// The code is invalid Python, whatever follows.
    Invalid,
}

impl Session {
    /// Returns the value of a global variable, with its type; `None` if there is no such variable.
    /// This is not a run: its effects are undone. It waits for earlier runs.
    ///
    /// ```no_run
    /// # async fn example(session: belljar::Session) -> Result<(), belljar::Error> {
    /// use belljar::value::Value;
    ///
    /// session.set("rate", 0.25).await?;
    /// assert_eq!(session.get("rate").await?, Some(Value::Float(0.25)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the session was closed, or [`SessionError::Question`] if the value cannot be read within
    /// a run's time limit or is larger than 1 GiB.
    pub async fn get(&self, name: &str) -> Result<Option<Value>, Error> {
        let name = name.to_owned();
        self.ask(Question::Get { name }, None).await
    }

    /// Sets a global variable. This is not a run and not part of the history: the variable belongs
    /// to the state after the last run, and a rewind to that run undoes it.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the name or the value is invalid for a variable;
    /// [`SessionError::Question`] if the guest has no memory for the value. The session is then
    /// unchanged.
    pub async fn set(&self, name: &str, value: impl Into<Value>) -> Result<(), Error> {
        let variables = BTreeMap::from([(name.to_owned(), value.into())]);
        let mut core = self.lock_to_change().await?;
        let using = self.inner.context.begin_use();
        let set = core.set(&self.inner.context, variables).await;
        drop(using);
        self.finish(core);
        set
    }

    /// Evaluates named expressions. Each result is the value, or `Type: message` of the exception
    /// raised. Effects of the evaluation are undone, including files.
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get).
    pub async fn evaluate(
        &self,
        expressions: BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, Result<Value, String>>, Error> {
        let answer = self.ask(Question::Evaluate { expressions }, None).await?;
        let Some(Value::Dict(pairs)) = answer else {
            return Err(strange(answer.as_ref()));
        };
        let values = pairs.into_iter().map(|(name, value)| match (name, value) {
            (Value::Str(name), Value::Tuple(parts)) => match <[Value; 2]>::try_from(parts) {
                Ok([Value::Bool(true), value]) => Ok((name, Ok(value))),
                Ok([Value::Bool(false), Value::Str(error)]) => Ok((name, Err(error))),
                _ => Err(strange(None)),
            },
            (_, other) => Err(strange(Some(&other))),
        });
        values.collect()
    }

    /// Returns completions of the name at `cursor` in `code`, from the session's variables and
    /// their attributes. `cursor` counts characters.
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get), with a time limit of one second.
    pub async fn complete(&self, code: &str, cursor: usize) -> Result<Completion, Error> {
        let code = code.to_owned();
        let cursor = cursor.min(code.chars().count());
        let answer = self.ask(Question::Complete { code, cursor }, Some(QUESTION_TIME)).await?;
        let answer = answer.as_ref();
        let start = match answer.and_then(|answer| answer.get("start")) {
            Some(Value::Int(start)) => usize::try_from(*start).ok().filter(|at| *at <= cursor),
            _ => None,
        };
        let matches = match answer.and_then(|answer| answer.get("matches")) {
            Some(Value::List(matches)) => matches.iter().map(text).collect(),
            _ => None,
        };
        let Some((start, matches)) = start.zip(matches) else {
            return Err(strange(answer));
        };
        Ok(Completion { start, matches })
    }

    /// Returns properties of the name at `cursor` in `code`, with its source if `detail`; `None` if
    /// the name is unknown. `cursor` counts characters.
    ///
    /// # Errors
    ///
    /// As for [`complete`](Self::complete).
    pub async fn inspect(
        &self,
        code: &str,
        cursor: usize,
        detail: bool,
    ) -> Result<Option<Inspection>, Error> {
        let code = code.to_owned();
        let cursor = cursor.min(code.chars().count());
        let question = Question::Inspect {
            code,
            cursor,
            detail,
        };
        let answer = self.ask(question, Some(QUESTION_TIME)).await?;
        let answer = answer.as_ref();
        let field = |key| answer.and_then(|answer| answer.get(key)).and_then(text);
        match answer.and_then(|answer| answer.get("found")) {
            Some(Value::Bool(false)) => Ok(None),
            Some(Value::Bool(true)) => Ok(Some(Inspection {
                name: field("name").unwrap_or_default(),
                class: field("type").unwrap_or_default(),
                text: field("text").unwrap_or_default(),
                signature: field("signature"),
                doc: field("doc"),
                source: field("source"),
            })),
            _ => Err(strange(answer)),
        }
    }

    /// Returns whether code is ready to run, or the indentation of its next line.
    ///
    /// # Errors
    ///
    /// As for [`complete`](Self::complete).
    pub async fn is_complete(&self, code: &str) -> Result<Completeness, Error> {
        let code = code.to_owned();
        let answer = self.ask(Question::IsComplete { code }, Some(QUESTION_TIME)).await?;
        let answer = answer.as_ref();
        let field = |key| answer.and_then(|answer| answer.get(key)).and_then(text);
        match field("status").as_deref() {
            Some("complete") => Ok(Completeness::Complete),
            Some("invalid") => Ok(Completeness::Invalid),
            Some("incomplete") => {
                // Untrusted text that a front end inserts into the user's input.
                let indent = field("indent").filter(|indent| indent.bytes().all(|b| b == b' '));
                let indent = indent.unwrap_or_default();
                Ok(Completeness::Incomplete { indent })
            }
            _ => Err(strange(answer)),
        }
    }

    async fn ask(
        &self,
        question: Question,
        time: Option<Duration>,
    ) -> Result<Option<Value>, Error> {
        let mut core = self.lock().await?;
        let answer = core.ask(&self.inner.context, question, time).await;
        self.finish(core);
        answer
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Str(text) => Some(text.clone()),
        _ => None,
    }
}

/// Creates the error for an answer that the runner never gives.
fn strange(answer: Option<&Value>) -> Error {
    let reason = match answer {
        Some(Value::Opaque(left_out)) if left_out.reason == Some(Omission::Large) => {
            "the answer is too large"
        }
        _ => "the answer is none",
    };
    SessionError::Question {
        reason: reason.into(),
    }
    .into()
}
