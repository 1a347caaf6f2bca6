//! The mutable core of a session, and a single run.

mod commit;
mod inspect;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use async_recursion::async_recursion as boxed;
use belljar_files::Files;

use self::commit::{Failed, Unkept};
use super::SessionError;
use super::checkpoint::{Filed, Frozen, Named, Reused, Suspended, Written};
use super::context::Context;
use super::history::{History, HistoryEntry};
use super::options::InitialRun;
use super::pending::{self, Pending, Pins, may_wait};
use super::state::State;
use super::timeline::{Elsewhere, Past};
use crate::api::interrupt::Interrupt;
use crate::api::outcome::{ErrorKind, Outcome, SessionReport};
use crate::api::policy::Plan;
use crate::api::request::{InputFile, Request};
use crate::api::tool::{Tool, ToolAnswer, WaitingCall};
use crate::engine::on_blocking_thread;
use crate::engine::run::outcome::Execution;
use crate::engine::run::{finish, found, judge, no_files, random};
use crate::error::Error;
use crate::guest::RunOrder;
use crate::guest::interpreter::{Interpreter, Task};
use crate::sandbox::calls::Logged;
use crate::sandbox::{Ended, Kept, Options, StopReason, limits};
use crate::workspace::{self, Copies, Workspace, place};

/// The mutable part of a session. One run at a time holds it.
pub(super) struct Core {
    /// The interpreter, while it is in memory between runs.
    awake: Option<Awake>,
    /// The interpreter after a run whose state is not saved yet.
    unkept: Option<Unkept>,
    /// The last run, if its state could not be saved and no outcome has reported it.
    not_kept: Option<Failed>,
    residence: Residence,
    /// Number of completed runs.
    pub execution: u64,
    /// Seed of the guest's generators, the same for all runs of the session.
    pub entropy: [u8; 32],
    /// Fuel of all runs.
    pub fuel: u64,
    /// Why the interpreter was lost, if no outcome could report it.
    lost: Option<&'static str>,
    /// Files of a run whose interpreter was lost, until the next run.
    lost_files: Option<Files>,
    /// The run that waits for answers. The state is the state before that run.
    pub pending: Option<Pending>,
    /// Chunks already present in a store.
    pub written: Arc<Written>,
    /// Chunks already present in a checkpoint file.
    pub filed: Option<Arc<Filed>>,
    /// Chunks already present in the suspend file this session was resumed from.
    pub woken: Option<Arc<Named>>,
}

/// Location of the states.
enum Residence {
    Memory(Past),
    Disk(Suspended),
}

/// An interpreter between two runs, with its files.
struct Awake {
    interpreter: Interpreter,
}

/// Restores up to this size run inline; larger ones move to a blocking thread.
const LONG_RESTORE: usize = 4 << 20;
/// Reason reported when an interpreter was lost in a run whose outcome was not delivered.
const UNTOLD: &str = "the interpreter was lost in an earlier run, which was cancelled";
/// Reason reported when the engine failed to end a run.
const ENGINE_FAILED: &str = "the engine failed in an earlier run";

impl Core {
    /// Creates a session that has not run its initial code.
    pub(super) fn new(context: &Context, entropy: [u8; 32]) -> Result<Self, Error> {
        let packages = context.image.packages.as_ref();
        let files = context.storage.roots.files(&context.fixed.mounts, packages);
        let files = Arc::new(files.map_err(no_files)?);
        let origin = Arc::new(State {
            kept: Kept::fresh(&context.image),
            files,
            placed: (0, 0),
        });
        let past = Past {
            state: Arc::clone(&origin),
            origin: origin.into(),
            history: History::new(context.fixed.history),
        };
        Ok(Self::of(past, 0, entropy, 0))
    }

    /// Creates a session at rest.
    pub(super) fn of(past: Past, execution: u64, entropy: [u8; 32], fuel: u64) -> Self {
        Self {
            awake: None,
            unkept: None,
            not_kept: None,
            residence: Residence::Memory(past),
            execution,
            entropy,
            fuel,
            lost: None,
            lost_files: None,
            pending: None,
            written: Arc::default(),
            filed: None,
            woken: None,
        }
    }

