//! The front's handle to a worker.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, Uri};
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, SetOnce};
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::channel::send;
use super::hello::{Order, Report, STALL, clock};
use crate::http::auth::Key;
use crate::http::listen::{HEAD_TIME, MAX_HEAD};
use crate::lock::lock;
use crate::service::owner::KeyLimits;

/// How long an unused connection to a worker is kept. The worker keeps it longer, so that it does
/// not close a connection that is about to be used.
const IDLE: Duration = Duration::from_secs(HEAD_TIME.as_secs() / 2);
/// Maximum number of unused connections to a worker.
const MAX_IDLE: usize = 64;
/// How long to wait until a worker may read again: at first, and at most.
const AGAIN: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];
/// How long a request waits for a worker to read that it has a connection.
const CONNECT: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 30_000 });
/// Time between two looks at a worker after which this process has stood still itself.
const LATE: Duration = Duration::from_secs(5);
/// Maximum size of a report.
const MAX_REPORT: u32 = 4 << 10;

pub(super) struct Worker {
    pub id: u64,
    control: Arc<StdUnixStream>,
    client: Client<Connector, Body>,
    /// Header that marks requests with the account's key.
    pub authorization: HeaderValue,
    users: AtomicUsize,
    seen: Mutex<Seen>,
    /// Whether the front has requested its exit.
    pub is_stopping: AtomicBool,
    /// Cancelled when its control socket closes.
    pub ended: CancellationToken,
    /// Whether it was killed because it did not report.
    pub is_stalled: AtomicBool,
    /// How it ended, once it is gone.
    pub how: SetOnce<String>,
    /// Its place, freed when it is gone. Responses may hold the worker longer.
    pub slot: Mutex<Option<OwnedSemaphorePermit>>,
}

#[derive(Clone, Copy)]
pub(super) struct Seen {
    /// The last use.
    pub used: Instant,
    /// The same by `clock`.
    used_at: u64,
    pub report: Report,
    pub reported: Instant,
}

/// Notices a worker that no longer reports.
pub(super) struct Watch {
    looked: Instant,
    /// Silence before this is not the worker's.
    since: Instant,
}

/// A use of a worker. Meanwhile, the worker is not stopped as idle.
pub(super) struct User(pub Arc<Worker>, bool);

impl Worker {
    pub(super) fn new(
        id: u64,
        control: StdUnixStream,
        authorization: HeaderValue,
        slot: Option<OwnedSemaphorePermit>,
    ) -> io::Result<(Arc<Self>, UnixStream)> {
        control.set_nonblocking(true)?;
        let reports = UnixStream::from_std(control.try_clone()?)?;
        let control = Arc::new(control);
        let now = Instant::now();
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(MAX_IDLE)
            .http1_max_buf_size(MAX_HEAD * 2)
            .build(Connector(Arc::clone(&control)));
        let worker = Arc::new(Self {
            id,
            control,
            client,
            authorization,
            users: AtomicUsize::new(0),
            seen: Mutex::new(Seen {
                used: now,
                used_at: clock(),
                report: Report::default(),
                reported: now,
            }),
            is_stopping: AtomicBool::new(false),
            ended: CancellationToken::new(),
            is_stalled: AtomicBool::new(false),
            how: SetOnce::new(),
            slot: Mutex::new(slot),
        });
        Ok((worker, reports))
    }

    pub(super) fn tell(&self, order: &Order) -> io::Result<()> {
        send(&*self.control, order, &[])
    }

    /// Requests its exit. Waits while it does not read the front's messages.
    pub(super) async fn stop(&self) {
        // Fails if it has exited.
        let _ = patiently(|| self.tell(&Order::Stop)).await;
    }

    pub(super) async fn ask(&self, request: Request<Body>) -> Result<Response<Incoming>, Error> {
        self.client.request(request).await
    }

    /// Opens a connection of this process's own.
    pub(super) fn connect(&self) -> io::Result<StdUnixStream> {
        connect(&self.control)
    }

    /// Reads the worker's reports until it exits.
    pub(super) async fn listen(&self, mut reports: UnixStream, report: impl Fn(Report)) {
        let mut text = Vec::new();
        while let Ok(length) = reports.read_u32_le().await {
            if length > MAX_REPORT {
                break;
            }
            text.resize(length as usize, 0);
            if reports.read_exact(&mut text).await.is_err() {
                break;
            }
            let Ok(told) = serde_json::from_slice(&text) else {
                break;
            };
            report(told);
            let mut seen = self.lock();
            seen.report = told;
            seen.reported = Instant::now();
        }
        self.ended.cancel();
    }

    pub(super) fn use_it(self: &Arc<Self>) -> User {
        self.users.fetch_add(1, Ordering::AcqRel);
        User(Arc::clone(self), true)
    }

