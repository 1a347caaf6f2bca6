//! The environment of programs: Python's version and the installed packages.

use std::sync::Arc;

use belljar::Request;
use belljar::request::Capture;
use serde::Deserialize;
use tokio::sync::OnceCell;

use crate::service::Service;
use crate::service::error::ServiceError;

/// The environment, queried once. Clones share the result.
#[derive(Clone, Default)]
pub(crate) struct Environment(Arc<OnceCell<Contents>>);

#[derive(Debug, Deserialize)]
pub(crate) struct Contents {
    /// Such as `3.15.0`.
    pub version: String,
    /// Names and versions of distributions, sorted by name.
    pub packages: Vec<(String, String)>,
}

const QUESTION: &str = r#"
import platform
from importlib.metadata import distributions

found = {one.metadata["Name"].lower(): one.version for one in distributions() if one.metadata["Name"]}
result = {"version": platform.python_version(), "packages": sorted(found.items())}
"#;

impl Environment {
    /// Returns the environment. The query is not counted as a run.
    ///
    /// # Errors
    ///
    /// Fails if the engine cannot run the query.
    pub(crate) async fn contents(&self, service: &Service) -> Result<&Contents, ServiceError> {
        let asked = async || {
            let request = Request::new(QUESTION)
                .image("core")
                .capture(Capture::default().figures(false).dataframes(false));
            let outcome = service.runtime().run(request).await?.outcome;
            let contents = serde_json::from_value(outcome.result).unwrap_or_else(|error| {
                tracing::warn!(%error, outcome.error, "the interpreter returned no description of its environment");
                Contents {
                    version: "3".into(),
                    packages: Vec::new(),
                }
            });
            Ok::<_, ServiceError>(contents)
        };
        self.0.get_or_try_init(asked).await
    }
}
