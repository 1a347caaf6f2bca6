//! The running kernels of all owners.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use belljar::session::{Completeness, Completion, Inspection, LeaseEnd};
use belljar::{Outcome, Request, RequestLimits, SessionOptions};
use belljar_kernel::{Backend, Doing, Evaluated, Failure, Guest, Kernel, Peer, asker, unique};
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use super::error::ApiError;
use super::hub::Hub;
use crate::http::problem::Problem;
use crate::lock::lock;
use crate::service::Service;
use crate::service::error::ServiceError;
use crate::service::owned_session::{NewSession, OwnedSession};
use crate::service::owner::Owner;
use crate::service::session_store::Access;

/// The default kernel name.
pub(super) const DEFAULT: &str = "python3";

/// How long an idle kernel without connections lives.
pub(super) const IDLE: Duration = Duration::from_hours(1);
/// Time limit of a cell.
const CELL: Duration = Duration::from_mins(5);
/// Memory of a kernel above its image, in bytes.
const MEMORY: u64 = 512 << 20;
/// Maximum bytes that a cell writes to each stream.
const OUTPUT: u64 = 4 << 20;
/// The image of kernels.
const IMAGE: &str = "data";
/// Label of a kernel's session, which identifies it after a server restart.
const FACE: (&str, &str) = ("face", "jupyter");

/// Kernels by id. Clones share the same state.
#[derive(Clone)]
pub(super) struct Kernels(Arc<State>);

struct State {
    kernels: Mutex<HashMap<String, Running>>,
    started: DateTime<Utc>,
    /// Owners whose kernels from before the restart are restored.
    restored: Mutex<HashSet<String>>,
}

/// A running kernel. Clones share the same kernel.
#[derive(Clone)]
pub(super) struct Running(Arc<Parts>);

struct Parts {
    id: String,
    name: String,
    owner: Owner,
    kernel: Kernel,
    hub: Hub,
    session: Arc<KernelSession>,
}

/// The session of a kernel.
struct KernelSession {
    /// Its name: the kernel's id.
    name: String,
    service: Service,
    owner: Owner,
    /// The account with the requests of clients that are connected.
    clients: Mutex<HashMap<Peer, Arc<Owner>>>,
    options: SessionOptions,
    current: Mutex<Option<OwnedSession>>,
    /// Whether the session was created before the kernel has asked for it.
    is_fresh: Mutex<bool>,
}

