//! Starts workers on demand, stops idle ones, and replaces workers that exit.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use belljar::store::{Condition, Put, Store};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::account::Account;
use super::audit;
use super::channel::send;
use super::hello::{Hello, Order};
use super::log::{self, Log};
use super::relay;
use super::spawner::{End, Spawner};
use super::worker::{User, Watch, Worker, new_key};
use crate::audit::AuditLog;
use crate::http::auth::Keys;
use crate::lock::lock;
use crate::service::owner::KeyLimits;

/// The account of the worker that tests whether code runs. No key has this name.
pub(super) const NOBODY: &str = "";
/// Time beyond the grace that a worker may take to save its sessions.
const LAST_STATES: Duration = Duration::from_secs(9);
/// How long to read records of workers that have exited.
const LAST_RECORDS: Duration = Duration::from_secs(2);
/// How long an account waits for another's worker to be put away.
const PATIENCE: Duration = Duration::from_secs(5);

/// How workers are started.
#[non_exhaustive]
pub struct WorkerOptions {
    /// Settings of the command, passed to each worker.
    pub settings: serde_json::Value,
    /// The state directory, in which each account has its own folder.
    pub state: Option<PathBuf>,
    /// The store, in which each account has its own folder.
    pub store: Option<Arc<dyn Store>>,
    /// Time without requests after which a worker exits, if that loses nothing. Default 5 minutes.
    pub idle: Duration,
    /// Maximum number of workers. Default 256.
    pub max: usize,
    /// How long runs may continue when a worker is stopped. Default 30 seconds.
    pub grace: Duration,
    /// Called with the account and each line that its worker writes to standard error. By default,
    /// lines are logged.
    pub log: Log,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            settings: serde_json::Value::Null,
            state: None,
            store: None,
            idle: Duration::from_mins(5),
            max: 256,
            grace: Duration::from_secs(30),
            log: Arc::new(|account, said| {
                tracing::warn!(target: "belljar_server::worker", account, said);
            }),
        }
    }
}

/// Why a request cannot be forwarded.
#[derive(Debug)]
pub(super) enum Trouble {
    /// How the account's last worker ended.
    Ended(String),
    /// The worker cannot be started.
    Failed(String),
    /// Too many accounts have workers.
    Full,
    /// The server stops.
    Stopping,
}

pub(super) struct Workers {
    spawner: Spawner,
    options: WorkerOptions,
    audit: Option<AuditLog>,
    /// Readers of workers' records.
    passing: TaskTracker,
    keys: Keys,
    /// The secret from which the accounts' secrets are derived.
    master: [u8; 64],
    accounts: Mutex<HashMap<String, Arc<Account>>>,
    slots: Arc<Semaphore>,
    next: AtomicU64,
    stopping: CancellationToken,
    /// Cancelled when the spawner has exited.
    pub broken: CancellationToken,
}

