//! All sandboxes and snapshots of all owners: created, found, listed, and ended in time.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use subtle::ConstantTimeEq;
use tokio::sync::{OnceCell, oneshot};
use tracing::Instrument;

use super::access::{Signed, Tokens};
use super::contexts::Waiting;
use super::fault::{Fault, gone};
use super::record::{Form, SANDBOXES, SNAPSHOTS, Traits};
use super::sandbox::Sandbox;
use super::wire::{NewSandbox, SnapshotInfo, State};
use crate::http::app::App;
use crate::http::auth::Keys;
use crate::service::Service;
use crate::service::anywhere::Document;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;

/// How long a sandbox lives whose maker does not say.
pub(super) const DEFAULT_TIMEOUT: u64 = 300;
/// The longest time that may be asked for, in seconds.
pub(super) const MAX_TIMEOUT: u64 = 24 * 60 * 60;
/// How often it is looked which sandboxes' time is over.
const SWEEP: Duration = Duration::from_millis(500);
/// Names of templates that clients ask for by habit.
const USUAL_TEMPLATES: [&str; 5] =
    ["base", "code-interpreter-v1", "code-interpreter", "code-interpreter-beta", "default"];
const USUAL_IMAGE: &str = "data";
/// How long a listing of the ids in a store is good for.
const LISTING: Duration = Duration::from_secs(1);
/// How long a sandbox that is to be paused is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// All sandboxes of a server; of a store those that were asked for here.
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

    /// Makes a sandbox. If nobody waits for it any more, nothing of it is left.
    pub(super) async fn create(
        self: &Arc<Self>,
        owner: &Owner,
        asked: NewSandbox,
    ) -> Result<Arc<Sandbox>, Fault> {
        let (all, owner) = (Arc::clone(self), owner.clone());
        self.claim(async move { all.make(&owner, asked).await }).await
    }

    /// Makes a sandbox on a task: dropped half way, it would leave sessions that are no sandbox's. Whoever
    /// waits for it has it.
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
        let mut traits = match &snapshot {
            Some(snapshot) => snapshot.kept.traits.clone(),
            None => Traits {
                image: image(&self.service, &asked.template)?,
                template: String::new(),
                metadata: BTreeMap::new(),
                env: BTreeMap::new(),
                pauses: None,
            },
        };
        traits.template = asked.template;
        traits.metadata = asked.metadata.unwrap_or_default();
        traits.env.extend(asked.env_vars.unwrap_or_default());
        traits.pauses =
            asked.auto_pause.unwrap_or(false).then(|| asked.auto_pause_memory.unwrap_or(true));
        let sandbox = match snapshot {
            Some(snapshot) => snapshot.kept.fork(traits, lease, true).await?,
            None => Sandbox::begin(&self.service, owner, traits, lease).await?,
        };
        self.publish(sandbox).await
    }

    /// Makes another sandbox like one that there is. If nobody waits for it any more, nothing of it is left.
    pub(super) async fn fork(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        lease: Duration,
    ) -> Result<Arc<Sandbox>, Fault> {
        let (all, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let fork = async move {
            all.publish(sandbox.fork(sandbox.traits.clone(), lease, true).await?).await
        };
        self.claim(fork).await
    }

    /// Somebody's sandbox, whether it runs or is paused.
    pub(super) async fn find(
        self: &Arc<Self>,
        owner: &Owner,
        id: &str,
    ) -> Result<Arc<Sandbox>, Fault> {
        let found = self.look(id).await?;
        let found =
            found.filter(|sandbox| sandbox.owner.name() == owner.name() && is_there(sandbox));
        found.ok_or_else(|| Fault::no_sandbox(id))
    }

    /// Somebody's sandboxes, those that started last first.
    pub(super) async fn list(self: &Arc<Self>, owner: &Owner) -> Result<Vec<Arc<Sandbox>>, Fault> {
        if let Some(documents) = self.service.documents(SANDBOXES) {
            for (id, document) in documents.of(owner).await? {
                self.learn(&id, Some(document)).await?;
            }
        }
        let is_theirs =
            |sandbox: &&Arc<Sandbox>| sandbox.owner.name() == owner.name() && is_there(sandbox);
        let mut theirs: Vec<_> =
            self.lock().sandboxes.values().filter(is_theirs).cloned().collect();
        theirs.sort_by(|one, other| (other.started, &other.id).cmp(&(one.started, &one.id)));
        Ok(theirs)
    }

    /// A sandbox that can be used at once, by its id and token. Without the token nothing is told, not
    /// even whether there is such a sandbox.
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

    /// The same by the token for what the sandbox serves, or the one for all of it.
    pub(super) async fn reach_with_either(
        self: &Arc<Self>,
        id: &str,
        token: &str,
        traffic_token: &str,
    ) -> Result<Arc<Sandbox>, Fault> {
        let is_it: bool =
            self.tokens().await?.of_traffic(id).as_bytes().ct_eq(traffic_token.as_bytes()).into();
        if is_it {
            return self.reach_as_it_is(id).await;
        }
        self.reach_with_token(id, token).await?;
        self.reach_as_it_is(id).await
    }

    /// The token for what a sandbox serves: its contexts.
    pub(super) async fn traffic_token(&self, id: &str) -> Result<String, Fault> {
        Ok(self.tokens().await?.of_traffic(id))
    }

    /// The same by a signature that was made with the token.
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

    /// A sandbox that can be used at once, by its id, which nobody can guess. One of the store that is known
    /// here may have ended since: whoever has its turn learns it.
    pub(super) async fn reach(self: &Arc<Self>, id: &str) -> Result<Arc<Sandbox>, Fault> {
        let known = self.lock().sandboxes.get(id).cloned();
        if let Some(known) = known.filter(|sandbox| sandbox.is_usable()) {
            return Ok(known);
        }
        self.reach_as_it_is(id).await
    }

    /// The same, for what is done without a turn.
    pub(super) async fn reach_as_it_is(self: &Arc<Self>, id: &str) -> Result<Arc<Sandbox>, Fault> {
        self.look(id).await?.filter(|sandbox| sandbox.is_usable()).ok_or_else(gone)
    }

    /// The id of the sandbox that a token is of.
    pub(super) async fn id_of(&self, token: &str) -> Result<String, Fault> {
        let id = self.tokens().await?.id_in(token);
        id.map(str::to_owned).ok_or_else(Fault::no_token)
    }

    /// The sandbox whose token a signature was made with.
    pub(super) async fn reach_by_signature(
        self: &Arc<Self>,
        signed: Signed<'_>,
        signature: &str,
    ) -> Result<Arc<Sandbox>, Fault> {
        let prepared = signed.prepared();
        // Nobody waits for the sandboxes while it is hashed.
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

    /// Among all sandboxes of the store.
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

    /// Ends somebody's sandbox.
    pub(super) async fn kill(self: &Arc<Self>, owner: &Owner, id: &str) -> Result<(), Fault> {
        let found = self.find(owner, id).await?;
        self.lock().sandboxes.remove(id);
        found.kill().await
    }

    /// A sandbox as it is now.
    async fn look(self: &Arc<Self>, id: &str) -> Result<Option<Arc<Sandbox>>, Fault> {
        match self.service.documents(SANDBOXES) {
            Some(documents) => self.learn(id, documents.read(id).await?).await,
            None => Ok(self.lock().sandboxes.get(id).cloned()),
        }
    }

    /// Has a sandbox be here what the store says of it.
    async fn learn(
        self: &Arc<Self>,
        id: &str,
        document: Option<Document<Form>>,
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
            known.take_over(Some(document.content))?;
            return Ok(Some(known));
        }
        // Nobody has a key of that name any more.
        let Some(owner) = self.keys.owner_named(&document.owner) else {
            return Ok(None);
        };
        match Sandbox::of_form(&self.service, &owner, SANDBOXES, id, &document.content) {
            Some(sandbox) => self.enter(sandbox).await.map(Some),
            None => Ok(None),
        }
    }

    /// Enters a new sandbox, here and in the store.
    async fn publish(self: &Arc<Self>, sandbox: Sandbox) -> Result<Arc<Sandbox>, Fault> {
        let published = sandbox.publish(None).await;
        self.or_freed(&sandbox, published).await?;
        self.enter(sandbox).await
    }

    /// What could not be entered is freed.
    pub(super) async fn or_freed(
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
        // Of two that have looked for it one was first.
        let entered = all.sandboxes.entry(sandbox.id.clone()).or_insert(sandbox);
        let entered = Arc::clone(entered);
        if !std::mem::replace(&mut all.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        Ok(entered)
    }

    async fn tokens(&self) -> Result<&Tokens, Fault> {
        let secret = async {
            Ok::<_, Fault>(match self.service.secret("sandboxes").await? {
                Some(secret) => Tokens::of_secret(secret),
                None => Tokens::default(),
            })
        };
        self.tokens.get_or_try_init(|| secret).await
    }

    /// Ends, or pauses, the sandboxes whose time is over.
    fn end_those_over(self: &Arc<Self>) {
        let mut over = Vec::new();
        self.lock().sandboxes.retain(|_, sandbox| {
            let is_over = sandbox.is_over();
            if is_over {
                over.push(Arc::clone(sandbox));
            }
            // What the store has need not be known here.
            let is_elsewhere = sandbox.is_shared() && (is_over || sandbox.killed.is_cancelled());
            !is_elsewhere && (!is_over || sandbox.traits.pauses.is_some())
        });
        for sandbox in over {
            if sandbox.is_shared() {
                tokio::spawn(Arc::clone(self).end_if_over(sandbox.id.clone()));
                continue;
            }
            match sandbox.traits.pauses {
                None => sandbox.kill_here(),
                Some(memory) => {
                    // One that runs code is looked at again.
                    tokio::spawn(async move { pause(&sandbox, memory, Duration::ZERO).await });
                }
            }
        }
    }

    /// Ends, or pauses, a sandbox of the store, unless it was given more time.
    async fn end_if_over(self: Arc<Self>, id: String) {
        let sandbox = match self.look(&id).await {
            Ok(Some(sandbox)) if sandbox.is_over() => sandbox,
            _ => return,
        };
        if let Some(memory) = sandbox.traits.pauses {
            return pause(&sandbox, memory, PATIENCE).await;
        }
        self.lock().sandboxes.remove(&id);
        if let Err(fault) = sandbox.kill().await {
            tracing::warn!(sandbox = id, why = fault.message, "a sandbox is not removed");
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sandbox that nobody knows yet. Dropped, it is killed.
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
                    tracing::warn!(sandbox = sandbox.id, why = fault.message, "it is not removed");
                }
            });
        }
    }
}

