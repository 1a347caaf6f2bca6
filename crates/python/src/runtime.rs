//! The runtime, for the Python half.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use belljar::RuntimeBuilder;
use belljar::lockdown::LockdownOptions;
use belljar::request::RunLimits;
use belljar::setup::{Strategy, Tier};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use crate::error::Failure;
use crate::images::Images;
use crate::progress::Told;
use crate::promise::call;
use crate::reactor::Reactor;
use crate::run::{Finished, launch, run_to_py};
use crate::session::{Session, session_to_py};
use crate::{json as border, options};

#[pyclass(frozen, module = "belljar._belljar")]
pub(crate) struct Runtime {
    pub(crate) reactor: Arc<Reactor>,
    pub(crate) runtime: belljar::Runtime,
}

#[pymethods]
impl Runtime {
    /// Builds a runtime; `progress` is called with `(begins, text, subject, seconds)`.
    #[staticmethod]
    fn build(
        py: Python<'_>,
        settings: &Bound<'_, PyDict>,
        progress: Option<Py<PyAny>>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let mut builder = configured(settings)?;
        if let Some(progress) = progress {
            builder = builder.progress(Arc::new(Told(Arc::new(progress))));
        }
        let reactor = Reactor::start()?;
        let built = reactor.blocking(move || builder.build());
        let own = Arc::clone(&reactor);
        call(py, &reactor, later, built, move |py, runtime| {
            let runtime = Self {
                reactor: own,
                runtime,
            };
            Ok(Py::new(py, runtime)?.into_any())
        })
    }

    fn run(
        &self,
        py: Python<'_>,
        code: String,
        options: Option<&Bound<'_, PyDict>>,
        extras: Option<&Bound<'_, PyDict>>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let asked = options::request(code, options, extras)?;
        let runtime = self.runtime.clone();
        let run = |request| async move { runtime.run(request).await.map(Finished::from) };
        launch(py, &self.reactor, asked, later, run, run_to_py)
    }

    fn check(
        &self,
        py: Python<'_>,
        code: String,
        policy: &Bound<'_, PyAny>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let policy = options::policy(policy)?;
        let runtime = self.runtime.clone();
        let checked = async move { Ok(runtime.check(&code, &policy).await?) };
        call(py, &self.reactor, later, checked, |py, report| {
            let report = json!({
                "violations": report.violations,
                "missing_imports": report.missing_imports,
            });
            Ok(border::to_py(py, &report)?.unbind())
        })
    }

    fn session(
        &self,
        py: Python<'_>,
        code: String,
        options: Option<&Bound<'_, PyDict>>,
        extras: Option<&Bound<'_, PyDict>>,
        own: Option<&Bound<'_, PyDict>>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let options = options::session(options::request(code, options, extras)?, own)?;
        let runtime = self.runtime.clone();
        let made = async move { Ok(runtime.session(options).await?) };
        call(py, &self.reactor, later, made, session_to_py(&self.reactor))
    }

