//! Startup, maintenance and shutdown of a server.

mod inherited;
mod notify;
mod worker;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_recursion::async_recursion as boxed;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::audit::{Event, Record};
use crate::front::{Front, Shutdown, Spawner, WorkerChannel, WorkerOptions};
use crate::http::app::{App, Settings};
use crate::http::auth::Keys;
use crate::http::keyfile::{self, KeysError};
use crate::http::listen::{self, Address, Listener, Serving};
#[cfg(feature = "tls")]
use crate::http::tls::Tls;
use crate::routes::{faces, front_router, router};
use crate::service::ServiceBuilder;
use notify::ServiceManager;
pub use worker::serve_worker;

/// Time that interrupted runs have to end, including the engine's grace.
const LAST_RUNS: Duration = Duration::from_secs(2);
/// Time to save sessions to a directory or store after the grace, including interrupted runs.
const LAST_STATES: Duration = Duration::from_secs(5);
/// Time after the grace for workers to save their sessions and exit.
const LAST_WORKERS: Duration = Duration::from_secs(10);
/// Interval of checks whether the last run has ended.
const LOOK: Duration = Duration::from_millis(20);
/// Interval of searching the store for unused sessions.
const STORE_TICK: Duration = Duration::from_hours(1);
/// Interval of maintenance: expiry, and reloading of keys.
const TICK: Duration = Duration::from_secs(1);
/// Sessions unused for this long are closed.
const MAX_IDLE: Duration = Duration::from_hours(24);

/// A server that is listening. [`run`](Self::run) serves requests.
pub struct Server {
    app: App,
    listener: Listener,
    address: Address,
    /// Whether the socket was inherited from the parent process.
    is_inherited: bool,
    state: Option<PathBuf>,
    keys: Option<PathBuf>,
    grace: Duration,
    manager: ServiceManager,
    #[cfg(feature = "tls")]
    tls: Option<Arc<Tls>>,
    front: Option<Front>,
}

impl Server {
    /// Listens on the socket passed by a service manager (`LISTEN_FDS`), or else on an address.
    /// Port 0 selects a free port. A Unix socket is accessible only to its owner, and replaces a
    /// stale socket.
    ///
    /// # Errors
    ///
    /// Fails if the address is not available, or if other users could reach it without a key.
    pub async fn bind(app: App, address: impl Into<Address>) -> io::Result<Self> {
        let inherited = inherited::socket()?;
        let is_inherited = inherited.is_some();
        let (listener, address) = match (inherited, address.into()) {
            (Some(listener), asked) => {
                let address = listener.address()?;
                check_inherited(&app, &asked, &address)?;
                (listener, address)
            }
            (None, Address::Tcp(address)) => {
                let listener = TcpListener::bind(address).await?;
                let address = Address::Tcp(listener.local_addr()?);
                (Listener::Tcp(listener), address)
            }
            (None, Address::Unix(path)) => {
                (Listener::Unix(bind_unix(&path).await?), Address::Unix(path))
            }
        };
        let is_public = matches!(address, Address::Tcp(address) if !address.ip().is_loopback());
        if is_public && !app.keys().are_needed() {
            let text = format!("other users could reach {address} without a key");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        Ok(Self {
            is_inherited,
            ..Self::new(app, listener, address)
        })
    }

    /// Creates the server of a worker, which gets its connections from the front.
    ///
    /// # Errors
    ///
    /// Fails if the front's first message is invalid, or a thread cannot be started.
    pub fn of_worker(
        channel: WorkerChannel,
        service: ServiceBuilder,
        settings: Settings,
    ) -> io::Result<(Self, Shutdown)> {
        let (app, listener, shutdown) = channel.open(service, settings)?;
        let server = Self {
            is_inherited: true,
            ..Self::new(app, listener, Address::Unix(PathBuf::new()))
        };
        Ok((server, shutdown))
    }

    fn new(app: App, listener: Listener, address: Address) -> Self {
        Self {
            app,
            listener,
            address,
            is_inherited: false,
            state: None,
            keys: None,
            grace: Duration::from_secs(30),
            manager: ServiceManager::of_process(),
            #[cfg(feature = "tls")]
            tls: None,
            front: None,
        }
    }

    /// Closes open descriptors, such as a socket passed by a service manager, in programs that this
    /// process starts. Call this before the first one.
    ///
    /// # Errors
    ///
    /// Fails if the descriptors cannot be listed.
    pub fn close_on_exec() -> io::Result<()> {
        inherited::close_on_exec()
    }

    /// Gives each account its own process. This process forwards requests and runs no code.
    ///
    /// # Errors
    ///
    /// Fails if the store fails, or the first worker cannot run code.
    #[boxed]
    pub async fn isolate(mut self, spawner: Spawner, options: WorkerOptions) -> io::Result<Self> {
        let service = self.app.service();
        service.stop();
        let nobody = App::new(service.clone(), Keys::of(Vec::new()), self.app.settings().clone());
        let own = faces(&nobody).with_state(nobody);
        self.front = Some(Front::new(self.app.clone(), own, spawner, options).await?);
        Ok(self)
    }

    /// Saves sessions to this directory at shutdown, and restores them from it at startup.
    #[must_use]
    pub fn state(mut self, dir: impl Into<PathBuf>) -> Self {
        self.state = Some(dir.into());
        self
    }

    /// Reloads the keys when this file changes.
    #[must_use]
    pub fn keys(mut self, file: impl Into<PathBuf>) -> Self {
        self.keys = Some(file.into());
        self
    }

    /// Describes the process's lockdown in `/readyz`, such as `Landlock ABI 7, seccomp`.
    #[must_use]
    pub fn lockdown(self, held: impl Into<String>) -> Self {
        // Set once.
        let _ = self.app.lockdown().set(held.into());
        self
    }

    /// Sets how long runs may continue during shutdown. Default 30 seconds.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Requires TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(Arc::new(tls));
        self
    }

