//! A server from its start to its end.

mod inherited;
mod notify;

use std::io;
use std::path::{Path, PathBuf};
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::http::app::App;
use crate::http::keyfile;
use crate::http::listen::{self, Address, Listener, Serving};
#[cfg(feature = "tls")]
use crate::http::tls::Tls;
use crate::routes::router;
use notify::ServiceManager;

/// Time that interrupted runs have to end, their grace in the engine included.
const LAST_RUNS: Duration = Duration::from_secs(2);
/// Time that writing sessions may take beyond the grace, interrupted runs included, to a directory or a store.
const LAST_STATES: Duration = Duration::from_secs(5);
/// How often it is looked whether the last run has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How often the store is looked through for sessions that nobody uses.
const STORE_TICK: Duration = Duration::from_hours(1);
/// How often it is looked at what is over, and whether the keys have changed.
const TICK: Duration = Duration::from_secs(1);
/// A session that nobody has used for so long is closed.
const MAX_IDLE: Duration = Duration::from_hours(24);

/// A server that listens, and answers once it is [run](Self::run).
pub struct Server {
    app: App,
    listener: Listener,
    address: Address,
    /// The socket is that of whoever started this process.
    is_inherited: bool,
    state: Option<PathBuf>,
    keys: Option<PathBuf>,
    grace: Duration,
    manager: ServiceManager,
    #[cfg(feature = "tls")]
    tls: Option<Arc<Tls>>,
}

