//! Sessions that live in a store, and are woken by any of the processes that share it.
//!
//! A stored session consists of a record and a state, of which only changed chunks are written. An idle
//! session has no owner. A node that wants to change it (run something in it, say) takes it by replacing
//! the record, and gives it back by replacing the record again, with a new state in it: of two nodes that
//! try one is refused, and nothing else decides. A lease only says for how long the others wait for a node
//! that is gone. Between two runs a node keeps the session as it left it, and goes on with that if nobody
//! has had it since.
//!
//! The protocol (`hold`, `claim`) knows the engine by the traits of `host` alone.

mod claim;
mod head;
mod hold;
mod host;
mod local;
mod node;
mod strays;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

use self::claim::{Claimed, Read};
use self::head::Head;
use self::node::{Node, count};
use crate::api::outcome::Outcome;
use crate::api::request::Request;
use crate::api::tool::ToolAnswer;
use crate::error::Error;
use crate::runtime::Runtime;
use crate::session::Session;
use crate::store::Store;

/// The sessions of a store, as one node has them. Cheap to clone; clones are the same node.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use belljar::store::DirectoryStore;
/// use belljar::{NodeOptions, Request, Runtime, SessionOptions, StoredSessions};
///
/// let store = Arc::new(DirectoryStore::open("/srv/sessions")?);
/// let runtime = Runtime::builder().build()?;
/// let sessions = StoredSessions::new(runtime.clone(), store, NodeOptions::default())?;
/// let session = runtime.session(SessionOptions::new()).await?;
/// let id = sessions.add(session, serde_json::Map::new()).await?;
///
/// // Here, or in any other process that has the store.
/// let mut claim = sessions.claim_run(&id).await?;
/// let outcome = claim.run(Request::new("print(1)")).await?;
/// assert_eq!(outcome.stdout, "1\n");
/// claim.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct StoredSessions {
    node: Arc<Node<Runtime>>,
}

/// How a node behaves towards the others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeOptions {
    /// What others call it. Default: drawn by lot.
    pub name: Option<String>,
    /// For how long others wait for it while it gives no sign of life. Default 5 seconds, at least 30
    /// milliseconds and at most an hour.
    pub lease: Duration,
    /// For how long it waits for a session that another has, before it says that it is elsewhere. Default
    /// 10 seconds, and at least the lease.
    pub patience: Duration,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            name: None,
            lease: Duration::from_secs(5),
            patience: Duration::from_secs(10),
        }
    }
}

impl NodeOptions {
    /// Names the node.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets for how long others wait for it.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets for how long it waits for others.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }
}

/// What a node has done, for figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeCounts {
    /// Sessions that were read from the store, because another had them before or they were not here.
    pub woken: u64,
    /// Sessions that it went on with as it had left them.
    pub found: u64,
    /// States that were written.
    pub written: u64,
    /// Sessions that it took from a node that was gone.
    pub taken_over: u64,
    /// Sessions that another took from this one.
    pub lost: u64,
}

/// What the store says of a session.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoredInfo {
    /// Its id.
    pub id: String,
    /// Its image.
    pub image: String,
    /// How many runs it is made of.
    pub execution: u64,
    /// The node that changes it just now.
    pub node: Option<String>,
    /// When it was last changed, by the clock of whoever did.
    pub used: SystemTime,
    /// What was given with it.
    pub about: Map<String, Value>,
}

impl StoredInfo {
    fn of(id: &str, head: &Head) -> Self {
        Self {
            id: id.to_owned(),
            image: head.image.clone(),
            execution: head.execution,
            node: head.holder.as_ref().map(|holder| holder.node.clone()),
            used: UNIX_EPOCH + Duration::from_millis(head.used),
            about: head.about.clone(),
        }
    }
}

impl StoredSessions {
    /// The sessions in `store`, which `runtime` runs.
    ///
    /// # Errors
    ///
    /// When the system gives no random numbers.
    pub fn new(
        runtime: Runtime,
        store: Arc<dyn Store>,
        options: NodeOptions,
    ) -> Result<Self, Error> {
        Ok(Self {
            node: Arc::new(Node::new(runtime, store, options)?),
        })
    }

    /// What others call this node.
    #[must_use]
    pub fn name(&self) -> &str {
        self.node.name()
    }

