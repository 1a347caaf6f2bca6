//! A worker of a program that is no server.

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::http::HeaderValue;
use data_encoding::HEXLOWER;
use serde::Serialize;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::account::Account;
use super::channel::send;
use super::hello::{Hello, Order};
use super::log;
use super::spawner::{LOOK, Started, half};
use super::worker::{Watch, Worker, new_key};
use crate::lock::lock;
use crate::scratch::Scratch;

/// How long to read what a worker that has ended wrote to standard error.
const LAST_LINES: Duration = Duration::from_secs(1);
/// How long to wait until its directory is removed.
const LAST_FILES: Duration = Duration::from_secs(2);
/// The only account of such a worker.
const ACCOUNT: &str = "process";

/// A process that runs guests for this one: the same as the worker of an account in a server, and
/// locked down like it. It ends with this handle, and with this process.
///
/// ```no_run
/// # fn example() -> std::io::Result<()> {
/// use std::io::{Read, Write};
/// use std::process::Command;
///
/// use belljar_server::front::WorkerProcess;
///
/// // Its `main` calls `belljar_server::serve_worker`.
/// let worker = WorkerProcess::start(Command::new("/usr/libexec/my-worker"), &())?;
/// let mut connection = worker.connect()?;
/// write!(
///     connection,
///     "POST /v1/runs HTTP/1.1\r\nHost: worker\r\nAuthorization: {}\r\nConnection: close\r\n\
///      Content-Length: 22\r\n\r\n{{\"code\": \"print(123)\"}}",
///     worker.authorization()
/// )?;
/// let mut answer = String::new();
/// connection.read_to_string(&mut answer)?;
/// # Ok(())
/// # }
/// ```
pub struct WorkerProcess {
    worker: Arc<Worker>,
    id: u32,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The process that started it. A process forked from it must leave the worker alone.
    starter: u32,
}

#[derive(Default)]
struct Shared {
    stop: CancellationToken,
    /// Its last line on standard error.
    line: Mutex<String>,
    how: Mutex<Option<String>>,
    has_ended: Condvar,
}

impl WorkerProcess {
    /// Starts `command`, whose `main` has to call [`serve_worker`](crate::serve_worker), and passes
    /// it `settings`. It inherits the environment variables that [`is_kept`](super::is_kept) names,
    /// and gets those that were set on the command.
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be started, or the settings are longer than 60 KiB.
    pub fn start(command: Command, settings: &impl Serialize) -> io::Result<Self> {
        let (ours, theirs) = StdUnixStream::pair()?;
        let (key, authorization) = new_key(ACCOUNT)?;
        let mut secret = [0; 64];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        let hello = Hello {
            account: ACCOUNT.to_owned(),
            sha256: HEXLOWER.encode(&key.sha256),
            limits: key.limits,
            fuel: 0,
            sandboxes: Account::new(ACCOUNT, &secret).sandboxes,
            state: None,
            settings: serde_json::to_value(settings)?,
            has_audit: false,
        };
        send(&ours, &Order::Hello(Box::new(hello)), &[])?;
        let shared = Arc::new(Shared::default());
        let (begun, begins) = mpsc::channel();
        // The kernel ends the worker with the thread that started it, so the caller's will not do.
        let thread = std::thread::Builder::new().name("belljar-worker".into()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                let tell = |worker| drop(begun.send(worker));
                let ended = supervise(command, ours, theirs, authorization, &shared, tell);
                if let Err(error) = ended {
                    drop(begun.send(Err(error)));
                }
            }
        })?;
        let (worker, id) = begins.recv().map_err(io::Error::other)??;
        Ok(Self {
            worker,
            id,
            shared,
            thread: Mutex::new(Some(thread)),
            starter: std::process::id(),
        })
    }

    /// Opens a connection for requests in HTTP/1.1.
    ///
    /// # Errors
    ///
    /// Fails if the process has ended, or has too many connections that it has not accepted.
    pub fn connect(&self) -> io::Result<StdUnixStream> {
        self.worker.connect()
    }

    /// The `Authorization` header that requests need.
    #[must_use]
    pub fn authorization(&self) -> &str {
        self.worker.authorization.to_str().unwrap_or_default()
    }

    /// The id of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns how the process ended, if it ends within `patience`. Blocks.
    #[must_use]
    pub fn ended(&self, patience: Duration) -> Option<String> {
        let how = lock(&self.shared.how);
        let waited = self.shared.has_ended.wait_timeout_while(how, patience, |how| how.is_none());
        waited.map_or(None, |(how, _)| how.clone())
    }

    /// Kills the process, waits until it is gone, and removes its directory. Many files are removed
    /// later. In a forked process, does nothing.
    pub fn stop(&self) {
        if self.is_forked() {
            return;
        }
        self.shared.stop.cancel();
        // Held while waiting, so that another thread that stops it waits, too.
        let mut thread = lock(&self.thread);
        if let Some(thread) = thread.take() {
            // Fails only if the thread panicked.
            let _ = thread.join();
        }
    }

    fn is_forked(&self) -> bool {
        self.starter != std::process::id()
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        if self.is_forked() {
            // There is no such thread.
            let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(thread.take());
        } else {
            self.stop();
        }
    }
}