impl Server {
    /// Listens on the socket that a service manager has handed over (`LISTEN_FDS`), or else on an
    /// address; with port 0 on a free port. A Unix socket is readable and writable by its
    /// owner alone, and takes the place of one that nobody listens on any more.
    ///
    /// # Errors
    ///
    /// When the address cannot be had, or others can reach it and nobody needs a key.
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
            let text = format!("others may reach {address}, and nobody needs a key");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        Ok(Self {
            app,
            listener,
            address,
            is_inherited,
            state: None,
            keys: None,
            grace: Duration::from_secs(30),
            manager: ServiceManager::of_process(),
            #[cfg(feature = "tls")]
            tls: None,
        })
    }

    /// Keeps sessions over a restart: they are written to this directory at the end, and taken from there
    /// at the beginning.
    #[must_use]
    pub fn state(mut self, dir: impl Into<PathBuf>) -> Self {
        self.state = Some(dir.into());
        self
    }

    /// Reads the keys again when this file has changed.
    #[must_use]
    pub fn keys(mut self, file: impl Into<PathBuf>) -> Self {
        self.keys = Some(file.into());
        self
    }

    /// Has `/readyz` say what holds this process, such as `Landlock ABI 7, seccomp`.
    #[must_use]
    pub fn lockdown(self, held: impl Into<String>) -> Self {
        // It is said once.
        let _ = self.app.lockdown().set(held.into());
        self
    }

    /// Sets how long runs may go on when the server is to end. Default 30 seconds.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Speaks TLS with every client.
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

    /// Where it is reached.
    #[must_use]
    pub fn url(&self) -> String {
        let base = &self.app.settings().base_path;
        match &self.address {
            Address::Tcp(address) => format!("{}://{address}{base}", self.scheme()),
            Address::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// Answers until `stop` is ready. Then it takes no more connections and no more runs, and lets those
    /// that are under way end within the grace; what still runs then is interrupted. All sessions are
    /// written to the directory of the state, if there is one, or to the store, and closed. All of it takes at
    /// most 5 seconds more than the grace.
    ///
    /// # Errors
    ///
    /// When the directory of the state cannot be read at the beginning, or written at the end.
    pub async fn run(self, stop: impl Future<Output = ()>) -> io::Result<()> {
        let app = self.app.clone();
        let service = app.service().clone();
        if let Some(dir) = &self.state {
            let count = service.load(dir).await?;
            tracing::info!(count, "sessions were restored");
        }
        let tick = AbortOnDropHandle::new(tokio::spawn(tick(self.app.clone(), self.keys)));
        let relieved = service.clone();
        let _relief = AbortOnDropHandle::new(tokio::spawn(async move { relieved.relieve().await }));
        #[cfg(feature = "tls")]
        let _refresh =
            self.tls.clone().map(|tls| AbortOnDropHandle::new(tokio::spawn(refresh(tls))));
        let stopping = CancellationToken::new();
        let connections = Serving {
            write_timeout: self.app.settings().write_timeout,
            router: router(self.app),
            #[cfg(feature = "tls")]
            tls: self.tls,
        };
        let mut serving = tokio::spawn(listen::serve(self.listener, connections, stopping.clone()));
        self.manager.say("READY=1");
        tokio::select! {
            () = stop => {}
            _ = &mut serving => {}
        }
        self.manager.say("STOPPING=1");
        let end = Instant::now() + self.grace + LAST_STATES;
        stopping.cancel();
        app.stopping().cancel();
        service.stop();
        let mut quiet = Box::pin(async {
            let _ = (&mut serving).await;
            // Some runs have no connection, such as those of a notebook that was closed.
            while service.under_way() > 0 {
                tokio::time::sleep(LOOK).await;
            }
        });
        if tokio::time::timeout(self.grace, &mut quiet).await.is_err() {
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
        // Sessions of a store are given back by whoever used them last. What is not written in time is lost once
        // the lease of this server is over, and the next one to ask is told so.
        let settling = async {
            if tokio::time::timeout_at(end.into(), service.settled()).await.is_err() {
                tracing::error!("the store has not taken all that was run");
            }
        };
        let (saved, ()) = tokio::join!(saving, settling);
        service.close_all();
        if let (Address::Unix(path), false) = (&self.address, self.is_inherited) {
            // Somebody may have removed it.
            let _ = std::fs::remove_file(path);
        }
        saved
    }
}

/// Refuses a socket that was handed over where it is of another kind than what was asked for, or others can
/// connect to it and nobody needs a key.
fn check_inherited(app: &App, asked: &Address, inherited: &Address) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let refuse = |text: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    match (asked, inherited) {
        (Address::Unix(_), Address::Tcp(address)) => {
            refuse(format!("a Unix socket was asked for, and {address} was handed over"))
        }
        (_, Address::Unix(path)) if !app.keys().are_needed() => {
            let mode = std::fs::metadata(path)?.permissions().mode();
            // To connect takes the right to write.
            if mode & 0o022 == 0 {
                return Ok(());
            }
            let mode = mode & 0o777;
            refuse(format!(
                "others may connect to {}, of mode {mode:o}, and nobody needs a key: set \
                 SocketMode=0600, or use keys",
                path.display()
            ))
        }
        _ => Ok(()),
    }
}

/// A socket that its owner alone can connect to from the moment it is there: it is bound in a directory of
/// its own and moved.
async fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    if let Ok(found) = std::fs::symlink_metadata(path) {
        let is_used = tokio::net::UnixStream::connect(path).await.is_ok();
        if is_used || !found.file_type().is_socket() {
            let text = format!("{} is there already, and in use or no socket", path.display());
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

/// Has new certificates take the place of old ones.
#[cfg(feature = "tls")]
async fn refresh(tls: Arc<Tls>) {
    loop {
        tokio::time::sleep(TICK).await;
        match tls.refresh() {
            Ok(false) => {}
            Ok(true) => tracing::info!("the certificate was read again"),
            Err(error) => tracing::error!(%error, "the certificate stays what it was"),
        }
    }
}

/// What is done now and then: what is over goes, and the keys are read again when they have changed.
async fn tick(app: App, keys: Option<PathBuf>) {
    let changed = |path: &Path| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
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
        // Directories are removed.
        let _ = tokio::task::spawn_blocking(move || service.sweep(MAX_IDLE)).await;
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
                tracing::info!(count = keys.len(), "the keys were read again");
                app.keys().replace(keys);
            }
            Err(error) => tracing::error!(%error, "the keys stay what they were"),
        }
    }
}