    /// What is shared.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.node.store
    }

    /// Puts a session of this node's runtime into the store, with what is to be known about it, and returns
    /// its id. From then on it is the store's: it is found by [`claim`](Self::claim) and
    /// [`read`](Self::read), and the handle is of no more use.
    ///
    /// # Errors
    ///
    /// When it cannot be written; it is closed then.
    pub async fn add(&self, session: Session, about: Map<String, Value>) -> Result<String, Error> {
        let id = session.id().to_owned();
        self.node.add(&id, session, about).await?;
        Ok(id)
    }

    /// What the store says of a session; `None` when it has none of that id.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn look(&self, id: &str) -> Result<Option<StoredInfo>, Error> {
        let found = head::read(&*self.node.store, id).await?;
        Ok(found.map(|(head, _)| StoredInfo::of(id, &head)))
    }

    /// The ids of all sessions in the store.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn ids(&self) -> Result<Vec<String>, Error> {
        let all = self.node.store.list(head::FOLDER).await?;
        Ok(all.iter().filter_map(|entry| head::id_of(&entry.key)).map(str::to_owned).collect())
    }

    /// Takes a session to change it, after those who asked on this node before and once no other node has
    /// it. Nothing of what is done before it is [released](Claim::release) is seen by others.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::SessionError::NotFound) when there is none,
    /// [`Elsewhere`](crate::SessionError::Elsewhere) when another node has it
    /// for too long; when the store fails, or its state cannot be restored here.
    pub async fn claim(&self, id: &str) -> Result<Claim, Error> {
        Ok(Claim(Claimed::take(&self.node, id, false).await?))
    }

    /// Takes a session as [`claim`](Self::claim) does, for a run: should this node go away before the claim
    /// is released, the next outcome says that a run was lost.
    ///
    /// # Errors
    ///
    /// As for [`claim`](Self::claim).
    pub async fn claim_run(&self, id: &str) -> Result<Claim, Error> {
        Ok(Claim(Claimed::take(&self.node, id, true).await?))
    }

    /// A session as it is, once nobody changes it. Until what is returned is dropped nobody on this node
    /// does.
    ///
    /// # Errors
    ///
    /// As for [`claim`](Self::claim).
    pub async fn read(&self, id: &str) -> Result<Reading, Error> {
        Ok(Reading(Read::begin(&self.node, id).await?))
    }

    /// Interrupts what runs in a session, whether something did: at once on this node; on another, when
    /// it shows the next time that it is alive.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub async fn interrupt(&self, id: &str) -> Result<bool, Error> {
        self.node.interrupt(id).await
    }

    /// Removes a session, whoever has it: a run in it is interrupted, at once on this node, and when it is
    /// next looked after on another.
    ///
    /// # Errors
    ///
    /// When the store cannot be written.
    pub async fn remove(&self, id: &str) -> Result<(), Error> {
        self.node.remove(id).await
    }

    /// Gives up what this node keeps of sessions that it has not used for so long. The store has them.
    pub fn sweep(&self, idle: Duration) {
        self.node.sweep(idle);
    }

    /// Waits until this node holds no session any more: what was run is in the store, and others have it.
    pub async fn settled(&self) {
        self.node.settled().await;
    }

    /// What this node has done so far.
    #[must_use]
    pub fn counts(&self) -> NodeCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.node.counts;
        NodeCounts {
            woken: read(&counts.woken),
            found: read(&counts.found),
            written: read(&counts.written),
            taken_over: read(&counts.taken_over),
            lost: read(&counts.lost),
        }
    }
}

/// A session that this node has, and no other. Dropped, it is released behind its owner's back.
#[must_use]
pub struct Claim(Claimed<Runtime>);

impl Claim {
    /// The session. This handle and its clones change it until the claim is released; afterwards they are
    /// refused with [`SessionError::NotHeld`](crate::SessionError::NotHeld).
    #[must_use]
    pub fn session(&self) -> &Session {
        self.0.session()
    }

    /// What is known about it.
    #[must_use]
    pub fn about(&self) -> Map<String, Value> {
        self.0.about()
    }

    /// Replaces what is known about it, once it is released.
    pub fn set_about(&mut self, about: Map<String, Value>) {
        self.0.set_about(about);
    }

    /// Runs a request in it, as [`Session::run`] does. The outcome tells what was lost before with a node
    /// that is gone.
    ///
    /// # Errors
    ///
    /// As for [`Session::run`].
    pub async fn run(&mut self, request: Request) -> Result<Outcome, Error> {
        self.session().run(request).await
    }

    /// Goes on with a run that waits for answers, as [`Session::answer`] does.
    ///
    /// # Errors
    ///
    /// As for [`Session::answer`].
    pub async fn answer(&mut self, answers: Vec<ToolAnswer>) -> Result<Outcome, Error> {
        self.session().answer(answers).await
    }

    /// Writes the session as it is now into the store, and gives it back.
    ///
    /// # Errors
    ///
    /// [`SessionError::Taken`](crate::SessionError::Taken) when another node has taken it, since this one
    /// gave no sign of life for too long, and what was done here is lost; when the store fails for too
    /// long.
    pub async fn release(self) -> Result<(), Error> {
        self.0.release().await
    }

    /// Does the same while the caller goes on. Only where this node may have lost the session does the
    /// caller wait, and learn it.
    ///
    /// # Errors
    ///
    /// As for [`release`](Self::release), where it waits.
    pub async fn release_behind(self) -> Result<(), Error> {
        self.0.release_behind().await
    }

    /// Gives it back as it was. A change that was made all the same is dropped.
    ///
    /// # Errors
    ///
    /// As for [`release`](Self::release).
    pub async fn release_unchanged(self) -> Result<(), Error> {
        self.0.release_unchanged().await
    }
}

/// A session as it is, while nobody on this node changes it.
#[must_use]
pub struct Reading(Read<Runtime>);

impl Reading {
    /// The session, for everything that does not change it: what does is refused with
    /// [`SessionError::NotHeld`](crate::SessionError::NotHeld).
    #[must_use]
    pub fn session(&self) -> &Session {
        self.0.session()
    }

    /// What the store says of it.
    #[must_use]
    pub fn info(&self) -> &StoredInfo {
        self.0.info()
    }
}
