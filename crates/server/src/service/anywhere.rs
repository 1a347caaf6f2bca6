//! Sessions that live in a store, so that every server that has it finds them: by owner, as the others.
//!
//! The record of a session says whose it is. Two folders beside the sessions find it from there: `owners`
//! has what is whose, and `names` what is called how.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use belljar::store::{Condition, Put};
use belljar::{
    CHUNK_GRACE, Claim, LeaseEnd, Outcome, Reading, Request, RestoreOptions, Session, SessionError,
    StoredInfo, StoredSessions, collect_chunks,
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::Service;
use super::error::ServiceError;
use super::owner::{Owner, limit};
use super::sessions::{Held, NewSession, Origin, check_name};
use super::turn::{Attended, Turn};
use crate::hex::hex;

/// The store's side of a service.
pub(crate) struct Anywhere {
    pub(super) sessions: StoredSessions,
    /// Whose a session is, which never changes.
    owners: Mutex<HashMap<String, String>>,
}

/// Owners that are remembered; should there be more sessions, all are asked for again.
const MAX_OWNERS: usize = 100_000;
/// Records that are read at the same time.
const AT_ONCE: usize = 16;
/// The longest id in an entry of a name.
const MAX_ID: u64 = 64;
/// What leads nowhere after so long is not about to.
const STRAY: Duration = Duration::from_hours(1);
/// What a node has not used for so long it leaves to the store alone.
const MAX_KEPT: Duration = Duration::from_mins(10);

/// What is known of a session besides its state.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct About {
    owner: String,
    pub name: Option<String>,
    /// Milliseconds since 1970.
    created: u64,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// When its lease ends, in milliseconds since 1970, and whether it is kept then.
    #[serde(default)]
    lease: Option<(u64, bool)>,
}

impl About {
    fn of(info: &StoredInfo) -> Option<Self> {
        serde_json::from_value(Value::Object(info.about.clone())).ok()
    }

    fn text(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(text)) => text,
            _ => Map::new(),
        }
    }

    pub(crate) fn created(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.created)
    }

    pub(crate) fn lease_seconds(&self) -> Option<f64> {
        let (end, _) = self.lease?;
        Some(end.saturating_sub(millis(SystemTime::now())) as f64 / 1000.0)
    }

    /// Whether its lease has ended that closes it.
    fn is_closed(&self) -> bool {
        self.lease.is_some_and(|(end, is_kept)| !is_kept && end <= millis(SystemTime::now()))
    }

    fn lease_end(&self) -> Option<LeaseEnd> {
        self.lease.map(|(_, is_kept)| {
            if is_kept {
                LeaseEnd::Suspend
            } else {
                LeaseEnd::Close
            }
        })
    }

    /// What is left of its lease.
    fn lease_left(&self) -> Option<(Duration, LeaseEnd)> {
        let left = Duration::try_from_secs_f64(self.lease_seconds()?).unwrap_or_default();
        Some((left, self.lease_end()?))
    }
}

fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// A session of the store, as it is listed.
pub(crate) struct Listed {
    pub info: StoredInfo,
    pub about: About,
}

/// What a session is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is as it was afterwards.
    Look,
    Change,
    Run,
}

/// A session that somebody uses: one of this process, or one of the store that no other node changes
/// meanwhile.
pub(crate) struct AtHand {
    held: Held,
    hold: Hold,
    about: Option<About>,
}

enum Hold {
    Here,
    Looking { _reading: Reading },
    Having(Claim),
}

impl Deref for AtHand {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl AtHand {
    /// What was changed is there from now on, for everybody. Without this call it is a little later.
    pub(crate) async fn done(self) -> Result<(), ServiceError> {
        let Self { held, hold, about } = self;
        if let Hold::Having(mut claim) = hold {
            if let Some(mut about) = about {
                about.labels = held.session().info().labels;
                claim.set_about(about.text());
            }
            claim.release().await?;
        }
        Ok(())
    }

    /// Has its lease end so long from now; whether it has one.
    pub(crate) fn extend_lease(&mut self, time: Duration) -> Result<bool, ServiceError> {
        match &mut self.about {
            Some(About {
                lease: Some((end, _)),
                ..
            }) => {
                *end = millis(SystemTime::now()).saturating_add(time.as_millis() as u64);
                Ok(true)
            }
            Some(_) => Ok(false),
            None => Ok(self.held.session().extend_lease(time)?),
        }
    }

