//! The process that starts workers.
//!
//! A locked-down process cannot start programs, so the front starts this one before its lock-down.
//! It has one thread and a socket to the front. It starts the worker program, ends workers and
//! watches their memory. When the front exits, it ends all workers and exits.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::channel::{receive, send};
use crate::lock::lock;

/// How often workers' memory is measured.
const LOOK: Duration = Duration::from_millis(250);
/// How long a worker may take to disappear after it was killed.
const LAST: Duration = Duration::from_secs(5);
/// The spawner answers within this time, or is considered broken.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Starts a worker. The message's descriptors become its standard input and error.
    Start { id: u64 },
    /// Kills a worker if it has not exited, and reports how it ended.
    End { id: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Started { pid: u32 },
    Ended { how: String },
    Failed { why: String },
}

/// The front's side of the spawner.
#[derive(Clone)]
pub struct Spawner(Arc<Mutex<UnixStream>>);

impl Spawner {
    /// Starts the spawner; `command` must call [`spawn_workers`]. Call this before the lock-down.
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be started.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        // Ctrl-C in a terminal reaches the front only.
        command.process_group(0);
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).spawn()?;
        Ok(Self(Arc::new(Mutex::new(ours))))
    }

    /// Starts a worker, and returns its process id. Blocks.
    pub(super) fn begin(&self, id: u64, control: OwnedFd, log: OwnedFd) -> io::Result<u32> {
        match self.ask(&Order::Start { id }, &[control, log])? {
            Answer::Started { pid } => Ok(pid),
            other => Err(unexpected(other)),
        }
    }

    /// Kills a worker if it has not exited, and returns how it ended. Blocks.
    pub(super) fn end(&self, id: u64) -> io::Result<String> {
        match self.ask(&Order::End { id }, &[])? {
            Answer::Ended { how } => Ok(how),
            other => Err(unexpected(other)),
        }
    }

    fn ask(&self, order: &Order, descriptors: &[OwnedFd]) -> io::Result<Answer> {
        let socket = lock(&self.0);
        let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        send(&*socket, order, &descriptors)?;
        let answer = receive(&*socket)?;
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the spawner has ended");
        answer.map(|(answer, _)| answer).ok_or_else(gone)
    }
}

fn unexpected(answer: Answer) -> io::Error {
    io::Error::other(match answer {
        Answer::Failed { why } => why,
        other => format!("the spawner answered {other:?}"),
    })
}

/// A worker process.
struct Started {
    child: Child,
    /// Its directory for temporary files.
    _directory: Option<TempDir>,
    is_too_large: bool,
}

/// Starts workers with `program` until the front, at the other end of standard input, exits.
/// Workers inherit only environment variables that [`is_kept`] names. A worker that uses more than
/// `memory` bytes is killed.
///
/// # Errors
///
/// Fails if standard input is not a socket.
pub fn spawn_workers(program: impl Fn() -> Command, memory: Option<u64>) -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut workers: HashMap<u64, Started> = HashMap::new();
    loop {
        let is_watching = memory.is_some() && !workers.is_empty();
        socket.set_read_timeout(is_watching.then_some(LOOK))?;
        let (order, descriptors) = match receive(&socket) {
            Ok(Some(order)) => order,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                watch(&mut workers, memory.unwrap_or(u64::MAX));
                continue;
            }
            Ok(None) | Err(_) => break,
        };
        let answer = match order {
            Order::Start { id } => match start(program(), descriptors) {
                Ok(started) => {
                    let pid = started.child.id();
                    workers.insert(id, started);
                    Answer::Started { pid }
                }
                Err(error) => Answer::Failed {
                    why: error.to_string(),
                },
            },
            Order::End { id } => Answer::Ended {
                how: workers.get_mut(&id).map_or("it was not there".to_owned(), end),
            },
        };
        if let Order::End { id } = order {
            workers.remove(&id);
        }
        if send(&socket, &answer, &[]).is_err() {
            break;
        }
    }
    for worker in workers.values_mut() {
        drop(end(worker));
    }
    Ok(())
}

/// Whether a worker inherits an environment variable. Credentials are not inherited.
#[must_use]
pub fn is_kept(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "BELLJAR_BUNDLE",
        "BELLJAR_BUNDLE_HASH",
        "BELLJAR_CACHE",
        "BELLJAR_LOG",
        "BELLJAR_WHEEL",
        "HOME",
        "LANG",
        "NO_COLOR",
        "PATH",
        "RUST_BACKTRACE",
        "TMPDIR",
        "TZ",
    ];
    NAMES.contains(&name) || ["LC_", "XDG_"].iter().any(|prefix| name.starts_with(prefix))
}

fn start(mut command: Command, descriptors: Vec<OwnedFd>) -> io::Result<Started> {
    let [control, log]: [OwnedFd; 2] =
        descriptors.try_into().map_err(|_| io::Error::other("two descriptors are needed"))?;
    // Without a directory, only large uploads fail.
    let directory = tempfile::Builder::new().prefix("belljar-worker-").tempdir().ok();
    command.env_clear();
    command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_kept)));
    // A worker may write there, so it never gets the shared directory.
    match &directory {
        Some(directory) => command.env("TMPDIR", directory.path()),
        None => command.env_remove("TMPDIR"),
    };
    command.stdin(control).stdout(Stdio::null()).stderr(log);
    Ok(Started {
        child: command.spawn()?,
        _directory: directory,
        is_too_large: false,
    })
}

fn end(worker: &mut Started) -> String {
    // The process has not been reaped, so its id belongs to no other process.
    let _ = worker.child.kill();
    let begun = Instant::now();
    let status = loop {
        match worker.child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < LAST => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) => return "it does not end".to_owned(),
            Err(error) => return error.to_string(),
        }
    };
    if worker.is_too_large {
        return "it took too much memory".to_owned();
    }
    told(status)
}

fn told(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with status {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}

/// Kills workers that have too much memory.
fn watch(workers: &mut HashMap<u64, Started>, max: u64) {
    for worker in workers.values_mut() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", worker.child.id()));
        if status.is_ok_and(|status| held(&status) > max) {
            worker.is_too_large = true;
            let _ = worker.child.kill();
        }
    }
}

/// Memory of a process in bytes, without pages of files, from its status.
fn held(status: &str) -> u64 {
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    ["RssAnon:", "RssShmem:", "VmSwap:"].into_iter().filter_map(field).sum::<u64>() << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_holds_is_read_from_its_status() {
        let status = "VmRSS:\t  90 kB\nRssAnon:\t  10 kB\nRssFile:\t  70 kB\nRssShmem:\t 9 kB\n";
        assert_eq!(held(status), 19 << 10);
        assert_eq!(held(""), 0);
    }

    #[test]
    fn a_worker_gets_no_credentials() {
        for name in ["BELLJAR_CACHE", "HOME", "TMPDIR", "LC_ALL"] {
            assert!(is_kept(name), "{name}");
        }
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "AZURE_STORAGE_KEY",
            "BELLJAR_KEY",
            "BELLJAR_SERVE_STORE",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "OTEL_EXPORTER_OTLP_HEADERS",
            "LISTEN_FDS",
            "NOTIFY_SOCKET",
            "LD_PRELOAD",
            "home",
        ] {
            assert!(!is_kept(name), "{name}");
        }
    }
}
