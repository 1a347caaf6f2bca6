//! Code mode: exposes the tools of other MCP servers to code as functions.
//!
//! A model with forty tools calls them one by one and reads every answer. With code mode it has one
//! tool, which runs a program that calls the forty as functions. The model reads only the program's
//! output.
#![deny(unsafe_code, missing_docs)]
#![warn(
    clippy::exit,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used
)]

mod allowance;
mod answer;
mod child;
mod client;
mod connection;
mod error;
mod file;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod names;
mod remote;
mod schema;

use std::fmt::Write as _;
use std::path::Path;

use belljar::Tool;
use futures_util::future::join_all;
use serde_json::Value;

pub use self::client::{Connector, ConnectorError, connector};
use self::connection::Connection;
pub use self::error::ConnectError;
use self::file::{Entry, Reached};
use self::names::Names;
use belljar_text::{line_of, lines_of};

/// Maximum number of functions for code.
const MAX_FUNCTIONS: usize = 256;
/// Maximum length of a function's description, in characters.
const MAX_DESCRIPTION: usize = 4_000;
/// Maximum length of the list of functions, in bytes.
const MAX_LISTING: usize = 16 << 10;

/// Connected servers.
pub struct Servers {
    connections: Vec<Connection>,
    functions: Vec<Function>,
    reach: Reach,
}

/// Rights of this process that connections to other servers need.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Whether some servers are child processes, which are ended by a signal.
    pub has_processes: bool,
    /// TCP ports of the servers reached over HTTP.
    pub ports: Vec<u16>,
    /// Whether some of these are host names that must be resolved.
    pub has_names: bool,
}

/// A tool of a server as code sees it.
struct Function {
    tool: Tool,
    /// Its Python signature and a one-line description.
    signature: String,
    about: String,
}

impl Servers {
    /// Connects to the servers in a file and lists their tools. `allow` restricts the tools that
    /// the code may call, as `SERVER`, `SERVER.TOOL` or `SERVER.PREFIX*`. If it is empty, the code
    /// may call all tools that the file allows.
    ///
    /// # Errors
    ///
    /// Fails if the file is invalid, a server is unavailable, or a pattern in `allow` matches no
    /// tool.
    pub async fn connect(file: &Path, allow: &[String]) -> Result<Self, ConnectError> {
        let entries = file::read(file, &|name| std::env::var(name).ok())?;
        let connecting = join_all(entries.iter().map(Connection::to)).await;
        let mut connections = Vec::new();
        let mut failed = None;
        for connected in connecting {
            match connected {
                Ok(connection) => connections.push(connection),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let mut servers = Self {
            connections,
            functions: Vec::new(),
            reach: Reach::of(&entries),
        };
        let listed = match failed {
            None => {
                let lists: Vec<_> = entries.iter().map(|entry| entry.allow.as_deref()).collect();
                servers.functions(&lists, allow)
            }
            Some(error) => Err(error),
        };
        match listed {
            Ok(functions) => {
                servers.functions = functions;
                Ok(servers)
            }
            Err(error) => {
                servers.close().await;
                Err(error)
            }
        }
    }

    fn functions(
        &self,
        lists: &[Option<&[String]>],
        allow: &[String],
    ) -> Result<Vec<Function>, ConnectError> {
        let mut used = vec![false; allow.len()];
        let mut functions = Vec::new();
        let mut modules = Names::default();
        for (connection, list) in self.connections.iter().zip(lists) {
            let module = modules.give(&connection.name);
            let mut names = Names::default();
            for tool in &connection.tools {
                let name = names.give(&tool.name);
                let full = format!("{}.{}", connection.name, tool.name);
                let is_listed =
                    list.is_none_or(|list| list.iter().any(|one| fits(one, &tool.name)));
                let mut is_allowed = allow.is_empty();
                for (pattern, used) in allow.iter().zip(&mut used) {
                    let fitting = *pattern == connection.name
                        || fits(pattern, &full)
                        || *pattern == format!("{module}.{name}");
                    *used |= fitting;
                    is_allowed |= fitting;
                }
                if is_listed && is_allowed {
                    functions.push(function(connection, tool, &format!("{module}.{name}")));
                }
            }
        }
        if let Some((pattern, _)) = allow.iter().zip(&used).find(|(_, used)| !**used) {
            return Err(ConnectError::Allow {
                pattern: pattern.clone(),
            });
        }
        if functions.len() > MAX_FUNCTIONS {
            return Err(ConnectError::TooMany {
                count: functions.len(),
                max: MAX_FUNCTIONS,
            });
        }
        Ok(functions)
    }

    /// The rights that connections to these servers need.
    pub fn reach(&self) -> Reach {
        self.reach.clone()
    }

    /// The functions as tools of a request.
    pub fn tools(&self) -> impl Iterator<Item = Tool> {
        self.functions.iter().map(|function| function.tool.clone())
    }

    /// Number of functions.
    pub fn count(&self) -> usize {
        self.functions.len()
    }

    /// The functions with signatures, for a model. If there are too many, later functions are
    /// listed by name only.
    pub fn listing(&self) -> String {
        let mut listing = String::new();
        for function in &self.functions {
            let line = format!("tools.{}  # {}\n", function.signature, function.about);
            if listing.len() + line.len() <= MAX_LISTING {
                listing.push_str(line.strip_suffix("  # \n").unwrap_or(&line));
                if !listing.ends_with('\n') {
                    listing.push('\n');
                }
            } else if listing.len() < 2 * MAX_LISTING {
                let _ = writeln!(listing, "tools.{}(...)", function.tool.name());
            }
        }
        listing
    }

    /// Closes all connections and ends the processes.
    pub async fn close(&self) {
        join_all(self.connections.iter().map(Connection::close)).await;
    }
}

impl Reach {
    fn of(entries: &[Entry]) -> Self {
        let mut reach = Self::default();
        for entry in entries {
            match &entry.reached {
                Reached::Url(remote) => {
                    reach.ports.extend(remote.url.port_or_known_default());
                    reach.has_names |= matches!(remote.url.host(), Some(url::Host::Domain(_)));
                }
                Reached::Command { .. } => reach.has_processes = true,
            }
        }
        reach
    }
}

fn function(connection: &Connection, tool: &rmcp::model::Tool, name: &str) -> Function {
    let said = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
    let mut description = lines_of(said, MAX_DESCRIPTION);
    let output = tool.output_schema.as_deref();
    if let Some(output) = output {
        let space = if description.is_empty() { "" } else { "\n\n" };
        let _ = write!(description, "{space}Returns {}.", schema::returned(output));
    }
    let is_wrapped = output.is_some_and(schema::is_wrapped);
    let caller = connection.caller.clone();
    let asked = tool.name.to_string();
    let call = move |arguments: Value| {
        let (caller, asked) = (caller.clone(), asked.clone());
        async move { caller.call(asked, arguments, is_wrapped).await }
    };
    Function {
        tool: Tool::new(name, schema::parameters(&tool.input_schema), call)
            .description(description)
            .timeout(connection.timeout),
        signature: format!("{name}{}", schema::signature(&tool.input_schema, output)),
        about: line_of(said, 200),
    }
}

/// Whether a name matches a pattern, which may end in `*`.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name_or_its_beginning() {
        assert!(
            fits("git.*", "git.log") && fits("git.l*", "git.log") && fits("git.log", "git.log")
        );
        assert!(!fits("git", "git.log") && !fits("git.*", "github.log") && !fits("", "x"));
    }
}
