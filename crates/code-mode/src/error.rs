//! Errors of connecting to MCP servers.

use std::path::PathBuf;

use thiserror::Error;

/// The servers in a file cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not a JSON list of servers.
    #[error("{} is not a valid list of servers", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The syntax error with its position.
        source: serde_json::Error,
    },
    /// An entry has neither a command nor a URL, or has both.
    #[error("server {server}: set either command or url")]
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
    #[error("server {server}: invalid timeout")]
    Timeout {
        /// The server.
        server: String,
    },
    /// The URL or a header is invalid.
    #[error("server {server}: cannot connect: {why}")]
    Url {
        /// The server.
        server: String,
        /// The problem with the URL or a header.
        why: String,
    },
    /// The transport type is unknown.
    #[error("server {server}: unsupported type {kind}")]
    Kind {
        /// The server.
        server: String,
        /// The type in the file.
        kind: String,
    },
    /// The server's process cannot be started.
    #[error("server {server}: cannot start {command}")]
    Start {
        /// The server.
        server: String,
        /// The program.
        command: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The server does not speak MCP.
    #[error("server {server}: invalid MCP response: {why}{}", said_text(.said))]
    Handshake {
        /// The server.
        server: String,
        /// The problem.
        why: String,
        /// The last lines that the server wrote to standard error.
        said: String,
    },
    /// The server exceeded the startup timeout.
    #[error("server {server}: it was not ready after {seconds} s{}", said_text(.said))]
    Slow {
        /// The server.
        server: String,
        /// The timeout.
        seconds: u64,
        /// The last lines that the server wrote to standard error.
        said: String,
    },
    /// The servers offer more tools than code can use.
    #[error("the servers offer {count} tools, but code can have at most {max}")]
    TooMany {
        /// Number of tools.
        count: usize,
        /// Maximum number of tools.
        max: usize,
    },
    /// An `--allow` pattern matches no tool.
    #[error("no tool matches --allow {pattern}")]
    Allow {
        /// The pattern.
        pattern: String,
    },
}

impl ConnectError {
    /// A hint for fixing the error.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Parse { .. } | Self::Entry { .. } => Some(
                "use the format of MCP clients: {\"mcpServers\": {\"name\": {\"command\": \"...\", \"args\": []}}}",
            ),
            Self::Url { why, .. } if why.contains("https://") => Some(
                "build with --features tls, or use a bridge command such as npx mcp-remote URL",
            ),
            Self::Kind { kind, .. } if kind == "sse" => Some(
                "the SSE transport of 2024 is not supported: most servers also support \"type\": \"http\" at /mcp",
            ),
            Self::Kind { .. } => Some("use stdio with a command, or http with a url"),
            Self::TooMany { .. } => Some("select tools with --allow SERVER.TOOL"),
            Self::Allow { .. } => Some("use SERVER, SERVER.TOOL or SERVER.PREFIX*"),
            _ => None,
        }
    }
}

fn said_text(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("; its error output: {text}")
    }
}
