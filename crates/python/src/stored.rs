//! Sessions of a store, for the Python half.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::UNIX_EPOCH;

use belljar::cluster::{
    CHUNK_GRACE, Claim, NodeOptions, StoredInfo, StoredSessions, collect_chunks,
};
use belljar::{Error, Outcome};
use belljar_stores::open_store;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

use crate::error::Failure;
use crate::hold::{Hold, Purpose};
use crate::promise::call;
use crate::reactor::{AtHome, Reactor};
use crate::run::{launch, outcome_to_py};
use crate::runtime::Runtime;
use crate::session::{Answers, Session, answers_of};
use crate::{json as border, options};

/// A node of a store.
#[pyclass(frozen, module = "belljar._belljar")]
pub(crate) struct Stored {
    reactor: Arc<Reactor>,
    sessions: StoredSessions,
    settling: Settling,
    /// Whether a run returns only when its state is in the store.
    is_durable: bool,
}

#[pymethods]
impl Stored {
    /// `options` are `name`, `lease`, `patience` and `durable`.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        runtime: &Bound<'_, Runtime>,
        store: String,
        options: &Bound<'_, PyDict>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let (node, is_durable) = node_options(options)?;
        let reactor = Arc::clone(&runtime.get().reactor);
        let runtime = runtime.get().runtime.clone();
        let opened = reactor.blocking(move || {
            let store = open_store(&store)?;
            Ok::<_, Failure>(StoredSessions::new(runtime, store, node)?)
        });
        let own = Arc::clone(&reactor);
        call(py, &reactor, later, opened, move |py, sessions| {
            let stored = Self {
                settling: Settling::new(&own, &sessions),
                reactor: own,
                sessions,
                is_durable,
            };
            Ok(Py::new(py, stored)?.into_any())
        })
    }

    #[getter]
    fn name(&self) -> &str {
        self.sessions.name()
    }

    /// Moves a session into the store. Returns its id.
    fn add(
        &self,
        py: Python<'_>,
        session: &Bound<'_, Session>,
        about: &Bound<'_, PyAny>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let Value::Object(about) = border::from_py(about)? else {
            return Err(PyTypeError::new_err("about is a dictionary"));
        };
        let (sessions, session) = (self.sessions.clone(), session.get().inner());
        self.tell(py, later, async move { Ok(json!(sessions.add(session, about).await?)) })
    }

    /// Runs code in a session, waiting until it is available.
    fn run(
        &self,
        py: Python<'_>,
        id: String,
        code: String,
        options: Option<&Bound<'_, PyDict>>,
        extras: Option<&Bound<'_, PyDict>>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let asked = options::request(code, options, extras)?;
        let (sessions, is_durable) = (self.sessions.clone(), self.is_durable);
        let settling = self.settling.clone();
        let run = |request| {
            self.at_home(async move {
                let mut claim = sessions.claim_run(&id).await?;
                settling.watch();
                let ran = claim.run(request).await;
                give_back(claim, ran, is_durable).await
            })
        };
        launch(py, &self.reactor, asked, later, run, outcome_to_py)
    }

    /// Answers calls that a run waits for, like `Session.answer`.
    fn answer(
        &self,
        py: Python<'_>,
        id: String,
        answers: Answers<'_>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let answers = answers_of(answers)?;
        let (sessions, is_durable) = (self.sessions.clone(), self.is_durable);
        let settling = self.settling.clone();
        let answered = self.at_home(async move {
            let mut claim = sessions.claim_run(&id).await?;
            settling.watch();
            let ran = claim.answer(answers).await;
            Ok(give_back(claim, ran, is_durable).await?)
        });
        call(py, &self.reactor, later, answered, outcome_to_py)
    }

    /// Holds a session to `look` at it, to `change` it, or to `run` code in it.
    fn take(&self, py: Python<'_>, id: String, purpose: &str, later: bool) -> PyResult<Py<PyAny>> {
        let purpose = Purpose::of(purpose)?;
        let (sessions, settling) = (self.sessions.clone(), self.settling.clone());
        let taken = self.at_home(async move {
            let held = purpose.take(&sessions, &id).await?;
            settling.watch();
            Ok(held)
        });
        let reactor = Arc::clone(&self.reactor);
        call(py, &self.reactor, later, taken, move |py, held| {
            Ok(Py::new(py, Hold::new(reactor, held))?.into_any())
        })
    }

    fn ids(&self, py: Python<'_>, later: bool) -> PyResult<Py<PyAny>> {
        let sessions = self.sessions.clone();
        self.tell(py, later, async move { Ok(json!(sessions.ids().await?)) })
    }

    /// Returns the store's record of a session, or None.
    fn look(&self, py: Python<'_>, id: String, later: bool) -> PyResult<Py<PyAny>> {
        let sessions = self.sessions.clone();
        self.tell(py, later, async move {
            Ok(sessions.look(&id).await?.as_ref().map_or(Value::Null, described))
        })
    }

    fn interrupt(&self, py: Python<'_>, id: String, later: bool) -> PyResult<Py<PyAny>> {
        let sessions = self.sessions.clone();
        self.tell(py, later, async move { Ok(json!(sessions.interrupt(&id).await?)) })
    }

    fn remove(&self, py: Python<'_>, id: String, later: bool) -> PyResult<Py<PyAny>> {
        let sessions = self.sessions.clone();
        self.tell(py, later, async move {
            sessions.remove(&id).await?;
            Ok(Value::Null)
        })
    }

    /// Waits until all changes of this node are in the store.
    fn settle(&self, py: Python<'_>, later: bool) -> PyResult<Py<PyAny>> {
        let sessions = self.sessions.clone();
        self.tell(py, later, async move {
            sessions.settled().await;
            Ok(Value::Null)
        })
    }

    /// Removes unused states and chunks older than this many seconds. Returns their numbers.
    fn tidy(&self, py: Python<'_>, seconds: &Bound<'_, PyAny>, later: bool) -> PyResult<Py<PyAny>> {
        let age = options::seconds(seconds)?;
        let sessions = self.sessions.clone();
        self.tell(py, later, async move {
            let states = sessions.remove_strays(age).await?;
            let grace = age.max(CHUNK_GRACE);
            let chunks = collect_chunks(sessions.store(), "sessions", grace).await?;
            Ok(json!([states, chunks.removed]))
        })
    }

    /// Frees local copies of sessions not used for this many seconds.
    fn sweep(
        &self,
        py: Python<'_>,
        seconds: &Bound<'_, PyAny>,
        later: bool,
    ) -> PyResult<Py<PyAny>> {
        let idle = options::seconds(seconds)?;
        let sessions = self.sessions.clone();
        self.tell(py, later, async move {
            sessions.sweep(idle);
            Ok(Value::Null)
        })
    }

    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let counts = self.sessions.counts();
        let counts = json!({
            "woken": counts.woken,
            "found": counts.found,
            "written": counts.written,
            "taken_over": counts.taken_over,
            "lost": counts.lost,
        });
        border::to_py(py, &counts)
    }
}

