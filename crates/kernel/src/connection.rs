//! The connection file, which tells clients where the kernel listens.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A connection file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConnectionFile {
    /// `tcp` or `ipc`.
    #[serde(default = "tcp")]
    pub transport: String,
    /// The address; with `ipc`, the prefix of the socket paths.
    #[serde(default = "loopback")]
    pub ip: String,
    /// The port of the shell channel; with `ipc`, the suffix of its socket path. For TCP port 0,
    /// the system chooses a port, which is written back.
    #[serde(default)]
    pub shell_port: u16,
    /// The port of the control channel.
    #[serde(default)]
    pub control_port: u16,
    /// The port of the stdin channel.
    #[serde(default)]
    pub stdin_port: u16,
    /// The port of the iopub channel.
    #[serde(default)]
    pub iopub_port: u16,
    /// The port of the heartbeat.
    #[serde(default)]
    pub hb_port: u16,
    /// The key for signatures; if empty, messages are not signed.
    #[serde(default)]
    pub key: String,
    /// The signature scheme.
    #[serde(default = "sha256")]
    pub signature_scheme: String,
    /// All other keys.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

fn tcp() -> String {
    "tcp".to_owned()
}

fn loopback() -> String {
    "127.0.0.1".to_owned()
}

fn sha256() -> String {
    "hmac-sha256".to_owned()
}

/// A connection file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// It cannot be read.
    #[error("cannot read the connection file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The content is invalid.
    #[error("{path} is not a connection file")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// It asks for an unsupported option.
    #[error("{path} asks for the {what} {asked}, which is not supported")]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Transport or signature scheme.
        what: &'static str,
        /// The requested value.
        asked: String,
    },
    /// A socket cannot be opened.
    #[error("cannot listen for {channel} on {address}")]
    Listen {
        /// The channel.
        channel: &'static str,
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// It cannot be written.
    #[error("cannot write the chosen ports to the connection file {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Maximum length of a connection file in bytes.
const MAX_FILE: u64 = 64 << 10;

impl ConnectionFile {
    /// Reads a connection file.
    ///
    /// # Errors
    ///
    /// When it cannot be read, is invalid, or asks for a transport other than TCP and IPC or a
    /// signature other than HMAC-SHA256.
    pub fn read(path: &Path) -> Result<Self, ConnectionError> {
        let unread = |source| ConnectionError::Read {
            path: path.to_owned(),
            source,
        };
        let mut text = String::new();
        let file = fs::File::open(path).map_err(unread)?;
        io::Read::read_to_string(&mut io::Read::take(file, MAX_FILE), &mut text).map_err(unread)?;
        let file: Self = serde_json::from_str(&text).map_err(|source| ConnectionError::Parse {
            path: path.to_owned(),
            source,
        })?;
        let unknown = |what, asked: &str| ConnectionError::Unknown {
            path: path.to_owned(),
            what,
            asked: asked.to_owned(),
        };
        if !["tcp", "ipc"].contains(&file.transport.as_str()) {
            return Err(unknown("transport", &file.transport));
        }
        if !file.key.is_empty() && file.signature_scheme != sha256() {
            return Err(unknown("signature scheme", &file.signature_scheme));
        }
        Ok(file)
    }

    /// Writes the file, readable only by its owner.
    pub(crate) fn write(&self, path: &Path) -> Result<(), ConnectionError> {
        let write = || {
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).truncate(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let text = serde_json::to_string_pretty(self)?;
            options.open(path)?.write_all(text.as_bytes())
        };
        write().map_err(|source| ConnectionError::Write {
            path: path.to_owned(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ConnectionFile, ConnectionError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        ConnectionFile::read(file.path())
    }

    #[test]
    fn what_is_left_out_is_the_usual() {
        let file = read(r#"{"shell_port": 4, "key": "a", "jupyter_session": "b.ipynb"}"#).unwrap();
        assert_eq!((file.transport.as_str(), file.ip.as_str()), ("tcp", "127.0.0.1"));
        assert_eq!((file.shell_port, file.iopub_port), (4, 0));
        assert_eq!(file.rest["jupyter_session"], "b.ipynb");
    }

    #[test]
    fn what_it_cannot_do_is_refused() {
        for text in [
            "",
            "[]",
            r#"{"shell_port": 70000}"#,
            r#"{"transport": "udp"}"#,
            r#"{"key": "a", "signature_scheme": "hmac-md5"}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(ConnectionFile::read(Path::new("/nowhere")).is_err());
    }
}