    /// Runs the initial code, before the first run.
    #[boxed]
    pub(super) async fn begin(
        &mut self,
        context: &Context,
        start: InitialRun,
    ) -> Result<(), Error> {
        let InitialRun { files, request } = start;
        let is_nothing = request.env.is_empty() && request.variables.is_empty() && files.is_empty();
        if request.code.is_empty() && is_nothing {
            return Ok(());
        }
        let code = if request.code.is_empty() {
            "pass"
        } else {
            &request.code
        };
        let mut plan = context.plan(Request {
            code: code.to_owned(),
            files,
            ..request
        })?;
        if may_wait(&plan) {
            // No caller could answer a deferred tool before the session exists.
            plan.request.tools.retain(|tool| !tool.is_deferred());
        }
        let (execution, _) = self.attempt(context, &plan, None).await?;
        self.keep_now(context).await?;
        let Outcome { error, stderr, .. } = Outcome::of(plan, execution, None);
        if let Some(error) = error {
            return Err(SessionError::InitCode { error, stderr }.into());
        }
        let past = self.past(context).await?;
        past.origin = Arc::clone(&past.state).into();
        Ok(())
    }

    /// Runs a request in the session.
    #[boxed]
    pub(super) async fn run(
        &mut self,
        context: &Context,
        mut request: Request,
    ) -> Result<Outcome, Error> {
        self.check_not_waiting(context)?;
        // Includes the session's own tools, so that a checkpoint contains the deferred ones.
        context.fixed.tools.complete(&mut request);
        let pending = if request.tools.iter().any(Tool::is_deferred) {
            request = aside(true, move || {
                pending::read_files(&mut request.files)?;
                Ok::<_, Error>(request)
            })
            .await??;
            let lived = self.past(context).await?.state.kept.lived;
            let own = context.fixed.deterministic.as_ref();
            let pending = Pending {
                request: Request {
                    // A replay repeats events, and a reader waits for the watcher's end.
                    watcher: None,
                    ..request.clone()
                },
                pins: Pins::new(own, self.entropy, lived).map_err(random)?,
                log: Vec::new(),
                awaited: Vec::new(),
            };
            Some(aside(true, move || pending.check_size().map(|()| pending)).await??)
        } else {
            None
        };
        Box::pin(self.go_on(context, request, pending)).await
    }

    /// Fails if a run waits, since a change would alter the state from which it is replayed.
    pub(super) fn check_not_waiting(&self, context: &Context) -> Result<(), Error> {
        if self.pending.is_some() {
            let id = context.id.clone();
            return Err(SessionError::Waiting { id }.into());
        }
        Ok(())
    }

    /// Continues the run that waits.
    #[boxed]
    pub(super) async fn answer(
        &mut self,
        context: &Context,
        answers: Vec<ToolAnswer>,
    ) -> Result<Outcome, Error> {
        let Some(pending) = &self.pending else {
            let id = context.id.clone();
            return Err(SessionError::NotWaiting { id }.into());
        };
        let mut pending = pending.clone();
        pending.log = pending.answered(&context.id, answers)?;
        Box::pin(self.go_on(context, pending.request.clone(), Some(pending))).await
    }

    /// Returns the unanswered calls.
    pub(super) fn waiting(&self) -> Vec<WaitingCall> {
        self.pending.as_ref().map(|pending| pending.awaited.clone()).unwrap_or_default()
    }

