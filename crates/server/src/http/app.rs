//! The state that every handler has.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use tokio::sync::Mutex;

use super::auth::Keys;
use super::forwarded::TrustedProxy;
use super::problem::Problem;
use super::remembered::Remembered;
use crate::faces::Faces;
use crate::service::Service;
use crate::service::owner::Owner;

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
    remembered: Remembered,
}

/// How a server was started.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Which interfaces it speaks. Default `v1`, `e2b`, `mcp` and `jupyter`.
    pub faces: Faces,
    /// The most bytes that a request's body may have, but where files are streamed. Default 32 MiB.
    pub body_bytes: usize,
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
        let shared = Shared {
            service,
            keys,
            settings,
            readiness: Readiness::default(),
            remembered: Remembered::default(),
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

    pub(crate) fn readiness(&self) -> &Readiness {
        &self.0.readiness
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
