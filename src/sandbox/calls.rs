//! The calls of tools in one run: begun by the guest, answered outside of it.
//!
//! The guest's thread only puts frames down and fetches answers. What is in a frame is read, checked
//! and answered in [`Calls::poll`], on the stack of whoever polls the run, since all of that, the
//! caller's functions above all, may need more of it than a guest's stack has.

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

/// What the code of a run can call.
#[derive(Clone, Default)]
pub(crate) struct Toolset {
    pub tools: Vec<Tool>,
    pub limits: ToolLimits,
    pub answerer: Option<Answerer>,
    /// Whoever waits for several answers gets them all at once, and waiting takes none of the
    /// guest's time, so that it sees the same every time.
    pub repeatable: bool,
    /// What calls were answered when the same run was begun before, and that a log of them is kept.
    /// Only such a run can have tools that are deferred.
    pub log: Option<Vec<Logged>>,
}

/// What was called in a run that has ended.
#[derive(Default)]
pub(crate) struct Finished {
    pub calls: Vec<ToolCall>,
    /// All answers, where a log is kept.
    pub log: Vec<Logged>,
    /// Calls of tools that are deferred, which nobody has answered.
    pub awaited: Vec<WaitingCall>,
    /// How the calls differ from those in the log, if they do.
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
    /// How many calls there were.
    count: u64,
    /// The number of the latest call.
    latest: u64,
    /// Bytes of all of them, answers included.
    bytes: u64,
    /// Those that nobody has looked at yet.
    fresh: Vec<Fresh>,
    open: Vec<Open>,
    /// Answers that the guest has yet to fetch, as they are sent.
    answered: BTreeMap<u64, Vec<u8>>,
    records: Vec<Record>,
    /// Bytes that the records' arguments have.
    recorded: usize,
    /// The guest was told that its budget is spent.
    is_spent: bool,
    /// The guest waits for an answer.
    is_awaited: bool,
    /// Answers by the numbers of their calls.
    log: Option<BTreeMap<u64, Logged>>,
    /// What the log has room for yet.
    room: LogRoom,
    difference: Option<String>,
}

/// A call as the guest has put it down.
struct Fresh {
    id: u64,
    since: Instant,
    asks: Asks,
}

/// What a call asks for, unread.
enum Asks {
    Tool(Vec<u8>),
    /// The same with typed values.
    Typed(Vec<u8>),
    Input(Vec<u8>),
}

/// How a call ended.
type Settled = Result<Value, ToolError>;

impl Calls {
    /// Begins a run.
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

    /// Whether anything was called.
    pub(crate) fn has_any(&self) -> bool {
        let inner = self.lock();
        inner.count > 0 || !inner.fresh.is_empty()
    }

    /// Ends a run: what is open is given up. Returns what was called.
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

    /// Whether the guest cannot go on before somebody answers a tool that is deferred, or must not
    /// because its calls are not those in its log.
    pub(crate) fn is_stuck(&self) -> bool {
        let inner = self.lock();
        inner.difference.is_some()
            || (inner.is_awaited
                && inner.fresh.is_empty()
                && !inner.open.is_empty()
                && inner.open.iter().all(|call| call.answering.is_none()))
    }

    /// Whether a call waits for being looked at.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.lock().fresh.is_empty()
    }

    /// Looks at new calls and goes on with those that are open. The guest is not running meanwhile.
    /// Returns what happened, if that is of interest.
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