impl Drop for All {
    fn drop(&mut self) {
        let kept = self.snapshots.values().map(|snapshot| &snapshot.kept);
        // Those of a store go on elsewhere.
        let here = self.sandboxes.values().chain(kept).filter(|sandbox| !sandbox.is_shared());
        for sandbox in here {
            sandbox.kill_here();
        }
    }
}

async fn pause(sandbox: &Sandbox, memory: bool, patience: Duration) {
    if let Err(fault) = sandbox.pause(memory, patience).await {
        tracing::debug!(sandbox = sandbox.id, why = fault.message, "a sandbox is not paused");
    }
}

async fn sweep(sandboxes: Weak<Sandboxes>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(sandboxes) = sandboxes.upgrade() else {
            return;
        };
        sandboxes.end_those_over();
    }
}

/// Whether a sandbox has not ended, in use or paused.
pub(super) fn is_there(sandbox: &Sandbox) -> bool {
    !sandbox.killed.is_cancelled() && (!sandbox.is_over() || sandbox.traits.pauses.is_some())
}

/// A time that somebody asks for.
pub(super) fn seconds(asked: u64) -> Result<Duration, Fault> {
    if asked > MAX_TIMEOUT {
        return Err(Fault::invalid(format!(
            "Timeout cannot be greater than {} hours",
            MAX_TIMEOUT / 3600
        )));
    }
    Ok(Duration::from_secs(asked))
}

