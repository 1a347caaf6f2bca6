//! Registry of all owners' sandboxes and snapshots: create, find, list and expire them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant, SystemTime};

use subtle::ConstantTimeEq;
use tokio::sync::{OnceCell, oneshot};
use tracing::Instrument;

use super::access::{Signed, Tokens};
use super::contexts::Waiting;
use super::fault::{Fault, gone};
use super::record::{SANDBOXES, SNAPSHOTS, SandboxConfig, SandboxRecord};
use super::sandbox::Sandbox;
use super::wire::{NewSandbox, SnapshotInfo, State};
use crate::http::app::App;
use crate::http::auth::Keys;
use crate::lock::lock;
use crate::service::Service;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;
use crate::service::session_store::Document;

/// Default lifetime of a sandbox, in seconds.
pub(super) const DEFAULT_TIMEOUT: u64 = 300;
/// Maximum lifetime of a sandbox, in seconds.
pub(super) const MAX_TIMEOUT: u64 = 24 * 60 * 60;
/// Interval between checks for expired sandboxes.
const SWEEP: Duration = Duration::from_millis(500);
/// Template names that clients use by default.
const USUAL_TEMPLATES: [&str; 5] =
    ["base", "code-interpreter-v1", "code-interpreter", "code-interpreter-beta", "default"];
const USUAL_IMAGE: &str = "data";
/// How long a list of the ids in a store stays valid.
const LISTING: Duration = Duration::from_secs(1);
/// How long to wait for an expired sandbox to become idle before pausing it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The sandboxes of this server. Of the sandboxes in a store, it has those requested here.
pub(super) struct Sandboxes {
    pub service: Service,
    keys: Keys,
    all: Mutex<All>,
    tokens: OnceCell<Tokens>,
    /// The executions that wait for their turn.
    pub waiting: Waiting,
    /// All ids in the store, and when they were listed.
    ids: tokio::sync::Mutex<Option<(Instant, Vec<String>)>>,
}

#[derive(Default)]
pub(super) struct All {
    sandboxes: HashMap<String, Arc<Sandbox>>,
    pub snapshots: BTreeMap<String, Snapshot>,
    is_swept: bool,
}

impl Sandboxes {
    pub(super) fn new(app: &App) -> Self {
        Self {
            service: app.service().clone(),
            keys: app.keys().clone(),
            all: Mutex::default(),
            tokens: OnceCell::new(),
            waiting: Waiting::default(),
            ids: tokio::sync::Mutex::default(),
        }
    }

    /// Creates a sandbox. If the client disconnects first, the sandbox is removed.
    pub(super) async fn create(
        self: &Arc<Self>,
        owner: &Owner,
        asked: NewSandbox,
    ) -> Result<Arc<Sandbox>, Fault> {
        let (all, owner) = (Arc::clone(self), owner.clone());
        self.claim(async move { all.make(&owner, asked).await }).await
    }

    /// Creates a sandbox on its own task, because a future dropped half way would leak sessions.
    /// The caller claims the result.
    async fn claim(
        self: &Arc<Self>,
        making: impl Future<Output = Result<Arc<Sandbox>, Fault>> + Send + 'static,
    ) -> Result<Arc<Sandbox>, Fault> {
        let (told, made) = oneshot::channel();
        let all = Arc::clone(self);
        let making = async move {
            let made = making.await;
            let _ = told.send(made.map(|sandbox| Unclaimed::new(all, sandbox)));
        };
        tokio::spawn(making.in_current_span());
        match made.await {
            Ok(made) => Ok(made?.claim()),
            Err(_) => Err(ServiceError::Stopping.into()),
        }
    }

