//! The description for models: installed packages, restrictions and limits.

use std::fmt::Write as _;

use belljar::request::ImageChoice;
use belljar::{Outcome, Request};

use crate::service::Service;

/// Lists packages by their metadata's directory names, which is much faster than reading the
/// metadata.
const LIST_PACKAGES: &str = "\
import importlib.metadata, sys
result = {'python': '.'.join(map(str, sys.version_info[:3]))}
for one in importlib.metadata.distributions():
    name = one._path.name.removesuffix('.dist-info')
    package, _, version = name.partition('-')
    result[package.replace('_', '-')] = version
";

/// Descriptions for models.
pub(super) struct Description {
    /// Of `run_python`.
    pub tool: String,
    /// Of the server.
    pub instructions: String,
}

impl Description {
    /// Queries an interpreter.
    pub(super) async fn of(service: &Service, image: &ImageChoice, functions: &str) -> Self {
        let mut request = Request::new(LIST_PACKAGES);
        request.image = match image {
            ImageChoice::Auto => ImageChoice::Named("core".into()),
            named => named.clone(),
        };
        let found = service.runtime().run(request).await;
        let outcome =
            found.inspect_err(|error| tracing::warn!(%error, "cannot list the installed packages"));
        Self::write(&outcome.ok().map(|run| packages(&run.outcome)).unwrap_or_default(), functions)
    }

    fn write(packages: &[(String, String)], functions: &str) -> Self {
        let mut tool = String::new();
        let python = packages.iter().find(|(name, _)| name == "python");
        if let Some((_, version)) = python {
            let _ = write!(tool, "This is CPython {version}. ");
        }
        let installed: Vec<String> = packages
            .iter()
            .filter(|(name, _)| name != "python")
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        if !installed.is_empty() {
            let _ = write!(tool, "Installed: {}. ", installed.join(", "));
        }
        tool.push_str(
            "Nothing can be installed. There is no network, no subprocess and no shell; threads run in \
             place. Files go into the working directory; matplotlib figures come back as images.",
        );
        if !functions.is_empty() {
            let _ = write!(
                tool,
                "\n\nThe code can call these functions, after `import tools`. They raise tools.ToolError; \
                 `await` works, also with asyncio.gather for several at once; help(tools.NAME.NAME) says \
                 more. Prefer one program that calls several and prints only what matters:\n{functions}"
            );
        }
        let instructions = format!(
            "Runs Python in a sandbox. {tool}\n\nrun_python starts a fresh interpreter each time unless it \
             is given a session_id: use create_session when later calls need the variables or files of \
             earlier ones, fork_session to try something, rewind_session to undo runs. Files are \
             resources (belljar://...); pass one to another run with files: [{{path, uri}}].",
            tool = tool.trim_end(),
        );
        Self { tool, instructions }
    }
}

fn packages(outcome: &Outcome) -> Vec<(String, String)> {
    let mut packages: Vec<(String, String)> = outcome
        .result
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, version)| Some((name.clone(), version.as_str()?.to_owned())))
        .collect();
    packages.sort_unstable_by_key(|(name, _)| name.to_ascii_lowercase());
    packages
}