    /// Runs a request. A run with deferred tools runs as far as its answers allow.
    async fn go_on(
        &mut self,
        context: &Context,
        request: Request,
        pending: Option<Pending>,
    ) -> Result<Outcome, Error> {
        let mut plan = context.plan(request)?;
        if let Some(pending) = &pending {
            plan.request.deterministic = Some(pending.pins.deterministic.clone());
        }
        let fuel = context.limits.fuel.map(|total| (total, total.saturating_sub(self.fuel)));
        let hindrance = match fuel {
            _ if let Some(failure) = context.over() => Some(failure),
            _ if plan.request.interrupt.as_ref().is_some_and(Interrupt::is_interrupted) => {
                Some(judge::interrupted())
            }
            Some((total, 0)) => Some(judge::session_fuel(total)),
            _ if plan.request.code.trim().is_empty() => Some(judge::no_code()),
            _ => None,
        };
        if let Some(hindrance) = hindrance {
            return Ok(Outcome::not_begun(plan, hindrance, Some(self.report(context))));
        }
        if let Some((_, left)) = fuel {
            plan.bounds.fuel = Some(plan.bounds.fuel.map_or(left, |fuel| fuel.min(left)));
        }
        let using = context.begin_use();
        let ran = self.attempt(context, &plan, pending.as_ref()).await;
        drop(using);
        let (mut execution, restart_reason) = ran?;
        let repeats = pending.is_some();
        if let Some(pending) = pending.filter(|_| is_waiting(&execution)) {
            let tools = &mut execution.observed.tools;
            self.pending = Some(Pending {
                log: std::mem::take(&mut tools.log),
                awaited: std::mem::take(&mut tools.awaited),
                ..pending
            });
            return Ok(Outcome::of(plan, execution, Some(self.report(context))));
        }
        if repeats {
            self.keep_now(context).await?;
            // An interpreter whose clock belonged to this run cannot serve the next run.
            self.awake = None;
        }
        self.pending = None;
        self.execution += 1;
        let mut report = self.report(context);
        report.interpreter_restarted = restart_reason.is_some();
        report.restart_reason = restart_reason;
        let is_lost = self.awake.is_none() && self.unkept.is_none();
        let restarted = report.interpreter_restarted;
        let mut outcome = Outcome::of(plan, execution, Some(report));
        self.record(HistoryEntry::of(&outcome, self.execution));
        let mut crashed = false;
        if is_lost {
            // If this outcome is not delivered, the next outcome reports the restart.
            self.lost = restarted.then_some(UNTOLD);
            // Either the interpreter is ready for the next run, or this outcome reports that it is
            // not.
            match self.wake(context, None).await {
                Ok(awake) => self.awake = Some(awake),
                Err(error) => {
                    tracing::warn!(session = context.id, %error, "the interpreter is not restored");
                    crashed = true;
                }
            }
            self.lost = None;
        }
        // This outcome reports an earlier state that was lost, if there is one.
        self.not_kept = None;
        context.note_failed(crashed);
        if let Some(report) = &mut outcome.session {
            report.interpreter_crashed = crashed;
        }
        Ok(outcome)
    }

    pub(super) fn report(&self, context: &Context) -> SessionReport {
        SessionReport {
            interpreter_id: context.id.clone(),
            execution: self.execution,
            ..SessionReport::default()
        }
    }

    /// Runs a plan. Also returns why the interpreter was lost, in this run or before it.
    async fn attempt(
        &mut self,
        context: &Context,
        plan: &Plan,
        pending: Option<&Pending>,
    ) -> Result<(Execution, Option<String>), Error> {
        context.engine.foresee(&plan.request.code, &context.image).await?;
        let _turn = context.engine.turns.take().await?;
        // A run that may be replayed always starts in the same way: with a freshly woken
        // interpreter.
        let unfit = self.awake.take_if(|_| pending.is_some());
        self.discard(unfit).await?;
        let lost = self.lost;
        let mut begun = false;
        loop {
            let awake = match self.awake.take() {
                Some(awake) => awake,
                None => self.wake(context, pending.map(|pending| &pending.pins)).await?,
            };
            // From here on, this future owns the interpreter: if it is dropped, the interpreter is
            // lost.
            self.lost = Some("an earlier run was cancelled before it ended");
            let ran = self.run_in(awake, context, plan, pending, begun).await;
            self.lost = ran.is_err().then_some(ENGINE_FAILED);
            if let Some((execution, reason)) = ran? {
                return Ok((execution, reason.or_else(|| lost.map(str::to_owned))));
            }
            // More code is available now. The state is the state before the run.
            begun = true;
        }
    }

