//! The calls of tools in one run: begun by the guest, answered outside of it.
//!
//! The guest's thread only puts frames down and fetches answers. What is in a frame is read, checked
//! and answered in [`Calls::poll`], on the stack of whoever polls the run, since all of that, the
//! caller's functions above all, may need more of it than a guest's stack has.

mod frames;
mod log;
mod record;

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use serde_json::Value;

use self::frames::{CallFrame, InputFrame};
pub(crate) use self::frames::{Reply, Wait};
pub(crate) use self::log::{Logged, LoggedAnswer};
use self::record::Record;
use crate::api::outcome::event::EventKind;
use crate::api::outcome::{ToolCall, ToolErrorKind};
use crate::api::tool::{Answerer, Answering, Tool, ToolError, ToolLimits, WaitingCall};
use crate::limits::{MAX_OPEN_CALLS, MAX_RECORDED_TOGETHER};

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

/// A call that is being answered.
struct Open {
    record: Record,
    /// `None` where it is deferred.
    answering: Option<Answering>,
    /// What it is in the log, where one is kept.
    logged: Option<(String, Value)>,
    /// How it differs from what the log has in its place.
    difference: Option<String>,
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
        let keeps_log = inner.log.is_some();
        // The caller's functions run without the lock.
        drop(inner);
        let mut settled = Vec::new();
        let mut difference = None;
        for (Fresh { id, since, asks }, logged) in fresh {
            let record = Record::new(id, since);
            match asks {
                Asks::Tool(_) | Asks::Typed(_) => {
                    let started = start(&tools, &limits, record, &asks, (keeps_log, logged));
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
                        Err(failed) => settled.push((failed.0, Err(failed.1))),
                    }
                }
                Asks::Input(frame) => match InputFrame::read(&frame).zip(answerer.as_ref()) {
                    Some((InputFrame { prompt }, answerer)) => {
                        let mut call = Open {
                            record: record.unlisted(),
                            answering: Some(answerer.ask(prompt.clone())),
                            logged: keeps_log.then(|| ("input()".into(), prompt.into())),
                            difference: None,
                        };
                        if let Some(logged) = logged {
                            call.take_from(&logged);
                            difference = difference.or(call.difference.take());
                        }
                        open.push(call);
                    }
                    None => settled.push((record.unlisted(), Ok(Value::Null))),
                },
            }
        }
        let mut still = Vec::with_capacity(open.len());
        let mut log = Vec::new();
        for mut call in open {
            match call.poll(context) {
                Poll::Pending => still.push(call),
                Poll::Ready(answer) => {
                    if let Some((name, arguments)) = call.logged {
                        let (id, answer) = (call.record.id(), LoggedAnswer::of(&answer));
                        log.push(Logged {
                            id,
                            name,
                            arguments,
                            answer,
                        });
                    }
                    settled.push((call.record, answer));
                }
            }
        }
        let mut inner = self.lock();
        inner.open = still;
        inner.difference = inner.difference.take().or(difference);
        if let Some(kept) = &mut inner.log {
            kept.extend(log.into_iter().map(|logged| (logged.id, logged)));
        }
        for (record, answer) in settled {
            let record = inner.settle(record, answer);
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

/// Answers frames, one a line, with three tools: the entry for fuzzing.
pub(crate) fn answer_frames(lines: &[u8]) -> usize {
    use std::pin::pin;
    use std::task::Waker;

    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else {
        return 0;
    };
    let _entered = runtime.enter();
    let schema = serde_json::json!({
        "properties": {"n": {"type": "integer"}, "s": {"type": "string", "pattern": "^a+$"}},
    });
    let calls = Arc::new(Calls::default());
    calls.begin(&Toolset {
        tools: vec![
            Tool::new("echo", schema.clone(), async |arguments: Value| Ok(arguments)),
            Tool::new("never", schema.clone(), async |_: Value| {
                Ok(std::future::pending::<Value>().await)
            }),
            Tool::values("typed", schema, async |mut arguments| {
                Ok(arguments.remove("n").unwrap_or_default())
            }),
        ],
        answerer: Some(Answerer::new(async |prompt| Some(prompt))),
        ..Toolset::default()
    });
    let mut context = Context::from_waker(Waker::noop());
    let mut answered = 0;
    for frame in lines.split(|byte| *byte == b'\n') {
        let Some((opcode, payload)) = frame.split_first().filter(|(o, _)| Calls::knows(**o)) else {
            continue;
        };
        answered += match calls.answer(*opcode, payload) {
            Reply::Now(bytes) => bytes.len(),
            Reply::Later { wait, instead } => {
                calls.poll(&mut context, true);
                match pin!(wait).poll(&mut context) {
                    Poll::Ready(bytes) => bytes.len(),
                    Poll::Pending => instead.len(),
                }
            }
            Reply::Refused => 0,
        };
    }
    answered + calls.finish().calls.len()
}

impl Open {
    /// Goes on with the call. A function that panics costs its own call.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Settled> {
        let Some(answering) = &mut self.answering else {
            return Poll::Pending;
        };
        let answering = answering.as_mut();
        catch_unwind(AssertUnwindSafe(|| answering.poll(context))).unwrap_or_else(|_| {
            tracing::warn!(tool = self.record.name(), "a tool panicked");
            Poll::Ready(Err(ToolError::internal()))
        })
    }

    /// Takes the answer from the log, instead of asking for one.
    fn take_from(&mut self, logged: &Logged) {
        let Some((name, arguments)) = &self.logged else {
            return;
        };
        if *name != logged.name || *arguments != logged.arguments {
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

/// Begins a call with what the guest wants of it.
fn start(
    tools: &HashMap<String, Tool>,
    limits: &ToolLimits,
    record: Record,
    asks: &Asks,
    (keeps_log, logged): (bool, Option<Logged>),
) -> Result<Open, Box<(Record, ToolError)>> {
    let read = CallFrame::of(asks).unwrap_or_else(|| Err("it calls no tool".into()));
    let call = match read {
        Ok(call) => call,
        Err(error) => {
            return Err(Box::new((record, ToolError::of(ToolErrorKind::InvalidArguments, error))));
        }
    };
    let record = record.of(&call);
    if let Some(logged) = logged {
        // The tool need not be there any more.
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
    let answering = tool.call(call.arguments).map(|answering| -> Answering {
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

impl Inner {
    /// Takes a call of so many bytes down; why not, if it is one too many. Only the first of those
    /// is recorded.
    fn admit(&mut self, bytes: usize) -> Result<u64, ToolError> {
        let total = self.bytes.saturating_add(bytes as u64);
        let (is_lasting, problem) = if self.count >= u64::from(self.limits.calls) {
            (true, format!("the run has used up its {} calls", self.limits.calls))
        } else if total > self.limits.total_bytes {
            (true, format!("the run has used up its {} bytes for calls", self.limits.total_bytes))
        } else if self.fresh.len() + self.open.len() + self.answered.len() >= MAX_OPEN_CALLS {
            (false, format!("{MAX_OPEN_CALLS} calls are open already"))
        } else {
            self.bytes = total;
            return Ok(self.next());
        };
        if is_lasting && !std::mem::replace(&mut self.is_spent, true) {
            let record = Record::new(self.next(), Instant::now());
            self.note(record.failed(ToolErrorKind::BudgetExceeded, &problem));
        }
        Err(ToolError::of(ToolErrorKind::BudgetExceeded, problem))
    }

    /// A call with what the log has of it.
    fn with_logged(&self, fresh: Fresh) -> (Fresh, Option<Logged>) {
        let logged = self.log.as_ref().and_then(|log| log.get(&fresh.id)).cloned();
        (fresh, logged)
    }

    /// A number for another call.
    fn next(&mut self) -> u64 {
        self.count += 1;
        self.latest += 1;
        self.latest
    }

    /// Takes an answer down for the guest.
    fn settle(&mut self, record: Record, answer: Settled) -> Record {
        let id = record.id();
        let is_typed = record.is_typed();
        let answer = answer.and_then(|value| self.weigh(value, is_typed));
        let (sent, record) = match answer {
            Ok(bytes) => {
                let length = bytes.len();
                let sent = if is_typed {
                    frames::typed(&bytes)
                } else {
                    frames::answer(&bytes)
                };
                (sent, record.answered(length))
            }
            Err(error) => {
                let (kind, message) = error.into_parts();
                (frames::failure(kind, &message), record.failed(kind, &message))
            }
        };
        self.answered.insert(id, sent);
        record
    }

    /// An answer as it is sent, if it is not too large.
    fn weigh(&mut self, value: Value, is_typed: bool) -> Result<Vec<u8>, ToolError> {
        let bytes = if is_typed {
            // What is wrong with an answer is its author's business, and an internal error here.
            crate::value::wire::write(&serde_json::from_value(value)?)?
        } else {
            serde_json::to_vec(&value)?
        };
        let most = self.limits.answer_bytes;
        if bytes.len() > most as usize {
            let message = format!("the answer has {} bytes, at most {most} are sent", bytes.len());
            return Err(ToolError::of(ToolErrorKind::TooLarge, message));
        }
        let total = self.bytes.saturating_add(bytes.len() as u64);
        if total > self.limits.total_bytes {
            let total = self.limits.total_bytes;
            let message = format!("the run has used up its {total} bytes for calls");
            return Err(ToolError::of(ToolErrorKind::BudgetExceeded, message));
        }
        self.bytes = total;
        Ok(bytes)
    }

    fn note(&mut self, mut record: Record) {
        if record.is_listed() {
            record.keep_arguments_within(MAX_RECORDED_TOGETHER.saturating_sub(self.recorded));
            self.recorded += record.kept_bytes();
            self.records.push(record);
        }
    }

    /// Whether somebody who waits for these can go on: when one is answered, or, where the run is
    /// repeatable, when none is open.
    fn is_ready(&self, ids: &[u64]) -> bool {
        let is_open = |id: &u64| {
            self.open.iter().any(|call| call.record.id() == *id)
                || self.fresh.iter().any(|fresh| fresh.id == *id)
        };
        match ids {
            [id] => !is_open(id),
            _ if self.repeatable => !ids.iter().any(is_open),
            _ => !ids.iter().all(is_open),
        }
    }

    /// Takes what was answered of these. A call that never was is answered too: with that it is not
    /// there.
    fn fetch(&mut self, ids: &[u64]) -> Vec<(u64, Vec<u8>)> {
        let mut found = Vec::new();
        for id in ids {
            if let Some(answer) = self.answered.remove(id) {
                found.push((*id, answer));
            } else if !self.open.iter().any(|call| call.record.id() == *id)
                && !self.fresh.iter().any(|fresh| fresh.id == *id)
            {
                found.push((
                    *id,
                    frames::failure(ToolErrorKind::Cancelled, "there is no such call"),
                ));
            }
        }
        found
    }

    /// Gives a call up.
    fn cancel(&mut self, id: u64) {
        self.answered.remove(&id);
        let why = "the code gave it up";
        if let Some(at) = self.open.iter().position(|call| call.record.id() == id) {
            let call = self.open.swap_remove(at);
            self.note(call.record.failed(ToolErrorKind::Cancelled, why));
        }
        if let Some(at) = self.fresh.iter().position(|fresh| fresh.id == id) {
            let fresh = self.fresh.swap_remove(at);
            let record = Record::new(fresh.id, fresh.since);
            self.note(record.failed(ToolErrorKind::Cancelled, why));
        }
    }
}
