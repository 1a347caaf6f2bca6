//! All sandboxes and snapshots, of everybody: made, found, listed, ended when their time is over.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use axum::http::StatusCode;
use subtle::ConstantTimeEq;

use super::fault::Fault;
use super::sandbox::{Sandbox, Traits, new_id};
use super::signature::Signed;
use super::tokens::Tokens;
use super::wire::{NewSandbox, SnapshotInfo, State};
use crate::service::Service;
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

/// All sandboxes of a server.
#[derive(Default)]
pub(super) struct Sandboxes {
    all: Mutex<All>,
    tokens: Tokens,
}

#[derive(Default)]
struct All {
    sandboxes: HashMap<String, Arc<Sandbox>>,
    snapshots: BTreeMap<String, Snapshot>,
    is_swept: bool,
}

/// A sandbox that is kept as it was, for others to start from.
#[derive(Clone)]
struct Snapshot {
    kept: Arc<Sandbox>,
    of: String,
    name: Option<String>,
}

impl Snapshot {
    fn info(&self, id: &str) -> SnapshotInfo {
        let shown = self.name.as_deref().unwrap_or(id);
        SnapshotInfo {
            id: format!("{shown}:default"),
            names: self.name.iter().map(|name| format!("{name}:default")).collect(),
        }
    }

    fn is_called(&self, id: &str, called: &str) -> bool {
        let called = called.strip_suffix(":default").unwrap_or(called);
        called == id || self.name.as_deref() == Some(called)
    }
}

impl Sandboxes {
    /// Makes a sandbox.
    pub(super) async fn create(
        self: &Arc<Self>,
        service: &Service,
        owner: &Owner,
        asked: NewSandbox,
    ) -> Result<Arc<Sandbox>, Fault> {
        let lease = seconds(asked.timeout.unwrap_or(DEFAULT_TIMEOUT))?;
        let snapshot = self.snapshot_called(owner, &asked.template).map(|(_, snapshot)| snapshot);
        let mut traits = match &snapshot {
            Some(snapshot) => snapshot.kept.traits.clone(),
            None => Traits {
                image: image(service, &asked.template)?,
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
            None => Sandbox::begin(service, owner, traits, lease).await?,
        };
        if let Err(fault) = sandbox.validate_env() {
            sandbox.kill();
            return Err(fault);
        }
        Ok(self.enter(sandbox))
    }

    /// Makes another sandbox like one that there is.
    pub(super) async fn fork(
        self: &Arc<Self>,
        sandbox: &Sandbox,
        lease: Duration,
    ) -> Result<Arc<Sandbox>, Fault> {
        Ok(self.enter(sandbox.fork(sandbox.traits.clone(), lease, true).await?))
    }

    /// Somebody's sandbox, whether it runs or is paused.
    pub(super) fn find(&self, owner: &Owner, id: &str) -> Result<Arc<Sandbox>, Fault> {
        let found = self.lock().sandboxes.get(id).cloned();
        let found =
            found.filter(|sandbox| sandbox.owner.name() == owner.name() && is_there(sandbox));
        found.ok_or_else(|| Fault::no_sandbox(id))
    }

    /// Somebody's sandboxes, those that started last first.
    pub(super) fn list(&self, owner: &Owner) -> Vec<Arc<Sandbox>> {
        let is_theirs =
            |sandbox: &&Arc<Sandbox>| sandbox.owner.name() == owner.name() && is_there(sandbox);
        let mut theirs: Vec<_> =
            self.lock().sandboxes.values().filter(is_theirs).cloned().collect();
        theirs.sort_by(|one, other| (other.started, &other.id).cmp(&(one.started, &one.id)));
        theirs
    }

    /// A sandbox that can be used at once, by its id and token. Without the token nothing is told, not
    /// even whether there is such a sandbox.
    pub(super) fn reach_with_token(&self, id: &str, token: &str) -> Result<Arc<Sandbox>, Fault> {
        let is_it: bool = self.tokens.of(id).as_bytes().ct_eq(token.as_bytes()).into();
        if is_it {
            self.reach(id)
        } else {
            Err(Fault::no_token())
        }
    }

    /// The same by a signature that was made with the token.
    pub(super) fn reach_with_signature(
        &self,
        id: &str,
        signed: Signed<'_>,
        signature: &str,
    ) -> Result<Arc<Sandbox>, Fault> {
        if signed.is_made_by(&self.tokens.of(id), signature) {
            self.reach(id)
        } else {
            Err(Fault::no_token())
        }
    }

    /// A sandbox that can be used at once, by its id, which nobody can guess.
    pub(super) fn reach(&self, id: &str) -> Result<Arc<Sandbox>, Fault> {
        let found = self.lock().sandboxes.get(id).cloned();
        found.filter(|sandbox| sandbox.is_usable()).ok_or_else(gone)
    }

    /// A sandbox that can be used at once, by its token.
    pub(super) fn reach_by_token(&self, token: &str) -> Result<Arc<Sandbox>, Fault> {
        let found =
            self.lock().sandboxes.values().find(|sandbox| sandbox.has_token(token)).cloned();
        found.filter(|sandbox| sandbox.is_usable()).ok_or_else(Fault::no_token)
    }

    /// The sandbox whose token a signature was made with.
    pub(super) fn reach_by_signature(
        &self,
        signed: Signed<'_>,
        signature: &str,
    ) -> Result<Arc<Sandbox>, Fault> {
        let is_it = |sandbox: &&Arc<Sandbox>| signed.is_made_by(&sandbox.token, signature);
        let found = self.lock().sandboxes.values().find(is_it).cloned();
        found.filter(|sandbox| sandbox.is_usable()).ok_or_else(Fault::no_token)
    }

    /// Ends somebody's sandbox.
    pub(super) fn kill(&self, owner: &Owner, id: &str) -> Result<(), Fault> {
        let found = self.find(owner, id)?;
        self.lock().sandboxes.remove(id);
        found.kill();
        Ok(())
    }

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
        let kept = sandbox.fork(sandbox.traits.clone(), Duration::ZERO, memory).await?;
        kept.pause(true, Duration::from_mins(1)).await?;
        let id = new_id();
        let snapshot = Snapshot {
            kept: Arc::new(kept),
            of: sandbox.id.clone(),
            name,
        };
        let info = snapshot.info(&id);
        if let Some(name) = &snapshot.name
            && let Some((old, _)) = self.snapshot_called(&sandbox.owner, name)
        {
            self.drop_snapshot(&sandbox.owner, &old)?;
        }
        self.lock().snapshots.insert(id, snapshot);
        Ok(info)
    }