impl Workers {
    pub(super) async fn new(
        spawner: Spawner,
        keys: Keys,
        options: WorkerOptions,
        audit: Option<AuditLog>,
    ) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            spawner,
            master: master(options.store.as_deref()).await?,
            slots: Arc::new(Semaphore::new(options.max.min(Semaphore::MAX_PERMITS))),
            options,
            audit,
            passing: TaskTracker::new(),
            keys,
            accounts: Mutex::default(),
            next: AtomicU64::new(1),
            stopping: CancellationToken::new(),
            broken: CancellationToken::new(),
        }))
    }

    /// The account with this name, which must have a key.
    pub(super) fn account(&self, name: &str) -> Arc<Account> {
        let mut accounts = lock(&self.accounts);
        if let Some(known) = accounts.get(name) {
            return Arc::clone(known);
        }
        let made = Arc::new(Account::new(name, &self.master));
        accounts.insert(name.to_owned(), Arc::clone(&made));
        made
    }

    pub(super) fn all(&self) -> Vec<Arc<Account>> {
        let accounts = lock(&self.accounts);
        accounts.values().cloned().collect()
    }

    /// Uses the account's worker, and starts it if necessary.
    pub(super) async fn enter(self: &Arc<Self>, account: &Arc<Account>) -> Result<User, Trouble> {
        if let Some(user) = account.enter() {
            return Ok(user);
        }
        let (all, account) = (Arc::clone(self), Arc::clone(account));
        // A client that disconnects does not interrupt the start.
        let started = tokio::spawn(async move { all.start(&account).await });
        started.await.unwrap_or_else(|error| Err(Trouble::Failed(error.to_string())))
    }

    async fn start(self: &Arc<Self>, account: &Arc<Account>) -> Result<User, Trouble> {
        let _turn = account.turn.lock().await;
        if self.stopping.is_cancelled() {
            return Err(Trouble::Stopping);
        }
        if let Some(user) = account.enter() {
            return Ok(user);
        }
        if let Some(ended) = account.live() {
            self.bury(account, &ended).await;
        }
        if let Some(how) = account.take_death() {
            return Err(Trouble::Ended(how));
        }
        let slot = self.slot(account).await?;
        self.begin(account, slot).await.map_err(|error| {
            tracing::error!(account = account.name, %error, "a worker cannot be started");
            Trouble::Failed(error.to_string())
        })
    }

    /// Reserves a place for a worker. If necessary, stops the worker that was idle longest.
    async fn slot(
        self: &Arc<Self>,
        account: &Account,
    ) -> Result<Option<OwnedSemaphorePermit>, Trouble> {
        if account.name == NOBODY {
            return Ok(None);
        }
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(Some(slot));
        }
        let idle = |other: Arc<Account>| {
            let worker = other.live().filter(|_| other.name != NOBODY)?;
            Some((worker.idle_for()?, other, worker))
        };
        let longest = self.all().into_iter().filter_map(idle).max_by_key(|(time, ..)| *time);
        let Some((_, other, worker)) = longest else {
            return Err(Trouble::Full);
        };
        tokio::spawn(Arc::clone(self).put_away(other, worker, false));
        let waiting = Arc::clone(&self.slots).acquire_owned();
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(Ok(slot)) => Ok(Some(slot)),
            _ => Err(Trouble::Full),
        }
    }

    async fn begin(
        self: &Arc<Self>,
        account: &Arc<Account>,
        slot: Option<OwnedSemaphorePermit>,
    ) -> io::Result<User> {
        let (ours, theirs) = StdUnixStream::pair()?;
        let (log, _) = log::pipe(&account.name, Arc::clone(&self.options.log))?;
        let (key, authorization) = new_key(&account.name)?;
        // The worker that tests whether code runs keeps no sessions.
        let is_test = account.name == NOBODY;
        let folder = |root: &PathBuf| root.join("accounts").join(&account.folder);
        let hello = Order::Hello(Box::new(Hello {
            account: account.name.clone(),
            sha256: HEXLOWER.encode(&key.sha256),
            limits: self.limits(account),
            fuel: account.fuel(),
            sandboxes: account.sandboxes.clone(),
            state: self.options.state.as_ref().filter(|_| !is_test).map(folder),
            settings: self.options.settings.clone(),
            has_audit: self.audit.is_some() && !is_test,
        }));
        let mut sockets = Vec::new();
        let mut socket = || {
            let (near, far) = StdUnixStream::pair()?;
            near.set_nonblocking(true)?;
            sockets.push(far);
            UnixStream::from_std(near)
        };
        if let Some(log) = self.audit.as_ref().filter(|_| !is_test) {
            self.passing.spawn(audit::pass(socket()?, account.name.clone(), log.clone()));
        }
        if let Some(store) = self.options.store.as_ref().filter(|_| !is_test) {
            tokio::spawn(relay::serve(socket()?, Arc::clone(store), account.folder.clone()));
        }
        let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        send(&ours, &hello, &sockets)?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let spawner = self.spawner.clone();
        let begun = tokio::task::spawn_blocking(move || spawner.begin(id, theirs.into(), log));
        let pid = begun.await.map_err(io::Error::other)?.inspect_err(|error| self.note(error))?;
        tracing::info!(account = account.name, pid, "a worker was started");
        let (worker, reports) = Worker::new(id, ours, authorization, slot)?;
        let user = worker.use_it();
        account.set_live(Arc::clone(&worker));
        tokio::spawn(Arc::clone(self).attend(Arc::clone(account), worker, reports));
        Ok(user)
    }

    fn limits(&self, account: &Account) -> KeyLimits {
        self.keys.owner_named(&account.name).map(|owner| owner.limits()).unwrap_or_default()
    }

    /// Supervises a worker until it exits.
    async fn attend(
        self: Arc<Self>,
        account: Arc<Account>,
        worker: Arc<Worker>,
        reports: UnixStream,
    ) {
        let mut told = self.limits(&account);
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        let mut watch = Watch::new(Instant::now());
        let listening = worker.listen(reports, |report| account.note_fuel(report));
        tokio::pin!(listening);
        loop {
            tokio::select! {
                () = &mut listening => break,
                _ = tick.tick() => {}
            }
            let is_stalled = watch.is_stalled(worker.seen(), Instant::now());
            if worker.is_stopping.load(Ordering::Acquire) {
                continue;
            }
            let is_known = account.name == NOBODY || self.keys.owner_named(&account.name).is_some();
            let is_over = worker.idle_for().is_some_and(|time| time >= self.options.idle);
            if !is_known || (is_over && account.name != NOBODY) {
                let (all, account, worker) =
                    (Arc::clone(&self), Arc::clone(&account), Arc::clone(&worker));
                tokio::spawn(all.put_away(account, worker, !is_known));
            } else if is_stalled {
                worker.is_stalled.store(true, Ordering::Release);
                let _ = self.end(worker.id).await;
            }
            let limits = self.limits(&account);
            if limits != told && worker.tell(&Order::Limits(limits.clone())).is_ok() {
                told = limits;
            }
        }
        let _turn = account.turn.lock().await;
        self.bury(&account, &worker).await;
    }

    /// Removes a worker that has exited. The caller holds the account's turn.
    async fn bury(&self, account: &Account, worker: &Worker) {
        if account.take(worker.id, true).is_some() {
            self.finish(account, worker).await;
        }
    }

    /// Kills a worker if it has not exited, frees its place and notes how it ended. Not cancelled:
    /// the callers are tasks of their own.
    async fn finish(&self, account: &Account, worker: &Worker) {
        let End {
            mut how,
            is_success,
        } = self.end(worker.id).await;
        drop(lock(&worker.slot).take());
        if worker.is_stalled.load(Ordering::Acquire) {
            "it did not respond any more".clone_into(&mut how);
        }
        if is_success && worker.is_stopping.load(Ordering::Acquire) {
            tracing::info!(account = account.name, "a worker was put away");
        } else {
            tracing::error!(account = account.name, how, "a worker has ended");
            account.set_death(Some(how.clone()));
        }
        // Called once.
        let _ = worker.how.set(how);
    }

    /// Stops a worker, which saves its sessions.
    async fn put_away(
        self: Arc<Self>,
        account: Arc<Account>,
        worker: Arc<Worker>,
        is_forced: bool,
    ) {
        let _turn = account.turn.lock().await;
        if account.take(worker.id, is_forced).is_none() {
            return;
        }
        worker.is_stopping.store(true, Ordering::Release);
        let time = self.options.grace + LAST_STATES;
        let stopped = async {
            worker.stop().await;
            worker.ended.cancelled().await;
        };
        if tokio::time::timeout(time, stopped).await.is_err() {
            tracing::error!(account = account.name, "a worker does not stop, and is killed");
        }
        self.finish(&account, &worker).await;
    }

    async fn end(&self, id: u64) -> End {
        let spawner = self.spawner.clone();
        let ended = tokio::task::spawn_blocking(move || spawner.end(id)).await;
        match ended.map_err(io::Error::other).flatten() {
            Ok(end) => end,
            Err(error) => {
                self.note(&error);
                End::failure(error.to_string())
            }
        }
    }

    /// Detects that the spawner has exited.
    fn note(&self, error: &io::Error) {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
        let kinds = [BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock];
        if kinds.contains(&error.kind()) {
            tracing::error!(%error, "the process that starts workers is gone");
            self.broken.cancel();
        }
    }

    /// Stops all workers, and starts no more.
    pub(super) async fn stop(self: &Arc<Self>) {
        self.stopping.cancel();
        let stopping: Vec<_> = self
            .all()
            .into_iter()
            .map(|account| {
                let all = Arc::clone(self);
                tokio::spawn(async move {
                    // Wait for a start in progress.
                    drop(account.turn.lock().await);
                    if let Some(worker) = account.live() {
                        all.put_away(account, worker, true).await;
                    }
                })
            })
            .collect();
        futures_util::future::join_all(stopping).await;
        // Workers that have exited write no more.
        self.passing.close();
        let _ = tokio::time::timeout(LAST_RECORDS, self.passing.wait()).await;
    }
}

