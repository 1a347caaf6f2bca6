//! Settings of the MCP face.

use belljar::request::ImageChoice;
use belljar::{Request, RequestLimits, Tool};

/// Settings of all runs.
#[derive(Default)]
#[non_exhaustive]
pub struct Options {
    /// Defaults of every run: image, limits, mounts, environment.
    pub start: Request,
    /// Functions outside the sandbox that code can call.
    pub functions: Option<Functions>,
}

/// Functions outside the sandbox.
pub struct Functions {
    /// The functions as tools.
    pub tools: Vec<Tool>,
    /// Their signatures for the model, one per line.
    pub listing: String,
}

impl Options {
    /// Sets the defaults of every run.
    #[must_use]
    pub fn start(mut self, start: Request) -> Self {
        self.start = start;
        self
    }

    /// Lets code call these functions.
    #[must_use]
    pub fn functions(mut self, functions: Functions) -> Self {
        self.functions = Some(functions);
        self
    }

    pub(super) fn image(&self) -> &ImageChoice {
        &self.start.image
    }

    pub(super) fn limits(&self) -> &RequestLimits {
        &self.start.limits
    }

    pub(super) fn listing(&self) -> &str {
        self.functions.as_ref().map_or("", |functions| &functions.listing)
    }
}