    /// Runs a plan; the state after it is not saved yet. If the interpreter is lost, the previous
    /// state remains, and the reason is returned. Returns `None` if the run stopped because code
    /// was missing that has since been compiled; the caller should retry.
    async fn run_in(
        &mut self,
        awake: Awake,
        context: &Context,
        plan: &Plan,
        pending: Option<&Pending>,
        begun: bool,
    ) -> Result<Option<(Execution, Option<String>)>, Error> {
        let room = self.past_in_memory().state.room(&context.fixed.bounds);
        let (awake, placed) = awake.put(&plan.request.files, room).await?;
        let entropy = pending.map_or(self.entropy, |pending| pending.pins.entropy);
        let log = pending.map(|pending| pending.log.clone());
        let ran = awake.run(context, plan, (entropy, log), begun).await?;
        let Some((mut awake, execution)) = ran else {
            return Ok(None);
        };
        self.fuel = self.fuel.saturating_add(execution.observed.driven.fuel);
        let reason = restart_reason(&execution).filter(|_| !is_waiting(&execution));
        if is_waiting(&execution) || reason.is_some() {
            self.lost_files = Some(awake.interpreter.instance().files().clone());
            return Ok(Some((execution, reason)));
        }
        let used = awake.interpreter.instance().files().usage();
        let state = &self.past_in_memory().state;
        let placed = state.with_placed(placed, used, &context.fixed.bounds);
        self.unkept = Some(Unkept::new(awake, placed));
        Ok(Some((execution, None)))
    }

    /// Starts an interpreter from the latest state.
    async fn wake(&mut self, context: &Context, pins: Option<&Pins>) -> Result<Awake, Error> {
        let state = Arc::clone(&self.past(context).await?.state);
        tracing::debug!(session = context.id, "a session's interpreter is made");
        let (bytes, names) = state.room(&context.fixed.bounds);
        let mut files = Files::clone(&state.files);
        files.set_limits(limits(bytes, names));
        let options = Options {
            image: &context.image,
            links: false,
            files: &files,
            mounts: &context.fixed.mounts,
            aliases: &context.fixed.places.aliases,
            memory: context.fixed.bounds.memory,
            deterministic: pins
                .map(|pins| &pins.deterministic)
                .or(context.fixed.deterministic.as_ref()),
            kept: Some(&state.kept),
        };
        let mut interpreter = Interpreter::start(&context.engine.factory, &options)?;
        let pages = state.kept.pages.count() * belljar_memory::HOST_PAGE;
        if !state.kept.hosts.is_empty() || pages > LONG_RESTORE {
            let here = tokio::runtime::Handle::current();
            interpreter = aside(true, move || {
                here.block_on(interpreter.instance().resume(&state.kept))?;
                Ok::<_, Error>(interpreter)
            })
            .await??;
        } else {
            interpreter.instance().resume(&state.kept).await?;
        }
        Ok(Awake { interpreter })
    }

    /// Returns the states, and reads them from disk if necessary.
    pub(super) async fn past(&mut self, context: &Context) -> Result<&mut Past, Error> {
        if let Residence::Disk(suspended) = &self.residence {
            context.make_room().await;
            let (past, known) = suspended.read(context).await?;
            self.residence = Residence::Memory(past);
            self.woken = known.source().is_some().then_some(known);
            context.note_in_memory(true);
        }
        Ok(self.past_in_memory())
    }

    /// Returns the states of a session that is in memory.
    fn past_in_memory(&mut self) -> &mut Past {
        match &mut self.residence {
            Residence::Memory(past) => past,
            Residence::Disk(_) => unreachable!("it is read before it is used"),
        }
    }

    /// Returns a frozen copy for a checkpoint. Reads it from disk if necessary.
    #[boxed]
    pub(super) async fn freeze(&mut self, context: &Context) -> Result<Frozen, Error> {
        let mut past = self.past(context).await?.clone();
        if !past.is_settled() {
            past = aside(true, move || past.settle().map(|()| past)).await??;
            *self.past_in_memory() = past;
        }
        self.freeze_as_it_is(context).await
    }

    /// Returns a frozen copy for a store. Its earlier states may still be unread.
    #[boxed]
    pub(super) async fn freeze_as_it_is(&mut self, context: &Context) -> Result<Frozen, Error> {
        let past = self.past(context).await?.clone();
        Ok(Frozen::of(context, past, self.execution, self.fuel).waiting(self.pending.clone()))
    }