/// The secret from which the accounts' secrets are derived. Servers with the same store share it.
async fn master(store: Option<&dyn Store>) -> io::Result<[u8; 64]> {
    const KEY: &str = "secrets/accounts";
    let mut new = [0; 64];
    getrandom::fill(&mut new).map_err(io::Error::other)?;
    let Some(store) = store else {
        return Ok(new);
    };
    let put = store.put(KEY, Bytes::copy_from_slice(&new), Condition::Absent).await;
    if let Put::Written(_) = put.map_err(io::Error::other)? {
        return Ok(new);
    }
    let there = store.get(KEY, 64).await.map_err(io::Error::other)?;
    let secret = there.and_then(|blob| blob.bytes.as_ref().try_into().ok());
    secret
        .ok_or_else(|| io::Error::other(format!("{KEY} in the store is not a secret of 64 bytes")))
}

#[cfg(test)]
mod tests {
    use axum::extract::Request;

    use super::super::pass::pass;
    use super::super::whose::Whose;
    use super::*;
    use crate::http::app::Settings;
    use crate::http::auth::Key;

    /// Workers of two accounts, each a shell with `script`.
    async fn workers(script: &'static str, max: usize) -> Arc<Workers> {
        let key = |name| Key::generate(name, KeyLimits::default()).unwrap().0;
        let options = WorkerOptions {
            max,
            ..WorkerOptions::default()
        };
        let keys = Keys::of(vec![key("one"), key("two")]);
        Workers::new(Spawner::of_shell(script).0, keys, options, None).await.unwrap()
    }

