//! The worker's side of the channel to the front, which passes connections to it.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use belljar::store::Store;
use data_encoding::HEXLOWER;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::channel::{receive, send};
use super::hello::{Hello, Order, Report, clock};
use super::relay::RelayedStore;
use crate::audit::AuditLog;
use crate::http::app::{App, Settings};
use crate::http::auth::{Key, Keys};
use crate::http::forwarded::TrustedProxy;
use crate::http::listen::Listener;
use crate::service::ServiceBuilder;
use crate::service::owner::today;

/// How often a worker reports.
const REPORT: Duration = Duration::from_secs(1);
/// Reports that a worker misses before it counts as stuck.
const MISSED: u32 = 30;
/// Connections that wait to be accepted.
const AHEAD: usize = 64;

/// The channel of a worker to its front, with the worker's configuration.
pub struct WorkerChannel {
    control: Arc<StdUnixStream>,
    hello: Hello,
    store: Option<StdUnixStream>,
    audit: Option<StdUnixStream>,
}

/// Signals that end a worker.
#[derive(Clone)]
pub struct Shutdown {
    stop: CancellationToken,
    gone: CancellationToken,
}

impl WorkerChannel {
    /// Takes the socket at standard input, and waits for the front's first message. From now on,
    /// the kernel kills this process if its parent exits, and prefers it if memory runs out.
    ///
    /// # Errors
    ///
    /// If standard input is not such a socket.
    pub fn begin() -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{Signal, set_parent_process_death_signal, setsid};
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // In the root CPU cgroup, Linux shares processors between sessions (autogroup), and so
            // between accounts, however many threads each has. Fails if this process leads a group.
            let _ = setsid();
            // The kernel may not have it.
            let _ = std::fs::write("/proc/self/oom_score_adj", "500");
        }
        let control = StdUnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let Some((Order::Hello(hello), sockets)) = receive(&control)? else {
            return Err(io::Error::other("standard input is not the socket of a front"));
        };
        let mut sockets = sockets.into_iter().map(StdUnixStream::from);
        let audit = if hello.has_audit {
            sockets.next()
        } else {
            None
        };
        Ok(Self {
            control: Arc::new(control),
            hello: *hello,
            store: sockets.next(),
            audit,
        })
    }

    /// Parses [`WorkerOptions::settings`](super::WorkerOptions).
    ///
    /// # Errors
    ///
    /// Fails if they have another type.
    pub fn settings<T: DeserializeOwned>(&self) -> io::Result<T> {
        Ok(T::deserialize(&self.hello.settings)?)
    }

    /// The directory to save the account's sessions in.
    #[must_use]
    pub fn state(&self) -> Option<&Path> {
        self.hello.state.as_deref()
    }

    /// The account's folder of the store, accessed through the front. Call this once, in a tokio
    /// runtime.
    ///
    /// # Errors
    ///
    /// If the socket cannot be used.
    pub fn store(&mut self) -> io::Result<Option<Arc<dyn Store>>> {
        let Some(socket) = self.store.take() else {
            return Ok(None);
        };
        socket.set_nonblocking(true)?;
        Ok(Some(Arc::new(RelayedStore::new(UnixStream::from_std(socket)?))))
    }

    /// Creates the application and its listener. It accepts only the front's key.
    ///
    /// # Errors
    ///
    /// If the first message of the front was invalid, or no thread can be started.
    pub(crate) fn open(
        self,
        service: ServiceBuilder,
        mut settings: Settings,
    ) -> io::Result<(App, Listener, Shutdown)> {
        let invalid = || io::Error::other("the front's first message is invalid");
        let hello = self.hello;
        let secret = bytes(&hello.sandboxes.secret).ok_or_else(invalid)?;
        let mut service = service.sandboxes(hello.sandboxes.tag.clone(), secret);
        if let Some(audit) = self.audit {
            service = service.audit(AuditLog::to(audit)?);
        }
        let service = service.build();
        let (mut key, _) = Key::generate(hello.account.as_str(), hello.limits.clone())?;
        key.sha256 = bytes(&hello.sha256).ok_or_else(invalid)?;
        let keys = Keys::of(vec![key.clone()]);
        if let Some(owner) = keys.owner_named(&hello.account) {
            owner.set_used_elsewhere(hello.fuel);
        }
        settings.trusted_proxies = vec![TrustedProxy::Unix];
        settings.is_unix = true;
        let app = App::new(service.clone(), keys.clone(), settings);
        let (connections, listener) = mpsc::channel(AHEAD);
        let ends = Shutdown {
            stop: CancellationToken::new(),
            gone: CancellationToken::new(),
        };
        let (control, told, changed) = (Arc::clone(&self.control), ends.clone(), keys.clone());
        std::thread::Builder::new().name("front".into()).spawn(move || {
            obey(&control, &told, &changed, &key, &connections);
            told.gone.cancel();
        })?;
        let (account, has_state) = (hello.account, hello.state.is_some());
        let count = Arc::new(AtomicU64::new(0));
        let (control, counted) = (Arc::clone(&self.control), Arc::clone(&count));
        std::thread::Builder::new()
            .name("watch".into())
            .spawn(move || watch(&control, &counted, REPORT))?;
        tokio::spawn(report(self.control, count, move || Report {
            // Read before the rest.
            at: clock(),
            is_idle: service.is_idle(has_state),
            day: today(),
            fuel: keys.owner_named(&account).map_or(0, |owner| owner.fuel_today()),
            is_stuck: false,
        }));
        Ok((app, Listener::Front(listener.into()), ends))
    }
}

