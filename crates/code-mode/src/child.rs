//! A server as a child process, which ends when this process ends.
#![expect(
    unsafe_code,
    reason = "the child requests its own end between fork and exec"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::allowance::Allowance;
use belljar_text::lines_of;

/// Environment variables that a server inherits; the file must list any others.
const PASSED_ON: &[&str] =
    &["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];
/// How long a server may take to exit after its standard input is closed.
const GRACE: Duration = Duration::from_millis(400);
/// Bytes of standard error to keep.
const MAX_SAID: usize = 2_000;

/// A server process.
pub(super) struct Process {
    child: Child,
    group: Group,
    said: Said,
}

/// The process group of a server, or `None` after it was killed.
#[derive(Clone)]
struct Group(Arc<Mutex<Option<i32>>>);

/// The last bytes that a process wrote to standard error.
#[derive(Clone, Default)]
pub(super) struct Said(Arc<Mutex<Vec<u8>>>);

impl Process {
    /// Starts the process in its own process group with a minimal environment. Also returns its
    /// standard streams.
    pub(super) fn start(
        command: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
        cwd: Option<&Path>,
    ) -> std::io::Result<(Self, Limited<ChildStdout>, ChildStdin)> {
        let mut start = Command::new(command);
        start
            .args(args)
            .env_clear()
            .envs(PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .envs(env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0);
        if let Some(cwd) = cwd {
            start.current_dir(cwd);
        }
        end_with_us(&mut start);
        let mut child = start.spawn()?;
        let missing = || std::io::Error::other("the process has no standard streams");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let said = Said::default();
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(listen(stderr, said.clone()));
        }
        let group = child.id().and_then(|id| i32::try_from(id).ok());
        let group = Group(Arc::new(Mutex::new(group)));
        let stdout = Limited::new(stdout, Some(group.clone()));
        Ok((Self { child, group, said }, stdout, stdin))
    }

    /// The last output of the server on standard error.
    pub(super) fn said(&self) -> Said {
        self.said.clone()
    }

    /// Ends the process group. Its input is already closed, so that it can exit by itself.
    pub(super) async fn end(mut self) {
        let _ = tokio::time::timeout(GRACE, self.child.wait()).await;
        self.group.kill();
        let _ = tokio::time::timeout(GRACE, self.child.wait()).await;
    }
}

impl Group {
    fn kill(&self) {
        if let Some(group) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // SAFETY: `kill` takes only numbers. The group belongs to our child. The system does
            // not reuse its number before `wait` was called and the group is empty. After that, the
            // group does not exist, or it has members that were never waited for.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.group.kill();
    }
}

impl Said {
    /// Converts the bytes to readable text.
    pub(super) fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines_of(&String::from_utf8_lossy(&bytes), MAX_SAID)
    }
}

/// Drains a server's standard error, so that the server never blocks, and keeps the last bytes.
async fn listen(mut stderr: ChildStderr, said: Said) {
    let mut buffer = vec![0; 4 << 10];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        tracing::debug!(text = %String::from_utf8_lossy(&buffer[..read]), "a server wrote to its standard error");
        let mut kept = said.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..read]);
        let surplus = kept.len().saturating_sub(MAX_SAID);
        kept.drain(..surplus);
    }
}

/// Makes the kernel kill the child when this process ends for any reason.
#[cfg(target_os = "linux")]
fn end_with_us(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: the closure runs in a forked child with one thread. It only calls `prctl` and
    // `getppid`, which are async-signal-safe, takes no lock and allocates no memory.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // The parent may have exited before `prctl` took effect.
            if libc::getppid().cast_unsigned() != parent {
                return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

#[cfg(not(target_os = "linux"))]
fn end_with_us(_: &mut Command) {}

/// The output of a server up to its allowance; beyond that, the process is killed.
pub(super) struct Limited<R> {
    from: R,
    allowance: Allowance,
    group: Option<Group>,
}

impl<R> Limited<R> {
    fn new(from: R, group: Option<Group>) -> Self {
        Self {
            from,
            allowance: Allowance::first(),
            group,
        }
    }

    pub(super) fn allowance(&self) -> Allowance {
        self.allowance.clone()
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Limited<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        if this.allowance.is_spent() {
            // Otherwise, a writer that waits for the server to read would never return.
            if let Some(group) = this.group.take() {
                group.kill();
            }
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.from).poll_read(cx, buffer);
        this.allowance.spend(&buffer.filled()[before..]);
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_sends_more_than_was_asked_for_is_cut_off() {
        let mut endless = Limited::new(tokio::io::repeat(b'x'), None);
        let allowance = endless.allowance();
        let mut sink = vec![0; 1 << 20];
        let mut total = 0;
        while let Ok(read @ 1..) = endless.read(&mut sink).await {
            total += read;
        }
        assert!((8 << 20..10 << 20).contains(&total), "{total}");
        allowance.for_a_call();
        assert!(allowance.is_spent());
    }

    #[tokio::test]
    async fn a_process_ends_with_all_that_it_has_started() {
        let script = "sleep 60 & echo $!; trap '' TERM; while :; do sleep 60; done";
        let args = ["-c".to_owned(), script.to_owned()];
        let (process, mut stdout, stdin) =
            Process::start("sh", &args, &BTreeMap::new(), None).unwrap();
        let mut line = vec![0; 32];
        let read = stdout.read(&mut line).await.unwrap();
        let sleeper = String::from_utf8_lossy(&line[..read]).trim().to_owned();
        let is_there = || {
            let status =
                std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
            !status.is_empty() && !status.contains(") Z ")
        };
        assert!(is_there());
        drop(stdin);
        process.end().await;
        for _ in 0..100 {
            if !is_there() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{sleeper} is still there");
    }
}