    /// The seconds until its lease ends.
    pub(crate) fn lease_seconds(&self) -> Option<f64> {
        match &self.about {
            Some(about) => about.lease_seconds(),
            None => self.held.session().info().lease_seconds,
        }
    }
}

impl Service {
    /// Has sessions live in a store, where every server finds them that has the same: those that are made
    /// with [`start`](Self::start). To be said before there are any.
    #[must_use]
    pub fn stored(mut self, sessions: StoredSessions) -> Self {
        if let Some(shared) = std::sync::Arc::get_mut(&mut self.shared) {
            shared.anywhere = Some(Anywhere {
                sessions,
                owners: Mutex::default(),
            });
        }
        self
    }

    pub(super) fn anywhere(&self) -> Option<&Anywhere> {
        self.shared.anywhere.as_ref()
    }

    /// What this server has done as one of several.
    #[must_use]
    pub fn stored_sessions(&self) -> Option<&StoredSessions> {
        self.anywhere().map(|anywhere| &anywhere.sessions)
    }

    /// Starts a session of somebody where all servers find it that share a store; without a store, as
    /// [`create`](Self::create) does.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create), and when the store fails.
    pub async fn start(&self, owner: &Owner, mut new: NewSession) -> Result<Held, ServiceError> {
        let Some(anywhere) = self.anywhere() else {
            return self.create(owner, new).await;
        };
        anywhere.may_have_another(self, owner, new.name.as_deref()).await?;
        // The server looks after it, wherever the session is.
        let lease = new.options.lease.take();
        let session = self.shared.runtime.session(new.options).await?;
        anywhere.add(owner, session, new.name, lease).await
    }

    /// Starts a session of somebody from a checkpoint, where [`start`](Self::start) does.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start) and [`belljar::Runtime::restore`].
    pub(crate) async fn open(
        &self,
        owner: &Owner,
        options: RestoreOptions,
        name: Option<String>,
    ) -> Result<Held, ServiceError> {
        let Some(anywhere) = self.anywhere() else {
            return self.restore(owner, options, name).await;
        };
        anywhere.may_have_another(self, owner, name.as_deref()).await?;
        let session = self.shared.runtime.restore(options).await?;
        anywhere.add(owner, session, name, None).await
    }

    /// Starts a session of somebody from another of theirs, where that one is.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start) and [`Session::fork`].
    pub(crate) async fn fork_of(
        &self,
        owner: &Owner,
        at: &AtHand,
        name: Option<String>,
    ) -> Result<Held, ServiceError> {
        let (Some(anywhere), Some(about)) = (self.anywhere(), &at.about) else {
            return self.fork(owner, &at.held, name).await;
        };
        anywhere.may_have_another(self, owner, name.as_deref()).await?;
        let session = at.held.session().fork().await?;
        anywhere.add(owner, session, name, about.lease_left()).await
    }

    /// Goes back to an earlier state of a session, and keeps what is left behind as one of its own, where
    /// that one is.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start) and [`Session::rewind_keeping`].
    pub(crate) async fn rewind_keeping_at(
        &self,
        owner: &Owner,
        at: &AtHand,
        execution: u64,
    ) -> Result<Held, ServiceError> {
        let (Some(anywhere), Some(about)) = (self.anywhere(), &at.about) else {
            return self.rewind_keeping(owner, &at.held, execution).await;
        };
        anywhere.may_have_another(self, owner, None).await?;
        let session = at.held.session().rewind_keeping(execution).await?;
        anywhere.add(owner, session, None, about.lease_left()).await
    }

    /// Somebody's session of that id or name, wherever it is.
    ///
    /// # Errors
    ///
    /// [`ServiceError::NoSession`] when there is none, or it is somebody else's; when the store fails, or
    /// another server keeps it for too long.
    pub(crate) async fn at_hand(
        &self,
        owner: &Owner,
        id: &str,
        purpose: Use,
    ) -> Result<AtHand, ServiceError> {
        let found = self.find(owner, id);
        let (Some(anywhere), Err(ServiceError::NoSession { .. })) = (self.anywhere(), &found)
        else {
            return Ok(AtHand {
                held: found?,
                hold: Hold::Here,
                about: None,
            });
        };
        anywhere.at_hand(owner, id, purpose).await
    }