    async fn make(
        self: &Arc<Self>,
        owner: &Owner,
        asked: NewSandbox,
    ) -> Result<Arc<Sandbox>, Fault> {
        let lease = seconds(asked.timeout.unwrap_or(DEFAULT_TIMEOUT))?;
        let snapshot = self.snapshot_called(owner, &asked.template).await?;
        let snapshot = snapshot.map(|(_, snapshot)| snapshot);
        let mut config = match &snapshot {
            Some(snapshot) => snapshot.kept.config.clone(),
            None => SandboxConfig {
                image: image(&self.service, &asked.template)?,
                template: String::new(),
                metadata: BTreeMap::new(),
                env: BTreeMap::new(),
                pauses: None,
            },
        };
        config.template = asked.template;
        config.metadata = asked.metadata.unwrap_or_default();
        config.env.extend(asked.env_vars.unwrap_or_default());
        config.pauses =
            asked.auto_pause.unwrap_or(false).then(|| asked.auto_pause_memory.unwrap_or(true));
        let sandbox = match snapshot {
            Some(snapshot) => snapshot.kept.fork(config, lease, true).await?,
            None => Sandbox::begin(&self.service, owner, config, lease).await?,
        };
        self.publish(sandbox).await
    }

    /// Creates a copy of a sandbox. If the client disconnects first, the copy is removed.
    pub(super) async fn fork(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        lease: Duration,
    ) -> Result<Arc<Sandbox>, Fault> {
        let (all, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let fork = async move {
            all.publish(sandbox.fork(sandbox.config.clone(), lease, true).await?).await
        };
        self.claim(fork).await
    }

    /// An owner's sandbox, running or paused.
    pub(super) async fn find(
        self: &Arc<Self>,
        owner: &Owner,
        id: &str,
    ) -> Result<Arc<Sandbox>, Fault> {
        let found = self.lookup(id).await?;
        let found =
            found.filter(|sandbox| sandbox.owner.name() == owner.name() && is_alive(sandbox));
        found.ok_or_else(|| Fault::no_sandbox(id))
    }

    /// An owner's sandboxes, newest first.
    pub(super) async fn list(self: &Arc<Self>, owner: &Owner) -> Result<Vec<Arc<Sandbox>>, Fault> {
        if let Some(documents) = self.service.documents(SANDBOXES) {
            for (id, document) in documents.of(owner).await? {
                self.sync(&id, Some(document)).await?;
            }
        }
        let is_theirs =
            |sandbox: &&Arc<Sandbox>| sandbox.owner.name() == owner.name() && is_alive(sandbox);
        let mut theirs: Vec<_> =
            self.lock().sandboxes.values().filter(is_theirs).cloned().collect();
        theirs.sort_by(|one, other| (other.started, &other.id).cmp(&(one.started, &one.id)));
        Ok(theirs)
    }

    /// A running sandbox by its id and access token. An invalid token gives the same error whether
    /// or not the sandbox exists.
    pub(super) async fn reach_with_token(
        self: &Arc<Self>,
        id: &str,
        token: &str,
    ) -> Result<Arc<Sandbox>, Fault> {
        let is_it: bool = self.tokens().await?.of(id).as_bytes().ct_eq(token.as_bytes()).into();
        if is_it {
            self.reach(id).await
        } else {
            Err(Fault::no_token())
        }
    }

    /// A running sandbox by its access token or its traffic token, refreshed from the store.
    pub(super) async fn reach_with_either(
        self: &Arc<Self>,
        id: &str,
        token: &str,
        traffic_token: &str,
    ) -> Result<Arc<Sandbox>, Fault> {
        let is_it: bool =
            self.tokens().await?.of_traffic(id).as_bytes().ct_eq(traffic_token.as_bytes()).into();
        if is_it {
            return self.reach_refreshed(id).await;
        }
        self.reach_with_token(id, token).await?;
        self.reach_refreshed(id).await
    }

    /// The token that gives access to the code interpreter alone.
    pub(super) async fn traffic_token(&self, id: &str) -> Result<String, Fault> {
        Ok(self.tokens().await?.of_traffic(id))
    }

    /// A running sandbox by a signature made with its access token.
    pub(super) async fn reach_with_signature(
        self: &Arc<Self>,
        id: &str,
        signed: Signed<'_>,
        signature: &str,
    ) -> Result<Arc<Sandbox>, Fault> {
        if signed.is_made_by(&self.tokens().await?.of(id), signature) {
            self.reach(id).await
        } else {
            Err(Fault::no_token())
        }
    }

    /// A running sandbox by its id, which cannot be guessed. A sandbox known to this server may
    /// have ended in the store; the caller learns it when it takes the turn.
    pub(super) async fn reach(self: &Arc<Self>, id: &str) -> Result<Arc<Sandbox>, Fault> {
        let known = self.lock().sandboxes.get(id).cloned();
        if let Some(known) = known.filter(|sandbox| sandbox.is_usable()) {
            return Ok(known);
        }
        self.reach_refreshed(id).await
    }

    /// A running sandbox, refreshed from the store, for operations that take no turn.
    pub(super) async fn reach_refreshed(self: &Arc<Self>, id: &str) -> Result<Arc<Sandbox>, Fault> {
        self.lookup(id).await?.filter(|sandbox| sandbox.is_usable()).ok_or_else(gone)
    }

    /// The sandbox id in an access token.
    pub(super) async fn id_of(&self, token: &str) -> Result<String, Fault> {
        let id = self.tokens().await?.id_in(token);
        id.map(str::to_owned).ok_or_else(Fault::no_token)
    }

    /// The sandbox whose access token made a signature.
    pub(super) async fn reach_by_signature(
        self: &Arc<Self>,
        signed: Signed<'_>,
        signature: &str,
    ) -> Result<Arc<Sandbox>, Fault> {
        let prepared = signed.prepared();
        // Hash without holding the lock.
        let all: Vec<_> = self.lock().sandboxes.values().cloned().collect();
        let known = all.iter().find(|sandbox| prepared.is_made_by(&sandbox.token, signature));
        let known = known.map(|found| found.id.clone());
        let id = match known {
            Some(id) => Some(id),
            None => self.signer(signed, signature).await?,
        };
        let found = match id {
            Some(id) => self.reach(&id).await.ok(),
            None => None,
        };
        found.ok_or_else(Fault::no_token)
    }

    /// Finds the id among all sandboxes of the store.
    async fn signer(&self, signed: Signed<'_>, signature: &str) -> Result<Option<String>, Fault> {
        let Some(documents) = self.service.documents(SANDBOXES) else {
            return Ok(None);
        };
        let tokens = self.tokens().await?;
        let mut listed = self.ids.lock().await;
        let is_fresh = listed.as_ref().is_some_and(|(when, _)| when.elapsed() < LISTING);
        if !is_fresh {
            *listed = Some((Instant::now(), documents.ids().await?));
        }
        let ids = listed.iter().flat_map(|(_, ids)| ids);
        let prepared = signed.prepared();
        Ok(ids.into_iter().find(|id| prepared.is_made_by(&tokens.of(id), signature)).cloned())
    }

    /// Kills an owner's sandbox.
    pub(super) async fn kill(self: &Arc<Self>, owner: &Owner, id: &str) -> Result<(), Fault> {
        let found = self.find(owner, id).await?;
        self.lock().sandboxes.remove(id);
        found.kill().await
    }

    /// A sandbox in its current state.
    async fn lookup(self: &Arc<Self>, id: &str) -> Result<Option<Arc<Sandbox>>, Fault> {
        match self.service.documents(SANDBOXES) {
            Some(documents) => self.sync(id, documents.read(id).await?).await,
            None => Ok(self.lock().sandboxes.get(id).cloned()),
        }
    }

    /// Updates the local sandbox from its document in the store.
    async fn sync(
        self: &Arc<Self>,
        id: &str,
        document: Option<Document<SandboxRecord>>,
    ) -> Result<Option<Arc<Sandbox>>, Fault> {
        let known = self.lock().sandboxes.get(id).cloned();
        let Some(document) = document else {
            self.lock().sandboxes.remove(id);
            if let Some(known) = known {
                known.end_here();
            }
            return Ok(None);
        };
        if let Some(known) = known {
            known.apply(Some(document.content))?;
            return Ok(Some(known));
        }
        // The owner's key has been removed.
        let Some(owner) = self.keys.owner_named(&document.owner) else {
            return Ok(None);
        };
        match Sandbox::from_record(&self.service, &owner, SANDBOXES, id, &document.content) {
            Some(sandbox) => self.enter(sandbox).await.map(Some),
            None => Ok(None),
        }
    }

    /// Registers a new sandbox, here and in the store.
    async fn publish(self: &Arc<Self>, sandbox: Sandbox) -> Result<Arc<Sandbox>, Fault> {
        let published = sandbox.publish(None).await;
        self.free_on_error(&sandbox, published).await?;
        self.enter(sandbox).await
    }

    /// Removes the sandbox's sessions if it could not be registered.
    pub(super) async fn free_on_error(
        &self,
        sandbox: &Sandbox,
        entered: Result<(), Fault>,
    ) -> Result<(), Fault> {
        if entered.is_err() {
            for context in sandbox.all() {
                sandbox.remove_session(&context.session()).await;
            }
        }
        entered
    }

    async fn enter(self: &Arc<Self>, mut sandbox: Sandbox) -> Result<Arc<Sandbox>, Fault> {
        sandbox.token = self.tokens().await?.of(&sandbox.id);
        let sandbox = Arc::new(sandbox);
        let mut all = self.lock();
        // A concurrent lookup may have added it first.
        let entered = all.sandboxes.entry(sandbox.id.clone()).or_insert(sandbox);
        let entered = Arc::clone(entered);
        if !std::mem::replace(&mut all.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        Ok(entered)
    }

    async fn tokens(&self) -> Result<&Tokens, Fault> {
        let secret = async {
            if let Some((_, secret)) = self.service.sandboxes() {
                return Ok(Tokens::of_secret(*secret));
            }
            Ok::<_, Fault>(match self.service.secret("sandboxes").await? {
                Some(secret) => Tokens::of_secret(secret),
                None => Tokens::default(),
            })
        };
        self.tokens.get_or_try_init(|| secret).await
    }

    /// Removes or pauses expired sandboxes.
    fn expire(self: &Arc<Self>) {
        let mut expired = Vec::new();
        self.lock().sandboxes.retain(|_, sandbox| {
            let is_expired = sandbox.is_expired();
            if is_expired {
                expired.push(Arc::clone(sandbox));
            }
            // Sandboxes in the store need not be known here.
            let is_elsewhere = sandbox.is_shared() && (is_expired || sandbox.killed.is_cancelled());
            !is_elsewhere && (!is_expired || sandbox.config.pauses.is_some())
        });
        for sandbox in expired {
            if sandbox.is_shared() {
                tokio::spawn(Arc::clone(self).expire_stored(sandbox.id.clone()));
                continue;
            }
            match sandbox.config.pauses {
                None => sandbox.kill_here(),
                Some(memory) => {
                    // A sandbox that is running code is checked again later.
                    tokio::spawn(async move { pause(&sandbox, memory, Duration::ZERO).await });
                }
            }
        }
    }

    /// Removes or pauses a sandbox in the store, unless its lease was extended.
    async fn expire_stored(self: Arc<Self>, id: String) {
        let sandbox = match self.lookup(&id).await {
            Ok(Some(sandbox)) if sandbox.is_expired() => sandbox,
            _ => return,
        };
        if let Some(memory) = sandbox.config.pauses {
            return pause(&sandbox, memory, PATIENCE).await;
        }
        self.lock().sandboxes.remove(&id);
        if let Err(fault) = sandbox.kill().await {
            tracing::warn!(sandbox = id, why = fault.message, "cannot remove an expired sandbox");
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, All> {
        lock(&self.all)
    }
}

/// A sandbox that no client knows yet. Dropping it kills the sandbox.
struct Unclaimed {
    all: Arc<Sandboxes>,
    sandbox: Arc<Sandbox>,
    is_claimed: bool,
}

impl Unclaimed {
    fn new(all: Arc<Sandboxes>, sandbox: Arc<Sandbox>) -> Self {
        Self {
            all,
            sandbox,
            is_claimed: false,
        }
    }

    fn claim(mut self) -> Arc<Sandbox> {
        self.is_claimed = true;
        Arc::clone(&self.sandbox)
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if self.is_claimed {
            return;
        }
        self.all.lock().sandboxes.remove(&self.sandbox.id);
        let sandbox = Arc::clone(&self.sandbox);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(fault) = sandbox.kill().await {
                    tracing::warn!(
                        sandbox = sandbox.id,
                        why = fault.message,
                        "cannot remove an unclaimed sandbox"
                    );
                }
            });
        }
    }
}

impl Drop for All {
    fn drop(&mut self) {
        let kept = self.snapshots.values().map(|snapshot| &snapshot.kept);
        // Sandboxes in a store stay alive on other servers.
        let here = self.sandboxes.values().chain(kept).filter(|sandbox| !sandbox.is_shared());
        for sandbox in here {
            sandbox.kill_here();
        }
    }
}

async fn pause(sandbox: &Sandbox, memory: bool, patience: Duration) {
    if let Err(fault) = sandbox.pause(memory, patience).await {
        tracing::debug!(
            sandbox = sandbox.id,
            why = fault.message,
            "cannot pause an expired sandbox"
        );
    }
}

async fn sweep(sandboxes: Weak<Sandboxes>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(sandboxes) = sandboxes.upgrade() else {
            return;
        };
        sandboxes.expire();
    }
}

