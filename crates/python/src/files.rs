//! Files of a session, accessed without a run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use belljar::Error;
use belljar::session::{PathEntry, PathKind, SessionFiles};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};
use serde_json::{Value, json};

use crate::error::Failure;
use crate::promise::call;
use crate::reactor::Reactor;
use crate::{json as border, options};

#[pyclass(frozen, module = "belljar._belljar")]
pub(crate) struct Files {
    pub(crate) reactor: Arc<Reactor>,
    pub(crate) files: SessionFiles,
}

#[pymethods]
impl Files {
    fn list(&self, py: Python<'_>, dir: String, depth: usize, later: bool) -> PyResult<Py<PyAny>> {
        let files = self.files.clone();
        self.tell(py, later, async move {
            let entries = files.list(&dir, depth).await?;
            Ok(Value::Array(entries.iter().map(described).collect()))
        })
    }

    fn stat(&self, py: Python<'_>, path: String, later: bool) -> PyResult<Py<PyAny>> {
        let files = self.files.clone();
        self.tell(py, later, async move { Ok(described(&files.stat(&path).await?)) })
    }

    fn read(
        &self,
        py: Python<'_>,
        path: String,
        start: u64,
        end: Option<u64>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let files = self.files.clone();
        let read = async move { Ok(files.read(&path, start..end.unwrap_or(u64::MAX)).await?) };
        let answer =
            |py: Python<'_>, bytes: Vec<u8>| Ok(PyBytes::new(py, &bytes).into_any().unbind());
        call(py, &self.reactor, later, read, answer)
    }

    /// `content` is bytes, text, or the path of a host file.
    fn write(
        &self,
        py: Python<'_>,
        path: String,
        content: &Bound<'_, PyAny>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let files = self.files.clone();
        let is_held = content.is_instance_of::<PyBytes>()
            || content.is_instance_of::<PyByteArray>()
            || content.is_instance_of::<PyString>();
        if is_held {
            let from = std::io::Cursor::new(options::bytes(content)?);
            return self.tell(
                py,
                later,
                async move { Ok(described(&files.write(&path, from).await?)) },
            );
        }
        let from = std::fs::File::open(content.extract::<PathBuf>()?)?;
        self.tell(py, later, async move { Ok(described(&files.write(&path, from).await?)) })
    }

    fn make_dir(&self, py: Python<'_>, path: String, later: bool) -> PyResult<Py<PyAny>> {
        let files = self.files.clone();
        self.tell(py, later, async move {
            files.make_dir(&path).await?;
            Ok(Value::Null)
        })
    }

    fn rename(&self, py: Python<'_>, from: String, to: String, later: bool) -> PyResult<Py<PyAny>> {
        let files = self.files.clone();
        self.tell(py, later, async move {
            files.rename(&from, &to).await?;
            Ok(Value::Null)
        })
    }

    fn remove(&self, py: Python<'_>, path: String, later: bool) -> PyResult<Py<PyAny>> {
        let files = self.files.clone();
        self.tell(py, later, async move {
            files.remove(&path).await?;
            Ok(Value::Null)
        })
    }
}

impl Files {
    fn tell(
        &self,
        py: Python<'_>,
        later: bool,
        work: impl Future<Output = Result<Value, Error>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let work = async { work.await.map_err(Failure::from) };
        call(py, &self.reactor, later, work, |py, value| Ok(border::to_py(py, &value)?.unbind()))
    }
}

fn described(entry: &PathEntry) -> Value {
    let kind = match entry.kind {
        PathKind::Directory => "directory",
        PathKind::Link => "link",
        _ => "file",
    };
    let since = |at: std::time::SystemTime| at.duration_since(UNIX_EPOCH).ok();
    json!({
        "path": entry.path,
        "kind": kind,
        "size": entry.size,
        "modified": entry.modified.and_then(since).map(|since| since.as_secs_f64()),
        "target": entry.target,
    })
}
