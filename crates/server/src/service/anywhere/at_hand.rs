//! A session in use: a session of this process, or a claimed session of the store.

use std::ops::Deref;
use std::time::{Duration, SystemTime};

use belljar::cluster::{Claim, Reading};
use belljar::error::SessionError;
use belljar::tool::ToolAnswer;
use belljar::{Interrupt, Outcome, Request};
use serde_json::Value;

use super::Anywhere;
use super::about::{About, Making, NewAbout, millis};
use super::bytes::bytes_of;
use crate::service::Service;
use crate::service::error::ServiceError;
use crate::service::held::{Held, no_session};
use crate::service::owner::{Owner, Work};
use crate::service::turn::{Attended, Turn};

/// What a session is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Reading only.
    Look,
    /// Changes that need no more storage.
    Change,
    /// Changes that may need more storage, of which some must be available.
    Write,
    /// Running code, which may also need more storage.
    Run,
}

/// A session in use. No other server changes it meanwhile.
pub(crate) struct AtHand {
    service: Service,
    owner: Owner,
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
    /// Releases the session after a change and waits until the change is visible to all servers.
    /// Without this call, it becomes visible later.
    pub(crate) async fn done(mut self) -> Result<(), ServiceError> {
        self.count().await;
        if let Hold::Having(mut claim) = self.hold {
            if let Some(mut about) = self.about {
                about.labels = self.held.session().info().labels;
                claim.set_about(about.text());
            }
            claim.release().await?;
        }
        Ok(())
    }

    /// Releases the session after a run, or after a run that did not start. Its changes become
    /// visible to all servers later. The caller waits only if this server may have lost the
    /// session, and gets that error.
    pub(crate) async fn done_after(
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
        match self.hold {
            Hold::Having(claim) if has_begun => claim.release_behind().await?,
            Hold::Having(claim) => claim.release_unchanged().await?,
            Hold::Here | Hold::Looking { .. } => {}
        }
        Ok(())
    }

    /// Measures its files if its owner has a limit. For a session in the store, this must precede
    /// the release, because the size is part of its record.
    async fn count(&mut self) {
        let (Some(about), Hold::Having(claim)) = (&mut self.about, &mut self.hold) else {
            return self.service.look(&self.owner, &self.held);
        };
        if self.owner.limits().stored_bytes.is_none() {
            return;
        }
        let bytes = bytes_of(&self.held.session().workspace()).await;
        about.bytes = Some(bytes);
        claim.set_about(about.text());
        if let Some(anywhere) = self.service.anywhere() {
            anywhere.note_bytes(self.owner.name(), self.held.id(), bytes);
        }
    }

    /// Properties of a session derived from this session.
    pub(in crate::service) fn another(&self, name: Option<String>) -> Making {
        let stored = self.about.as_ref().map(|about| NewAbout {
            lease: about.lease_left(),
            note: about.note.clone(),
        });
        Making {
            name,
            lease_end: self.held.lease_end(),
            stored,
        }
    }

    /// Releases the session without changes except its note.
    pub(crate) async fn leave(self) -> Result<(), ServiceError> {
        match self.hold {
            Hold::Having(claim) => Ok(claim.release_unchanged().await?),
            Hold::Here | Hold::Looking { .. } => Ok(()),
        }
    }

    /// The interface's data saved with a session in the store.
    pub(crate) fn note(&self) -> Option<&Value> {
        self.about.as_ref()?.note.as_ref()
    }

    /// Sets the interface's data, saved with the state.
    pub(crate) fn set_note(&mut self, note: Value) {
        if let (Some(about), Hold::Having(claim)) = (&mut self.about, &mut self.hold) {
            about.note = Some(note);
            claim.set_about(about.text());
        }
    }

    /// Sets the rest of its lease; returns false if it has no lease.
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

    /// Seconds until its lease expires.
    pub(crate) fn lease_seconds(&self) -> Option<f64> {
        match &self.about {
            Some(about) => about.lease_seconds(),
            None => self.held.session().info().lease_seconds,
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
    pub(crate) async fn at_hand(
        &self,
        owner: &Owner,
        id: &str,
        purpose: Use,
    ) -> Result<AtHand, ServiceError> {
        if matches!(purpose, Use::Write | Use::Run) {
            Box::pin(self.has_room(owner)).await?;
        }
        let found = self.find(owner, id);
        let (session, hold, about) = match (self.anywhere(), found) {
            (Some(anywhere), Err(ServiceError::NoSession { .. })) => {
                Box::pin(anywhere.at_hand(owner, id, purpose)).await?
            }
            (_, found) => (found?, Hold::Here, None),
        };
        Ok(AtHand {
            service: self.clone(),
            owner: owner.clone(),
            held: session,
            hold,
            about,
        })
    }

    /// Runs a request in a claimed session after earlier requests, and releases it. Dropping the
    /// future interrupts the run; the session keeps what it did until then.
    ///
    /// # Errors
    ///
    /// Fails if the owner has reached a limit, as for [`belljar::Session::run`], and if the session
    /// was lost to another server.
    pub(crate) fn run_at(
        &self,
        owner: &Owner,
        at: AtHand,
        request: Request,
    ) -> Attended<Result<Outcome, ServiceError>> {
        let interrupt = request.interrupt.clone().unwrap_or_default();
        let running = self.run_holding(owner, at, request.interrupt(&interrupt));
        Attended::new(Some(interrupt), async move {
            let (at, ran) = running.await;
            at.done_after(&ran).await?;
            ran
        })
    }

    /// Runs a request in a claimed session without releasing it.
    pub(crate) fn run_holding(
        &self,
        owner: &Owner,
        mut at: AtHand,
        mut request: Request,
    ) -> Attended<(AtHand, Result<Outcome, ServiceError>)> {
        let turn = Turn::of_run(self, owner, &mut request);
        let interrupt = request.interrupt.clone();
        Attended::new(interrupt, async move {
            let turn = match turn {
                Ok(turn) => turn,
                Err(error) => return (at, Err(error)),
            };
            let running = async {
                match &mut at.hold {
                    Hold::Having(claim) => claim.run(request).await,
                    Hold::Here | Hold::Looking { .. } => at.held.guest().run(request).await,
                }
            };
            let ran = turn.scope(Box::pin(running)).await.map_err(ServiceError::from);
            turn.note(ran.as_ref());
            (at, ran)
        })
    }

    /// Continues a run that waits for answers of deferred tools. Dropping the future leaves the run
    /// waiting.
    ///
    /// # Errors
    ///
    /// Fails if the owner has reached a limit, or as for [`belljar::Session::answer`].
    pub(crate) async fn answer_at(
        &self,
        owner: &Owner,
        mut at: AtHand,
        answers: Vec<ToolAnswer>,
    ) -> Result<Outcome, ServiceError> {
        let turn = Turn::begin(&self.shared, owner, Work::Run, &Interrupt::new())?;
        let answering = async {
            match &mut at.hold {
                Hold::Having(claim) => claim.answer(answers).await,
                Hold::Here | Hold::Looking { .. } => at.held.guest().answer(answers).await,
            }
        };
        let answered = turn.scope(Box::pin(answering)).await.map_err(ServiceError::from);
        turn.note(answered.as_ref());
        at.done_after(&answered).await?;
        answered
    }
}

impl Anywhere {
    async fn at_hand(
        &self,
        owner: &Owner,
        id: &str,
        purpose: Use,
    ) -> Result<(Held, Hold, Option<About>), ServiceError> {
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
        Ok((about.held(session), hold, Some(about)))
    }
}