    #[tokio::test]
    async fn a_worker_that_is_gone_frees_its_place_although_a_response_holds_it() {
        let workers = workers("sleep .3; exit 3", 1).await;
        let (one, two) = (workers.account("one"), workers.account("two"));
        let held = workers.enter(&one).await.unwrap();
        assert!(matches!(workers.enter(&two).await, Err(Trouble::Full)));
        assert_eq!(one.autopsy(&held.0).await.unwrap(), "it ended with status 3");
        workers.enter(&two).await.unwrap();
        drop(held);
    }

    #[tokio::test]
    async fn a_worker_that_fails_while_it_stops_is_told_of() {
        let workers = workers("sleep .3; exit 3", 9).await;
        let one = workers.account("one");
        drop(workers.enter(&one).await.unwrap());
        workers.stop().await;
        assert_eq!(one.take_death().unwrap(), "it ended with status 3");
    }

    /// It may have been sent connections faster than it accepts them.
    #[tokio::test]
    async fn a_worker_that_reads_later_is_stopped_regularly() {
        let workers = workers("sleep .3; timeout 1 cat > /dev/null; exit 0", 9).await;
        let one = workers.account("one");
        let user = workers.enter(&one).await.unwrap();
        while user.0.tell(&Order::Connection).is_ok() {}
        workers.stop().await;
        assert_eq!(user.0.how.get().unwrap(), "it ended with status 0");
        assert_eq!(one.take_death(), None);
    }

    #[tokio::test]
    async fn requests_that_wait_for_a_start_are_told_how_it_failed() {
        let workers = workers("sleep .3; exit 3", 9).await;
        let settings = Settings::default();
        let begun = Instant::now();
        let asked = (0..9).map(|_| {
            let account = workers.account("one");
            let whose = Whose::of_sandbox(account, &workers.keys).unwrap();
            pass(&workers, &settings, whose, Request::default())
        });
        for answer in futures_util::future::join_all(asked).await {
            assert_eq!(answer.status(), 502);
            let body = axum::body::to_bytes(answer.into_body(), 9999).await.unwrap();
            let body = String::from_utf8_lossy(&body);
            assert!(body.contains("worker_ended") && body.contains("status 3"), "{body}");
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}