    #[cfg(feature = "tls")]
    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    #[cfg(not(feature = "tls"))]
    fn scheme(&self) -> &'static str {
        "http"
    }

    /// The URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        let base = &self.app.settings().base_path;
        match &self.address {
            Address::Tcp(address) => format!("{}://{address}{base}", self.scheme()),
            Address::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// Serves requests until `stop`. Then it accepts no more connections or runs, and lets runs in
    /// progress finish within the grace. Remaining runs are interrupted. All sessions are saved to
    /// the state directory or the store, and closed. Shutdown takes at most 5 seconds longer than
    /// the grace.
    ///
    /// # Errors
    ///
    /// Fails if the state directory cannot be read at startup or written at shutdown.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> io::Result<()> {
        self.serve(pin!(stop)).await
    }

    #[boxed]
    async fn serve(self, stop: Pin<&mut (dyn Future<Output = ()> + Send)>) -> io::Result<()> {
        let app = self.app.clone();
        let service = app.service().clone();
        if let Some(dir) = &self.state {
            let count = service.load(dir).await?;
            tracing::info!(count, "sessions were restored");
        }
        // A worker's front has records of its own.
        let audit = service.audit().filter(|_| service.sandboxes().is_none()).cloned();
        let note = |event| {
            if let Some(audit) = &audit {
                audit.write(Record::new(event));
            }
        };
        note(Event::ServerStarted);
        let tick = AbortOnDropHandle::new(tokio::spawn(tick(self.app.clone(), self.keys)));
        let relieved = service.clone();
        let _relief = AbortOnDropHandle::new(tokio::spawn(async move { relieved.relieve().await }));
        #[cfg(feature = "tls")]
        let _refresh =
            self.tls.clone().map(|tls| AbortOnDropHandle::new(tokio::spawn(refresh(tls))));
        let stopping = CancellationToken::new();
        let connections = Serving {
            write_timeout: self.app.settings().write_timeout,
            router: match &self.front {
                Some(front) => front_router(self.app, front),
                None => router(self.app),
            },
            #[cfg(feature = "tls")]
            tls: self.tls,
        };
        let mut serving = tokio::spawn(listen::serve(self.listener, connections, stopping.clone()));
        self.manager.say("READY=1");
        let is_broken = tokio::select! {
            () = stop => false,
            _ = &mut serving => false,
            () = broken(self.front.as_ref()) => true,
        };
        self.manager.say("STOPPING=1");
        // Workers have the same grace, and then save their sessions.
        let grace = match &self.front {
            Some(_) => self.grace + LAST_WORKERS,
            None => self.grace,
        };
        let end = Instant::now() + grace + LAST_STATES;
        stopping.cancel();
        app.stopping().cancel();
        service.stop();
        let front = self.front;
        let mut quiet = Box::pin(async {
            if let Some(front) = front {
                front.stop().await;
            }
            let _ = (&mut serving).await;
            // Some runs have no connection, such as runs of a closed notebook.
            while service.under_way() > 0 {
                tokio::time::sleep(LOOK).await;
            }
        });
        if tokio::time::timeout(grace, &mut quiet).await.is_err() {
            service.interrupt_all();
            let _ = tokio::time::timeout(LAST_RUNS, &mut quiet).await;
        }
        drop(quiet);
        app.ended().cancel();
        serving.abort();
        drop(tick);
        let saving = async {
            match &self.state {
                Some(dir) => service.save(dir, end).await.map(drop),
                None => Ok(()),
            }
        };
        // Runs that are finishing still release their sessions to the store. Sessions not written
        // in time are lost when this server's lease expires, and their next user gets an error.
        let settling = async {
            if tokio::time::timeout_at(end.into(), service.settled()).await.is_err() {
                tracing::error!("some changes were not written to the store");
            }
        };
        let (saved, ()) = tokio::join!(saving, settling);
        service.close_all();
        if let Some(audit) = service.audit() {
            audit.write_refusals();
        }
        note(Event::ServerStopped);
        if let Some(audit) = service.audit().cloned() {
            // Fails only if the thread panicked.
            let _ = tokio::task::spawn_blocking(move || audit.flush()).await;
        }
        if let (Address::Unix(path), false) = (&self.address, self.is_inherited) {
            // It may already be removed.
            let _ = std::fs::remove_file(path);
        }
        if is_broken {
            return Err(io::Error::other("the process that starts workers has exited"));
        }
        saved
    }
}

