//! A command while it runs: in an interpreter of its own, with the sandbox's files as they were when it began.
//!
//! It holds up nothing else. When it has ended, the sandbox gets the files that it changed.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use belljar::Outcome;
use belljar::event::{Event, EventKind, event_channel};
use belljar::outcome::ErrorKind;
use serde_json::{Value, json};

use super::fault::Fault;
use super::merge::Base;
use super::paths::HOME;
use super::processes::{Listed, Process};
use super::sandbox::Sandbox;
use crate::service::anywhere::Use;
use crate::service::held::Held;

/// Runs a command, for at most so long.
pub(super) async fn run(
    sandbox: Arc<Sandbox>,
    listed: Listed,
    request: belljar::Request,
    time: Option<Duration>,
) {
    let process = Arc::clone(&listed.process);
    let (watcher, mut events) = event_channel();
    let request = sandbox.with_env(request).watch(watcher).interrupt(&process.interrupt);
    let mut execution = std::pin::pin!(execute(&sandbox, request, &process));
    let mut over = std::pin::pin!(tokio::time::sleep(time.unwrap_or(Duration::MAX)));
    let ended = loop {
        tokio::select! {
            biased;
            Some(event) = events.next() => {
                if let Some(data) = data(event) {
                    process.tell(&json!({ "data": data })).await;
                }
            }
            ended = &mut execution => break ended,
            () = &mut over, if !process.is_killed() => process.kill(),
            () = sandbox.killed.cancelled(), if !process.is_killed() => process.kill(),
        }
    };
    while let Some(event) = events.next().await {
        if let Some(data) = data(event) {
            process.tell(&json!({ "data": data })).await;
        }
    }
    let fault = match ended {
        Ok(outcome) => {
            process.tell(&json!({"end": end(outcome.as_ref(), &process)})).await;
            None
        }
        Err(fault) => Some(fault),
    };
    // Whoever reads the end of it finds it ended.
    drop(listed);
    process.finish(fault.as_ref()).await;
}

/// Runs it, unless it is killed before it begins.
async fn execute(
    sandbox: &Sandbox,
    request: belljar::Request,
    process: &Process,
) -> Result<Option<Outcome>, Fault> {
    let held = sandbox.fresh(HOME).await?;
    let ran = Box::pin(execute_in(sandbox, request, process, &held)).await;
    sandbox.remove_session(held.id()).await;
    ran
}

async fn execute_in(
    sandbox: &Sandbox,
    request: belljar::Request,
    process: &Process,
    held: &Held,
) -> Result<Option<Outcome>, Fault> {
    let turn = tokio::select! {
        turn = sandbox.turn_waiting(|_| Use::Look) => turn?,
        () = process.killed.cancelled() => return Ok(None),
    };
    let at = sandbox.service().at_hand(&sandbox.owner, held.id(), Use::Run).await?;
    let theirs = at.session().all_files();
    let given = match turn.files() {
        Ok(files) => theirs.replace_with(&files).await.map_err(Fault::from),
        Err(fault) => Err(fault),
    };
    turn.leave().await?;
    given?;
    let base = Base::of(sandbox, &at).await?;
    let ran = async {
        let outcome = sandbox.service().run_at(&sandbox.owner, at, request).await?;
        let at = sandbox.service().at_hand(&sandbox.owner, held.id(), Use::Look).await?;
        let is_changed = !base.is_as_in(sandbox, &at).await?;
        at.leave().await?;
        if is_changed {
            let turn = sandbox.turn_waiting(|_| Use::Change).await?;
            let given = match turn.files() {
                Ok(ours) => base.give(&ours, &theirs).await,
                Err(fault) => Err(fault),
            };
            sandbox.done(turn).await?;
            given?;
        }
        Ok(Some(outcome))
    };
    let ran = Box::pin(ran).await;
    base.remove(sandbox).await;
    ran
}

/// What an event adds to one of the streams.
fn data(event: Event) -> Option<Value> {
    match event.kind {
        EventKind::Stdout { text } => Some(json!({"stdout": STANDARD.encode(text)})),
        EventKind::Stderr { text } => Some(json!({"stderr": STANDARD.encode(text)})),
        EventKind::Display(display) | EventKind::Result(display) => {
            let text = display.data.get("text/plain")?.as_str()?;
            Some(json!({"stdout": STANDARD.encode(format!("{text}\n"))}))
        }
        EventKind::Error { error, detail } if detail.kind != ErrorKind::Exit => {
            let text = detail.traceback.unwrap_or(error);
            Some(json!({"stderr": STANDARD.encode(format!("{}\n", text.trim_end()))}))
        }
        _ => None,
    }
}

/// How a process with that outcome would have ended.
fn end(outcome: Option<&Outcome>, process: &Process) -> Value {
    let detail = outcome.map(|outcome| outcome.error_detail.as_ref());
    let is_interrupted =
        matches!(detail, Some(Some(detail)) if detail.kind == ErrorKind::Interrupted);
    if detail.is_none() || (is_interrupted && process.is_killed()) {
        let status = "signal: killed";
        return json!({"exitCode": -1, "exited": false, "status": status, "error": status});
    }
    let code = match detail.flatten() {
        None => 0,
        Some(detail) => match (detail.kind, detail.exit_status) {
            (ErrorKind::Exit, Some(status)) => status,
            (ErrorKind::Interrupted, _) => 130,
            _ => 1,
        },
    };
    json!({"exitCode": code, "exited": true, "status": format!("exit status {code}")})
}