    /// Returns a frozen copy for the suspend file, its chunks that are already present from the
    /// last suspension, and the states that cannot be included because they cannot be read. Returns
    /// `None` if the session is already on disk. Blocks.
    pub(super) fn freeze_in_memory(
        &mut self,
        context: &Context,
    ) -> Option<(Frozen, Option<Reused>, Elsewhere)> {
        let Residence::Memory(past) = &self.residence else {
            return None;
        };
        let source = self.woken.as_ref().and_then(|known| known.source());
        let (here, elsewhere) = past.part(source.as_ref());
        let reused = self.woken.as_ref().and_then(|known| known.reused());
        Some((Frozen::of(context, here, self.execution, self.fuel), reused, elsewhere))
    }

    /// Moves the states to disk, and drops everything else.
    pub(super) fn suspend(&mut self, suspended: Suspended) {
        self.put_away(Residence::Disk(suspended));
    }

    /// Frees everything while other handles exist, so that dropping the last handle takes no time.
    pub(super) fn close(&mut self) {
        self.put_away(Residence::Memory(Past::nothing()));
    }

    fn put_away(&mut self, residence: Residence) {
        let freed = (self.awake.take(), self.unkept.take());
        self.lost_files = None;
        (self.filed, self.woken) = (None, None);
        self.residence = residence;
        if freed.0.is_some() || freed.1.is_some() {
            drop(freed);
            belljar_memory::note_freed();
        }
    }

    /// Returns to a state. Runs after `execution` are forgotten.
    #[boxed]
    pub(super) async fn go_back(&mut self, context: &Context, execution: u64) -> Result<(), Error> {
        let state = self.find(context, execution).await?;
        let left = self.return_to(state, execution);
        aside(left.is_some(), move || drop(left)).await
    }

    /// Returns the state after run `execution`, and reads it if necessary.
    #[boxed]
    pub(super) async fn find(
        &mut self,
        context: &Context,
        execution: u64,
    ) -> Result<Arc<State>, Error> {
        let id = context.id.clone();
        let past = self.past(context).await?;
        let state = match execution {
            0 => Some(&past.origin),
            _ => past.history.state(execution),
        };
        let Some(state) = state.cloned() else {
            let known = past.history.describe();
            return Err(SessionError::NoState {
                id,
                execution,
                known,
            }
            .into());
        };
        match state.here() {
            Some(state) => Ok(Arc::clone(state)),
            None => aside(true, move || state.read()).await?.map_err(unread(id, execution)),
        }
    }

    /// Makes the state after run `execution` the latest. The returned value takes a while to drop.
    pub(super) fn return_to(&mut self, state: Arc<State>, execution: u64) -> Option<Left> {
        let past = self.past_in_memory();
        past.state = state;
        if execution == 0 {
            past.history.clear();
        } else {
            past.history.cut_after(execution);
        }
        self.lost = None;
        self.not_kept = None;
        self.pending = None;
        self.execution = execution;
        let awake = self.awake.take();
        self.leave(awake)
    }

    /// Makes `state` the latest, outside a run. An interpreter is started from it when needed.
    #[boxed]
    pub(super) async fn replace(&mut self, context: &Context, state: State) -> Result<(), Error> {
        self.past(context).await?.state = Arc::new(state);
        let awake = self.awake.take();
        self.discard(awake).await
    }

    /// Drops the files of a lost interpreter, and an interpreter with its files, which may be many.
    async fn discard(&mut self, awake: Option<Awake>) -> Result<(), Error> {
        let left = self.leave(awake);
        aside(left.is_some(), move || drop(left)).await
    }

    fn leave(&mut self, awake: Option<Awake>) -> Option<Left> {
        let files = self.lost_files.take();
        (files.is_some() || awake.is_some()).then(|| Left(files, awake))
    }

    /// Reads a file that the last run left.
    #[boxed]
    pub(super) async fn read(&mut self, context: &Context, path: &str) -> Result<Vec<u8>, Error> {
        let files = self.files(context).await?;
        let wanted = path.to_owned();
        found(aside(true, move || workspace::read(&files, &wanted, u64::MAX)).await?, path)
    }

    /// Copies files that the last run left. Returns the paths of the copies.
    #[boxed]
    pub(super) async fn copy(
        &mut self,
        context: &Context,
        names: Vec<String>,
        to: PathBuf,
    ) -> Result<Vec<PathBuf>, Error> {
        let files = self.files(context).await?;
        Ok(aside(true, move || Copies::make(to, &files, &names)).await??)
    }