impl Shutdown {
    /// Waits until the front requests a regular exit.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Waits until the front has exited.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }
}

/// Decodes `N` bytes.
fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    HEXLOWER.decode(digits.as_bytes()).ok()?.try_into().ok()
}

/// Handles the front's messages until it exits.
fn obey(
    control: &StdUnixStream,
    ends: &Shutdown,
    keys: &Keys,
    key: &Key,
    connections: &mpsc::Sender<StdUnixStream>,
) {
    while let Ok(Some((order, sockets))) = receive(control) {
        match order {
            Order::Hello(_) => return,
            Order::Connection => {
                let Some(socket) = sockets.into_iter().next().map(StdUnixStream::from) else {
                    return;
                };
                // Fails if this process is stopping. It finishes what is under way.
                let _ = connections.blocking_send(socket);
            }
            Order::Limits(limits) => {
                let mut key = key.clone();
                key.limits = limits;
                keys.replace(vec![key]);
            }
            Order::Stop => ends.stop.cancel(),
        }
    }
}

/// Sends reports and counts them, until the front has exited. A front that is paused reads them
/// later.
async fn report(control: Arc<StdUnixStream>, count: Arc<AtomicU64>, current: impl Fn() -> Report) {
    loop {
        count.fetch_add(1, Ordering::Relaxed);
        if is_gone(send(&*control, &current(), &[])) {
            return;
        }
        tokio::time::sleep(REPORT).await;
    }
}

/// Reports that the worker is stuck when `count` has not changed for [`MISSED`] times `tick`. Runs
/// on its own thread, so that on a busy machine it is as late as the reports.
fn watch(control: &StdUnixStream, count: &AtomicU64, tick: Duration) {
    let (mut known, mut missed) = (0, 0);
    let stuck = Report {
        is_stuck: true,
        ..Report::default()
    };
    loop {
        std::thread::sleep(tick);
        let now = count.load(Ordering::Relaxed);
        missed = if now == known { missed + 1 } else { 0 };
        known = now;
        if missed >= MISSED && is_gone(send(control, &stuck, &[])) {
            return;
        }
    }
}

fn is_gone(sent: io::Result<()>) -> bool {
    sent.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn reports_continue_after_the_front_was_paused() {
        let (front, worker) = StdUnixStream::pair().unwrap();
        while send(&worker, &Report::default(), &[]).is_ok() {}
        tokio::spawn(report(Arc::new(worker), Arc::default(), Report::default));
        tokio::time::sleep(REPORT / 2).await;
        front.set_nonblocking(true).unwrap();
        let mut front = UnixStream::from_std(front).unwrap();
        let mut waiting = [0; 4096];
        while front.try_read(&mut waiting).is_ok() {}
        let next = tokio::time::timeout(REPORT * 5, front.read_u32_le()).await;
        assert!(next.unwrap().is_ok());
    }

    #[test]
    fn a_worker_is_stuck_when_it_runs_without_reports() {
        const TICK: Duration = Duration::from_millis(10);
        let (front, worker) = StdUnixStream::pair().unwrap();
        front.set_nonblocking(true).unwrap();
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        std::thread::spawn(move || watch(&worker, &counted, TICK));
        let is_silent = || {
            let next = receive::<Report>(&front);
            next.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        let mut begun = std::time::Instant::now();
        for _ in 0..MISSED * 4 {
            begun = std::time::Instant::now();
            count.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(TICK / 2);
        }
        assert!(is_silent());
        front.set_nonblocking(false).unwrap();
        assert!(receive::<Report>(&front).unwrap().unwrap().0.is_stuck);
        assert!(begun.elapsed() > TICK * (MISSED - 2), "{:?}", begun.elapsed());
    }

    /// The front may send it a connection before it knows that the worker stops.
    #[test]
    fn a_worker_that_accepts_no_more_continues() {
        let (front, worker) = StdUnixStream::pair().unwrap();
        let ends = Shutdown {
            stop: CancellationToken::new(),
            gone: CancellationToken::new(),
        };
        let (key, _) = Key::generate("one", crate::service::owner::KeyLimits::default()).unwrap();
        let keys = Keys::of(vec![key.clone()]);
        let (connections, _) = mpsc::channel(AHEAD);
        let (late, _other) = StdUnixStream::pair().unwrap();
        send(&front, &Order::Connection, &[late.as_fd()]).unwrap();
        send(&front, &Order::Stop, &[]).unwrap();
        drop(front);
        obey(&worker, &ends, &keys, &key, &connections);
        assert!(ends.stop.is_cancelled());
    }
}
