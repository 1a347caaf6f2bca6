//! Sessions: interpreters that keep their state from run to run.

use std::time::Duration;

use belljar::request::{HostPaths, RunRequest};
use belljar::session::HistoryLimits;
use belljar::value::Value;
use belljar::{SessionOptions, Tool};
use napi::Env;
use napi::bindgen_prelude::PromiseRaw;
use napi_derive::napi;
use serde::Deserialize;

use crate::callbacks::{Listener, Switch, attach};
use crate::failure::{argument, failure, internal};
use crate::files::Files;
use crate::promise::promise;
use crate::runtime::{outcome, request};

/// A session.
#[napi]
pub struct Session(pub(crate) belljar::Session);

/// Options of a new session.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    /// The initial request: its code runs first.
    start: RunRequest,
    /// Maximum age in seconds.
    lifetime: Option<f64>,
    /// Maximum idle time in seconds.
    idle: Option<f64>,
    /// Fuel of all runs together.
    fuel: Option<u64>,
    /// Limits on the history.
    history: Option<HistoryLimits>,
}

impl Options {
    pub fn read(asked: &str, tools: Vec<Tool>) -> napi::Result<SessionOptions> {
        let asked: Self = serde_json::from_str(asked)
            .map_err(|e| argument("options", format!("cannot be read: {e}")))?;
        let start = asked.start.into_request(HostPaths::Allowed).map_err(|e| failure(&e.into()))?;
        let mut options = SessionOptions::from_request(start);
        if let Some(seconds) = asked.lifetime {
            options = options.lifetime(duration("lifetime", seconds)?);
        }
        if let Some(seconds) = asked.idle {
            options = options.idle(duration("idle", seconds)?);
        }
        if let Some(fuel) = asked.fuel {
            options = options.total_fuel(fuel);
        }
        if let Some(bounds) = asked.history {
            options = options.history(bounds.runs, bounds.bytes);
        }
        Ok(tools.into_iter().fold(options, SessionOptions::tool))
    }
}

fn duration(name: &str, seconds: f64) -> napi::Result<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| argument(name, format!("is {seconds}, not a number of seconds")))
}

#[napi]
impl Session {
    /// The session's id.
    #[napi(getter)]
    pub fn id(&self) -> String {
        self.0.id().to_owned()
    }

    /// Runs a request after all earlier calls. Returns its outcome.
    #[napi]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "what JavaScript gives is owned, and napi has the attribute twice"
    )]
    pub fn run<'env>(
        &self,
        env: &'env Env,
        asked: String,
        events: Option<Listener>,
        switch: Option<&Switch>,
    ) -> napi::Result<PromiseRaw<'env, String>> {
        let request = attach(request(&asked)?, events, switch, Vec::new());
        let session = self.0.clone();
        promise(env, async move { outcome(&session.run(request).await.map_err(|e| failure(&e))?) })
    }

    /// Interrupts the current run. Returns whether there was one.
    #[napi]
    pub fn interrupt(&self) -> bool {
        self.0.interrupt()
    }

    /// Creates another session with this state and history.
    #[napi]
    pub async fn fork(&self) -> napi::Result<Session> {
        self.0.fork().await.map(Session).map_err(|e| failure(&e))
    }

    /// Goes back to the state after run `execution`.
    #[napi]
    pub async fn rewind(&self, execution: u32) -> napi::Result<()> {
        self.0.rewind(execution.into()).await.map_err(|e| failure(&e))
    }

    /// Writes the session to a file.
    #[napi]
    pub async fn checkpoint(&self, path: String) -> napi::Result<()> {
        self.0.checkpoint(path).await.map_err(|e| failure(&e))
    }

    /// Reads a global variable as tagged JSON.
    #[napi]
    pub async fn get(&self, name: String) -> napi::Result<Option<String>> {
        let Some(value) = self.0.get(&name).await.map_err(|e| failure(&e))? else {
            return Ok(None);
        };
        serde_json::to_string(&value).map(Some).map_err(internal)
    }

    /// Sets a global variable from tagged JSON.
    #[napi]
    pub async fn set(&self, name: String, value: String) -> napi::Result<()> {
        let value: Value = serde_json::from_str(&value)
            .map_err(|e| argument("value", format!("cannot be read: {e}")))?;
        self.0.set(&name, value).await.map_err(|e| failure(&e))
    }

    /// The files of the workspace.
    #[napi(getter)]
    pub fn files(&self) -> Files {
        Files(self.0.workspace())
    }

    /// Closes the session, and stops its run.
    #[napi]
    pub fn close(&self) {
        self.0.close();
    }
}
