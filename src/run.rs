//! One run, from plan to outcome.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::guest::{RunHost, RunOrder, Transcript};
use crate::hex;
use crate::image::Image;
use crate::instance::{
    Budget, Control, Driven, Factory, Output, OutputWatcher, SeededBytes, Setup, Sink,
    SteppingClock, Stream, Turn,
};
use crate::outcome::{FileEntry, Outcome, PlotEntry, Truncated, Usage, Violation};
use crate::policy::Plan;
use crate::request::Capture;
use crate::verdict::{self, Failure};
use crate::workspace::{self, Snapshot, Workspace, WorkspaceError, Workspaces};

/// Time that interrupted code has to come to its end, figures and values included.
const GRACE: Duration = Duration::from_millis(500);
/// Fuel that code interrupted for its fuel has for the same: about half a second.
const GRACE_FUEL: u64 = 4_000_000_000;
/// Figures larger than this are not given inline, in bytes.
const MOST_INLINE: u64 = 16 << 20;

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

    /// Copies every regular file of the outcome into `dir`, and returns where they are.
    ///
    /// # Errors
    ///
    /// When a file or directory cannot be written.
    pub fn copy_to(&self, dir: &Path) -> Result<Vec<PathBuf>, Error> {
        let mut copied = Vec::new();
        for file in self.outcome.files.iter().filter(|f| f.symlink.is_none()) {
            let Ok(from) = self.workspace.open(&file.path) else {
                continue;
            };
            let to = dir.join(&file.path);
            let failed = |source| WorkspaceError::Io {
                action: "copy a file to",
                path: to.clone(),
                source,
            };
            if let Some(parent) = to.parent() {
                std::fs::create_dir_all(parent).map_err(failed)?;
            }
            std::fs::File::create(&to)
                .and_then(|mut target| io::copy(&mut from.into_std(), &mut target))
                .map_err(failed)?;
            copied.push(to);
        }
        Ok(copied)
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
    let order = RunOrder::new(&plan, entropy(&plan)?, false);
    let seen = execute(&tools, &plan, order, &workspace).await?;
    fill(&mut outcome, &plan, &seen);
    if seen.touched {
        let changes = workspace.changes()?;
        artifacts(&mut outcome, &workspace, &changes, &seen.transcript, &plan.request.capture);
    } else {
        workspace.declare_unused();
    }
    Ok(Run { outcome, workspace })
}

/// Looks at a plan's code under its rules, in a fresh sandbox that never runs it.
pub(crate) async fn check(tools: Tools<'_>, plan: Plan) -> Result<CheckReport, Error> {
    let workspace = tools.workspaces.create(&[])?;
    let order = RunOrder::new(&plan, entropy(&plan)?, false).checking();
    let seen = execute(&tools, &plan, order, &workspace).await?;
    let failure = seen.judge(&plan);
    let violations = match failure {
        Some(failure) if failure.detail.violations.is_empty() => vec![Violation {
            message: failure.error,
            line: failure.detail.line,
        }],
        Some(failure) => failure.detail.violations,
        None => Vec::new(),
    };
    let missing = seen.transcript.value.unwrap_or_default();
    Ok(CheckReport {
        violations,
        missing_imports: serde_json::from_value(missing).unwrap_or_default(),
    })
}

/// Starts a sandbox, gives it `order`, and waits for its end.
async fn execute(
    tools: &Tools<'_>,
    plan: &Plan,
    mut order: RunOrder,
    workspace: &Workspace,
) -> Result<Seen, Error> {
    let control = Control::new();
    let sink =
        |stream| Sink::new(stream, plan.bounds.output, tools.watcher.clone(), control.clone());
    let (stdout, stderr) = (sink(Stream::Stdout), sink(Stream::Stderr));
    let host = RunHost::new(control.clone());
    if tools.package_dir.is_some() {
        order = order.with_packages("/packages");
    }
    host.order(&order).map_err(Error::system("write down what to run"))?;
    let repeatable = plan
        .request
        .deterministic
        .as_ref()
        .map(|d| (SteppingClock::new(d.epoch, d.step_ns), SeededBytes::new(d.seed)));
    let clock = repeatable.as_ref().map(|(clock, _)| clock.clone());
    let setup = Setup {
        workspace,
        mounts: mounts(plan, tools.package_dir.clone()),
        stdin: plan.request.stdin.clone(),
        stdout: stdout.clone(),
        stderr: stderr.clone(),
        control,
        host: Box::new(host.clone()),
        memory: plan.bounds.memory,
        quota: (plan.bounds.workspace, plan.bounds.files),
        repeatable,
    };
    let started = Instant::now();
    let mut instance = tools.factory.start(tools.image, setup).await?;
    let budget = Budget {
        deadline: started + plan.bounds.timeout,
        fuel: plan.bounds.fuel,
        grace: GRACE,
        grace_fuel: GRACE_FUEL,
    };
    let driven = instance.drive(Turn::Run, &budget).await?;
    Ok(Seen {
        transcript: host.transcript(),
        memory_refused: instance.memory_refused(),
        memory_peak: instance.memory_peak(),
        touched: instance.state().quota.touched(),
        wall: clock.map_or_else(|| started.elapsed(), |clock| clock.elapsed()),
        stdout: stdout.take(),
        stderr: stderr.take(),
        driven,
    })
}