    /// Somebody's snapshots: of one sandbox, or all; of one name, or all.
    pub(super) fn snapshots(
        &self,
        owner: &Owner,
        of: Option<&str>,
        name: Option<&str>,
    ) -> Vec<SnapshotInfo> {
        let all = self.lock();
        let wanted = all.snapshots.iter().filter(|(id, snapshot)| {
            snapshot.kept.owner.name() == owner.name()
                && of.is_none_or(|of| snapshot.of == of)
                && name.is_none_or(|name| snapshot.is_called(id, name))
        });
        wanted.map(|(id, snapshot)| snapshot.info(id)).collect()
    }

    /// Forgets a snapshot; sandboxes that started from it go on.
    pub(super) fn drop_snapshot(&self, owner: &Owner, called: &str) -> Result<(), Fault> {
        let found = self.snapshot_called(owner, called);
        let (id, snapshot) =
            found.ok_or_else(|| Fault::not_found(format!("template '{called}' not found")))?;
        self.lock().snapshots.remove(&id);
        snapshot.kept.kill();
        Ok(())
    }

    fn snapshot_called(&self, owner: &Owner, called: &str) -> Option<(String, Snapshot)> {
        let all = self.lock();
        let is_it = |(id, snapshot): &(&String, &Snapshot)| {
            snapshot.kept.owner.name() == owner.name() && snapshot.is_called(id, called)
        };
        all.snapshots.iter().find(is_it).map(|(id, snapshot)| (id.clone(), snapshot.clone()))
    }

    fn enter(self: &Arc<Self>, mut sandbox: Sandbox) -> Arc<Sandbox> {
        sandbox.token = self.tokens.of(&sandbox.id);
        let sandbox = Arc::new(sandbox);
        let mut all = self.lock();
        all.sandboxes.insert(sandbox.id.clone(), Arc::clone(&sandbox));
        if !std::mem::replace(&mut all.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        drop(all);
        sandbox
    }

    /// Ends, or pauses, the sandboxes whose time is over.
    fn end_those_over(&self) {
        let mut over = Vec::new();
        self.lock().sandboxes.retain(|_, sandbox| {
            let is_over = sandbox.is_over();
            if is_over {
                over.push(Arc::clone(sandbox));
            }
            !is_over || sandbox.traits.pauses.is_some()
        });
        for sandbox in over {
            match sandbox.traits.pauses {
                None => sandbox.kill(),
                Some(memory) => {
                    tokio::spawn(async move {
                        // One that runs code is looked at again.
                        if let Err(fault) = sandbox.pause(memory, Duration::ZERO).await {
                            tracing::debug!(
                                sandbox = sandbox.id,
                                why = fault.message,
                                "a sandbox is not paused"
                            );
                        }
                    });
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for All {
    fn drop(&mut self) {
        let kept = self.snapshots.values().map(|snapshot| &snapshot.kept);
        for sandbox in self.sandboxes.values().chain(kept) {
            sandbox.kill();
        }
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

/// What the data plane says of a sandbox that cannot be used; clients look for these words.
pub(super) fn gone() -> Fault {
    Fault::new(StatusCode::BAD_GATEWAY, "The sandbox was not found")
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

fn check_name(name: &str) -> Result<(), Fault> {
    let is_taken = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if name.is_empty() || name.len() > 128 || !name.chars().all(is_taken) {
        return Err(Fault::invalid(
            "a snapshot's name has 1 to 128 lower-case letters, digits, - and _",
        ));
    }
    Ok(())
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
