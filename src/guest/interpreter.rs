//! A live interpreter: an instance with its streams and the host's side of its runner.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::api::interrupt::Interrupt;
use crate::api::policy::Plan;
use crate::api::request::Deterministic;
use crate::api::tenant::Meter;
use crate::api::tool::Tool;
use crate::api::watch::Stream;
use crate::guest::{RunHost, RunOrder, Transcript};
use crate::limits::{GRACE, GRACE_FUEL, after};
use crate::sandbox::calls::{Calls, Finished, Logged, Toolset};
use crate::sandbox::{
    Audience, Budget, Control, Driven, Ended, Factory, Host, Input, Instance, InstanceError, Kept,
    Missing, Options, Output, PACKAGES_PATH, Recorder, SeededBytes, Setup, Sink, SteppingClock,
    StopReason, Turn,
};
use crate::util::cause::Cause;

/// A live interpreter.
pub(crate) struct Interpreter {
    instance: Instance,
    host: RunHost,
    control: Arc<Control>,
    calls: Arc<Calls>,
    stdin: Arc<Input>,
    stdout: Arc<Sink>,
    stderr: Arc<Sink>,
    recorder: Arc<Recorder>,
    has_packages: bool,
}

/// One run of an interpreter.
pub(crate) struct Task<'a> {
    pub order: RunOrder,
    /// The turn that the guest starts with.
    pub turn: Turn<'a>,
    pub stdin: Vec<u8>,
    /// Maximum size of each output stream, in bytes.
    pub output: u64,
    pub audience: Audience,
    pub tools: Toolset,
    /// Another switch that may interrupt the run.
    pub interrupt: Option<Interrupt>,
    pub budget: Budget,
    /// Start of the run, from which its time counts.
    pub started: Instant,
}

impl Task<'_> {
    /// Creates the task of a plan.
    pub(crate) fn of(plan: &Plan, order: RunOrder, started: Instant) -> Self {
        Self {
            order,
            turn: Turn::Run,
            stdin: plan.request.stdin.clone(),
            output: plan.bounds.output,
            audience: Self::audience(plan),
            tools: Toolset {
                tools: plan.request.tools.clone(),
                limits: plan.request.tool_limits,
                answerer: plan.request.answerer.clone(),
                repeatable: plan.request.deterministic.is_some(),
                log: answered_beforehand(plan),
            },
            interrupt: plan.request.interrupt.clone(),
            budget: Budget {
                deadline: after(started, plan.bounds.timeout),
                fuel: plan.bounds.fuel,
                grace: GRACE,
                grace_fuel: GRACE_FUEL,
            },
            started,
        }
    }

    /// Returns the receivers of a plan's events.
    pub(crate) fn audience(plan: &Plan) -> Audience {
        Audience {
            watcher: plan.request.watcher.as_ref().map(|watcher| Arc::clone(&watcher.0)),
            lists: plan.request.capture.events,
            knows: false,
        }
    }
}

/// Returns the answers that a plan with deferred tools contains. Sessions store theirs separately.
fn answered_beforehand(plan: &Plan) -> Option<Vec<Logged>> {
    let waits = plan.request.tools.iter().any(Tool::is_deferred);
    waits.then(|| plan.request.answers.iter().map(Logged::beforehand).collect())
}

impl Interpreter {
    /// Starts an interpreter. A session's interpreter must then be resumed.
    pub(crate) fn start(factory: &Factory, options: &Options<'_>) -> Result<Self, InstanceError> {
        Self::start_behind(factory, options, |host| Box::new(host))
    }

    /// Like [`start`](Self::start), with a host that answers frames before the host's side of the
    /// runner.
    pub(crate) fn start_behind(
        factory: &Factory,
        options: &Options<'_>,
        front: impl FnOnce(RunHost) -> Box<dyn Host>,
    ) -> Result<Self, InstanceError> {
        let control = Control::new();
        let recorder = Arc::new(Recorder::default());
        let sink = |stream| Sink::new(stream, control.clone(), recorder.clone());
        let (stdout, stderr) = (sink(Stream::Stdout), sink(Stream::Stderr));
        let calls = Arc::new(Calls::default());
        let host = RunHost::new(control.clone(), recorder.clone(), calls.clone());
        let stdin = Input::new();
        let setup = Setup {
            stdin: stdin.clone(),
            stdout: stdout.clone(),
            stderr: stderr.clone(),
            control: control.clone(),
            recorder: recorder.clone(),
            calls: calls.clone(),
            host: front(host.clone()),
        };
        Ok(Self {
            instance: factory.start(options, setup)?,
            host,
            control,
            calls,
            stdin,
            stdout,
            stderr,
            recorder,
            has_packages: options.image.packages.is_some(),
        })
    }

