//! Commands that are running in a sandbox on this server, by process id.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use belljar::Interrupt;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::envelope;
use super::fault::Fault;
use crate::lock::lock;

/// Maximum number of concurrent commands in a sandbox.
const MAX_PROCESSES: usize = 16;
/// Maximum number of clients that follow one command.
const MAX_FOLLOWERS: usize = 16;
/// Maximum number of messages queued for a client. A command waits for slow clients.
const MAX_MESSAGES: usize = 64;

/// The process that a client requested.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Config {
    #[serde(default)]
    pub cmd: String,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub envs: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Selects a command by its id or tag.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Selector {
    #[serde(default)]
    pid: Option<u64>,
    #[serde(default)]
    tag: Option<String>,
}

pub(super) type Message = Result<Bytes, Infallible>;

/// A running command.
pub(super) struct Process {
    pid: u64,
    config: Config,
    tag: Option<String>,
    pub interrupt: Interrupt,
    /// Cancelled to kill the command.
    pub killed: CancellationToken,
    followers: Mutex<Vec<mpsc::Sender<Message>>>,
}

/// The running commands of a sandbox.
#[derive(Default)]
pub(super) struct Processes(Mutex<BTreeMap<u64, Arc<Process>>>);

/// Keeps a command in the list until dropped.
pub(super) struct Listed {
    all: Arc<Processes>,
    pub process: Arc<Process>,
}

impl Processes {
    pub(super) fn add(
        self: &Arc<Self>,
        pid: u64,
        config: Config,
        tag: Option<String>,
    ) -> Result<Listed, Fault> {
        let mut all = lock(&self.0);
        if all.len() >= MAX_PROCESSES {
            let message = format!(
                "at most {MAX_PROCESSES} commands can run in a sandbox at once: wait for one or kill it"
            );
            return Err(Fault::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        let process = Arc::new(Process {
            pid,
            config,
            tag,
            interrupt: Interrupt::new(),
            killed: CancellationToken::new(),
            followers: Mutex::default(),
        });
        all.insert(pid, Arc::clone(&process));
        Ok(Listed {
            all: Arc::clone(self),
            process,
        })
    }

    pub(super) fn find(&self, by: &Selector) -> Result<Arc<Process>, Fault> {
        let all = lock(&self.0);
        let found = match (by.pid, &by.tag) {
            (Some(pid), _) => all.get(&pid),
            (None, Some(_)) => all.values().find(|process| process.tag == by.tag),
            (None, None) => None,
        };
        let missing = || match (by.pid, &by.tag) {
            (Some(pid), _) => format!("process with pid {pid} not found"),
            (None, tag) => format!("process with tag {} not found", tag.as_deref().unwrap_or("")),
        };
        found.cloned().ok_or_else(|| Fault::not_found(missing()))
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// Lists all commands in E2B's format.
    pub(super) fn list(&self) -> Value {
        let shown = lock(&self.0).values().map(|process| process.shown()).collect();
        json!({"processes": Value::Array(shown)})
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        lock(&self.all.0).remove(&self.process.pid);
    }
}

impl Process {
    fn shown(&self) -> Value {
        let mut shown = json!({"pid": self.pid, "config": self.config});
        if let Some(tag) = &self.tag {
            shown["tag"] = tag.as_str().into();
        }
        shown
    }

    /// Kills the command.
    pub(super) fn kill(&self) {
        self.killed.cancel();
        self.interrupt.interrupt();
    }

    pub(super) fn is_killed(&self) -> bool {
        self.killed.is_cancelled()
    }

    /// Subscribes to the command's messages. The first is a start event.
    pub(super) fn follow(&self) -> Result<mpsc::Receiver<Message>, Fault> {
        let (sender, messages) = mpsc::channel(MAX_MESSAGES);
        let mut followers = lock(&self.followers);
        followers.retain(|follower| !follower.is_closed());
        if followers.len() >= MAX_FOLLOWERS {
            let message = format!("at most {MAX_FOLLOWERS} clients can follow one command");
            return Err(Fault::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        let start = event(&json!({"start": {"pid": self.pid}}));
        // The channel is empty, so the message fits.
        let _ = sender.try_send(Ok(start));
        followers.push(sender);
        Ok(messages)
    }

    /// Sends an event to all followers, waiting for each to have room.
    pub(super) async fn tell(&self, content: &Value) {
        self.send(event(content)).await;
    }

    /// Sends followers the end of the stream, with the error if it failed.
    pub(super) async fn finish(&self, fault: Option<&Fault>) {
        self.send(envelope::end(fault)).await;
        lock(&self.followers).clear();
    }

    async fn send(&self, message: Bytes) {
        let followers = lock(&self.followers).clone();
        for follower in &followers {
            // Disconnected followers are removed when the next one subscribes.
            let _ = follower.send(Ok(message.clone())).await;
        }
    }
}

fn event(content: &Value) -> Bytes {
    envelope::message(&json!({ "event": content }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(pid: Option<u64>, tag: Option<&str>) -> Selector {
        let tag = tag.map(str::to_owned);
        Selector { pid, tag }
    }

    #[test]
    fn a_command_is_listed_until_it_ends() {
        let all = Arc::new(Processes::default());
        let listed = all.add(7, Config::default(), Some("t".into())).unwrap();
        assert_eq!(all.list()["processes"][0]["pid"], 7);
        assert_eq!(all.find(&by(None, Some("t"))).unwrap().pid, 7);
        for missing in [by(Some(8), None), by(None, Some("")), by(None, None)] {
            assert_eq!(all.find(&missing).err().unwrap().status, StatusCode::NOT_FOUND);
        }
        drop(listed);
        assert!(all.is_empty());
    }

    #[test]
    fn commands_and_those_who_follow_them_are_bounded() {
        let all = Arc::new(Processes::default());
        let add = |pid| all.add(pid, Config::default(), None);
        let listed: Vec<_> = (0..16).map(|pid| add(pid).unwrap()).collect();
        assert_eq!(add(16).err().unwrap().status, StatusCode::TOO_MANY_REQUESTS);
        let follow = || listed[0].process.follow();
        let following: Vec<_> = (0..16).map(|_| follow().unwrap()).collect();
        assert_eq!(follow().err().unwrap().status, StatusCode::TOO_MANY_REQUESTS);
        drop(following);
        assert!(follow().is_ok());
    }
}
