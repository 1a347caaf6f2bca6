//! Converts options from the Python half to requests of the engine. The Python half has checked the
//! names of all keys.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use belljar::request::{HostPaths, InputFile, Mount, RunLimits, RunRequest};
use belljar::session::{LeaseEnd, RegistryLimits, RestoreOptions, SessionLimits};
use belljar::tool::ToolLimits;
use belljar::value::Value;
use belljar::{Policy, Request, SessionOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyString};

use crate::error::Failure;
use crate::tool::{Tool, ask};
use crate::{json, value};

/// A request, and the receiver of its events.
pub(crate) struct Asked {
    pub request: Request,
    pub on_event: Option<Py<PyAny>>,
}

/// `options` is the request as JSON, `extras` the options without a JSON form.
pub(crate) fn request(
    code: String,
    options: Option<&Bound<'_, PyDict>>,
    extras: Option<&Bound<'_, PyDict>>,
) -> PyResult<Asked> {
    let mut request = match options {
        None => Request::new(code),
        Some(options) => {
            let mut asked = json::from_py(options)?;
            asked["code"] = "".into();
            let asked: RunRequest = serde_json::from_value(asked)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
            let mut request = asked.into_request(HostPaths::Refused).map_err(Failure::from)?;
            request.code = code;
            request
        }
    };
    let mut on_event = None;
    if let Some(extras) = extras {
        for (key, value) in extras {
            match key.extract::<&str>()? {
                "plain" => request.capture.typed = !value.is_truthy()?,
                "files" => files(&mut request, value.cast()?)?,
                "variables" => variables(&mut request, value.cast()?)?,
                "mounts" => request.mounts = mounts(&value)?,
                "stdin" => request.stdin = bytes(&value)?,
                "tools" => request.tools = tools(&value)?,
                "tool_limits" => request.tool_limits = tool_limits(value.cast()?)?,
                "answerer" => {
                    let start = std::sync::Arc::new(value.unbind());
                    request = request.answerer(move |prompt| ask(start.clone(), prompt));
                }
                "on_event" => on_event = Some(value.unbind()),
                other => return Err(PyTypeError::new_err(format!("no such option: {other}"))),
            }
        }
    }
    Ok(Asked { request, on_event })
}

fn files(request: &mut Request, files: &Bound<'_, PyDict>) -> PyResult<()> {
    for (path, content) in files {
        let path: String = path.extract()?;
        let is_bytes = content.is_instance_of::<PyBytes>()
            || content.is_instance_of::<PyByteArray>()
            || content.is_instance_of::<PyString>();
        request.files.push(if is_bytes {
            InputFile::new(path, bytes(&content)?)
        } else {
            InputFile::copy_of(content.extract::<PathBuf>()?, path)
        });
    }
    Ok(())
}

/// Bytes, or text as UTF-8.
pub(crate) fn bytes(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(text.to_str()?.as_bytes().to_vec());
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    Ok(object.cast::<PyByteArray>()?.to_vec())
}

fn variables(request: &mut Request, variables: &Bound<'_, PyDict>) -> PyResult<()> {
    for (name, object) in variables {
        let value: Value = value::from_py(&object)?;
        request.variables.insert(name.extract()?, value);
    }
    Ok(())
}

fn mounts(pairs: &Bound<'_, PyAny>) -> PyResult<Vec<Mount>> {
    let pairs: Vec<(PathBuf, String)> = pairs.extract()?;
    Ok(pairs.into_iter().map(|(host, guest)| Mount::new(host, guest)).collect())
}

fn tools(tools: &Bound<'_, PyAny>) -> PyResult<Vec<belljar::Tool>> {
    tools.try_iter()?.map(|tool| Ok(tool?.cast::<Tool>()?.get().tool.clone())).collect()
}

pub(crate) fn tool_limits(asked: &Bound<'_, PyDict>) -> PyResult<ToolLimits> {
    let mut limits = ToolLimits::default();
    for (key, value) in asked {
        limits = match key.extract::<&str>()? {
            "calls" => limits.calls(value.extract()?),
            "argument_bytes" => limits.argument_bytes(value.extract()?),
            "answer_bytes" => limits.answer_bytes(value.extract()?),
            "total_bytes" => limits.total_bytes(value.extract()?),
            "timeout" => limits.timeout(seconds(&value)?),
            other => return Err(unknown("tool_limits", other)),
        };
    }
    Ok(limits)
}

fn unknown(of: &str, key: &str) -> PyErr {
    PyTypeError::new_err(format!("{of} has no key {key:?}"))
}

pub(crate) fn seconds(object: &Bound<'_, PyAny>) -> PyResult<Duration> {
    Duration::try_from_secs_f64(object.extract()?).map_err(|error| {
        PyValueError::new_err(format!("{object} is not a number of seconds: {error}"))
    })
}

