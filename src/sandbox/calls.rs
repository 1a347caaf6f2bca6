//! The tool calls of one run: started by the guest, answered outside of it.
//!
//! The guest's thread only stores frames and fetches answers. [`Calls::poll`] parses, checks and
//! answers them on the stack of the task that polls the run, because this work, in particular the
//! caller's functions, may need more stack than a guest has.

mod call;
mod frames;
#[cfg(feature = "fuzzing")]
mod fuzz;
mod ledger;
mod log_size;
mod record;
mod replay;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use serde_json::Value;

use self::call::{Open, start};
use self::frames::{CallFrame, InputFrame};
pub(crate) use self::frames::{Reply, Wait};
#[cfg(feature = "fuzzing")]
pub(crate) use self::fuzz::answer_frames;
pub(crate) use self::log_size::{LogRoom, Weight};
use self::record::Record;
pub(crate) use self::replay::{Logged, LoggedAnswer};
use crate::api::outcome::event::EventKind;
use crate::api::outcome::{ToolCall, ToolErrorKind};
use crate::api::tool::{Answerer, Tool, ToolError, ToolLimits, WaitingCall};

/// The tools that a run's code can call.
#[derive(Clone, Default)]
pub(crate) struct Toolset {
    pub tools: Vec<Tool>,
    pub limits: ToolLimits,
    pub answerer: Option<Answerer>,
    /// Whether calls are deterministic: a wait for several answers returns all at once and takes no
    /// guest time, so that the guest always sees the same.
    pub repeatable: bool,
    /// Answers from an earlier attempt of the same run. If present, a log of answers is kept. Only
    /// such a run can have deferred tools.
    pub log: Option<Vec<Logged>>,
}

/// The calls of a run that has ended.
#[derive(Default)]
pub(crate) struct Finished {
    pub calls: Vec<ToolCall>,
    /// All answers, if a log is kept.
    pub log: Vec<Logged>,
    /// Unanswered calls of deferred tools.
    pub awaited: Vec<WaitingCall>,
    /// The first difference between the calls and the log, if any.
    pub difference: Option<String>,
}

/// The calls of a run.
#[derive(Default)]
pub(crate) struct Calls(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    tools: Arc<HashMap<String, Tool>>,
    answerer: Option<Answerer>,
    limits: ToolLimits,
    repeatable: bool,
    /// Number of calls.
    count: u64,
    /// Number of the latest call.
    latest: u64,
    /// Size of all calls and answers, in bytes.
    bytes: u64,
    /// Calls that were not processed yet.
    fresh: Vec<Fresh>,
    open: Vec<Open>,
    /// Encoded answers that the guest has not fetched yet.
    answered: BTreeMap<u64, Vec<u8>>,
    records: Vec<Record>,
    /// Size of the recorded arguments, in bytes.
    recorded: usize,
    /// Whether the guest was told that its budget is exhausted.
    is_spent: bool,
    /// Whether the guest waits for an answer.
    is_awaited: bool,
    /// Answers by call number.
    log: Option<BTreeMap<u64, Logged>>,
    /// Remaining room in the log.
    room: LogRoom,
    difference: Option<String>,
}

/// A call as stored by the guest.
struct Fresh {
    id: u64,
    since: Instant,
    asks: Asks,
}

/// The unparsed request of a call.
enum Asks {
    Tool(Vec<u8>),
    /// A call with typed values.
    Typed(Vec<u8>),
    Input(Vec<u8>),
}

/// The result of a call.
type Settled = Result<Value, ToolError>;

impl Calls {
    /// Starts a run.
    pub(crate) fn begin(&self, set: &Toolset) {
        let tools = set.tools.iter().map(|tool| (tool.name().to_owned(), tool.clone()));
        *self.lock() = Inner {
            tools: Arc::new(tools.collect()),
            answerer: set.answerer.clone(),
            limits: set.limits,
            repeatable: set.repeatable,
            log: set.log.as_ref().map(|log| log.iter().map(|l| (l.id, l.clone())).collect()),
            ..Inner::default()
        };
    }

    /// Whether there was any call.
    pub(crate) fn has_any(&self) -> bool {
        let inner = self.lock();
        inner.count > 0 || !inner.fresh.is_empty()
    }

