//! Sessions that live in a store, and are woken by any of the processes that share it.
//!
//! A session in a store is a record and a state, of which only what has changed is written. Nobody has it while it rests. Whoever wants to change it
//! (run something in it, say) takes it by replacing the record, and gives it back by replacing the record
//! again, with a new state in it: of two that try one is refused, and nothing else decides. A lease only
//! says for how long the others wait for a node that is gone. Between two runs a node keeps the session
//! as it left it, and goes on with that if nobody has had it since.

mod claim;
mod head;
mod local;
mod strays;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::sync::watch;

pub use self::claim::{Claim, Reading};
use self::head::Head;
use self::local::{Local, Place};
use crate::error::Error;
use crate::runtime::Runtime;
use crate::session::{Session, SessionError, new_id};
use crate::store::{Condition, Store, Version};

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
    node: Arc<Node>,
}

struct Node {
    runtime: Runtime,
    store: Arc<dyn Store>,
    options: NodeOptions,
    places: Mutex<HashMap<String, Arc<Place>>>,
    /// Records that somebody else holds, and when they were first seen as they are.
    held: Mutex<HashMap<String, (Version, Instant)>>,
    /// How many sessions this node holds.
    holding: watch::Sender<usize>,
    counts: Counts,
}

/// How a node behaves towards the others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeOptions {
    /// What others call it. Default: drawn by lot.
    pub name: Option<String>,
    /// For how long others wait for it while it gives no sign of life. Default 5 seconds.
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

#[derive(Default)]
struct Counts {
    woken: AtomicU64,
    found: AtomicU64,
    written: AtomicU64,
    taken_over: AtomicU64,
    lost: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
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
        mut options: NodeOptions,
    ) -> Result<Self, Error> {
        if options.name.is_none() {
            options.name = Some(new_id()?);
        }
        options.patience = options.patience.max(options.lease);
        let node = Node {
            runtime,
            store,
            options,
            places: Mutex::default(),
            held: Mutex::default(),
            holding: watch::Sender::new(0),
            counts: Counts::default(),
        };
        Ok(Self {
            node: Arc::new(node),
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
        let added = self.node.add(&id, &session, about).await;
        match added {
            Ok(state) => {
                let local = Local {
                    session,
                    state,
                    rest: None,
                };
                self.node.place(&id).put(local).await;
                Ok(id)
            }
            Err(error) => {
                session.close();
                Err(error)
            }
        }
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
    /// [`SessionError::NotFound`] when there is none, [`SessionError::Elsewhere`] when another node has it
    /// for too long; when the store fails, or its state cannot be restored here.
    pub async fn claim(&self, id: &str) -> Result<Claim, Error> {
        Claim::take(&self.node, id, false).await
    }

    /// Takes a session as [`claim`](Self::claim) does, for a run: should this node go away before the claim
    /// is released, the next outcome says that a run was lost.
    ///
    /// # Errors
    ///
    /// As for [`claim`](Self::claim).
    pub async fn claim_run(&self, id: &str) -> Result<Claim, Error> {
        Claim::take(&self.node, id, true).await
    }

    /// A session as it is, once nobody changes it. Until what is returned is dropped nobody on this node
    /// does.
    ///
    /// # Errors
    ///
    /// As for [`claim`](Self::claim).
    pub async fn read(&self, id: &str) -> Result<Reading, Error> {
        Reading::begin(&self.node, id).await
    }

    /// Interrupts what runs in a session, whether something did: at once on this node; on another, when
    /// it shows the next time that it is alive.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub async fn interrupt(&self, id: &str) -> Result<bool, Error> {
        let node = &self.node;
        let place = node.places().get(id).cloned();
        if place.and_then(|place| place.session()).is_some_and(|session| session.interrupt()) {
            return Ok(true);
        }
        let Some((head, _)) = head::read(&*node.store, id).await? else {
            return Ok(false);
        };
        if head.holder.is_none_or(|holder| holder.run.is_none()) {
            return Ok(false);
        }
        let key = head::stop_key(id, head.epoch);
        let _ = node.store.put(&key, Bytes::new(), Condition::Always).await?;
        Ok(true)
    }

    /// Removes a session, whoever has it: a run in it is interrupted, at once on this node, and when it is
    /// next looked after on another.
    ///
    /// # Errors
    ///
    /// When the store cannot be written.
    pub async fn remove(&self, id: &str) -> Result<(), Error> {
        let node = &self.node;
        head::remove(&*node.store, id).await?;
        node.forget(id);
        let states = node.store.list(&head::folder(id)).await?;
        for state in states {
            node.store.delete(&state.key).await?;
        }
        Ok(())
    }

    /// Gives up what this node keeps of sessions that it has not used for so long. The store has them.
    pub fn sweep(&self, idle: Duration) {
        self.node.sweep(idle);
    }

    /// Waits until this node holds no session any more: what was run is in the store, and others have it.
    pub async fn settled(&self) {
        let mut holding = self.node.holding.subscribe();
        // The sender lives as long as this.
        let _ = holding.wait_for(|count| *count == 0).await;
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

impl Node {
    fn name(&self) -> &str {
        self.options.name.as_deref().unwrap_or_default()
    }

    fn places(&self) -> MutexGuard<'_, HashMap<String, Arc<Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where this node keeps a session.
    fn place(&self, id: &str) -> Arc<Place> {
        Arc::clone(self.places().entry(id.to_owned()).or_default())
    }

    async fn add(
        &self,
        id: &str,
        session: &Session,
        about: Map<String, Value>,
    ) -> Result<String, Error> {
        let (state, execution) = self.write_state(id, 0, session).await?;
        let image = session.info().image;
        let mut head = Head::new(image, state.clone(), execution, about);
        if head::write(&*self.store, id, &mut head, None).await?.is_none() {
            return Err(SessionError::IdTaken { id: id.into() }.into());
        }
        Ok(state)
    }

    /// Writes the state that a session is in, and returns its key and how many runs it is made of.
    async fn write_state(
        &self,
        id: &str,
        epoch: u64,
        session: &Session,
    ) -> Result<(String, u64), Error> {
        let key = format!("{}/{epoch}-{}", head::folder(id), new_id()?);
        let execution = session.execution().await;
        if session.save(&self.store, &key, Condition::Absent).await?.is_none() {
            let why = "there is a state of that name already".into();
            return Err(SessionError::Record { id: id.into(), why }.into());
        }
        count(&self.counts.written);
        Ok((key, execution))
    }

    /// Whether a record has been the same for as long as its holder's lease.
    fn is_over(&self, id: &str, version: &Version, lease: Duration) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match held.get(id) {
            Some((seen, since)) if seen == version => since.elapsed() >= lease,
            _ => {
                held.insert(id.to_owned(), (version.clone(), Instant::now()));
                false
            }
        }
    }

    fn note_free(&self, id: &str) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Drops a session that the store has no more, and interrupts what it runs.
    fn forget(&self, id: &str) {
        self.note_free(id);
        let place = self.places().remove(id);
        if let Some(session) = place.and_then(|place| place.session()) {
            session.close();
        }
    }
}
