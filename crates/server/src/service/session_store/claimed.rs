//! A session in use: a session of this process, or a claimed session of the store.

use std::ops::Deref;
use std::time::{Duration, SystemTime};

use belljar::cluster::{Claim, Reading};
use belljar::error::SessionError;
use belljar::tool::ToolAnswer;
use belljar::{Interrupt, Outcome, Request};
use serde_json::Value;

use super::SessionStore;
use super::record::{LEASE_MINUTES, NewRecord, SessionPlan, SessionRecord, millis};
use super::sizes::bytes_of;
use crate::service::Service;
use crate::service::error::ServiceError;
use crate::service::guest_work::{AdmittedWork, GuestFuture};
use crate::service::owned_session::{OwnedSession, no_session};
use crate::service::owner::{Owner, Work};

/// What a session is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading only.
    Read,
    /// Changes that need no more storage.
    Change,
    /// Changes that may need more storage, of which some must be available.
    Write,
    /// Running code, which may also need more storage.
    Run,
}

/// A session in use. No other server changes it meanwhile.
pub(crate) struct ClaimedSession {
    service: Service,
    owner: Owner,
    session: OwnedSession,
    ownership: Ownership,
    record: Option<SessionRecord>,
}

enum Ownership {
    Local,
    Reader { _reading: Reading },
    Claimed(Claim),
}

impl Deref for ClaimedSession {
    type Target = OwnedSession;

    fn deref(&self) -> &OwnedSession {
        &self.session
    }
}

impl ClaimedSession {
    /// Releases the session after a change and waits until the change is visible to all servers.
    /// Without this call, it becomes visible later.
    pub(crate) async fn commit(mut self) -> Result<(), ServiceError> {
        self.count().await;
        if let Ownership::Claimed(mut claim) = self.ownership {
            if let Some(mut record) = self.record {
                record.labels = self.session.view().info().labels;
                claim.set_about(record.text());
            }
            claim.release().await?;
        }
        Ok(())
    }

    /// Releases the session after a run, or after a run that did not start. Its changes become
    /// visible to all servers later. The caller waits only if this server may have lost the
    /// session, and gets that error.
    pub(crate) async fn commit_run(
        mut self,
        ran: &Result<Outcome, ServiceError>,
    ) -> Result<(), ServiceError> {
        let has_begun = !matches!(
            ran,
            Err(ServiceError::Engine(belljar::Error::Refused(_))
                | ServiceError::Limit { .. }
                | ServiceError::Memory
                | ServiceError::Stopping)
        );
        if has_begun {
            self.count().await;
        }
        match self.ownership {
            Ownership::Claimed(claim) if has_begun => claim.release_behind().await?,
            Ownership::Claimed(claim) => claim.release_unchanged().await?,
            Ownership::Local | Ownership::Reader { .. } => {}
        }
        Ok(())
    }

    /// Measures its files if its owner has a limit. For a session in the store, this must precede
    /// the release, because the size is part of its record.
    async fn count(&mut self) {
        let (Some(record), Ownership::Claimed(claim)) = (&mut self.record, &mut self.ownership)
        else {
            return self.service.measure(&self.owner, &self.session);
        };
        if self.owner.limits().stored_bytes.is_none() {
            return;
        }
        let bytes = bytes_of(&self.session.view().workspace()).await;
        record.bytes = Some(bytes);
        claim.set_about(record.text());
        if let Some(session_store) = self.service.session_store() {
            session_store.note_bytes(self.owner.name(), self.session.id(), bytes);
        }
    }

    /// Properties of a fork of this session, except its lineage.
    pub(in crate::service) fn derive_plan(&self, name: Option<String>) -> SessionPlan {
        let stored = self.record.as_ref().map(|record| NewRecord {
            lease: record.lease_left(),
            note: record.note.clone(),
        });
        SessionPlan {
            name,
            lineage: None,
            lease_end: self.session.lease_end(),
            stored,
        }
    }

