//! Errors of connecting to tool servers.

use std::path::PathBuf;

use thiserror::Error;

/// The servers in a file cannot be connected to the code.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not a JSON list of servers.
    #[error("{} is not a list of servers", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
    /// An entry has neither a command nor a URL, or has both.
    #[error("server {server}: it needs either a command or a url")]
    Entry {
        /// The server.
        server: String,
    },
    /// An entry uses an environment variable that is not set.
    #[error("server {server}: the variable {missing} is not set")]
    Variable {
        /// The server.
        server: String,
        /// The variable.
        missing: String,
    },
    /// The timeout is invalid.
    #[error("server {server}: its timeout is not a number of seconds")]
    Timeout {
        /// The server.
        server: String,
    },
    /// The URL or a header is invalid.
    #[error("server {server}: it cannot be connected to: {why}")]
    Url {
        /// The server.
        server: String,
        /// What is wrong with it, or with its headers.
        why: String,
    },
    /// The transport type is unknown.
    #[error("server {server}: its type {kind} is not spoken")]
    Kind {
        /// The server.
        server: String,
        /// What the file says.
        kind: String,
    },
    /// The server's process cannot be started.
    #[error("server {server}: cannot start {command}")]
    Start {
        /// The server.
        server: String,
        /// The program.
        command: String,
        /// Why.
        source: std::io::Error,
    },
    /// The server does not speak MCP.
    #[error("server {server}: it does not answer as a server of MCP: {why}{}", said_text(.said))]
    Handshake {
        /// The server.
        server: String,
        /// Why.
        why: String,
        /// The last lines that the server wrote to standard error.
        said: String,
    },
    /// The server exceeded the startup timeout.
    #[error("server {server}: it was not ready after {seconds} s{}", said_text(.said))]
    Slow {
        /// The server.
        server: String,
        /// How long it had.
        seconds: u64,
        /// The last lines that the server wrote to standard error.
        said: String,
    },
    /// The servers offer more tools than code can use.
    #[error("the servers offer {count} tools, and code can have {max}")]
    TooMany {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// An `--allow` pattern matches no tool.
    #[error("nothing is called {pattern} that could be allowed")]
    Allow {
        /// What was said.
        pattern: String,
    },
}

impl ConnectError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Parse { .. } | Self::Entry { .. } => Some(
                "it is the file that clients use: {\"mcpServers\": {\"name\": {\"command\": \"...\", \"args\": []}}}",
            ),
            Self::Url { why, .. } if why.contains("https://") => Some(
                "build it with --features tls, or name a command that bridges to it, such as npx mcp-remote URL",
            ),
            Self::Kind { kind, .. } if kind == "sse" => Some(
                "the transport of 2024 has been replaced: most servers have \"type\": \"http\" as well, at /mcp",
            ),
            Self::Kind { .. } => Some("there are stdio, with a command, and http, with a url"),
            Self::TooMany { .. } => Some("name those that are wanted with --allow SERVER.TOOL"),
            Self::Allow { .. } => Some("an entry is SERVER, SERVER.TOOL or SERVER.PREFIX*"),
            _ => None,
        }
    }
}

fn said_text(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("; it said: {text}")
    }
}