/// The image that a template stands for.
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

/// When something was, or will be, as text.
pub(super) fn timestamp(time: SystemTime) -> String {
    chrono::DateTime::<chrono::Utc>::from(time).to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// Whether a state is among those that a listing wants.
pub(super) fn is_wanted(states: Option<&str>, state: State) -> bool {
    let name = match state {
        State::Running => "running",
        State::Paused => "paused",
    };
    states.is_none_or(|states| states.split(',').any(|wanted| wanted.trim() == name))
}

impl Sandboxes {
    /// Keeps a sandbox as it is.
    pub(super) async fn keep_snapshot(
        &self,
        sandbox: &Sandbox,
        name: Option<String>,
        memory: bool,
    ) -> Result<SnapshotInfo, Fault> {
        if let Some(name) = &name {
            check_name(name)?;
        }
        let mut kept = sandbox.fork(sandbox.traits.clone(), Duration::ZERO, memory).await?;
        kept.kind = SNAPSHOTS;
        if kept.is_shared() {
            let published = kept.publish(Some((sandbox.id.clone(), name.clone()))).await;
            self.or_freed(&kept, published).await?;
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

    /// Somebody's snapshots: of one sandbox, or all; of one name, or all.
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

    /// Forgets a snapshot; sandboxes that started from it go on.
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
        let all: Vec<(String, Document<Form>)> = documents.of(owner).await?;
        let read = |(id, document): (String, Document<Form>)| {
            let kept = Sandbox::of_form(&self.service, owner, SNAPSHOTS, &id, &document.content)?;
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
            "a snapshot's name has 1 to 128 lower-case letters, digits, - and _",
        ));
    }
    Ok(())
}

/// A sandbox that is kept as it was, for others to start from.
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
