//! `/run_jupyter`: runs cells in sequence, in a session that ends with the request.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use belljar::event::{Display, EventKind};
use belljar::request::{Capture, Dialect, Echo};
use belljar::session::PathKind;
use belljar::{Outcome, Request, SessionOptions};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Command, CommandStatus, MAX_ANSWER, Room, SandboxFusion, Status, failed, input_files,
    sandbox_error, too_many_files, wanted,
};
use crate::faces::process::{self, Ending};
use crate::http::app::App;
use crate::http::authenticated::AuthenticatedJson;
use crate::service::error::ServiceError;
use crate::service::temporary::TemporarySession;

#[derive(Deserialize)]
pub(super) struct JupyterRequest {
    cells: Vec<String>,
    #[serde(default)]
    cell_timeout: f64,
    #[serde(default = "default_total")]
    total_timeout: f64,
    #[serde(default)]
    kernel: Kernel,
    #[serde(default)]
    files: BTreeMap<String, Option<String>>,
    #[serde(default)]
    fetch_files: Vec<String>,
}

fn default_total() -> f64 {
    45.0
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum Kernel {
    #[default]
    #[serde(rename = "python3")]
    Python3,
}

#[derive(Serialize)]
struct JupyterResponse {
    status: Status,
    message: String,
    driver: Option<Command>,
    cells: Vec<Cell>,
    executor_pod_name: Option<String>,
    files: BTreeMap<String, String>,
}

/// The output of a cell.
#[derive(Default, Serialize)]
struct Cell {
    stdout: String,
    stderr: String,
    display: Vec<Map<String, Value>>,
    error: Vec<CellError>,
}

#[derive(Serialize)]
struct CellError {
    ename: String,
    evalue: String,
    traceback: Vec<String>,
}

/// Maximum number of cells of a request.
const MAX_CELLS: usize = 1_000;

pub(super) async fn run_jupyter(
    State(app): State<App>,
    AuthenticatedJson {
        owner, body: asked, ..
    }: AuthenticatedJson<SandboxFusion, JupyterRequest>,
) -> Result<Response, Response> {
    let Kernel::Python3 = asked.kernel;
    if asked.cells.len() > MAX_CELLS {
        return Ok(sandbox_error(&format!("more than {MAX_CELLS} cells")));
    }
    let files = match input_files(asked.files) {
        Ok(files) => files,
        Err(why) => return Ok(sandbox_error(&why)),
    };
    let Some(wanted) = wanted(asked.fetch_files) else {
        return Ok(too_many_files());
    };
    let ceilings = app.service().runtime().ceilings();
    let options = files
        .into_iter()
        .fold(SessionOptions::new(), |options, (path, bytes)| options.file(path, bytes));
    let notebook = Notebook {
        session: TemporarySession::begin(app.service(), &owner, options).await.map_err(failed)?,
        cell_timeout: process::timeout(asked.cell_timeout, &ceilings),
        total: process::timeout(asked.total_timeout, &ceilings).unwrap_or(ceilings.timeout),
    };
    let (cells, driver) = notebook.run(asked.cells).await.map_err(failed)?;
    let files = notebook.fetch(wanted).await;
    let response = JupyterResponse {
        status: driver.meaning(),
        message: String::new(),
        driver: Some(driver),
        cells,
        executor_pod_name: None,
        files,
    };
    Ok(Json(response).into_response())
}

/// A session that runs cells in sequence.
struct Notebook {
    session: TemporarySession,
    cell_timeout: Option<Duration>,
    total: Duration,
}

impl Notebook {
    /// Runs cells until the time limit. An error in a cell does not stop the next.
    async fn run(&self, cells: Vec<String>) -> Result<(Vec<Cell>, Command), ServiceError> {
        let started = Instant::now();
        let mut done = Vec::with_capacity(cells.len());
        let mut bytes = 0;
        let mut driver = Command {
            status: CommandStatus::Finished,
            execution_time: 0.0,
            return_code: Some(0),
            stdout: String::new(),
            stderr: String::new(),
        };
        for code in cells {
            let left = self.total.saturating_sub(started.elapsed());
            let timeout = self.cell_timeout.map_or(left, |timeout| timeout.min(left));
            let is_last = timeout == left;
            if left < Duration::from_millis(1) {
                driver.stop();
                break;
            }
            let request = Request::new(code)
                .echo(Echo::Display)
                .dialect(Dialect::Ipython)
                .capture(Capture::default().dataframes(false).events(true))
                .timeout(timeout);
            let outcome = self.session.run(request).await?;
            let is_over = is_last && Ending::of(&outcome) == Ending::OutOfTime;
            let cell = Cell::of(outcome);
            bytes += cell.bytes();
            done.push(cell);
            if is_over {
                driver.stop();
                break;
            }
            if bytes > MAX_ANSWER {
                driver.return_code = Some(1);
                driver.stderr = "the cells' output exceeds the maximum size of a response\n".into();
                break;
            }
        }
        driver.execution_time = started.elapsed().as_secs_f64();
        Ok((done, driver))
    }

    /// Reads the requested files that exist, until the response is full.
    async fn fetch(&self, wanted: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut room = Room(MAX_ANSWER);
        let mut files = BTreeMap::new();
        let workspace = self.session.session().view().workspace();
        for (name, path) in wanted {
            let Ok(about) = workspace.stat(&path).await else {
                continue;
            };
            if about.kind != PathKind::File {
                continue;
            }
            if !room.take(usize::try_from(about.size).unwrap_or(usize::MAX)) {
                break;
            }
            if let Ok(bytes) = workspace.read(&path, ..about.size).await {
                files.insert(name, process::to_base64(&bytes));
            }
        }
        files
    }
}

impl Command {
    fn stop(&mut self) {
        self.status = CommandStatus::TimeLimitExceeded;
        self.return_code = None;
    }
}

impl Cell {
    fn of(outcome: Outcome) -> Self {
        let mut cell = Self::default();
        let mut ids: Vec<Option<String>> = Vec::new();
        for event in outcome.events.unwrap_or_default() {
            match event.kind {
                EventKind::Stdout { text } => cell.stdout.push_str(&text),
                EventKind::Stderr { text } => cell.stderr.push_str(&text),
                EventKind::Display(Display {
                    data, display_id, ..
                })
                | EventKind::Result(Display {
                    data, display_id, ..
                }) => {
                    cell.display.push(data);
                    ids.push(display_id);
                }
                EventKind::UpdateDisplay(Display {
                    data, display_id, ..
                }) => {
                    let shown = ids.iter().position(|id| *id == display_id && id.is_some());
                    if let Some(place) = shown.and_then(|place| cell.display.get_mut(place)) {
                        *place = data;
                    }
                }
                EventKind::Clear { .. } => {
                    cell = Self::default();
                    ids.clear();
                }
                EventKind::Error { detail, .. } => {
                    let traceback = detail.traceback.unwrap_or_default();
                    cell.error.push(CellError {
                        ename: detail.type_,
                        evalue: detail.message,
                        traceback: traceback.lines().map(str::to_owned).collect(),
                    });
                }
                _ => {}
            }
        }
        cell
    }

    /// Approximate size in a response.
    fn bytes(&self) -> usize {
        let shown = |data: &Map<String, Value>| {
            let length = |value: &Value| value.as_str().map_or(value.to_string().len(), str::len);
            data.values().map(length).sum::<usize>()
        };
        self.stdout.len() + self.stderr.len() + self.display.iter().map(shown).sum::<usize>()
    }
}