    /// Runs a request in a session that is at hand, as [`run_in`](Self::run_in) does.
    ///
    /// # Errors
    ///
    /// As for [`run_in`](Self::run_in), and when the session was lost to another server.
    pub(crate) fn run_at(
        &self,
        owner: &Owner,
        at: AtHand,
        mut request: Request,
    ) -> Attended<Result<Outcome, ServiceError>> {
        let AtHand { held, hold, .. } = at;
        let Hold::Having(mut claim) = hold else {
            return self.run_in(owner, &held, request);
        };
        let turn =
            self.has_room(owner).and_then(|()| Turn::begin(&self.shared, owner, &mut request));
        let interrupt = request.interrupt.clone();
        let (service, owner) = (self.clone(), owner.clone());
        Attended::new(interrupt, async move {
            let turn = match turn {
                Ok(turn) => turn,
                Err(error) => {
                    claim.release_unchanged().await?;
                    return Err(error);
                }
            };
            let ran = claim.run(request).await.map_err(ServiceError::from);
            turn.note(ran.as_ref());
            match &ran {
                // It did not begin.
                Err(ServiceError::Engine(belljar::Error::Refused(_))) => {
                    claim.release_unchanged().await?;
                }
                _ => claim.release_behind().await?,
            }
            service.look(&owner, &held);
            ran
        })
    }

    /// Interrupts what runs in somebody's session, wherever that is; whether something did.
    ///
    /// # Errors
    ///
    /// As for [`at_hand`](Self::at_hand), without waiting.
    pub(crate) async fn interrupt(&self, owner: &Owner, id: &str) -> Result<bool, ServiceError> {
        match (self.anywhere(), self.find(owner, id)) {
            (Some(anywhere), Err(ServiceError::NoSession { .. })) => {
                let id = anywhere.id_of(owner, id).await?;
                Ok(anywhere.sessions.interrupt(&id).await?)
            }
            (_, found) => Ok(found?.session().interrupt()),
        }
    }

    /// Removes somebody's session, wherever it is.
    ///
    /// # Errors
    ///
    /// As for [`at_hand`](Self::at_hand), without waiting.
    pub(crate) async fn end(&self, owner: &Owner, id: &str) -> Result<(), ServiceError> {
        match (self.anywhere(), self.remove(owner, id)) {
            (Some(anywhere), Err(ServiceError::NoSession { .. })) => {
                let id = anywhere.id_of(owner, id).await?;
                let about = anywhere.listed(owner, &id).await?.map(|listed| listed.about);
                let name = about.and_then(|about| about.name);
                anywhere.remove(owner.name(), &id, name.as_deref()).await
            }
            (_, removed) => removed,
        }
    }

    /// Somebody's session in the store, without waking it; `None` where it is one of this process, or
    /// there is none.
    pub(crate) async fn listed(
        &self,
        owner: &Owner,
        id: &str,
    ) -> Result<Option<Listed>, ServiceError> {
        let Some(anywhere) = self.anywhere().filter(|_| self.find(owner, id).is_err()) else {
            return Ok(None);
        };
        let id = anywhere.id_of(owner, id).await?;
        anywhere.listed(owner, &id).await
    }

    /// All sessions of somebody in the store.
    pub(crate) async fn list_anywhere(&self, owner: &Owner) -> Result<Vec<Listed>, ServiceError> {
        let Some(anywhere) = self.anywhere() else {
            return Ok(Vec::new());
        };
        anywhere.list(owner).await
    }

    /// Whether this node has a session awake, and what it does, for one of the store.
    pub(crate) fn awake(&self, id: &str) -> Option<belljar::SessionInfo> {
        Some(self.shared.runtime.sessions().get(id).ok()?.info())
    }

    /// Waits until everything is in the store that was run here.
    pub async fn settled(&self) {
        if let Some(anywhere) = self.anywhere() {
            anywhere.sessions.settled().await;
        }
    }

    /// Gives up what this node keeps of sessions of the store that nobody uses.
    pub(super) fn sweep_kept_sessions(&self) {
        if let Some(anywhere) = self.anywhere() {
            anywhere.sessions.sweep(MAX_KEPT);
        }
    }

    /// Removes the sessions of the store that nobody has used for so long on any server, or whose lease
    /// has ended. It reads the records of those, and lists all.
    pub async fn sweep_store(&self, idle: Duration) {
        let Some(anywhere) = self.anywhere() else {
            return;
        };
        let swept = anywhere.sweep(idle).await;
        if let Err(error) = swept {
            tracing::warn!(%error, "the store is not swept");
        }
    }
}

impl Anywhere {
    async fn add(
        &self,
        owner: &Owner,
        session: Session,
        name: Option<String>,
        lease: Option<(Duration, LeaseEnd)>,
    ) -> Result<Held, ServiceError> {
        let id = session.id().to_owned();
        let now = millis(SystemTime::now());
        let about = About {
            owner: owner.name().to_owned(),
            name: name.clone(),
            created: now,
            labels: session.info().labels,
            lease: lease.map(|(time, then)| {
                (now.saturating_add(time.as_millis() as u64), then == LeaseEnd::Suspend)
            }),
        };
        if let Err(error) = self.enter(owner, &id, name.as_deref()).await {
            session.close();
            return Err(error);
        }
        let held = about.held(session.clone());
        if let Err(error) = self.sessions.add(session, about.text()).await {
            // What leads to no session leads nowhere; it is tidied up if the store can be reached.
            let _ = self.leave(owner.name(), &id, name.as_deref()).await;
            return Err(error.into());
        }
        self.remember(&id, owner.name());
        Ok(held)
    }