    /// Runs a task to completion.
    pub(crate) async fn run(&mut self, task: Task<'_>) -> Result<Observed, InstanceError> {
        let started = task.started;
        let mut order = task.order;
        if self.has_packages {
            order = order.with_packages(PACKAGES_PATH);
        }
        if self.stdin.replace(task.stdin) {
            order = order.with_used_stdin();
        }
        self.host.order(&order).map_err(|e| InstanceError::Order(Cause::new(e)))?;
        let clock_before = self.instance.repeatable_clock().map(SteppingClock::elapsed);
        self.recorder.begin(task.audience, started, self.instance.repeatable_clock());
        tracing::debug!(budget = ?task.budget, "a run begins");
        self.calls.begin(&task.tools);
        let control = self.control.clone();
        let drive = self.drive(task.turn, &task.budget, task.output);
        let meter = Meter::current();
        if let Some(meter) = &meter {
            meter.begins();
        }
        let switches = [task.interrupt, meter.and_then(|meter| meter.interrupt().cloned())];
        let driven = interruptible(drive, &control, switches).await?;
        self.recorder.end_text();
        tracing::debug!(ended = ?driven.ended, fuel = driven.fuel, elapsed = ?started.elapsed(), "a run ended");
        let clock = self.instance.repeatable_clock().zip(clock_before);
        let seen = self.recorder.has_told() || self.calls.has_any();
        Ok(Observed {
            seen,
            transcript: self.host.transcript(),
            tools: self.calls.finish(),
            memory_refused: self.instance.memory_refused(),
            memory_peak: self.instance.memory_peak(),
            touched: self.instance.state().touched(),
            wall: clock.map_or_else(
                || started.elapsed(),
                |(clock, was)| clock.elapsed().saturating_sub(was),
            ),
            stdout: self.stdout.take(),
            stderr: self.stderr.take(),
            recorder: Arc::clone(&self.recorder),
            driven,
        })
    }

    /// Runs one turn. Its streams keep at most `output` bytes each.
    pub(crate) async fn drive(
        &mut self,
        turn: Turn<'_>,
        budget: &Budget,
        output: u64,
    ) -> Result<Driven, InstanceError> {
        self.stdout.begin(output);
        self.stderr.begin(output);
        self.instance.drive(turn, budget).await
    }

    /// Takes standard error since the start of the last turn.
    pub(crate) fn take_stderr(&self) -> Output {
        self.stderr.take()
    }

    /// Restores the memory to the last saved state. Returns false if that is impossible.
    pub(crate) fn put_back(&mut self, kept: &Kept) -> Result<bool, InstanceError> {
        self.stdin.declare_used();
        self.instance.put_back(kept)
    }

    pub(crate) fn instance(&mut self) -> &mut Instance {
        &mut self.instance
    }

    /// Returns its stop switch.
    pub(crate) fn control(&self) -> &Arc<Control> {
        &self.control
    }
}

/// Awaits `drive`, which any of `switches` can stop.
async fn interruptible<T>(
    drive: impl Future<Output = T>,
    control: &Control,
    switches: [Option<Interrupt>; 2],
) -> T {
    let mut drive = pin!(drive);
    let [one, other] = switches.each_ref().map(|switch| pulled(switch.as_ref()));
    tokio::select! {
        biased;
        driven = &mut drive => return driven,
        () = one => {}
        () = other => {}
    }
    control.ask(StopReason::Interrupted);
    drive.await
}

/// Resolves when the switch is used; never without a switch.
async fn pulled(switch: Option<&Interrupt>) {
    match switch {
        Some(switch) => switch.interrupted().await,
        None => std::future::pending().await,
    }
}

/// The host's observations of one run, and the guest's claims.
pub(crate) struct Observed {
    pub driven: Driven,
    pub transcript: Transcript,
    pub tools: Finished,
    /// Whether the guest was refused memory.
    pub memory_refused: bool,
    pub memory_peak: u64,
    /// Whether the workspace may have changed.
    pub touched: bool,
    pub wall: Duration,
    pub stdout: Output,
    pub stderr: Output,
    /// Whether effects of the run are visible outside: it cannot be restarted then.
    pub seen: bool,
    /// Events of the run, without its end.
    pub recorder: Arc<Recorder>,
}

impl Observed {
    /// Returns the code that the run ended for lack of, if it can be restarted with more code.
    pub(crate) fn lacked(&self) -> Option<Missing> {
        match &self.driven.ended {
            Ended::Missing(missing) if !self.seen => Some(missing.clone()),
            _ => None,
        }
    }
}

/// Returns a seed for the guest's generators: from the system, or from the seed of a deterministic
/// run.
pub(crate) fn entropy(deterministic: Option<&Deterministic>) -> Result<[u8; 32], std::io::Error> {
    let mut bytes = [0; 32];
    match deterministic {
        Some(d) => SeededBytes::new(d.seed).fill(&mut bytes),
        None => getrandom::fill(&mut bytes)?,
    }
    Ok(bytes)
}