    pub(super) fn is_used(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    /// How long it has been unused, if its exit loses nothing.
    pub(super) fn idle_for(&self) -> Option<Duration> {
        // First: a use is noted before it ends.
        if self.is_used() {
            return None;
        }
        let seen = self.seen();
        // What the worker saw before the last use ended is outdated.
        let is_idle = seen.report.is_idle && seen.report.at > seen.used_at;
        is_idle.then(|| seen.used.elapsed())
    }

    pub(super) fn seen(&self) -> Seen {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }
}

impl Watch {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            looked: now,
            since: now,
        }
    }

    /// Whether a worker has stalled. Called every second or more often; if not, this process was
    /// paused, and could not read reports.
    pub(super) fn is_stalled(&mut self, seen: Seen, now: Instant) -> bool {
        if now.duration_since(self.looked) > LATE {
            self.since = now;
        }
        self.looked = now;
        seen.report.is_stuck || now.duration_since(self.since.max(seen.reported)) > STALL
    }
}

impl User {
    /// Makes this a use after which the worker has been idle as long as before.
    pub(super) fn unnoticed(mut self) -> Self {
        self.1 = false;
        self
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if self.1 {
            let mut seen = self.0.lock();
            seen.used = Instant::now();
            seen.used_at = clock();
        }
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A new key for a worker, and the header that has it.
pub(super) fn new_key(account: &str) -> io::Result<(Key, HeaderValue)> {
    let (key, text) = Key::generate(account, KeyLimits::default())?;
    let mut authorization =
        HeaderValue::try_from(format!("Bearer {text}")).map_err(io::Error::other)?;
    authorization.set_sensitive(true);
    Ok((key, authorization))
}

/// Sends a message to a worker, again and again while it does not read.
async fn patiently<T>(mut send: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let [mut pause, most] = AGAIN;
    loop {
        match send() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(pause).await;
                pause = most.min(pause * 2);
            }
            done => return done,
        }
    }
}

/// Opens connections to a worker, by sending it one end of a pair of sockets.
#[derive(Clone)]
struct Connector(Arc<StdUnixStream>);

fn connect(control: &StdUnixStream) -> io::Result<StdUnixStream> {
    let (near, far) = StdUnixStream::pair()?;
    let far = OwnedFd::from(far);
    send(control, &Order::Connection, &[far.as_fd()])?;
    Ok(near)
}

impl Service<Uri> for Connector {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let control = Arc::clone(&self.0);
        Box::pin(async move {
            // A worker that never reads its messages must not collect attempts here.
            let connected = tokio::time::timeout(CONNECT, patiently(|| connect(&control)));
            let near = connected.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            near.set_nonblocking(true)?;
            UnixStream::from_std(near).map(TokioIo::new)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::account::Account;

    #[test]
    fn a_worker_stalls_only_while_its_front_runs() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut watch = Watch::new(begin);
        let stall = STALL.as_secs();
        let silent = |reported| Seen {
            used: begin,
            used_at: 0,
            report: Report::default(),
            reported: at(reported),
        };
        let mut is_stalled = |reported, now| watch.is_stalled(silent(reported), at(now));
        assert!((1..=stall).all(|now| !is_stalled(0, now)));
        assert!(is_stalled(0, stall + 1));
        assert!(!is_stalled(stall + 1, stall + 2));
        // Paused for an hour.
        assert!((3600..=3600 + stall).all(|now| !is_stalled(stall + 2, now)));
        assert!(is_stalled(stall + 2, 3601 + stall));
    }

    /// Otherwise, a session that the last request has made would be lost with the worker.
    #[tokio::test]
    async fn what_a_worker_saw_before_its_last_use_does_not_count() {
        let (near, _far) = StdUnixStream::pair().unwrap();
        let (_, authorization) = new_key("one").unwrap();
        let (worker, _reports) = Worker::new(1, near, authorization, None).unwrap();
        let account = Account::new("one", &[0; 64]);
        account.set_live(Arc::clone(&worker));
        let report = |at| {
            worker.lock().report = Report {
                at,
                is_idle: true,
                ..Report::default()
            };
        };
        let early = clock();
        let user = worker.use_it();
        report(clock());
        assert!(worker.idle_for().is_none());
        drop(user);
        for at in [early, worker.seen().report.at] {
            report(at);
            assert!(worker.idle_for().is_none());
            assert!(account.take(1, false).is_none());
        }
        report(clock());
        assert!(worker.idle_for().is_some());
        assert!(account.take(1, false).is_some());
    }

    /// A worker that reads no messages cannot collect attempts to connect in the front.
    #[tokio::test]
    async fn an_attempt_to_connect_ends() {
        let (near, _far) = StdUnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let control = Arc::new(near);
        while connect(&control).is_ok() {}
        let error = Connector(control).call(Uri::from_static("http://worker/")).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_worker_that_says_that_it_is_stuck_has_stalled() {
        let now = Instant::now();
        let seen = Seen {
            used: now,
            used_at: 0,
            report: Report {
                is_stuck: true,
                ..Report::default()
            },
            reported: now,
        };
        assert!(Watch::new(now).is_stalled(seen, now));
    }
}
