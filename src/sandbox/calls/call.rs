//! A call from its start to its answer.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use serde_json::Value;

use super::frames::CallFrame;
use super::record::{self, Record};
use super::{Asks, LogRoom, Logged, Settled};
use crate::api::outcome::ToolErrorKind;
use crate::api::tool::{Answering, Tool, ToolError, ToolLimits};

/// A call in progress.
pub(super) struct Open {
    pub record: Record,
    /// `None` if the tool is deferred.
    pub answering: Option<Answering>,
    /// Its name and arguments for the log, if one is kept.
    pub logged: Option<(String, Value)>,
    /// How it differs from the log's entry.
    pub difference: Option<String>,
}

impl Open {
    /// Polls the call. If the function panics, only this call fails.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Settled> {
        let Some(answering) = &mut self.answering else {
            return Poll::Pending;
        };
        let answering = answering.as_mut();
        catch_unwind(AssertUnwindSafe(|| answering.poll(context))).unwrap_or_else(|_| {
            tracing::warn!(tool = self.record.name(), "a tool panicked");
            Poll::Ready(Err(ToolError::internal()))
        })
    }

    /// Uses the answer in the log instead of calling the tool.
    pub(super) fn take_from(&mut self, logged: &Logged) {
        let Some((name, arguments)) = &self.logged else {
            return;
        };
        let is_it = *name == logged.name && *arguments == logged.arguments;
        if !is_it && !logged.is_for_any {
            let id = logged.id;
            self.difference = Some(format!(
                "call {id} was {}({}) when the run was begun, and is {name}({}) now",
                logged.name,
                record::shortened(&logged.arguments),
                record::shortened(arguments),
            ));
            self.answering = None;
            return;
        }
        let answer = logged.answer.clone();
        self.answering = Some(Box::pin(async move { answer.settled() }));
    }
}

/// Starts a call.
pub(super) fn start(
    tools: &HashMap<String, Tool>,
    limits: &ToolLimits,
    record: Record,
    asks: &Asks,
    (room, logged): (Option<&mut LogRoom>, Option<Logged>),
) -> Result<Open, Box<(Record, ToolError)>> {
    let read = CallFrame::of(asks).unwrap_or_else(|| Err("it calls no tool".into()));
    let call = match read {
        Ok(call) => call,
        Err(error) => {
            return Err(Box::new((record, ToolError::of(ToolErrorKind::InvalidArguments, error))));
        }
    };
    let record = record.of(&call);
    let keeps_log = room.is_some();
    if let Some(Err(error)) = room.map(|room| room.take_call(&call.arguments)) {
        return Err(Box::new((record, error)));
    }
    if let Some(logged) = logged {
        // The tool itself may no longer exist.
        let mut call = Open {
            record,
            answering: None,
            logged: Some((call.name, call.arguments)),
            difference: None,
        };
        call.take_from(&logged);
        return Ok(call);
    }
    let Some(tool) = tools.get(&call.name) else {
        let message = format!("there is no tool {:?}", record.name());
        return Err(Box::new((record, ToolError::of(ToolErrorKind::UnknownTool, message))));
    };
    if tool.takes_values() != call.is_typed {
        let message = "the tool takes its arguments in the other form";
        return Err(Box::new((record, ToolError::of(ToolErrorKind::InvalidArguments, message))));
    }
    if let Err(problem) = tool.check(&call.arguments) {
        return Err(Box::new((record, ToolError::of(ToolErrorKind::InvalidArguments, problem))));
    }
    let timeout = tool.own_timeout().unwrap_or(limits.timeout);
    let logged = keeps_log.then(|| (call.name, call.arguments.clone()));
    let answering = tool.call(record.id(), call.arguments).map(|answering| -> Answering {
        Box::pin(async move {
            tokio::time::timeout(timeout, answering).await.unwrap_or_else(|_| {
                let seconds = timeout.as_secs_f64();
                let message = format!("it did not answer within {seconds} seconds");
                Err(ToolError::of(ToolErrorKind::Timeout, message))
            })
        })
    });
    Ok(Open {
        record,
        answering,
        logged,
        difference: None,
    })
}
