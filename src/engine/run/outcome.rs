//! Builds the outcome of a run.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::Instant;

use belljar_value::Value;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::api::outcome::event::EventKind;
use crate::api::outcome::{FileEntry, Outcome, PlotEntry, SessionReport, Truncated, Usage};
use crate::api::policy::Plan;
use crate::api::request::Capture;
use crate::engine::run::judge::Failure;
use crate::guest::NamedPlot;
use crate::guest::interpreter::{Observed, Task};
use crate::limits::{MAX_INLINE, MAX_INLINE_TOGETHER};
use crate::sandbox::{List, Recorder, WORKSPACE_PATH};
use crate::workspace::{Changes, Checker, Workspace};

/// All data on a run that has ended.
pub(crate) struct Execution {
    pub observed: Observed,
    /// The failure; `None` for success.
    pub failure: Option<Failure>,
    pub artifacts: Artifacts,
    /// The events, if the outcome should list them.
    pub events: Option<List>,
}

/// Sends the last events of a run to its receivers.
pub(crate) async fn tell(
    recorder: &Recorder,
    warnings: &[String],
    artifacts: &Artifacts,
    failure: Option<&Failure>,
) {
    let Some(audience) = recorder.audience() else {
        return;
    };
    let warned = warnings.iter().map(|warning| EventKind::Stderr {
        text: warning_line(warning),
    });
    let written = artifacts.files.iter().map(|file| EventKind::FileWritten {
        path: file.path.clone(),
        size: file.size,
    });
    for kind in warned.chain(written).chain(ending(failure)) {
        recorder.note(kind);
        if let Some(room) = audience.watcher.as_ref().and_then(|watcher| watcher.room()) {
            room.await;
        }
    }
}

/// Returns the last events of a run.
fn ending(failure: Option<&Failure>) -> impl Iterator<Item = EventKind> {
    let error = failure.map(|failure| EventKind::Error {
        error: failure.error.clone(),
        detail: failure.detail.clone(),
    });
    let success = failure.is_none();
    error.into_iter().chain([EventKind::Ended { success }])
}

fn warning_line(warning: &str) -> String {
    format!("belljar: {warning}\n")
}

impl Outcome {
    /// Builds the outcome of a plan that was executed.
    pub(crate) fn of(plan: Plan, execution: Execution, session: Option<SessionReport>) -> Self {
        let Execution {
            observed,
            failure,
            artifacts,
            events,
        } = execution;
        let Observed {
            transcript,
            tools,
            stdout,
            stderr,
            ..
        } = observed;
        let cut = [
            (stdout.truncated, Truncated::Stdout),
            (stderr.truncated, Truncated::Stderr),
            (transcript.dataframes_cut, Truncated::Dataframes),
            (transcript.value_cut, Truncated::Result),
            (events.as_ref().is_some_and(|list| list.cut), Truncated::Events),
        ];
        let mut stderr_text = stderr.text;
        for warning in &transcript.warnings {
            stderr_text.push_str(&warning_line(warning));
        }
        Self {
            result: transcript.value.unwrap_or_default(),
            typed: plan.request.capture.typed.then(|| transcript.typed.unwrap_or_default()),
            stdout: stdout.text,
            stderr: stderr_text,
            files: artifacts.files,
            plots: artifacts.plots,
            dataframes: transcript.dataframes,
            truncated: cut.into_iter().filter_map(|(cut, what)| cut.then_some(what)).collect(),
            usage: Usage {
                // In milliseconds, to the microsecond.
                wall_ms: observed.wall.as_micros() as f64 / 1_000.0,
                fuel: observed.driven.fuel,
                memory_peak_bytes: observed.memory_peak,
                stdout_bytes: stdout.total,
                stderr_bytes: stderr.total,
                workspace_bytes: artifacts.bytes,
            },
            events: events.map(|list| list.events),
            tool_calls: tools.calls,
            ..Self::ended(plan, failure, session)
        }
    }

    /// Builds the outcome of a plan that was not started, with the reason.
    pub(crate) fn not_begun(plan: Plan, failure: Failure, session: Option<SessionReport>) -> Self {
        let recorder = Recorder::default();
        recorder.begin(Task::audience(&plan), Instant::now(), None);
        ending(Some(&failure)).for_each(|kind| recorder.note(kind));
        let events = recorder.end().map(|list| list.events);
        Self {
            events,
            ..Self::ended(plan, Some(failure), session)
        }
    }