/// Waits until the front can start no more workers.
async fn broken(front: Option<&Front>) {
    match front {
        Some(front) => front.broken().await,
        None => std::future::pending().await,
    }
}

/// Checks an inherited socket: it must have the requested kind, and other users must not reach it
/// without a key.
fn check_inherited(app: &App, asked: &Address, inherited: &Address) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let refuse = |text: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    match (asked, inherited) {
        (Address::Unix(_), Address::Tcp(address)) => {
            refuse(format!("a Unix socket was requested, but {address} was passed"))
        }
        (_, Address::Unix(path)) if !app.keys().are_needed() => {
            let mode = std::fs::metadata(path)?.permissions().mode();
            // Connecting requires write permission.
            if mode & 0o022 == 0 {
                return Ok(());
            }
            let mode = mode & 0o777;
            refuse(format!(
                "other users could connect to {} of mode {mode:o} without a key: set \
                 SocketMode=0600, or use keys",
                path.display()
            ))
        }
        _ => Ok(()),
    }
}

/// Binds a socket that only its owner can ever connect to: it is bound in a private directory, then
/// moved.
#[boxed]
async fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    if let Ok(found) = std::fs::symlink_metadata(path) {
        let is_used = tokio::net::UnixStream::connect(path).await.is_ok();
        if is_used || !found.file_type().is_socket() {
            let text = format!("{} exists already, and is in use or not a socket", path.display());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
        }
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let private = tempfile::tempdir_in(folder.unwrap_or(Path::new(".")))?;
    let hidden = private.path().join("s");
    let listener = UnixListener::bind(&hidden)?;
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&hidden, path)?;
    Ok(listener)
}

/// Reloads certificates when they change.
#[cfg(feature = "tls")]
async fn refresh(tls: Arc<Tls>) {
    loop {
        tokio::time::sleep(TICK).await;
        match tls.refresh() {
            Ok(false) => {}
            Ok(true) => tracing::info!("the certificate was reloaded"),
            Err(error) => tracing::error!(%error, "cannot reload the certificate"),
        }
    }
}

/// Periodic maintenance: removes expired objects and reloads changed keys.
async fn tick(app: App, keys: Option<PathBuf>) {
    // A file that takes the place of another may be as old as that one.
    let changed = |path: &Path| {
        let now = path.metadata().ok()?;
        Some((now.modified().ok(), now.ctime(), now.ctime_nsec(), now.ino()))
    };
    // They may have changed since they were read.
    let mut known = None;
    let mut store_swept = Instant::now();
    loop {
        tokio::time::sleep(TICK).await;
        if store_swept.elapsed() >= STORE_TICK {
            store_swept = Instant::now();
            let service = app.service().clone();
            tokio::spawn(async move { service.sweep_store(MAX_IDLE).await });
        }
        let service = app.service().clone();
        // Blocking, because it may delete directories.
        let _ = tokio::task::spawn_blocking(move || service.sweep(MAX_IDLE)).await;
        app.keys().end_expired(SystemTime::now());
        let Some(path) = &keys else {
            continue;
        };
        let now = changed(path);
        if now == known {
            continue;
        }
        known = now;
        match keyfile::read(path) {
            Ok(keys) => {
                tracing::info!(count = keys.len(), "the keys were reloaded");
                app.keys().replace(keys);
            }
            Err(error) => {
                tracing::error!(%error, "cannot reload the keys");
                // It may be readable the next time, although it has not changed.
                if matches!(error, KeysError::Io { .. }) {
                    known = None;
                }
            }
        }
    }
}
