//! A session of a store while this process holds it.

use std::pin::Pin;
use std::sync::Arc;

use belljar::Error;
use belljar::cluster::{Claim, Reading, StoredSessions};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::sync::Mutex;

use crate::error::Failure;
use crate::options;
use crate::promise::call;
use crate::reactor::{AtHome, Reactor};
use crate::run::{launch, outcome_to_py};
use crate::session::{Answers, Session, answers_of};

/// The purpose of holding a session.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// It will not be changed.
    Look,
    Change,
    Run,
}

impl Purpose {
    pub(crate) fn of(name: &str) -> PyResult<Self> {
        match name {
            "look" => Ok(Self::Look),
            "change" => Ok(Self::Change),
            "run" => Ok(Self::Run),
            _ => Err(PyValueError::new_err("a session is held to look, change or run")),
        }
    }

    pub(crate) async fn take(self, sessions: &StoredSessions, id: &str) -> Result<Held, Error> {
        Ok(match self {
            Self::Look => Held::Reading(sessions.read(id).await?),
            Self::Change => Held::Claim(Box::new(sessions.claim(id).await?)),
            Self::Run => Held::Claim(Box::new(sessions.claim_run(id).await?)),
        })
    }
}

/// A session that is held.
pub(crate) enum Held {
    Reading(Reading),
    Claim(Box<Claim>),
}

impl Held {
    fn session(&self) -> belljar::Session {
        match self {
            Self::Reading(reading) => reading.session().clone(),
            Self::Claim(claim) => claim.session().clone(),
        }
    }
}

/// A session of a store that this process holds. Dropping it releases it unchanged.
#[pyclass(frozen, module = "belljar._belljar")]
pub(crate) struct Hold {
    reactor: Arc<Reactor>,
    session: belljar::Session,
    /// `None` once it is released.
    held: AtHome<Arc<Mutex<Option<Held>>>>,
}

impl Hold {
    pub(crate) fn new(reactor: Arc<Reactor>, held: Held) -> Self {
        let session = held.session();
        let held = AtHome::new(&reactor, Arc::new(Mutex::new(Some(held))));
        Self {
            reactor,
            session,
            held,
        }
    }

    fn held(&self) -> Arc<Mutex<Option<Held>>> {
        self.held.get().cloned().unwrap_or_default()
    }

    fn at_home<F: Future>(&self, work: F) -> AtHome<Pin<Box<F>>> {
        AtHome::new(&self.reactor, Box::pin(work))
    }
}

#[pymethods]
impl Hold {
    /// The session, which can be used while it is held.
    fn session(&self) -> Session {
        Session::new(Arc::clone(&self.reactor), self.session.clone())
    }

    /// Runs code. The outcome says what was lost before.
    fn run(
        &self,
        py: Python<'_>,
        code: String,
        options: Option<&Bound<'_, PyDict>>,
        extras: Option<&Bound<'_, PyDict>>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let asked = options::request(code, options, extras)?;
        let held = self.held();
        let run = |request| {
            self.at_home(async move {
                let mut held = held.lock().await;
                Ok::<_, Failure>(claimed(&mut held)?.run(request).await?)
            })
        };
        launch(py, &self.reactor, asked, later, run, outcome_to_py)
    }

    /// Answers calls that a run waits for, like `Session.answer`.
    fn answer(&self, py: Python<'_>, answers: Answers<'_>, later: bool) -> PyResult<Py<PyAny>> {
        let answers = answers_of(answers)?;
        let held = self.held();
        let answered = self.at_home(async move {
            let mut held = held.lock().await;
            Ok(claimed(&mut held)?.answer(answers).await?)
        });
        call(py, &self.reactor, later, answered, outcome_to_py)
    }

    /// Releases it after the current run has ended: saves its state, or leaves the stored one if
    /// nothing was changed. Returns whether it was still held.
    fn release(&self, py: Python<'_>, is_changed: bool, later: bool) -> PyResult<Py<PyAny>> {
        let held = self.held();
        let released = self.at_home(async move {
            match held.lock().await.take() {
                None => return Ok(false),
                Some(Held::Reading(reading)) => drop(reading),
                Some(Held::Claim(claim)) if is_changed => claim.release().await?,
                Some(Held::Claim(claim)) => claim.release_unchanged().await?,
            }
            Ok(true)
        });
        call(py, &self.reactor, later, released, |py, was_held: bool| {
            Ok(was_held.into_pyobject(py)?.to_owned().into_any().unbind())
        })
    }
}

fn claimed(held: &mut Option<Held>) -> Result<&mut Claim, Failure> {
    let wrong = |why: &'static str| Failure::Python(PyRuntimeError::new_err(why));
    match held {
        Some(Held::Claim(claim)) => Ok(claim),
        Some(Held::Reading(_)) => Err(wrong("the session is held read-only")),
        None => Err(wrong("the session was given back to its store")),
    }
}
