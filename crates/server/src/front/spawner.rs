//! The process that starts workers.
//!
//! A locked-down process cannot start programs, so the front starts this one before its lock-down.
//! It starts the worker program, ends workers, and watches their memory and threads. When the front
//! exits, it ends all workers and exits.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::channel::{receive, send};
use crate::lock::lock;

/// How often workers' memory and threads are measured.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// Maximum number of threads of a worker. All processes of a user share their number; a server of
/// one account has at most about 600.
const MAX_THREADS: u64 = 1024;
/// How long a worker may take to disappear after it was killed.
const LAST: Duration = Duration::from_secs(5);
/// The spawner answers within this time, even on a busy machine, or is considered broken. Its end
/// is noticed at once.
const PATIENCE: Duration = Duration::from_mins(1);

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
    Ended(End),
    Failed { why: String },
}

/// How a worker ended.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct End {
    pub how: String,
    /// Whether it exited with status 0.
    pub is_success: bool,
}

impl End {
    pub(super) fn failure(how: impl Into<String>) -> Self {
        Self {
            how: how.into(),
            is_success: false,
        }
    }
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
    pub(super) fn end(&self, id: u64) -> io::Result<End> {
        match self.ask(&Order::End { id }, &[])? {
            Answer::Ended(end) => Ok(end),
            other => Err(unexpected(other)),
        }
    }

    /// A spawner whose workers are a shell with `script`, and the thread that it obeys in.
    #[cfg(test)]
    pub(super) fn of_shell(
        script: &'static str,
    ) -> (Self, std::thread::JoinHandle<io::Result<()>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        let program = move || {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            shell
        };
        let obeying = std::thread::spawn(move || obey(&theirs, program, Some(64 << 20)));
        (Self(Arc::new(Mutex::new(ours))), obeying)
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
pub(super) struct Started {
    child: Child,
    /// Its status, opened before the lock-down, after which its directory in `/proc` may be hidden
    /// (`hidepid`, `ProtectProc=`). Only Linux has it.
    status: Option<File>,
    /// Why it was killed.
    pub excess: Option<&'static str>,
}

/// Starts workers with `program` until the front, at the other end of standard input, exits.
/// Workers inherit only environment variables that [`is_kept`] names. A worker that uses more than
/// `memory` bytes is killed; by default, half of the machine's.
///
/// # Errors
///
/// Fails if standard input is not a socket.
pub fn spawn_workers(program: impl Fn() -> Command, memory: Option<u64>) -> io::Result<()> {
    obey(&UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?), program, memory)
}

/// Obeys the front at the other end of `socket` until it exits.
fn obey(socket: &UnixStream, program: impl Fn() -> Command, memory: Option<u64>) -> io::Result<()> {
    // With their directories for temporary files.
    let mut workers: HashMap<u64, (Started, Option<TempDir>)> = HashMap::new();
    // A compromised worker may have made millions of files, which no other account waits for.
    let (abandoned, directories) = mpsc::channel::<TempDir>();
    let removing = std::thread::Builder::new()
        .name("remove".into())
        .spawn(move || directories.into_iter().for_each(drop))?;
    let memory = memory.unwrap_or_else(half);
    let mut looked = Instant::now();
    loop {
        // Orders may follow each other at any pace.
        if looked.elapsed() >= LOOK {
            for (worker, _) in workers.values_mut() {
                worker.look(memory);
            }
            looked = Instant::now();
        }
        socket.set_read_timeout((!workers.is_empty()).then_some(LOOK))?;
        let (order, descriptors) = match receive(socket) {
            Ok(Some(order)) => order,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Ok(None) | Err(_) => break,
        };
        let answer = match order {
            Order::Start { id } => match start(program(), descriptors) {
                Ok(worker) => {
                    let pid = worker.0.id();
                    workers.insert(id, worker);
                    Answer::Started { pid }
                }
                Err(error) => Answer::Failed {
                    why: error.to_string(),
                },
            },
            Order::End { id } => {
                let ended = workers.remove(&id);
                let end = ended.map_or_else(
                    || End::failure("it was not there"),
                    |(mut worker, directory)| {
                        let end = worker.end();
                        if let Some(directory) = directory {
                            // Fails only if the thread panicked.
                            let _ = abandoned.send(directory);
                        }
                        end
                    },
                );
                Answer::Ended(end)
            }
        };
        if send(socket, &answer, &[]).is_err() {
            break;
        }
    }
    for (worker, _) in workers.values_mut() {
        drop(worker.end());
    }
    drop((workers, abandoned));
    // Fails only if the thread panicked.
    let _ = removing.join();
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

fn start(command: Command, descriptors: Vec<OwnedFd>) -> io::Result<(Started, Option<TempDir>)> {
    let [control, log]: [OwnedFd; 2] =
        descriptors.try_into().map_err(|_| io::Error::other("two descriptors are needed"))?;
    // Without a directory, only large uploads fail.
    let directory = tempfile::Builder::new().prefix("belljar-worker-").tempdir().ok();
    let place = directory.as_ref().map(|directory| directory.path().as_os_str());
    Ok((Started::start(command, control, log, place)?, directory))
}

impl Started {
    /// Starts a worker, which inherits only variables that [`is_kept`] names, as far as `command`
    /// does not remove them, and gets those of `command`. `directory` is for its temporary files.
    pub(super) fn start(
        mut command: Command,
        control: OwnedFd,
        log: OwnedFd,
        directory: Option<&OsStr>,
    ) -> io::Result<Self> {
        let of_command: Vec<(OsString, Option<OsString>)> = command
            .get_envs()
            .map(|(name, value)| (name.to_owned(), value.map(OsStr::to_owned)))
            .collect();
        command.env_clear();
        command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_kept)));
        for (name, value) in of_command {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        // A worker may write there, so it never gets the shared directory.
        match directory {
            Some(directory) => command.env("TMPDIR", directory),
            None => command.env_remove("TMPDIR"),
        };
        command.stdin(control).stdout(Stdio::null()).stderr(log);
        let child = command.spawn()?;
        let table = format!("/proc/{}/status", child.id());
        Self::watch(child, table.as_ref())
    }

