//! A session, for the Python half.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use belljar::Error;
use belljar::outcome::FileEntry;
use belljar::session::Completeness;
use belljar::tool::ToolAnswer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::{Value, json};

use crate::error::Failure;
use crate::files::Files;
use crate::promise::call;
use crate::reactor::Reactor;
use crate::run::{launch, outcome_to_py};
use crate::{json as border, options, value};

#[pyclass(frozen, module = "belljar._belljar")]
pub(crate) struct Session {
    reactor: Arc<Reactor>,
    session: belljar::Session,
}

/// Answers to calls, by their numbers: `(id, answer, None)`, or `(id, None, why it failed)`.
pub(crate) type Answers<'py> = Vec<(u64, Bound<'py, PyAny>, Option<String>)>;

pub(crate) fn answers_of(answers: Answers<'_>) -> PyResult<Vec<ToolAnswer>> {
    let answers = answers.into_iter().map(|(id, value, failed)| match failed {
        Some(why) => Ok(ToolAnswer::failed(id, why)),
        None => Ok(ToolAnswer::new(id, border::from_py(&value)?)),
    });
    answers.collect()
}

/// Converts the session for Python.
pub(crate) fn session_to_py(
    reactor: &Arc<Reactor>,
) -> impl FnOnce(Python<'_>, belljar::Session) -> PyResult<Py<PyAny>> + Send + 'static {
    let reactor = Arc::clone(reactor);
    move |py, session| Ok(Py::new(py, Session { reactor, session })?.into_any())
}

#[pymethods]
impl Session {
    #[getter]
    fn id(&self) -> &str {
        self.session.id()
    }

    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.reactor.check_process()?;
        border::to_py(py, &json!(self.session.info()))
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
        let session = self.session.clone();
        let run = |request| async move { session.run(request).await };
        launch(py, &self.reactor, asked, later, run, outcome_to_py)
    }

    fn answer(&self, py: Python<'_>, answers: Answers<'_>, later: bool) -> PyResult<Py<PyAny>> {
        let answers = answers_of(answers)?;
        let session = self.session.clone();
        let answered = async move { Ok(session.answer(answers).await?) };
        call(py, &self.reactor, later, answered, outcome_to_py)
    }

    fn waiting(&self, py: Python<'_>, later: bool) -> PyResult<Py<PyAny>> {
        let session = self.session.clone();
        self.tell(py, later, async move { Ok(json!(session.waiting().await?)) })
    }

    fn interrupt(&self) -> PyResult<bool> {
        self.reactor.check_process()?;
        Ok(self.session.interrupt())
    }

    fn history(&self, py: Python<'_>, later: bool) -> PyResult<Py<PyAny>> {
        let session = self.session.clone();
        self.tell(py, later, async move { Ok(json!(session.history().await?)) })
    }

    fn execution(&self, py: Python<'_>, later: bool) -> PyResult<Py<PyAny>> {
        let session = self.session.clone();
        self.tell(py, later, async move { Ok(json!(session.execution().await)) })
    }

    fn rewind(&self, py: Python<'_>, execution: u64, later: bool) -> PyResult<Py<PyAny>> {
        let session = self.session.clone();
        self.tell(py, later, async move {
            session.rewind(execution).await?;
            Ok(Value::Null)
        })
    }

    fn rewind_keeping(&self, py: Python<'_>, execution: u64, later: bool) -> PyResult<Py<PyAny>> {
        let session = self.session.clone();
        let kept = async move { Ok(session.rewind_keeping(execution).await?) };
        call(py, &self.reactor, later, kept, session_to_py(&self.reactor))
    }

    fn fork(&self, py: Python<'_>, later: bool) -> PyResult<Py<PyAny>> {
        let session = self.session.clone();
        let forked = async move { Ok(session.fork().await?) };
        call(py, &self.reactor, later, forked, session_to_py(&self.reactor))
    }

    /// Writes the session to a file, or returns its bytes.
    fn checkpoint(
        &self,
        py: Python<'_>,
        path: Option<PathBuf>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let session = self.session.clone();
        let Some(path) = path else {
            let written = async move {
                let bytes = Shared::default();
                session.checkpoint_to(bytes.clone()).await?;
                Ok(bytes.take())
            };
            return call(py, &self.reactor, later, written, |py, bytes| {
                Ok(PyBytes::new(py, &bytes).into_any().unbind())
            });
        };
        self.tell(py, later, async move {
            session.checkpoint(path).await?;
            Ok(Value::Null)
        })
    }

    fn suspend(&self, py: Python<'_>, later: bool) -> PyResult<Py<PyAny>> {
        let session = self.session.clone();
        self.tell(py, later, async move { Ok(json!(session.suspend().await)) })
    }

    fn snapshot(&self, py: Python<'_>, name: String, later: bool) -> PyResult<Py<PyAny>> {
        let session = self.session.clone();
        self.tell(py, later, async move {
            session.snapshot(&name).await?;
            Ok(Value::Null)
        })
    }

    fn read(&self, py: Python<'_>, path: String, later: bool) -> PyResult<Py<PyAny>> {
        let session = self.session.clone();
        let read = async move { Ok(session.read(&path).await?) };
        call(py, &self.reactor, later, read, |py, bytes: Vec<u8>| {
            Ok(PyBytes::new(py, &bytes).into_any().unbind())
        })
    }

    /// Copies files listed in an outcome to a directory. Returns their paths.
    fn copy_to(
        &self,
        py: Python<'_>,
        files: &Bound<'_, PyAny>,
        dir: PathBuf,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let files: Vec<FileEntry> = serde_json::from_value(border::from_py(files)?)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let session = self.session.clone();
        self.tell(py, later, async move { Ok(json!(session.copy_to(&files, &dir).await?)) })
    }

    fn files(&self) -> Files {
        Files {
            reactor: Arc::clone(&self.reactor),
            files: self.session.workspace(),
        }
    }

    fn set_labels(&self, labels: BTreeMap<String, String>) -> PyResult<()> {
        self.reactor.check_process()?;
        Ok(self.session.set_labels(labels).map_err(Failure::from)?)
    }

    fn extend_lease(&self, seconds: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.reactor.check_process()?;
        let seconds = options::seconds(seconds)?;
        Ok(self.session.extend_lease(seconds).map_err(Failure::from)?)
    }

    /// Returns the value of a variable in a tuple, or None.
    fn get(&self, py: Python<'_>, name: String, later: bool) -> PyResult<Py<PyAny>> {
        let session = self.session.clone();
        let got = async move { Ok(session.get(&name).await?) };
        call(py, &self.reactor, later, got, |py, found| match found {
            Some(found) => Ok((value::to_py(py, found)?,).into_pyobject(py)?.into_any().unbind()),
            None => Ok(py.None()),
        })
    }

    fn set(
        &self,
        py: Python<'_>,
        name: String,
        object: &Bound<'_, PyAny>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let (session, value) = (self.session.clone(), value::from_py(object)?);
        self.tell(py, later, async move {
            session.set(&name, value).await?;
            Ok(Value::Null)
        })
    }

    /// Evaluates expressions. Each result is `(value, None)`, or `(None, error)`.
    fn evaluate(
        &self,
        py: Python<'_>,
        expressions: BTreeMap<String, String>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let session = self.session.clone();
        let asked = async move { Ok(session.evaluate(expressions).await?) };
        call(py, &self.reactor, later, asked, |py, found| {
            let values = PyDict::new(py);
            for (name, found) in found {
                match found {
                    Ok(found) => values.set_item(name, (value::to_py(py, found)?, py.None()))?,
                    Err(raised) => values.set_item(name, (py.None(), raised))?,
                }
            }
            Ok(values.into_any().unbind())
        })
    }

    fn complete(
        &self,
        py: Python<'_>,
        code: String,
        cursor: usize,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let session = self.session.clone();
        self.tell(py, later, async move {
            let found = session.complete(&code, cursor).await?;
            Ok(json!({"start": found.start, "matches": found.matches}))
        })
    }

    fn inspect(
        &self,
        py: Python<'_>,
        code: String,
        cursor: usize,
        detail: bool,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let session = self.session.clone();
        self.tell(
            py,
            later,
            async move { Ok(json!(session.inspect(&code, cursor, detail).await?)) },
        )
    }

    /// Returns `complete`, `invalid`, or the indentation of the next line.
    fn is_complete(&self, py: Python<'_>, code: String, later: bool) -> PyResult<Py<PyAny>> {
        let session = self.session.clone();
        self.tell(py, later, async move {
            Ok(match session.is_complete(&code).await? {
                Completeness::Complete => json!({"status": "complete", "indent": null}),
                Completeness::Incomplete { indent } => {
                    json!({"status": "incomplete", "indent": indent})
                }
                _ => json!({"status": "invalid", "indent": null}),
            })
        })
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.session.close());
    }
}

impl Session {
    pub(crate) fn new(reactor: Arc<Reactor>, session: belljar::Session) -> Self {
        Self { reactor, session }
    }

    pub(crate) fn inner(&self) -> belljar::Session {
        self.session.clone()
    }

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

/// A buffer with a writer and a reader.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
