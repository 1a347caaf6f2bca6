//! The state that every handler has.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::auth::Keys;
use super::bounds::{MAX_CONNECTIONS, MAX_OWNED, MAX_PLAIN, MAX_SPOOLED, MAX_UPLOADS, UNIT};
use super::forwarded::TrustedProxy;
use super::problem::Problem;
use super::remembered::Remembered;
use super::shares::Shares;
use crate::http::face::Faces;
use crate::service::Service;
use crate::service::owner::Owner;

/// The most WebSockets of one owner.
pub const MAX_SOCKETS: usize = 512;

/// What `/readyz` found last, and when.
pub(crate) type Readiness = Mutex<Option<(Instant, bool)>>;

/// What handlers share: the service, who may use it, and how the server was started. Cheap to clone.
///
/// A face that keeps something of its own has it as an `Extension` of its routes.
#[derive(Clone)]
pub struct App(Arc<Shared>);

struct Shared {
    service: Service,
    keys: Keys,
    settings: Settings,
    readiness: Readiness,
    lockdown: OnceLock<String>,
    remembered: Remembered,
    body_memory: Shares,
    waiting: Shares,
    uploads: Shares,
    spool: Shares,
    connections: Shares,
    sockets: Shares,
    stopping: CancellationToken,
    ended: CancellationToken,
}

/// How a server was started.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Which interfaces it speaks. Default `v1`, `e2b`, `mcp` and `jupyter`.
    pub faces: Faces,
    /// The most bytes that a request's body may have, but where files are streamed. Default 32 MiB.
    pub body_bytes: usize,
    /// Memory that the bodies of all requests under way may take together, in bytes. One owner may have half of
    /// it. Default 256 MiB.
    pub body_memory: usize,
    /// Below which path everything is, such as `/belljar`, for a server behind a proxy. Default none.
    pub base_path: String,
    /// Names of this server, besides addresses and `localhost`; `*.NAME` is every name below it. They matter
    /// where nobody needs a key.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use this server, such as `https://example.org`. Default none.
    pub origins: Vec<String>,
    /// The domain whose names `{port}-{sandbox}.{domain}` lead here, as E2B's clients are told it.
    pub sandbox_domain: Option<String>,
    /// Proxies whose word counts on who asks, and on the path below which everything is. Default none.
    pub trusted_proxies: Vec<TrustedProxy>,
    /// How long a client may leave unread what is sent to it; then its connection ends, and with it the run
    /// that it is told of. Default 30 seconds.
    pub write_timeout: Duration,
    /// Whether it listens on a Unix socket, which no name leads to.
    pub is_unix: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            faces: Faces::default(),
            body_bytes: 32 << 20,
            body_memory: 256 << 20,
            base_path: String::new(),
            hosts: Vec::new(),
            origins: Vec::new(),
            sandbox_domain: None,
            trusted_proxies: Vec::new(),
            write_timeout: Duration::from_secs(30),
            is_unix: false,
        }
    }
}

impl App {
    /// The state of one server.
    #[must_use]
    pub fn new(service: Service, keys: Keys, settings: Settings) -> Self {
        let units = settings.body_memory.max(settings.body_bytes) / UNIT;
        let each = (units / 2).max(settings.body_bytes.div_ceil(UNIT));
        let body_memory = Shares::new(units, each);
        // Without keys, nobody's connections have to be kept free for others.
        let own_connections = if keys.are_needed() {
            MAX_PLAIN
        } else {
            MAX_CONNECTIONS
        };
        let shared = Shared {
            service,
            keys,
            settings,
            readiness: Readiness::default(),
            lockdown: OnceLock::new(),
            remembered: Remembered::default(),
            body_memory,
            waiting: Shares::new(units / 2, each / 2),
            uploads: Shares::new(MAX_UPLOADS, MAX_OWNED),
            spool: Shares::new(MAX_SPOOLED, MAX_SPOOLED / 2),
            connections: Shares::new(MAX_CONNECTIONS, own_connections),
            sockets: Shares::new(MAX_CONNECTIONS, MAX_SOCKETS),
            stopping: CancellationToken::new(),
            ended: CancellationToken::new(),
        };
        Self(Arc::new(shared))
    }

    /// Runs and sessions.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.0.service
    }

    /// Who may use them.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.0.keys
    }

    /// How the server was started.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// What holds this process, once it is locked down.
    pub(crate) fn lockdown(&self) -> &OnceLock<String> {
        &self.0.lockdown
    }

    pub(crate) fn readiness(&self) -> &Readiness {
        &self.0.readiness
    }

    /// Memory for the bodies of requests that are under way, in [`UNIT`]s.
    pub(crate) fn body_memory(&self) -> &Shares {
        &self.0.body_memory
    }

    /// The part of that memory which messages of terminals may take that wait for others.
    pub(crate) fn waiting(&self) -> &Shares {
        &self.0.waiting
    }

    /// Places for uploads.
    pub(crate) fn uploads(&self) -> &Shares {
        &self.0.uploads
    }

    /// Room for uploads on the disk, in MiB.
    pub(crate) fn spool(&self) -> &Shares {
        &self.0.spool
    }

    /// Places for connections that are no WebSockets.
    pub(crate) fn connections(&self) -> &Shares {
        &self.0.connections
    }

    /// Places for WebSockets.
    pub(crate) fn sockets(&self) -> &Shares {
        &self.0.sockets
    }

    /// Cancelled when the server begins to stop: what waits for nothing but its client ends then.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    /// Cancelled at its end: what is still open is cut.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.0.ended
    }

    pub(crate) fn remembered(&self) -> &Remembered {
        &self.0.remembered
    }
}

impl FromRef<App> for Service {
    fn from_ref(app: &App) -> Self {
        app.service().clone()
    }
}

impl FromRequestParts<App> for Owner {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        app.keys().owner_of(&parts.headers).ok_or_else(Problem::no_key)
    }
}
