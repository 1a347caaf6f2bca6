//! How the face of MCP was started.

use belljar::request::ImageChoice;
use belljar::{Request, RequestLimits};

use super::with::Servers;

/// What holds for all runs that models ask for.
#[derive(Default)]
#[non_exhaustive]
pub struct Options {
    /// What every run sees and how far it may go, unless the call says otherwise: image, limits, mounts,
    /// environment.
    pub start: Request,
    /// Servers whose tools the code can call.
    pub servers: Option<Servers>,
}

impl Options {
    /// Sets what every run starts from.
    #[must_use]
    pub fn start(mut self, start: Request) -> Self {
        self.start = start;
        self
    }

    /// Gives the code the tools of these servers.
    #[must_use]
    pub fn servers(mut self, servers: Servers) -> Self {
        self.servers = Some(servers);
        self
    }

    pub(super) fn image(&self) -> &ImageChoice {
        &self.start.image
    }

    pub(super) fn limits(&self) -> &RequestLimits {
        &self.start.limits
    }

    pub(super) fn listing(&self) -> String {
        self.servers.as_ref().map(Servers::listing).unwrap_or_default()
    }
}
