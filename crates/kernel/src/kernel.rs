//! The kernel: takes requests, sends replies and output.

mod ask;
mod execute;
mod history;
pub mod info;
mod life;
mod text;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use belljar::{Interrupt, Request};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, oneshot};

use crate::backend::{Backend, Outlet};
use crate::message::{Channel, Message, Outgoing, Peer, unique};
use life::Life;
pub use life::asker;

/// The state of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecutionState {
    /// Its session is being created.
    Starting,
    /// It is idle.
    Idle,
    /// It handles a request.
    Busy,
    /// Its session is being replaced.
    Restarting,
    /// It has ended.
    Dead,
}

impl ExecutionState {
    /// Its name in messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Restarting => "restarting",
            Self::Dead => "dead",
        }
    }
}

/// The state of a kernel, and its last activity.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Activity {
    /// The state.
    pub state: ExecutionState,
    /// The time of the last activity.
    pub last: Instant,
}

/// A kernel. Clones are cheap handles to the same kernel, which lives until it is
/// [closed](Self::close).
#[derive(Clone)]
pub struct Kernel(Arc<Inner>);

/// A request, with its origin.
#[derive(Clone, Debug)]
struct Asked {
    channel: Channel,
    peer: Peer,
    message: Message,
    /// Returned with the reply.
    room: Option<Room>,
}

/// A reservation of a limited resource, held while the message waits or is handled.
pub type Room = Arc<dyn std::any::Any + Send + Sync>;

struct Inner {
    backend: Box<dyn Backend>,
    outlet: Box<dyn Outlet>,
    /// Options of every run, without code.
    request: Request,
    /// The sender of the kernel's messages.
    session: String,
    life: Mutex<Arc<Life>>,
    activity: Mutex<Activity>,
    /// Stops the current run.
    interrupt: Mutex<Option<Interrupt>>,
    /// Receivers of input lines, by the client that was asked.
    inputs: Mutex<HashMap<Peer, oneshot::Sender<Option<String>>>>,
    /// Held while one life follows another.
    succession: tokio::sync::Mutex<()>,
    is_over: AtomicBool,
    over: Notify,
}

impl Kernel {
    /// Starts a kernel on a tokio runtime. Its session is created at once; requests that need it
    /// wait. `request` has the options of every run, such as limits.
    pub fn start(backend: impl Backend, outlet: impl Outlet, request: Request) -> Self {
        let kernel = Self(Arc::new(Inner {
            backend: Box::new(backend),
            outlet: Box::new(outlet),
            request,
            session: unique(),
            life: Mutex::new(Arc::new(Life::new())),
            activity: Mutex::new(Activity {
                state: ExecutionState::Starting,
                last: Instant::now(),
            }),
            interrupt: Mutex::default(),
            inputs: Mutex::default(),
            succession: tokio::sync::Mutex::default(),
            is_over: AtomicBool::new(false),
            over: Notify::new(),
        }));
        kernel.live();
        kernel
    }

    /// The current state.
    #[must_use]
    pub fn activity(&self) -> Activity {
        *lock(&self.0.activity)
    }

    /// Takes a message of a client. The request is handled in the background; only a control
    /// request is answered when this returns. A request that has to wait reserves `room`, and is
    /// rejected if that is full.
    pub async fn deliver(
        &self,
        channel: Channel,
        peer: Peer,
        message: Message,
        room: impl FnOnce() -> Option<Room> + Send,
    ) {
        tracing::trace!(channel = channel.as_str(), kind = message.kind(), "a message");
        let asked = Asked {
            channel,
            peer,
            message,
            room: None,
        };
        match (channel, asked.message.kind()) {
            (Channel::Stdin, "input_reply") => self.0.give_input(&asked),
            (Channel::Stdin | Channel::Iopub, _) => {}
            (Channel::Control, _) | (_, "interrupt_request" | "shutdown_request") => {
                self.control(asked, room).await;
            }
            (Channel::Shell, _) => self.queue(asked, room).await,
        }
    }

    /// Interrupts the current run, like Ctrl-C. Returns whether there was one.
    #[must_use]
    pub fn interrupt(&self) -> bool {
        let interrupt = lock(&self.0.interrupt).clone();
        if let Some(interrupt) = &interrupt {
            interrupt.interrupt();
        }
        interrupt.is_some()
    }

    /// Replaces the session: the current run and waiting requests are dropped without a reply.
    pub async fn restart(&self) {
        let _held = self.0.succession.lock().await;
        if self.0.is_over.load(Ordering::Acquire) {
            return;
        }
        self.0.announce(ExecutionState::Restarting, &Map::new()).await;
        self.end_life(Life::new()).await;
        self.live();
        self.0.announce(ExecutionState::Starting, &Map::new()).await;
    }

    /// Closes the session, and stops its run.
    pub async fn close(&self) {
        let _held = self.0.succession.lock().await;
        self.end_life(Life::over()).await;
        self.0.announce(ExecutionState::Dead, &Map::new()).await;
        self.0.end();
    }