/// Whether a sandbox is running or paused.
pub(super) fn is_alive(sandbox: &Sandbox) -> bool {
    !sandbox.killed.is_cancelled() && (!sandbox.is_expired() || sandbox.config.pauses.is_some())
}

/// Checks a requested lifetime.
pub(super) fn seconds(asked: u64) -> Result<Duration, Fault> {
    if asked > MAX_TIMEOUT {
        return Err(Fault::invalid(format!(
            "Timeout cannot be greater than {} hours",
            MAX_TIMEOUT / 3600
        )));
    }
    Ok(Duration::from_secs(asked))
}

/// The image for a template.
fn image(service: &Service, template: &str) -> Result<String, Fault> {
    let name = template.rsplit('/').next().unwrap_or(template);
    let name = name.split(':').next().unwrap_or(name);
    if USUAL_TEMPLATES.contains(&name) {
        return Ok(USUAL_IMAGE.into());
    }
    let known = service.runtime().images().get(name);
    match known {
        Ok(_) => Ok(name.to_owned()),
        Err(_) => Err(Fault::not_found(format!("template '{template}' not found"))),
    }
}

/// A time in RFC 3339.
pub(super) fn timestamp(time: SystemTime) -> String {
    chrono::DateTime::<chrono::Utc>::from(time).to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// Whether a listing's state filter matches.
pub(super) fn is_wanted(states: Option<&str>, state: State) -> bool {
    let name = match state {
        State::Running => "running",
        State::Paused => "paused",
    };
    states.is_none_or(|states| states.split(',').any(|wanted| wanted.trim() == name))
}

impl Sandboxes {
    /// Takes a snapshot of a sandbox.
    pub(super) async fn keep_snapshot(
        &self,
        sandbox: &Sandbox,
        name: Option<String>,
        memory: bool,
    ) -> Result<SnapshotInfo, Fault> {
        if let Some(name) = &name {
            check_name(name)?;
        }
        let mut kept = sandbox.fork(sandbox.config.clone(), Duration::ZERO, memory).await?;
        kept.kind = SNAPSHOTS;
        if kept.is_shared() {
            let published = kept.publish(Some((sandbox.id.clone(), name.clone()))).await;
            self.free_on_error(&kept, published).await?;
        } else {
            kept.pause(true, Duration::from_mins(1)).await?;
        }
        let id = kept.id.clone();
        let snapshot = Snapshot {
            kept: Arc::new(kept),
            of: sandbox.id.clone(),
            name,
        };
        let info = snapshot.info(&id);
        if let Some(name) = &snapshot.name {
            for (old, other) in self.snapshots_of(&sandbox.owner).await? {
                if old != id && other.is_called(&old, name) {
                    self.drop_snapshot(&sandbox.owner, &old).await?;
                }
            }
        }
        if !snapshot.kept.is_shared() {
            self.lock().snapshots.insert(id, snapshot);
        }
        Ok(info)
    }

    /// An owner's snapshots, optionally of one sandbox or with one name.
    pub(super) async fn snapshots(
        &self,
        owner: &Owner,
        of: Option<&str>,
        name: Option<&str>,
    ) -> Result<Vec<SnapshotInfo>, Fault> {
        let mut all = self.snapshots_of(owner).await?;
        all.retain(|(id, snapshot)| {
            of.is_none_or(|of| snapshot.of == of)
                && name.is_none_or(|name| snapshot.is_called(id, name))
        });
        Ok(all.iter().map(|(id, snapshot)| snapshot.info(id)).collect())
    }

    /// Deletes a snapshot. Sandboxes started from it stay.
    pub(super) async fn drop_snapshot(&self, owner: &Owner, called: &str) -> Result<(), Fault> {
        let found = self.snapshot_called(owner, called).await?;
        let (id, snapshot) =
            found.ok_or_else(|| Fault::not_found(format!("template '{called}' not found")))?;
        self.lock().snapshots.remove(&id);
        snapshot.kept.kill().await
    }

    pub(super) async fn snapshot_called(
        &self,
        owner: &Owner,
        called: &str,
    ) -> Result<Option<(String, Snapshot)>, Fault> {
        let all = self.snapshots_of(owner).await?;
        Ok(all.into_iter().find(|(id, snapshot)| snapshot.is_called(id, called)))
    }

    async fn snapshots_of(&self, owner: &Owner) -> Result<Vec<(String, Snapshot)>, Fault> {
        let Some(documents) = self.service.documents(SNAPSHOTS) else {
            let all = self.lock();
            let theirs =
                all.snapshots.iter().filter(|(_, one)| one.kept.owner.name() == owner.name());
            return Ok(theirs.map(|(id, snapshot)| (id.clone(), snapshot.clone())).collect());
        };
        let all: Vec<(String, Document<SandboxRecord>)> = documents.of(owner).await?;
        let read = |(id, document): (String, Document<SandboxRecord>)| {
            let kept =
                Sandbox::from_record(&self.service, owner, SNAPSHOTS, &id, &document.content)?;
            let (of, name) = document.content.snapshot?;
            let kept = Arc::new(kept);
            Some((id, Snapshot { kept, of, name }))
        };
        Ok(all.into_iter().filter_map(read).collect())
    }
}

fn check_name(name: &str) -> Result<(), Fault> {
    let is_taken = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if name.is_empty() || name.len() > 128 || !name.chars().all(is_taken) {
        return Err(Fault::invalid(
            "a snapshot's name must be 1 to 128 lower-case letters, digits, - and _",
        ));
    }
    Ok(())
}

/// A saved sandbox that others can start from.
#[derive(Clone)]
pub(super) struct Snapshot {
    pub kept: Arc<Sandbox>,
    pub of: String,
    pub name: Option<String>,
}

impl Snapshot {
    pub(super) fn info(&self, id: &str) -> SnapshotInfo {
        let shown = self.name.as_deref().unwrap_or(id);
        SnapshotInfo {
            id: format!("{shown}:default"),
            names: self.name.iter().map(|name| format!("{name}:default")).collect(),
        }
    }

    pub(super) fn is_called(&self, id: &str, called: &str) -> bool {
        let called = called.strip_suffix(":default").unwrap_or(called);
        called == id || self.name.as_deref() == Some(called)
    }
}