impl Stored {
    fn tell(
        &self,
        py: Python<'_>,
        later: bool,
        work: impl Future<Output = Result<Value, Error>> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let work = self.at_home(async { work.await.map_err(Failure::from) });
        call(py, &self.reactor, later, work, |py, value| Ok(border::to_py(py, &value)?.unbind()))
    }

    fn at_home<F: Future>(&self, work: F) -> AtHome<Pin<Box<F>>> {
        AtHome::new(&self.reactor, Box::pin(work))
    }
}

/// Makes the end of the runtime wait, for a while, until all changes are in the store.
#[derive(Clone)]
struct Settling {
    reactor: Weak<Reactor>,
    sessions: StoredSessions,
    is_watched: Arc<AtomicBool>,
}

impl Settling {
    fn new(reactor: &Arc<Reactor>, sessions: &StoredSessions) -> Self {
        Self {
            reactor: Arc::downgrade(reactor),
            sessions: sessions.clone(),
            is_watched: Arc::default(),
        }
    }

    /// To be called after acquiring a session.
    fn watch(&self) {
        if self.is_watched.swap(true, Ordering::AcqRel) {
            return;
        }
        // During shutdown the caller gets an error, and nothing waits.
        let Some(Ok(call)) = self.reactor.upgrade().map(|reactor| reactor.enter()) else {
            return;
        };
        let own = self.clone();
        tokio::spawn(async move {
            loop {
                own.sessions.settled().await;
                own.is_watched.store(false, Ordering::Release);
                // Another session may have been acquired while this was still running.
                let is_settled = tokio::select! {
                    biased;
                    () = own.sessions.settled() => true,
                    () = std::future::ready(()) => false,
                };
                if is_settled || own.is_watched.swap(true, Ordering::AcqRel) {
                    break;
                }
            }
            drop(call);
        });
    }
}

/// Releases a session after a run with its new state, or unchanged if the run did not start.
async fn give_back(
    claim: Claim,
    ran: Result<Outcome, Error>,
    is_durable: bool,
) -> Result<Outcome, Error> {
    let given = match &ran {
        Err(Error::Refused(_)) => claim.release_unchanged().await,
        _ if is_durable => claim.release().await,
        _ => claim.release_behind().await,
    };
    let outcome = ran?;
    given.map(|()| outcome)
}

fn node_options(asked: &Bound<'_, PyDict>) -> PyResult<(NodeOptions, bool)> {
    let (mut node, mut is_durable) = (NodeOptions::default(), false);
    for (key, value) in asked {
        node = match key.extract::<&str>()? {
            "name" => node.name(value.extract::<String>()?),
            "lease" => node.lease(options::seconds(&value)?),
            "patience" => node.patience(options::seconds(&value)?),
            "durable" => {
                is_durable = value.is_truthy()?;
                node
            }
            other => return Err(PyTypeError::new_err(format!("no such option: {other}"))),
        };
    }
    Ok((node, is_durable))
}

fn described(info: &StoredInfo) -> Value {
    let used = info.used.duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "id": info.id,
        "image": info.image,
        "execution": info.execution,
        "node": info.node,
        "used": used.as_secs_f64(),
        "about": info.about,
    })
}
