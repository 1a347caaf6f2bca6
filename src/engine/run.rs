//! One run, from plan to outcome.

pub(crate) mod judge;
pub(crate) mod outcome;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use belljar_files::{Errno, Files};

use self::judge::Failure;
use self::outcome::{Artifacts, Execution};
use crate::api::outcome::{Outcome, Violation};
use crate::api::policy::Plan;
use crate::artifact::image::Image;
use crate::engine::{Engine, on_blocking_thread};
use crate::error::Error;
use crate::guest::interpreter::{Interpreter, Observed, Task, entropy};
use crate::guest::{RunOrder, fatal};
use crate::sandbox::{Ended, Options, limits};
use crate::workspace::{Copies, RunFile, Workspace, now, place};

/// A finished run: its outcome and its files, which are deleted on drop.
#[derive(Debug)]
pub struct Run {
    /// The outcome.
    pub outcome: Outcome,
    workspace: Workspace,
    /// Parent of the directory for [`keep`](Self::keep).
    temp_dir: Arc<Path>,
}

/// The files that a run left, which are deleted on drop.
#[derive(Debug)]
pub struct RunFiles(Workspace);

impl RunFiles {
    /// Opens a file by its path in the outcome. Links are not followed.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchFile`] if no regular file has this path.
    pub fn open(&self, path: &str) -> Result<RunFile, Error> {
        open(&self.0, path)
    }
}

fn open(workspace: &Workspace, path: &str) -> Result<RunFile, Error> {
    workspace.open(path).ok_or_else(|| Error::NoSuchFile { path: path.into() })
}

impl Run {
    /// Reads a file that the run left, by its path in the outcome. Links are not followed.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchFile`] if no regular file has this path.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        found(self.workspace.read(path, u64::MAX), path)
    }

    /// Opens a file that the run left, for reading in pieces. Links are not followed.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn open(&self, path: &str) -> Result<RunFile, Error> {
        open(&self.workspace, path)
    }

    /// Splits into outcome and files, so that the files can be kept without the outcome.
    #[must_use]
    pub fn into_parts(self) -> (Outcome, RunFiles) {
        (self.outcome, RunFiles(self.workspace))
    }

    /// Copies all regular files of the outcome into `dir`, which is created if missing, and returns
    /// their paths. The guest has chosen the names: existing entries in `dir` with these names are
    /// replaced, including links, and nothing outside `dir` is written.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError::Copies`](crate::error::WorkspaceError::Copies) if some files cannot be
    /// copied; all other files are copied.
    pub fn copy_to(&self, dir: &Path) -> Result<Vec<PathBuf>, Error> {
        let regular = self.outcome.files.iter().filter(|file| file.symlink.is_none());
        let names = regular.map(|file| &file.path);
        Ok(Copies::make(dir.to_owned(), self.workspace.files(), names)?)
    }

    /// Writes the workspace to a new directory, which belongs to the caller. Links with an absolute
    /// target are omitted, because they would lead elsewhere on the host.
    ///
    /// # Errors
    ///
    /// If the directory cannot be created, or the host's file system does not support a file name.
    pub fn keep(self) -> Result<PathBuf, Error> {
        Ok(self.workspace.keep(&self.temp_dir)?)
    }
}

/// Returns the bytes of a file that a run left, or an error if no regular file has this path.
pub(crate) fn found(read: io::Result<Option<Vec<u8>>>, path: &str) -> Result<Vec<u8>, Error> {
    let read = read.map_err(Error::system("read a file that a run left"))?;
    read.ok_or_else(|| Error::NoSuchFile { path: path.into() })
}

/// Result of checking code without running it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Violations of the policy, or the one syntax error.
    pub violations: Vec<Violation>,
    /// Imported top-level modules that do not exist, sorted.
    pub missing_imports: Vec<String>,
}

impl CheckReport {
    /// Whether there are no findings.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.missing_imports.is_empty()
    }
}

/// Runs `plan` in a fresh sandbox.
#[boxed]
pub(crate) async fn run(engine: &Arc<Engine>, image: &Image, plan: Plan) -> Result<Run, Error> {
    if plan.request.code.trim().is_empty() {
        let files = plan_files(engine, image, &plan)?;
        return Ok(unbegun(engine, plan, files, judge::no_code()));
    }
    let deterministic = plan.request.deterministic.as_ref();
    let order = RunOrder::new(&plan, entropy(deterministic).map_err(random)?, false);
    let mut begun = false;
    let (observed, workspace) = loop {
        let (observed, workspace) = attempt(engine, image, &plan, order.clone(), begun).await?;
        match observed.lacked() {
            Some(lacked) if engine.grow(&lacked).await => begun = true,
            _ => break (observed, workspace),
        }
    };
    let (workspace, execution) = finish(&plan, observed, workspace).await?;
    Ok(Run {
        outcome: Outcome::of(plan, execution, None),
        workspace,
        temp_dir: Arc::clone(&engine.temp_dir),
    })
}