    /// Releases the session without changes except its note.
    pub(crate) async fn release(self) -> Result<(), ServiceError> {
        match self.ownership {
            Ownership::Claimed(claim) => Ok(claim.release_unchanged().await?),
            Ownership::Local | Ownership::Reader { .. } => Ok(()),
        }
    }

    /// The interface's data saved with a session in the store.
    pub(crate) fn note(&self) -> Option<&Value> {
        self.record.as_ref()?.note.as_ref()
    }

    /// Sets the interface's data, saved with the state.
    pub(crate) fn set_note(&mut self, note: Value) {
        if let (Some(record), Ownership::Claimed(claim)) = (&mut self.record, &mut self.ownership) {
            record.note = Some(note);
            claim.set_about(record.text());
        }
    }

    /// Sets the rest of its lease; returns false if it has no lease.
    pub(crate) fn extend_lease(&mut self, time: Duration) -> Result<bool, ServiceError> {
        match &mut self.record {
            Some(SessionRecord {
                lease: Some((end, _)),
                ..
            }) => {
                *end = millis(SystemTime::now()).saturating_add(time.as_millis() as u64);
                Ok(true)
            }
            Some(_) => Ok(false),
            None => Ok(self.session.view().extend_lease(time)?),
        }
    }

    /// Restarts the lease of a session with the label [`LEASE_MINUTES`]. Reading a session of the
    /// store does not change its record.
    fn renew_lease(&mut self) -> Result<(), ServiceError> {
        if self.session.lease_end().is_none() || matches!(self.ownership, Ownership::Reader { .. })
        {
            return Ok(());
        }
        let labels = self.session.view().info().labels;
        let minutes = labels.get(LEASE_MINUTES).and_then(|minutes| minutes.parse::<u32>().ok());
        let Some(minutes) = minutes else {
            return Ok(());
        };
        self.extend_lease(Duration::from_secs(60 * u64::from(minutes)))?;
        if let (Some(record), Ownership::Claimed(claim)) = (&self.record, &mut self.ownership) {
            claim.set_about(record.text());
        }
        Ok(())
    }

    /// Seconds until its lease expires.
    pub(crate) fn lease_seconds(&self) -> Option<f64> {
        match &self.record {
            Some(record) => record.lease_seconds(),
            None => self.session.view().info().lease_seconds,
        }
    }
}

impl Service {
    /// Claims an owner's session by id or name, on any server.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError::NoSession`] if the session does not exist or belongs to another
    /// owner. Also fails if the store fails, or if another server does not release the session in
    /// time.
    pub(crate) async fn claim(
        &self,
        owner: &Owner,
        id: &str,
        access: Access,
    ) -> Result<ClaimedSession, ServiceError> {
        if matches!(access, Access::Write | Access::Run) {
            Box::pin(self.check_quota(owner)).await?;
        }
        let found = self.find(owner, id);
        let (session, ownership, record) = match (self.session_store(), found) {
            (Some(session_store), Err(ServiceError::NoSession { .. })) => {
                Box::pin(session_store.claim(owner, id, access)).await?
            }
            (_, found) => (found?, Ownership::Local, None),
        };
        let mut claimed = ClaimedSession {
            service: self.clone(),
            owner: owner.clone(),
            session,
            ownership,
            record,
        };
        claimed.renew_lease()?;
        Ok(claimed)
    }

    /// Runs a request in a claimed session after earlier requests, and releases it. Dropping the
    /// future interrupts the run; the session keeps what it did until then.
    ///
    /// # Errors
    ///
    /// Fails if the owner has reached a limit, as for [`belljar::Session::run`], and if the session
    /// was lost to another server.
    pub(crate) fn run_claimed(
        &self,
        owner: &Owner,
        at: ClaimedSession,
        request: Request,
    ) -> GuestFuture<Result<Outcome, ServiceError>> {
        let interrupt = request.interrupt.clone().unwrap_or_default();
        let running = self.run_keeping_claim(owner, at, request.interrupt(&interrupt));
        GuestFuture::new(Some(interrupt), async move {
            let (at, ran) = running.await;
            at.commit_run(&ran).await?;
            ran
        })
    }