    /// Makes [`over`](Self::over) return, like a client's shutdown request.
    pub fn end(&self) {
        self.0.end();
    }

    /// Handles a disconnected client: code no longer waits for its input.
    pub fn left(&self, peer: &Peer) {
        lock(&self.0.inputs).remove(peer);
    }

    /// Waits for a client's shutdown request, or for [`close`](Self::close).
    pub async fn over(&self) {
        let over = self.0.over.notified();
        if !self.0.is_over.load(Ordering::Acquire) {
            over.await;
        }
    }

    /// Starts to handle requests.
    fn live(&self) {
        let life = Arc::clone(&lock(&self.0.life));
        life.begin(Arc::clone(&self.0));
    }

    async fn end_life(&self, next: Life) {
        let life = std::mem::replace(&mut *lock(&self.0.life), Arc::new(next));
        life.end().await;
        lock(&self.0.interrupt).take();
        lock(&self.0.inputs).clear();
    }

    async fn queue(&self, mut asked: Asked, room: impl FnOnce() -> Option<Room> + Send) {
        let life = Arc::clone(&lock(&self.0.life));
        asked.room = room();
        let refused = match asked.room {
            Some(_) => life.ask(asked).err(),
            None => Some(asked),
        };
        if let Some(asked) = refused {
            let content = match self.activity().state {
                ExecutionState::Dead => error("KernelDied", "this kernel has ended", &[]),
                _ => error("QueueFull", "too many requests wait for this kernel", &[]),
            };
            self.0.reply(&asked, content).await;
        }
    }

    /// Replies even while the shell is busy.
    async fn control(&self, asked: Asked, room: impl FnOnce() -> Option<Room> + Send) {
        let content = match asked.message.kind() {
            "kernel_info_request" => info::kernel_info(),
            "comm_info_request" => info::comm_info(),
            "interrupt_request" => {
                let _ = self.interrupt();
                json!({"status": "ok"})
            }
            "shutdown_request" => {
                let restart = asked.message.content.get("restart").cloned();
                json!({"status": "ok", "restart": restart.unwrap_or(Value::Bool(false))})
            }
            // Only the shell can answer it.
            _ => return self.queue(asked, room).await,
        };
        let inner = &self.0;
        inner.announce_of(ExecutionState::Busy, &asked.message.header).await;
        if asked.message.kind() == "shutdown_request" {
            // Other clients are informed, too.
            inner.publish("shutdown_reply", &asked.message.header, content.clone()).await;
        }
        inner.reply(&asked, content).await;
        inner.announce_of(ExecutionState::Idle, &asked.message.header).await;
        if asked.message.kind() == "shutdown_request" {
            inner.end();
        }
    }
}

impl Inner {
    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.over.notify_waiters();
    }

    /// Sends the reply to the client of a request.
    async fn reply(&self, asked: &Asked, content: Value) {
        let kind = asked.message.kind();
        let kind = format!("{}_reply", kind.strip_suffix("_request").unwrap_or(kind));
        self.send(asked.channel, Some(asked.peer.clone()), &kind, &asked.message.header, content)
            .await;
    }

    /// Sends a message that belongs to a request to all clients.
    async fn publish(&self, kind: &str, parent: &Map<String, Value>, content: Value) {
        self.send(Channel::Iopub, None, kind, parent, content).await;
    }

    async fn send(
        &self,
        channel: Channel,
        to: Option<Peer>,
        kind: &str,
        parent: &Map<String, Value>,
        content: Value,
    ) {
        let content = match content {
            Value::Object(content) => content,
            _ => Map::new(),
        };
        let message = Message::new(kind, &self.session, parent, content);
        self.outlet
            .send(Outgoing {
                channel,
                to,
                message,
            })
            .await;
    }

    /// Sets the state, and sends it to all clients.
    async fn announce(&self, state: ExecutionState, parent: &Map<String, Value>) {
        *lock(&self.activity) = Activity {
            state,
            last: Instant::now(),
        };
        self.announce_of(state, parent).await;
    }

    /// The same for a request that does not change the state.
    async fn announce_of(&self, state: ExecutionState, parent: &Map<String, Value>) {
        self.publish("status", parent, json!({"execution_state": state.as_str()})).await;
    }

    /// Passes a line to the code that waits for it.
    fn give_input(&self, asked: &Asked) {
        let line = asked.message.content.get("value").and_then(Value::as_str);
        if let Some(waiting) = lock(&self.inputs).remove(&asked.peer) {
            // The code may have stopped waiting.
            let _ = waiting.send(line.map(str::to_owned));
        }
    }
}

/// The content of an error reply.
fn error(name: &str, value: &str, traceback: &[String]) -> Value {
    json!({"status": "error", "ename": name, "evalue": value, "traceback": traceback})
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