/// Options of a session: those of its runs, and its own.
pub(crate) fn session(asked: Asked, own: Option<&Bound<'_, PyDict>>) -> PyResult<SessionOptions> {
    if asked.on_event.is_some() {
        return Err(PyTypeError::new_err("events are those of a run: give on_event to run"));
    }
    let mut options = SessionOptions::from_request(asked.request);
    for (key, value) in own.into_iter().flatten() {
        options = match key.extract::<&str>()? {
            "lifetime" => options.lifetime(seconds(&value)?),
            "idle" => options.idle(seconds(&value)?),
            "total_fuel" => options.total_fuel(value.extract()?),
            "history" => {
                let (runs, bytes) = value.extract()?;
                options.history(runs, bytes)
            }
            "client" => options.client(value.extract::<String>()?),
            "labels" => {
                options.labels = value.extract::<BTreeMap<String, String>>()?;
                options
            }
            "lease" => {
                let (duration, then) = lease(&value)?;
                options.lease(duration, then)
            }
            other => return Err(unknown("a session", other)),
        };
    }
    Ok(options)
}

/// The duration of a lease, and the action at its end.
fn lease(asked: &Bound<'_, PyAny>) -> PyResult<(Duration, LeaseEnd)> {
    let (duration, then): (Bound<'_, PyAny>, String) = asked.extract()?;
    let then = match then.as_str() {
        "close" => LeaseEnd::Close,
        "suspend" => LeaseEnd::Suspend,
        _ => return Err(PyValueError::new_err("a lease ends with close or suspend")),
    };
    Ok((seconds(&duration)?, then))
}

/// A policy in the request's JSON form.
pub(crate) fn policy(asked: &Bound<'_, PyAny>) -> PyResult<Policy> {
    serde_json::from_value(json::from_py(asked)?)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The place of a checkpoint, and the options for restoring it.
pub(crate) fn restore(
    from: &Bound<'_, PyAny>,
    own: Option<&Bound<'_, PyDict>>,
) -> PyResult<RestoreOptions> {
    let mut options = match from.cast::<PyBytes>() {
        Ok(bytes) => RestoreOptions::reader(std::io::Cursor::new(bytes.as_bytes().to_vec())),
        Err(_) => RestoreOptions::file(from.extract::<PathBuf>()?),
    };
    let mut limits = SessionLimits::default();
    for (key, value) in own.into_iter().flatten() {
        options = match key.extract::<&str>()? {
            "lifetime" => {
                limits = limits.lifetime(seconds(&value)?);
                options
            }
            "idle" => {
                limits = limits.idle(seconds(&value)?);
                options
            }
            "total_fuel" => {
                limits = limits.fuel(value.extract()?);
                options
            }
            "policy" => options.policy(policy(&value)?),
            "lease" => {
                let (duration, then) = lease(&value)?;
                options.lease(duration, then)
            }
            "mounts" => options.mounts(mounts(&value)?),
            "id" => options.id(value.extract::<String>()?),
            "client" => options.client(value.extract::<String>()?),
            "tools" => tools(&value)?.into_iter().fold(options, RestoreOptions::tool),
            other => return Err(unknown("a restored session", other)),
        };
    }
    Ok(options.limits(limits))
}

/// Limits that override `bounds`, named like those of a run.
pub(crate) fn bounds(bounds: RunLimits, asked: &Bound<'_, PyDict>) -> PyResult<RunLimits> {
    let mib = |object: &Bound<'_, PyAny>| -> PyResult<u64> {
        Ok(object.extract::<u64>()?.saturating_mul(1 << 20))
    };
    let mut bounds = bounds;
    for (key, value) in asked {
        bounds = match key.extract::<&str>()? {
            // As long as the ceiling allows.
            "timeout" if value.is_none() => bounds.timeout(Duration::MAX),
            "timeout" => bounds.timeout(seconds(&value)?),
            "memory_mb" => bounds.memory(mib(&value)?),
            "fuel" => bounds.fuel(value.extract()?),
            "output_bytes" => bounds.output(value.extract()?),
            "workspace_mb" => bounds.workspace(mib(&value)?),
            "max_files" => bounds.files(value.extract()?),
            other => return Err(unknown("a limit", other)),
        };
    }
    Ok(bounds)
}

/// Limits on the sessions of a runtime.
pub(crate) fn session_bounds(asked: &Bound<'_, PyDict>) -> PyResult<RegistryLimits> {
    let mut bounds = RegistryLimits::default();
    for (key, value) in asked {
        bounds = match key.extract::<&str>()? {
            "max" => bounds.max(value.extract()?),
            "max_awake" => bounds.max_awake(value.extract()?),
            "suspend_after" => bounds.suspend_after(seconds(&value)?),
            "restored_bytes" => bounds.restored(value.extract()?),
            "dir" => bounds.dir(value.extract::<PathBuf>()?),
            other => return Err(unknown("sessions", other)),
        };
    }
    Ok(bounds)
}
