//! How the face of MCP was started.

use belljar::request::ImageChoice;
use belljar::{Request, RequestLimits, Tool};

/// What holds for all runs that models ask for.
#[derive(Default)]
#[non_exhaustive]
pub struct Options {
    /// What every run sees and how far it may go, unless the call says otherwise: image, limits, mounts,
    /// environment.
    pub start: Request,
    /// Functions outside the sandbox that the code can call.
    pub functions: Option<Functions>,
}

/// Functions that code can call and that reach beyond its sandbox.
pub struct Functions {
    /// The functions.
    pub tools: Vec<Tool>,
    /// Their signatures, a line for each, for the model.
    pub listing: String,
}

impl Options {
    /// Sets what every run starts from.
    #[must_use]
    pub fn start(mut self, start: Request) -> Self {
        self.start = start;
        self
    }

    /// Lets the code call these functions.
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