    /// Opens the table of a process that has started. On Linux, a process without one is killed.
    fn watch(mut child: Child, table: &Path) -> io::Result<Self> {
        let status = match File::open(table) {
            Ok(status) => Some(status),
            Err(error) if cfg!(target_os = "linux") => {
                let _ = child.kill();
                let _ = child.wait();
                let why = format!("its memory cannot be watched: {}: {error}", table.display());
                return Err(io::Error::new(error.kind(), why));
            }
            Err(_) => None,
        };
        Ok(Self {
            child,
            status,
            excess: None,
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the worker if it has not exited, and returns how it ended.
    pub(super) fn end(&mut self) -> End {
        // The process has not been reaped, so its id belongs to no other process.
        let _ = self.child.kill();
        let begun = Instant::now();
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if begun.elapsed() < LAST => std::thread::sleep(Duration::from_millis(1)),
                Ok(None) => return End::failure("it does not end"),
                Err(error) => return End::failure(error.to_string()),
            }
        };
        match self.excess {
            Some(excess) => End::failure(excess),
            None => End {
                how: told(status),
                is_success: status.success(),
            },
        }
    }

    /// Kills the worker if it has more than `memory` bytes or too many threads, or if neither can
    /// be read.
    pub(super) fn look(&mut self, memory: u64) {
        let Some(status) = &self.status else {
            return;
        };
        let excess = match table(status) {
            Ok(table) => excess(&table, memory),
            Err(_) => Some("its memory could not be watched"),
        };
        if excess.is_some() {
            self.excess = excess;
            let _ = self.child.kill();
        }
    }
}

/// The kernel's table of a process's memory and threads. The process chooses its name in it, which
/// may be no UTF-8.
fn table(mut status: &File) -> io::Result<String> {
    status.seek(SeekFrom::Start(0))?;
    let mut table = Vec::new();
    status.read_to_end(&mut table)?;
    Ok(String::from_utf8_lossy(&table).into_owned())
}

fn told(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with status {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}

/// Half of the machine's memory, in bytes.
pub(super) fn half() -> u64 {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    field(&memory, "MemTotal:").map_or(u64::MAX, |kib| (kib << 10) / 2)
}

/// A number in a table of the kernel's.
fn field(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// What a process has too much of, by its status. Its memory is counted without pages of files.
fn excess(status: &str, memory: u64) -> Option<&'static str> {
    let field = |name: &str| field(status, name);
    let kib: u64 = ["RssAnon:", "RssShmem:", "VmSwap:"].into_iter().filter_map(field).sum();
    if kib << 10 > memory {
        Some("it took too much memory")
    } else if field("Threads:").is_some_and(|threads| threads > MAX_THREADS) {
        Some("it had too many threads")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_is_read_from_its_status() {
        let status = "VmRSS:\t  90 kB\nRssAnon:\t  10 kB\nRssFile:\t  70 kB\nRssShmem:\t 9 kB\n";
        assert_eq!(excess(status, 19 << 10), None);
        assert_eq!(excess(status, (19 << 10) - 1), Some("it took too much memory"));
        assert_eq!(excess("Threads:\t1024\n", 0), None);
        assert_eq!(excess("Threads:\t1025\n", 0), Some("it had too many threads"));
    }

    /// Starts a worker whose standard input and error are the returned socket's other end.
    fn begin(spawner: &Spawner, id: u64) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let log = theirs.try_clone().unwrap();
        spawner.begin(id, theirs.into(), log.into()).unwrap();
        ours
    }

    /// An account that lets its worker exit again and again keeps the spawner busy. A process may
    /// name itself with any bytes.
    #[test]
    fn memory_is_watched_while_workers_start_and_end() {
        let script = "printf '\\377' >/proc/$$/comm; read go; x=$(head -c 100000000 /dev/zero | tr '\\0' x); read end";
        let (spawner, obeying) = Spawner::of_shell(script);
        let mut socket = begin(&spawner, 0);
        io::Write::write_all(&mut socket, b"go\n").unwrap();
        for id in 1..40 {
            let other = begin(&spawner, id);
            std::thread::sleep(LOOK / 4);
            spawner.end(id).unwrap();
            drop(other);
        }
        assert_eq!(spawner.end(0).unwrap().how, "it took too much memory");
        drop(spawner);
        obeying.join().unwrap().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_worker_that_cannot_be_watched_does_not_start() {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = format!("/proc/{}", child.id());
        let started = Started::watch(child, "/proc/hidden/status".as_ref());
        let error = started.err().unwrap().to_string();
        assert!(error.starts_with("its memory cannot be watched: /proc/hidden/"), "{error}");
        assert!(!std::fs::exists(process).unwrap());
    }

    /// The answer does not wait for it.
    #[test]
    fn directories_of_workers_that_have_ended_are_removed() {
        let script = "mkdir -p \"$TMPDIR/a/b\"; echo \"$TMPDIR\" >&2; exec sleep 60";
        let (spawner, obeying) = Spawner::of_shell(script);
        let directories: Vec<std::path::PathBuf> = (0..2)
            .map(|id| {
                let mut line = String::new();
                io::BufRead::read_line(&mut io::BufReader::new(begin(&spawner, id)), &mut line)
                    .unwrap();
                line.trim().into()
            })
            .collect();
        assert!(directories.iter().all(|directory| directory.is_dir()), "{directories:?}");
        assert_eq!(spawner.end(0).unwrap().how, "it was ended by signal 9");
        drop(spawner);
        obeying.join().unwrap().unwrap();
        assert!(directories.iter().all(|directory| !directory.exists()), "{directories:?}");
    }

    #[test]
    fn a_worker_gets_the_variables_of_its_command() {
        let mut command = Command::new("sh");
        command.args(["-c", "env >&2"]);
        command.env_remove("PATH").env("BELLJAR_TEST", "set");
        let (mut log, theirs) = io::pipe().unwrap();
        let (_ours, control) = UnixStream::pair().unwrap();
        let started = Started::start(command, control.into(), theirs.into(), None);
        let mut told = String::new();
        Read::read_to_string(&mut log, &mut told).unwrap();
        started.unwrap().end();
        assert!(told.lines().any(|line| line == "BELLJAR_TEST=set"), "{told}");
        assert!(!told.lines().any(|line| line.starts_with("PATH=")), "{told}");
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
