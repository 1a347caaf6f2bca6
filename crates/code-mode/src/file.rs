//! The server list: a JSON file in the format of MCP clients.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::error::ConnectError;
use super::remote::Remote;

/// Default timeout of a call.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of the file.
const MAX_FILE: u64 = 1 << 20;

/// The file. Unknown keys belong to other clients and are ignored.
#[derive(Debug, Deserialize)]
struct Document {
    #[serde(rename = "mcpServers", alias = "servers")]
    servers: BTreeMap<String, RawEntry>,
}

#[derive(Debug, Deserialize)]
struct RawEntry {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    #[serde(alias = "serverUrl")]
    url: Option<String>,
    /// The transport type. Derived from the other keys if missing.
    #[serde(rename = "type", alias = "transport")]
    kind: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    disabled: bool,
    /// Tools that the code may call. If the list is missing, it may call all tools.
    allow: Option<Vec<String>>,
    /// Timeout of a call in seconds.
    timeout: Option<f64>,
}

/// A server to connect to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub name: String,
    pub reached: Reached,
    pub allow: Option<Vec<String>>,
    pub timeout: Duration,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reached {
    /// Start a process and use its standard streams.
    Command {
        command: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        cwd: Option<PathBuf>,
    },
    /// Connect to a running server.
    Url(Remote),
}