    async fn may_have_another(
        &self,
        service: &Service,
        owner: &Owner,
        name: Option<&str>,
    ) -> Result<(), ServiceError> {
        service.has_room(owner)?;
        if service.shared.is_stopping() {
            return Err(ServiceError::Stopping);
        }
        if let Some(name) = name {
            check_name(name)?;
            if self.named(owner, name).await?.is_some() {
                return Err(ServiceError::NameTaken { name: name.into() });
            }
        }
        if let Some(max) = owner.limits().sessions {
            let theirs = self.sessions.store().list(&owner_folder(owner.name())).await;
            if theirs.map_err(belljar::Error::from)?.len() >= max as usize {
                return Err(limit("sessions", max.into(), None));
            }
        }
        Ok(())
    }

    /// Enters a session among those of its owner, and its name.
    async fn enter(&self, owner: &Owner, id: &str, name: Option<&str>) -> Result<(), ServiceError> {
        let store = self.sessions.store();
        if let Some(name) = name {
            let (key, bytes) = (name_key(owner.name(), name), Bytes::from(id.to_owned()));
            let there = store.get(&key, MAX_ID).await.map_err(belljar::Error::from)?;
            // What it led to is gone, as was seen before; of two that see that one gets the name.
            let condition = there.map_or(Condition::Absent, |blob| Condition::Is(blob.version));
            let put = store.put(&key, bytes, condition).await.map_err(belljar::Error::from)?;
            if put == Put::Refused {
                return Err(ServiceError::NameTaken { name: name.into() });
            }
        }
        let key = format!("{}/{id}", owner_folder(owner.name()));
        let put = store.put(&key, Bytes::new(), Condition::Always).await;
        put.map(drop).map_err(|error| belljar::Error::from(error).into())
    }

    async fn leave(&self, owner: &str, id: &str, name: Option<&str>) -> Result<(), ServiceError> {
        let store = self.sessions.store();
        if let Some(name) = name {
            store.delete(&name_key(owner, name)).await.map_err(belljar::Error::from)?;
        }
        let key = format!("{}/{id}", owner_folder(owner));
        store.delete(&key).await.map_err(|error| belljar::Error::from(error).into())
    }

    async fn remove(&self, owner: &str, id: &str, name: Option<&str>) -> Result<(), ServiceError> {
        self.sessions.remove(id).await?;
        self.owners().remove(id);
        self.leave(owner, id, name).await
    }

    async fn at_hand(&self, owner: &Owner, id: &str, purpose: Use) -> Result<AtHand, ServiceError> {
        let asked = id;
        let id = self.id_of(owner, asked).await?;
        let gone = |error: belljar::Error| match error {
            belljar::Error::Session(SessionError::NotFound { .. }) => no_session(asked),
            error => error.into(),
        };
        let (hold, session, about) = if purpose == Use::Look {
            let reading = self.sessions.read(&id).await.map_err(gone)?;
            let (session, about) = (reading.session().clone(), About::of(reading.info()));
            (Hold::Looking { _reading: reading }, session, about)
        } else {
            let claim = match purpose {
                Use::Run => self.sessions.claim_run(&id).await,
                _ => self.sessions.claim(&id).await,
            };
            let claim = claim.map_err(gone)?;
            let about = serde_json::from_value(Value::Object(claim.about())).ok();
            let session = claim.session().clone();
            (Hold::Having(claim), session, about)
        };
        let Some(about) = about.filter(|about| about.owner == owner.name()) else {
            return Err(no_session(asked));
        };
        if session.info().labels != about.labels {
            session.set_labels(about.labels.clone())?;
        }
        Ok(AtHand {
            held: about.held(session),
            hold,
            about: Some(about),
        })
    }

