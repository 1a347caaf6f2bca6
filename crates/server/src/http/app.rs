//! The state that every handler has.

use std::sync::Arc;

use axum::extract::FromRef;

use super::auth::Keys;
use crate::service::Service;

/// What handlers share: the service, who may use it, and how the server was started. Cheap to clone.
///
/// A face that keeps something of its own has it as an `Extension` of its routes.
#[derive(Clone)]
pub struct App(Arc<Shared>);

struct Shared {
    service: Service,
    keys: Keys,
    settings: Settings,
}

/// How a server was started.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The most bytes that a request's body may have, but where files are streamed.
    pub body_bytes: usize,
    /// The domain whose names `{port}-{sandbox}.{domain}` lead here, as E2B's clients are told it.
    pub sandbox_domain: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            body_bytes: 32 << 20,
            sandbox_domain: None,
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
}

impl FromRef<App> for Service {
    fn from_ref(app: &App) -> Self {
        app.service().clone()
    }
}
