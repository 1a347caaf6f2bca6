//! The kernels that run, each its owner's.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use belljar::session::{Completeness, Completion, Inspection, LeaseEnd};
use belljar::{Outcome, Request, RequestLimits, SessionOptions};
use belljar_kernel::{Backend, Doing, Evaluated, Failure, Guest, Kernel, unique};
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use super::hub::Hub;
use super::refused::Refused;
use crate::http::problem::Problem;
use crate::service::Service;
use crate::service::anywhere::Use;
use crate::service::error::ServiceError;
use crate::service::held::{Held, NewSession};
use crate::service::owner::Owner;

/// The kernel that is meant where none is named.
pub(super) const DEFAULT: &str = "python3";

/// How long a kernel lives that nobody is connected to and that does nothing.
pub(super) const IDLE: Duration = Duration::from_hours(1);
/// The time that a cell has.
const CELL: Duration = Duration::from_mins(5);
/// The memory of a kernel above its image, in bytes.
const MEMORY: u64 = 512 << 20;
/// The most bytes that a cell may write to each of the streams.
const OUTPUT: u64 = 4 << 20;
/// The image that kernels start from.
const IMAGE: &str = "data";
/// The label of a kernel's session, by which it is known after a restart of the server.
const FACE: (&str, &str) = ("face", "jupyter");

/// Kernels by id. Cheap to clone; clones are the same.
#[derive(Clone)]
pub(super) struct Kernels(Arc<Known>);

struct Known {
    kernels: Mutex<HashMap<String, Running>>,
    started: DateTime<Utc>,
    /// Owners whose kernels from before the start have been taken up.
    taken_up: Mutex<HashSet<String>>,
}

/// A kernel. Cheap to clone.
#[derive(Clone)]
pub(super) struct Running(Arc<Parts>);

struct Parts {
    id: String,
    name: String,
    owner: Owner,
    kernel: Kernel,
    hub: Hub,
    rented: Arc<Rented>,
}

/// The session of a kernel, got from the service.
struct Rented {
    /// What its owner finds it by: the kernel's id.
    name: String,
    service: Service,
    owner: Owner,
    options: SessionOptions,
    held: Mutex<Option<Held>>,
    /// The session was made before the kernel that asks for it.
    is_fresh: Mutex<bool>,
}