    /// Runs a request in a claimed session without releasing it.
    pub(crate) fn run_keeping_claim(
        &self,
        owner: &Owner,
        mut at: ClaimedSession,
        mut request: Request,
    ) -> GuestFuture<(ClaimedSession, Result<Outcome, ServiceError>)> {
        let admitted = AdmittedWork::of_run(self, owner, Some(at.id()), &mut request);
        let interrupt = request.interrupt.clone();
        GuestFuture::new(interrupt, async move {
            let admitted = match admitted {
                Ok(admitted) => admitted,
                Err(error) => return (at, Err(error)),
            };
            let running = async {
                match &mut at.ownership {
                    Ownership::Claimed(claim) => claim.run(request).await,
                    Ownership::Local | Ownership::Reader { .. } => {
                        at.session.guest().run(request).await
                    }
                }
            };
            let ran = admitted.scope(Box::pin(running)).await.map_err(ServiceError::from);
            admitted.note(ran.as_ref());
            (at, ran)
        })
    }

    /// Continues a run that waits for answers of deferred tools. Dropping the future leaves the run
    /// waiting.
    ///
    /// # Errors
    ///
    /// Fails if the owner has reached a limit, or as for [`belljar::Session::answer`].
    pub(crate) async fn answer_claimed(
        &self,
        owner: &Owner,
        mut at: ClaimedSession,
        answers: Vec<ToolAnswer>,
    ) -> Result<Outcome, ServiceError> {
        let interrupt = Interrupt::new();
        let admitted = AdmittedWork::begin(&self.shared, owner, Work::Run, &interrupt, |record| {
            record.work = Some("answer".to_owned());
            record.session = Some(at.id().to_owned());
        })?;
        let answering = async {
            match &mut at.ownership {
                Ownership::Claimed(claim) => claim.answer(answers).await,
                Ownership::Local | Ownership::Reader { .. } => {
                    at.session.guest().answer(answers).await
                }
            }
        };
        let answered = admitted.scope(Box::pin(answering)).await.map_err(ServiceError::from);
        admitted.note(answered.as_ref());
        at.commit_run(&answered).await?;
        answered
    }
}

impl SessionStore {
    async fn claim(
        &self,
        owner: &Owner,
        id: &str,
        access: Access,
    ) -> Result<(OwnedSession, Ownership, Option<SessionRecord>), ServiceError> {
        let asked = id;
        let id = self.resolve_id(owner, asked).await?;
        let gone = |error: belljar::Error| match error {
            belljar::Error::Session(SessionError::NotFound { .. }) => no_session(asked),
            error => error.into(),
        };
        let (ownership, session, record, is_over) = if access == Access::Read {
            let reading = self.sessions.read(&id).await.map_err(gone)?;
            let (session, record) = (reading.session().clone(), SessionRecord::of(reading.info()));
            let is_over = record.as_ref().is_some_and(|record| record.is_over(reading.info()));
            (Ownership::Reader { _reading: reading }, session, record, is_over)
        } else {
            let claim = match access {
                Access::Run => self.sessions.claim_run(&id).await,
                _ => self.sessions.claim(&id).await,
            };
            let claim = claim.map_err(gone)?;
            let record: Option<SessionRecord> =
                serde_json::from_value(Value::Object(claim.about())).ok();
            let session = claim.session().clone();
            let is_over = record.as_ref().is_some_and(SessionRecord::is_closed);
            (Ownership::Claimed(claim), session, record, is_over)
        };
        let Some(record) = record.filter(|record| record.owner == owner.name()) else {
            return Err(no_session(asked));
        };
        if is_over {
            if let Ownership::Claimed(claim) = ownership {
                claim.release_unchanged().await?;
            }
            self.remove(owner.name(), &id, record.name.as_deref()).await?;
            return Err(no_session(asked));
        }
        if session.info().labels != record.labels {
            session.set_labels(record.labels.clone())?;
        }
        Ok((record.owned(session), ownership, Some(record)))
    }
}