impl Shared {
    fn end(&self, how: String) {
        let line = lock(&self.line).clone();
        *lock(&self.how) = Some(if line.is_empty() {
            how
        } else {
            format!("{how}: {line}")
        });
        self.has_ended.notify_all();
    }
}

/// Starts the worker, and waits until it has ended.
fn supervise(
    mut command: Command,
    ours: StdUnixStream,
    theirs: StdUnixStream,
    authorization: HeaderValue,
    shared: &Arc<Shared>,
    begun: impl FnOnce(io::Result<(Arc<Worker>, u32)>),
) -> io::Result<()> {
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = reactor.enter();
    // Without a directory, only large uploads fail.
    let directory = Scratch::new(&std::env::temp_dir(), "belljar-process-").ok();
    // Ctrl-C in a terminal reaches this process only.
    command.process_group(0);
    let keep = Arc::clone(shared);
    let kept: log::Log = Arc::new(move |_, line| line.clone_into(&mut lock(&keep.line)));
    let (log, logging) = log::pipe(ACCOUNT, kept)?;
    let (worker, reports) = Worker::new(0, ours, authorization, None)?;
    let place = directory.as_ref().map(Scratch::path).map(AsRef::<OsStr>::as_ref);
    let mut started = Started::start(command, theirs.into(), log, place)?;
    begun(Ok((Arc::clone(&worker), started.id())));
    let how = reactor.block_on(async {
        let how = attend(&worker, reports, &mut started, &shared.stop).await;
        // Another program may still hold the pipe if this process was forked meanwhile.
        let _ = tokio::time::timeout(LAST_LINES, logging).await;
        how
    });
    shared.end(how);
    if let Some(directory) = directory {
        remove(directory);
    }
    Ok(())
}

/// Removes a directory. Code that has broken out may have made millions of files there, so this
/// waits only for a while. If this process ends first, the next one continues.
fn remove(directory: Scratch) {
    let (removing, removed) = mpsc::channel::<()>();
    // If it cannot be started, this thread has removed the directory.
    let _ = std::thread::Builder::new().name("remove".into()).spawn(move || {
        drop(directory);
        drop(removing);
    });
    let _ = removed.recv_timeout(LAST_FILES);
}

/// Waits for the end of a worker, or for a reason to kill it.
async fn attend(
    worker: &Worker,
    reports: UnixStream,
    started: &mut Started,
    stop: &CancellationToken,
) -> String {
    let memory = half();
    let mut tick = tokio::time::interval(LOOK);
    let mut watch = Watch::new(Instant::now());
    let listening = worker.listen(reports, |_| {});
    tokio::pin!(listening);
    loop {
        tokio::select! {
            () = &mut listening => break,
            () = stop.cancelled() => break,
            _ = tick.tick() => {}
        }
        started.look(memory);
        if watch.is_stalled(worker.seen(), Instant::now()) {
            started.excess = Some("it did not respond any more");
            break;
        }
    }
    started.end().how
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_mins(1);

    fn start(script: &str) -> WorkerProcess {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        WorkerProcess::start(shell, &()).unwrap()
    }

    #[test]
    fn the_end_does_not_wait_for_the_files() {
        let worker = start("cd $TMPDIR && seq 100000 | xargs touch; pwd >&2");
        let how = worker.ended(PATIENCE).unwrap();
        let directory = how.strip_prefix("it ended with status 0: ").unwrap();
        assert!(std::fs::exists(directory).unwrap());
        worker.stop();
        let begun = Instant::now();
        while std::fs::exists(directory).unwrap() {
            assert!(begun.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn each_thread_that_stops_a_worker_waits_for_its_end() {
        let worker = start("read -r end; sleep 60");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    worker.stop();
                    assert!(worker.ended(Duration::ZERO).is_some());
                });
            }
        });
    }
}