impl Kernels {
    pub(super) fn new() -> Self {
        Self(Arc::new(Known {
            kernels: Mutex::default(),
            started: Utc::now(),
            taken_up: Mutex::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Running>> {
        self.0.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn started(&self) -> DateTime<Utc> {
        self.0.started
    }

    /// Starts a kernel.
    pub(super) async fn start(
        &self,
        service: &Service,
        owner: &Owner,
        name: &str,
        env: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Running, Refused> {
        let rented = Rented::new(service, owner, unique(), env);
        // What stands in the way is told now, and not to the first cell.
        rented.rent().await?;
        Ok(self.enter(name, rented))
    }

    /// Has a kernel run on its session.
    fn enter(&self, name: &str, rented: Rented) -> Running {
        let rented = Arc::new(rented);
        let hub = Hub::default();
        let running = Running(Arc::new(Parts {
            id: rented.name.clone(),
            name: name.to_owned(),
            owner: rented.owner.clone(),
            kernel: Kernel::start(Tenant(Arc::clone(&rented)), hub.clone(), Request::default()),
            hub,
            rented,
        }));
        self.lock().insert(running.id().to_owned(), running.clone());
        tokio::spawn(self.clone().watch(running.clone()));
        running
    }

    /// Takes up somebody's kernels from before the server was started again: their sessions were saved, under
    /// the ids of the kernels.
    pub(super) fn take_up(&self, service: &Service, owner: &Owner) {
        let mut taken_up = self.0.taken_up.lock().unwrap_or_else(PoisonError::into_inner);
        if !taken_up.insert(owner.name().to_owned()) {
            return;
        }
        let is_from_before = |held: &Held| {
            let labels = held.session().info().labels;
            labels.get(FACE.0).is_some_and(|face| face == FACE.1)
                && DateTime::<Utc>::from(held.created()) < self.0.started
        };
        for held in service.here(owner).into_iter().filter(is_from_before) {
            if let Some(id) = held.name().map(str::to_owned) {
                let rented = Rented::new(service, owner, id, []);
                *rented.lock() = Some(held);
                self.enter(DEFAULT, rented);
            }
        }
    }

    /// Forgets a kernel when a client of it has ended it.
    async fn watch(self, running: Running) {
        running.kernel().over().await;
        self.lock().remove(running.id());
        running.0.kernel.close().await;
        // The kernel knows nothing of one that it has not taken yet.
        running.0.rented.give_back();
        running.0.hub.close();
    }

    /// Somebody's kernel of that id.
    pub(super) fn find(&self, owner: &Owner, id: &str) -> Result<Running, Refused> {
        let found = self.lock().get(id).filter(|running| running.is_of(owner)).cloned();
        match found {
            Some(running) if running.is_there() => Ok(running),
            Some(gone) => {
                gone.0.kernel.end();
                Err(Refused::no_kernel(id))
            }
            None => Err(Refused::no_kernel(id)),
        }
    }

    /// All kernels of somebody.
    pub(super) fn list(&self, owner: &Owner) -> Vec<Running> {
        let theirs: Vec<Running> =
            self.lock().values().filter(|running| running.is_of(owner)).cloned().collect();
        let (there, gone): (Vec<_>, Vec<_>) = theirs.into_iter().partition(Running::is_there);
        for running in gone {
            running.0.kernel.end();
        }
        there
    }

    /// Ends somebody's kernel.
    pub(super) async fn end(&self, owner: &Owner, id: &str) -> Result<(), Refused> {
        let running = self.find(owner, id)?;
        self.lock().remove(id);
        running.0.kernel.close().await;
        running.0.hub.close();
        Ok(())
    }
}

impl Running {
    pub(super) fn id(&self) -> &str {
        &self.0.id
    }

    pub(super) fn kernel(&self) -> &Kernel {
        &self.0.kernel
    }

    pub(super) fn hub(&self) -> &Hub {
        &self.0.hub
    }

    fn is_of(&self, owner: &Owner) -> bool {
        self.0.owner.name() == owner.name()
    }

    /// Whether its session is; between two of them it is.
    fn is_there(&self) -> bool {
        let held = self.0.rented.held();
        held.is_none_or(|held| self.0.rented.service.find(&self.0.owner, held.id()).is_ok())
    }

    /// Puts off its end, as somebody is there.
    pub(super) fn keep(&self) {
        if let Some(held) = self.0.rented.held() {
            // One that was closed stays so.
            let _ = held.session().extend_lease(IDLE);
        }
    }

    /// It as Jupyter's server describes it.
    pub(super) fn model(&self) -> Value {
        let activity = self.0.kernel.activity();
        json!({
            "id": self.0.id,
            "name": self.0.name,
            "last_activity": date(Utc::now() - activity.last.elapsed()),
            "execution_state": activity.state.as_str(),
            "connections": self.0.hub.count(),
        })
    }
}

/// A time as Jupyter writes it.
pub(super) fn date(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

impl Rented {
    fn new(
        service: &Service,
        owner: &Owner,
        id: String,
        env: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let most = service.runtime().ceilings();
        let mut limits = RequestLimits::default();
        limits.timeout = Some(CELL.min(most.timeout));
        limits.memory = Some(MEMORY.min(most.memory));
        limits.output = Some(OUTPUT.min(most.output));
        let mut start = Request::default().image(IMAGE).limits(limits);
        start.env.extend(env);
        // Nobody goes back in a notebook.
        let options = SessionOptions::from_request(start)
            .history(0, 0)
            .label(FACE.0, FACE.1)
            .lease(IDLE, LeaseEnd::Close);
        Self {
            name: id,
            service: service.clone(),
            owner: owner.clone(),
            options,
            held: Mutex::default(),
            is_fresh: Mutex::new(true),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> Option<Held> {
        self.lock().clone()
    }

    async fn rent(&self) -> Result<Held, ServiceError> {
        // One that is left of before has the name.
        self.give_back();
        let new = NewSession::from(self.options.clone()).named(Some(self.name.clone())).here();
        let held = self.service.start(&self.owner, new).await?;
        *self.lock() = Some(held.clone());
        Ok(held)
    }

    fn give_back(&self) {
        if let Some(held) = self.lock().take() {
            // It may have ended by itself.
            let _ = self.service.remove(&self.owner, held.id());
        }
    }

    /// The session that is there, the first time.
    fn fresh(&self) -> Option<Held> {
        let mut is_fresh = self.is_fresh.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *is_fresh, false) {
            return None;
        }
        self.held()
    }
}

/// What the kernel sees of it.
struct Tenant(Arc<Rented>);

impl Backend for Tenant {
    fn open(&self) -> Doing<'_, Result<Box<dyn Guest>, Failure>> {
        Box::pin(async {
            let held = match self.0.fresh() {
                Some(held) => held,
                None => self.0.rent().await.map_err(failure)?,
            };
            let rented = Arc::clone(&self.0);
            Ok(Box::new(Notebook { rented, held }) as Box<dyn Guest>)
        })
    }
}

/// The session of a kernel, of which every use is counted.
struct Notebook {
    rented: Arc<Rented>,
    held: Held,
}

impl Guest for Notebook {
    fn run(&self, request: Request) -> Doing<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            let Rented { service, owner, .. } = &*self.rented;
            let outcome = match service.at_hand(owner, self.held.id(), Use::Run).await {
                Ok(at) => service.run_at(owner, at, request).await,
                Err(error) => Err(error),
            };
            let _ = self.held.session().extend_lease(IDLE);
            outcome.map_err(failure)
        })
    }

    fn evaluate(
        &self,
        expressions: BTreeMap<String, String>,
        is_alone: bool,
    ) -> Doing<'_, Evaluated> {
        Box::pin(async move {
            let Rented { service, owner, .. } = &*self.rented;
            let evaluated = service.evaluate(owner, &self.held, expressions, !is_alone).await;
            evaluated.map_err(failure)
        })
    }

    fn complete(&self, code: String, cursor: usize) -> Doing<'_, Result<Completion, Failure>> {
        Box::pin(async move {
            let Rented { service, owner, .. } = &*self.rented;
            service.complete(owner, &self.held, &code, cursor).await.map_err(failure)
        })
    }

    fn inspect(
        &self,
        code: String,
        cursor: usize,
        detail: bool,
    ) -> Doing<'_, Result<Option<Inspection>, Failure>> {
        Box::pin(async move {
            let Rented { service, owner, .. } = &*self.rented;
            let found = service.inspect(owner, &self.held, (&code, cursor), detail).await;
            found.map_err(failure)
        })
    }

    fn is_complete(&self, code: String) -> Doing<'_, Result<Completeness, Failure>> {
        Box::pin(async move {
            let Rented { service, owner, .. } = &*self.rented;
            service.is_complete(owner, &self.held, &code).await.map_err(failure)
        })
    }

    fn close(&self) {
        self.rented.give_back();
    }
}

fn failure(error: ServiceError) -> Failure {
    let problem = Problem::from(error);
    let hint = match problem.code {
        "session.not_found" => Some("restart the kernel".to_owned()),
        _ => problem.hint,
    };
    Failure::new("BelljarError", problem.detail).hint(hint)
}
