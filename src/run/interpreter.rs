//! An interpreter that is alive, with everything around it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::api::policy::Plan;
use crate::api::request::{Deterministic, Mount};
use crate::error::Error;
use crate::guest::{RunHost, RunOrder, Transcript};
use crate::image::Image;
use crate::instance::{
    Budget, Control, Driven, Factory, Input, Instance, Kept, Output, OutputWatcher, SeededBytes,
    Setup, Sink, SteppingClock, Stream, Turn,
};
use crate::run::verdict::{self, Failure};
use crate::workspace::Workspace;

/// Time that interrupted code has to come to its end, figures and values included.
const GRACE: Duration = Duration::from_millis(500);
/// Fuel that code interrupted for its fuel has for the same: about half a second.
const GRACE_FUEL: u64 = 4_000_000_000;

/// What holds for an interpreter's whole life.
pub(crate) struct Terms<'a> {
    pub image: &'a Image,
    /// The directory with the image's packages.
    pub package_dir: Option<PathBuf>,
    pub mounts: &'a [Mount],
    /// Bytes of memory above the image.
    pub memory: u64,
    /// Bytes and files in the workspace.
    pub quota: (u64, u64),
    pub deterministic: Option<&'a Deterministic>,
}

/// A live interpreter.
pub(crate) struct Interpreter {
    instance: Instance,
    host: RunHost,
    control: Arc<Control>,
    stdin: Arc<Input>,
    stdout: Arc<Sink>,
    stderr: Arc<Sink>,
    clock: Option<SteppingClock>,
    has_packages: bool,
}

impl Interpreter {
    /// Starts one that writes to `workspace`; one that is to be kept between runs has yet to resume
    /// from `kept`.
    pub(crate) fn start(
        factory: &Factory,
        terms: Terms<'_>,
        workspace: &Workspace,
        kept: Option<&Kept>,
    ) -> Result<Self, Error> {
        let control = Control::new();
        let sink = |stream| Sink::new(stream, control.clone());
        let (stdout, stderr) = (sink(Stream::Stdout), sink(Stream::Stderr));
        let host = RunHost::new(control.clone());
        let stdin = Input::new();
        let repeatable = terms.deterministic.map(|d| {
            let clock = SteppingClock::new(d.epoch, d.step_ns);
            clock.advance(kept.map_or(Duration::ZERO, |kept| kept.lived));
            (clock, SeededBytes::from_block(d.seed, kept.map_or(0, |kept| kept.random_blocks)))
        });
        let clock = repeatable.as_ref().map(|(clock, _)| clock.clone());
        let has_packages = terms.package_dir.is_some();
        let asked = terms
            .mounts
            .iter()
            .map(|mount| (mount.host.clone(), mount.guest.trim_matches('/').to_owned()));
        let setup = Setup {
            workspace,
            mounts: asked
                .chain(terms.package_dir.map(|dir| (dir, "packages".to_owned())))
                .collect(),
            stdin: stdin.clone(),
            stdout: stdout.clone(),
            stderr: stderr.clone(),
            control: control.clone(),
            host: Box::new(host.clone()),
            memory: terms.memory,
            quota: terms.quota,
            repeatable,
            lived: kept.map(|kept| kept.lived),
        };
        let instance = factory.start(terms.image, setup)?;
        Ok(Self {
            instance,
            host,
            control,
            stdin,
            stdout,
            stderr,
            clock,
            has_packages,
        })
    }

    /// Gives it `order`, and waits for its end. The plan's time counts from `started`.
    pub(crate) async fn run(
        &mut self,
        plan: &Plan,
        mut order: RunOrder,
        watcher: Option<Arc<dyn OutputWatcher>>,
        started: Instant,
    ) -> Result<Observed, Error> {
        if self.has_packages {
            order = order.with_packages("/packages");
        }
        self.host.order(&order).map_err(Error::system("write down what to run"))?;
        self.stdin.replace(plan.request.stdin.clone());
        self.stdout.begin(plan.bounds.output, watcher.clone());
        self.stderr.begin(plan.bounds.output, watcher);
        let clock_before = self.clock.as_ref().map(SteppingClock::elapsed);
        tracing::debug!(code_bytes = plan.request.code.len(), bounds = ?plan.bounds, "a run begins");
        let budget = Budget {
            deadline: started + plan.bounds.timeout,
            fuel: plan.bounds.fuel,
            grace: GRACE,
            grace_fuel: GRACE_FUEL,
        };
        let driven = self.instance.drive(Turn::Run, &budget).await?;
        tracing::debug!(ended = ?driven.ended, fuel = driven.fuel, elapsed = ?started.elapsed(), "a run ended");
        let clock = self.clock.as_ref().zip(clock_before);
        Ok(Observed {
            transcript: self.host.transcript(),
            memory_refused: self.instance.memory_refused(),
            memory_peak: self.instance.memory_peak(),
            touched: self.instance.state().quota.touched(),
            wall: clock.map_or_else(
                || started.elapsed(),
                |(clock, was)| clock.elapsed().saturating_sub(was),
            ),
            stdout: self.stdout.take(),
            stderr: self.stderr.take(),
            driven,
        })
    }

    pub(crate) fn instance(&mut self) -> &mut Instance {
        &mut self.instance
    }

    /// By what it is told to stop.
    pub(crate) fn control(&self) -> &Arc<Control> {
        &self.control
    }
}

/// What the host saw of a run, and what the guest claimed.
pub(crate) struct Observed {
    pub driven: Driven,
    pub transcript: Transcript,
    memory_refused: bool,
    pub memory_peak: u64,
    pub touched: bool,
    pub wall: Duration,
    pub stdout: Output,
    pub stderr: Output,
}

impl Observed {
    pub(crate) fn judge(&self, plan: &Plan) -> Option<Failure> {
        verdict::judge(&self.driven, &self.transcript, self.memory_refused, &plan.timeout_text)
    }
}

/// Seeds for the guest's generators: from the system, or in a repeatable run from the seed.
pub(crate) fn entropy(deterministic: Option<&Deterministic>) -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    match deterministic {
        Some(d) => SeededBytes::new(d.seed).fill(&mut bytes),
        None => getrandom::fill(&mut bytes).map_err(Error::system("get random numbers"))?,
    }
    Ok(bytes)
}
