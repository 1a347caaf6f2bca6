//! The images of a runtime.

use std::path::PathBuf;
use std::sync::Arc;

use belljar::Error;
use belljar::images::ImageInfo;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::error::Failure;
use crate::json as border;
use crate::promise::call;
use crate::reactor::Reactor;

#[pyclass(frozen, module = "belljar._belljar")]
pub(crate) struct Images {
    pub(crate) reactor: Arc<Reactor>,
    pub(crate) images: belljar::images::Images,
}

#[pymethods]
impl Images {
    fn list(&self, py: Python<'_>, later: bool) -> PyResult<Py<PyAny>> {
        self.call(py, later, |images| {
            Ok(Value::Array(images.list()?.iter().map(described).collect()))
        })
    }

    fn get(&self, py: Python<'_>, name: String, later: bool) -> PyResult<Py<PyAny>> {
        self.call(py, later, move |images| Ok(described(&images.get(&name)?)))
    }

    fn prepare(&self, py: Python<'_>, name: String, later: bool) -> PyResult<Py<PyAny>> {
        self.call(py, later, move |images| images.prepare(&name).map(|()| Value::Null))
    }

    fn build(&self, py: Python<'_>, recipe: PathBuf, later: bool) -> PyResult<Py<PyAny>> {
        self.call(py, later, move |images| Ok(described(&images.build(&recipe)?)))
    }

    fn remove(&self, py: Python<'_>, name: String, later: bool) -> PyResult<Py<PyAny>> {
        self.call(py, later, move |images| images.remove(&name).map(|()| Value::Null))
    }
}

impl Images {
    fn call(
        &self,
        py: Python<'_>,
        later: bool,
        work: impl FnOnce(&belljar::images::Images) -> Result<Value, Error> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let images = self.images.clone();
        let work = self.reactor.blocking(move || work(&images));
        call(py, &self.reactor, later, work, |py, value| Ok(border::to_py(py, &value)?.unbind()))
    }
}

impl Reactor {
    /// Runs blocking work on a thread for it.
    pub(crate) fn blocking<T: Send + 'static, E: Into<Failure> + Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> impl Future<Output = Result<T, Failure>> + Send + 'static {
        let process = self.check_process();
        let handle = self.handle().clone();
        async move {
            process?;
            match handle.spawn_blocking(work).await {
                Ok(result) => result.map_err(Into::into),
                Err(_) => Err(Failure::Closed),
            }
        }
    }
}

fn described(image: &ImageInfo) -> Value {
    let contents = image.contents.as_ref();
    json!({
        "name": image.name,
        "path": image.path,
        "built_in": image.built_in,
        "tier": image.tier,
        "disk_bytes": image.disk_bytes,
        "description": contents.map(|held| &held.description),
        "base": contents.and_then(|held| held.base.as_ref()),
        "imports": contents.map(|held| &held.imports),
        "packages": contents.map(|held| &held.packages),
        "memory_bytes": contents.map(|held| held.memory_bytes),
    })
}
