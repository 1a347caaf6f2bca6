//! What can be asked of a session without a run.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Session, SessionError};
use crate::error::Error;
use crate::guest::Question;
use crate::limits::QUESTION_TIME;
use crate::value::{Omission, Value};

/// What a name in code may become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// Where the name begins, in characters; it ends at the cursor.
    pub start: usize,
    /// What may stand there, sorted, at most 1,000.
    pub matches: Vec<String>,
}

/// What is known of an object. All texts are the guest's claims, at most 10,000 characters each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The name that was asked about.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its `repr`.
    pub text: String,
    /// How it is called, where it can be.
    pub signature: Option<String>,
    /// Its docstring.
    pub doc: Option<String>,
    /// Its source, where it was asked for and is known.
    pub source: Option<String>,
}

/// Whether code is ready to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completeness {
    /// It can be run.
    Complete,
    /// More is to come, and the next line begins with this.
    Incomplete {
        /// Spaces.
        indent: String,
    },
    /// It is not Python, whatever follows.
    Invalid,
}

impl Session {
    /// The value of a global variable, with its type; `None` when there is no such variable. It is
    /// no run: what reading it does is undone. It waits for runs that were asked for before.
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
    /// When the session was closed, or [`SessionError::Question`] when the value cannot be read
    /// within the time of a run, or is larger than 1 GiB.
    pub async fn get(&self, name: &str) -> Result<Option<Value>, Error> {
        let name = name.to_owned();
        self.ask(Question::Get { name }, None).await
    }

    /// Sets a global variable. It is no run and not in the history: it belongs to the state after
    /// the last run, and going back to that run forgets it.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when a variable cannot have the name, or a guest not take the value;
    /// [`SessionError::Question`] when it has no memory for it. The session is then as it was.
    pub async fn set(&self, name: &str, value: impl Into<Value>) -> Result<(), Error> {
        let variables = BTreeMap::from([(name.to_owned(), value.into())]);
        let mut core = self.lock_to_change().await?;
        let using = self.inner.context.begin_use();
        let set = core.set(&self.inner.context, variables).await;
        drop(using);
        self.finish(core);
        set
    }

    /// The values of expressions, each under its name, or `Type: message` of what it raised. What
    /// evaluating them does is undone, files included.
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

    /// What the name at `cursor` in `code` may become, by the session's variables and what they
    /// have. `cursor` counts characters.
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get); it has a second.
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

    /// What is known of the name at `cursor` in `code`, with its source if `detail`; `None` when
    /// there is no such thing. `cursor` counts characters.
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

    /// Whether code is ready to be run, or what the next line of it begins with.
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
                // A stranger's text, which others put before what people type.
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

/// The error of an answer that the runner does not give.
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
