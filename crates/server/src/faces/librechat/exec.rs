//! `/exec`: runs a program with earlier files in a fresh interpreter, and stores its output files.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use belljar::outcome::FileEntry;
use belljar::request::Capture;
use belljar::{Outcome, Request};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::store::{Contents, FileRef, Place, Store, Stored, Written, new_id};
use super::{DATA, LibreChat, Shared, broken, failed};
use crate::faces::process;
use crate::http::app::App;
use crate::http::authenticated::AuthenticatedJson;
use crate::service::owner::Owner;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/exec", post(exec))
}

#[derive(Deserialize)]
struct Asked {
    #[serde(alias = "language")]
    lang: String,
    code: String,
    #[serde(default)]
    args: Option<Args>,
    #[serde(default)]
    files: Option<Vec<FileRef>>,
    #[serde(default)]
    runtime_session_hint: Option<String>,
    /// Milliseconds.
    #[serde(default)]
    timeout: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Args {
    One(String),
    Several(Vec<String>),
}

/// The outcome of a program, and its files.
#[derive(Serialize)]
pub(super) struct Answer {
    pub session_id: String,
    pub stdout: String,
    pub stderr: String,
    pub files: Vec<File>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deleted_files: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_delivery: Option<Delivery>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_status: Option<&'static str>,
}

/// A file that later requests can use.
#[derive(Clone, Serialize)]
pub(super) struct File {
    pub id: String,
    pub name: String,
    pub storage_session_id: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inherited: bool,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Files that could not be stored.
#[derive(Serialize)]
pub(super) struct Delivery {
    code: &'static str,
    status: &'static str,
    attempted: usize,
    delivered: usize,
    failed: usize,
}

async fn exec(
    State(app): State<App>,
    Extension(kept): Extension<Arc<Shared>>,
    AuthenticatedJson {
        owner, body: asked, ..
    }: AuthenticatedJson<LibreChat, Asked>,
) -> Result<Response, Response> {
    let session = new_id().map_err(broken)?;
    if !matches!(asked.lang.as_str(), "py" | "python") {
        return Ok(Json(Answer::only(session, not_python(&asked.lang))).into_response());
    }
    let store = kept.store(&app);
    let hint = asked.runtime_session_hint.filter(|hint| !hint.is_empty()).unwrap_or_default();
    let directory = (!hint.is_empty()).then(|| store.directory(&owner, &hint));
    let directory = directory.transpose().map_err(broken)?;
    let mut contents = match &directory {
        Some(directory) => Some(directory.contents.lock().await),
        None => None,
    };
    let inputs =
        Inputs::of(&store, &owner, asked.files.unwrap_or_default(), contents.as_deref_mut());
    let capture = capture(&asked.code);
    let mut request = inputs.place(Request::new(asked.code)).alias(DATA).cwd(DATA).capture(capture);
    request.args = match asked.args {
        None => Vec::new(),
        Some(Args::One(arg)) => vec![arg],
        Some(Args::Several(args)) => args,
    };
    let ceilings = app.service().runtime().ceilings();
    request.limits.timeout = asked.timeout.and_then(|ms| process::timeout(ms / 1e3, &ceilings));
    let run = app.service().run(&owner, request).await.map_err(failed)?;
    let mut answer = Answer::only(session, process::explained(&run.outcome));
    answer.stdout.clone_from(&run.outcome.stdout);
    inputs.note_missing(&mut answer.stderr);
    if let (Some(directory), Some(contents)) = (&directory, &contents) {
        answer.runtime_session_id = Some(directory.id.clone());
        answer.runtime_status = Some(if contents.was_used { "reused" } else { "new" });
    }
    let collecting = tokio::task::spawn_blocking({
        let (store, owner) = (store.clone(), owner.clone());
        move || {
            let most = store.most(&owner);
            let left = left(&run.outcome).filter(|file| file.size <= most);
            let written = left.filter_map(|file| {
                let written = copy(&store, run.open(&file.path).ok()?);
                Some((file.path.clone(), written?))
            });
            let written = written.collect();
            let is_there = |path: &str| run.open(path).is_ok();
            collect(&mut answer, &store, &owner, &inputs, &run.outcome, is_there, written);
            answer
        }
    });
    let answer = collecting.await.map_err(broken)?;
    if let Some(contents) = &mut contents {
        contents.was_used = true;
        let place = |file: &File| Place {
            session: file.storage_session_id.clone(),
            id: file.id.clone(),
        };
        contents.files = answer.files.iter().map(|file| (file.name.clone(), place(file))).collect();
        // Clients send these files with later requests.
        contents.seen.extend(answer.files.iter().map(place));
        if let Some(directory) = &directory {
            store.changed(&owner, &hint, directory, contents);
        }
    }
    Ok(Json(answer).into_response())
}

/// What to capture: figures, unless the code saves them as models are told to do here. Otherwise, a
/// figure that is saved and still open would be returned twice.
pub(super) fn capture(code: &str) -> Capture {
    Capture::default().dataframes(false).figures(!code.contains("savefig("))
}

/// Message for a model that used another language.
fn not_python(lang: &str) -> String {
    format!(
        "Only Python is supported: send a Python program with \"lang\": \"py\" instead of {lang:?}. \
         There is no shell either, and no other program can be started.\n"
    )
}

impl Answer {
    /// A response with only a message.
    pub(super) fn only(session_id: String, stderr: String) -> Self {
        Self {
            session_id,
            stdout: String::new(),
            stderr,
            files: Vec::new(),
            deleted_files: Vec::new(),
            artifact_delivery: None,
            runtime_session_id: None,
            runtime_status: None,
        }
    }
}

/// Input files of a program, by path below `/mnt/data`.
pub(super) struct Inputs {
    files: BTreeMap<String, (Arc<Stored>, Option<FileRef>)>,
    /// Names of files that have expired or have invalid paths.
    missing: Vec<String>,
}

impl Inputs {
    /// The request's files, over those of the directory if there is a directory. A file that the
    /// client has already sent before does not replace the directory's version.
    pub(super) fn of(
        store: &Store,
        owner: &Owner,
        asked: Vec<FileRef>,
        mut directory: Option<&mut Contents>,
    ) -> Self {
        let mut inputs = Self {
            files: BTreeMap::new(),
            missing: Vec::new(),
        };
        for (name, place) in directory.iter().flat_map(|directory| &directory.files) {
            match store.find(owner, place) {
                Some(stored) => {
                    inputs.files.insert(name.clone(), (stored, None));
                }
                None => inputs.missing.push(name.clone()),
            }
        }
        for file in asked {
            let place = file.place();
            let stored = store.find(owner, &place);
            if let Some(Contents { seen, .. }) = directory.as_deref_mut()
                && stored.is_some()
                && !seen.insert(place)
            {
                continue;
            }
            let name = stored.as_ref().filter(|_| file.name.is_empty()).map(|s| s.name.clone());
            let name = name.unwrap_or_else(|| file.name.clone());
            match (stored, process::workspace_path(&name, &[DATA])) {
                (Some(stored), Some(path)) => {
                    inputs.files.insert(path, (stored, Some(file)));
                }
                _ => inputs.missing.push(name),
            }
        }
        inputs
    }

