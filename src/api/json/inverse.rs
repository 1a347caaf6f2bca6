//! Converts a request to JSON, if JSON can represent it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use super::{ByteSource, FileSource, RunRequest};
use crate::api::refusal::{Field, Reason, ReasonKind, Refusal};
use crate::api::request::{Content, Dialect, ImageChoice, InputFile, Policy, Request, Threads};

impl RunRequest {
    /// Returns the JSON form of a request; [`into_request`](Self::into_request) is the inverse.
    /// Watchers, interrupts and answerers of `input()` are omitted.
    ///
    /// # Errors
    ///
    /// If JSON cannot represent a part of the request: a mounted directory, a tool with a function,
    /// standard input that is not UTF-8, or a limit that is not a whole number of MiB.
    pub fn of(request: &Request) -> Result<Self, Refusal> {
        let mut reasons = Vec::new();
        let mut refuse = |field, message: String| {
            reasons.push(Reason::new(field, ReasonKind::Invalid, message));
        };
        if !request.mounts.is_empty() {
            refuse(Field::Mounts, "directories of the host have no form in JSON".into());
        }
        let stdin = String::from_utf8(request.stdin.clone());
        if stdin.is_err() {
            refuse(Field::Files, "standard input that is not UTF-8 has no form in JSON".into());
        }
        let mut mebibytes = |field, bytes: Option<u64>| {
            if bytes.is_some_and(|bytes| !bytes.is_multiple_of(1 << 20)) {
                refuse(field, "no whole number of MiB, which JSON has no form for".into());
            }
            bytes.map(|bytes| bytes >> 20)
        };
        let memory_mb = mebibytes(Field::Memory, request.limits.memory);
        let workspace_mb = mebibytes(Field::Workspace, request.limits.workspace);
        if !request.tools.is_empty() {
            refuse(Field::Tools, "tools are not written back to JSON".into());
        }
        Refusal::unless_empty(reasons)?;
        Ok(Self {
            id: Value::Null,
            code: request.code.clone(),
            image: match &request.image {
                ImageChoice::Auto => None,
                ImageChoice::Named(name) => Some(name.clone()),
            },
            set: request.variables.clone(),
            files: request.files.iter().map(file).collect(),
            stdin: stdin.ok().filter(|text| !text.is_empty()),
            env: request.env.clone(),
            run_env: request.run_env.clone(),
            aliases: request.aliases.clone(),
            cwd: request.cwd.clone(),
            args: request.args.clone(),
            timeout: request.limits.timeout.map(|timeout| match timeout {
                Duration::MAX => f64::INFINITY,
                timeout => timeout.as_secs_f64(),
            }),
            memory_mb,
            fuel: request.limits.fuel,
            output_bytes: request.limits.output,
            workspace_mb,
            max_files: request.limits.files,
            policy: Some(request.policy.clone()).filter(|policy| *policy != Policy::default()),
            echo: request.echo,
            dialect: Some(request.dialect).filter(|dialect| *dialect != Dialect::default()),
            result_var: request.result_var.clone(),
            threads: Some(request.threads).filter(|threads| *threads != Threads::default()),
            deterministic: request.deterministic.clone(),
            capture: Some(request.capture.clone()),
            tools: Vec::new(),
            answers: request.answers.clone(),
        })
    }
}

fn file(file: &InputFile) -> (String, FileSource) {
    let source = match &file.content {
        Content::Host(path) => FileSource::Bytes(ByteSource::Path(path.clone())),
        Content::Bytes(bytes) => match str::from_utf8(bytes) {
            Ok(text) => FileSource::Text(text.to_owned()),
            Err(_) => FileSource::Bytes(ByteSource::Base64(BASE64.encode(bytes))),
        },
    };
    (file.path.clone(), source)
}
