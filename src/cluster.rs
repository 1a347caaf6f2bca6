//! Sessions in a store, which any process that shares the store can wake.
//!
//! A stored session consists of a record and a state. Only changed chunks are uploaded. An idle
//! session has no owner. A node that wants to change the session, for example to run code in it,
//! takes the session by replacing the record, and releases it by replacing the record again with a
//! new state. If two nodes try at once, the store rejects one of them; this conditional write alone
//! decides. A lease only limits how long other nodes wait for a dead node. Between two runs, a node
//! keeps the session in memory and continues with it if no other node has changed it.
//!
//! The protocol (`lease`, `claim`) uses the engine only through the traits in `host`.

mod boot_clock;
mod cached;
mod claim;
mod condemned;
mod garbage;
mod host;
mod lease;
mod node;
mod orphans;
mod record;
mod save;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_recursion::async_recursion as boxed;
use serde_json::{Map, Value};

use self::claim::{Claimed, Read};
pub use self::condemned::CHUNK_GRACE;
pub use self::garbage::{Collected, collect_chunks};
use self::node::{Node, count};
use self::record::Head;
use crate::api::outcome::Outcome;
use crate::api::request::Request;
use crate::api::setters::setters;
use crate::api::tool::ToolAnswer;
use crate::error::Error;
use crate::runtime::Runtime;
use crate::session::Session;
use crate::store::Store;

/// The sessions of a store, as seen by one node. Clones are cheap and are the same node.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use belljar::store::DirectoryStore;
/// use belljar::{Request, Runtime, SessionOptions};
/// use belljar::cluster::{NodeOptions, StoredSessions};
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

/// Settings of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeOptions {
    /// Name of this node in the store. Default: random.
    pub name: Option<String>,
    /// How long other nodes wait for this node after its last renewal. Default 5 seconds, at least
    /// 30 milliseconds, at most one hour.
    pub lease: Duration,
    /// How long this node waits for a session that another node holds, before it fails with
    /// `Elsewhere`. Default 10 seconds, at least the lease.
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
    /// Sets the node's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

setters!(NodeOptions {
    /// Sets the lease.
    lease: Duration;
    /// Sets how long this node waits for other nodes.
    patience: Duration;
});

/// Counters of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeCounts {
    /// Sessions read from the store, because another node held them before or they were not in
    /// memory.
    pub woken: u64,
    /// Sessions continued from memory.
    pub found: u64,
    /// States written.
    pub written: u64,
    /// Sessions taken from a dead node.
    pub taken_over: u64,
    /// Sessions that another node took from this node.
    pub lost: u64,
}

/// The record of a session in the store.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoredInfo {
    /// Id of the session.
    pub id: String,
    /// Name of its image.
    pub image: String,
    /// Number of completed runs.
    pub execution: u64,
    /// The lease holder, if a node holds the session.
    pub node: Option<String>,
    /// Time of the last change, by the clock of the node that made it.
    pub used: SystemTime,
    /// Data that the caller stored with the session.
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
    /// Opens the sessions in `store`, which run in `runtime`.
    ///
    /// # Errors
    ///
    /// If the system gives no random numbers.
    pub fn new(
        runtime: Runtime,
        store: Arc<dyn Store>,
        options: NodeOptions,
    ) -> Result<Self, Error> {
        Ok(Self {
            node: Arc::new(Node::new(runtime, store, options)?),
        })
    }

    /// Returns the name of this node.
    #[must_use]
    pub fn name(&self) -> &str {
        self.node.name()
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.node.store
    }

    /// Moves a session of this node's runtime into the store, with the caller's data `about`, and
    /// returns its id. Use [`claim`](Self::claim) and [`read`](Self::read) from then on: the old
    /// handle is invalid.
    ///
    /// # Errors
    ///
    /// If the session cannot be written. It is then closed.
    #[boxed]
    pub async fn add(&self, session: Session, about: Map<String, Value>) -> Result<String, Error> {
        let id = session.id().to_owned();
        self.node.add(&id, session, about).await?;
        Ok(id)
    }

    /// Returns the record of a session, or `None` if the store has no session with this id.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    #[boxed]
    pub async fn look(&self, id: &str) -> Result<Option<StoredInfo>, Error> {
        let found = record::read(&*self.node.store, id).await?;
        Ok(found.map(|(head, _)| StoredInfo::of(id, &head)))
    }

    /// Returns the ids of all sessions in the store.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    #[boxed]
    pub async fn ids(&self) -> Result<Vec<String>, Error> {
        let all = self.node.store.list(record::FOLDER).await?;
        Ok(all.iter().filter_map(|entry| record::id_of(&entry.key)).map(str::to_owned).collect())
    }

    /// Takes a session to change it. Waits for earlier claims on this node and for the lease of
    /// another node. Other nodes see changes only after [`release`](Claim::release).
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::error::SessionError::NotFound) if the session does not exist,
    /// [`Elsewhere`](crate::error::SessionError::Elsewhere) if another node holds it for too long,
    /// or an error if the store fails or the state cannot be restored.
    #[boxed]
    pub async fn claim(&self, id: &str) -> Result<Claim, Error> {
        Ok(Claim(Claimed::take(&self.node, id, false).await?))
    }

    /// Takes a session like [`claim`](Self::claim), for a run. If this node dies before the claim
    /// is released, the next outcome says that a run was lost.
    ///
    /// # Errors
    ///
    /// As for [`claim`](Self::claim).
    #[boxed]
    pub async fn claim_run(&self, id: &str) -> Result<Claim, Error> {
        Ok(Claim(Claimed::take(&self.node, id, true).await?))
    }

    /// Returns a session for reading, once no node changes it. This node does not change it until
    /// the returned value is dropped.
    ///
    /// # Errors
    ///
    /// As for [`claim`](Self::claim).
    #[boxed]
    pub async fn read(&self, id: &str) -> Result<Reading, Error> {
        Ok(Reading(Read::begin(&self.node, id).await?))
    }

    /// Interrupts the current run of a session, and returns whether there was one. On this node, it
    /// takes effect at once; on another node, at its next renewal.
    ///
    /// # Errors
    ///
    /// If the store fails.
    #[boxed]
    pub async fn interrupt(&self, id: &str) -> Result<bool, Error> {
        self.node.interrupt(id).await
    }

    /// Removes a session, even if a node holds it. A current run is interrupted: on this node at
    /// once, on another node at its next renewal.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    #[boxed]
    pub async fn remove(&self, id: &str) -> Result<(), Error> {
        self.node.remove(id).await
    }

    /// Drops sessions from this node's memory that it has not used for the duration `idle`. They
    /// remain in the store.
    pub fn sweep(&self, idle: Duration) {
        self.node.sweep(idle);
    }

    /// Waits until this node holds no session. All runs are then in the store, and other nodes can
    /// take the sessions.
    pub async fn settled(&self) {
        self.node.settled().await;
    }

    /// Returns the counters of this node.
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