    /// Returns the files that the last run left.
    async fn files(&mut self, context: &Context) -> Result<Files, Error> {
        match &self.lost_files {
            Some(files) => Ok(files.clone()),
            None => Ok(Files::clone(&self.past(context).await?.state.files)),
        }
    }
}

impl Awake {
    /// Places the files of a run, within the session's limits on bytes and files. Also returns
    /// their bytes and number, by which the limits are raised.
    async fn put(
        mut self,
        files: &[InputFile],
        (bytes, names): (u64, u64),
    ) -> Result<(Self, (u64, u64)), Error> {
        if files.is_empty() {
            self.interpreter.instance().files_mut().set_limits(limits(bytes, names));
            return Ok((self, (0, 0)));
        }
        let inputs = files.to_vec();
        aside(true, move || {
            let now = self.interpreter.instance().now();
            let files = self.interpreter.instance().files_mut();
            files.set_limits(limits(u64::MAX, u64::MAX));
            let placed = place(files, &inputs, now)?;
            let bytes = bytes.saturating_add(placed.0);
            files.set_limits(limits(bytes, names.saturating_add(placed.1)));
            Ok((self, placed))
        })
        .await?
    }

    async fn run(
        mut self,
        context: &Context,
        plan: &Plan,
        (entropy, log): ([u8; 32], Option<Vec<Logged>>),
        begun: bool,
    ) -> Result<Option<(Self, Execution)>, Error> {
        self.interpreter.instance().begin();
        let before = self.interpreter.instance().files().clone();
        let control = self.interpreter.control();
        control.clear();
        let running = context.run(Arc::clone(control));
        let order = RunOrder::new(plan, entropy, true);
        let mut task = Task::of(plan, order, Instant::now());
        task.tools.log = log;
        task.audience.knows = begun;
        let observed = self.interpreter.run(task).await?;
        drop(running);
        if let Some(lacked) = observed.lacked()
            && context.engine.grow(&lacked).await
        {
            aside(true, move || drop(self)).await?;
            return Ok(None);
        }
        let now = self.interpreter.instance().files().clone();
        let (_, execution) = finish(plan, observed, Workspace::between(before, now)).await?;
        Ok(Some((self, execution)))
    }
}

/// Whether a run ended because it waits for answers.
fn is_waiting(execution: &Execution) -> bool {
    let observed = &execution.observed;
    observed.driven.stopped == Some(StopReason::Waiting) && observed.tools.difference.is_none()
}

/// Returns why the interpreter cannot continue after a run; `None` if it can.
fn restart_reason(execution: &Execution) -> Option<String> {
    let detail = execution.failure.as_ref().map(|failure| &failure.detail);
    match &execution.observed.driven.ended {
        Ended::Stopped if let Some(difference) = &execution.observed.tools.difference => {
            Some(difference.clone())
        }
        Ended::Stopped => Some("the code did not stop when it was interrupted".into()),
        Ended::Returned(_) => {
            // The code returned, but not through the runner.
            let crash = detail.filter(|detail| detail.kind == ErrorKind::Crash)?;
            Some(format!("{}: {}", crash.type_, crash.message))
        }
        Ended::Trapped(_)
        | Ended::Exited(_)
        | Ended::Missing(_)
        | Ended::Failed(_)
        | Ended::Overran => Some(detail.map_or_else(
            || "the interpreter was ended".into(),
            |detail| format!("{}: {}", detail.type_, detail.message),
        )),
    }
}

/// Interpreter and files that a session no longer needs.
#[expect(dead_code, reason = "held until it is dropped")]
pub(super) struct Left(Option<Files>, Option<Awake>);

/// Wraps the error of a state that a session was to return to.
fn unread(id: String, execution: u64) -> impl FnOnce(Error) -> Error {
    move |error| match error {
        Error::Session(source) => SessionError::Unread {
            id,
            execution,
            source: Box::new(source),
        }
        .into(),
        error => error,
    }
}

/// Runs `work` inline, or on a blocking thread if it may take long.
async fn aside<T: Send + 'static>(
    is_long: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if is_long {
        on_blocking_thread(work).await
    } else {
        Ok(work())
    }
}