    /// Adds the files to a request.
    pub(super) fn place(&self, request: Request) -> Request {
        let files = self.files.iter();
        files.fold(request, |request, (path, (stored, _))| request.host_file(path, stored.path()))
    }

    /// Reports missing files.
    pub(super) fn note_missing(&self, stderr: &mut String) {
        use std::fmt::Write;
        for name in &self.missing {
            let _ = writeln!(stderr, "{name:?} has expired and was not available: upload it again");
        }
    }
}

/// Regular files that a program wrote.
pub(super) fn left(outcome: &Outcome) -> impl Iterator<Item = &FileEntry> {
    outcome.files.iter().filter(|file| file.symlink.is_none())
}

/// Stores the files that a program wrote, and reports problems in the response. After a failure,
/// nothing is stored. `written` are copies of the files.
pub(super) fn collect(
    answer: &mut Answer,
    store: &Store,
    owner: &Owner,
    inputs: &Inputs,
    outcome: &Outcome,
    is_there: impl Fn(&str) -> bool,
    mut written: HashMap<String, Written>,
) {
    let is_changed = |path: &str| outcome.files.iter().any(|file| file.path == path);
    for (path, (stored, asked)) in &inputs.files {
        if outcome.success && !stored.is_read_only && !is_changed(path) && !is_there(path) {
            answer.deleted_files.push(path.clone());
        } else if !outcome.success || stored.is_read_only || !is_changed(path) {
            answer.files.push(File {
                id: stored.place.id.clone(),
                name: path.clone(),
                storage_session_id: stored.place.session.clone(),
                inherited: true,
                rest: asked.as_ref().map(|asked| asked.rest.clone()).unwrap_or_default(),
            });
        }
    }
    if !outcome.success {
        return;
    }
    let is_sealed =
        |path: &str| inputs.files.get(path).is_some_and(|(stored, _)| stored.is_read_only);
    let (mut attempted, mut delivered) = (0, 0);
    for file in left(outcome).filter(|file| !is_sealed(&file.path)) {
        attempted += 1;
        let place = match new_id() {
            Ok(id) => Place {
                session: answer.session_id.clone(),
                id,
            },
            Err(_) => continue,
        };
        let kept = written.remove(&file.path).and_then(|written| {
            store.keep(owner, place.clone(), file.path.clone(), written, false)
        });
        if kept.is_some() {
            delivered += 1;
            answer.files.push(File {
                id: place.id,
                name: file.path.clone(),
                storage_session_id: place.session,
                inherited: false,
                rest: Map::new(),
            });
        }
    }
    if delivered < attempted {
        answer.artifact_delivery = Some(Delivery {
            code: "artifact_delivery_failed",
            status: if delivered == 0 { "failed" } else { "partial" },
            attempted,
            delivered,
            failed: attempted - delivered,
        });
    }
}

/// Copies a file that a program wrote. Blocks.
fn copy(store: &Store, mut from: belljar::outcome::RunFile) -> Option<Written> {
    let mut written = store.room().ok()?;
    let copied = std::fs::File::create_new(written.path())
        .and_then(|mut to| std::io::copy(&mut from, &mut to));
    match copied {
        Ok(size) => written.size = size,
        Err(error) => {
            tracing::warn!(%error, "cannot store a file that a program wrote");
            return None;
        }
    }
    Some(written)
}