/// A session that this node alone holds. Dropping the claim releases the session in the background.
#[must_use]
pub struct Claim(Claimed<Runtime>);

impl Claim {
    /// Returns the session. This handle and its clones can change it until the claim is released.
    /// Later changes fail with [`SessionError::NotHeld`](crate::error::SessionError::NotHeld).
    #[must_use]
    pub fn session(&self) -> &Session {
        self.0.session()
    }

    /// Returns the data that the caller stored with the session.
    #[must_use]
    pub fn about(&self) -> Map<String, Value> {
        self.0.about()
    }

    /// Replaces the caller's data when the claim is released.
    pub fn set_about(&mut self, about: Map<String, Value>) {
        self.0.set_about(about);
    }

    /// Runs a request in the session, like [`Session::run`]. The outcome reports runs that were
    /// lost with a dead node.
    ///
    /// # Errors
    ///
    /// As for [`Session::run`].
    #[boxed]
    pub async fn run(&mut self, request: Request) -> Result<Outcome, Error> {
        self.session().run(request).await
    }

    /// Continues a run that waits for answers, like [`Session::answer`].
    ///
    /// # Errors
    ///
    /// As for [`Session::answer`].
    #[boxed]
    pub async fn answer(&mut self, answers: Vec<ToolAnswer>) -> Result<Outcome, Error> {
        self.session().answer(answers).await
    }

    /// Writes the session to the store and releases it.
    ///
    /// # Errors
    ///
    /// [`SessionError::Taken`](crate::error::SessionError::Taken) if another node has taken the
    /// session because this node did not renew its lease; changes made here are lost. An error of
    /// the store if it fails for too long.
    #[boxed]
    pub async fn release(self) -> Result<(), Error> {
        self.0.release().await
    }

    /// Releases the session in the background. Waits only if this node may have lost the session,
    /// and then returns the error.
    ///
    /// # Errors
    ///
    /// As for [`release`](Self::release), if it waits.
    #[boxed]
    pub async fn release_behind(self) -> Result<(), Error> {
        self.0.release_behind().await
    }

    /// Releases the session in its previous state. Changes made under this claim are discarded.
    ///
    /// # Errors
    ///
    /// As for [`release`](Self::release).
    #[boxed]
    pub async fn release_unchanged(self) -> Result<(), Error> {
        self.0.release_unchanged().await
    }
}

/// A session that this node does not change while this value exists.
#[must_use]
pub struct Reading(Read<Runtime>);

impl Reading {
    /// Returns the session, for reading. Changes fail with
    /// [`SessionError::NotHeld`](crate::error::SessionError::NotHeld).
    #[must_use]
    pub fn session(&self) -> &Session {
        self.0.session()
    }

    /// Returns the record of the session.
    #[must_use]
    pub fn info(&self) -> &StoredInfo {
        self.0.info()
    }
}