    fn ended(plan: Plan, failure: Option<Failure>, session: Option<SessionReport>) -> Self {
        let success = failure.is_none();
        let (error, error_detail) = failure.map(|f| (f.error, f.detail)).unzip();
        Self {
            success,
            result: serde_json::Value::Null,
            stdout: String::new(),
            stderr: String::new(),
            files: Vec::new(),
            plots: Vec::new(),
            dataframes: Vec::new(),
            error,
            error_detail,
            code: plan.request.code,
            truncated: Vec::new(),
            usage: Usage::default(),
            typed: plan.request.capture.typed.then(Value::default),
            events: None,
            tool_calls: Vec::new(),
            session,
        }
    }
}

/// The files and figures that a run left.
#[derive(Default)]
pub(crate) struct Artifacts {
    files: Vec<FileEntry>,
    plots: Vec<PlotEntry>,
    /// Size of all files, in bytes.
    bytes: u64,
}

impl Artifacts {
    /// Lists new files in `workspace`; `named` are the paths that the guest claims are figures.
    /// Blocks: a guest can leave many and large files.
    pub(crate) fn of(workspace: &Workspace, named: &[NamedPlot], capture: &Capture) -> Self {
        let changes = workspace.changes();
        Self {
            files: files(workspace, &changes, capture),
            plots: plots(workspace, &changes, named, capture),
            bytes: changes.values().map(|e| e.size).sum(),
        }
    }
}

fn files(workspace: &Workspace, changes: &Changes, capture: &Capture) -> Vec<FileEntry> {
    // A guest may give one file a thousand names.
    let mut hashes: HashMap<_, Option<String>> = HashMap::new();
    let mut documents = Checker::new();
    let entries = changes.iter().map(|(path, entry)| {
        let is_hashed = capture.file_hashes && entry.link.is_none();
        let take = || hashes.entry(entry.number).or_insert_with(|| hash(workspace, path)).clone();
        FileEntry {
            path: path.clone(),
            size: entry.size,
            symlink: entry.link.clone(),
            sha256: is_hashed.then(take).flatten(),
            media_type: capture.media_types.then(|| media_type(path)).flatten(),
            // A link leads to a file that the code did not write, or that is listed itself.
            problem: documents.problem(path, entry.number, || workspace.open(path)),
        }
    });
    entries.collect()
}

fn plots(
    workspace: &Workspace,
    changes: &Changes,
    named: &[NamedPlot],
    capture: &Capture,
) -> Vec<PlotEntry> {
    let mut plots = Vec::new();
    let mut observed = HashSet::new();
    let mut room = MAX_INLINE_TOGETHER;
    for NamedPlot { path, repeats } in named {
        let path = relative(path);
        let Some(entry) = changes.get(path).filter(|e| e.link.is_none()) else {
            continue;
        };
        if observed.insert(path) {
            let inline = capture.inline_images && entry.size <= room.min(MAX_INLINE);
            let base64_uri = inline.then(|| data_uri(workspace, path)).flatten();
            room -= base64_uri.as_ref().map_or(0, |_| entry.size);
            plots.push(PlotEntry {
                path: path.to_owned(),
                size: entry.size,
                base64_uri,
                repeats: repeats.clone(),
            });
        }
    }
    plots
}

/// Returns a guest's path in the form used by the outcome.
fn relative(path: &str) -> &str {
    let path = path.strip_prefix(WORKSPACE_PATH).unwrap_or(path);
    let path = path.trim_start_matches('/');
    path.strip_prefix("./").unwrap_or(path)
}

fn hash(workspace: &Workspace, path: &str) -> Option<String> {
    let mut hasher = HashWriter(Sha256::new());
    io::copy(&mut workspace.open(path)?, &mut hasher).ok()?;
    Some(HEXLOWER.encode(&hasher.0.finalize()))
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
    let bytes = workspace.read(path, MAX_INLINE + 1).ok()??;
    if bytes.len() as u64 > MAX_INLINE {
        return None;
    }
    let media_type = media_type(path).unwrap_or_else(|| "application/octet-stream".into());
    Some(format!("data:{media_type};base64,{}", BASE64.encode(bytes)))
}
