//! The engine, and runs in fresh sandboxes.

use std::sync::Arc;

use belljar::lockdown::LockdownOptions;
use belljar::request::{HostPaths, RunRequest};
use belljar::session::{RestoreOptions, RestoreRequest};
use belljar::setup::RuntimeOptions;
use belljar::{Policy, Request};
use napi::Env;
use napi::bindgen_prelude::{Buffer, PromiseRaw};
use napi_derive::napi;
use serde_json::json;

use crate::callbacks::{Answerer, Listener, Steps, Switch, attach, tools};
use crate::failure::{argument, failure, internal};
use crate::promise::promise;
use crate::session::{Options as SessionStart, Session};

/// The engine, shared by runs and sessions.
#[napi]
pub struct Runtime(belljar::Runtime);

/// A finished run.
#[napi]
pub struct Run(Arc<belljar::Run>);

/// Starts the engine.
#[napi]
pub async fn start(options: String, steps: Option<Listener>) -> napi::Result<Runtime> {
    let options: RuntimeOptions = serde_json::from_str(&options)
        .map_err(|e| argument("options", format!("cannot be read: {e}")))?;
    let mut builder = belljar::Runtime::builder().environment().options(options);
    if let Some(listener) = steps {
        builder = builder.progress(Arc::new(Steps(listener)));
    }
    let built = tokio::task::spawn_blocking(|| builder.build()).await.map_err(internal)?;
    Ok(Runtime(built.map_err(|e| failure(&e))?))
}

/// The request in JSON.
pub(crate) fn request(asked: &str) -> napi::Result<Request> {
    let asked: RunRequest = serde_json::from_str(asked)
        .map_err(|e| argument("request", format!("cannot be read: {e}")))?;
    asked.into_request(HostPaths::Allowed).map_err(|e| failure(&e.into()))
}

#[napi]
impl Runtime {
    /// Runs a request in a fresh sandbox.
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
        described: Option<String>,
        answerer: Option<Answerer>,
        switch: Option<&Switch>,
    ) -> napi::Result<PromiseRaw<'env, Run>> {
        let tools = tools(described.as_deref(), answerer)?;
        let request = attach(request(&asked)?, events, switch, tools);
        let engine = self.0.clone();
        promise(env, async move {
            let run = engine.run(request).await.map_err(|e| failure(&e))?;
            Ok(Run(Arc::new(run)))
        })
    }

    /// Starts a session.
    #[napi]
    pub async fn session(
        &self,
        asked: String,
        described: Option<String>,
        answerer: Option<Answerer>,
    ) -> napi::Result<Session> {
        let options = SessionStart::read(&asked, tools(described.as_deref(), answerer)?)?;
        self.0.session(options).await.map(Session).map_err(|e| failure(&e))
    }

    /// Restores a session from a checkpoint; the given tools replace the session's.
    #[napi]
    pub async fn restore(
        &self,
        path: String,
        asked: String,
        described: Option<String>,
        answerer: Option<Answerer>,
    ) -> napi::Result<Session> {
        let asked: RestoreRequest = serde_json::from_str(&asked)
            .map_err(|e| argument("options", format!("cannot be read: {e}")))?;
        let tools = tools(described.as_deref(), answerer)?;
        let options = asked.into_options(RestoreOptions::file(path));
        let options = tools.into_iter().fold(options, RestoreOptions::tool);
        self.0.restore(options).await.map(Session).map_err(|e| failure(&e))
    }

    /// Locks this process down.
    #[napi]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "what JavaScript gives is owned, and napi has the attribute twice"
    )]
    pub fn lockdown(&self, options: String) -> napi::Result<String> {
        let options: LockdownOptions = serde_json::from_str(&options)
            .map_err(|e| argument("options", format!("cannot be read: {e}")))?;
        serde_json::to_string(&self.0.apply_lockdown(&options)).map_err(internal)
    }

    /// Checks code without running it.
    #[napi]
    pub async fn check(&self, code: String, policy: Option<String>) -> napi::Result<String> {
        let policy = match policy {
            Some(policy) => serde_json::from_str(&policy)
                .map_err(|e| argument("policy", format!("cannot be read: {e}")))?,
            None => Policy::default(),
        };
        let found = self.0.check(&code, &policy).await.map_err(|e| failure(&e))?;
        let found = json!({
            "clean": found.is_clean(),
            "violations": found.violations,
            "missing_imports": found.missing_imports,
        });
        Ok(found.to_string())
    }
}

#[napi]
impl Run {
    /// The outcome, as JSON.
    #[napi(getter)]
    pub fn outcome(&self) -> napi::Result<String> {
        outcome(&self.0.outcome)
    }

    /// Reads a file of the run.
    #[napi]
    pub async fn read(&self, path: String) -> napi::Result<Buffer> {
        let run = Arc::clone(&self.0);
        let read = tokio::task::spawn_blocking(move || run.read(&path)).await.map_err(internal)?;
        Ok(read.map_err(|e| failure(&e))?.into())
    }
}

pub(crate) fn outcome(outcome: &belljar::Outcome) -> napi::Result<String> {
    serde_json::to_string(outcome).map_err(internal)
}
