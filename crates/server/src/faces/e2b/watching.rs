//! Clients that are told what happens in a directory, for as long as they listen.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use serde_json::json;
use tokio::sync::mpsc;

use super::envelope;
use super::fault::Fault;
use super::process::{first, stream};
use super::processes::Message;
use super::sandbox::Sandbox;
use super::target::Open;
use super::watchers::{Asked, Watcher};
use crate::service::anywhere::Use;

/// Messages that wait for a client.
const MAX_MESSAGES: usize = 16;

/// `POST /filesystem.Filesystem/WatchDir`.
pub(super) async fn watch(sandbox: Result<Open, Fault>, request: Request) -> Response {
    let begun = async {
        let Open(sandbox) = sandbox?;
        let asked: Asked = first(&sandbox.owner, request).await?;
        let place = sandbox.watchers.place()?;
        // What happens from here on is told.
        let changes = sandbox.changed.subscribe();
        let turn = sandbox.turn(Use::Look).await?;
        let watcher = Watcher::of(&turn.files()?, asked, place).await?;
        turn.leave().await?;
        let (messages, waiting) = mpsc::channel(MAX_MESSAGES);
        tokio::spawn(tell(sandbox, watcher, changes, messages));
        Ok(waiting)
    };
    stream(begun.await)
}

/// Tells a client what happens in a directory, for as long as it listens.
async fn tell(
    sandbox: Arc<Sandbox>,
    mut watcher: Watcher,
    mut changes: tokio::sync::watch::Receiver<()>,
    messages: mpsc::Sender<Message>,
) {
    let told = async {
        let _ = messages.send(Ok(envelope::message(&json!({"start": {}})))).await;
        loop {
            tokio::select! {
                () = messages.closed() => return Ok(()),
                () = sandbox.killed.cancelled() => return Ok(()),
                _ = changes.changed() => {}
            }
            let turn = sandbox.turn(Use::Look).await?;
            let events = watcher.look(&turn.files()?).await;
            turn.leave().await?;
            for event in events? {
                let message = envelope::message(&json!({ "filesystem": event }));
                if messages.send(Ok(message)).await.is_err() {
                    return Ok(());
                }
            }
        }
    };
    let told: Result<(), Fault> = told.await;
    let _ = messages.send(Ok(envelope::end(told.err().as_ref()))).await;
}