impl Kernels {
    pub(super) fn new() -> Self {
        Self(Arc::new(State {
            kernels: Mutex::default(),
            started: Utc::now(),
            restored: Mutex::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Running>> {
        lock(&self.0.kernels)
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
    ) -> Result<Running, ApiError> {
        let session = KernelSession::new(service, owner, unique(), env);
        // Start the session now, so that an error is reported here and not by the first cell.
        session.start().await?;
        Ok(self.enter(name, session))
    }

    /// Runs a kernel on its session.
    fn enter(&self, name: &str, session: KernelSession) -> Running {
        let session = Arc::new(session);
        let hub = Hub::default();
        let running = Running(Arc::new(Parts {
            id: session.name.clone(),
            name: name.to_owned(),
            owner: session.owner.clone(),
            kernel: Kernel::start(
                SessionBackend(Arc::clone(&session)),
                hub.clone(),
                Request::default(),
            ),
            hub,
            session,
        }));
        self.lock().insert(running.id().to_owned(), running.clone());
        tokio::spawn(self.clone().watch(running.clone()));
        running
    }

    /// Restores an owner's kernels from before a server restart. Their sessions were saved under
    /// the kernels' ids.
    pub(super) fn restore(&self, service: &Service, owner: &Owner) {
        let mut restored = lock(&self.0.restored);
        if !restored.insert(owner.name().to_owned()) {
            return;
        }
        let is_from_before = |current: &OwnedSession| {
            let labels = current.view().info().labels;
            labels.get(FACE.0).is_some_and(|face| face == FACE.1)
                && DateTime::<Utc>::from(current.created()) < self.0.started
        };
        for current in service.local(owner).into_iter().filter(is_from_before) {
            if let Some(id) = current.name().map(str::to_owned) {
                let session = KernelSession::new(service, owner, id, []);
                *session.lock() = Some(current);
                self.enter(DEFAULT, session);
            }
        }
    }

    /// Removes a kernel when a client has shut it down.
    async fn watch(self, running: Running) {
        running.kernel().over().await;
        self.lock().remove(running.id());
        running.0.kernel.close().await;
        // The kernel does not know a session that it has not asked for yet.
        running.0.session.close();
        running.0.hub.close();
    }

    /// An owner's kernel by id.
    pub(super) fn find(&self, owner: &Owner, id: &str) -> Result<Running, ApiError> {
        let found = self.lock().get(id).filter(|running| running.is_of(owner)).cloned();
        match found {
            Some(running) if running.has_session() => Ok(running),
            Some(gone) => {
                gone.0.kernel.end();
                Err(ApiError::no_kernel(id))
            }
            None => Err(ApiError::no_kernel(id)),
        }
    }

    /// All kernels of an owner.
    pub(super) fn list(&self, owner: &Owner) -> Vec<Running> {
        let theirs: Vec<Running> =
            self.lock().values().filter(|running| running.is_of(owner)).cloned().collect();
        let (there, gone): (Vec<_>, Vec<_>) = theirs.into_iter().partition(Running::has_session);
        for running in gone {
            running.0.kernel.end();
        }
        there
    }

    /// Ends an owner's kernel.
    pub(super) async fn end(&self, owner: &Owner, id: &str) -> Result<(), ApiError> {
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

    /// Whether its session exists. During a restart it counts as existing.
    fn has_session(&self) -> bool {
        let current = self.0.session.current();
        current
            .is_none_or(|current| self.0.session.service.find(&self.0.owner, current.id()).is_ok())
    }

    /// Connects a client, whose request the owner has. Returns what stands for the connection.
    pub(super) fn joined(&self, peer: &Peer, owner: Owner) -> Arc<Owner> {
        let owner = Arc::new(owner);
        lock(&self.0.session.clients).insert(peer.clone(), Arc::clone(&owner));
        owner
    }

    /// Handles a disconnected client, unless it has connected again meanwhile.
    pub(super) fn left(&self, peer: &Peer, joined: &Arc<Owner>) {
        let mut clients = lock(&self.0.session.clients);
        if clients.get(peer).is_some_and(|now| Arc::ptr_eq(now, joined)) {
            clients.remove(peer);
            drop(clients);
            self.0.kernel.left(peer);
        }
    }

    /// Extends the session's lease.
    pub(super) fn keep(&self) {
        if let Some(current) = self.0.session.current() {
            // A closed session stays closed.
            let _ = current.view().extend_lease(IDLE);
        }
    }

    /// The kernel in the format of Jupyter's server.
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

/// A time in Jupyter's format.
pub(super) fn date(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

impl KernelSession {
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
        // Notebooks cannot rewind.
        let options = SessionOptions::from_request(start)
            .history(0, 0)
            .label(FACE.0, FACE.1)
            .lease(IDLE, LeaseEnd::Close);
        Self {
            name: id,
            service: service.clone(),
            owner: owner.clone(),
            clients: Mutex::default(),
            options,
            current: Mutex::default(),
            is_fresh: Mutex::new(true),
        }
    }

    /// The account with the request of the client that the kernel works for, or else with the
    /// request that started the kernel.
    fn asker(&self) -> Owner {
        let asker = asker().and_then(|peer| lock(&self.clients).get(&peer).cloned());
        asker.map_or_else(|| self.owner.clone(), |owner| Owner::clone(&owner))
    }

    fn lock(&self) -> MutexGuard<'_, Option<OwnedSession>> {
        lock(&self.current)
    }

    fn current(&self) -> Option<OwnedSession> {
        self.lock().clone()
    }

    async fn start(&self) -> Result<OwnedSession, ServiceError> {
        // A previous session still has the name.
        self.close();
        let new = NewSession::from(self.options.clone()).named(Some(self.name.clone())).local();
        let current = self.service.start(&self.asker(), new).await?;
        *self.lock() = Some(current.clone());
        Ok(current)
    }

    fn close(&self) {
        if let Some(current) = self.lock().take() {
            // It may have ended by itself.
            let _ = self.service.remove(&self.owner, current.id());
        }
    }

    /// The existing session, on the first call.
    fn fresh(&self) -> Option<OwnedSession> {
        let mut is_fresh = lock(&self.is_fresh);
        if !std::mem::replace(&mut *is_fresh, false) {
            return None;
        }
        self.current()
    }
}

/// The kernel's view of the session.
struct SessionBackend(Arc<KernelSession>);

impl Backend for SessionBackend {
    fn open(&self) -> Doing<'_, Result<Box<dyn Guest>, Failure>> {
        Box::pin(async {
            let current = match self.0.fresh() {
                Some(current) => current,
                None => self.0.start().await.map_err(failure)?,
            };
            let session = Arc::clone(&self.0);
            Ok(Box::new(Notebook { session, current }) as Box<dyn Guest>)
        })
    }
}

/// A kernel's session. Each use is accounted to its owner.
struct Notebook {
    session: Arc<KernelSession>,
    current: OwnedSession,
}

impl Guest for Notebook {
    fn run(&self, request: Request) -> Doing<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            let (service, owner) = (&self.session.service, &self.session.asker());
            let outcome = match service.claim(owner, self.current.id(), Access::Run).await {
                Ok(at) => service.run_claimed(owner, at, request).await,
                Err(error) => Err(error),
            };
            let _ = self.current.view().extend_lease(IDLE);
            outcome.map_err(failure)
        })
    }

    fn evaluate(
        &self,
        expressions: BTreeMap<String, String>,
        is_alone: bool,
    ) -> Doing<'_, Evaluated> {
        Box::pin(async move {
            let (service, owner) = (&self.session.service, &self.session.asker());
            let evaluated = service.evaluate(owner, &self.current, expressions, !is_alone).await;
            evaluated.map_err(failure)
        })
    }

    fn complete(&self, code: String, cursor: usize) -> Doing<'_, Result<Completion, Failure>> {
        Box::pin(async move {
            let (service, owner) = (&self.session.service, &self.session.asker());
            service.complete(owner, &self.current, &code, cursor).await.map_err(failure)
        })
    }

    fn inspect(
        &self,
        code: String,
        cursor: usize,
        detail: bool,
    ) -> Doing<'_, Result<Option<Inspection>, Failure>> {
        Box::pin(async move {
            let (service, owner) = (&self.session.service, &self.session.asker());
            let found = service.inspect(owner, &self.current, (&code, cursor), detail).await;
            found.map_err(failure)
        })
    }

    fn is_complete(&self, code: String) -> Doing<'_, Result<Completeness, Failure>> {
        Box::pin(async move {
            let (service, owner) = (&self.session.service, &self.session.asker());
            service.is_complete(owner, &self.current, &code).await.map_err(failure)
        })
    }

    fn close(&self) {
        self.session.close();
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
