//! The frames in which the guest calls tools. All are untrusted input.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_value::wire;
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
    /// The arguments; typed values are in the tagged form of `docs/reference/values.md`.
    pub arguments: Value,
    #[serde(skip)]
    pub is_typed: bool,
    /// Size of the frame, in bytes.
    #[serde(skip)]
    pub bytes: usize,
}

impl CallFrame {
    /// Parses a tool call; `None` for other requests.
    pub(super) fn of(asks: &Asks) -> Option<Result<Self, String>> {
        match asks {
            Asks::Tool(frame) => Some(Self::read(frame)),
            Asks::Typed(frame) => Some(Self::read_typed(frame)),
            Asks::Input(_) => None,
        }
    }

    /// Parses a byte with the length of the name, the name, and the arguments in the encoding of
    /// `belljar_value::wire`, with all bytes after the head.
    fn read_typed(frame: &[u8]) -> Result<Self, String> {
        let named = frame.split_first().and_then(|(length, rest)| {
            let (name, payload) = rest.split_at_checked(usize::from(*length))?;
            Some((std::str::from_utf8(name).ok()?, payload))
        });
        let (name, payload) = named.ok_or("the frame names no tool")?;
        let failed = |why: &dyn std::fmt::Display| format!("the arguments are no values: {why}");
        // Buffers may overlap, but their total size may not exceed the frame's.
        let arguments: belljar_value::Value =
            wire::read(payload, &[], payload.len() as u64).map_err(|e| failed(&e))?;
        arguments.check().map_err(|e| failed(&e))?;
        Ok(Self {
            name: name.to_owned(),
            arguments: serde_json::to_value(arguments).map_err(|e| failed(&e))?,
            is_typed: true,
            bytes: frame.len(),
        })
    }

    fn read(frame: &[u8]) -> Result<Self, String> {
        let mut call: Self = serde_json::from_slice(frame).map_err(|error| {
            let why = error.to_string();
            if why.contains("recursion limit") {
                "the arguments are nested too deep".into()
            } else {
                format!("the arguments are no JSON: {why}")
            }
        })?;
        if has_long_integer(frame) {
            return Err("an integer of more than 64 bits would lose digits in JSON".into());
        }
        call.bytes = frame.len();
        Ok(call)
    }
}

/// Whether the JSON contains an integer that exceeds 64 bits and would be read as a float.
fn has_long_integer(json: &[u8]) -> bool {
    let mut rest = json;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first == b'"' {
            while let Some((&byte, after)) = rest.split_first() {
                rest = match byte {
                    b'\\' => after.get(1..).unwrap_or_default(),
                    _ => after,
                };
                if byte == b'"' {
                    break;
                }
            }
        } else if first == b'-' || first.is_ascii_digit() {
            let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
            let length = rest.iter().take_while(|byte| is_part(byte)).count();
            let number = &json[json.len() - rest.len() - 1..][..=length];
            rest = &rest[length..];
            let is_integer = !number.iter().any(|byte| b".eE".contains(byte));
            let number = std::str::from_utf8(number).unwrap_or_default();
            if is_integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                return true;
            }
        }
    }
    false
}

/// A question to the answerer of `input()`.
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

/// A wait for answers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitFrame<'a> {
    #[serde(borrow)]
    ids: Cow<'a, [u64]>,
    /// Timeout of the wait, in seconds.
    seconds: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelFrame {
    id: u64,
}

/// The reply to a frame.
pub(crate) enum Reply {
    /// Reply with these bytes.
    Now(Vec<u8>),
    /// Reply with the result of `wait`, or with `instead` if the guest is interrupted.
    Later { wait: Wait, instead: Vec<u8> },
    /// The frame was not understood.
    Refused,
}

impl Calls {
    /// Whether frames with this opcode concern tools.
    pub(crate) fn knows(opcode: u8) -> bool {
        matches!(opcode, b'b' | b'c' | b'B' | b'C' | b'n' | b'a' | b'k')
    }

    /// Answers a frame: starts a call (`b`), calls and waits (`c`), the same with typed values
    /// (`B`, `C`), asks the answerer of `input()` (`n`), waits for started calls (`a`), or cancels
    /// a call (`k`).
    pub(crate) fn answer(self: &Arc<Self>, opcode: u8, payload: &[u8]) -> Reply {
        match opcode {
            b'b' | b'c' | b'B' | b'C' | b'n' => self.answer_call(opcode, payload),
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
        if matches!(opcode, b'b' | b'B') {
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
    /// Stores a call for processing.
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
            b'B' | b'C' => Asks::Typed(payload.to_vec()),
            _ => Asks::Tool(payload.to_vec()),
        };
        self.fresh.push(Fresh { id, since, asks });
        Ok(id)
    }
}

/// Waits for answers. It is not woken: the task that polls the calls polls it afterwards.
pub(crate) struct Wait {
    calls: Arc<Calls>,
    ids: Vec<u64>,
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
    /// Whether the answers are sent as a list with their numbers.
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

/// Encodes the answer of a tool; `value` is JSON.
pub(super) fn answer(value: &[u8]) -> Vec<u8> {
    [b"{\"ok\":", value, b"}"].concat()
}

/// Encodes a typed answer that `belljar_value::wire` has written.
pub(super) fn typed(wire: &[u8]) -> Vec<u8> {
    [b"{\"typed\":\"", BASE64.encode(wire).as_bytes(), b"\"}"].concat()
}

/// Encodes the error of a failed call.
pub(super) fn failure(kind: ToolErrorKind, message: &str) -> Vec<u8> {
    json!({"kind": kind.as_str(), "message": message}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_that_lose_digits_are_found_outside_of_strings() {
        for (json, is_found) in [
            ("[9223372036854775807,-9223372036854775808,18446744073709551615]", false),
            ("{\"a\":18446744073709551616}", true),
            ("[-9223372036854775809]", true),
            ("[\"99999999999999999999999\",\"\\\"99999999999999999999999\"]", false),
            ("[1e300,99999999999999999999.5,-0]", false),
            ("\"\\", false),
        ] {
            assert_eq!(has_long_integer(json.as_bytes()), is_found, "{json}");
        }
    }
}
