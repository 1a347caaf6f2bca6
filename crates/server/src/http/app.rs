//! The state shared by all handlers.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::auth::Keys;
use super::forwarded::TrustedProxy;
use super::limiter::Limiter;
use super::limits::{MAX_CONNECTIONS, MAX_OWNED, MAX_PLAIN, MAX_SPOOLED, MAX_UPLOADS, UNIT};
use super::problem::Problem;
use super::stored_responses::StoredResponses;
use crate::http::face::Faces;
use crate::service::Service;
use crate::service::owner::Owner;

/// Maximum number of WebSockets of one owner.
pub const MAX_SOCKETS: usize = 512;

/// The latest result of `/readyz`, and its time.
pub(crate) type Readiness = Mutex<Option<(Instant, bool)>>;

/// State shared by all handlers: the service, the keys and the settings. Clones share the same
/// state.
///
/// State of a single face is an `Extension` of its routes.
#[derive(Clone)]
pub struct App(Arc<Shared>);

struct Shared {
    service: Service,
    keys: Keys,
    settings: Settings,
    readiness: Readiness,
    lockdown: OnceLock<String>,
    stored_responses: StoredResponses,
    body_memory: Limiter,
    waiting: Limiter,
    uploads: Limiter,
    spool: Limiter,
    connections: Limiter,
    sockets: Limiter,
    stopping: CancellationToken,
    ended: CancellationToken,
}

/// Settings of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Enabled interfaces. Default `v1`, `console`, `e2b`, `mcp` and
    /// `jupyter`.
    pub faces: Faces,
    /// Maximum size of a request body that is not streamed to a file, in bytes. Default 32 MiB.
    pub body_bytes: usize,
    /// Memory for all request bodies in progress, in bytes. One owner can use half of it. Default
    /// 256 MiB.
    pub body_memory: usize,
    /// Path prefix of all routes, such as `/belljar`, for a server behind a proxy. Default none.
    pub base_path: String,
    /// Host names of this server besides addresses and `localhost`; `*.NAME` matches all
    /// subdomains. Checked if no key is required.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use this server, such as `https://example.org`. Default none.
    pub origins: Vec<String>,
    /// The domain of sandbox host names `{port}-{sandbox}.{domain}`, as E2B's clients receive it.
    pub sandbox_domain: Option<String>,
    /// Proxies whose headers for the client's address and the path prefix are trusted. Default
    /// none.
    pub trusted_proxies: Vec<TrustedProxy>,
    /// How long a client may leave data unread before it is disconnected and its run interrupted.
    /// Default 30 seconds.
    pub write_timeout: Duration,
    /// Whether the server listens on a Unix socket, which host names cannot reach.
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
    /// Creates the state of a server.
    #[must_use]
    pub fn new(service: Service, keys: Keys, settings: Settings) -> Self {
        let units = settings.body_memory.max(settings.body_bytes) / UNIT;
        let each = (units / 2).max(settings.body_bytes.div_ceil(UNIT));
        let body_memory = Limiter::new(units, each);
        // Without keys, there are no other owners to reserve connections for.
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
            stored_responses: StoredResponses::default(),
            body_memory,
            waiting: Limiter::new(units / 2, each / 2),
            uploads: Limiter::new(MAX_UPLOADS, MAX_OWNED),
            spool: Limiter::new(MAX_SPOOLED, MAX_SPOOLED / 2),
            connections: Limiter::new(MAX_CONNECTIONS, own_connections),
            sockets: Limiter::new(MAX_CONNECTIONS, MAX_SOCKETS),
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

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.0.keys
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Description of the process's lockdown, once it is active.
    pub(crate) fn lockdown(&self) -> &OnceLock<String> {
        &self.0.lockdown
    }

    pub(crate) fn readiness(&self) -> &Readiness {
        &self.0.readiness
    }

    /// Limiter of memory for request bodies, in [`UNIT`]s.
    pub(crate) fn body_memory(&self) -> &Limiter {
        &self.0.body_memory
    }

    /// Limiter of that memory for queued terminal messages.
    pub(crate) fn waiting(&self) -> &Limiter {
        &self.0.waiting
    }

    /// Limiter of concurrent uploads.
    pub(crate) fn uploads(&self) -> &Limiter {
        &self.0.uploads
    }

    /// Limiter of disk space for uploads, in MiB.
    pub(crate) fn spool(&self) -> &Limiter {
        &self.0.spool
    }

    /// Limiter of connections other than WebSockets.
    pub(crate) fn connections(&self) -> &Limiter {
        &self.0.connections
    }

    /// Limiter of WebSockets.
    pub(crate) fn sockets(&self) -> &Limiter {
        &self.0.sockets
    }

    /// Cancelled when the server begins to stop. Idle streams end then.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    /// Cancelled when the server ends. All open connections are cut.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.0.ended
    }

    pub(crate) fn stored_responses(&self) -> &StoredResponses {
        &self.0.stored_responses
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
