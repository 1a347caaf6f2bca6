//! The frames in which the guest calls tools. Every one is hostile input.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Asks, Calls, Fresh, Inner};
use crate::api::outcome::ToolErrorKind;
use crate::api::tool::ToolError;
use crate::limits::MAX_OPEN_CALLS;

/// A call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallFrame {
    pub name: String,
    pub arguments: Value,
}

impl CallFrame {
    pub(super) fn read(frame: &[u8]) -> Result<Self, String> {
        let call: Self = serde_json::from_slice(frame).map_err(|error| {
            let why = error.to_string();
            if why.contains("recursion limit") {
                "the arguments are nested too deep".into()
            } else {
                format!("the arguments are no JSON: {why}")
            }
        })?;
        Ok(call)
    }
}

/// A question to whoever answers `input()`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InputFrame {
    pub prompt: String,
}

impl InputFrame {
    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        serde_json::from_slice(frame).ok()
    }
}

/// Waiting for answers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitFrame<'a> {
    #[serde(borrow)]
    ids: Cow<'a, [u64]>,
    /// After so many seconds it goes on without one.
    seconds: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelFrame {
    id: u64,
}

/// Answer to a frame.
pub(crate) enum Reply {
    /// These bytes.
    Now(Vec<u8>),
    /// What this gives; to a guest that is interrupted meanwhile, `instead`.
    Later { wait: Wait, instead: Vec<u8> },
    /// The frame was not understood.
    Refused,
}

impl Calls {
    /// Whether frames that begin so are about tools.
    pub(crate) fn knows(opcode: u8) -> bool {
        matches!(opcode, b'b' | b'c' | b'n' | b'a' | b'k')
    }

    /// Answers a frame: a call that is begun (`b`) or waited for (`c`), a question to whoever answers
    /// `input()` (`n`), waiting for calls that were begun (`a`), or giving one up (`k`).
    pub(crate) fn answer(self: &Arc<Self>, opcode: u8, payload: &[u8]) -> Reply {
        match opcode {
            b'b' | b'c' | b'n' => self.answer_call(opcode, payload),
            b'a' => self.answer_wait(payload),
            b'k' => match serde_json::from_slice(payload) {
                Ok(CancelFrame { id }) => {
                    self.lock().cancel(id);
                    Reply::Now(Vec::new())
                }
                Err(_) => Reply::Refused,
            },
            _ => Reply::Refused,
        }
    }

    fn answer_call(self: &Arc<Self>, opcode: u8, payload: &[u8]) -> Reply {
        let mut inner = self.lock();
        let id = match inner.take_down(opcode, payload) {
            Ok(id) => id,
            Err(error) => {
                let (kind, message) = error.into_parts();
                return Reply::Now(failure(kind, &message));
            }
        };
        let begun = json!({"id": id}).to_string().into_bytes();
        if opcode == b'b' {
            return Reply::Now(begun);
        }
        let wait = Wait {
            calls: Arc::clone(self),
            ids: vec![id],
            timer: None,
            is_list: false,
        };
        Reply::Later {
            wait,
            instead: begun,
        }
    }

    fn answer_wait(self: &Arc<Self>, payload: &[u8]) -> Reply {
        let Ok(WaitFrame { ids, seconds }) = serde_json::from_slice(payload) else {
            return Reply::Refused;
        };
        if ids.len() > MAX_OPEN_CALLS {
            return Reply::Refused;
        }
        let seconds = seconds.filter(|_| !self.lock().repeatable);
        let until = seconds.map(|seconds| {
            let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
            Instant::now().checked_add(time)
        });
        let timer = until.flatten().map(|at| Box::pin(tokio::time::sleep_until(at.into())));
        let wait = Wait {
            calls: Arc::clone(self),
            ids: ids.into_owned(),
            timer,
            is_list: true,
        };
        Reply::Later {
            wait,
            instead: b"[]".to_vec(),
        }
    }
}

impl Inner {
    /// Takes a call down to be looked at.
    fn take_down(&mut self, opcode: u8, payload: &[u8]) -> Result<u64, ToolError> {
        let most = self.limits.argument_bytes as usize;
        let id = self.admit(payload.len().min(most))?;
        let since = Instant::now();
        if payload.len() > most {
            let message =
                format!("the arguments have {} bytes, at most {most} are taken", payload.len());
            let record = super::Record::new(id, since);
            self.note(record.failed(ToolErrorKind::TooLarge, &message));
            return Err(ToolError::of(ToolErrorKind::TooLarge, message));
        }
        let asks = match opcode {
            b'n' => Asks::Input(payload.to_vec()),
            _ => Asks::Tool(payload.to_vec()),
        };
        self.fresh.push(Fresh { id, since, asks });
        Ok(id)
    }
}

/// Waits for answers. It is not woken: whoever polls the calls polls it afterwards.
pub(crate) struct Wait {
    calls: Arc<Calls>,
    ids: Vec<u64>,
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
    /// Whether the answers go out as a list, each with its number.
    is_list: bool,
}

impl Future for Wait {
    type Output = Vec<u8>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<u8>> {
        let timed_out =
            self.timer.as_mut().is_some_and(|timer| timer.as_mut().poll(context).is_ready());
        let mut inner = self.calls.lock();
        inner.is_awaited = !timed_out && !inner.is_ready(&self.ids);
        if inner.is_awaited {
            return Poll::Pending;
        }
        let mut found = inner.fetch(&self.ids);
        if !self.is_list {
            return Poll::Ready(found.pop().map(|(_, answer)| answer).unwrap_or_default());
        }
        let mut list = vec![b'['];
        for (id, answer) in found {
            if list.len() > 1 {
                list.push(b',');
            }
            list.extend(format!("[{id},").bytes());
            list.extend(answer);
            list.push(b']');
        }
        list.push(b']');
        Poll::Ready(list)
    }
}

/// The answer of a tool as it is sent; `value` is JSON.
pub(super) fn answer(value: &[u8]) -> Vec<u8> {
    [b"{\"ok\":", value, b"}"].concat()
}

/// Why there is none.
pub(super) fn failure(kind: ToolErrorKind, message: &str) -> Vec<u8> {
    json!({"kind": kind.as_str(), "message": message}).to_string().into_bytes()
}