/// Reads the file. `variable` looks up environment variables for `${NAME}`.
pub(super) fn read(
    path: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Entry>, ConnectError> {
    let failed = |source: std::io::Error| ConnectError::Read {
        path: path.to_owned(),
        source,
    };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > MAX_FILE {
        return Err(failed(std::io::Error::other("the file is longer than 1 MiB")));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let document = serde_json::from_str(&text).map_err(|source| ConnectError::Parse {
        path: path.to_owned(),
        source,
    })?;
    resolve(document, variable)
}

/// Parses the text, for tests. Returns nothing if it is invalid.
#[cfg(feature = "fuzzing")]
pub(super) fn parse(text: &[u8], variable: &dyn Fn(&str) -> Option<String>) -> Option<Vec<Entry>> {
    resolve(serde_json::from_slice(text).ok()?, variable).ok()
}

fn resolve(
    document: Document,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Entry>, ConnectError> {
    let enabled = document.servers.into_iter().filter(|(_, entry)| !entry.disabled);
    enabled.map(|(name, entry)| entry.resolve(name, variable)).collect()
}

impl RawEntry {
    fn resolve(
        self,
        name: String,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Entry, ConnectError> {
        let fill = |text: &str| {
            expand(text, variable).map_err(|missing| ConnectError::Variable {
                server: name.clone(),
                missing,
            })
        };
        let fill_all = |map: BTreeMap<String, String>| -> Result<_, ConnectError> {
            map.into_iter().map(|(key, value)| Ok((key, fill(&value)?))).collect()
        };
        let reached = match (&self.command, &self.url) {
            (Some(command), None) if self.kind.as_deref().is_none_or(is_process) => {
                Reached::Command {
                    command: fill(command)?,
                    args: self.args.iter().map(|arg| fill(arg)).collect::<Result<_, _>>()?,
                    env: fill_all(self.env)?,
                    cwd: self.cwd,
                }
            }
            (None, Some(url)) => {
                if let Some(kind) = self.kind.filter(|kind| !is_http(kind)) {
                    return Err(ConnectError::Kind { server: name, kind });
                }
                let headers = fill_all(self.headers)?;
                let remote = Remote::new(&fill(url)?, &headers);
                Reached::Url(remote.map_err(|why| ConnectError::Url {
                    server: name.clone(),
                    why,
                })?)
            }
            _ => return Err(ConnectError::Entry { server: name }),
        };
        let timeout = match self.timeout {
            None => DEFAULT_TIMEOUT,
            Some(seconds) => Duration::try_from_secs_f64(seconds)
                .ok()
                .filter(|timeout| !timeout.is_zero())
                .ok_or_else(|| ConnectError::Timeout {
                    server: name.clone(),
                })?,
        };
        Ok(Entry {
            name,
            reached,
            allow: self.allow,
            timeout,
        })
    }
}

/// Whether a type means a process with standard streams.
fn is_process(kind: &str) -> bool {
    matches!(kind, "stdio" | "local")
}

/// Whether a type means Streamable HTTP.
fn is_http(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase().replace(['-', '_'], "");
    matches!(kind.as_str(), "http" | "streamablehttp" | "remote")
}

/// Expands `${NAME}`, `${env:NAME}` and `${NAME:-default}`. The error is the name of the variable
/// that is not set.
fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, after)) = after.split_once('}') else {
            break;
        };
        whole.push_str(before);
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        match variable(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => whole.push_str(&value),
            None => return Err(name.to_owned()),
        }
        rest = after;
    }
    whole.push_str(rest);
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(json: &str) -> Result<Vec<Entry>, ConnectError> {
        let variable = |name: &str| (name == "TOKEN").then(|| "secret".to_owned());
        resolve(serde_json::from_str(json).unwrap(), &variable)
    }

    #[test]
    fn the_shape_that_clients_use_is_read() {
        let read = entries(
            r#"{"mcpServers": {
                "git": {"type": "stdio", "command": "uvx", "args": ["mcp-server-git", "${TOKEN}"],
                        "env": {"A": "${env:TOKEN}", "B": "${NONE:-b}"}, "autoApprove": []},
                "web": {"type": "streamable-http", "url": "http://localhost:8000/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"},
                        "allow": ["search"], "timeout": 2.5},
                "off": {"command": "x", "disabled": true}}}"#,
        )
        .unwrap();
        let Reached::Command { args, env, .. } = &read[0].reached else {
            panic!("{read:?}");
        };
        assert_eq!(args[1], "secret");
        assert_eq!((env["A"].as_str(), env["B"].as_str()), ("secret", "b"));
        assert_eq!(read[0].timeout, DEFAULT_TIMEOUT);
        assert_eq!(read.len(), 2);
        let Reached::Url(remote) = &read[1].reached else {
            panic!("{read:?}");
        };
        assert_eq!(remote.headers[&http::header::AUTHORIZATION], "Bearer secret");
        assert_eq!(read[1].allow.as_deref(), Some(&["search".to_owned()][..]));
        assert_eq!(read[1].timeout, Duration::from_millis(2_500));
    }

    #[test]
    fn what_is_none_is_told_with_its_server() {
        for (json, says) in [
            (r#"{"mcpServers": {"x": {}}}"#, "x"),
            (r#"{"mcpServers": {"x": {"command": "a", "url": "b"}}}"#, "x"),
            (r#"{"mcpServers": {"x": {"type": "http", "command": "a"}}}"#, "x"),
            (r#"{"mcpServers": {"x": {"type": "sse", "url": "http://b"}}}"#, "sse"),
            (r#"{"mcpServers": {"x": {"type": "stdio", "url": "http://b"}}}"#, "stdio"),
            (r#"{"mcpServers": {"x": {"url": "ws://b"}}}"#, "ws://"),
            (
                r#"{"mcpServers": {"x": {"url": "http://b", "headers": {"A": "${NOT_SET}"}}}}"#,
                "NOT_SET",
            ),
            (r#"{"mcpServers": {"x": {"command": "${NOT_SET}"}}}"#, "NOT_SET"),
            (r#"{"mcpServers": {"x": {"command": "a", "timeout": -1}}}"#, "x"),
            (r#"{"mcpServers": {"x": {"command": "a", "timeout": 1e300}}}"#, "x"),
        ] {
            let error = entries(json).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn text_that_only_looks_like_a_variable_stays() {
        let variable = |_: &str| Some("v".to_owned());
        for (text, filled) in [("$A", "$A"), ("${A", "${A"), ("a${A}b${B}", "avbv"), ("}${", "}${")]
        {
            assert_eq!(expand(text, &variable).unwrap(), filled);
        }
    }
}