    /// Returns a client's session, creating it with these options if it does not exist.
    #[expect(
        clippy::too_many_arguments,
        reason = "those of a session, and whose it is"
    )]
    fn for_client(
        &self,
        py: Python<'_>,
        client: String,
        code: String,
        options: Option<&Bound<'_, PyDict>>,
        extras: Option<&Bound<'_, PyDict>>,
        own: Option<&Bound<'_, PyDict>>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let options = options::session(options::request(code, options, extras)?, own)?;
        let runtime = self.runtime.clone();
        let found = async move { Ok(runtime.sessions().for_client(&client, options).await?) };
        call(py, &self.reactor, later, found, session_to_py(&self.reactor))
    }

    /// Restores a session from a checkpoint: a path, or its bytes.
    fn restore(
        &self,
        py: Python<'_>,
        from: &Bound<'_, PyAny>,
        own: Option<&Bound<'_, PyDict>>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let options = options::restore(from, own)?;
        let runtime = self.runtime.clone();
        let restored = async move { Ok(runtime.restore(options).await?) };
        call(py, &self.reactor, later, restored, session_to_py(&self.reactor))
    }

    fn session_from(&self, py: Python<'_>, snapshot: String, later: bool) -> PyResult<Py<PyAny>> {
        let runtime = self.runtime.clone();
        let made = async move { Ok(runtime.session_from(&snapshot).await?) };
        call(py, &self.reactor, later, made, session_to_py(&self.reactor))
    }

    fn find(&self, id: &str) -> PyResult<Session> {
        self.reactor.check_process()?;
        let session = self.runtime.sessions().get(id).map_err(Failure::from)?;
        Ok(Session::new(Arc::clone(&self.reactor), session))
    }

    fn sessions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.reactor.check_process()?;
        border::to_py(py, &json!(self.runtime.sessions().list()))
    }

    fn snapshots(&self) -> PyResult<Vec<String>> {
        self.reactor.check_process()?;
        Ok(self.runtime.sessions().snapshots())
    }

    fn drop_snapshot(&self, name: &str) -> PyResult<()> {
        self.reactor.check_process()?;
        Ok(self.runtime.sessions().drop_snapshot(name).map_err(Failure::from)?)
    }

    fn images(&self) -> Images {
        Images {
            reactor: Arc::clone(&self.reactor),
            images: self.runtime.images(),
        }
    }

    /// Completes the cache, so that a process that is locked down only reads it.
    fn set_up(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let runtime = self.runtime.clone();
        let set_up = self.reactor.blocking(move || {
            if runtime.is_set_up() {
                return Ok(());
            }
            runtime.compile(Tier::All)?;
            let images = runtime.images();
            let built_in = images.list()?.into_iter().filter(|image| image.built_in);
            // Others are made on request.
            built_in.take(Tier::EVERY.len()).try_for_each(|image| images.prepare(&image.name))
        });
        call(py, &self.reactor, false, set_up, |py, ()| Ok(py.None()))
    }

    /// Locks this process down, and returns what holds it.
    fn lockdown<'py>(
        &self,
        py: Python<'py>,
        read: Vec<PathBuf>,
        write: Vec<PathBuf>,
        connect: Vec<u16>,
        resolve_names: bool,
        end_children: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.reactor.check_process()?;
        let mut options = LockdownOptions::default();
        options.read = read;
        options.write = write;
        options.connect = connect;
        options.resolve_names = resolve_names;
        options.end_children = end_children;
        // Threads that wait for the interpreter are stopped by a signal, too.
        let report = py.detach(|| self.runtime.apply_lockdown(&options));
        border::to_py(py, &json!(report))
    }

    /// Stops all runs and threads. Later calls fail.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.reactor.close());
    }
}

pub(crate) fn configured(settings: &Bound<'_, PyDict>) -> PyResult<RuntimeBuilder> {
    let mut builder = belljar::Runtime::builder().environment();
    for (key, value) in settings {
        builder = match key.extract::<&str>()? {
            "cache" => builder.cache(value.extract::<PathBuf>()?),
            "wheel" => builder.wheel(value.extract::<PathBuf>()?),
            "bundle" => builder.bundle(value.extract::<PathBuf>()?),
            "bundle_hash" => builder.bundle_hash(value.extract::<String>()?),
            "temp_dir" => builder.temp_dir(value.extract::<PathBuf>()?),
            "file_memory" => builder.file_memory(value.extract()?),
            "concurrency" => builder.concurrency(value.extract()?),
            "queue" => builder.queue(value.extract()?),
            "clock_resolution" => builder.clock_resolution(Duration::from_nanos(value.extract()?)),
            "limits" => builder.defaults(options::bounds(RunLimits::default(), value.cast()?)?),
            "ceilings" => builder.ceilings(options::bounds(RunLimits::CEILINGS, value.cast()?)?),
            "sessions" => builder.sessions(options::session_bounds(value.cast()?)?),
            "memory" => match value.extract::<&str>()? {
                "map" => builder.memory_strategy(Strategy::Map),
                "copy" => builder.memory_strategy(Strategy::Copy),
                _ => return Err(PyValueError::new_err("memory is map or copy")),
            },
            other => return Err(PyTypeError::new_err(format!("no such setting: {other}"))),
        };
    }
    Ok(builder)
}
