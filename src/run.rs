//! One run, from plan to outcome.

pub(crate) mod interpreter;
pub(crate) mod report;
pub(crate) mod verdict;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::api::outcome::{Outcome, Violation};
use crate::api::policy::Plan;
use crate::error::Error;
use crate::guest::RunOrder;
use crate::image::Image;
use crate::instance::{Factory, OutputWatcher};
use crate::run::interpreter::{Interpreter, Observed, Terms, entropy};
use crate::run::report::{Artifacts, blank, fail, fill};
use crate::shared::on_blocking_thread;
use crate::workspace::{self, Copies, Workspace, Workspaces};

/// A finished run: its outcome, and its workspace, which is removed when this is dropped.
#[derive(Debug)]
pub struct Run {
    /// What the run returned.
    pub outcome: Outcome,
    workspace: Workspace,
}

impl Run {
    /// The bytes of a file that the run left, by its path in the outcome. Links are not followed
    /// out of the workspace.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchFile`] when there is no regular file of that name.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        workspace::read(&self.workspace, path, u64::MAX)
            .map_err(|_| Error::NoSuchFile { path: path.into() })
    }

    /// Copies every regular file of the outcome into `dir`, which is made if missing, and returns
    /// where they are. The guest has chosen their names: what has one of them in `dir` is replaced,
    /// a link included, and nothing outside of `dir` is written to.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError::Copies`](crate::WorkspaceError::Copies) when some cannot be copied; the others are.
    pub fn copy_to(&self, dir: &Path) -> Result<Vec<PathBuf>, Error> {
        let regular = self.outcome.files.iter().filter(|file| file.symlink.is_none());
        let names = regular.map(|file| &file.path);
        Ok(Copies::make(dir.to_owned(), names, |copies, name| copies.add(&self.workspace, name))?)
    }

    /// Keeps the workspace's directory, which then belongs to the caller.
    #[must_use]
    pub fn keep(self) -> PathBuf {
        self.workspace.keep()
    }
}

/// What a run needs of its runtime.
pub(crate) struct Tools<'a> {
    pub factory: &'a Factory,
    pub image: &'a Image,
    pub package_dir: Option<PathBuf>,
    pub workspaces: &'a Arc<Workspaces>,
    pub watcher: Option<Arc<dyn OutputWatcher>>,
}

/// What looking at code, without running it, found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// Where the code violates the policy, or the one place where it is not Python.
    pub violations: Vec<Violation>,
    /// Top-level modules that it imports and that are not there, sorted.
    pub missing_imports: Vec<String>,
}

/// Runs `plan` in a fresh sandbox.
pub(crate) async fn run(tools: Tools<'_>, plan: Plan) -> Result<Run, Error> {
    let mut workspace = tools.workspaces.create(&plan.request.files)?;
    let mut outcome = blank(&plan);
    if plan.request.code.trim().is_empty() {
        fail(&mut outcome, Some(verdict::no_code()));
        return Ok(Run { outcome, workspace });
    }
    let order = RunOrder::new(&plan, entropy(plan.request.deterministic.as_ref())?, false);
    let observed = execute(&tools, &plan, order, &workspace).await?;
    fill(&mut outcome, &plan, &observed);
    if observed.touched {
        let (named, capture) = (observed.transcript.plots, plan.request.capture);
        let artifacts;
        (workspace, artifacts) = on_blocking_thread(move || {
            let artifacts = Artifacts::of(&workspace, &named, &capture);
            (workspace, artifacts)
        })
        .await?;
        artifacts?.put_into(&mut outcome);
    } else {
        workspace.declare_unused();
    }
    Ok(Run { outcome, workspace })
}

/// Looks at a plan's code under its rules, in a fresh sandbox that never runs it.
pub(crate) async fn check(tools: Tools<'_>, plan: Plan) -> Result<CheckReport, Error> {
    let workspace = tools.workspaces.create(&[])?;
    let order = RunOrder::new(&plan, entropy(None)?, false).checking();
    let observed = execute(&tools, &plan, order, &workspace).await?;
    let failure = observed.judge(&plan);
    let violations = match failure {
        Some(failure) if failure.detail.violations.is_empty() => vec![Violation {
            message: failure.error,
            line: failure.detail.line,
        }],
        Some(failure) => failure.detail.violations,
        None => Vec::new(),
    };
    let missing = observed.transcript.value.unwrap_or_default();
    Ok(CheckReport {
        violations,
        missing_imports: serde_json::from_value(missing).unwrap_or_default(),
    })
}

/// Starts a sandbox, gives it `order`, and waits for its end.
async fn execute(
    tools: &Tools<'_>,
    plan: &Plan,
    order: RunOrder,
    workspace: &Workspace,
) -> Result<Observed, Error> {
    let started = Instant::now();
    let terms = Terms {
        image: tools.image,
        package_dir: tools.package_dir.clone(),
        mounts: &plan.request.mounts,
        memory: plan.bounds.memory,
        quota: (plan.bounds.workspace, plan.bounds.files),
        deterministic: plan.request.deterministic.as_ref(),
    };
    let mut interpreter = Interpreter::start(tools.factory, terms, workspace, None)?;
    interpreter.run(plan, order, tools.watcher.clone(), started).await
}
