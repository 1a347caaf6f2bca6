//! A request as a server takes it: JSON, and a form for large files.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use belljar::error::WorkspaceError;
use belljar::request::{ByteSource, FileSource, RunRequest};
use belljar::{Error, Request};
use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Map, Value};

use super::link::SILENCE;
use crate::exit::Usage;

/// Larger files go into parts of a form.
const INLINE: u64 = 256 << 10;
/// How long a run may take whose request names no limit: the largest that servers allow by default.
const LONGEST_RUN: Duration = Duration::from_mins(10);

/// A request for a server.
pub(crate) struct Order {
    /// Path of the endpoint.
    pub(super) path: String,
    json: Map<String, Value>,
    /// Names and contents of large files.
    large: Vec<(String, Vec<u8>)>,
    /// Boundary of the parts of a form.
    mark: String,
    /// How long the answer may take.
    pub(super) silence: Duration,
}

impl Order {
    /// The order for a request of this process.
    pub(crate) fn of(request: &Request) -> anyhow::Result<Self> {
        Self::from(asked(request)?)
    }

    /// The same for a path that takes no form.
    pub(super) fn at(path: String, request: &Request) -> anyhow::Result<Self> {
        Self::build(path, asked(request)?, u64::MAX)
    }

    /// The order for a request in JSON, with the files of this machine that it names.
    pub(crate) fn from(asked: RunRequest) -> anyhow::Result<Self> {
        Self::build("/v1/runs".to_owned(), asked, INLINE)
    }

    fn build(path: String, mut asked: RunRequest, inline_bytes: u64) -> anyhow::Result<Self> {
        let mut large = Vec::new();
        let named = std::mem::take(&mut asked.files);
        for (name, source) in named {
            let FileSource::Bytes(ByteSource::Path(source)) = source else {
                asked.files.insert(name, source);
                continue;
            };
            let bytes = read(&source)?;
            if bytes.len() as u64 > inline_bytes && is_plain(&name) {
                large.push((name, bytes));
            } else {
                asked.files.insert(name, inline(bytes));
            }
        }
        // Infinity, which is as long as the server allows, has an end here.
        let longest = LONGEST_RUN * 1000;
        let wanted = asked.timeout.map(|time| Duration::try_from_secs_f64(time).unwrap_or(longest));
        let silence = SILENCE.saturating_add(wanted.unwrap_or(LONGEST_RUN).min(longest));
        let Ok(Value::Object(json)) = serde_json::to_value(&asked) else {
            return Err(Usage::new("the request has no form in JSON").into());
        };
        Ok(Self {
            path,
            json,
            large,
            mark: random()?,
            silence,
        })
    }

    /// Whether it runs in a session, which it may change.
    pub(super) fn is_in_session(&self) -> bool {
        self.path.starts_with("/v1/sessions/")
    }

    /// Bytes of the request, at least.
    pub(crate) fn size(&self) -> u64 {
        let large = self.large.iter().map(|(_, bytes)| bytes.len() as u64);
        Value::Object(self.json.clone()).to_string().len() as u64 + large.sum::<u64>()
    }

    /// Adds a key.
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.json.insert(key.to_owned(), value.into());
    }

    /// The body, and its media type.
    pub(super) fn body(&self) -> (Bytes, String) {
        let json = Value::Object(self.json.clone()).to_string();
        if self.large.is_empty() {
            return (json.into(), "application/json".to_owned());
        }
        let mark = &self.mark;
        let head = |name: &str| {
            format!("--{mark}\r\nContent-Disposition: form-data; name=\"{name}\"").into_bytes()
        };
        let mut form = head("request");
        form.extend_from_slice(b"\r\n\r\n");
        form.extend_from_slice(json.as_bytes());
        for (name, content) in &self.large {
            form.extend_from_slice(b"\r\n");
            form.extend(head("file"));
            form.extend_from_slice(format!("; filename=\"{name}\"\r\n\r\n").as_bytes());
            form.extend_from_slice(content);
        }
        form.extend_from_slice(format!("\r\n--{mark}--\r\n").as_bytes());
        (form.into(), format!("multipart/form-data; boundary={mark}"))
    }
}

/// The JSON of a request of this process.
fn asked(request: &Request) -> anyhow::Result<RunRequest> {
    if str::from_utf8(&request.stdin).is_err() {
        return Err(Usage::new("a server takes standard input as UTF-8 text only")
            .hint("pass the bytes as a file, with --file")
            .into());
    }
    Ok(RunRequest::of(request).map_err(Error::from)?)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| WorkspaceError::Input {
        path: path.to_owned(),
        source,
    };
    Ok(fs::read(path).map_err(failed)?)
}

fn inline(bytes: Vec<u8>) -> FileSource {
    match String::from_utf8(bytes) {
        Ok(text) => FileSource::Text(text),
        Err(error) => FileSource::Bytes(ByteSource::Base64(BASE64.encode(error.as_bytes()))),
    }
}

/// Whether a form can hold a file of this name as it is.
fn is_plain(name: &str) -> bool {
    !name.contains(['"', '\\', '\r', '\n'])
}

/// A random id.
pub(super) fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    let none = |error| io::Error::other(format!("there are no random numbers: {error}"));
    getrandom::fill(&mut bytes).map_err(none)?;
    Ok(HEXLOWER.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_this_machine_are_sent() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let large = vec![7; INLINE as usize + 1];
        let request = Request::new("c")
            .host_file("text", write("text", b"x"))
            .host_file("bytes", write("bytes", b"\xFF"))
            .host_file("large", write("large", &large))
            .host_file("a\"b", write("odd", &large));
        let order = Order::of(&request).unwrap();
        assert_eq!(order.json["files"]["text"], "x");
        assert_eq!(order.json["files"]["bytes"]["base64"], "/w==");
        assert!(order.json["files"]["a\"b"].is_string());
        assert_eq!(order.large, [("large".to_owned(), large)]);
        let (body, media) = order.body();
        let mark = media.strip_prefix("multipart/form-data; boundary=").unwrap();
        assert!(body.starts_with(format!("--{mark}\r\n").as_bytes()));
        assert!(body.ends_with(format!("\r\n--{mark}--\r\n").as_bytes()));
    }

    #[test]
    fn input_that_is_not_text_is_refused() {
        let error = Order::of(&Request::new("c").stdin([0xFF])).err().unwrap();
        assert!(error.is::<Usage>(), "{error}");
    }
}