/// What the host saw of a run, and what the guest claimed.
struct Seen {
    driven: Driven,
    transcript: Transcript,
    memory_refused: bool,
    memory_peak: u64,
    touched: bool,
    wall: Duration,
    stdout: Output,
    stderr: Output,
}

impl Seen {
    fn judge(&self, plan: &Plan) -> Option<Failure> {
        verdict::judge(&self.driven, &self.transcript, self.memory_refused, &plan.timeout_text)
    }
}

fn mounts(plan: &Plan, package_dir: Option<PathBuf>) -> Vec<(PathBuf, String)> {
    let asked = plan
        .request
        .mounts
        .iter()
        .map(|mount| (mount.host.clone(), mount.guest.trim_matches('/').to_owned()));
    asked.chain(package_dir.map(|dir| (dir, "packages".to_owned()))).collect()
}

/// Seeds for the guest's generators: from the system, or in a repeatable run from the seed.
fn entropy(plan: &Plan) -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    match &plan.request.deterministic {
        Some(d) => SeededBytes::new(d.seed).fill(&mut bytes),
        None => getrandom::fill(&mut bytes).map_err(Error::system("get random numbers"))?,
    }
    Ok(bytes)
}

fn blank(plan: &Plan) -> Outcome {
    Outcome {
        success: true,
        result: serde_json::Value::Null,
        stdout: String::new(),
        stderr: String::new(),
        files: Vec::new(),
        plots: Vec::new(),
        dataframes: Vec::new(),
        error: None,
        error_detail: None,
        code: plan.request.code.clone(),
        truncated: Vec::new(),
        usage: Usage::default(),
    }
}

fn fail(outcome: &mut Outcome, failure: Option<Failure>) {
    outcome.success = failure.is_none();
    (outcome.error, outcome.error_detail) = failure.map(|f| (f.error, f.detail)).unzip();
}

fn fill(outcome: &mut Outcome, plan: &Plan, seen: &Seen) {
    fail(outcome, seen.judge(plan));
    let Seen {
        transcript,
        stdout,
        stderr,
        ..
    } = seen;
    let cut = [
        (stdout.truncated, Truncated::Stdout),
        (stderr.truncated, Truncated::Stderr),
        (transcript.dataframes_cut, Truncated::Dataframes),
        (transcript.value_cut, Truncated::Result),
    ];
    outcome.truncated = cut.into_iter().filter_map(|(cut, what)| cut.then_some(what)).collect();
    outcome.usage = Usage {
        // To the microsecond.
        wall_ms: seen.wall.as_micros() as f64 / 1_000.0,
        fuel: seen.driven.fuel,
        memory_peak_bytes: seen.memory_peak,
        stdout_bytes: stdout.total,
        stderr_bytes: stderr.total,
        workspace_bytes: 0,
    };
    outcome.stdout.clone_from(&stdout.text);
    outcome.stderr.clone_from(&stderr.text);
    for warning in &transcript.warnings {
        outcome.stderr.push_str("belljar: ");
        outcome.stderr.push_str(warning);
        outcome.stderr.push('\n');
    }
    outcome.dataframes.clone_from(&transcript.dataframes);
    outcome.result = transcript.value.clone().unwrap_or_default();
}

/// Lists the files and figures that the run left.
fn artifacts(
    outcome: &mut Outcome,
    workspace: &Workspace,
    changes: &Snapshot,
    transcript: &Transcript,
    capture: &Capture,
) {
    for (path, entry) in changes {
        let hashed = capture.file_hashes && entry.link.is_none();
        outcome.files.push(FileEntry {
            path: path.clone(),
            size: entry.size,
            symlink: entry.link.clone(),
            sha256: hashed.then(|| hash(workspace, path)).flatten(),
            media_type: capture.media_types.then(|| media_type(path)).flatten(),
        });
    }
    outcome.usage.workspace_bytes = changes.values().map(|e| e.size).sum();
    let mut named = HashSet::new();
    for path in &transcript.plots {
        let path = relative(path);
        let Some(entry) = changes.get(path).filter(|e| e.link.is_none()) else {
            continue;
        };
        if named.insert(path) {
            outcome.plots.push(PlotEntry {
                path: path.to_owned(),
                size: entry.size,
                base64_uri: capture.inline_images.then(|| data_uri(workspace, path)).flatten(),
            });
        }
    }
}

/// A guest's path as the outcome names it.
fn relative(path: &str) -> &str {
    let path = path.strip_prefix(crate::instance::WORKSPACE_PATH).unwrap_or(path);
    let path = path.trim_start_matches('/');
    path.strip_prefix("./").unwrap_or(path)
}

fn hash(workspace: &Workspace, path: &str) -> Option<String> {
    let mut hasher = HashWriter(Sha256::new());
    io::copy(&mut workspace.open(path).ok()?, &mut hasher).ok()?;
    Some(hex::encode(&hasher.0.finalize()))
}

struct HashWriter(Sha256);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn media_type(path: &str) -> Option<String> {
    Some(mime_guess::from_path(path).first()?.to_string())
}

fn data_uri(workspace: &Workspace, path: &str) -> Option<String> {
    let bytes = workspace::read(workspace, path, MOST_INLINE + 1).ok()?;
    if bytes.len() as u64 > MOST_INLINE {
        return None;
    }
    let media_type = media_type(path).unwrap_or_else(|| "application/octet-stream".into());
    Some(format!("data:{media_type};base64,{}", BASE64.encode(bytes)))
}