/// Runs a plan, which may have been started before on a smaller tier of code.
async fn attempt(
    engine: &Engine,
    image: &Image,
    plan: &Plan,
    order: RunOrder,
    begun: bool,
) -> Result<(Observed, Workspace), Error> {
    let mut start = engine.starts.begin().await;
    let files = plan_files(engine, image, plan)?;
    let mut interpreter = fresh(engine, image, plan, &files)?;
    let control = Arc::clone(interpreter.control());
    let mut task = Task::of(plan, order, Instant::now());
    task.audience.knows = begun;
    let observed = start.watch(|| control.is_waiting(), interpreter.run(task)).await?;
    let workspace = Workspace::between(files, interpreter.instance().files().clone());
    drop(interpreter);
    // The memory is now ready, or waits to be cleaned, for the next run.
    drop(start);
    Ok((observed, workspace))
}

/// Returns the result of a plan that was interrupted before its turn.
pub(crate) fn interrupted(engine: &Engine, plan: Plan) -> Result<Run, Error> {
    let files = engine.roots.files(&[], None).map_err(no_files)?;
    Ok(unbegun(engine, plan, files, judge::interrupted()))
}

fn unbegun(engine: &Engine, plan: Plan, files: Files, hindrance: Failure) -> Run {
    Run {
        outcome: Outcome::not_begun(plan, hindrance, None),
        workspace: Workspace::untouched(files),
        temp_dir: Arc::clone(&engine.temp_dir),
    }
}

/// Creates the initial files of a plan's run. Given files do not count towards its limits.
fn plan_files(engine: &Engine, image: &Image, plan: &Plan) -> Result<Files, Error> {
    let mut files = fresh_files(engine, image, plan)?;
    files.set_limits(limits(u64::MAX, u64::MAX));
    let now = now(plan.request.deterministic.as_ref(), Duration::ZERO);
    place(&mut files, &plan.request.files, now)?;
    let (used, bounds) = (files.usage(), &plan.bounds);
    let bytes = bounds.workspace.saturating_add(used.bytes);
    files.set_limits(limits(bytes, bounds.files.saturating_add(used.files)));
    Ok(files)
}

fn fresh_files(engine: &Engine, image: &Image, plan: &Plan) -> Result<Files, Error> {
    let mounts = &plan.request.mounts;
    engine.roots.files(mounts, image.packages.as_ref()).map_err(no_files)
}

/// Returns the error for a file system that cannot be created.
pub(crate) fn no_files(errno: Errno) -> Error {
    Error::system("lay out the files of a sandbox")(io::Error::from(errno))
}

/// Checks a plan's code in a fresh sandbox, without running it.
#[boxed]
pub(crate) async fn check(
    engine: &Engine,
    image: &Image,
    plan: Plan,
) -> Result<CheckReport, Error> {
    let files = fresh_files(engine, image, &plan)?;
    let order = RunOrder::new(&plan, entropy(None).map_err(random)?, false).checking();
    let mut interpreter = fresh(engine, image, &plan, &files)?;
    let observed = interpreter.run(Task::of(&plan, order, Instant::now())).await?;
    let (_, execution) = finish(&plan, observed, Workspace::untouched(files)).await?;
    let violations = match execution.failure {
        Some(failure) if failure.detail.violations.is_empty() => vec![Violation {
            message: failure.error,
            line: failure.detail.line,
        }],
        Some(failure) => failure.detail.violations,
        None => Vec::new(),
    };
    let missing = execution.observed.transcript.value.unwrap_or_default();
    Ok(CheckReport {
        violations,
        missing_imports: serde_json::from_value(missing).unwrap_or_default(),
    })
}

/// Creates an interpreter for one run.
fn fresh(engine: &Engine, image: &Image, plan: &Plan, files: &Files) -> Result<Interpreter, Error> {
    let options = Options {
        image,
        links: false,
        files,
        mounts: &plan.request.mounts,
        aliases: &plan.request.aliases,
        memory: plan.bounds.memory,
        deterministic: plan.request.deterministic.as_ref(),
        kept: None,
    };
    Ok(Interpreter::start(&engine.factory, &options)?)
}

/// Judges a run by its observations, and collects the files in its workspace.
pub(crate) async fn finish(
    plan: &Plan,
    mut observed: Observed,
    mut workspace: Workspace,
) -> Result<(Workspace, Execution), Error> {
    let fatal = match observed.driven.ended {
        Ended::Trapped(_) => fatal::find(&mut observed.stderr.text),
        _ => None,
    };
    let failure = match &observed.tools.difference {
        Some(difference) => Some(judge::differs(difference)),
        None => judge::judge(
            &observed.driven,
            &observed.transcript,
            fatal,
            observed.memory_refused,
            &plan.timeout_text,
        ),
    };
    let mut artifacts = Artifacts::default();
    if observed.touched {
        let named = observed.transcript.plots.clone();
        let capture = plan.request.capture.clone();
        (workspace, artifacts) = on_blocking_thread(move || {
            let artifacts = Artifacts::of(&workspace, &named, &capture);
            (workspace, artifacts)
        })
        .await?;
    }
    let warnings = &observed.transcript.warnings;
    outcome::tell(&observed.recorder, warnings, &artifacts, failure.as_ref()).await;
    let events = observed.recorder.end();
    let execution = Execution {
        observed,
        failure,
        artifacts,
        events,
    };
    Ok((workspace, execution))
}

/// Returns the number of this process's next run, for traces.
pub(crate) fn next_run() -> u64 {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    RUNS.fetch_add(1, Ordering::Relaxed)
}

/// Returns the error of a system without random numbers.
pub(crate) fn random(source: io::Error) -> Error {
    Error::system("get random numbers")(source)
}