    /// Ends a run and cancels open calls. Returns the calls.
    pub(crate) fn finish(&self) -> Finished {
        let mut inner = std::mem::take(&mut *self.lock());
        let why = "the run ended before it was answered";
        for fresh in std::mem::take(&mut inner.fresh) {
            if let Some(call) = CallFrame::of(&fresh.asks) {
                let record = Record::new(fresh.id, fresh.since);
                let record = match call {
                    Ok(call) => record.of(&call),
                    Err(_) => record,
                };
                inner.note(record.failed(ToolErrorKind::Cancelled, why));
            }
        }
        let mut awaited = Vec::new();
        for open in std::mem::take(&mut inner.open) {
            if let (None, Some((name, arguments))) = (&open.answering, open.logged) {
                let id = open.record.id();
                awaited.push(WaitingCall {
                    id,
                    name,
                    arguments,
                    typed: open.record.is_typed(),
                });
            }
            let (kind, why) = match open.answering {
                Some(_) => (ToolErrorKind::Cancelled, why),
                None => (ToolErrorKind::Waiting, "nobody has answered it yet"),
            };
            inner.note(open.record.failed(kind, why));
        }
        inner.records.sort_by_key(Record::id);
        let repeatable = inner.repeatable;
        Finished {
            calls: inner.records.into_iter().map(|record| record.finish(repeatable)).collect(),
            log: inner.log.unwrap_or_default().into_values().collect(),
            awaited,
            difference: inner.difference,
        }
    }

    /// Whether the guest cannot continue: it waits for a deferred tool, or its calls differ from
    /// its log.
    pub(crate) fn is_stuck(&self) -> bool {
        let inner = self.lock();
        inner.difference.is_some()
            || (inner.is_awaited
                && inner.fresh.is_empty()
                && !inner.open.is_empty()
                && inner.open.iter().all(|call| call.answering.is_none()))
    }

    /// Whether there are unprocessed calls.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.lock().fresh.is_empty()
    }

    /// Processes new calls and polls open ones. The guest does not run meanwhile. Returns the
    /// events, if they are wanted.
    pub(crate) fn poll(&self, context: &mut Context<'_>, takes_events: bool) -> Vec<EventKind> {
        let mut events = Vec::new();
        let mut inner = self.lock();
        if inner.fresh.is_empty() && inner.open.is_empty() {
            return events;
        }
        let fresh = std::mem::take(&mut inner.fresh);
        let mut open = std::mem::take(&mut inner.open);
        let (tools, answerer, limits) =
            (Arc::clone(&inner.tools), inner.answerer.clone(), inner.limits);
        let fresh: Vec<_> = fresh.into_iter().map(|fresh| inner.with_logged(fresh)).collect();
        let mut room = inner.log.is_some().then_some(inner.room);
        // The caller's functions run without the lock.
        drop(inner);
        let mut settled = Vec::new();
        let mut difference = None;
        for (Fresh { id, since, asks }, logged) in fresh {
            let record = Record::new(id, since);
            match asks {
                Asks::Tool(_) | Asks::Typed(_) => {
                    let log = (room.as_mut(), logged);
                    let started = start(&tools, &limits, record, &asks, log);
                    if let Ok(Open {
                        difference: Some(found),
                        ..
                    }) = &started
                    {
                        difference.get_or_insert_with(|| found.clone());
                    }
                    if takes_events {
                        let record =
                            started.as_ref().map_or_else(|failed| &failed.0, |call| &call.record);
                        events.push(record.begun());
                    }
                    match started {
                        Ok(call) => open.push(call),
                        Err(failed) => settled.push((failed.0, Err(failed.1), None)),
                    }
                }
                Asks::Input(frame) => match InputFrame::read(&frame).zip(answerer.as_ref()) {
                    Some((InputFrame { prompt }, answerer)) => {
                        let record = record.unlisted();
                        let taken = room.as_mut().map(|room| room.take_call(&prompt)).transpose();
                        if let Err(error) = taken {
                            settled.push((record, Err(error), None));
                            continue;
                        }
                        let mut call = Open {
                            record,
                            answering: Some(answerer.ask(prompt.clone())),
                            logged: room.map(|_| ("input()".into(), prompt.into())),
                            difference: None,
                        };
                        if let Some(logged) = logged {
                            call.take_from(&logged);
                            difference = difference.or(call.difference.take());
                        }
                        open.push(call);
                    }
                    None => settled.push((record.unlisted(), Ok(Value::Null), None)),
                },
            }
        }
        let mut still = Vec::with_capacity(open.len());
        for mut call in open {
            match call.poll(context) {
                Poll::Pending => still.push(call),
                Poll::Ready(answer) => settled.push((call.record, answer, call.logged)),
            }
        }
        let mut inner = self.lock();
        inner.open = still;
        inner.difference = inner.difference.take().or(difference);
        inner.room = room.unwrap_or_default();
        for (record, answer, logged) in settled {
            let record = inner.settle(record, answer, logged);
            if takes_events && record.is_listed() {
                events.push(EventKind::ToolAnswer(record.clone().finish(inner.repeatable)));
            }
            inner.note(record);
        }
        events
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