    /// The id of somebody's session of that id or name.
    async fn id_of(&self, owner: &Owner, id: &str) -> Result<String, ServiceError> {
        let known = self.owners().get(id).cloned();
        if known.is_some_and(|known| known == owner.name()) {
            return Ok(id.to_owned());
        }
        if self.listed(owner, id).await?.is_some() {
            return Ok(id.to_owned());
        }
        if check_name(id).is_err() {
            return Err(no_session(id));
        }
        self.named(owner, id).await?.ok_or_else(|| no_session(id))
    }

    /// Somebody's session of that name.
    async fn named(&self, owner: &Owner, name: &str) -> Result<Option<String>, ServiceError> {
        let key = name_key(owner.name(), name);
        let found = self.sessions.store().get(&key, MAX_ID).await.map_err(belljar::Error::from)?;
        let Some(id) = found.and_then(|blob| String::from_utf8(blob.bytes.to_vec()).ok()) else {
            return Ok(None);
        };
        Ok(self.listed(owner, &id).await?.map(|_| id))
    }

    /// What the store says of somebody's session.
    async fn listed(&self, owner: &Owner, id: &str) -> Result<Option<Listed>, ServiceError> {
        let Some(info) = self.sessions.look(id).await? else {
            return Ok(None);
        };
        let Some(about) = About::of(&info).filter(|about| about.owner == owner.name()) else {
            return Ok(None);
        };
        if about.is_closed() {
            self.remove(owner.name(), id, about.name.as_deref()).await?;
            return Ok(None);
        }
        self.remember(id, owner.name());
        Ok(Some(Listed { info, about }))
    }

    async fn list(&self, owner: &Owner) -> Result<Vec<Listed>, ServiceError> {
        let folder = owner_folder(owner.name());
        let keys = self.sessions.store().list(&folder).await.map_err(belljar::Error::from)?;
        let mut looking = Vec::new();
        for entry in &keys {
            let id = entry.key.rsplit('/').next().unwrap_or_default();
            looking.push(self.listed(owner, id));
        }
        let mut looked = stream::iter(looking).buffered(AT_ONCE);
        let mut theirs = Vec::new();
        while let Some(found) = looked.next().await {
            theirs.extend(found?);
        }
        theirs.sort_by(|one, other| {
            (one.about.created, &one.info.id).cmp(&(other.about.created, &other.info.id))
        });
        Ok(theirs)
    }

    async fn sweep(&self, idle: Duration) -> Result<(), ServiceError> {
        for id in self.sessions.ids().await? {
            let Some(info) = self.sessions.look(&id).await? else {
                continue;
            };
            let Some(about) = About::of(&info) else {
                continue;
            };
            let unused = SystemTime::now().duration_since(info.used).unwrap_or_default();
            if about.is_closed() || (unused > idle && info.node.is_none()) {
                self.remove(&about.owner, &id, about.name.as_deref()).await?;
            }
        }
        self.sessions.remove_strays(STRAY).await?;
        let collected = collect_chunks(self.sessions.store(), "sessions", CHUNK_GRACE).await;
        tracing::debug!(?collected, "chunks of the store were looked through");
        collected.map_err(belljar::Error::from)?;
        // What leads to no session: a server died while it made one.
        let store = self.sessions.store();
        let entries = store.list("owners").await.map_err(belljar::Error::from)?;
        for entry in entries {
            let age = SystemTime::now().duration_since(entry.modified).unwrap_or_default();
            let id = entry.key.rsplit('/').next().unwrap_or_default();
            if age > STRAY && self.sessions.look(id).await?.is_none() {
                store.delete(&entry.key).await.map_err(belljar::Error::from)?;
            }
        }
        Ok(())
    }

    fn owners(&self) -> std::sync::MutexGuard<'_, HashMap<String, String>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, id: &str, owner: &str) {
        let mut owners = self.owners();
        if owners.len() >= MAX_OWNERS {
            owners.clear();
        }
        owners.insert(id.to_owned(), owner.to_owned());
    }
}

impl About {
    fn held(&self, session: Session) -> Held {
        let origin = Origin {
            created: self.created(),
            lease_end: self.lease_end(),
        };
        Held::new(session, self.owner.clone(), self.name.clone(), origin)
    }
}

fn no_session(id: &str) -> ServiceError {
    ServiceError::NoSession { id: id.into() }
}

/// The folder of somebody's sessions. A name may be anything, and a key may not.
fn owner_folder(owner: &str) -> String {
    format!("owners/{}", hash(owner))
}

fn name_key(owner: &str, name: &str) -> String {
    format!("names/{}/{}", hash(owner), hash(name))
}

fn hash(text: &str) -> String {
    hex(&Sha256::digest(text)[..16])
}
